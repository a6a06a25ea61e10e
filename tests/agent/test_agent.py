"""The face a library user sees: learn, predict, save, load."""

from __future__ import annotations

import json
import math
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium import spaces

import resel
from resel import RESeL, configure
from resel.config import Config
from resel.envs import CheckedEnv
from resel.errors import (
    BadInputError,
    ConfigError,
    DamagedFileError,
    DivergedError,
    ReselError,
    RunDirectoryError,
    StorageError,
    UnknownTaskError,
    UnsupportedSpaceError,
)
from resel.networks import ContextInputs
from resel.runs import write_bundle

BOX, DISCRETE = "toy/Box-v0", "toy/Discrete-v0"


@pytest.fixture(scope="module")
def trained(tiny: dict[str, Any]) -> dict[str, RESeL]:
    return {
        task: RESeL(task, **tiny, normalize_observations=True).learn(45) for task in (BOX, DISCRETE)
    }


def weights(agent: RESeL) -> dict[str, torch.Tensor]:
    return {k: v.clone() for k, v in agent._trainer.learner.weights().items()}


def same_weights(a: RESeL, b: RESeL) -> bool:
    one, other = weights(a), weights(b)
    return one.keys() == other.keys() and all(torch.equal(one[k], other[k]) for k in one)


def observations(count: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(count, 3)).astype(np.float32)


def walk(agent: RESeL, seen: np.ndarray, **how: Any) -> np.ndarray:
    """The actions for a sequence of observations, one at a time."""
    state, actions = None, []
    for observation in seen:
        action, state = agent.predict(observation, state, **how)
        actions.append(action)
    return np.array(actions)


# Learning


def test_name_instance_and_factory_learn_alike(toy: Any, tiny: dict[str, Any]) -> None:
    named = RESeL(BOX, preset="paper", **tiny).learn(45)
    made = RESeL(lambda: toy(), preset="paper", **tiny).learn(45)
    given = RESeL(toy(), preset="paper", **tiny).learn(45)
    assert same_weights(named, made) and same_weights(named, given)
    assert named.config.task == BOX and made.config.task == given.config.task == ""


def test_learning_twice_continues(tiny: dict[str, Any]) -> None:
    once, twice = RESeL(BOX, **tiny), RESeL(BOX, **tiny)
    assert twice.num_timesteps == 0
    assert once.learn(50) is once
    twice.learn(20)
    assert twice.num_timesteps == 20
    twice.learn(30)
    assert twice.num_timesteps == once.num_timesteps == 50
    assert same_weights(once, twice)


@pytest.mark.parametrize(
    "steps", [0, -1, 1.5, True, "100", None, math.nan, math.inf, np.float64(0.5)]
)
def test_steps_that_cannot_be(tiny: dict[str, Any], steps: Any) -> None:
    agent = RESeL(BOX, **tiny)
    with pytest.raises(ConfigError, match=r"^learn\("):
        agent.learn(steps)
    assert agent.num_timesteps == 0


def test_whole_floats_are_steps(tiny: dict[str, Any]) -> None:
    assert RESeL(BOX, **tiny).learn(1e1).num_timesteps == 10
    assert RESeL(BOX, **tiny).learn(np.int64(4)).num_timesteps == 4


def test_callbacks_and_evaluations(tiny: dict[str, Any], capsys: Any) -> None:
    agent = RESeL(BOX, **{**tiny, "eval_every": 5})
    steps: list[int] = []
    agent.learn(50, callback=lambda p: steps.append(p.step))
    assert steps == list(range(1, 51))
    agent.learn(50, callback=[lambda p: None, lambda p: p.step < 60], progress_bar=True)
    assert agent.num_timesteps == 60
    assert [step for step, _, _ in agent.evaluations] == list(range(0, 61, 5))
    assert "60/100" in capsys.readouterr().out


def test_several_environments(tiny: dict[str, Any], toy: Any) -> None:
    worlds: list[Any] = []

    def make() -> Any:
        worlds.append(toy())
        return worlds[-1]

    agent = RESeL(make, preset="paper", **tiny, num_envs=3).learn(33)
    assert agent.num_timesteps == 33 and len(worlds) == 4  # one of them to evaluate in
    assert [len(world.taken) for world in worlds] == [11, 11, 11, 0]
    agent.close()
    assert all(world.closed for world in worlds)


