"""Rows of a vector environment: the same transitions as from single ones, in every mode."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium import spaces
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv, VectorEnv
from gymnasium.vector.utils import batch_space

from resel import RESeL
from resel.config import Config
from resel.data import Trajectory
from resel.envs import AnyEnv, CheckedEnv, CriticSignal, Restarts, row_info, vector_rows
from resel.errors import (
    ConfigError,
    EnvironmentFault,
    UnsupportedSpaceError,
)
from resel.methods import build_learner
from resel.networks import Dimensions
from resel.training import Actor, Collector

MODES = list(AutoresetMode)
Make = Callable[[], Any]


class Reusing(gymnasium.vector.VectorWrapper):
    """Hands out the same arrays and the same dict every time."""

    def __init__(self, envs: Any) -> None:
        super().__init__(envs)
        self._arrays: dict[int, np.ndarray] = {}
        self._infos: dict[str, Any] = {}

    def reset(self, *, seed: Any = None, options: Any = None) -> Any:
        return self._reused(*self.env.reset(seed=seed, options=options))

    def step(self, actions: Any) -> Any:
        return self._reused(*self.env.step(actions))

    def _reused(self, *told: Any) -> Any:
        *values, infos = told
        self._infos.clear()
        self._infos.update(infos)
        return *(self._kept(i, value) for i, value in enumerate(values)), self._infos

    def _kept(self, i: int, value: Any) -> Any:
        if isinstance(value, dict):  # of a vector that does so itself
            return value
        kept = self._arrays.setdefault(i, np.empty_like(value))
        kept[...] = value
        return kept


class Recorder(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Notes with which seed episodes began, and how many steps they had."""

    def __init__(self, env: gymnasium.Env[Any, Any]) -> None:
        super().__init__(env)
        self.log: list[list[Any]] = []

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        self.log.append([seed, 0])
        return super().reset(seed=seed, options=options)

    def step(self, action: Any) -> Any:
        self.log[-1][1] += 1
        return super().step(action)


def act(observation: Any, env: AnyEnv) -> np.ndarray:
    """An action, as stored, that depends on nothing but what is seen."""
    seen = np.float32(np.sum(observation))
    if env.action.discrete:
        return np.array([int(abs(seen) * 1000) % env.action.size], np.float32)
    return np.sin(seen + np.arange(env.action.size, dtype=np.float32))


class Scripted(Collector):
    def _actions(self, policy: Any, random: bool) -> Any:
        pairs = zip(self._episodes, self._envs, strict=True)
        return np.stack([act(episode.observations[-1], env) for episode, env in pairs])


def collector_of(envs: list[AnyEnv], tiny: dict[str, Any], kind: Any = Scripted) -> Collector:
    dims = Dimensions.of(envs[0].observation, envs[0].action)
    learner = build_learner(Config.build("", tiny), dims, torch.device("cpu"))
    return kind(envs, Actor(learner), 3)


def collect(collector: Collector, steps: int) -> list[Trajectory]:
    return [t for _ in range(steps) for t in collector.step(random=False)]


def as_bytes(trajectory: Trajectory) -> tuple[Any, ...]:
    columns = {name: values.tobytes() for name, values in trajectory.extras.items()}
    parts = trajectory.observations, trajectory.actions, trajectory.rewards
    return (*(part.tobytes() for part in parts), trajectory.terminated, columns)


def alone(world: Any, log: list[list[Any]]) -> list[Trajectory]:
    """The finished episodes of a single environment that is reset as another one was."""
    env, finished = CheckedEnv(world), []
    for seed, steps in log:
        observation, info = world.reset(seed=seed)
        observations, actions, rewards = [env.observation.encode(observation)], [], []
        told = {name: np.float32([info[name]]) for name in ("task", "hidden") if name in info}
        ended = False
        for _ in range(steps):
            assert not ended
            actions.append(act(observations[-1], env))
            native = env.action.to_env(actions[-1] if not env.action.discrete else actions[-1][0])
            observation, reward, terminated, truncated, _ = world.step(native)
            observations.append(env.observation.encode(observation))
            rewards.append(reward)
            ended = terminated or truncated
        if ended:
            columns = {n: np.tile(v, (len(observations), 1)) for n, v in told.items()}
            parts = np.stack(observations), np.stack(actions), np.float32(rewards), terminated
            finished.append(Trajectory(*parts, columns))
    return finished


