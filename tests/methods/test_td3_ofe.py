"""TD3+OFE: updates done again the slow way, and the features' own phase."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from slow_steps import BOX, SlowMethod, make_batch, make_learner, steps_of
from torch import Tensor, nn

from resel.data import Batch, Moment
from resel.errors import ConfigError

SIZES = {
    "method": "td3-ofe",
    "head_width": 6,
    "last_width": 5,
    "critic_width": None,
    "feature_units": 6,
    "feature_layers": 2,
    "lr_features": 7e-3,
}


def swish(x: Tensor) -> Tensor:
    return x / (1 + (-x).exp())


class SlowOFE(SlowMethod):
    """Ota et al. 2020, on TD3 of Fujimoto et al. 2018."""

    def grown(self, layers: Any, rows: list[Tensor]) -> list[Tensor]:
        """Features of a batch, normalised by its own mean and variance, which are taken in."""
        for layer in layers:
            made = [layer.linear.weight @ x for x in rows]
            mean = sum(made) / len(made)
            variance = sum((y - mean) ** 2 for y in made) / len(made)
            rows = [
                torch.cat([self.normal(layer, y, mean, variance), x])
                for x, y in zip(rows, made, strict=True)
            ]
            layer.mean = 0.99 * layer.mean + 0.01 * mean.detach()
            layer.variance = 0.99 * layer.variance + 0.01 * variance.detach()
        return rows

    @staticmethod
    def normal(layer: Any, y: Tensor, mean: Tensor, variance: Tensor) -> Tensor:
        return swish(layer.scale * (y - mean) / (variance + 1e-3).sqrt() + layer.shift)

    def standing(self, layers: Any, x: Tensor) -> Tensor:
        """Features by the running mean and variance."""
        for layer in layers:
            y = layer.linear.weight @ x
            x = torch.cat([self.normal(layer, y, layer.mean, layer.variance), x])
        return x

    def act(self, policy: Any, observation: Tensor) -> Tensor:
        zs = self.standing(self.networks["features"].of_observation, observation).detach()
        return torch.tanh(self.policy_output(policy.inside, zs))

    def judge(self, critic: Any, observation: Tensor, action: Tensor) -> list[Tensor]:
        features: Any = self.networks["features"]
        zs = self.standing(features.of_observation, observation).detach()
        return self.q(critic.inside, self.standing(features.of_both, torch.cat([zs, action])), None)

    def update_features(self, batch: Batch) -> dict[str, float]:
        steps, features = steps_of(batch, self.learner), self.networks["features"]
        rows = self.grown(features.of_observation, [s.observation for s in steps])
        both = [torch.cat([x, s.action]) for x, s in zip(rows, steps, strict=True)]
        loss: Any = 0.0
        for x, s in zip(self.grown(features.of_both, both), steps, strict=True):
            guess = features.prediction.weight @ x + features.prediction.bias
            wanted = s.next_observation[: len(guess)]
            loss = loss + ((guess - wanted) ** 2).sum() / len(guess)
        self.descend("features", loss / len(steps))
        return {"features_loss": loss.item() / len(steps)}

    def update(self, batch: Batch) -> dict[str, float]:
        settings, steps = self.settings, steps_of(batch, self.learner)
        noise = self.noise(batch, self.generator())
        loss: Any = 0.0
        for s in steps:
            with torch.no_grad():
                jitter = settings.target_noise * noise[s.row, s.slot + 1]
                jitter = jitter.clamp(-settings.target_noise_clip, settings.target_noise_clip)
                action = self.act(self.targets["policy"], s.next_observation) + jitter
                heads = self.judge(self.targets["critic"], s.next_observation, action.clamp(-1, 1))
                smaller = min(q.item() for q in heads)
            y = s.reward + (0 if s.ended else settings.gamma * smaller)
            for q in self.judge(self.networks["critic"], s.observation, s.action):
                loss = loss + (q[0] - y) ** 2
        self.descend("critic", loss / len(steps))
        found = {"critic_loss": loss.item() / len(steps)}
        self.updates += 1
        if self.updates % settings.policy_delay == 0:
            total: Any = 0.0
            for s in steps:
                action = self.act(self.networks["policy"], s.observation)
                total = total - self.judge(self.networks["critic"], s.observation, action)[0][0]
            self.descend("policy", total / len(steps))
            self.follow()
            found["policy_loss"] = total.item() / len(steps)
        return found


@pytest.mark.parametrize("packed", [False, True], ids=["transitions", "packed"])
@pytest.mark.parametrize("changes", [{}, {"predicted_size": 2, "pretraining_updates": 3}])
def test_updates_are_the_formulas(changes: dict[str, Any], packed: bool) -> None:
    learner = make_learner(BOX, **SIZES, **changes)
    reference = SlowOFE(learner)
    first = changes.get("pretraining_updates", 0)
    for number in range(first + 8):
        batch = make_batch(BOX, number, packed)
        of_features = number < first or (number - first) % 2 == 0
        expected = (reference.update_features if of_features else reference.update)(batch)
        metrics = learner.update(batch, want_metrics=True)
        assert ("features_loss" in metrics) == of_features
        assert ("policy_loss" in metrics) == ("policy_loss" in expected)
        for name, value in expected.items():
            assert metrics[name].item() == pytest.approx(value, rel=1e-9, abs=1e-11), name
        reference.check()


def test_targets_read_the_features_that_learn() -> None:
    learner = make_learner(BOX, **SIZES)
    features: nn.Module = learner.networks["features"]
    for name in ("policy", "critic"):
        for network in (learner.networks[name], learner.targets[name]):
            assert network._features.held is features  # type: ignore[union-attr]
            assert not [key for key in network.state_dict() if "feature" in key]


def test_the_features_of_a_step_that_is_not_finite_are_forgotten() -> None:
    learner = make_learner(BOX, **SIZES)
    learner.update(make_batch(BOX, 0, packed=False))
    learner.update(make_batch(BOX, 1, packed=False))
    before = {
        name: value.clone() for name, value in learner.networks["features"].state_dict().items()
    }
    batch = make_batch(BOX, 2, packed=False)
    batch.observation[0, 0, 0] = math.nan
    learner.update(batch)
    for name, value in learner.networks["features"].state_dict().items():
        assert torch.equal(value, before[name]), name


def test_features_come_first_and_then_both_in_turn() -> None:
    learner = make_learner(BOX, **SIZES, pretraining_updates=2500)
    schedule, made = learner.schedule, []
    assert schedule.due(Moment(0, 6, 0, 0)) == 2506  # looking ahead
    for step in range(6):
        made.append(schedule.due(Moment(step, step + 1, 0, 0)))
        learner.updates += made[-1]
    assert made == [1000, 1000, 500, 2, 2, 2]
    assert learner.updates_to_log == 4


def test_more_cannot_be_foretold_than_is_seen() -> None:
    with pytest.raises(ConfigError, match="predicted_size=4 is more than the 3 numbers"):
        make_learner(BOX, **SIZES, predicted_size=4)
