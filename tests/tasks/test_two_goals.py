"""Two goals: a trial of two episodes in which one of two places pays."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from resel.errors import ConfigError
from resel.tasks import get_task, make_env

PLACES = np.array([[-0.5, 0.5], [0.5, 0.5]])
Aim = Callable[[dict[str, int], NDArray[Any], float], NDArray[Any]]


def both_returns(env: Any, task: int, aim: Aim) -> list[float]:
    """The returns of both episodes of whoever moves straight to where it aims."""
    env.reset(options={"task": task})
    position, reward, ended = np.zeros(2), 0.0, False
    returns, known = [0.0, 0.0], dict[str, int]()
    while not ended:
        move = np.clip(aim(known, position, reward) - position, -0.1, 0.1)
        seen, reward, terminated, ended, info = env.step(move.astype(np.float32))
        assert not terminated and info["task"] == task
        returns[info["episode"]] += reward
        position = np.zeros(2) if seen[2] else seen[:2]
    return returns


def test_who_tries_and_remembers_and_who_does_not() -> None:
    def clever(known: dict[str, int], position: NDArray[Any], reward: float) -> NDArray[Any]:
        tries = known.setdefault("tries", 0)
        if not reward and "found" not in known and np.hypot(*(position - PLACES[tries])) <= 0.3:
            known["tries"] = 1
        elif reward:
            known["found"] = tries
        return PLACES[known["tries"]]

    env = make_env("TwoGoals-v0")
    best = [both_returns(env, task, clever) for task in (0, 1)]
    assert best == [[18.0, 18.0], [13.0, 18.0]]
    blind = [sum(both_returns(env, task, lambda *_: PLACES[1])) for task in (0, 1)]
    assert blind == [0.0, 36.0]
    threshold = get_task("TwoGoals-v0").threshold  # type: ignore[union-attr]
    assert threshold is not None and np.mean(blind) < threshold < np.sum(best) / 2


def test_a_trial_is_two_episodes_with_one_goal(play: Any) -> None:
    env = make_env("TwoGoals-v0")
    for seed in (0, 1):
        trial = play(env, seed)
        assert len(trial.rewards) == 40 and trial.truncated and not trial.terminated
        flags = [int(o[-1]) for o in trial.observations]
        assert [i for i, flag in enumerate(flags) if flag] == [20, 40]
        assert {i["task"] for i in trial.infos} == {seed}
        position = np.zeros(2)
        for i, (action, info) in enumerate(zip(trial.actions, trial.infos, strict=True)):
            position = position + action
            np.testing.assert_allclose(trial.observations[i + 1][:2], position, atol=1e-6)
            assert trial.rewards[i] == float(np.hypot(*(position - PLACES[seed])) <= 0.3)
            assert info["hidden"].tolist() == [seed]
            position = np.zeros(2) if i == 19 else position


def test_the_first_observation_never_tells_the_goal() -> None:
    env = make_env("TwoGoals-v0")
    for task in (0, 1):
        assert env.reset(options={"task": task})[0].tolist() == [0, 0, 0]


def test_a_picture_shows_both_places() -> None:
    env = make_env("TwoGoals-v0", render_mode="rgb_array")
    pictures = [env.reset(options={"task": task}) and env.render() for task in (0, 1)]
    np.testing.assert_array_equal(*pictures)
    with pytest.raises(ConfigError, match="render_mode='ansi' is not known"):
        make_env("TwoGoals-v0", render_mode="ansi")
