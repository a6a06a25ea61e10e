"""Critics that are told more than policies: they depend on it, and nothing that acts does."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import onnx
import pytest
import torch
from gymnasium import spaces
from method_cases import small_config

from resel import Agent, RESeL
from resel.data import Batch, ReplayBuffer, Trajectory
from resel.envs import CRITIC
from resel.errors import ConfigError, EnvironmentFault
from resel.methods import Learner, Method, build_learner, methods
from resel.networks import Dimensions
from resel.runs import read_bundle
from resel.tasks import all_tasks, is_installed, make_env

PRIVILEGED = [
    method
    for method in methods()[0]
    if "critic_observations" in {field.name for field in dataclasses.fields(method.settings)}
]
CASES = [(method, space) for method in PRIVILEGED for space in method.spaces]
every_case = pytest.mark.parametrize(
    ("method", "space"), CASES, ids=[f"{method.name}-{space}" for method, space in CASES]
)
SIGNAL = 2


def _learner(method: Method, space: str, privileged: int = SIGNAL, **settings: Any) -> Learner:
    dims = Dimensions(3, 2, discrete=space == "Discrete", privileged=privileged)
    config = small_config(method, critic_observations="hidden", **settings)
    return build_learner(config, dims, torch.device("cpu"))


def _batch(learner: Learner) -> Batch:
    dims, rng = learner.dims, np.random.default_rng(3)
    buffer = ReplayBuffer(1000, 3, 1 if dims.discrete else 2, {CRITIC: SIGNAL})
    for length in (6, 9, 4):
        shape = (length, 1 if dims.discrete else 2)
        drawn = rng.integers(2, size=shape) if dims.discrete else rng.uniform(-1, 1, shape)
        buffer.add(
            Trajectory(
                rng.standard_normal((length + 1, 3), np.float32),
                drawn.astype(np.float32),
                rng.standard_normal(length, np.float32),
                terminated=True,
                extras={CRITIC: rng.standard_normal((length + 1, SIGNAL), np.float32)},
            )
        )
    return learner.draw(buffer, rng)


def _perturbed(batch: Batch) -> Batch:
    return dataclasses.replace(batch, extras={CRITIC: batch.extras[CRITIC] + 1})


def test_the_methods_that_have_it() -> None:
    names = {method.name for method in PRIVILEGED}
    assert names == {"resel", "sac-gru", "mf-rnn", "sac-transformer", "gpide-ess"}
    with pytest.raises(ConfigError, match="td3 has no setting 'critic_observations': it belongs"):
        Agent("Pendulum-V-v0", method="td3", critic_observations="unseen")


@every_case
def test_the_critic_depends_on_the_signal_and_the_policy_does_not(
    method: Method, space: str
) -> None:
    learner = _learner(method, space)
    batch = _batch(learner)
    other = _perturbed(batch)
    (inputs, action), (again, _) = learner.inputs(batch), learner.inputs(other)
    assert all(torch.equal(one, two) for one, two in zip(inputs, again, strict=True))
    for critic in (learner.critic, learner.target_critic):
        q, changed = (
            critic.values_of(learner._embedded(critic, given, inputs), action)
            for given in (batch, other)
        )
        assert (q != changed)[:, batch.mask].all()  # at every step, for every head
    without = _learner(method, space, privileged=0)
    shapes = {n: t.shape for n, t in learner.policy.state_dict().items()}
    assert shapes == {n: t.shape for n, t in without.policy.state_dict().items()}


@every_case
def test_an_update_learns_from_the_signal(method: Method, space: str) -> None:
    one, two = (_learner(method, space, normalize_observations=True) for _ in range(2))
    batch = _batch(one)
    for _ in range(2):
        one.update(batch)
        two.update(_perturbed(batch))
    before = _learner(method, space).weights()
    for learner in (one, two):
        assert not torch.equal(
            torch.cat(
                [t.flatten() for n, t in learner.weights().items() if n.startswith("critic")]
            ),
            torch.cat([t.flatten() for n, t in before.items() if n.startswith("critic")]),
        )
    assert any(
        not torch.equal(tensor, two.weights()[name])
        for name, tensor in one.weights().items()
        if name.startswith("critic.")
    )


def test_without_a_signal_nothing_is_drawn_otherwise() -> None:
    ours = next(method for method in PRIVILEGED if method.name == "resel")
    told, plain = _learner(ours, "Box").weights(), _learner(ours, "Box", privileged=0).weights()
    assert all(torch.equal(told[name], tensor) for name, tensor in plain.items())
    assert {name for name in told if name not in plain and "normalizer" not in name} == {
        "critic.privileged.weight",
        "target_critic.privileged.weight",
    }


class Tilted(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Tells something else than there is to tell, or nothing."""

    def __init__(self, env: Any, by: float | None) -> None:
        super().__init__(env)
        self._by = by

    def reset(self, **how: Any) -> Any:
        observation, info = self.env.reset(**how)
        return observation, self._told(info)

    def step(self, action: Any) -> Any:
        *outcome, info = self.env.step(action)
        return (*outcome, self._told(info))

    def _told(self, info: dict[str, Any]) -> dict[str, Any]:
        if self._by is None:
            return {name: value for name, value in info.items() if name != "unseen"}
        return {**info, "unseen": info["unseen"] + self._by}