class Picture(gymnasium.Env[Any, Any]):
    """A small image of whole numbers."""

    observation_space = spaces.Box(0, 255, (3, 4, 1), np.uint8)
    action_space = spaces.Discrete(2)

    def __init__(self, length: int) -> None:
        self.length = length

    def _see(self) -> Any:
        return self.np_random.integers(0, 256, (3, 4, 1), np.uint8)

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.time = 0
        return self._see(), {}

    def step(self, action: Any) -> Any:
        self.time += 1
        return self._see(), float(action), self.time == self.length, False, {}


def worlds(toy: Any) -> dict[str, list[Make]]:
    return {
        "toy": [lambda i=i: toy(length=2 + i, terminates=i != 1, tells=True) for i in range(3)],
        "discrete": [lambda i=i: toy(length=3, spread=i, discrete=True) for i in range(3)],
        "same length": [lambda: toy(length=3, spread=0) for _ in range(2)],
        "one": [lambda: toy(length=3)],
        "image": [lambda i=i: Picture(2 + i) for i in range(3)],
        "pendulum": [
            lambda i=i: gymnasium.make("Pendulum-v1", max_episode_steps=4 + i) for i in range(3)
        ],
    }


@pytest.mark.parametrize("reuses", ["nothing", "observations", "everything"])
@pytest.mark.parametrize("name", ["toy", "discrete", "same length", "one", "image", "pendulum"])
@pytest.mark.parametrize("mode", MODES)
def test_the_same_transitions_as_single_environments(
    mode: Any, name: str, reuses: str, toy: Any, tiny: dict[str, Any]
) -> None:
    makes = worlds(toy)[name]
    rows = [Recorder(make()) for make in makes]
    how = {"autoreset_mode": mode, "copy": reuses == "nothing"}
    envs: Any = SyncVectorEnv([lambda row=row: row for row in rows], **how)
    envs = Reusing(envs) if reuses == "everything" else envs
    stored = collect(collector_of(vector_rows(envs), tiny), 40)
    expected = [
        trajectory
        for make, row in zip(makes, rows, strict=True)
        for trajectory in alone(make(), row.log)
    ]
    assert len(stored) >= 40 * len(rows) // 10
    assert sorted(map(repr, map(as_bytes, stored))) == sorted(map(repr, map(as_bytes, expected)))
    if mode is not AutoresetMode.NEXT_STEP or len({len(t) for t in stored}) == 1:
        assert sum(steps for row in rows for _, steps in row.log) == 40 * len(rows)


@pytest.mark.parametrize("kind", [SyncVectorEnv, AsyncVectorEnv])
def test_episodes_with_seeds_are_those_of_single_environments(
    kind: Any, toy: Any, tiny: dict[str, Any]
) -> None:
    makes = worlds(toy)["toy"]
    envs = kind(makes, autoreset_mode=AutoresetMode.DISABLED)
    try:
        together = collect(collector_of(vector_rows(envs), tiny, Collector), 30)
    finally:
        envs.close()
    singles = [CheckedEnv(make()) for make in makes]
    apart = collect(collector_of(singles, tiny, Collector), 30)
    assert len(together) > 10
    assert list(map(as_bytes, together)) == list(map(as_bytes, apart))


@pytest.mark.parametrize("mode", MODES)
def test_environments_in_processes_that_share_memory(
    mode: Any, toy: Any, tiny: dict[str, Any]
) -> None:
    stored = []
    for kind, copy in ((SyncVectorEnv, True), (AsyncVectorEnv, False)):
        envs = kind(worlds(toy)["toy"], autoreset_mode=mode, copy=copy)
        try:
            episodes = collect(collector_of(vector_rows(envs), tiny, Collector), 25)
        finally:
            envs.close()
        stored.append(list(map(as_bytes, episodes)))
    assert len(stored[0]) > 8 and stored[0] == stored[1]


@pytest.mark.parametrize("steps", [0, 1, 7, 12])
def test_unfinished_episodes_with_seeds_are_played_again(
    steps: int, toy: Any, tiny: dict[str, Any]
) -> None:
    def made() -> Collector:
        envs = SyncVectorEnv(worlds(toy)["toy"], autoreset_mode=AutoresetMode.DISABLED)
        return collector_of(vector_rows(envs), tiny, Collector)

    first, second = made(), made()
    collect(first, steps)
    collect(second, 3)
    assert second.restore(*first.state()) is True
    after = list(map(as_bytes, collect(second, 20)))
    assert after == list(map(as_bytes, collect(first, 20))) and len(after) > 8


