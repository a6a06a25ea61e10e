"""Exploring episodes depart from the policy as the settings say, and resume exactly."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from resel.analysis._episodes import lay_out
from resel.config import TrainingConfig
from resel.data import Trajectory
from resel.envs import CheckedEnv
from resel.errors import ConfigError
from resel.networks import Categorical, SquashedGaussian
from resel.training import Trainer
from resel.training.actor import Actor
from resel.training.exploration import Exploration

LENGTH = 10


def collected(trainer: Trainer, steps: int) -> list[Trajectory]:
    return [t for _ in range(steps) for t in trainer.collector.step(random=False)]


def departures(monkeypatch: Any, make_trainer: Any, episodes: int, **settings: Any) -> list[int]:
    """Actions per episode that are not the greedy one, of a policy that samples the greedy one."""
    sure = Categorical(torch.log_softmax(torch.tensor([[90.0, 0.0, 0.0]]), -1))
    monkeypatch.setattr(Actor, "observe", lambda self, o, r, state: (sure, state))
    trainer = make_trainer({"length": LENGTH, "spread": 0, "discrete": True}, **settings)
    found = collected(trainer, LENGTH * (episodes + 1))[1:]  # of the first, no length is known
    return [int((t.actions != 0).sum()) for t in found]


def test_one_deviation_is_one(make_trainer: Callable[..., Trainer], monkeypatch: Any) -> None:
    counts = departures(monkeypatch, make_trainer, 150, deviation_episodes=1.0)
    assert set(counts) == {0, 1}
    assert 0.55 < np.mean(counts) < 0.78  # one of three random actions is the greedy one


def test_a_deviation_comes_at_any_step(
    make_trainer: Callable[..., Trainer], monkeypatch: Any
) -> None:
    sure = Categorical(torch.log_softmax(torch.tensor([[90.0, 0.0, 0.0]]), -1))
    monkeypatch.setattr(Actor, "observe", lambda self, o, r, state: (sure, state))
    kind = {"length": LENGTH, "spread": 0, "discrete": True}
    trainer = make_trainer(kind, deviation_episodes=1.0)
    at = [int(np.argmax(t.actions != 0)) for t in collected(trainer, 2000) if t.actions.any()]
    share = np.bincount(at, minlength=LENGTH) / len(at)
    assert share.min() > 0.02 and share.max() < 0.2


def test_strength_is_drawn_for_each_episode(
    make_trainer: Callable[..., Trainer], monkeypatch: Any
) -> None:
    counts = departures(monkeypatch, make_trainer, 150, exploration_epsilon=0.6)
    # A strength of 0.3 on average, two thirds of which show; the same at each step would spread
    # with a variance of 1.6.
    assert 1.4 < np.mean(counts) < 2.6
    assert np.var(counts) > 2.2
    assert not any(departures(monkeypatch, make_trainer, 20))


def test_a_deviation_is_held(make_trainer: Callable[..., Trainer], monkeypatch: Any) -> None:
    """One random action an episode, for one to four steps with chances of 1 / n."""
    more = {"deviation_episodes": 1.0, "noise_hold": 4}
    counts = np.array(departures(monkeypatch, make_trainer, 600, **more))
    assert counts.max() == 4 and 0.28 < np.mean(counts == 0) < 0.40
    share = np.bincount(counts[counts > 0], minlength=5)[1:] / (counts > 0).sum()
    expected = 1 / np.arange(1, 5)
    # An episode may end before what is held does.
    np.testing.assert_allclose(share, expected / expected.sum(), atol=0.09)


def test_random_actions_of_the_warm_up_are_held(make_trainer: Callable[..., Trainer]) -> None:
    trainer = make_trainer({"length": 4000, "spread": 0, "discrete": True}, noise_hold=4)
    (found,) = [t for _ in range(4000) for t in trainer.collector.step(random=True)]
    same = np.mean(np.diff(found.actions[:, 0]) == 0)
    # Held for 1.92 steps on average; of two drawn, one in three is like the one before.
    assert abs(same - (1 - 1 / 1.92 * 2 / 3)) < 0.03
    assert set(np.unique(found.actions)) == {0, 1, 2}


def test_both_together(make_trainer: Callable[..., Trainer], monkeypatch: Any) -> None:
    counts = departures(
        monkeypatch, make_trainer, 100, exploration_epsilon=1.0, deviation_episodes=0.5
    )
    assert np.mean(np.array(counts) <= 1) > 0.5 and max(counts) > 5


@pytest.mark.parametrize("random", [True, False])
def test_noise_is_held(
    random: bool, make_trainer: Callable[..., Trainer], monkeypatch: Any
) -> None:
    still = SquashedGaussian(torch.zeros(1, 2), torch.zeros(1, 2))
    monkeypatch.setattr(Actor, "observe", lambda self, o, r, state: (still, state))
    trainer = make_trainer({"length": 4000, "spread": 0}, noise_hold=4)
    (found,) = [t for _ in range(4000) for t in trainer.collector.step(random=random)]
    changes = np.flatnonzero((np.diff(found.actions, axis=0) != 0).any(1)) + 1
    runs = np.bincount(np.diff(changes), minlength=5)
    assert len(runs) == 5, "never longer than asked for"
    expected = 1 / np.arange(1, 5)
    np.testing.assert_allclose(runs[1:] / runs.sum(), expected / expected.sum(), atol=0.05)
    if not random:
        drawn = np.arctanh(found.actions[changes])
        assert abs(drawn.mean()) < 0.1 and abs(drawn.std() - 1) < 0.1


@pytest.mark.parametrize(
    ("discrete", "settings"),
    [
        (True, {"deviation_episodes": 0.5, "exploration_epsilon": 0.5}),
        (True, {"deviation_episodes": 0.3, "critic_episodes": 0.5}),
        (True, {"exploration_fraction": 0.5, "critic_episodes": 0.5}),
        (False, {"exploration_fraction": 0.5, "noise_hold": 3}),
        (False, {"noise_hold": 8}),
        (True, {"noise_hold": 8, "exploration_epsilon": 0.5, "deviation_episodes": 0.3}),
    ],
)
def test_a_copy_goes_on_alike(
    discrete: bool, settings: dict[str, Any], make_trainer: Callable[..., Trainer]
) -> None:
    one, two = (make_trainer({"discrete": discrete}, num_envs=2, **settings) for _ in range(2))
    collected(one, 33)
    two.collector.restore(*one.collector.state())
    for a, b in zip(collected(one, 60), collected(two, 60), strict=True):
        assert np.array_equal(a.actions, b.actions)


@pytest.mark.parametrize("discrete", [True, False])
def test_exploration_falls_to_nothing(
    discrete: bool, make_trainer: Callable[..., Trainer], monkeypatch: Any
) -> None:
    """As many episodes explore as the part of the training that is over says, then none."""
    if discrete:
        policy: Any = Categorical(torch.log_softmax(torch.tensor([[1.0, 0.0, 0.0]]), -1))
    else:
        policy = SquashedGaussian(torch.zeros(1, 2), torch.zeros(1, 2))
    monkeypatch.setattr(Actor, "observe", lambda self, o, r, state: (policy, state))
    own = {"exploration_epsilon": 0.5, "deviation_episodes": 0.3} if discrete else {}
    kind = {"length": LENGTH, "spread": 0, "discrete": discrete}
    trainer = make_trainer(kind, exploration_fraction=0.5, noise_hold=2, **own)
    for over, expected in ((0.0, 1.0), (0.25, 0.5), (0.5, 0.0), (1.0, 0.0)):
        trainer._exploration.at(over)  # type: ignore[union-attr]
        found = collected(trainer, LENGTH * 301)[1:]  # the first was begun before
        share = float(np.mean([t.actions.any() for t in found]))
        # One deviation may be the greedy action: 0.3 / 3 of all.
        assert share == pytest.approx(expected * (0.9 if discrete else 1.0), abs=0.08)


def test_the_loop_says_how_much_of_the_training_is_over(
    make_trainer: Callable[..., Trainer],
) -> None:
    trainer = make_trainer({"discrete": True}, exploration_fraction=0.5, steps=40, warmup_steps=4)
    seen = []
    at = trainer._exploration.at  # type: ignore[union-attr]
    trainer._exploration.at = lambda share: (seen.append(share), at(share))  # type: ignore
    trainer.train(40)
    assert seen == [step / 40 for step in range(40)]


@pytest.mark.parametrize(
    "asked",
    [
        {"exploration_fraction": 0.5},
        {"exploration_epsilon": 0.5},
        {"deviation_episodes": 0.5},
        {"noise_hold": 5},
    ],
)
def test_who_learns_from_their_own_draws_does_not_depart_from_them(
    asked: dict[str, Any], make_trainer: Callable[..., Trainer]
) -> None:
    ((name, value),) = asked.items()
    with pytest.raises(ConfigError, match=rf"{name}={value} .* ppo-gru learns from"):
        make_trainer({"discrete": True}, method="ppo-gru", encoder="gru", num_envs=4, **asked)


@pytest.mark.parametrize("name", ["exploration_epsilon", "deviation_episodes", "critic_episodes"])
def test_settings_for_discrete_actions_are_refused(name: str, toy: Any) -> None:
    with pytest.raises(ConfigError, match=f"{name}=.* actions here are"):
        Exploration.of(TrainingConfig(**{name: 0.1}), [CheckedEnv(toy(discrete=False))])


@pytest.mark.parametrize(
    "settings", [{"exploration_epsilon": 1.5}, {"deviation_episodes": -0.1}, {"noise_hold": 0}]
)
def test_values_that_make_no_sense_are_refused(settings: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=next(iter(settings))):
        TrainingConfig(**settings)


@pytest.mark.parametrize("method", ["resel", "sac", "sac-gru"])
def test_a_critic_is_followed(method: str, make_trainer: Callable[..., Trainer]) -> None:
    """The episode's actions are those that its head likes best, found from the whole episode."""
    settings = {"method": method, "encoder": None if method == "sac" else "gru"}
    kind = {"length": 6, "spread": 0, "discrete": True}
    trainer = make_trainer(kind, critic_episodes=1.0, alpha=1e-4, **settings)
    learner = trainer.learner
    for trajectory in collected(trainer, 30):
        batch = lay_out([trajectory])[0]
        inputs, action = learner.inputs(batch)
        with torch.no_grad():
            q = learner.critic.values(learner.critic.embed(inputs, batch.is_first))[:, batch.mask]
        best = q.argmax(-1) == action[batch.mask]  # (heads, steps)
        assert best.all(1).any()


def test_shares_of_episodes(make_trainer: Callable[..., Trainer]) -> None:
    with pytest.raises(ConfigError, match="together at most 1"):
        TrainingConfig(deviation_episodes=0.6, critic_episodes=0.6)
    with pytest.raises(ConfigError, match=r"critic_episodes=0.5 is for Discrete actions"):
        make_trainer({}, critic_episodes=0.5)