def test_one_environment_cannot_be_several(tiny: dict[str, Any], toy: Any) -> None:
    with pytest.raises(ConfigError, match="num_envs=2"):
        RESeL(toy(), **tiny, num_envs=2)
    world = toy()
    with pytest.raises(ConfigError, match="one and the same"):
        RESeL(lambda: world, **tiny)
    agent = RESeL(world, **tiny)
    with pytest.raises(ConfigError, match="one and the same"):
        agent.learn(5, eval_env=world)


def test_evaluation_environment_of_the_caller(tiny: dict[str, Any], toy: Any) -> None:
    agent, watched = RESeL(toy(), **{**tiny, "eval_every": 10}), toy()
    agent.learn(20, eval_env=watched)
    assert [step for step, _, _ in agent.evaluations] == [0, 10, 20]
    assert len(watched.seeds) == 3 * tiny["eval_episodes"]
    with pytest.raises(UnsupportedSpaceError, match="eval_env"):
        agent.learn(5, eval_env=toy(discrete=True))
    assert agent.num_timesteps == 20


@pytest.mark.parametrize("given", ["name", "function"])
def test_evaluation_environments_are_given_like_others(
    tiny: dict[str, Any], toy: Any, given: str
) -> None:
    agent = RESeL(toy(), **{**tiny, "eval_every": 10})
    agent.learn(10, eval_env=BOX if given == "name" else toy)
    assert [step for step, _, _ in agent.evaluations] == [0, 10]


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"eval_env": 3}, "eval_env=3 is neither a name"),
        ({"eval_env": "Nowhere-v0"}, "no task or Gymnasium environment 'Nowhere-v0'"),
        ({"eval_env": DISCRETE}, "but eval_env has"),
        ({"callback": 3}, "callback=3 cannot be called: give a function"),
        ({"callback": [print, "x"]}, "cannot be called: give a function"),
    ],
)
def test_what_learn_cannot_use(tiny: dict[str, Any], wrong: dict[str, Any], message: str) -> None:
    agent = RESeL(BOX, **tiny)
    with pytest.raises(ReselError, match=message):
        agent.learn(10, **wrong)
    assert agent.num_timesteps == 0


def test_evaluating_between_two_calls_of_learn(tiny: dict[str, Any], toy: Any) -> None:
    """In the only environment there is: the unfinished episode must not go on in another."""
    agent = RESeL(toy(length=5, spread=0), **tiny)
    agent.learn(33)
    first = agent.evaluate(3)
    assert agent.evaluate(3) == first != agent.evaluate(3, seed=99)
    agent.learn(17)
    buffer = agent._trainer.buffer
    # 30 and 15 steps: 3 and 2 were of unfinished episodes
    assert [piece.length for piece in buffer] == [5] * 9
    assert all(buffer.blocks(piece)[0][:, 1].tolist() == [0, 1, 2, 3, 4, 5] for piece in buffer)
    with pytest.raises(ConfigError, match=r"evaluate\(0\)"):
        agent.evaluate(0)


def test_evaluating_with_other_arguments(tiny: dict[str, Any], toy: Any) -> None:
    agent = RESeL("TMaze-v0", **tiny, env_kwargs={"length": 4})
    usual = agent.evaluate(3)
    env = agent.make_evaluation_env({"length": 9})
    maze: Any = env.env.unwrapped
    assert maze.length == 9
    assert env.reset(0).shape == (3,)
    assert agent.evaluate(3) == usual and agent.config.training.env_kwargs == {"length": 4}
    with pytest.raises(ConfigError, match="has no argument 'depth': it has length"):
        agent.evaluate(3, env_kwargs={"depth": 9})
    with pytest.raises(ConfigError, match="environment without a name"):
        RESeL(toy, **tiny).evaluate(3, env_kwargs={"length": 9})
    with pytest.raises(ConfigError, match=r"made by its name.*functools\.partial"):
        RESeL(toy, **tiny, env_kwargs={"length": 9})
    pendulum = RESeL("Pendulum-v1", **tiny)
    assert pendulum.evaluate(1, env_kwargs={"g": 1.0}) != pendulum.evaluate(1)