def _tilted(by: float | None) -> Any:
    return lambda: Tilted(make_env("Pendulum-V-v0", max_episode_steps=12), by)


@pytest.fixture
def settings(tiny: dict[str, Any]) -> dict[str, Any]:
    return {**tiny, "preset": "small", "normalize_observations": True}


def _actions(agent: Agent, observations: Any) -> list[Any]:
    state, actions = None, []
    for observation in observations:
        action, state = agent.predict(observation, state)
        actions.append(action)
    return actions


def test_a_saved_agent_acts_without_the_signal(settings: dict[str, Any], tmp_path: Path) -> None:
    agent = RESeL(_tilted(0.0), critic_observations="unseen", **settings).learn(60)
    agent.save(tmp_path / "agent")
    seen = np.linspace(-1, 1, 9)[:, None]
    expected, scores = _actions(agent, seen), []
    for by in (0.0, 5.0, None):
        loaded = RESeL.load(tmp_path / "agent", env=_tilted(by))
        np.testing.assert_array_equal(_actions(loaded, seen), expected)
        scores.append(loaded.evaluate(2))
        assert loaded.learner.dims.privileged == 2
    assert scores[0] == scores[1] == scores[2]
    with pytest.raises(ConfigError, match=r"reads 2 numbers.*this environment gives none"):
        loaded.learn(5)
    saved = torch.cat([t.flatten() for t in loaded.learner.policy.state_dict().values()])
    trained = torch.cat([t.flatten() for t in agent.learner.policy.state_dict().values()])
    assert torch.equal(saved, trained)


@pytest.mark.parametrize("what", ["policy", pytest.param("export", marks=pytest.mark.slow)])
def test_what_acts_does_not_hold_the_signal(
    what: str, settings: dict[str, Any], tmp_path: Path
) -> None:
    """One policy, in worlds that tell the critic otherwise: every file is the same to the byte."""
    whole = RESeL(_tilted(0.0), critic_observations="unseen", **settings).learn(60)
    assert "signal_normalizer.mean" in whole.learner.weights()
    whole.save(tmp_path / "whole")
    found, told = [], []
    for by in (0.0, 5.0):
        folder = tmp_path / f"by {by}"
        agent = RESeL.load(tmp_path / "whole", env=_tilted(by))
        if what == "export":
            agent.export(folder)
        else:
            agent.save(folder, policy_only=True)
        told.append(agent._trainer.collector._episodes[0].signals[0])
        found.append({path.name: path.read_bytes() for path in folder.iterdir()})
    np.testing.assert_allclose(told[0] + 5, told[1], atol=1e-5)
    assert found[0] == found[1]
    if what == "policy":
        weights = read_bundle(folder, "agent").tensors["weights"]
        assert {name.partition(".")[0] for name in weights} == {"policy", "normalizer"}
        return
    assert {"policy.onnx", "policy.h", "check.npz"} <= set(found[0])
    graph = onnx.load(folder / "policy.onnx").graph
    names = [part.name for part in (*graph.initializer, *graph.input, *graph.output)]
    with np.load(folder / "check.npz") as vectors:
        names += vectors
    assert len(names) > 8 and not [n for n in names if re.search("critic|signal|privileged", n)]


