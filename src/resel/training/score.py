"""What the final figure of a run is taken over, and when a run has reached what it is for."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeVar

FINAL_EVALUATIONS = 5
HELD_EVALUATIONS = 3
Evaluation = TypeVar("Evaluation", bound=tuple[float, ...])


def final_evaluations(evaluations: Iterable[Evaluation], since: int | None) -> list[Evaluation]:
    """The last five of evaluations that begin with their step, or as many as there are.

    Only those from step `since` on count: before it nothing had been learned. None stands for a
    run that has not begun to learn.
    """
    if since is None:
        return []
    return [found for found in evaluations if found[0] >= since][-FINAL_EVALUATIONS:]


def learning_since(evaluations: Iterable[tuple[int, float | None]]) -> int | None:
    """The step of the first evaluation of a policy that had learned, from steps and updates.

    Older runs did not note the updates: there every evaluation but that of step 0 counts.
    """
    learned = (step for step, updates in evaluations if (step if updates is None else updates) > 0)
    return next(learned, None)


def is_held(
    wanted: float,
    evaluations: Sequence[tuple[int, float, float]],
    count: int = HELD_EVALUATIONS,
) -> bool:
    """Whether each of the last evaluations reached a return; step 0 is never one of them."""
    last = [mean for step, mean, _ in evaluations[-count:] if step > 0]
    return len(last) == count and all(mean >= wanted for mean in last)
