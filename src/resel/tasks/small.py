"""Small tasks that need memory and train in minutes on a CPU."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from resel.tasks.masking import UNSEEN
from resel.tasks.spec import TaskSpec

SETTINGS: dict[str, Any] = {
    "steps": 20_000,
    "buffer_steps": 100_000,
    "eval_every": 1000,
    "eval_episodes": 10,
    "checkpoint_every": 5000,
}
"""How a training of minutes is evaluated and kept."""
_PENDULUM = {"gamma": 0.96, "reward_scale": 0.1, "normalize_observations": True}
_CARTPOLE = {"gamma": 0.98, "reward_scale": 0.1, "normalize_observations": True}
_MOUNTAIN_CAR = {"gamma": 0.99, "reward_scale": 0.1, "normalize_observations": True}
_GRAVITY_SOLVED = -250.0
"""Nearly what `resel reproduce methods` calls 90 % of the way from an untrained policy to the best
method: -256."""
_TWO_GOALS = {"gamma": 0.95, "reward_input": True}
_TMAZE_LENGTH = 20


def tasks() -> Iterator[TaskSpec]:
    """The family, in the order it is listed."""
    for suffix, keep, seen, threshold in (
        ("P", [0, 1], "the angle", -170.0),
        ("V", [2], "the angular velocity", -200.0),
    ):
        yield TaskSpec(
            id=f"Pendulum-{suffix}-v0",
            family="small",
            summary=f"Swing up a pendulum seeing only {seen}.",
            entry_point="resel.tasks.masking:masked",
            kwargs={"base": "Pendulum-v1", "keep": keep},
            horizon=200,
            observation_size=len(keep),
            action_size=1,
            settings=SETTINGS,
            hints=_PENDULUM,
            critic_observations=UNSEEN,
            threshold=threshold,
        )
    yield TaskSpec(
        id="Pendulum-gravity-v0",
        family="small",
        summary="Swing up a pendulum under an unseen gravity.",
        entry_point="resel.tasks.randomize:gravity_env",
        # g from 6.7 to 15: much more, and torque and limit of speed no longer bring it up.
        kwargs={"robot": "Pendulum", "limit": 1.0},
        evaluation_kwargs={"split": "test"},
        horizon=200,
        observation_size=3,
        action_size=1,
        settings={**SETTINGS, "eval_episodes": 20},
        hints=_PENDULUM,
        critic_observations="hidden",
        threshold=_GRAVITY_SOLVED,
    )
    for suffix, keep, seen, threshold in (
        ("P", [0, 2], "the positions", 450.0),
        ("V", [1, 3], "the velocities", 400.0),
    ):
        yield TaskSpec(
            id=f"CartPole-{suffix}-v0",
            family="small",
            summary=f"Balance a pole on a cart seeing only {seen}.",
            entry_point="resel.tasks.masking:masked",
            kwargs={"base": "CartPole-v1", "keep": keep},
            horizon=500,
            observation_size=len(keep),
            action_size=2,
            settings=SETTINGS,
            hints=_CARTPOLE,
            critic_observations=UNSEEN,
            threshold=threshold,
        )
    yield TaskSpec(
        id="MountainCarContinuous-P-v0",
        family="small",
        summary="Drive an underpowered car up a hill seeing only where it is.",
        entry_point="resel.tasks.masking:masked",
        kwargs={"base": "MountainCarContinuous-v0", "keep": [0]},
        horizon=999,
        observation_size=1,
        action_size=1,
        settings=SETTINGS,
        hints=_MOUNTAIN_CAR,
        critic_observations=UNSEEN,
        threshold=90.0,
    )
    yield TaskSpec(
        id="TMaze-v0",
        family="small",
        summary="Remember the cue of the first step until the junction, then turn that way.",
        entry_point="resel.tasks.tmaze:TMazeEnv",
        kwargs={"length": _TMAZE_LENGTH},
        horizon=_TMAZE_LENGTH + 1,
        ends_itself=True,
        observation_size=3,
        action_size=4,
        settings={**SETTINGS, "eval_episodes": 50},
        critic_observations=UNSEEN,
        threshold=0.95,
    )
    yield TaskSpec(
        id="TwoGoals-v0",
        family="small",
        summary="Find out which of two places pays, and go there at once the second time.",
        entry_point="resel.tasks.two_goals:two_goals",
        horizon=40,
        observation_size=3,
        action_size=2,
        settings=SETTINGS,
        hints=_TWO_GOALS,
        critic_observations="hidden",
        threshold=30.0,
    )
