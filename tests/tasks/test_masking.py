"""Masked environments show exact entries of the full observation."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.wrappers import FlattenObservation

from resel.errors import ConfigError, UnsupportedSpaceError
from resel.tasks import make_env, mask

MASKED = [
    ("Pendulum-P-v0", "Pendulum-v1", [0, 1]),
    ("Pendulum-V-v0", "Pendulum-v1", [2]),
    ("CartPole-P-v0", "CartPole-v1", [0, 2]),
    ("CartPole-V-v0", "CartPole-v1", [1, 3]),
    ("MountainCarContinuous-P-v0", "MountainCarContinuous-v0", [0]),
]


@pytest.mark.parametrize(("task", "base", "keep"), MASKED)
def test_observations_are_entries_of_the_base(task: str, base: str, keep: list[int]) -> None:
    ours, full = make_env(task), gymnasium.make(base)
    full.action_space.seed(0)
    for seed in range(3):
        seen, _ = ours.reset(seed=seed)
        whole, _ = full.reset(seed=seed)
        np.testing.assert_array_equal(seen, whole[keep])
        over = False
        while not over:
            action = full.action_space.sample()
            seen, reward, *ends, _ = ours.step(action)
            whole, full_reward, *full_ends, _ = full.step(action)
            np.testing.assert_array_equal(seen, whole[keep])
            assert seen.dtype == whole.dtype
            assert (reward, ends) == (full_reward, full_ends)
            over = any(ends)
    assert ours.observation_space.contains(seen)
    np.testing.assert_array_equal(ours.observation_space.high, full.observation_space.high[keep])


@pytest.mark.parametrize("suffix", ["P", "V"])
def test_pendulum_is_truncated_at_200(suffix: str) -> None:
    env = make_env(f"Pendulum-{suffix}-v0")
    env.reset(seed=1)
    ends = [env.step(env.action_space.sample())[2:4] for _ in range(200)]
    assert ends == [(False, False)] * 199 + [(False, True)]


@pytest.mark.parametrize("suffix", ["P", "V"])
def test_cartpole_terminates_on_a_fall(suffix: str) -> None:
    env = make_env(f"CartPole-{suffix}-v0")
    assert env.spec is not None and env.spec.max_episode_steps == 500
    env.reset(seed=1)
    for _ in range(50):
        _, _, terminated, truncated, _ = env.step(0)
        assert not truncated
        if terminated:
            break
    assert terminated


def test_cartpole_is_truncated_at_500() -> None:
    env = make_env("CartPole-P-v0")
    env.reset(seed=1)
    for step in range(1, 501):
        state: Any = env.unwrapped
        # Push towards where the pole leans, which balances for the whole episode.
        action = int(state.state[2] + 0.5 * state.state[3] + 0.1 * state.state[1] > 0)
        _, _, terminated, truncated, _ = env.step(action)
        assert not terminated
        assert truncated == (step == 500)


def test_mask_keeps_the_order_asked_for() -> None:
    env = mask(gymnasium.make("CartPole-v1"), keep=[3, 0])
    full, _ = gymnasium.make("CartPole-v1").reset(seed=5)
    seen, _ = env.reset(seed=5)
    np.testing.assert_array_equal(seen, full[[3, 0]])
    assert env.observation_space.shape == (2,)


def test_a_masked_environment_can_be_rebuilt_from_its_spec() -> None:
    env = mask(gymnasium.make("CartPole-v1"), keep=np.array([1]))
    assert env.spec is not None
    again = gymnasium.make(env.spec)
    np.testing.assert_array_equal(again.reset(seed=2)[0], env.reset(seed=2)[0])


@pytest.mark.parametrize(
    ("keep", "message"),
    [
        ([], r"keep=\[\] leaves nothing to observe"),
        ([4], r"keep=\[4\] holds 4, but the entries go from 0 to 3"),
        ([-1], "holds -1"),
        ([1, 1], r"keep=\[1, 1\] names an entry twice"),
        ([0.5], "holds 0.5, which is not an integer"),
        ([True], "holds True, which is not an integer"),
    ],
)
def test_bad_indices(keep: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        mask(gymnasium.make("CartPole-v1"), keep=keep)


def test_only_vectors_can_be_masked() -> None:
    env = gymnasium.make("FrozenLake-v1")
    with pytest.raises(UnsupportedSpaceError, match="1-D Box observation only, not from Discrete"):
        mask(env, keep=[0])
    assert mask(FlattenObservation(env), keep=[0]).observation_space.shape == (1,)
