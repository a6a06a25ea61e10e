"""A trained policy for machines without resel: ONNX, a loader, C, and steps to check them by."""

from resel.deploy._c import c_policy
from resel.deploy._c_graph import CannotWriteError
from resel.deploy._c_program import FLAGS, Answers, CProgram, compiled, find_compiler
from resel.deploy._c_vectors import Steps, acted_alone, comparable
from resel.deploy._check import check_export, open_policy
from resel.deploy._compare import TOLERANCE, Outcome, Step, compare
from resel.deploy._document import Batch, Limits, trained_range
from resel.deploy._export import export_policy
from resel.deploy._onnx import Session, onnx_model
from resel.deploy._step import PolicyStep, StepLayout
from resel.deploy._vectors import Vectors, expected

__all__ = [
    "FLAGS",
    "TOLERANCE",
    "Answers",
    "Batch",
    "CProgram",
    "CannotWriteError",
    "Limits",
    "Outcome",
    "PolicyStep",
    "Session",
    "Step",
    "StepLayout",
    "Steps",
    "Vectors",
    "acted_alone",
    "c_policy",
    "check_export",
    "comparable",
    "compare",
    "compiled",
    "expected",
    "export_policy",
    "find_compiler",
    "onnx_model",
    "open_policy",
    "trained_range",
]
