"""Runs that diverge: they stop and say so, or go back and try with other batches."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from resel.cli import main
from resel.config import Config
from resel.errors import DivergedError
from resel.methods import Learner, default_method, get_method
from resel.runs import Run, read_bundle, read_metrics
from resel.training import divergence

SETTINGS: dict[str, Any] = {
    "steps": 90,
    "checkpoint_every": 20,
    "eval_every": 20,
    "log_every": 10,
    "on_divergence": "rollback",
}
Factor = Callable[[int], float | None]


@pytest.fixture(scope="module")
def config(tiny: dict[str, Any]) -> Config:
    return Config.build("toy/Box-v0", tiny, SETTINGS)


@pytest.fixture
def spoil(monkeypatch: pytest.MonkeyPatch) -> Callable[[Factor], None]:
    """Multiply the rewards of some updates, by number; the first of them is that of step 30."""

    def install(factor_of: Factor) -> None:
        learner = get_method(default_method()).learner
        plain = learner.update

        def update(self: Learner, batch: Any, **options: Any) -> Any:
            factor = factor_of(self.updates + 1)
            if factor is not None:
                batch = dataclasses.replace(batch, reward=batch.reward * factor)
            return plain(self, batch, **options)

        monkeypatch.setattr(learner, "update", update)

    return install


def once(updates: range, factor: float = math.nan) -> Factor:
    """Faults that are gone when the same updates come round again."""
    left = dict.fromkeys(updates, factor)
    return lambda update: left.pop(update, None)


def always(first: int) -> Factor:
    return lambda update: math.nan if update >= first else None


def train(config: Config, path: Path, resume: Any = "never", callbacks: Any = ()) -> Any:
    run = Run(config, path, resume)
    try:
        return run.train(callbacks)
    finally:
        run.close()


def result(path: Path) -> dict[str, Any]:
    return json.loads((path / "result.json").read_text())


def lines(path: Path, *kinds: str) -> list[dict[str, Any]]:
    return [ln for ln in read_metrics(path / "metrics.jsonl") if ln["kind"] in kinds]


def told(path: Path) -> list[str]:
    return [line["event"] for line in lines(path, "event")]


def weights(path: Path) -> dict[str, torch.Tensor]:
    return read_bundle(path / "agents" / "last", "agent").tensors["weights"]


def same_run(a: Path, b: Path) -> bool:
    one, other = weights(a), weights(b)
    kinds = ("train", "eval", "event")
    return lines(a, *kinds) == lines(b, *kinds) and all(torch.equal(one[k], other[k]) for k in one)


def test_a_run_that_may_not_go_back_stops(config: Config, tmp_path: Path, spoil: Any) -> None:
    spoil(once(range(20, 32)))
    path = tmp_path / "run"
    with pytest.raises(DivergedError, match="up to update 29"):
        train(config.replace(on_divergence="stop"), path)
    ended = result(path)
    assert (ended["status"], ended["rollbacks"]) == ("diverged", 0)
    assert ended["skipped_updates"] == 31 - 20 + 1  # the last before the checkpoint of step 60
    assert "up to update 29" in ended["fault"]
    assert told(path) == ["updates skipped", "diverged"]
    assert [p.name for p in sorted((path / "checkpoints").iterdir())] == [
        "step-000000020",
        "step-000000040",
    ]
    assert all(tensor.isfinite().all() for tensor in weights(path).values())


def test_a_run_that_may_goes_back_and_on(config: Config, tmp_path: Path, spoil: Any) -> None:
    train(config, tmp_path / "plain")
    spoil(once(range(20, 32)))
    path = tmp_path / "run"
    with pytest.warns(UserWarning, match=r"goes back to step 40 \(roll-back 1 of 2\)"):
        ended = train(config, path)
    assert (ended["status"], ended["steps"], ended["rollbacks"]) == ("completed", 90, 1)
    assert ended["skipped_updates"] >= 10 and ended == result(path)
    assert told(path) == ["updates skipped", "rolled back"]
    back = lines(path, "event")[-1]
    assert back["step"] == 40 and 50 < back["diverged_at"] <= 60

    # Up to the checkpoint it is the run that nothing happened to; then it drew other batches.
    kinds = ("train", "eval")
    one, plain = (lines(p, *kinds) for p in (path, tmp_path / "plain"))
    assert [(ln["kind"], ln["step"]) for ln in one] == [(ln["kind"], ln["step"]) for ln in plain]
    shared = [ln for ln in plain if ln["step"] <= 40 and (ln["kind"], ln["step"]) != ("train", 40)]
    assert one[: len(shared)] == shared
    assert one[-1] != plain[-1]


def test_a_run_killed_after_going_back_does_not_go_back_again(
    config: Config, tmp_path: Path, spoil: Any
) -> None:
    class Killed(BaseException):
        pass

    passed: list[int] = []

    def die(progress: Any) -> None:
        passed.append(progress.step)
        if passed.count(45) == 2:
            raise Killed

    spoil(once(range(20, 32)))
    with pytest.warns(UserWarning, match="goes back"):
        train(config, tmp_path / "whole")
    spoil(once(range(20, 32)))
    with pytest.warns(UserWarning, match="goes back"), pytest.raises(Killed):
        train(config, tmp_path / "parts", callbacks=[die])
    run = Run(config, tmp_path / "parts", "auto")
    assert run.resumed_at == 40 and run.trainer.monitor.rollbacks == 1
    ended = run.train()
    run.close()
    assert ended["rollbacks"] == 1
    assert same_run(tmp_path / "parts", tmp_path / "whole")


def test_a_spike_sends_it_back(
    config: Config, tmp_path: Path, spoil: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(divergence, "WINDOW", 10)
    spoil(once(range(25, 26), 1e6))
    with pytest.warns(UserWarning, match="gradient norm of critic/.* at update 25"):
        ended = train(config, tmp_path / "run")
    assert (ended["status"], ended["rollbacks"], ended["skipped_updates"]) == ("completed", 1, 0)
    assert set(told(tmp_path / "run")) == {"gradient spike", "rolled back"}

    spoil(once(range(25, 26), 1e6))
    ended = train(config.replace(on_divergence="stop"), tmp_path / "stays")
    assert (ended["status"], ended["rollbacks"]) == ("completed", 0)
    assert set(told(tmp_path / "stays")) == {"gradient spike"}


def test_after_two_times_it_is_given_up(config: Config, tmp_path: Path, spoil: Any) -> None:
    spoil(always(20))
    path = tmp_path / "run"
    with (
        pytest.warns(UserWarning, match="goes back to step 40"),
        pytest.raises(DivergedError, match="gone back 2 times before"),
    ):
        train(config, path)
    ended = result(path)
    assert (ended["status"], ended["rollbacks"]) == ("diverged", 2)
    skips = ["updates skipped"]
    assert told(path) == [*skips, "rolled back", *skips, "rolled back", *skips, "diverged"]
    with pytest.raises(DivergedError, match="gone back 2 times before"):
        train(config, path, "auto")
    assert result(path)["rollbacks"] == 2


def test_a_policy_that_cannot_act_sends_it_back(config: Config, tmp_path: Path) -> None:
    run = Run(config, tmp_path / "run")
    poisoned: list[int] = []

    def poison(progress: Any) -> None:
        if progress.step == 50 and not poisoned:
            poisoned.append(50)
            with torch.no_grad():
                next(run.trainer.learner.policy.parameters()).fill_(math.nan)

    with pytest.warns(UserWarning, match="policy's output is not finite.*goes back to step 40"):
        ended = run.train([poison])
    run.close()
    assert (ended["status"], ended["rollbacks"]) == ("completed", 1)


def test_without_a_good_checkpoint_it_is_given_up(
    config: Config, tmp_path: Path, spoil: Any
) -> None:
    spoil(always(20))
    with pytest.raises(DivergedError, match="no good checkpoint to go back to"):
        train(config.replace(checkpoint_every=0), tmp_path / "run")
    assert result(tmp_path / "run")["status"] == "diverged"
    assert weights(tmp_path / "run")  # there is an agent to look at all the same


def test_what_is_no_good_checkpoint(config: Config, tmp_path: Path, spoil: Any) -> None:
    """One saved amid skips, one that no evaluation followed, one with broken moments."""
    spoil(once(range(11, 13)))  # step 41 and 42
    run = Run(config.replace(checkpoint_every=0, eval_every=40), tmp_path / "run")
    steps = {}

    def save(progress: Any) -> None:
        if progress.step in (39, 41, 44):
            run._save()
            steps[progress.step] = read_bundle(
                run.directory.checkpoint_path(progress.step), "checkpoint"
            )

    run.trainer.train(50, [save])
    run.close()
    assert divergence.is_good(steps[39].tensors, steps[39].documents, 40)
    assert not divergence.is_good(steps[41].tensors, steps[41].documents, 80)
    assert divergence.is_good(steps[44].tensors, steps[44].documents, 80)
    assert not divergence.is_good(steps[44].tensors, steps[44].documents, 40)
    assert divergence.is_good(steps[44].tensors, steps[44].documents, None)
    moments = [n for n in steps[44].tensors["learner"] if n.startswith("optimizer.")]
    steps[44].tensors["learner"][moments[0]].fill_(math.inf)
    assert not divergence.is_good(steps[44].tensors, steps[44].documents, 80)


def test_a_damaged_checkpoint_is_passed_over(config: Config, tmp_path: Path, spoil: Any) -> None:
    path = tmp_path / "run"
    spoil(once(range(20, 32)))

    def damage(progress: Any) -> None:
        newest = path / "checkpoints/step-000000040/loop.json"
        if progress.step == 45 and newest.exists():
            newest.write_text("{}")

    with (
        pytest.warns(UserWarning, match="Trying the one before"),
        pytest.warns(UserWarning, match="goes back to step 20"),
    ):
        ended = train(config, path, callbacks=[damage])
    assert (ended["status"], ended["rollbacks"]) == ("completed", 1)


def test_the_command_leaves_with_3_and_a_run_to_look_at(
    tmp_path: Path, tiny_flags: list[str], spoil: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    spoil(always(20))
    path = str(tmp_path / "run")
    command = ["train", "toy/Box-v0", *tiny_flags, "--run-dir", path, "--steps", "90"]
    assert main([*command, "--eval-every", "20"]) == 3
    assert "Training has diverged at step" in capsys.readouterr().err
    assert main(["eval", path, "--episodes", "2", "--json"]) == 0
    assert math.isfinite(json.loads(capsys.readouterr().out)["return_mean"])
    assert main(["plot", path, "--out", str(tmp_path / "curve.png")]) == 0
    assert (tmp_path / "curve.png").stat().st_size > 0
    assert result(tmp_path / "run")["status"] == "diverged"


def test_a_stopped_run_may_be_resumed_with_going_back(
    config: Config, tmp_path: Path, spoil: Any
) -> None:
    left = {"allowed": 2}

    def factor(update: int) -> float | None:
        if update == 20:
            left["allowed"] -= 1
        return math.nan if update >= 20 and left["allowed"] >= 0 else None

    spoil(factor)
    with pytest.raises(DivergedError):
        train(config.replace(on_divergence="stop"), tmp_path / "run")
    with pytest.warns(UserWarning, match="goes back to step 40"):
        ended = train(config, tmp_path / "run", "auto")
    assert (ended["status"], ended["rollbacks"]) == ("completed", 1)
