"""Classic meta-RL: the task is hidden and has to be found out from rewards."""

from __future__ import annotations

from collections.abc import Iterator

from resel.tasks.simulators import MUJOCO
from resel.tasks.spec import TaskSpec

_SETTINGS = {"steps": 5_000_000, "eval_every": 5000, "eval_episodes": 20}


_ROBOTS = (
    # name, entry point, sizes, evaluated on, what it asks
    ("AntDir", "ant_direction", (28, 8), "all", "Run in a hidden direction, left or right ahead."),
    ("CheetahDir", "cheetah_direction", (21, 6), "all", "Run forwards or backwards, as is paid."),
    ("HalfCheetahVel", "cheetah_velocity", (21, 6), "test", "Run at a hidden velocity."),
)


def tasks() -> Iterator[TaskSpec]:
    """The family, in the order it is listed."""
    for name, entry, (observation_size, action_size), held_out, summary in _ROBOTS:
        yield TaskSpec(
            id=f"{name}-v0",
            family="meta-RL",
            summary=summary,
            entry_point=f"resel.tasks.meta_mujoco:{entry}",
            evaluation_kwargs={"split": held_out},
            horizon=400,
            observation_size=observation_size,
            action_size=action_size,
            settings=_SETTINGS,
            needs=MUJOCO,
            critic_observations="hidden",
        )
    yield TaskSpec(
        id="Wind-v0",
        family="meta-RL",
        summary="Reach and hold a goal against an unseen wind.",
        entry_point="resel.tasks.wind:WindEnv",
        evaluation_kwargs={"split": "test"},
        horizon=75,
        observation_size=2,
        action_size=2,
        settings=_SETTINGS,
        critic_observations="hidden",
    )