def test_a_function_beside_a_config(toy: Any, tiny: dict[str, Any], tmp_path: Path) -> None:
    def clock(env: Any) -> Any:
        return [env.unwrapped.time]

    given = {**tiny, "preset": "small"}
    first = RESeL(toy, critic_observations=clock, **given)
    again = RESeL(toy, config=first.config, critic_observations=clock).learn(40)
    assert again.learner.dims.privileged == 1 and again.learner.updates
    again.save(tmp_path / "agent")
    assert RESeL.load(tmp_path / "agent", toy, critic_observations=clock).learn(5)
    plain = RESeL(toy, **given)
    plain.save(tmp_path / "plain")
    words = "function is for a critic that was made to read one.* critic_observations=None: leave"
    with pytest.raises(ConfigError, match=words):
        RESeL(toy, config=plain.config, critic_observations=clock)
    with pytest.raises(ConfigError, match=words):
        RESeL.load(tmp_path / "plain", toy, critic_observations=clock)
    with pytest.raises(ConfigError, match="critic_observations='hidden': a function is for"):
        RESeL.load(tmp_path / "agent", toy, critic_observations="hidden")  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="Give either config"):
        RESeL(toy, config=first.config, critic_observations="hidden")


def test_what_is_collected_does_not_depend_on_the_signal(settings: dict[str, Any]) -> None:
    """Until the first update; from then on the policy climbs a critic that was told otherwise."""
    found = []
    for by in (0.0, 5.0):
        agent = RESeL(_tilted(by), critic_observations="unseen", **{**settings, "warmup_steps": 10})
        collector = agent._trainer.collector
        episodes = [t for _ in range(30) for t in collector.step(random=False)]
        found.append(episodes)
    for one, two in zip(*found, strict=True):
        np.testing.assert_array_equal(one.actions, two.actions)
        np.testing.assert_array_equal(one.observations, two.observations)
        np.testing.assert_allclose(one.extras[CRITIC] + 5, two.extras[CRITIC], atol=1e-5)


@pytest.mark.parametrize(
    ("method", "own"),
    [
        ("resel", {}),
        ("resel", {"context_length": 3}),
        ("sac-gru", {"batch_windows": 5, "context_length": 3}),
    ],
    ids=["trajectories", "windows by steps", "windows"],
)
@pytest.mark.parametrize("num_envs", [1, 2])
def test_every_step_has_its_own_signal(
    toy: Any, tiny: dict[str, Any], method: str, own: dict[str, Any], num_envs: int
) -> None:
    known = Agent(toy, method=method, preset="small", size="tiny").config.flat()
    settings = {n: v for n, v in {**tiny, **own, "num_envs": num_envs}.items() if n in known}
    agent = Agent(
        toy,
        method=method,
        preset="small",
        critic_observations=lambda env: [10.0 + env.unwrapped.time, env.unwrapped.value],
        **settings,
    ).learn(60)
    batch = agent._trainer.sample()
    there = ~(batch.is_first & ~batch.mask)  # but for padding, the last observations included
    seen = batch.observation[there]
    torch.testing.assert_close(batch.extras[CRITIC][there], seen[:, [1, 0]] + torch.tensor([10, 0]))


def test_scales_of_the_signal_follow_what_is_told(settings: dict[str, Any]) -> None:
    agent = RESeL(_tilted(50.0), critic_observations="unseen", **settings).learn(60)
    signal = np.concatenate(
        [agent._trainer.buffer.episode(i).extras[CRITIC] for i in range(len(agent._trainer.buffer))]
    )
    scale = agent.learner.signal_normalizer
    np.testing.assert_allclose(scale.mean, signal.mean(0), rtol=1e-5)
    np.testing.assert_allclose(scale.deviation, signal.std(0), rtol=1e-3)
    assert "signal_normalizer.mean" in agent.learner.weights()


def test_how_long_it_takes_is_told_before(settings: dict[str, Any], capsys: Any) -> None:
    agent = RESeL(_tilted(0.0), critic_observations="unseen", **settings)
    agent.learn(60, progress_bar=True)  # measures updates on made-up episodes
    assert agent.learner.updates


