"""Playing episodes in the simulators' tasks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np
import pytest


class Episode:
    """Everything one episode of random actions gave."""

    def __init__(self, env: gymnasium.Env[Any, Any], seed: int | None, steps: int) -> None:
        rng = np.random.default_rng(seed)
        observation, self.info = env.reset(seed=seed)
        self.observations, self.actions = [observation], []
        self.rewards: list[float] = []
        self.infos: list[dict[str, Any]] = []
        self.terminated = self.truncated = False
        while len(self.rewards) < steps and not (self.terminated or self.truncated):
            action: Any
            if isinstance(env.action_space, gymnasium.spaces.Box):
                low, high = env.action_space.low, env.action_space.high
                action = rng.uniform(low, high).astype(np.float32)
            else:
                action = int(rng.integers(4))
            observation, reward, self.terminated, self.truncated, info = env.step(action)
            self.observations.append(observation)
            self.actions.append(action)
            self.rewards.append(float(reward))
            self.infos.append(info)

    def same(self, other: Episode) -> bool:
        """Whether not a single bit differs."""
        return (
            len(self.rewards) == len(other.rewards)
            and np.array_equal(np.stack(self.observations), np.stack(other.observations))
            and self.rewards == other.rewards
            and (self.terminated, self.truncated) == (other.terminated, other.truncated)
        )


@pytest.fixture(scope="session")
def play() -> Callable[..., Episode]:
    """Plays an episode of random actions, drawn from the seed as well."""

    def episode(env: gymnasium.Env[Any, Any], seed: int | None = 0, steps: int = 10_000) -> Episode:
        return Episode(env, seed, steps)

    return episode


@pytest.fixture(scope="session")
def repeats(play: Callable[..., Episode]) -> Callable[[Callable[[], Any]], None]:
    """Checks that seeds alone decide: new or used environments, alone or side by side."""

    def check(make: Callable[[], Any]) -> None:
        steps = 60
        one, other = make(), make()
        first = play(one, 1, steps)
        assert play(other, 1, steps).same(first)  # both in their very first episode
        assert not play(one, 2, steps).same(first)
        one.reset(seed=5)
        play(other, 3, 7)  # disturbs neither the episode of `one` nor its own next
        assert play(one, 1, steps).same(first) and play(other, 1, steps).same(first)
        # Resets without a seed go on from the last one.
        starts = []
        for env in (one, other):
            play(env, 4, 3)
            starts.append([env.reset()[0] for _ in range(3)])
        assert np.array_equal(*starts)
        # Stepped in turns as alone.
        for env in (one, other):
            env.reset(seed=1)
        for action, expected in zip(first.actions, first.observations[1:], strict=True):
            for env in (one, other):
                assert np.array_equal(env.step(action)[0], expected)
        one.close()
        other.close()

    return check
