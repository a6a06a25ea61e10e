"""Another runtime of a policy against what the library did: the same steps, run again."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from resel.deploy._vectors import Vectors

TOLERANCE = 1e-5
"""Of actions in [-1, 1], and of logits."""

Step = Callable[[Mapping[str, NDArray[Any]]], Mapping[str, NDArray[Any]]]
"""Inputs by name to outputs by name."""


@dataclass(frozen=True)
class Outcome:
    """How far another runtime is from what was expected."""

    steps: int
    """Compared, over all rows."""
    worst: float | None
    """The largest difference: of actions in [-1, 1], or of logits; None where a test of its own
    has been run instead."""

    @property
    def good(self) -> bool:
        """Whether it is the same policy."""
        return self.steps > 0 and (self.worst is None or self.worst <= TOLERANCE)


def compare(
    step: Step, vectors: Vectors, document: Mapping[str, Any], steps: int | None = None
) -> Outcome:
    """Run the steps again and look at what comes out.

    Of two Discrete actions that are as good as each other either may be taken; after another one
    nothing can be compared until the episode ends.
    """
    rows, sizes = vectors.start.shape[1], document["state"]
    h = np.zeros((1, rows, sizes["h_size"]), np.float32)
    c = np.zeros((1, rows, sizes["c_size"]), np.float32)
    lost, counted, worst = np.zeros(rows, np.bool_), 0, 0.0
    reach = _reach(document)
    for t in range(len(vectors.start) if steps is None else steps):
        begins = vectors.start[t]
        lost &= ~begins
        h[0, begins], c[0, begins] = 0, 0
        feed = {name: values[t] for name, values in vectors.inputs.items()} | {"h_in": h}
        found = step(feed | ({"c_in": c} if sizes["c_size"] else {}))
        h, c = found["h_out"].copy(), found.get("c_out", c).copy()
        wanted = {name: values[t] for name, values in vectors.outputs.items()}
        if "logits" in wanted:
            scale = np.maximum(np.abs(wanted["logits"]), 1.0)
            apart = np.abs(found["logits"] - wanted["logits"]) / scale
            other = (found["actions"] != wanted["actions"]).any(-1)
            lottery = vectors.inputs["noise"][t] if "noise" in vectors.inputs else 0.0
            best = np.sort(wanted["logits"] + lottery, -1)[:, -2:]
            tied = best[:, 0] >= best[:, -1] - TOLERANCE * scale.max(-1)
            apart = np.where((other & ~tied)[:, None], np.inf, apart)
        else:
            apart = np.abs(found["actions"] - wanted["actions"]) / reach
            other = np.zeros(rows, np.bool_)
        seen = apart[~lost]
        counted += len(seen)
        worst = max(worst, float(np.nan_to_num(seen, nan=np.inf).max(initial=0.0)))
        lost |= other
    return Outcome(counted, worst)


def _reach(document: Mapping[str, Any]) -> NDArray[np.float64]:
    """What one unit of the networks' Box actions is in the environment's own."""
    space = document["action"]["space"]
    if space["type"] != "Box":
        return np.ones(1)
    low, high = (np.asarray(space[end], np.float64).reshape(-1) for end in ("low", "high"))
    reach = high / 2 - low / 2
    # Rounding of large numbers is nobody's fault.
    return np.maximum(np.where(reach > 0, reach, 1.0), 0.1 * np.abs(high / 2 + low / 2))