def test_evaluating_in_an_environment_of_the_caller(tiny: dict[str, Any], toy: Any) -> None:
    agent = RESeL(toy, **tiny)
    own = toy()
    assert agent.evaluate(3, env=own) == agent.evaluate(3, env=toy) == agent.evaluate(3)
    assert own.reset(seed=1)  # it is not closed
    with pytest.raises(ConfigError, match="give one of the two"):
        agent.evaluate(3, env=toy, env_kwargs={"length": 9})
    with pytest.raises(UnsupportedSpaceError):
        agent.evaluate(3, env="CartPole-v1")
    with pytest.raises(ConfigError, match="env=3 is neither a name"):
        agent.evaluate(3, env=3)  # type: ignore[arg-type]


def test_evaluating_where_the_spaces_differ(tiny: dict[str, Any], toy: Any) -> None:
    agent = RESeL("FrozenLake-v1", **tiny)
    with pytest.raises(UnsupportedSpaceError, match=r"trained on spaces .* the evaluation env"):
        agent.evaluate(1, env_kwargs={"map_name": "8x8"})


def test_episodes_can_be_cut(tiny: dict[str, Any], toy: Any) -> None:
    for env in (BOX, toy(), toy):
        agent = RESeL(env, **tiny, max_episode_steps=3).learn(30)
        pieces = list(agent._trainer.buffer)
        assert [piece.length for piece in pieces] == [3] * 10
        assert not any(piece.terminated for piece in pieces)


def test_a_function_makes_a_single_one(tiny: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match="num_envs="):
        RESeL(lambda: gymnasium.make_vec(BOX, num_envs=2), **tiny)


@pytest.mark.parametrize("env", [3, None, lambda: "Pendulum-v1", lambda: None])
def test_what_is_no_environment(tiny: dict[str, Any], env: Any) -> None:
    with pytest.raises(ConfigError, match="env"):
        RESeL(env, **tiny)


# Settings


def test_explicit_beats_size_beats_preset() -> None:
    preset = configure("TMaze-v0")
    assert preset.encoder == "gru" and preset.network.width == preset.sized("tiny")["width"]
    sized = configure("TMaze-v0", size="small")
    assert sized.network.width == sized.sized("small")["width"] == 128
    assert sized.encoder == "gru"  # what the size does not speak of stays
    both = configure("TMaze-v0", size="small", width=24, encoder="mlp")
    assert both.network.width == 24 and both.encoder == "mlp"
    assert both.network.embedding == both.sized("small")["embedding"]
    assert configure("Pendulum-v1", preset="paper") == Config.build("Pendulum-v1")


