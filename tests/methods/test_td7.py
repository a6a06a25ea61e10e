"""TD7: updates done again the slow way, and which policy is kept when."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from slow_steps import BOX, SlowMethod, make_batch, make_learner, steps_of
from torch import Tensor, nn

from resel import Agent
from resel.config import TrainingConfig
from resel.data import Batch, Moment, Trajectory
from resel.methods import Learner
from resel.methods._assessment import Assessment
from resel.training import Actor

SIZES = {"method": "td7", "embedding": 5, "head_width": 6, "lr_embeddings": 7e-3}


def through(layers: nn.Sequential, x: Tensor, activation: Any) -> Tensor:
    linears = [layer for layer in layers if isinstance(layer, nn.Linear)]
    for layer in linears[:-1]:
        x = activation(layer.weight @ x + layer.bias)
    return linears[-1].weight @ x + linears[-1].bias


def elu(x: Tensor) -> Tensor:
    return torch.where(x > 0, x, x.exp() - 1)


def relu(x: Tensor) -> Tensor:
    return torch.where(x > 0, x, 0 * x)


def shrunk(x: Tensor) -> Tensor:
    return x / x.abs().mean()


class SlowTD7(SlowMethod):
    """Fujimoto et al. 2023."""

    def __init__(self, learner: Learner) -> None:
        super().__init__(learner)
        self.fixed = copy.deepcopy(self.networks["embeddings"])
        self.target_fixed = copy.deepcopy(self.networks["embeddings"])
        self.range, self.seen = [0.0, 0.0], [np.inf, -np.inf]
        self.priorities: dict[int, float] = {}

    def zs(self, embeddings: Any, observation: Tensor) -> Tensor:
        return shrunk(through(embeddings.f, observation, elu))

    def zsa(self, embeddings: Any, zs: Tensor, action: Tensor) -> Tensor:
        return through(embeddings.g, torch.cat([zs, action]), elu)

    def act(self, policy: Any, embeddings: Any, observation: Tensor) -> Tensor:
        own = shrunk(policy.first.weight @ observation + policy.first.bias)
        x = torch.cat([own, self.zs(embeddings, observation).detach()])
        return torch.tanh(through(policy.head, x, relu))

    def both(self, critic: Any, embeddings: Any, observation: Tensor, action: Tensor) -> Any:
        zs = self.zs(embeddings, observation).detach()
        zsa = self.zsa(embeddings, zs, action)
        for e in range(2):
            own = shrunk(critic.weight[e] @ torch.cat([observation, action]) + critic.bias[e])
            x = torch.cat([own, zsa, zs])
            last = len(critic.heads.weights) - 1
            for i in range(last + 1):
                x = critic.heads.weights[i][e] @ x + critic.heads.biases[i][e]
                x = x if i == last else elu(x)
            yield x[0]

    def update(self, batch: Batch) -> dict[str, float]:
        settings, steps = self.settings, steps_of(batch, self.learner)
        noise = self.noise(batch, self.generator())
        embeddings, critic = self.networks["embeddings"], self.networks["critic"]
        loss: Any = 0.0
        for s in steps:
            wanted = self.zs(embeddings, s.next_observation).detach()
            guess = self.zsa(embeddings, self.zs(embeddings, s.observation), s.action)
            loss = loss + ((guess - wanted) ** 2).sum() / len(wanted)
        self.descend("embeddings", loss / len(steps))
        found = {"embeddings_loss": loss.item() / len(steps)}
        self.fixed.requires_grad_(False)

        loss, targets = 0.0, []
        for i, s in enumerate(steps):
            with torch.no_grad():
                action = self.act(self.targets["policy"], self.target_fixed, s.next_observation)
                jitter = settings.target_noise * noise[s.row, s.slot + 1]
                jitter = jitter.clamp(-settings.target_noise_clip, settings.target_noise_clip)
                action = (action + jitter).clamp(-1, 1)
                heads = self.both(
                    self.targets["critic"], self.target_fixed, s.next_observation, action
                )
                value = min(max(min(q.item() for q in heads), self.range[0]), self.range[1])
            y = s.reward + (0 if s.ended else settings.gamma * value)
            targets.append(y)
            errors = []
            for q in self.both(critic, self.fixed, s.observation, s.action):
                size = (q - y).abs()
                loss = loss + (0.5 * size**2 if size < 1 else size)
                errors.append(size.item())
            if len(batch.origins) == len(steps):
                self.priorities[batch.origins[i]] = max(*errors, 1) ** settings.priority_exponent
        self.descend("critic", loss / len(steps))
        found |= {"critic_loss": loss.item() / len(steps), "target_mean": sum(targets) / len(steps)}
        self.seen = [min(self.seen[0], *targets), max(self.seen[1], *targets)]

        self.updates += 1
        if self.updates % settings.policy_delay == 0:
            total: Any = 0.0
            for s in steps:
                action = self.act(self.networks["policy"], self.fixed, s.observation)
                total = total - sum(self.both(critic, self.fixed, s.observation, action)) / 2
            self.descend("policy", total / len(steps))
            found["policy_loss"] = total.item() / len(steps)
        if self.updates % settings.target_every == 0:
            self.targets = {name: copy.deepcopy(self.networks[name]) for name in self.targets}
            self.target_fixed = copy.deepcopy(self.fixed)
            self.fixed = copy.deepcopy(embeddings)
            self.range = list(self.seen)
        return found

    def check(self) -> None:
        pairs: list[tuple[Any, Any]] = []
        for name, mine in self.networks.items():
            pairs += zip(mine.parameters(), self.learner.networks[name].parameters(), strict=True)
        for name, mine in self.targets.items():
            pairs += zip(mine.parameters(), self.learner.targets[name].parameters(), strict=True)
        held = ((self.learner.networks, self.fixed), (self.learner.targets, self.target_fixed))
        for networks, mine in held:
            for name in ("policy", "critic"):
                theirs = networks[name].get_submodule("embeddings").state_dict()
                pairs += [(value, theirs[key]) for key, value in mine.state_dict().items()]
        pairs.append(
            (torch.tensor(self.range, dtype=torch.float64), self.learner.weights()["value_range"])
        )
        for one, other in pairs:
            torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("packed", [False, True], ids=["transitions", "packed"])
def test_updates_are_the_formulas(packed: bool) -> None:
    learner = make_learner(BOX, **SIZES, target_every=3, reward_scale=3.0)
    reference = SlowTD7(learner)
    for number in range(7):
        batch = make_batch(BOX, number, packed)
        expected = reference.update(batch)
        metrics = learner.update(batch, want_metrics=True)
        assert ("policy_loss" in metrics) == ("policy_loss" in expected)
        for name, value in expected.items():
            assert metrics[name].item() == pytest.approx(value, rel=1e-9, abs=1e-11), name
        reference.check()
    values: Any = learner.extra_state()["priorities"]
    assert {at: values[at].item() for at in reference.priorities} == pytest.approx(
        reference.priorities, rel=1e-6
    )
    assert len(set(reference.priorities.values())) > 3 or packed


def episode(total: float, length: int = 4) -> Trajectory:
    rewards = np.full(length, total / length, np.float32)
    shapes = np.zeros((length + 1, 3), np.float32), np.zeros((length, 2), np.float32)
    return Trajectory(*shapes, rewards, terminated=False)


class Judge:
    """An assessment, fed with episodes that follow each other, and how many policies it kept."""

    def __init__(self, needed: int = 1, **settings: Any) -> None:
        settings = {"warmup_steps": 10, **settings}
        self.kept = 0
        self.assessment = Assessment(TrainingConfig(**settings), needed, self.keep)
        self.step = settings["warmup_steps"]

    def keep(self) -> None:
        self.kept += 1

    def __call__(self, total: float, length: int = 4) -> tuple[int, int]:
        """Updates that are due after an episode with this return, and policies kept so far."""
        for _ in range(length - 1):
            self.step += 1
            assert self.assessment.due(Moment(self.step - 1, self.step, 0, 0)) == 0
        self.step += 1
        moment = Moment(self.step - 1, self.step, 0, 0, (episode(total, length),))
        return self.assessment.due(moment), self.kept


def test_one_episode_is_enough_at_first() -> None:
    judge = Judge()
    assert [judge(total) for total in (1.0, 3.0, 2.0, 3.0)] == [(4, 1), (4, 2), (4, 2), (4, 3)]


def test_a_policy_is_kept_once_it_was_never_worse_and_dropped_at_its_first_worse_episode() -> None:
    judge = Judge(needed=2)
    assert [judge(total) for total in (5.0, 3.0)] == [(0, 0), (8, 1)]
    assert judge(2.0) == (4, 1)  # worse than 3, the lowest of the one kept
    assert [judge(total) for total in (9.0, 2.0)] == [(0, 1), (8, 1)]
    assert [judge(3.0, length=6), judge(4.0)] == [(0, 1), (10, 2)]


@pytest.mark.parametrize(("best", "asked"), [(10.0, 9.0), (-10.0, -11.0)])
def test_more_episodes_are_asked_for_and_less_of_them(best: float, asked: float) -> None:
    judge = Judge()
    assert judge(best) == (4, 1)
    judge.assessment.ask_for_more(2, 0.9)
    assert judge(asked - 0.1) == (4, 1)
    assert [judge(asked + 0.1), judge(asked + 0.1)] == [(0, 1), (8, 2)]


def test_looking_ahead_counts_steps_and_judges_nothing() -> None:
    judge = Judge(updates_per_step=0.5)
    before = judge.assessment.state()["assessment"]
    assert judge.assessment.due(Moment(10, 110, 10, 110)) == 50
    assert torch.equal(judge.assessment.state()["assessment"], before)


def test_updates_per_step_and_their_rest() -> None:
    judge = Judge(updates_per_step=0.3)
    assert sum(judge(1.0, length=3)[0] for _ in range(20)) in (17, 18)


def test_episodes_with_random_actions_or_of_several_policies_judge_nothing() -> None:
    kept = []
    settings = TrainingConfig(warmup_steps=10, num_envs=2)
    assessment = Assessment(settings, 1, lambda: kept.append(1))

    def due(step: int, *lengths: int) -> int:
        ended = tuple(episode(1.0, length) for length in lengths)
        return assessment.due(Moment(step - 2, step, 0, 0, ended))

    assert due(14, 4) == 0  # begun at step 6
    assert due(18, 4) == 4 and len(kept) == 1
    assert due(20, 3) == 0 and len(kept) == 1  # begun before these updates; its steps count
    assert due(24, 3) == 6 and len(kept) == 2


def test_one_is_kept_in_the_first_updates_and_several_later() -> None:
    learner = make_learner(BOX, **SIZES, assessment_after=2, assessment_episodes=7)
    assessment: Assessment = learner.schedule  # type: ignore[assignment]
    needed = []
    for number in range(4):
        learner.update(make_batch(BOX, number, packed=False))
        needed.append(assessment.needed)
    assert needed == [1, 1, 7, 7]
    always = make_learner(BOX, **SIZES, assessment_after=0, assessment_episodes=7)
    assert always.schedule.needed == 7  # type: ignore[attr-defined]


def test_the_policy_that_is_kept_is_evaluated_and_saved_and_the_newest_explores(
    tmp_path: Path,
) -> None:
    small = {"embedding": 8, "head_width": 8, "batch_transitions": 8, "device": "cpu"}
    agent = Agent("toy/Box-v0", "td7", preset="paper", buffer_steps=200, **small)
    learner, seen = agent.learner, np.ones(3, np.float32)
    before, _ = agent.predict(seen)
    with torch.no_grad():
        for parameter in learner.policy.parameters():
            parameter += 1
    np.testing.assert_array_equal(agent.predict(seen)[0], before)
    agent.save(tmp_path / "agent")
    again = Agent.load(tmp_path / "agent", device="cpu")
    np.testing.assert_array_equal(again.predict(seen)[0], before)
    explorer = Actor(learner, explores=True)
    given = seen[None], np.zeros(1, np.float32), explorer.initial_state(1)
    newest = explorer.observe(*given)[0].mode()
    assert not torch.equal(newest, Actor(learner).observe(*given)[0].mode())
    moment = Moment(99_999, 100_000, 0, 0, (episode(1.0),))
    assert learner.schedule.due(moment) == 4
    assert torch.equal(newest, Actor(learner).observe(*given)[0].mode())
    for one in (agent, again):
        one.close()
