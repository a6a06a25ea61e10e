"""What the final figure of a run is taken over, and why a run may end before its last step."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple, TypeVar

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


def may_be_held(
    wanted: float,
    evaluations: Sequence[tuple[int, float, float]],
    count: int = HELD_EVALUATIONS,
) -> bool:
    """Whether the next evaluation could make a return one that is held."""
    return count == 1 or is_held(wanted, evaluations, count - 1)


class Ending(NamedTuple):
    """Why a training ended on purpose before its steps were taken."""

    reason: str
    held_return: float | None = None
    """The return that was asked for and reached, if that was the reason."""


def reached(wanted: float, count: int = HELD_EVALUATIONS) -> Ending:
    """The end of a training whose last evaluations have reached a return."""
    often = "the last evaluation" if count == 1 else f"each of the last {count} evaluations"
    return Ending(f"the return asked for, {wanted:g}, was reached in {often}", wanted)


def ending_by(callback: Any) -> Ending:
    """The end of a training by a callback, which may say why by an `ending` of its own."""
    own = getattr(callback, "ending", None)
    if isinstance(own, Ending):
        return own
    name = getattr(callback, "__name__", type(callback).__name__)
    return Ending("a callback returned False" + ("" if name == "<lambda>" else f" ({name})"))
