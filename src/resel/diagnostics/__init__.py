"""Measuring a policy: what an update does to its outputs, and what its context knows."""

from resel.diagnostics._picture import draw
from resel.diagnostics.amplification import (
    PAPER_RATES,
    Amplification,
    Rates,
    Variation,
    measure_amplification,
)
from resel.diagnostics.contexts import Contexts, context_embeddings, read_out_score
from resel.diagnostics.diagnosis import Diagnosis, diagnose
from resel.diagnostics.geometric import Effective

__all__ = [
    "PAPER_RATES",
    "Amplification",
    "Contexts",
    "Diagnosis",
    "Effective",
    "Rates",
    "Variation",
    "context_embeddings",
    "diagnose",
    "draw",
    "measure_amplification",
    "read_out_score",
]
