"""Dynamics-randomised tasks: MuJoCo robots under a gravity that changes with every episode."""

from __future__ import annotations

from collections.abc import Iterator

from resel.tasks.simulators import MUJOCO
from resel.tasks.spec import TaskSpec

_SIZES = {
    "Ant": (27, 8),
    "HalfCheetah": (17, 6),
    "Hopper": (11, 3),
    "Humanoid": (376, 17),
    "Walker2d": (17, 6),
}


def tasks() -> Iterator[TaskSpec]:
    """The family, in the order it is listed."""
    for robot, (observation_size, action_size) in _SIZES.items():
        yield TaskSpec(
            id=f"{robot}-gravity-v0",
            family="gravity",
            summary=f"Run with MuJoCo's {robot} under an unseen gravity.",
            entry_point="resel.tasks.randomize:gravity_env",
            kwargs={"robot": robot},
            evaluation_kwargs={"split": "test"},
            horizon=1000,
            observation_size=observation_size,
            action_size=action_size,
            settings={"steps": 2_000_000, "eval_every": 5000, "eval_episodes": 20},
            needs=MUJOCO,
            critic_observations="hidden",
        )
