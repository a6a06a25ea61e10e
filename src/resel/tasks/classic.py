"""Classic POMDP tasks: robots of PyBullet that see positions or velocities alone."""

from __future__ import annotations

from collections.abc import Iterator

from resel.tasks.masking import UNSEEN
from resel.tasks.simulators import PYBULLET
from resel.tasks.spec import TaskSpec

_ROBOTS = (
    # name, class in PyBullet, joints, contact flags
    ("Ant", "Ant", 8, 4),
    ("HalfCheetah", "HalfCheetah", 6, 6),
    ("Hopper", "Hopper", 3, 1),
    ("Walker", "Walker2D", 6, 2),
)
_BODY = 8
"""Entries in front of the joints: height, sin and cos of the heading, velocity, roll, pitch."""
_BODY_VELOCITY = [3, 4, 5]


def velocities(joints: int) -> list[int]:
    """Where the full observation holds velocities of the body and of the joints."""
    return [*_BODY_VELOCITY, *range(_BODY + 1, _BODY + 2 * joints, 2)]


def tasks() -> Iterator[TaskSpec]:
    """The family, in the order it is listed."""
    for name, robot, joints, contacts in _ROBOTS:
        hidden = velocities(joints)
        rest = [i for i in range(_BODY + 2 * joints + contacts) if i not in hidden]
        for suffix, keep, seen in (
            ("P", rest, "positions and contacts"),
            ("V", hidden, "velocities"),
        ):
            id = f"{name}BLT-{suffix}-v0"
            yield TaskSpec(
                id=id,
                family="classic POMDP",
                summary=f"Run with PyBullet's {name} seeing only {seen}.",
                entry_point="resel.tasks.simulators:masked_bullet",
                kwargs={"robot": robot, "keep": keep},
                horizon=1000,
                observation_size=len(keep),
                action_size=joints,
                settings={"steps": 1_500_000, "eval_every": 5000, "eval_episodes": 5},
                needs=PYBULLET,
                critic_observations=UNSEEN,
            )