def test_keywords_reach_the_agent(tiny: dict[str, Any]) -> None:
    agent = RESeL("TMaze-v0", size="tiny", **{**tiny, "gamma": 0.9})
    assert agent.config.algorithm.gamma == 0.9 and agent.config.network.width == 8
    assert agent._trainer.learner.config == agent.config


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"lr_polcy": 1e-3}, "Did you mean lr_policy"),
        ({"config": {"gamma": 0.9}}, "is a dict: it must be a resel.Config. Pass single settings"),
        ({"lr_ce": 1e-4}, r"Did you mean lr_context_encoder\?"),
        ({"lr": 1e-4}, r"Did you mean lr_context_encoder, lr_policy, lr_critic\?"),
        ({"learning_rate": 1e-4}, "Did you mean lr_context_encoder, lr_policy"),
        ({"encoder": "xyz"}, r"no encoder 'xyz'\. Choose one of mamba, gru, lstm, mlp"),
        ({"size": "huge"}, "choose one of paper, small, tiny"),
        ({"preset": "mine"}, "choose from paper"),
        ({"width": 0}, "width=0 is too small"),
        ({"width": 8.5}, "expected int"),
        ({"lr_policy": -1e-3}, "above 0"),
        ({"lr_critic": math.nan}, "above 0"),
        ({"gamma": 1.5}, "out of range"),
        ({"seed": True}, "expected int"),
        ({"n_critics": 1}, "lower subset_size or raise n_critics"),
        ({"device": "tpu"}, "'auto', 'cpu', 'cuda'"),
    ],
)
def test_wrong_settings(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        RESeL(BOX, **wrong)


def test_a_whole_config(tiny: dict[str, Any]) -> None:
    config = Config.build("somewhere else", tiny)
    agent = RESeL(BOX, config=config)
    assert agent.config == config.replace(task=BOX)
    for more in ({"gamma": 0.9}, {"size": "tiny"}, {"preset": "released"}):
        with pytest.raises(ConfigError, match="either config"):
            RESeL(BOX, config=config, **more)


def test_unknown_names() -> None:
    with pytest.raises(UnknownTaskError, match=r"TMaze-v0"):
        RESeL("TMaze")


# Predicting


def test_actions_are_in_the_units_of_the_space(trained: dict[str, RESeL]) -> None:
    for task, agent in trained.items():
        space = gymnasium.make(task).action_space
        one, _ = agent.predict(observations(1)[0])
        many, _ = agent.predict(observations(6))
        assert one in space and all(action in space for action in many)
        assert np.asarray(one).dtype == many.dtype == space.dtype
        assert many.shape == (6, *space.shape)


def test_the_bounds_of_the_space_are_reached(trained: dict[str, RESeL], monkeypatch: Any) -> None:
    agent = trained[BOX]
    for unit, native in ((-1, [-2, 0]), (0, [0, 0.5]), (1, [2, 1])):
        chosen = np.full((1, 2), unit, np.float32)
        monkeypatch.setattr(agent.actor, "choose", lambda p, g, chosen=chosen: chosen)
        assert agent.predict(observations(1)[0])[0].tolist() == native


@pytest.mark.parametrize("task", [BOX, DISCRETE])
@pytest.mark.parametrize("encoder", ["gru", "mamba"])
def test_a_loop_of_predict_is_the_policy_over_the_sequence(
    tiny: dict[str, Any], task: str, encoder: str
) -> None:
    settings = {**tiny, "encoder": encoder, "lr_policy": 1e-2}
    agent = RESeL(task, preset="paper", **settings).learn(45)
    learner, action_spec = agent._trainer.learner, agent._env.action
    seen = observations(12)
    actions = walk(agent, seen)
    stored = np.stack([np.atleast_1d(action_spec.from_env(a)) for a in actions])
    if learner.dims.discrete:
        stored = np.eye(learner.dims.action, dtype=np.float32)[stored[:, 0]]
    before = [np.vstack([np.zeros_like(x[:1]), x[:-1]]) for x in (seen, stored.astype(np.float32))]
    inputs = ContextInputs(*map(torch.from_numpy, (seen, *before)), torch.zeros(12, 1))
    start = torch.zeros(1, 12, dtype=torch.bool)
    with torch.no_grad():
        mode = learner.policy(ContextInputs(*(x[None] for x in inputs)), start).mode()[0].numpy()
    if learner.dims.discrete:
        assert (mode[:, 0] + 1).tolist() == actions.tolist()  # Discrete(3, start=1)
    else:
        expected = np.stack([action_spec.to_env(a) for a in mode])
        np.testing.assert_allclose(actions, expected, atol=2e-5)
        assert np.ptp(actions, axis=0).max() > 1e-4  # it depends on what was seen


@pytest.mark.parametrize("task", [BOX, DISCRETE])
def test_rows_of_a_batch_are_separate(trained: dict[str, RESeL], task: str) -> None:
    agent = trained[task]
    sequences = [observations(8, seed) for seed in range(3)]
    state, together = None, []
    for time in range(8):
        actions, state = agent.predict(np.stack([s[time] for s in sequences]), state)
        together.append(actions)
    for row, sequence in enumerate(sequences):
        np.testing.assert_allclose(
            np.stack([actions[row] for actions in together]), walk(agent, sequence), atol=1e-5
        )


@pytest.mark.parametrize("task", [BOX, DISCRETE])
def test_episode_start_resets_single_rows(trained: dict[str, RESeL], task: str) -> None:
    agent = trained[task]
    _, state = agent.predict(observations(3, 1))
    _, state = agent.predict(observations(3, 2), state)
    now = observations(3, 3)
    going_on, after = agent.predict(now, state)
    fresh, fresh_after = agent.predict(now)
    mixed, mixed_after = agent.predict(now, state, [False, True, False])
    assert np.array_equal(mixed[[0, 2]], going_on[[0, 2]])
    assert np.array_equal(mixed[1], fresh[1])

    def rows(state: resel.PolicyState, row: int) -> list[torch.Tensor]:
        return [part[row] for part in (*state.hidden, state.observation, state.action)]

    for row, expected in enumerate((after, fresh_after, after)):
        assert all(map(torch.equal, rows(mixed_after, row), rows(expected, row)))
    assert not all(map(torch.equal, rows(after, 1), rows(fresh_after, 1)))


def test_episode_start_of_a_single_observation(trained: dict[str, RESeL]) -> None:
    agent, (first, second) = trained[BOX], observations(2)
    _, state = agent.predict(first)
    fresh, _ = agent.predict(second)
    for flag in (True, [True], np.array([True])):
        assert np.array_equal(agent.predict(second, state, flag)[0], fresh)
    going_on, _ = agent.predict(second, state, False)
    assert np.array_equal(going_on, agent.predict(second, state)[0])
    assert not np.array_equal(going_on, fresh)


def test_predict_does_not_change_the_state_it_was_given(trained: dict[str, RESeL]) -> None:
    agent, (first, second) = trained[BOX], observations(2)
    _, state = agent.predict(first)
    one, _ = agent.predict(second, state)
    agent.predict(first, state)
    assert np.array_equal(agent.predict(second, state)[0], one)


@pytest.mark.parametrize("task", [BOX, DISCRETE])
def test_stochastic_and_deterministic(trained: dict[str, RESeL], task: str) -> None:
    agent, batch = trained[task], observations(40)
    modes = [agent.predict(batch)[0] for _ in range(3)]
    assert all(np.array_equal(modes[0], other) for other in modes)
    drawn = [agent.predict(batch, deterministic=False)[0] for _ in range(3)]
    assert not np.array_equal(drawn[0], drawn[1]) and not np.array_equal(drawn[1], drawn[2])
    assert all(action in agent._env.action.space for action in drawn[0])


def test_sampling_is_reproducible_and_leaves_training_alone(tiny: dict[str, Any]) -> None:
    agents = [RESeL(BOX, **tiny).learn(35) for _ in range(3)]
    drawn = [walk(agent, observations(5), deterministic=False) for agent in agents[:2]]
    assert np.array_equal(*drawn)
    for agent in agents:
        agent.learn(15)
    assert same_weights(agents[0], agents[2])


@pytest.mark.parametrize(
    ("observation", "message"),
    [
        (np.zeros(4), r"shape \(4,\), expected \(3,\)"),
        (np.zeros((2, 4)), r"expected \(3,\)"),
        (np.zeros((2, 2, 3)), r"expected \(3,\)"),
        (np.float32([0, math.nan, 0]), "not finite: nan"),
        (np.float32([[0, 0, 0], [0, math.inf, 0]]), "not finite: inf"),
        (np.array(["a", "b", "c"]), "not an array of numbers"),
        ({"a": 1}, "not an array of numbers"),
        (None, "."),
        (0.5, r"shape \(\)"),
        ([[1, 2, 3], [1, 2]], "not an array of numbers"),
        (np.zeros((0, 3)), "without observations"),
    ],
)
def test_bad_observations(trained: dict[str, RESeL], observation: Any, message: str) -> None:
    with pytest.raises(BadInputError, match=message):
        trained[BOX].predict(observation)


def test_observations_of_other_dtypes_are_taken(trained: dict[str, RESeL]) -> None:
    agent = trained[BOX]
    expected, _ = agent.predict(np.float32([1, 2, 3]))
    for same in (np.array([1, 2, 3]), [1.0, 2.0, 3.0], np.float64([1, 2, 3])):
        assert np.array_equal(agent.predict(same)[0], expected)


def test_a_state_of_other_rows(trained: dict[str, RESeL]) -> None:
    agent = trained[BOX]
    _, state = agent.predict(observations(3))
    with pytest.raises(BadInputError, match="2 observations and a state of 3 rows"):
        agent.predict(observations(2), state)
    with pytest.raises(BadInputError, match="1 observations and a state of 3 rows"):
        agent.predict(observations(1)[0], state)
    with pytest.raises(BadInputError, match="episode_start has 2 entries for 3"):
        agent.predict(observations(3), state, [True, False])
    with pytest.raises(BadInputError, match="episode_start has 1 entries for 3"):
        agent.predict(observations(3), None, [True])


@pytest.mark.parametrize("other", [{"width": 12}, {"encoder": "lstm"}])
def test_a_state_of_another_agent(
    trained: dict[str, RESeL], tiny: dict[str, Any], other: dict[str, Any]
) -> None:
    for agent in (trained[DISCRETE], RESeL(BOX, **{**tiny, **other})):
        _, state = agent.predict(observations(1)[0])
        with pytest.raises(BadInputError, match="state of an agent with other sizes"):
            trained[BOX].predict(observations(1)[0], state)


def test_the_reward_where_it_is_an_input(tiny: dict[str, Any]) -> None:
    agent, (first, second) = RESeL(BOX, **tiny, reward_input=True), observations(2)
    _, state = agent.predict(first)
    with pytest.raises(BadInputError, match="reward="):
        agent.predict(second, state)
    one, _ = agent.predict(second, state, reward=0.0)
    other, _ = agent.predict(second, state, reward=5.0)
    assert not np.array_equal(one, other)
    fresh, _ = agent.predict(second)
    assert np.array_equal(agent.predict(second, state, True)[0], fresh)
    assert np.array_equal(agent.predict(second, state, True, reward=7.0)[0], fresh)
    for bad in (math.nan, [1.0, 2.0]):
        with pytest.raises(BadInputError, match="reward="):
            agent.predict(second, state, reward=bad)


def test_the_reward_where_it_is_none(trained: dict[str, RESeL]) -> None:
    agent, (first, second) = trained[BOX], observations(2)
    _, state = agent.predict(first)
    expected, _ = agent.predict(second, state)
    assert np.array_equal(agent.predict(second, state, reward=3.0)[0], expected)


def test_predict_follows_the_episode_as_training_does(tiny: dict[str, Any], toy: Any) -> None:
    """`evaluate` of the loop and a hand-written loop of `predict` play the same episode."""
    agent = RESeL(BOX, **tiny, reward_input=True, normalize_observations=True).learn(45)
    world = toy()
    seed = int(np.random.default_rng(11).integers(2**31 - 1))
    observation, _ = world.reset(seed=seed)
    state, reward, total, ended = None, 0.0, 0.0, False
    while not ended:
        action, state = agent.predict(observation, state, reward=reward)
        observation, reward, terminated, truncated, _ = world.step(action)
        total += reward
        ended = terminated or truncated
    assert agent.evaluate(1, seed=11) == (pytest.approx(total), 0.0)


def test_other_spaces(tiny: dict[str, Any]) -> None:
    class Mixed(gymnasium.Env[Any, Any]):
        observation_space = spaces.Dict({"a": spaces.Box(-1, 1, (2, 2)), "b": spaces.Discrete(3)})
        action_space = spaces.MultiDiscrete([2, 3])

        def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
            self.observation_space.seed(seed)
            self.left = 4
            return self.observation_space.sample(), {}

        def step(self, action: Any) -> Any:
            assert action in self.action_space
            self.left -= 1
            return self.observation_space.sample(), 1.0, self.left == 0, False, {}

    agent = RESeL(Mixed, **tiny).learn(45)
    one = Mixed.observation_space.sample()
    action, _ = agent.predict(one)
    assert action in Mixed.action_space
    actions, state = agent.predict([one, one])
    assert actions.shape == (2, 2) and state.rows == 2
    assert np.array_equal(actions[0], action)


# Saving and loading


@pytest.mark.parametrize("task", [BOX, DISCRETE])
def test_a_loaded_agent_is_the_same(trained: dict[str, RESeL], tmp_path: Path, task: str) -> None:
    agent = trained[task]
    agent.save(tmp_path / "agent")
    loaded = RESeL.load(tmp_path / "agent")
    assert same_weights(agent, loaded)
    assert loaded.config == agent.config.replace(device="auto")
    seen = observations(20)
    assert np.array_equal(walk(agent, seen), walk(loaded, seen))
    batch, _ = agent.predict(seen)
    assert np.array_equal(batch, loaded.predict(seen)[0])
    assert loaded.evaluate(3) == agent.evaluate(3)
    assert loaded.learn(35).num_timesteps == 35


def test_the_files_of_an_agent_run_no_code(trained: dict[str, RESeL], tmp_path: Path) -> None:
    trained[BOX].save(tmp_path / "agent")
    assert {p.suffix for p in (tmp_path / "agent").iterdir()} == {".json", ".safetensors"}


def test_an_agent_of_a_nameless_environment(tiny: dict[str, Any], toy: Any, tmp_path: Path) -> None:
    agent = RESeL(toy, **tiny, num_envs=2).learn(40)
    agent.save(tmp_path / "agent")
    with pytest.raises(ConfigError, match=r"load\(path, env="):
        RESeL.load(tmp_path / "agent")
    for env in (toy, toy(), BOX):
        assert same_weights(RESeL.load(tmp_path / "agent", env), agent)


def test_other_spaces_are_refused(trained: dict[str, RESeL], toy: Any, tmp_path: Path) -> None:
    trained[BOX].save(tmp_path / "agent")

    class Wider(toy):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.action_space = spaces.Box(-3, 3, (2,))

    for env in (DISCRETE, "TMaze-v0", Wider()):
        with pytest.raises(UnsupportedSpaceError, match="trained on spaces"):
            RESeL.load(tmp_path / "agent", env)


def _cut(folder: Path) -> None:
    file = folder / "weights.safetensors"
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])


