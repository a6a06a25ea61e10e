"""Environments that raise, in this process: made anew where allowed, undone where not."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.wrappers import TimeLimit

from resel import RESeL
from resel.config import Config
from resel.data import ReplayBuffer, Trajectory, pack
from resel.envs import DEFAULT_EPISODE_CAP, CheckedEnv
from resel.errors import (
    BadInputError,
    ConfigError,
    EnvironmentFault,
    StorageError,
    UnsupportedSpaceError,
)
from resel.methods import build_learner
from resel.networks import Dimensions
from resel.runs import MetricsLog, Run, read_metrics
from resel.training import Trainer, choose_device, make_envs

Everything = Callable[[Trainer], dict[str, Any]]


@pytest.fixture(scope="module", autouse=True)
def _importable() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(Path(__file__).parent))
        yield


@pytest.fixture
def world() -> Any:
    from failing_worlds import World  # type: ignore[import-not-found]

    return World


@pytest.fixture
def make(tiny: dict[str, Any]) -> Callable[..., Trainer]:
    """A trainer on environments made by functions."""

    def build(how: Any, evaluation: Any = None, **settings: Any) -> Trainer:
        config = Config.build("", tiny, {"warmup_steps": 10}, settings)
        return Trainer(config, *make_envs(config.training, how, evaluation or how))

    return build


def _whole_episodes(trainer: Trainer, length: int = 5) -> bool:
    return all(piece.length == length for piece in trainer.buffer)


# Made anew


@pytest.mark.parametrize("fault", ["step", "reset"])
def test_made_anew(make: Any, world: Any, tmp_path: Path, fault: str) -> None:
    made: list[Any] = []

    def build() -> Any:
        made.append(world(fault, once=str(tmp_path / "once")))
        return made[-1]

    trainer = make(build, world, env_restarts=2)
    with (
        MetricsLog(tmp_path, tensorboard=False) as trainer.log.writer,
        pytest.warns(UserWarning, match=r"made anew \(restart 1 of 2\)"),
    ):
        trainer.train(40)
    assert len(made) == 2 and trainer.restarts.used == 1
    assert trainer.step == 40 and trainer.learner.updates > 0
    assert _whole_episodes(trainer)
    # The 12th step was in the middle of an episode, which is lost with it.
    assert trainer.buffer.steps == (35 if fault == "step" else 40)
    (event,) = [ln for ln in read_metrics(tmp_path / "metrics.jsonl") if ln["kind"] == "event"]
    assert event["event"] == "environment restarted" and event["environment"] == "The environment"
    assert event["restarts"] == 1 and 11 <= event["step"] <= 15
    error = "ZeroDivisionError" if fault == "step" else "ConnectionError"
    assert error in event["message"] and "failing_worlds.py" in event["traceback"]


def test_the_others_go_on_undisturbed(make: Any, world: Any, tmp_path: Path) -> None:
    """The environment that failed loses its episode; those under way elsewhere are the same."""
    stored: list[list[bytes]] = []
    for second in (partial(world, "step", at=8, once=str(tmp_path / "once")), world):
        how = iter([partial(world, length=7), second, world, world])
        trainer = make(lambda how=how: next(how)(), num_envs=2, env_restarts=1, warmup_steps=1000)
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            trainer.train(36)
        assert [str(w.message)[:18] for w in told] == ["Environment 2 of 2"] * (second is not world)
        lengths = sorted(piece.length for piece in trainer.buffer)
        assert lengths == [5, 5, 5, 7, 7]
        stored.append(
            [
                array[p.begin : p.begin + p.length].tobytes()
                for p in trainer.buffer
                if p.length == 7
                for array in (trainer.buffer.observations, trainer.buffer.actions)
            ]
        )
    assert stored[0] == stored[1]


def test_no_more_than_allowed(make: Any, world: Any, tmp_path: Path) -> None:
    trainer = make(partial(world, "step"), world, env_restarts=2)
    with (
        MetricsLog(tmp_path, tensorboard=False) as trainer.log.writer,
        pytest.warns(UserWarning, match="restart [12] of 2"),
        pytest.raises(EnvironmentFault, match="ZeroDivisionError at step"),
    ):
        trainer.train(100)
    events = [ln for ln in read_metrics(tmp_path / "metrics.jsonl") if ln["kind"] == "event"]
    assert [e["event"].split()[-1] for e in events] == ["restarted", "restarted", "failed"]
    assert trainer.restarts.used == 2 and _whole_episodes(trainer)


def test_one_that_cannot_be_made_again(make: Any, world: Any, tmp_path: Path) -> None:
    """Each attempt counts, so that it does not go on for ever."""
    calls = iter([partial(world, "step"), world])  # and then no more
    trainer = make(lambda: next(calls)(), env_restarts=3)
    with (
        pytest.warns(UserWarning, match="restart [123] of 3"),
        pytest.raises(EnvironmentFault, match="could not be made: StopIteration"),
    ):
        trainer.train(50)


def test_one_that_comes_back_different(make: Any, world: Any) -> None:
    def other() -> Any:
        made = world()
        made.observation_space = spaces.Box(-1, 1, (3,))
        return made

    calls = iter([partial(world, "step"), world, other])
    trainer = make(lambda: next(calls)(), env_restarts=1)
    with (
        pytest.warns(UserWarning, match="made anew"),
        pytest.raises(EnvironmentFault, match="came back with other spaces"),
    ):
        trainer.train(50)


def test_restarts_are_counted_over_the_whole_run(
    make: Any, world: Any, tmp_path: Path, everything: Everything
) -> None:
    trainer = make(partial(world, "step", once=str(tmp_path / "once")), world, env_restarts=1)
    with pytest.warns(UserWarning, match="made anew"):
        trainer.train(20)
    assert everything(trainer)["loop"]["env_restarts"] == 1


def test_an_evaluation_is_played_again(make: Any, world: Any, tmp_path: Path) -> None:
    settings = {"eval_every": 10, "eval_episodes": 3}
    failing = make(
        world, partial(world, "step", once=str(tmp_path / "once")), env_restarts=1, **settings
    )
    with pytest.warns(
        UserWarning, match=r"The evaluation environment \(World\) raised ZeroDivisionError"
    ):
        failing.train(30)
    plain = make(world, **settings)
    plain.train(30)
    assert failing.evaluator.history == plain.evaluator.history
    assert len(plain.evaluator.history) == 4


# Not made anew: the step is undone


@pytest.mark.parametrize("num_envs", [1, 3])
@pytest.mark.parametrize("fault", ["step", "reset"])
def test_a_step_that_fails_changes_nothing(
    make: Any, world: Any, everything: Everything, num_envs: int, fault: str
) -> None:
    how = iter([world] * (num_envs - 1) + [partial(world, fault, at=15)] + [world])
    trainer = make(lambda: next(how)(), num_envs=num_envs, warmup_steps=6)
    seen: list[Any] = []
    with pytest.raises(EnvironmentFault):
        trainer.train(90, [lambda p: seen.append(everything(trainer))])
    assert len(seen) == 14
    assert everything(trainer) == seen[-1]


def test_learning_can_be_called_again(world: Any, tiny: dict[str, Any], tmp_path: Path) -> None:
    agent = RESeL(partial(world, "step", once=str(tmp_path / "once")), **tiny)
    with pytest.raises(EnvironmentFault):
        agent.learn(50)
    assert agent.num_timesteps == 11
    agent.learn(50)
    assert agent.num_timesteps == 61 and _whole_episodes(agent._trainer)


def test_a_failed_evaluation_is_made_up_for(
    tiny: dict[str, Any], tmp_path: Path, monkeypatch: Any
) -> None:
    from failing_worlds import World

    config = Config.build("World-v0", tiny, {"steps": 60, "eval_every": 15, "warmup_steps": 10})
    whole = Run(config, tmp_path / "whole")
    whole.train()
    whole.close()
    # An evaluation of two episodes is ten steps, so this is in the third, at step 30.
    calls = iter([World, partial(World, "step", at=25)])
    monkeypatch.setattr("resel.training.env_factory.make_env", lambda *_, **__: next(calls)())
    run = Run(config, tmp_path / "run")
    with pytest.raises(EnvironmentFault, match=r"The evaluation environment \(World\) raised"):
        run.train()
    run.close()
    monkeypatch.undo()
    run = Run(config, tmp_path / "run", "auto")
    assert run.resumed_at == 30
    run.train()
    run.close()
    found, wanted = (_lines(tmp_path / name) for name in ("run", "whole"))
    assert [ln["step"] for ln in wanted if ln["kind"] == "eval"] == [0, 15, 30, 45, 60]
    assert found == wanted


def _lines(path: Path) -> list[dict[str, Any]]:
    return [ln for ln in read_metrics(path / "metrics.jsonl") if ln["kind"] in ("eval", "train")]


@pytest.fixture
def stopped(tiny: dict[str, Any], tmp_path: Path, monkeypatch: Any) -> tuple[Config, Path]:
    """A run in mid-episode, whose environment fails when that is played again."""
    from failing_worlds import World

    config = Config.build("World-v0", tiny, {"steps": 13, "warmup_steps": 10})
    run = Run(config, tmp_path / "run")
    run.train()
    run.close()
    calls = iter([partial(World, "step", at=2), World, World])
    monkeypatch.setattr("resel.training.env_factory.make_env", lambda *_, **__: next(calls)())
    return config.replace(steps=40), tmp_path / "run"


def test_a_fault_while_resuming_changes_nothing(stopped: tuple[Config, Path]) -> None:
    before = _files(stopped[1])
    with pytest.raises(EnvironmentFault, match="ZeroDivisionError at step 2"):
        Run(*stopped, "auto")
    assert _files(stopped[1]) == before


def test_made_anew_while_resuming(stopped: tuple[Config, Path]) -> None:
    config, path = stopped
    with (
        pytest.warns(UserWarning, match="made anew"),
        pytest.warns(UserWarning, match="did not repeat"),
    ):
        run = Run(config.replace(env_restarts=1), path, "auto")
    result = run.train()
    run.close()
    assert result["env_restarts"] == 1 and result["exact"] is False
    lines = read_metrics(path / "metrics.jsonl")
    (event,) = [ln for ln in lines if ln["kind"] == "event"]
    assert event["step"] == 13 and event["event"] == "environment restarted"
    assert "failing_worlds.py" in event["traceback"]


def test_a_fault_that_the_disk_has_no_room_for(
    tiny: dict[str, Any], tmp_path: Path, monkeypatch: Any
) -> None:
    from failing_worlds import World

    def full(*_: Any) -> None:
        raise StorageError("No space left.")

    calls = iter([partial(World, "step"), World])
    monkeypatch.setattr("resel.training.env_factory.make_env", lambda *_, **__: next(calls)())
    monkeypatch.setattr("resel.runs.run.write_bundle", full)
    run = Run(Config.build("World-v0", tiny, {"disk_tries": 1}), tmp_path / "run")
    with pytest.raises(StorageError):
        run.train()
    run.close()
    result = json.loads((tmp_path / "run/result.json").read_text())
    assert result["status"] == "failed" and "ZeroDivisionError" in result["fault"]


def _files(path: Path) -> dict[Path, bytes]:
    return {p: p.read_bytes() for p in path.rglob("*") if p.is_file()}


def test_other_spaces_on_resuming(tiny: dict[str, Any], tmp_path: Path, monkeypatch: Any) -> None:
    from failing_worlds import World

    config = Config.build("World-v0", tiny, {"steps": 20, "warmup_steps": 10})
    run = Run(config, tmp_path / "run")
    run.train()
    run.close()
    before = _files(tmp_path / "run")
    monkeypatch.setattr(World, "action_space", spaces.Box(-3, 3, (1,)))  # fits, but means another
    with pytest.raises(UnsupportedSpaceError, match=r"trained on spaces .*-1\.0.* now has .*-3\.0"):
        Run(config.replace(steps=40), tmp_path / "run", "auto")
    assert _files(tmp_path / "run") == before


def test_environments_that_are_not_alike(make: Any) -> None:
    from failing_worlds import unlike

    with pytest.raises(UnsupportedSpaceError, match="Environment 2 of 2 has spaces"):
        make(unlike, num_envs=2)


@pytest.mark.parametrize("setting", [{"env_workers": True}, {"env_restarts": 1}, {"num_envs": 2}])
def test_an_environment_cannot_be_made_again(world: Any, setting: Any) -> None:
    with pytest.raises(ConfigError, match="give a function that makes one"):
        RESeL(world(), size="tiny", **setting)


# How long an episode may be


class Endless(gymnasium.Env[Any, Any]):
    """Counts its steps and never ends."""

    observation_space = spaces.Box(0, np.inf, (1,))
    action_space = spaces.Box(-1, 1, (1,))

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.time = 0
        return np.zeros(1, np.float32), {}

    def step(self, action: Any) -> Any:
        self.time += 1
        return np.full(1, self.time, np.float32), 1.0, False, False, {}


def _length(env: CheckedEnv) -> int:
    env.reset(1)
    for time in range(1, 10**6):
        outcome = env.step(np.zeros(1, np.float32))
        if outcome.truncated or outcome.terminated:
            assert not outcome.terminated
            return time
    raise AssertionError("it never ends")


def test_the_default_limit() -> None:
    env = CheckedEnv(Endless())
    with pytest.warns(UserWarning, match="cut .* after 10000 steps"):
        assert _length(env) == DEFAULT_EPISODE_CAP == 10_000
    assert _length(env) == DEFAULT_EPISODE_CAP  # and is told of only once


def test_limits_that_somebody_chose_are_not_remarked_on() -> None:
    assert _length(CheckedEnv(Endless(), limit=30)) == 30
    assert _length(CheckedEnv(Endless(), limit=12_000)) == 12_000
    assert _length(CheckedEnv(TimeLimit(Endless(), 11_000))) == 11_000
    assert _length(CheckedEnv(TimeLimit(Endless(), 40), limit=30, longest=30)) == 30


def test_no_episode_outgrows_the_buffer() -> None:
    for env in (Endless(), TimeLimit(Endless(), 100)):
        with pytest.warns(UserWarning, match="cut .* after 25 steps.*max_episode_steps"):
            assert _length(CheckedEnv(env, longest=25)) == 25
    with pytest.raises(ConfigError, match=r"max_episode_steps=30 does not fit.*buffer_steps=25"):
        Config.build("", {"max_episode_steps": 30, "buffer_steps": 25})


def test_an_endless_world_is_trained_on(tiny: dict[str, Any]) -> None:
    agent = RESeL(Endless, **(tiny | {"buffer_steps": 20, "eval_every": 50, "eval_episodes": 1}))
    with pytest.warns(UserWarning, match="cut .* after 20 steps"):
        agent.learn(50)
    assert [(p.length, p.terminated) for p in agent._trainer.buffer] == [(20, False)]
    assert [mean for _, mean, _ in agent.evaluations] == [20.0, 20.0]
    assert agent._trainer.learner.updates == 21  # from the end of the warm-up on


def test_a_registered_endless_world_is_remarked_on(tiny: dict[str, Any]) -> None:
    gymnasium.register("Endless-v9", Endless)
    config = Config.build("Endless-v9", tiny, {"buffer_steps": 10**6})
    from resel.training import task_envs

    (env,), _ = task_envs(config)
    assert isinstance(env, CheckedEnv)
    with pytest.warns(UserWarning, match="cut .* after 10000 steps"):
        assert _length(env) == 10_000


def test_episodes_of_one_step(make: Any, world: Any) -> None:
    for settings in ({}, {"context_length": 4}, {"encoder": "mamba", "num_envs": 2}):
        trainer = make(partial(world, length=1), eval_every=20, **settings)
        trainer.train(40)
        assert len(trainer.buffer) == trainer.buffer.steps == 40
        assert trainer.learner.updates > 20 and len(trainer.evaluator.history) == 3
        batch = trainer.sample()
        assert int(batch.mask.sum()) == batch.steps and batch.steps >= 30
        assert bool((batch.terminated[batch.mask] == 1).all())


@pytest.mark.parametrize("encoder", ["gru", "mamba"])
def test_a_hundred_thousand_steps(tiny: dict[str, Any], encoder: str) -> None:
    length = 100_000
    rng = np.random.default_rng(1)
    settings = {"encoder": encoder, "width": 2, "embedding": 2, "head_width": 4, "state_size": 2}
    config = Config.build("", tiny, settings, {"buffer_steps": length})
    buffer = ReplayBuffer(length, 1, 1)
    arrays = [rng.uniform(-1, 1, (n, 1)).astype(np.float32) for n in (length + 1, length)]
    buffer.add(Trajectory(*arrays, np.ones(length, np.float32), terminated=True))
    learner = build_learner(config, Dimensions(1, 1, False), choose_device("cpu"))
    rows = learner.policy.trunk.context_encoder.rnn.suitable_rows([length + 1])
    batch = pack(buffer, buffer.sample(1000, rng), rows)
    assert batch.is_first.shape == (1, length + 1) and batch.padding == 0
    assert batch.is_first[0].nonzero().tolist() == [[0]]
    assert bool(batch.mask[0, :-1].all()) and not batch.mask[0, -1]
    assert batch.terminated[0].nonzero().tolist() == [[length - 1]]
    assert np.array_equal(batch.observation[0].numpy(), arrays[0])
    for _ in range(2):  # of which one updates the policy as well
        metrics = learner.update(batch, want_metrics=True)
        assert all(np.isfinite(float(value)) for value in metrics.values())


# What an environment may return


def _returning(observation: Any = None, reward: Any = 0.0, info: Any = None) -> CheckedEnv:
    class Odd(Endless):
        def step(self, action: Any) -> Any:
            seen, _, *flags, _ = super().step(action)
            return (seen if observation is None else observation), reward, *flags, info or {}

    env = CheckedEnv(Odd())
    env.reset(1)
    return env


@pytest.mark.parametrize(
    "observation",
    [["1.5"], np.array(["1.5"]), np.array([1], object), np.array([1], "M8[s]"), [1j], b"1"],
)
def test_text_and_the_like_are_no_observations(observation: Any) -> None:
    with pytest.raises(EnvironmentFault, match=r"observation at step 1 .*not an array of numbers"):
        _returning(observation).step(np.zeros(1, np.float32))


@pytest.mark.parametrize("reward", [1e39, -1e300])
def test_rewards_that_would_become_infinite(reward: float) -> None:
    with pytest.raises(EnvironmentFault, match=r"reward at step 1 .*beyond what float32 holds"):
        _returning(reward=reward).step(np.zeros(1, np.float32))


def test_an_info_that_is_none() -> None:
    with pytest.raises(EnvironmentFault, match="of type int as info at step 1"):
        _returning(info=3).step(np.zeros(1, np.float32))


def test_observations_outside_their_space_are_told_of_once() -> None:
    env = _returning(observation=np.full(1, -0.5))
    with pytest.warns(UserWarning, match=r"at step 1 .*-0\.5 as number 0, outside the \[0, inf\]"):
        outcome = env.step(np.zeros(1, np.float32))
    assert outcome.observation.tolist() == [-0.5]
    env.step(np.zeros(1, np.float32))


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("discrete", [True, False])
def test_actions_that_are_not_finite(toy: Any, value: float, discrete: bool) -> None:
    env = CheckedEnv(toy(discrete=discrete))
    env.reset(1)
    action = np.full(env.action.stored_size, value, np.float32)
    with pytest.raises(BadInputError, match="The action for step 1 of an episode"):
        env.step(action)
    assert env.env.unwrapped.taken == []


@pytest.mark.parametrize("bad", ["observation", "reward"])
def test_nothing_bad_reaches_the_buffer(make: Any, world: Any, bad: str) -> None:
    class Spoiled(world):  # type: ignore[misc]
        def step(self, action: Any) -> Any:
            seen, reward, *rest = super().step(action)
            if self.steps == 18:
                seen, reward = (
                    (np.array([0, np.nan]), 0.0) if bad == "observation" else (seen, np.inf)
                )
            return seen, reward, *rest

    trainer = make(Spoiled, world)
    with pytest.raises(EnvironmentFault, match=f"{bad} at step 3"):
        trainer.train(60)
    assert trainer.buffer.steps == 15 and _whole_episodes(trainer)
    assert np.isfinite(trainer.buffer.observations).all()
    assert np.isfinite(trainer.buffer.rewards).all()
    json.dumps(trainer.checkpoint()[1], allow_nan=False)