def test_a_fault_while_they_are_played_again(toy: Any, tiny: dict[str, Any]) -> None:
    class Failing(toy):  # type: ignore[misc]
        broken = False

        def step(self, action: Any) -> Any:
            if self.broken:
                raise OSError("the simulator is gone")
            return super().step(action)

    envs = SyncVectorEnv([Failing, toy], autoreset_mode=AutoresetMode.DISABLED)
    collector, events = collector_of(vector_rows(envs), tiny), list[Any]()
    collector._restarts = Restarts(3, events.append)
    collect(collector, 2)
    state = collector.state()
    Failing.broken = True
    with pytest.raises(EnvironmentFault, match="raised OSError at step 1"):
        collector.restore(*state)
    assert not events  # nothing can be made anew


@pytest.mark.parametrize("mode", [AutoresetMode.NEXT_STEP, AutoresetMode.SAME_STEP])
def test_unfinished_episodes_without_seeds_are_dropped(
    mode: Any, toy: Any, tiny: dict[str, Any]
) -> None:
    rows = [Recorder(make()) for make in worlds(toy)["toy"]]
    envs = SyncVectorEnv([lambda row=row: row for row in rows], autoreset_mode=mode)
    collector = collector_of(vector_rows(envs), tiny)
    for steps in range(1, 8):  # some of them leave rows between two episodes
        collect(collector, steps)
        assert collector.restore(*collector.state()) is False
        for row in rows:
            row.log = row.log[-1:]
        stored = collect(collector, 9)
        made = zip(worlds(toy)["toy"], rows, strict=True)
        expected = [t for make, row in made for t in alone(make(), row.log)]
        assert sorted(map(repr, map(as_bytes, stored))) == sorted(
            map(repr, map(as_bytes, expected))
        )


@pytest.mark.parametrize("mode", MODES)
def test_after_a_step_that_failed_new_episodes_begin(
    mode: Any, toy: Any, tiny: dict[str, Any]
) -> None:
    class Failing(toy):  # type: ignore[misc]
        def step(self, action: Any) -> Any:
            if len(self.taken) == 7:
                self.taken.append(None)
                raise OSError("the simulator is gone")
            return super().step(action)

    made = [Failing(length=2), toy(length=3), toy(length=5)]
    rows = [Recorder(env) for env in made]
    envs = SyncVectorEnv([lambda row=row: row for row in rows], autoreset_mode=mode)
    collector = collector_of(vector_rows(envs), tiny)
    with pytest.raises(EnvironmentFault, match=r"of 3 \(SyncVectorEnv\) raised OSError at step"):
        collect(collector, 20)
    for row in rows:
        row.log.clear()
    stored = collect(collector, 20)
    assert len(stored) > 6
    for trajectory in stored:
        assert trajectory.observations[:, 1].tolist() == list(range(len(trajectory) + 1))


class Nested(gymnasium.Env[Any, Any]):
    """An observation of several parts, and infos of several kinds."""

    observation_space = spaces.Dict(
        {"place": spaces.Box(-9, 9, (2,), np.float32), "kind": spaces.Discrete(3)}
    )
    action_space = spaces.MultiDiscrete([2, 3])

    def __init__(self, row: int) -> None:
        self.row = row

    def _see(self) -> Any:
        return {"place": np.float32([self.row, self.time]), "kind": self.time % 3}

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.time = 0
        return self._see(), {"hidden": np.arange(2) + self.row, "name": "x", "_odd": 1}

    def step(self, action: Any) -> Any:
        self.time += 1
        done = self.time == 2 + self.row
        return self._see(), 1.0, done, False, {"success": self.row == 1} if done else {}