def _flip(folder: Path) -> None:
    file = folder / "weights.safetensors"
    data = bytearray(file.read_bytes())
    data[-10] ^= 0x10
    file.write_bytes(bytes(data))


def _edit_config(folder: Path) -> None:
    file = folder / "agent.json"
    file.write_text(file.read_text().replace('"width": 8', '"width": 9'))


def _lose_weights(folder: Path) -> None:
    (folder / "weights.safetensors").unlink()


def _lose_manifest(folder: Path) -> None:
    (folder / "manifest.json").unlink()


def _foreign(folder: Path) -> None:
    shutil.rmtree(folder)
    folder.mkdir()
    (folder / "notes.txt").write_text("mine")


def _another_kind(folder: Path) -> None:
    shutil.rmtree(folder)
    write_bundle(folder, "checkpoint", {}, {"agent": {}})


def _empty_document(folder: Path) -> None:
    shutil.rmtree(folder)
    write_bundle(folder, "agent", {}, {"agent": {}})


def _document_of_another_type(folder: Path) -> None:
    shutil.rmtree(folder)
    write_bundle(folder, "agent", {}, {"agent": [1, 2]})


def _nan_weights(folder: Path) -> None:
    from resel.runs import read_bundle

    bundle = read_bundle(folder, "agent")
    bundle.tensors["weights"]["log_alpha"].fill_(math.nan)
    write_bundle(folder, "agent", bundle.tensors, bundle.documents)


