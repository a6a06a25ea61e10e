"""The loop: when it learns, when it looks, and that looking changes nothing."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from resel import RESeL
from resel.config import Config
from resel.envs import CheckedEnv
from resel.errors import ConfigError, DivergedError
from resel.runs import MetricsLog, read_metrics
from resel.training import Actor, Trainer, TrainProgress, evaluation_seeds

Make = Callable[..., Trainer]


@pytest.mark.parametrize("num_envs", [1, 3])
@pytest.mark.parametrize("discrete", [True, False])
def test_one_update_for_each_step_after_warmup(
    make_trainer: Make, num_envs: int, discrete: bool
) -> None:
    trainer = make_trainer({"discrete": discrete}, num_envs=num_envs, warmup_steps=30)
    seen: list[TrainProgress] = []
    assert trainer.train(60, [seen.append])
    assert [p.step for p in seen] == list(range(num_envs, 61, num_envs))
    for progress in seen:
        # The step that completes the warm-up is the first one learned after.
        expected = max(0, progress.step - 30 + num_envs) if progress.step >= 30 else 0
        assert progress.updates == expected
    assert trainer.learner.updates == 30 + num_envs


def test_acts_at_random_exactly_in_warmup(make_trainer: Make, monkeypatch: Any) -> None:
    trainer = make_trainer(warmup_steps=20)
    flags: list[bool] = []
    step = trainer.collector.step
    monkeypatch.setattr(
        trainer.collector, "step", lambda *, random: (flags.append(random), step(random=random))[1]
    )
    trainer.train(35)
    assert flags == [True] * 20 + [False] * 15


def test_nothing_is_learned_before_the_first_episode_ends(make_trainer: Make) -> None:
    trainer = make_trainer({"length": 40, "spread": 0}, warmup_steps=5)
    before = {name: w.clone() for name, w in trainer.learner.weights().items()}
    trainer.train(39)
    assert trainer.learner.updates == 0 and trainer.episodes == 0
    assert all(torch.equal(w, before[name]) for name, w in trainer.learner.weights().items())
    trainer.train(3)
    assert trainer.learner.updates == 3 and trainer.episodes == 1


def test_learning_moves_every_network(make_trainer: Make) -> None:
    trainer = make_trainer()
    before = {name: w.clone() for name, w in trainer.learner.weights().items()}
    trainer.train(60)
    after = trainer.learner.weights()
    for part in ("policy.", "critic.", "target_critic."):
        moved = [not torch.equal(after[n], w) for n, w in before.items() if n.startswith(part)]
        assert sum(moved) > len(moved) / 2
    assert after["log_alpha"] != before["log_alpha"]


def test_rates_fall_in_the_second_half(make_trainer: Make, monkeypatch: Any) -> None:
    trainer = make_trainer(steps=100, lr_final_scale=0.2)
    learner, seen = trainer.learner, {}
    update = type(learner).update

    def noted(self: Any, *given: Any, **named: Any) -> Any:
        groups = [g for name in ("policy", "critic") for g in self.optimizers[name].param_groups]
        seen[trainer.step] = [group["lr"] for group in groups]
        return update(self, *given, **named)

    monkeypatch.setattr(type(learner), "update", noted)
    trainer.train(120)
    rates = [group.lr for name in ("policy", "critic") for group in learner.groups[name]]
    for step, share in ((30, 1.0), (50, 1.0), (75, 0.6), (100, 0.2), (120, 0.2)):
        assert seen[step] == pytest.approx([share * lr for lr in rates])


def test_a_longer_training_of_the_library_falls_to_its_own_end() -> None:
    agent = RESeL(
        "TMaze-v0", steps=100, warmup_steps=40, eval_every=0, lr_final_scale=0.2, batch_steps=42
    )
    agent.learn(60)
    assert agent.config.training.steps == 100
    (lr, _) = (group["lr"] for group in agent.learner.optimizers["policy"].param_groups)
    own = agent.learner.groups["policy"][0].lr
    assert lr == pytest.approx(0.84 * own)
    agent.learn(140)
    assert agent.config.training.steps == 200
    assert agent.learner.optimizers["policy"].param_groups[0]["lr"] == pytest.approx(0.2 * own)
    agent.close()


def test_a_return_has_to_be_held(make_trainer: Make) -> None:
    trainer = make_trainer(eval_every=10, stop_return=2.0)
    trainer.evaluator.history += [(0, 5.0, 0.0), (1, 3.0, 0.0), (2, 3.0, 0.0)]
    assert trainer.ending is None  # the one at step 0 does not count
    for mean in (1.9, 2.0, 2.0, math.nan, 9.0):
        trainer.evaluator.history.append((3, mean, 0.0))
        assert trainer.ending is None
    trainer.evaluator.history += [(4, 2.0, 0.0), (5, 2.0, 0.0)]
    assert trainer.ending is not None and trainer.ending.held_return == 2.0
    assert trainer.train(50) and trainer.step == 0


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"stop_return": math.inf}, "must be a finite number"),
        ({"stop_return": "much"}, "wrong type"),
        ({"stop_return": 1.0, "eval_every": 0}, "needs evaluations on the way: set eval_every"),
    ],
)
def test_a_return_that_cannot_be_held(
    make_trainer: Make, settings: dict[str, Any], message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        make_trainer(**settings)


def test_the_buffer_holds_every_finished_episode(make_trainer: Make) -> None:
    trainer = make_trainer({"length": 4, "spread": 0}, num_envs=2)
    trainer.train(50)
    assert trainer.episodes == len(trainer.buffer) == 12
    assert trainer.buffer.steps == 48


def test_evaluation_has_its_own_world_and_seeds(make_trainer: Make) -> None:
    trainer = make_trainer(eval_every=20, eval_episodes=3, seed=4)
    assert trainer.evaluator.env is not None
    world = trainer.evaluator.env.env.unwrapped
    trainer.train(60)
    assert [step for step, _, _ in trainer.evaluator.history] == [0, 20, 40, 60]
    seeds = evaluation_seeds(4, 3)
    assert world.seeds == seeds * 4
    assert len(set(seeds)) == 3
    trained_on = {s for env in trainer._envs for s in env.env.unwrapped.seeds}
    assert not trained_on & set(seeds)


def test_evaluation_is_deterministic(make_trainer: Make, monkeypatch: Any) -> None:
    trainer = make_trainer()
    trainer.train(45)
    generators: list[Any] = []
    choose = Actor.choose
    monkeypatch.setattr(
        Actor, "choose", lambda self, p, g: (generators.append(g), choose(self, p, g))[1]
    )
    first, second = trainer.evaluate(), trainer.evaluate()
    assert first is not None and second is not None
    assert first == second
    assert generators and set(generators) == {None}
    assert first.return_mean == pytest.approx(np.mean(first.returns))
    assert first.return_std == pytest.approx(np.std(first.returns))
    assert all(4 <= length <= 7 for length in first.lengths)
    assert first.successes is not None and len(first.successes) == 2


@pytest.mark.parametrize("num_envs", [1, 2])
def test_evaluating_does_not_disturb_training(
    make_trainer: Make, everything: Callable[[Trainer], dict[str, Any]], num_envs: int
) -> None:
    watched = make_trainer(num_envs=num_envs, eval_every=7, eval_episodes=2)
    alone = make_trainer(num_envs=num_envs, eval_every=0)
    watched.train(70)
    alone.train(70)
    seen, unseen = everything(watched), everything(alone)
    assert len(watched.evaluator.history) == 11 and not alone.evaluator.history
    for part in (seen, unseen):
        del part["config"], part["evaluator/evaluations"]
        part["evaluator"] = part["evaluator"]["due"]
    assert seen == unseen


def test_the_seed_decides_everything(
    make_trainer: Make, everything: Callable[[Trainer], dict[str, Any]]
) -> None:
    runs = [make_trainer(seed=seed, num_envs=2, eval_every=20) for seed in (1, 1, 2)]
    torch.manual_seed(0)
    np.random.seed(0)
    for trainer in runs:
        trainer.train(50)
        torch.rand(3)  # the global streams have no say
        np.random.rand(3)
    first, same, other = map(everything, runs)
    assert first == same
    weights = [name for name in first if name.startswith("weights/policy.")]
    assert any(first[name] != other[name] for name in weights)
    assert first["evaluator/evaluations"] != other["evaluator/evaluations"]


def test_the_final_score_is_the_mean_of_the_last_five(make_trainer: Make) -> None:
    trainer = make_trainer()
    assert trainer.evaluator.final_score() == (None, None, 0)
    trainer.evaluator.history = [(0, 100.0, 50.0)]  # of a policy that has learned nothing
    assert trainer.evaluator.final_score() == (None, None, 0)
    trainer.evaluator.history += [(1, 4.0, 2.0)]
    assert trainer.evaluator.final_score() == (None, None, 0)
    trainer.evaluator.learning_since = 1
    assert trainer.evaluator.final_score() == (4.0, 2.0, 1)
    trainer.evaluator.history += [(i, float(i), 1.0) for i in range(2, 7)]
    assert trainer.evaluator.final_score() == (4.0, 1.0, 5)


def test_evaluations_count_once_learning_has_begun(make_trainer: Make) -> None:
    trainer = make_trainer(eval_every=10, warmup_steps=25)
    trainer.train(20)
    assert [step for step, *_ in trainer.evaluator.history] == [0, 10, 20]
    assert trainer.evaluator.final_score() == (None, None, 0)
    trainer.train(20)
    means = [mean for step, mean, _ in trainer.evaluator.history if step >= 30]
    assert trainer.evaluator.final_score()[::2] == (float(np.mean(means)), 2)


def test_an_older_evaluator_counts_all_but_step_0(make_trainer: Make) -> None:
    trainer, other = make_trainer(eval_every=10, warmup_steps=25), make_trainer()
    trainer.train(20)
    tensors, document = trainer.evaluator.state()
    del document["learning_since"]
    other.evaluator.restore(tensors, document)
    assert other.evaluator.learning_since == 10
    trainer.train(10)
    other.evaluator.restore(*trainer.evaluator.state())
    assert other.evaluator.learning_since == 30


def test_a_callback_stops_by_returning_false(make_trainer: Make) -> None:
    trainer = make_trainer()
    others: list[int] = []
    answers = [lambda p: p.step < 12, lambda p: others.append(p.step)]
    assert trainer.train(50, answers) and trainer.ending == ("a callback returned False", None)
    assert trainer.step == 12 and others == list(range(1, 13))
    assert trainer.train(3) and trainer.ending is None  # a stop is for one call
    assert trainer.step == 15

    def enough(progress: TrainProgress) -> bool:
        return False

    assert trainer.train(3, [enough]) and trainer.step == 16
    assert trainer.ending == ("a callback returned False (enough)", None)


def test_a_stop_can_be_requested(make_trainer: Make) -> None:
    trainer = make_trainer()
    assert not trainer.train(50, [lambda p: trainer.request_stop() if p.step == 9 else None])
    assert trainer.step == 9 and trainer.ending is None


def test_callbacks_see_where_the_run_stands(make_trainer: Make) -> None:
    trainer = make_trainer({"length": 5, "spread": 0}, eval_every=10)
    trainer.train(4)
    seen: list[TrainProgress] = []
    trainer.train(8, [seen.append])
    assert [(p.step, p.total, p.episodes) for p in seen[:2]] == [(5, 12, 1), (6, 12, 1)]
    assert seen[-1].episodes == 2
    stored = trainer.buffer.rewards[6:11].sum(dtype=np.float64)  # 5 steps and a last step each
    assert seen[-1].episode_return == pytest.approx(stored)
    assert seen[-1].evaluation_return == trainer.evaluator.history[-1][1]


def test_windows_of_the_context_length(make_trainer: Make) -> None:
    trainer = make_trainer({"length": 9, "spread": 3}, context_length=3, batch_steps=20)
    trainer.train(60)
    assert trainer.learner.updates > 20
    batch = trainer.sample()
    assert batch.steps >= 20
    starts = [*torch.nonzero(batch.is_first[0])[:, 0].tolist(), batch.is_first.shape[1]]
    assert {b - a for a, b in itertools.pairwise(starts)} == {4}
    whole = make_trainer({"length": 9, "spread": 0})
    whole.train(40)
    starts = torch.nonzero(whole.sample().is_first[0])[:, 0].tolist()
    assert {b - a for a, b in itertools.pairwise(starts)} == {10}


def test_normalisation_follows_all_observations(make_trainer: Make) -> None:
    trainer = make_trainer(normalize_observations=True)
    trainer.train(60)
    observations = np.concatenate([trainer.buffer.blocks(piece)[0] for piece in trainer.buffer])
    normalizer = trainer.learner.normalizer
    assert float(normalizer.count) == len(observations)
    np.testing.assert_allclose(normalizer.mean, observations.mean(0), atol=1e-5)
    np.testing.assert_allclose(normalizer.deviation, observations.std(0), atol=1e-5)


def test_metrics_lines(make_trainer: Make, tmp_path: Path) -> None:
    trainer = make_trainer(eval_every=25, log_every=10)
    with MetricsLog(tmp_path, tensorboard=False) as trainer.log.writer:
        trainer.train(62)
    lines = read_metrics(tmp_path / "metrics.jsonl")
    steps = {kind: [ln["step"] for ln in lines if ln["kind"] == kind] for kind in _KINDS}
    assert steps == {
        "train": [30, 40, 50, 60],  # nothing is learned before
        "eval": [0, 25, 50],
        "timing": [10, 20, 30, 40, 50, 60],
    }
    for line in lines:
        fields = set(line) - {"step", "kind"}
        assert fields == _KINDS[line["kind"]]
        assert all(math.isfinite(line[name]) for name in fields)
    last = [line for line in lines if line["kind"] == "train"][-1]
    assert all(last[name] > 0 for name in last if name.startswith("gradient_norm/"))
    assert last["batch_steps"] >= 30 and last["padding_share"] == 0.0


@pytest.mark.parametrize(("length", "expected"), [(5, [2, 2, 2]), (25, [1, 1, 1])])
def test_logged_returns_are_those_since_the_line_before(
    make_trainer: Make, tmp_path: Path, length: int, expected: list[int]
) -> None:
    """The mean of the episodes that ended in between, or the last one known if none has."""
    trainer = make_trainer({"length": length, "spread": 0}, log_every=10, eval_every=0)
    trainer.train(28)
    with MetricsLog(tmp_path, tensorboard=False) as trainer.log.writer:
        trainer.train(34)
    logged = {
        line["step"]: line["episode_return"]
        for line in read_metrics(tmp_path / "metrics.jsonl")
        if line["kind"] == "train"
    }
    returns = [trainer.buffer.blocks(piece)[2].sum(dtype=np.float64) for piece in trainer.buffer]
    for step, count in zip((40, 50, 60), expected, strict=True):
        ended = step // length
        assert logged[step] == pytest.approx(np.mean(returns[ended - count : ended])), step
    assert len(set(logged.values())) > 1


_KINDS = {
    "train": {
        *(
            f"gradient_norm/{network}/{group}"
            for network in ("policy", "critic")
            for group in ("context_encoder", "other")
        ),
        *("critic_loss", "policy_loss", "entropy", "alpha", "q_mean", "target_mean"),
        *("context_norm", "context_std"),
        *("padding_share", "batch_steps", "buffer_steps", "episode_return", "episodes"),
    },
    "eval": {"return_mean", "return_std", "length_mean", "success_rate", "updates"},
    "timing": {"updates_per_second", "steps_per_second", "seconds", "cpu_seconds"},
}


def _poison(network: torch.nn.Module) -> None:
    with torch.no_grad():
        for weight in network.parameters():
            weight.fill_(math.nan)


@pytest.mark.parametrize("discrete", [True, False])
@pytest.mark.parametrize("network", ["policy", "critic", "target_critic"])
def test_divergence_is_reported(make_trainer: Make, discrete: bool, network: str) -> None:
    trainer = make_trainer({"discrete": discrete})
    trainer.train(40)
    _poison(getattr(trainer.learner, network))
    with pytest.raises(DivergedError, match="diverged"):
        trainer.train(30)
    assert trainer.step <= 52  # ten updates in a row, told with the next `train` line


@pytest.mark.parametrize("discrete", [True, False])
def test_evaluation_of_a_broken_policy_is_refused(make_trainer: Make, discrete: bool) -> None:
    trainer = make_trainer({"discrete": discrete})
    _poison(trainer.learner.policy)
    with pytest.raises(DivergedError, match="not finite"):
        trainer.evaluate()


def test_divergence_is_written_down_first(make_trainer: Make, tmp_path: Path) -> None:
    """The numbers of the broken updates are in the metrics before the run ends."""
    trainer = make_trainer(log_every=10)
    with MetricsLog(tmp_path, tensorboard=False) as trainer.log.writer:
        trainer.train(45)
        _poison(trainer.learner.critic)
        with pytest.raises(DivergedError, match="critic was not finite in 10 updates in a row"):
            trainer.train(30)
    lines = [ln for ln in read_metrics(tmp_path / "metrics.jsonl") if ln["kind"] != "timing"]
    assert [ln["step"] for ln in lines if ln["kind"] == "train"] == [30, 40, 50, 60]
    assert all(math.isnan(ln["critic_loss"]) for ln in lines[2:4])
    assert {ln["network"] for ln in lines if ln["kind"] == "event"} == {"critic", "policy"}


def test_close_reaches_every_world(make_trainer: Make) -> None:
    trainer = make_trainer(num_envs=2)
    trainer.close()
    assert trainer.evaluator.env is not None
    envs = [*trainer._envs, trainer.evaluator.env]
    assert all(env.env.unwrapped.closed for env in envs)


def test_without_a_world_to_evaluate_in(toy: Any, tiny: dict[str, Any]) -> None:
    trainer = Trainer(Config.build("", tiny, {"eval_every": 5}), [CheckedEnv(toy())])
    trainer.train(12)
    assert trainer.evaluate() is None
    assert trainer.evaluator.history == []
