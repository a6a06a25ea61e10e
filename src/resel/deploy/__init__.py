"""A trained policy for machines without resel: ONNX, a loader, and steps to check them by."""

from resel.deploy._check import check_export, open_policy
from resel.deploy._compare import TOLERANCE, Outcome, Step, compare
from resel.deploy._document import Batch, trained_range
from resel.deploy._export import export_policy
from resel.deploy._onnx import Session, onnx_model
from resel.deploy._step import PolicyStep, StepLayout
from resel.deploy._vectors import Vectors, expected

__all__ = [
    "TOLERANCE",
    "Batch",
    "Outcome",
    "PolicyStep",
    "Session",
    "Step",
    "StepLayout",
    "Vectors",
    "check_export",
    "compare",
    "expected",
    "export_policy",
    "onnx_model",
    "open_policy",
    "trained_range",
]