def _weights_of_another_size(folder: Path) -> None:
    from resel.runs import read_bundle

    bundle = read_bundle(folder, "agent")
    bundle.documents["agent"]["config"]["network"]["width"] = 16
    write_bundle(folder, "agent", bundle.tensors, bundle.documents)


@pytest.mark.parametrize(
    "damage",
    [
        _cut,
        _flip,
        _edit_config,
        _lose_weights,
        _lose_manifest,
        _foreign,
        _another_kind,
        _empty_document,
        _document_of_another_type,
        _nan_weights,
        _weights_of_another_size,
    ],
)
def test_damaged_agents_are_refused(
    trained: dict[str, RESeL], tmp_path: Path, damage: Callable[[Path], None]
) -> None:
    agent = trained[BOX]
    before, actions = weights(agent), walk(agent, observations(5))
    agent.save(tmp_path / "agent")
    damage(tmp_path / "agent")
    with pytest.raises(DamagedFileError):
        RESeL.load(tmp_path / "agent")
    assert all(torch.equal(w, before[name]) for name, w in weights(agent).items())
    assert np.array_equal(walk(agent, observations(5)), actions)


def test_a_path_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(RunDirectoryError, match="no saved agent at"):
        RESeL.load(tmp_path / "nothing")


def test_a_failed_save_leaves_the_old_agent(
    tiny: dict[str, Any], tmp_path: Path, monkeypatch: Any
) -> None:
    agent = RESeL(BOX, **tiny).learn(35)
    agent.save(tmp_path / "agent")
    before = weights(agent)
    agent.learn(10)

    def full(*args: Any) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "write", full)
        with pytest.raises(StorageError, match="No space left"):
            agent.save(tmp_path / "agent")
    kept = weights(RESeL.load(tmp_path / "agent"))
    assert all(torch.equal(kept[name], before[name]) for name in before)
    assert [p.name for p in tmp_path.iterdir()] == ["agent"]
    agent.save(tmp_path / "agent")
    assert same_weights(RESeL.load(tmp_path / "agent"), agent)