def test_exploring_by_the_critic_reads_the_signal(tiny: dict[str, Any]) -> None:
    given = {**tiny, "critic_episodes": 0.75, "warmup_steps": 22}
    agent = RESeL("TMaze-v0", critic_observations="task", **given).learn(80)
    assert agent.learner.updates and agent._trainer.buffer.column_sizes == {CRITIC: 1}
    actor = agent._trainer.collector._actor
    state = actor.initial_state(1)
    values = []
    for cue in (-1.0, 1.0):
        actor.tell(np.array([[cue]], np.float32))
        actor.observe(np.zeros((1, 3), np.float32), np.zeros(1, np.float32), state)
        values.append(actor.values)  # type: ignore[attr-defined]
    assert not torch.equal(*values)


class Camera(gymnasium.Env[Any, Any]):
    """A picture, and where things are."""

    def __init__(self, tells: bool = True) -> None:
        picture = spaces.Box(0, 255, (6, 6, 1), np.uint8)
        parts = {"picture": picture, **({"place": spaces.Box(-1, 1, (2,))} if tells else {})}
        self.observation_space = spaces.Dict(parts)
        self.action_space = spaces.Box(-1, 1, (1,))

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.time = 0
        return self._seen(), {}

    def step(self, action: Any) -> Any:
        self.time += 1
        return self._seen(), float(action[0]), self.time == 5, False, {}

    def _seen(self) -> Any:
        picture = np.full((6, 6, 1), self.time, np.uint8)
        place = np.array([self.time / 5, 0], np.float32)
        return {name: {"picture": picture, "place": place}[name] for name in self.observation_space}  # type: ignore[attr-defined]


def test_an_entry_of_the_observation_is_for_the_critic_alone(
    tiny: dict[str, Any], tmp_path: Path
) -> None:
    agent = RESeL(Camera, critic_observations="obs:place", **tiny).learn(60)
    assert agent.learner.dims.observation == 36 and agent.learner.dims.privileged == 2
    agent.save(tmp_path / "agent")
    real = RESeL.load(tmp_path / "agent", env=lambda: Camera(tells=False))
    whole, picture = Camera().reset()[0], Camera(tells=False).reset()[0]
    assert agent.predict(whole)[0] == real.predict(picture)[0] == agent.predict(picture)[0]
    assert agent.evaluate(2) == real.evaluate(2)
    agent.learn(10, eval_env=lambda: Camera(tells=False))


def test_a_signal_that_stops_is_told_with_its_step(toy: Any, tiny: dict[str, Any]) -> None:
    class Forgetful(toy):  # type: ignore[misc]
        def reset(self, **how: Any) -> Any:
            return super().reset(**how)[0], {"speed": 1.0}

        def step(self, action: Any) -> Any:
            *outcome, info = super().step(action)
            return (*outcome, info if self.time == 3 else {**info, "speed": 2.0})

    agent = RESeL(Forgetful, critic_observations="speed", **tiny, preset="small")
    with pytest.raises(
        EnvironmentFault, match=r"step 3 of an episode: there is no info\['speed'\]"
    ):
        agent.learn(60)
    assert agent.evaluate(2)[0] == pytest.approx(agent.evaluate(2, env=toy)[0])  # needs none
    words = "there is no info['sped'] (there is: speed) at the first reset"
    with pytest.raises(ConfigError, match=re.escape(words)):
        RESeL(Forgetful, critic_observations="sped", **tiny, preset="small")


TOLD = [task for task in all_tasks() if task.critic_observations is not None]


@pytest.mark.parametrize("task", TOLD, ids=[task.id for task in TOLD])
def test_tasks_of_ours_give_what_they_name(task: Any) -> None:
    if not is_installed(task):
        pytest.skip(f"needs {task.needs.extra}")
    env, name = make_env(task.id), task.critic_observations
    try:
        _, info = env.reset(seed=1)
        size = np.size(info[name])
        for _ in range(2):
            info = env.step(env.action_space.sample())[4]
            assert np.size(info[name]) == size and np.isfinite(info[name]).all()
        if "keep" in task.kwargs:  # all that is not seen, and nothing else
            inside: Any = env
            while hasattr(inside, "env") and inside.observation_space is not None:
                inside = inside.env
            assert size + task.observation_size == inside.observation_space.shape[0]
    finally:
        env.close()
