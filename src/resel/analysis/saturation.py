"""Whether a policy's outputs can show a change at all.

Where tanh(mean) lies at a bound, or one probability takes all, an update hardly moves the output,
whatever it did to the memory. Factors measured there speak of the squashing or of rounding.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

NOISE = 1e-6
"""Distances up to this are rounding: some sixteen units in the last place of a float32 near 1."""
_BOUND = 0.999
_MOST = 0.9


@dataclass(frozen=True)
class Saturation:
    """Shares of the recorded outputs that lie at their bounds."""

    first: float
    """At the first step."""
    converged: float
    """In the steps over which the converged variation is taken."""

    @property
    def at_first(self) -> bool:
        """Whether nearly all first outputs are saturated: they cannot be the unit of a factor."""
        return self.first >= _MOST

    def doubt(self) -> str | None:
        """In words, that nothing can be learned from these outputs; None if something can."""
        if self.converged < _MOST:
            return None
        return (
            f"The policy is saturated: {self.converged:.0%} of what it puts out late in the "
            f"episodes lies at a bound (beyond {_BOUND:g} of 1), where an update hardly moves it, "
            "whatever it did to the memory. No factor and no LR_CE follow from this measurement; "
            "diagnose the run earlier in training, while its policy still hesitates."
        )


def saturation_of(
    outputs: Sequence[NDArray[np.float64]], discrete: bool, steps: int, last: int
) -> Saturation:
    """From the outputs (L, A) of each episode, over the `last` of the first `steps` steps."""
    # Of probabilities the largest tells: at 1 it leaves none to the others.
    at_bound = [
        (episode.max(-1, keepdims=True) if discrete else np.abs(episode)) >= _BOUND
        for episode in outputs
    ]
    late = np.concatenate([episode[steps - last : steps] for episode in at_bound])
    return Saturation(
        first=float(np.mean([episode[0] for episode in at_bound])), converged=float(late.mean())
    )
