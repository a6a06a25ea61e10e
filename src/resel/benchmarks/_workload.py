"""Sizes of tasks that are measured without their simulators."""

from __future__ import annotations

from resel.networks import Dimensions

HALF_CHEETAH = Dimensions(17, 6, discrete=False)
HUMANOID = Dimensions(376, 17, discrete=False)
