"""The preset `auto`: what it chooses for environments nobody has made settings for."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

import resel
from resel.agent import configure, world_of
from resel.envs import CheckedEnv
from resel.errors import ConfigError
from resel.methods import AUTO_STEPS, World, auto_choices, get_method, own_methods

BOX = World(discrete=False, unit_observations=False, horizon=200)
GRID = World(discrete=True, unit_observations=True, horizon=20)


def chosen(world: World, steps: int = AUTO_STEPS, method: str = "resel") -> dict[str, Any]:
    return {c.name: c.value for c in auto_choices(get_method(method), world, steps)}


def test_it_is_the_default_where_nobody_made_settings() -> None:
    config = configure("Acrobot-v1", world=GRID)
    assert config.network.width == 64 and config.training.steps == AUTO_STEPS
    assert configure("Acrobot-v1") == configure("Acrobot-v1", world=world_of("Acrobot-v1", {}))
    assert configure("").network.width == 256, "nothing to look at"
    assert configure("Acrobot-v1", world=GRID, preset="paper").network.width == 256
    assert configure("Pendulum-V-v0", world=GRID) == configure("Pendulum-V-v0")
    assert configure("Pendulum-V-v0", world=GRID, preset="auto").algorithm.gamma == 0.95
    with pytest.raises(ConfigError, match="looks at the environment"):
        configure("", preset="auto")


def test_every_method_can_be_configured() -> None:
    for method in own_methods():
        for world in (BOX, GRID):
            config = configure("", method=method.name, preset="auto", world=world, steps=30_000)
            random = 0 if method.learner.on_policy else 1000
            assert config.training.warmup_steps == random
            assert all(c.reason for c in auto_choices(method, world, 30_000))
            if method.learner.on_policy:
                loop = config.training
                assert loop.exploration_epsilon == loop.deviation_episodes == 0
                assert loop.noise_hold == 1, "it learns from its own actions alone"


def test_the_presets_of_the_carts_are_what_it_chooses() -> None:
    for task in ("CartPole-P-v0", "CartPole-V-v0"):
        found = configure(task, preset="auto", world=world_of(task, {}), steps=20_000)
        assert found.replace(buffer_steps=100_000) == configure(task)


def test_rates_and_sizes_go_from_small_to_the_papers() -> None:
    found = [chosen(BOX, steps) for steps in (10_000, 50_000, 220_000, 1_000_000, 5_000_000)]
    assert [c["size"] for c in found] == ["tiny", "tiny", "small", "paper", "paper"]
    for name, first, last in (("lr_context_encoder", 3e-4, 1e-5), ("lr_critic", 3e-3, 1e-3)):
        rates = [c[name] for c in found]
        assert rates[0] == rates[1] == first and rates[-1] == rates[-2] == last
        assert first > rates[2] > last


@pytest.mark.parametrize(
    ("horizon", "gamma", "batch", "window"),
    [
        (20, 0.95, 400, None),
        (100, 0.95, 400, None),
        (200, 0.975, 400, 64),
        (500, 0.99, 500, 125),
        (5000, 0.99, 2000, 500),
        (None, 0.975, 400, None),
    ],
)
def test_discount_and_batch_follow_the_longest_episode(
    horizon: int | None, gamma: float, batch: int, window: int | None
) -> None:
    world = World(discrete=False, unit_observations=True, horizon=horizon)
    found = chosen(world)
    assert (found["gamma"], found["batch_steps"]) == (gamma, batch)
    assert found.get("context_length") == window
    assert "context_length" not in chosen(world, method="escp"), "windows of its own"
    assert chosen(world, method="varibad-off")["batch_steps"] == min(
        max(400, 2 * (horizon or 200)), 2000
    )


@pytest.mark.parametrize(("horizon", "hold"), [(20, 1), (200, 6), (500, 15), (5000, 32)])
@pytest.mark.parametrize("discrete", [True, False])
def test_random_actions_are_held_for_a_share_of_an_episode(
    horizon: int, hold: int, discrete: bool
) -> None:
    assert chosen(World(discrete, True, horizon))["noise_hold"] == hold


def test_exploration_fits_the_actions() -> None:
    assert chosen(GRID)["lr_final_scale"] == chosen(BOX)["lr_final_scale"] == 0.1
    assert chosen(GRID)["critic_entropy"] is False and chosen(GRID)["td_lambda"] == 0.9
    assert "exploration_epsilon" not in chosen(BOX) and "td_lambda" not in chosen(BOX)
    assert "deviation_episodes" not in chosen(BOX)
    assert chosen(BOX)["normalize_observations"] and not chosen(GRID)["normalize_observations"]


class Plain(gymnasium.Env[Any, Any]):
    """Tells its spaces and no more."""

    def __init__(self, observation: spaces.Space[Any], action: spaces.Space[Any]) -> None:
        self.observation_space, self.action_space = observation, action


@pytest.mark.parametrize(
    ("space", "unit"),
    [
        (spaces.Box(-1, 1, (2,)), True),
        (spaces.Box(0, 255, (2,)), False),
        (spaces.Box(-np.inf, np.inf, (2,)), False),
        (spaces.Box(np.float32([0, -np.inf]), np.float32([1, 1])), False),
        (spaces.Discrete(4), True),
        (spaces.Tuple([spaces.Discrete(3), spaces.MultiBinary(2)]), True),
    ],
)
def test_scales_of_observations_are_read_from_the_space(
    space: spaces.Space[Any], unit: bool
) -> None:
    world = World.of(CheckedEnv(Plain(space, spaces.Discrete(2))))
    assert world == World(discrete=True, unit_observations=unit, horizon=None)


def test_an_agent_looks_at_what_it_is_given() -> None:
    closed = []

    class Own(Plain):
        def close(self) -> None:
            closed.append(self)

    def make() -> Own:
        return Own(spaces.Box(-1, 1, (2,)), spaces.Discrete(2))

    assert world_of(make, {}) == World(True, True, None) and len(closed) == 1
    assert world_of(make(), {"max_episode_steps": 30}) == World(True, True, 30)
    assert len(closed) == 1, "the caller's own environment is not ours to close"
    assert world_of("CartPole-v1", {}) == World(True, False, 500)
    assert world_of("TMaze-v0", {"env_kwargs": {"length": 9}}) is not None
    assert world_of(3, {}) is None  # type: ignore[arg-type]
    agent = resel.RESeL("CartPole-v1", device="cpu", encoder="gru")
    assert agent.config.training.deviation_episodes > 0 and agent.config.network.width == 64
    assert {c.name for c in agent.choices} >= {"gamma", "size"}
    agent.close()


def test_a_short_training_has_a_short_warm_up() -> None:
    choices = auto_choices(get_method("resel"), World(True, True, 100), 900)
    assert {c.name: c.value for c in choices}["warmup_steps"] == 180
