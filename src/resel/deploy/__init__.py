"""A trained policy for machines without resel: ONNX, a loader, and steps to check them by."""

from resel.deploy._check import check_export, is_export
from resel.deploy._compare import TOLERANCE, Outcome
from resel.deploy._document import Batch
from resel.deploy._export import export_policy

__all__ = ["TOLERANCE", "Batch", "Outcome", "check_export", "export_policy", "is_export"]
