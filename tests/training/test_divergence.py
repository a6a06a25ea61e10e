"""The ladder of numerical faults: skipped, counted, recorded, and at last diverged."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from checkpoints import save_checkpoint

from resel.data import ReplayBuffer, Trajectory
from resel.errors import DivergedError
from resel.optim import StepCheck
from resel.runs import MetricsLog, ReplayLog, read_metrics, restore_trainer
from resel.training import Trainer
from resel.training.divergence import PATIENCE, SPIKE, WINDOW, DivergenceMonitor

Make = Callable[..., Trainer]
Everything = Callable[[Trainer], dict[str, Any]]


def step(update: int, network: str = "critic", norm: float = 1.0) -> StepCheck:
    return StepCheck(update, network, True, {"context_encoder": 1.0, "other": norm})


def bad(update: int, network: str = "critic") -> StepCheck:
    return StepCheck(update, network, False, {"context_encoder": math.nan, "other": 1.0})


class Judged:
    """A guard, an empty buffer, and what was recorded."""

    def __init__(self, goes_back: bool = False) -> None:
        self.events: list[Any] = []
        self.guard = DivergenceMonitor(goes_back, self.events.append)
        self.buffer = ReplayBuffer(10, 1, 1)

    def __call__(self, *steps: StepCheck) -> None:
        self.guard.judge(steps, self.buffer, 0)
        self.guard.act(77)


def test_a_few_steps_left_out_are_counted_and_recorded() -> None:
    judge = Judged()
    judge(step(1), bad(2), bad(3))
    assert judge.guard.skipped == 2 and judge.events == []  # it may go on
    assert not judge.guard.state()[1]["calm"]
    judge(bad(4), step(5))
    assert judge.guard.state()[1]["calm"]
    assert judge.events == [
        {
            "event": "updates skipped",
            "network": "critic",
            "first_update": 2,
            "last_update": 4,
            "count": 3,
            "episodes": "",
        }
    ]


def test_an_update_counts_once() -> None:
    judge = Judged()
    judge(bad(1), bad(1, "policy"), step(2), bad(2, "policy"))
    assert judge.guard.skipped == 2


def test_many_in_a_row_are_divergence() -> None:
    judge = Judged()
    judge(*(bad(update) for update in range(1, PATIENCE)), step(PATIENCE))
    judge(*(bad(20 + update) for update in range(PATIENCE - 1)))
    with pytest.raises(DivergedError, match="diverged at step 77: the loss or gradient of the cri"):
        judge(bad(40))
    assert [event["count"] for event in judge.events] == [PATIENCE - 1, PATIENCE]
    judge(bad(41))  # whoever goes on all the same starts at the bottom
    assert dict(judge.guard.state()[1]["bursts"])["critic"]["count"] == 1


def test_in_a_row_means_steps_of_the_same_network() -> None:
    """The policy learns at every second update: the good ones of the critic do not excuse it."""
    judge = Judged()
    steps = [step(update) for update in range(1, 2 * PATIENCE)]
    steps += [bad(update, "policy") for update in range(1, 2 * PATIENCE, 2)]
    with pytest.raises(DivergedError, match="of the policy"):
        judge(*sorted(steps, key=lambda s: (s.update, s.network)))


def test_nothing_is_missed_between_two_readings() -> None:
    judge = Judged()
    with pytest.raises(DivergedError):
        judge(step(1), *(bad(update) for update in range(2, 2 + PATIENCE)), step(20), step(21))


def usual(count: int = WINDOW, first: int = 1) -> list[StepCheck]:
    return [step(first + i, norm=1 + i % 3) for i in range(count)]  # the median is 2


def test_a_spike_sends_a_run_back() -> None:
    judge = Judged(goes_back=True)
    judge(*usual(), step(300, norm=2 * SPIKE))
    assert judge.events == []
    with pytest.raises(DivergedError, match=r"critic/other was 201 at update 301, where 2 is usu"):
        judge(step(301, norm=2 * SPIKE + 1))
    (event,) = judge.events
    assert (event["event"], event["group"], event["median"]) == (
        "gradient spike",
        "critic/other",
        2,
    )


def test_a_spike_alone_does_not_stop_a_run_that_cannot_go_back() -> None:
    judge = Judged()
    judge(*usual(), step(300, norm=1e6), step(301, norm=1e6), step(302), step(303, norm=1e6))
    assert [event["update"] for event in judge.events] == [300, 303]


def test_nothing_is_a_spike_before_the_window_is_full() -> None:
    judge = Judged(goes_back=True)
    judge(*usual(WINDOW - 1), step(300, norm=1e6))
    assert judge.events == []


def test_the_median_moves_along() -> None:
    judge = Judged()
    judge(*usual())
    judge(*(step(300 + i, norm=1000) for i in range(WINDOW)))
    judge(step(700, norm=50_000))
    assert len(judge.events) == 1  # the first of the 1000s
    judge(step(701, norm=100_001))
    assert [event["median"] for event in judge.events] == [2, 1000]


def test_what_is_found_does_not_depend_on_when_it_is_read_or_saved() -> None:
    steps = [bad(1), *usual(WINDOW, 2), bad(300), bad(300, "policy"), step(301, norm=1e9)]
    steps += [step(302, "policy"), *(bad(310 + i) for i in range(PATIENCE))]

    def told(cuts: set[int]) -> tuple[list[Any], str, dict[str, Any]]:
        judge = Judged()
        for number, one in enumerate(steps):
            judge.guard.judge([one], judge.buffer, 0)
            if number in cuts:
                saved = json.loads(json.dumps(judge.guard.state()[1]))
                again = Judged()
                again.guard.restore({}, saved)
                again.events = judge.events
                again.guard._record = again.events.append
                judge = again
        with pytest.raises(DivergedError) as error:
            judge.guard.act(5)
        return judge.events, str(error.value), judge.guard.state()[1]

    whole = told(set())
    assert len(whole[0]) == 5 and whole[2]["skipped"] == 12
    assert told(set(range(0, len(steps), 7))) == whole
    assert told(set(range(len(steps) - 15, len(steps)))) == whole


def test_the_episodes_of_a_skipped_update_are_named() -> None:
    judge = Judged()
    for length in (3, 4, 2, 5):  # ten steps are held: the last two episodes
        ones = np.ones((length, 1), np.float32)
        trajectory = Trajectory(np.ones((length + 1, 1), np.float32), ones, ones[:, 0], False)
        judge.buffer.add(trajectory)
    third, fourth = list(judge.buffer)
    judge.guard.remember(1, [third.begin + 1], 4)  # a window inside the third
    judge.guard.remember(2, [fourth.begin, third.begin], 4)
    judge.guard.remember(3, [fourth.begin], 3)  # another was in that step when it was learned from
    judge.guard.judge([bad(1), step(2), bad(2, "policy"), bad(3)], judge.buffer, 4)
    bursts = dict(judge.guard.state()[1]["bursts"])
    assert judge.guard.state()[1]["events"][0]["episodes"] == "3"
    assert (bursts["policy"]["episodes"], bursts["critic"]["episodes"]) == ([3, 4], [])


def spoil(trainer: Trainer, factors: dict[int, float]) -> None:
    """Multiply the rewards that these updates learn from."""
    plain = trainer.learner.update

    def update(batch: Any, **options: Any) -> Any:
        factor = factors.get(trainer.learner.updates + 1)
        if factor is not None:
            batch = dataclasses.replace(batch, reward=batch.reward * factor)
        return plain(batch, **options)

    trainer.learner.update = update  # type: ignore[method-assign]


def events(path: Path) -> list[dict[str, Any]]:
    return [line for line in read_metrics(path / "metrics.jsonl") if line["kind"] == "event"]


def test_training_goes_on_after_skipped_updates(make_trainer: Make, tmp_path: Path) -> None:
    trainer = make_trainer()
    spoil(trainer, {5: math.nan, 6: math.inf, 9: math.nan})
    with MetricsLog(tmp_path, tensorboard=False) as trainer.log.writer:
        assert trainer.train(60)
    assert trainer.monitor.skipped == 3
    assert [(e["first_update"], e["count"]) for e in events(tmp_path)] == [(5, 2), (9, 1)]
    for event in events(tmp_path):
        named = [int(number) for number in event["episodes"].split()]
        assert named and all(1 <= number <= trainer.episodes for number in named)
    assert all(tensor.isfinite().all() for tensor in trainer.learner.weights().values())


def test_a_skipped_update_in_a_train_line_is_written_as_it_is(
    make_trainer: Make, tmp_path: Path
) -> None:
    trainer = make_trainer()
    spoil(trainer, {11: math.nan, 22: math.nan})
    with MetricsLog(tmp_path, tensorboard=False) as trainer.log.writer:
        trainer.train(40)  # the line is half done: update 11 is the first of its two
        bundle = save_checkpoint(trainer, tmp_path / "half")
        again = make_trainer()
        restore_trainer(again, bundle, ReplayLog(tmp_path))
        assert math.isnan(again.log._metrics["critic_loss"])
        trainer.train(20)  # and update 22 the second of the next one's
    lines = [ln for ln in read_metrics(tmp_path / "metrics.jsonl") if ln["kind"] == "train"]
    assert [line["step"] for line in lines] == [30, 40, 50]
    assert [math.isnan(line["critic_loss"]) for line in lines] == [False, False, True]
    assert trainer.monitor.skipped == 2


def test_divergence_is_told_within_a_hundred_updates(make_trainer: Make) -> None:
    trainer = make_trainer(log_every=10_000)
    spoil(trainer, dict.fromkeys(range(20, 1000), math.nan))
    with pytest.raises(DivergedError, match="in 10 updates in a row, up to update 29"):
        trainer.train(300)
    assert trainer.learner.updates == 100


def test_divergence_is_told_at_the_end(make_trainer: Make) -> None:
    trainer = make_trainer(log_every=10_000)
    spoil(trainer, dict.fromkeys(range(20, 1000), math.nan))
    with pytest.raises(DivergedError):
        trainer.train(65)
    assert trainer.step == 65


FAULTS = {7: math.nan, 8: math.nan, 27: math.nan, 28: math.inf, 29: math.nan, 45: math.nan}


@pytest.mark.parametrize("stop", [38, 57, 58, 59, 66])  # update 28 belongs to step 57
def test_a_run_with_skips_is_continued_exactly(
    make_trainer: Make, everything: Everything, tmp_path: Path, stop: int
) -> None:
    settings: dict[str, Any] = {"eval_every": 20, "log_every": 15, "clamp_target_values": True}
    for name in ("whole", "parts"):
        (tmp_path / name).mkdir()
    whole = make_trainer(**settings)
    spoil(whole, FAULTS)
    with MetricsLog(tmp_path / "whole", tensorboard=False) as whole.log.writer:
        whole.train(100)

    first = make_trainer(**settings)
    spoil(first, FAULTS)
    with MetricsLog(tmp_path / "parts", tensorboard=False) as first.log.writer:
        first.train(100, [lambda progress: first.request_stop() if progress.step == stop else None])
        bundle = save_checkpoint(first, tmp_path / "checkpoint")
        position = first.log.writer.position()
        first.train(9)
    second = make_trainer(**settings)
    spoil(second, FAULTS)
    with MetricsLog(tmp_path / "parts", tensorboard=False) as second.log.writer:
        assert restore_trainer(second, bundle, ReplayLog(tmp_path))
        second.log.writer.truncate_to(position)
        second.train(100 - stop)

    assert second.monitor.skipped == len(FAULTS)
    assert everything(second) == everything(whole)
    lines = [read_metrics(tmp_path / name / "metrics.jsonl") for name in ("whole", "parts")]
    kept = [[ln for ln in some if ln["kind"] != "timing"] for some in lines]
    assert kept[0] == kept[1]
    assert len(events(tmp_path / "whole")) == 3
