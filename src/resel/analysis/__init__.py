"""Looking at runs and policies: reading them back, statistics, pictures, the paper's numbers,
what an update does to a policy's outputs, and what its context knows."""

from resel.analysis._episode_picture import draw_episodes
from resel.analysis._picture import draw
from resel.analysis.amplification import (
    PAPER_RATES,
    Amplification,
    Rates,
    Variation,
    measure_amplification,
)
from resel.analysis.contexts import Contexts, context_embeddings, context_map, read_out_score
from resel.analysis.diagnosis import Diagnosis, diagnose
from resel.analysis.geometric import Effective

__all__ = [
    "PAPER_RATES",
    "Amplification",
    "Contexts",
    "Diagnosis",
    "Effective",
    "Rates",
    "Variation",
    "context_embeddings",
    "context_map",
    "diagnose",
    "draw",
    "draw_episodes",
    "measure_amplification",
    "read_out_score",
]
