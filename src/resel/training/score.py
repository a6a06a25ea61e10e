"""What the final figure of a run is taken over, and when a run has reached what it is for."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeVar

FINAL_EVALUATIONS = 5
HELD_EVALUATIONS = 3
Evaluation = TypeVar("Evaluation", bound=tuple[float, ...])


def final_evaluations(evaluations: Iterable[Evaluation]) -> list[Evaluation]:
    """The last five of evaluations that begin with their step, or as many as there are.

    The one at step 0 never counts: it measures a policy that has learned nothing.
    """
    return [found for found in evaluations if found[0] > 0][-FINAL_EVALUATIONS:]


def is_held(
    wanted: float,
    evaluations: Sequence[tuple[int, float, float]],
    count: int = HELD_EVALUATIONS,
) -> bool:
    """Whether each of the last evaluations reached a return; step 0 is never one of them."""
    last = [mean for step, mean, _ in evaluations[-count:] if step > 0]
    return len(last) == count and all(mean >= wanted for mean in last)
