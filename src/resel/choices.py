"""Words that people choose from, apart from what they choose: a parser needs no more of it."""

from __future__ import annotations

from typing import Literal

Which = Literal["last", "best"]
"""Agents of a run."""
CWeights = Literal["float32", "float16"]
"""Numbers of a policy in C."""
Scale = Literal["smoke", "cpu", "paper"]
"""Sizes of an experiment."""
EngineName = Literal["local", "ray", "slurm"]
"""What brings several runs to their end."""
PrunerName = Literal["median", "asha", "none"]
"""Which trials of a search are given up."""
