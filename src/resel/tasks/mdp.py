"""Fully observed MuJoCo tasks, under the names of the paper."""

from __future__ import annotations

from collections.abc import Iterator

from resel.tasks.simulators import MUJOCO
from resel.tasks.spec import TaskSpec

_SIZES = {
    "HalfCheetah": (17, 6),
    "Hopper": (11, 3),
    "Walker2d": (17, 6),
    "Ant": (27, 8),
    "Humanoid": (376, 17),
}


def tasks() -> Iterator[TaskSpec]:
    """The family, in the order it is listed."""
    for robot, (observation_size, action_size) in _SIZES.items():
        yield TaskSpec(
            id=f"{robot}-v2",
            family="MDP",
            summary=f"Run with MuJoCo's {robot}, everything seen.",
            entry_point="resel.tasks.simulators:bare_mujoco",
            kwargs={"robot": robot},
            horizon=1000,
            observation_size=observation_size,
            action_size=action_size,
            settings={"steps": 5_000_000, "eval_every": 5000, "eval_episodes": 5},
            needs=MUJOCO,
        )