@pytest.mark.parametrize("mode", MODES)
def test_parts_and_infos_of_rows(mode: Any, tiny: dict[str, Any]) -> None:
    envs = SyncVectorEnv([lambda i=i: Nested(i) for i in range(3)], autoreset_mode=mode)
    rows = vector_rows(envs)
    for row in rows:
        row.reset(1)
    assert rows[2].told["hidden"].tolist() == [2, 3]
    told: dict[int, Any] = {}
    for time in (1, 2):
        for row in rows:
            row.send(np.zeros(1, np.float32))
        for i, row in enumerate(rows[:2]):
            if not row.between_episodes:
                outcome = row.receive()
                told[i] = outcome.success
                assert outcome.observation.tolist()[-2:] == [i, time]
    assert told == {0: False, 1: None}
    stored = collect(collector_of(vector_rows(envs), tiny), 30)
    assert {len(t) for t in stored} == {2, 3, 4}
    for trajectory in stored:
        number = len(trajectory) - 2
        kind, place = trajectory.observations[:, :3], trajectory.observations[:, 3:]
        assert place[:, 0].tolist() == [number] * (number + 3)
        assert place[:, 1].tolist() == list(range(number + 3))
        assert kind.argmax(1).tolist() == [t % 3 for t in range(number + 3)]
        assert trajectory.extras["hidden"].tolist() == [[number, number + 1]] * len(
            trajectory.observations
        )


def test_what_is_told_with_the_end_of_all_rows() -> None:
    rows = vector_rows(Reusing(SyncVectorEnv([lambda: Nested(1)] * 2, copy=False)))
    for row in rows:
        row.reset(1)
    for time in (1, 2, 3):
        for row in rows:
            row.send(np.zeros(1, np.float32))
        told = [row.receive() for row in rows]
        assert [(one.success, one.terminated) for one in told] == [
            (True, True) if time == 3 else (None, False)
        ] * 2
    assert not any(row.between_episodes for row in rows)
    assert [row.reset(1)[-1] for row in rows] == [0, 0]


def test_what_a_row_is_told() -> None:
    infos = {
        "task": np.array([4, 0, 6]),
        "_task": np.array([True, False, True]),
        "deep": {"x": np.array([1, 2, 3]), "_x": np.array([False, True, False])},
        "_deep": np.array([False, True, False]),
        "all": [7, 8, 9],
        "text": "nothing of rows",
        "number": 3,
    }
    first, second = row_info(infos, 0, 3), row_info(infos, 1, 3)
    assert dict(first) == {"task": 4, "all": 7} and len(first) == 2
    assert "task" not in second and second["deep"]["x"] == 2 and second.get("text") is None
    assert row_info([{"a": 1}, {"b": 2}], 1, 2) == {"b": 2}


# What cannot be


class Own(VectorEnv[Any, Any, Any]):
    """A vector somebody has written."""

    metadata = {"autoreset_mode": AutoresetMode.SAME_STEP}  # noqa: RUF012

    def __init__(self, space: Any = None, infos: Any = None, **told: Any) -> None:
        self.num_envs, self.infos = 2, infos or {}
        self.single_observation_space = spaces.Box(-1, 1, (3,), np.float32)
        self.single_action_space = spaces.Box(-1, 1, (1,), np.float32)
        self.observation_space = space or batch_space(self.single_observation_space, 2)
        self.action_space = batch_space(self.single_action_space, 2)
        self.metadata = told

    def reset(self, *, seed: Any = None, options: Any = None) -> Any:
        return np.zeros((2, 3), np.float32), {}

    def step(self, actions: Any) -> Any:
        ends = np.array([True, False])
        return np.zeros((2, 3), np.float32), np.zeros(2), ends, ~ends & False, self.infos


SAME = {"autoreset_mode": AutoresetMode.SAME_STEP}


@pytest.mark.parametrize("told", [{}, {"autoreset_mode": "Sometimes"}])
def test_an_unknown_mode(told: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=r"metadata\['autoreset_mode'\] is .*AutoresetMode"):
        vector_rows(Own(**told))


def test_spaces_that_differ() -> None:
    with pytest.raises(UnsupportedSpaceError, match="the observation_space of its environments"):
        vector_rows(Own(spaces.Box(-1, 1, (2, 4), np.float32), **SAME))


@pytest.mark.parametrize("name", ["observation_space", "action_space"])
@pytest.mark.parametrize("single", ["single_", ""])
def test_spaces_that_are_missing(single: str, name: str) -> None:
    envs = Own(**SAME)
    delattr(envs, single + name)
    with pytest.raises(UnsupportedSpaceError, match=f"vector Own has no {single}{name}: set self"):
        vector_rows(envs)


