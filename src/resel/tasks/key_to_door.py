"""Credit assignment: key to door with ever longer distractions."""

from __future__ import annotations

from collections.abc import Iterator

from resel.tasks.spec import TaskSpec

_STEPS = {60: 3_400_000, 120: 5_800_000, 250: 8_250_000, 500: 7_900_000}
"""By length of the distraction. The paper gives none; these are those of Memory-RL."""
_PHASES = 25
"""Steps of the first and the last phase together."""


def tasks() -> Iterator[TaskSpec]:
    """The family, in the order it is listed."""
    for length, steps in _STEPS.items():
        yield TaskSpec(
            id=f"KeyToDoor-{length}-v0",
            family="credit assignment",
            summary=f"Take a key, pick apples for {length} steps, open the door.",
            entry_point="resel.tasks.key_to_door_env:KeyToDoorEnv",
            kwargs={"distractor": length},
            horizon=_PHASES + length,
            ends_itself=True,
            observation_size=75,
            action_size=4,
            settings={"steps": steps, "eval_every": 5000, "eval_episodes": 20},
        )
