"""What the collector stores is what happened, and it continues as if never interrupted."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn import functional as F

from resel.config import Config
from resel.data import Trajectory
from resel.envs import CheckedEnv
from resel.errors import DamagedFileError, EnvironmentFault
from resel.methods import Learner, build_learner
from resel.networks import Categorical, ContextInputs, Dimensions
from resel.training import Actor, Collector
from resel.training import collector as collecting

CPU = torch.device("cpu")


@pytest.fixture
def make(toy: Any, tiny: dict[str, Any]) -> Callable[..., tuple[Collector, list[Any], Learner]]:
    def build(
        worlds: list[Any], seed: int = 3, **settings: Any
    ) -> tuple[Collector, list[Any], Learner]:
        envs = [CheckedEnv(world) for world in worlds]
        dims = Dimensions(3, envs[0].action.size, envs[0].action.discrete)
        learner = build_learner(Config.build("", tiny, {"seed": seed}, settings), dims, CPU)
        return Collector(envs, Actor(learner), seed), worlds, learner

    return build


def collect(collector: Collector, steps: int, random: bool = False) -> list[Trajectory]:
    return [t for _ in range(steps) for t in collector.step(random=random)]


def same(a: Trajectory, b: Trajectory) -> bool:
    return (
        np.array_equal(a.observations, b.observations)
        and np.array_equal(a.actions, b.actions)
        and np.array_equal(a.rewards, b.rewards)
        and a.terminated == b.terminated
    )


def play(world: Any, seed: int, actions: np.ndarray) -> Trajectory:
    """The episode as written down by hand from the environment itself."""
    env = CheckedEnv(world)
    observation, _ = world.reset(seed=seed)
    observations, rewards, terminated, truncated = [observation], [], False, False
    for action in actions:
        assert not (terminated or truncated)
        native = env.action.to_env(int(action[0]) if env.action.discrete else action)
        observation, reward, terminated, truncated, _ = world.step(native)
        observations.append(observation)
        rewards.append(reward)
    assert terminated or truncated
    return Trajectory(np.stack(observations), actions, np.asarray(rewards, np.float32), terminated)


@pytest.mark.parametrize("terminates", [True, False])
@pytest.mark.parametrize("discrete", [True, False])
def test_trajectories_are_exactly_what_happened(
    toy: Any, make: Any, discrete: bool, terminates: bool
) -> None:
    collector, (world,), _ = make([toy(discrete=discrete, terminates=terminates)])
    stored = collect(collector, 40)
    assert len(stored) > 5
    # The first reset only warms the environment up.
    for trajectory, seed in zip(stored, world.seeds[1:], strict=False):
        expected = play(toy(discrete=discrete, terminates=terminates), seed, trajectory.actions)
        assert same(trajectory, expected)
        assert trajectory.terminated is terminates
        assert trajectory.observations.dtype == np.float32
    taken = [
        CheckedEnv(world).action.to_env(int(a[0]) if discrete else a)
        for t in stored
        for a in t.actions
    ]
    assert np.array_equal(taken, world.taken[: len(taken)])


def test_scripted_actions_give_the_known_numbers(toy: Any, make: Any, monkeypatch: Any) -> None:
    collector, _, _ = make([toy(length=3, spread=0)])
    units = itertools.cycle([(-1.0, -1.0), (1.0, 0.0), (0.5, 1.0)])  # -2 + 0, 2 + 0.5, 1 + 1
    monkeypatch.setattr(
        Actor, "choose", lambda self, policy, generator: np.array([next(units)], np.float32)
    )
    first, second = collect(collector, 6)
    for trajectory in (first, second):
        start = trajectory.observations[0, 0]
        moved = np.array([-2.0, 2.5, 2.0])
        values = start + 0.1 * np.cumsum(moved)
        np.testing.assert_allclose(trajectory.observations[1:, 0], values, atol=1e-6)
        assert trajectory.observations[:, 1].tolist() == [0, 1, 2, 3]
        assert trajectory.observations[:, 2].tolist() == [0, -2, 2.5, 2]
        assert trajectory.actions.tolist() == [[-1, -1], [1, 0], [0.5, 1]]
        np.testing.assert_allclose(trajectory.rewards, values + 0.5 * moved, atol=1e-6)
    assert first.observations[0, 0] != second.observations[0, 0]


@given(
    lengths=st.lists(st.integers(1, 5), min_size=1, max_size=4),
    spread=st.integers(0, 3),
    steps=st.integers(1, 25),
)
@settings(max_examples=25, deadline=None)
def test_no_transition_crosses_an_episode(
    toy: Any, tiny: dict[str, Any], lengths: list[int], spread: int, steps: int
) -> None:
    envs = [CheckedEnv(toy(length=length, spread=spread)) for length in lengths]
    learner = build_learner(Config.build("", tiny), Dimensions(3, 2, False), CPU)
    collector = Collector(envs, Actor(learner), 1)
    for trajectory in collect(collector, steps, random=True):
        length = len(trajectory)
        assert trajectory.observations[:, 1].tolist() == list(range(length + 1))
        assert min(lengths) <= length <= max(lengths) + spread
        assert trajectory.terminated
        assert trajectory.observations[0, 2] == 0
        moved = trajectory.actions @ np.float32([2, 0.5]) + 0.5  # the units of the action space
        np.testing.assert_allclose(trajectory.observations[1:, 2], moved, atol=1e-5)


def test_several_environments_store_what_single_ones_would(
    toy: Any, make: Any, monkeypatch: Any
) -> None:
    def scripted(row: int, time: float) -> list[float]:
        return [np.sin(1.3 * time + row), np.cos(time - row)]

    row_of_single = 0

    def choose(self: Actor, policy: Any, generator: Any) -> np.ndarray:
        rows = range(len(policy.mean)) if len(policy.mean) > 1 else [row_of_single]
        return np.array([scripted(row, next(clocks[row])) for row in rows], np.float32)

    monkeypatch.setattr(Actor, "choose", choose)
    clocks = [itertools.count() for _ in range(3)]
    together, worlds, _ = make([toy(length=3 + i) for i in range(3)])
    stored: dict[int, list[Trajectory]] = {0: [], 1: [], 2: []}
    for _ in range(40):
        before = [len(world.seeds) for world in worlds]
        finished = together.step(random=False)
        ended = [i for i in range(3) if len(worlds[i].seeds) > before[i]]
        for row, trajectory in zip(ended, finished, strict=True):
            stored[row].append(trajectory)

    for row_of_single in range(3):
        clocks[row_of_single] = itertools.count()
        seeds = iter(worlds[row_of_single].seeds)
        monkeypatch.setattr(collecting, "draw_seed", lambda rng, seeds=seeds: next(seeds))
        alone, _, _ = make([toy(length=3 + row_of_single)])
        expected = collect(alone, 40)
        assert len(expected) == len(stored[row_of_single]) > 4
        assert all(map(same, expected, stored[row_of_single]))


@pytest.mark.parametrize("encoder", ["gru", "mamba", "lstm", "mlp"])
@pytest.mark.parametrize("discrete", [True, False])
def test_acts_as_the_policy_over_the_stored_episode(
    toy: Any, make: Any, monkeypatch: Any, encoder: str, discrete: bool
) -> None:
    """Also during warm-up: the recurrent state advances with random actions."""
    collector, _, learner = make(
        [toy(discrete=discrete, length=3 + 2 * i) for i in range(2)],
        encoder=encoder,
        reward_input=True,
    )
    seen: list[Any] = []  # one (rows, ...) distribution for each step
    observe = Actor.observe

    def spy(self: Actor, *args: Any) -> Any:
        policy, state = observe(self, *args)
        seen.append(policy.log_probs if discrete else torch.cat([policy.mean, policy.log_std], -1))
        return policy, state

    monkeypatch.setattr(Actor, "observe", spy)
    begun = [0, 0]
    checked = 0
    for time in range(30):
        rows = {  # which environment a trajectory came from: its last observation is in no other
            e.observations[-1].tobytes(): i for i, e in enumerate(collector._episodes)
        }
        for trajectory in collector.step(random=time < 15):
            row = rows[trajectory.observations[-2].tobytes()]
            acted = torch.stack([step[row] for step in seen[begun[row] : time + 1]])
            torch.testing.assert_close(acted, _replay(learner, trajectory), atol=2e-5, rtol=1e-4)
            begun[row] = time + 1
            checked += 1
    assert checked > 6


def _replay(learner: Learner, trajectory: Trajectory) -> torch.Tensor:
    observation = torch.tensor(trajectory.observations[:-1])
    action = torch.tensor(trajectory.actions)
    if learner.dims.discrete:
        action = F.one_hot(action[:, 0].long(), learner.dims.action).float()

    def before(x: torch.Tensor) -> torch.Tensor:
        return torch.cat([torch.zeros_like(x[:1]), x[:-1]])

    inputs = ContextInputs(
        observation,
        before(observation),
        before(action),
        before(torch.tensor(trajectory.rewards)[:, None]),
    )
    start = torch.zeros(1, len(trajectory), dtype=torch.bool)
    start[0, 0] = True
    with torch.no_grad():
        policy = learner.policy(ContextInputs(*(x[None] for x in inputs)), start)
    if isinstance(policy, Categorical):
        return policy.log_probs[0]
    return torch.cat([policy.mean, policy.log_std], -1)[0]


def test_every_episode_starts_from_nothing(toy: Any, make: Any, monkeypatch: Any) -> None:
    collector, _, _ = make([toy(length=2), toy(length=3)])
    calls: list[Any] = []
    observe = Actor.observe

    def spy(self: Actor, observation: Any, reward: Any, state: Any) -> Any:
        policy, after = observe(self, observation, reward, state)
        calls.append((observation, reward, state, after))
        return policy, after

    monkeypatch.setattr(Actor, "observe", spy)
    starts = 0
    for time in range(25):
        collector.step(random=time < 10)
        observation, reward, state, _ = calls[-1]
        for row in range(2):
            context = [*state.hidden, state.observation, state.action]
            if observation[row, 1] == 0:  # the clock of the toy world
                starts += 1
                assert reward[row] == 0
                assert all(not part[row].any() for part in context)
            else:
                previous, _, _, after = calls[-2]
                moved = float(state.action[row] @ torch.tensor([2, 0.5])) + 0.5
                assert moved == pytest.approx(observation[row, 2], abs=1e-5)
                assert np.array_equal(state.observation[row].numpy(), previous[row])
                assert reward[row] == pytest.approx(observation[row, 0] + 0.5 * moved, abs=1e-5)
                assert all(
                    torch.equal(a[row], b[row])
                    for a, b in zip(state.hidden, after.hidden, strict=True)
                )
                assert any(part[row].any() for part in state.hidden)
    assert starts > 10


def test_every_reset_has_a_seed_of_its_own(toy: Any, make: Any) -> None:
    collector, worlds, _ = make([toy(), toy()], seed=5)
    collect(collector, 60, random=True)
    seeds = [seed for world in worlds for seed in world.seeds]
    assert len(seeds) > 20 and None not in seeds
    assert len(set(seeds)) == len(seeds)
    again, same_worlds, _ = make([toy(), toy()], seed=5)
    collect(again, 60, random=True)
    assert [w.seeds for w in same_worlds] == [w.seeds for w in worlds]
    _, others, _ = make([toy(), toy()], seed=6)
    assert others[0].seeds[0] not in seeds


def _handed_over(collector: Collector) -> tuple[dict[str, torch.Tensor], dict[str, Any]]:
    """As it comes back from a file."""
    tensors, document = collector.state()
    return {k: v.clone() for k, v in tensors.items()}, json.loads(json.dumps(document))


@pytest.mark.parametrize("count", [1, 3])
@pytest.mark.parametrize("steps", [0, 2, 7, 20])
def test_a_restored_collector_goes_on_identically(
    toy: Any, make: Any, count: int, steps: int
) -> None:
    original, _, learner = make([toy() for _ in range(count)])
    collect(original, steps, random=steps == 2)
    saved = _handed_over(original)
    restored, _, other = make([toy() for _ in range(count)], seed=3)
    collect(restored, 5)  # whatever it did before does not matter
    other.load_weights(learner.weights())
    assert restored.restore(*saved)
    for random in (True, False):
        expected, found = collect(original, 15, random), collect(restored, 15, random)
        assert len(expected) == len(found) >= 2
        assert all(map(same, expected, found))
    after, document = _handed_over(restored)
    expected_after, expected_document = _handed_over(original)
    assert document == expected_document
    assert after.keys() == expected_after.keys()
    assert all(torch.equal(after[name], expected_after[name]) for name in after)


def _drifting(toy: Any, after: int) -> Any:
    """A world that no longer repeats itself once it was reset `after` times."""

    class Drifting(toy):  # type: ignore[misc]
        def _observation(self, moved: float) -> Any:
            seen = super()._observation(moved)
            seen[0] += max(0, len(self.seeds) - after)
            return seen

    return Drifting(length=5, spread=0)


def _shrinking(toy: Any, after: int) -> Any:
    """A world whose episodes become shorter once it was reset `after` times."""

    class Shrinking(toy):  # type: ignore[misc]
        def reset(self, **how: Any) -> Any:
            observation, info = super().reset(**how)
            if len(self.seeds) > after:
                self.ends_at = 2
            return observation, info

    return Shrinking(length=5, spread=0)


@pytest.mark.parametrize("altered", [_drifting, _shrinking])
def test_an_episode_that_does_not_repeat_is_dropped(toy: Any, make: Any, altered: Any) -> None:
    original, _, learner = make([altered(toy, 99), toy(length=5, spread=0)])
    collect(original, 3)
    saved = _handed_over(original)
    # Two resets happen on construction, the third plays the episode again.
    restored, worlds, other = make([altered(toy, 2), toy(length=5, spread=0)])
    other.load_weights(learner.weights())
    assert restored.restore(*saved) is False
    tensors, document = restored.state()
    assert document["episode_seeds"][0] != saved[1]["episode_seeds"][0]
    assert document["episode_seeds"][1] == saved[1]["episode_seeds"][1]
    assert len(tensors["episode.0.actions"]) == 0
    assert len(tensors["episode.1.actions"]) == 3
    parts = [n for n in tensors if n.startswith("hidden.")] + ["observation", "action"]
    assert all(not tensors[name][0].any() for name in parts)
    assert all(torch.equal(tensors[name][1], saved[0][name][1]) for name in parts)
    (kept,) = [t for t in collect(restored, 2) if len(t) == 5]
    assert kept.observations[:, 1].tolist() == [0, 1, 2, 3, 4, 5]
    assert worlds[0].seeds[-1] == restored.state()[1]["episode_seeds"][0]


def test_another_number_of_environments_is_refused(toy: Any, make: Any) -> None:
    original, _, _ = make([toy()])
    other, _, _ = make([toy(), toy()])
    with pytest.raises(DamagedFileError, match="same num_envs"):
        other.restore(*_handed_over(original))


def test_after_an_interrupted_step_new_episodes_begin(toy: Any, make: Any) -> None:
    class Interrupted(toy):  # type: ignore[misc]
        def step(self, action: Any) -> Any:
            if len(self.taken) == 7:
                self.taken.append(None)
                raise KeyboardInterrupt
            return super().step(action)

    collector, _, _ = make([toy(length=5), Interrupted(length=5)])
    stored = collect(collector, 7, random=True)
    with pytest.raises(KeyboardInterrupt):
        collector.step(random=True)
    stored += collect(collector, 30)
    assert len(stored) > 8
    for trajectory in stored:  # the clock would show a step that was taken but not recorded
        assert trajectory.observations[:, 1].tolist() == list(range(len(trajectory) + 1))


@pytest.fixture
def telling(toy: Any) -> Any:
    """A world that tells how its episode began: the seed as task, its number and length."""

    class Telling(toy):  # type: ignore[misc]
        shift = 0.0

        def reset(self, **how: Any) -> Any:
            observation, _ = super().reset(**how)
            hidden = [self.value + self.shift, self.ends_at]
            return observation, {"task": how["seed"] % 100, "hidden": hidden}

    return Telling


def test_every_step_has_what_its_episode_was_told(telling: Any, make: Any) -> None:
    collector, worlds, _ = make([telling(), telling(length=6)])
    assert collector.columns == {"task": 1, "hidden": 2}
    stored = collect(collector, 40, random=True)
    assert len(stored) > 10
    seeds = {seed % 100 for world in worlds for seed in world.seeds}
    for trajectory in stored:
        length = len(trajectory)
        told = [[float(trajectory.observations[0, 0]), float(length)]] * (length + 1)
        assert trajectory.extras["hidden"].tolist() == told
        task = trajectory.extras["task"]
        assert task.shape == (length + 1, 1) and len(set(task[:, 0].tolist())) == 1
        assert task[0, 0] in seeds


@pytest.mark.parametrize("steps", [0, 2, 7])
def test_a_restored_collector_tells_the_same(telling: Any, make: Any, steps: int) -> None:
    original, _, learner = make([telling(), telling()])
    collect(original, steps)
    saved = _handed_over(original)
    restored, _, other = make([telling(), telling()])
    collect(restored, 5)
    other.load_weights(learner.weights())
    assert restored.restore(*saved)
    expected, found = collect(original, 15), collect(restored, 15)
    assert len(expected) == len(found) >= 2
    for one, two in zip(expected, found, strict=True):
        assert same(one, two) and one.extras.keys() == two.extras.keys() == {"task", "hidden"}
        for name, column in one.extras.items():
            np.testing.assert_array_equal(column, two.extras[name])


def test_an_episode_told_otherwise_when_played_again_is_dropped(telling: Any, make: Any) -> None:
    original, _, _ = make([telling(length=5), telling(length=5)])
    collect(original, 3)
    restored, worlds, _ = make([telling(length=5), telling(length=5)])
    worlds[0].shift = 1.0
    assert restored.restore(*_handed_over(original)) is False
    tensors, _ = restored.state()
    assert len(tensors["episode.0.actions"]) == 0 and len(tensors["episode.1.actions"]) == 3


def test_environments_that_tell_different_things(toy: Any, telling: Any, make: Any) -> None:
    with pytest.raises(
        EnvironmentFault, match=r"told nothing at its reset, but .* task \(1\), hid"
    ):
        make([telling(), toy()])