@pytest.mark.parametrize("count", [None, 0, "two"])
def test_rows_that_are_not_counted(count: Any) -> None:
    envs = Own(**SAME)
    envs.num_envs = count
    if count is None:
        del envs.num_envs
    has = "no num_envs" if count is None else f"num_envs={count!r}"
    for use in (vector_rows, RESeL):
        with pytest.raises(ConfigError, match=f"The vector Own has {has}: set self.num_envs"):
            use(envs)


def test_a_signal_that_is_missing(toy: Any) -> None:
    class Telling(toy):  # type: ignore[misc]
        def reset(self, **how: Any) -> Any:
            return super().reset(**how)[0], {"clock": 0}

    rows = vector_rows(SyncVectorEnv([Telling, toy]), signal=CriticSignal.of("clock"))
    for row in rows:
        row.reset(1)
        row.send(np.zeros(2, np.float32))
    words = r"^Environment 1 of 2 \(SyncVectorEnv\): critic_observations at step 1 .*\['clock'\]"
    with pytest.raises(EnvironmentFault, match=words):
        rows[0].receive()


def test_a_closed_vector(toy: Any) -> None:
    envs = SyncVectorEnv([toy])
    envs.close()
    with pytest.raises(ConfigError, match="is closed already"):
        vector_rows(envs)


def test_one_environment_twice(toy: Any) -> None:
    one = toy()
    with pytest.raises(ConfigError, match="one and the same object"):
        vector_rows(SyncVectorEnv([lambda: one, lambda: one]))


def test_the_last_observation_has_to_be_told(tiny: dict[str, Any]) -> None:
    collector = collector_of(vector_rows(Own(**SAME)), tiny)
    with pytest.raises(EnvironmentFault, match=r"put it into infos\['final_obs'\]"):
        collector.step(random=False)
    batched = {"final_obs": np.full((2, 3), 0.5, np.float32)}
    collector = collector_of(vector_rows(Own(infos=batched, **SAME)), tiny)
    (trajectory,) = collector.step(random=False)
    assert trajectory.observations.tolist() == [[0, 0, 0], [0.5, 0.5, 0.5]]


def test_a_vector_that_says_the_wrong_mode(toy: Any, tiny: dict[str, Any]) -> None:
    envs = SyncVectorEnv([lambda: toy(length=3)] * 2, autoreset_mode=AutoresetMode.SAME_STEP)
    envs.metadata = {**envs.metadata, "autoreset_mode": AutoresetMode.NEXT_STEP}
    collector = collector_of(vector_rows(envs), tiny)
    with pytest.raises(EnvironmentFault, match=r"put its own mode into metadata"):
        collect(collector, 6)


@pytest.mark.parametrize("told", [0.5, None])
def test_infos_as_a_list(told: float | None, tiny: dict[str, Any]) -> None:
    final = {} if told is None else {"final_obs": np.full(3, told, np.float32)}
    collector = collector_of(vector_rows(Own(infos=[final, {}], **SAME)), tiny)
    if told is None:
        with pytest.raises(EnvironmentFault, match=r"put it into infos\['final_obs'\]"):
            collector.step(random=False)
        return
    (trajectory,) = collector.step(random=False)
    assert trajectory.observations.tolist() == [[0, 0, 0], [0.5, 0.5, 0.5]]


@pytest.mark.parametrize("mode", MODES)
def test_episodes_that_do_not_end(mode: Any, toy: Any, tiny: dict[str, Any]) -> None:
    envs = SyncVectorEnv([lambda: toy(length=50)] * 2, autoreset_mode=mode)
    collector = collector_of(vector_rows(envs, longest=6), tiny)
    if mode is AutoresetMode.DISABLED:
        with pytest.warns(UserWarning, match="an episode was cut"):
            assert {len(t) for t in collect(collector, 13)} == {6}
        return
    with pytest.raises(EnvironmentFault, match="longer than 6 steps, the most allowed"):
        collect(collector, 6)


def test_rows_step_together(toy: Any) -> None:
    first, second = vector_rows(SyncVectorEnv([toy, toy]))
    first.reset(1)
    second.reset(2)
    first.send(np.zeros(2, np.float32))
    with pytest.raises(EnvironmentFault, match="1 of 2 were given an action"):
        first.receive()
    with pytest.raises(ConfigError, match="cannot be asked for a task"):
        first.reset(1, task=0)
