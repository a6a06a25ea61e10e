"""What the final figure of a run is taken over."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

FINAL_EVALUATIONS = 5
Evaluation = TypeVar("Evaluation", bound=tuple[float, ...])


def final_evaluations(evaluations: Iterable[Evaluation]) -> list[Evaluation]:
    """The last five of evaluations that begin with their step, or as many as there are.

    The one at step 0 never counts: it measures a policy that has learned nothing.
    """
    return [found for found in evaluations if found[0] > 0][-FINAL_EVALUATIONS:]
