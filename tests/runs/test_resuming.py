"""Stopping, saving to disk and going on gives what an uninterrupted run gives, bit for bit."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from checkpoints import save_checkpoint

from resel.errors import DamagedFileError
from resel.runs import MetricsLog, ReplayLog, read_metrics, restore_trainer
from resel.training import Trainer, TrainProgress

Make = Callable[..., Trainer]
Everything = Callable[[Trainer], dict[str, Any]]


def _lines(folder: Path) -> list[dict[str, Any]]:
    lines = read_metrics(folder / "metrics.jsonl")
    return [line for line in lines if line["kind"] != "timing"]


def _rates(trainer: Trainer) -> list[float]:
    optimizers = trainer.learner.optimizers.values()
    return [group["lr"] for optimizer in optimizers for group in optimizer.param_groups]


CASES = [
    # encoder, environments, discrete, stop at, further settings
    ("gru", 1, False, 57, {}),
    ("gru", 2, True, 60, {"normalize_observations": True}),
    ("mamba", 2, False, 58, {"context_length": 3, "reward_input": True}),
    ("mamba", 1, True, 60, {"clamp_target_values": True, "policy_delay": 3}),
    ("lstm", 1, False, 60, {"alpha": 0.2}),
    ("gru", 1, False, 12, {}),  # in the warm-up
    ("gru", 1, False, 57, {"steps": 100, "lr_final_scale": 0.1}),
    ("gru", 1, False, 57, {"buffer_steps": 25}),  # the ring has gone round
    (None, 1, False, 57, {"method": "td7", "buffer_steps": 25, "target_every": 3}),
    (None, 2, False, 58, {"method": "td7", "assessment_after": 0, "assessment_episodes": 3}),
    (None, 1, False, 57, {"method": "td3-ofe", "pretraining_updates": 20}),
    (None, 1, False, 57, {"method": "vrm", "learn_after": 40, "pretraining_updates": 20}),
    ("lstm", 2, True, 58, {"method": "mf-lstm", "batch_episodes": 3}),
]


@pytest.mark.parametrize(("encoder", "num_envs", "discrete", "stop", "more"), CASES)
def test_the_continued_run_is_the_same_run(
    make_trainer: Make,
    everything: Everything,
    tmp_path: Path,
    encoder: str | None,
    num_envs: int,
    discrete: bool,
    stop: int,
    more: dict[str, Any],
) -> None:
    settings = {"encoder": encoder, "num_envs": num_envs, "eval_every": 20, **more}
    world = {"discrete": discrete, "length": 6}
    (tmp_path / "whole").mkdir()
    (tmp_path / "parts").mkdir()

    whole = make_trainer(world, **settings)
    with MetricsLog(tmp_path / "whole", tensorboard=False) as whole.log.writer:
        whole.train(stop)
        whole.train(100 - stop)

    first = make_trainer(world, **settings)
    with MetricsLog(tmp_path / "parts", tensorboard=False) as first.log.writer:
        first.train(stop)
        bundle = save_checkpoint(first, tmp_path / "checkpoint")
        kept, position = first.clock.state(), first.log.writer.position()
        rates = _rates(first)
        first.train(7)  # what happens after the checkpoint is forgotten
    unfinished = [bundle.tensors["collector"][f"episode.{i}.actions"] for i in range(num_envs)]
    assert any(len(actions) > 0 for actions in unfinished), "meant to be in mid-episode"

    second = make_trainer(world, **settings)
    with MetricsLog(tmp_path / "parts", tensorboard=False) as second.log.writer:
        assert restore_trainer(second, bundle, ReplayLog(tmp_path))
        assert second.step == stop and second.clock.state() == kept
        assert _rates(second) == rates
        second.log.writer.truncate_to(position)
        second.train(100 - stop)

    assert everything(second) == everything(whole)
    assert second.evaluator.final_score() == whole.evaluator.final_score()
    assert _lines(tmp_path / "parts") == _lines(tmp_path / "whole")


def test_the_state_that_is_saved_matters(
    make_trainer: Make, everything: Everything, tmp_path: Path
) -> None:
    """The comparison above would notice: optimisers and streams are not those of a new run."""
    trainer = make_trainer()
    trainer.train(50)
    found = everything(trainer)
    moments = [n for n in found if n.startswith("learner/optimizer.") and n.endswith("exp_avg")]
    groups = [group for own in trainer.learner.groups.values() for group in own]
    assert len(moments) == len(groups) + 1  # and log alpha
    fresh = everything(make_trainer())
    for name in (
        "collector/exploration",
        "learner/stream.noise",
        "learner/stream.subset",
        "loop",
        "collector",
    ):
        assert found[name] != fresh[name]


def test_saving_does_not_disturb(
    make_trainer: Make, everything: Everything, tmp_path: Path
) -> None:
    saving, plain = make_trainer(num_envs=2), make_trainer(num_envs=2)

    def save(progress: TrainProgress) -> None:
        if progress.step % 6 == 0:
            save_checkpoint(saving, tmp_path / "here")

    saving.train(60, [save])
    plain.train(60)
    assert everything(saving) == everything(plain)


def test_a_checkpoint_of_another_network_is_refused(make_trainer: Make, tmp_path: Path) -> None:
    bundle = save_checkpoint(make_trainer(), tmp_path / "a")
    other = make_trainer(width=16)
    before = {name: w.clone() for name, w in other.learner.weights().items()}
    with pytest.raises(DamagedFileError, match="do not fit"):
        restore_trainer(other, bundle, ReplayLog(tmp_path))
    assert other.step == 0
    assert all(torch.equal(w, before[name]) for name, w in other.learner.weights().items())


@pytest.mark.parametrize("part", ["weights", "learner", "collector", "buffer", "evaluator"])
def test_a_checkpoint_that_lacks_a_part_is_refused(
    make_trainer: Make, tmp_path: Path, part: str
) -> None:
    trainer = make_trainer()
    trainer.train(40)
    bundle = save_checkpoint(trainer, tmp_path / "a")
    tensors = {name: group for name, group in bundle.tensors.items() if name != part}
    with pytest.raises(DamagedFileError):
        restore_trainer(
            make_trainer(), dataclasses.replace(bundle, tensors=tensors), ReplayLog(tmp_path)
        )


def test_an_unfinished_episode_that_is_lost_is_told(make_trainer: Make, tmp_path: Path) -> None:
    trainer = make_trainer({"length": 6, "spread": 0})
    trainer.train(40)
    bundle = save_checkpoint(trainer, tmp_path / "a")
    changed = make_trainer({"length": 3, "spread": 0})
    assert restore_trainer(changed, bundle, ReplayLog(tmp_path)) is False
    assert changed.train(20)
    assert changed.buffer.steps == trainer.buffer.steps + 18