def test_saving_does_not_replace_what_is_not_an_agent(
    trained: dict[str, RESeL], tmp_path: Path
) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("years of work")
    with pytest.raises(RunDirectoryError, match="will not be replaced"):
        trained[BOX].save(tmp_path / "mine")
    assert (tmp_path / "mine" / "thesis.txt").read_text() == "years of work"


def test_a_broken_policy_does_not_act(tiny: dict[str, Any]) -> None:
    for task in (BOX, DISCRETE):
        agent = RESeL(task, **tiny)
        with torch.no_grad():
            for weight in agent._trainer.learner.policy.parameters():
                weight.fill_(math.nan)
        for deterministic in (True, False):
            with pytest.raises(DivergedError, match="not finite"):
                agent.predict(observations(1)[0], deterministic=deterministic)


# The package


def test_errors_can_be_caught_as_one_or_as_python_s_own(trained: dict[str, RESeL]) -> None:
    with pytest.raises(ReselError):
        trained[BOX].predict(np.zeros(4))
    with pytest.raises(ValueError, match="shape"):
        trained[BOX].predict(np.zeros(4))


def test_public_names() -> None:
    assert all(hasattr(resel, name) for name in resel.__all__)
    assert CheckedEnv.__module__.startswith("resel.")


_IMPORT = """
import json, random, time
import numpy, torch, gymnasium, tyro  # what others may have imported before
made = []
init = gymnasium.Env.__new__
gymnasium.Env.__new__ = lambda cls, *a, **k: (made.append(cls), init(cls))[1]
def look():
    return [torch.get_num_threads(), torch.get_num_interop_threads(), torch.get_default_dtype(),
            torch.are_deterministic_algorithms_enabled(), torch.is_grad_enabled(),
            torch.get_rng_state().tolist(), repr(numpy.random.get_state()), repr(random.getstate()),
            numpy.geterr(), torch.get_float32_matmul_precision(), numpy.get_printoptions()]
torch.set_num_threads(2)
before = look()
started = time.perf_counter()
import resel
seconds = time.perf_counter() - started
after = look()
print(json.dumps({"same": repr(before) == repr(after), "made": len(made), "seconds": seconds}))
"""


def test_importing_has_no_side_effects(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error::UserWarning", "-c", _IMPORT],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        timeout=120,
        check=True,
    )
    told = json.loads(done.stdout)
    assert told["same"] and told["made"] == 0
    assert told["seconds"] < 5  # far less on an idle machine; a slip makes it much more
    assert done.stderr == "" and list(tmp_path.iterdir()) == []
