"""Checkpoints by steps, by the clock and after the first updates; starts that got to none."""

from __future__ import annotations

import itertools
import json
import math
import signal
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from command import start

from resel.analysis.runs import read_run
from resel.cli import main
from resel.config import Config
from resel.errors import ConfigError
from resel.methods import default_method, get_method
from resel.runs import Run, read_bundle, read_metrics

SETTINGS: dict[str, Any] = {"steps": 90, "checkpoint_every": 20, "eval_every": 20, "log_every": 10}


class Killed(BaseException):
    pass


@pytest.fixture(scope="module")
def config(tiny: dict[str, Any]) -> Config:
    return Config.build("toy/Box-v0", tiny, SETTINGS)


@pytest.fixture
def nine_seconds(monkeypatch: pytest.MonkeyPatch) -> float:
    """Minutes after which a checkpoint is due on a clock that moves by a second at each look."""
    clock = SimpleNamespace(monotonic=itertools.count().__next__)
    monkeypatch.setattr("resel.runs.due.time", clock)
    return 9 / 60


def train(config: Config, path: Path, resume: Any = "never", die_at: int = 0) -> Run:
    def die(progress: Any) -> None:
        if progress.step == die_at:
            raise Killed

    run = Run(config, path, resume)
    try:
        run.train([die])
    except Killed:
        pass
    finally:
        run.close()
    return run


def course(path: Path) -> Any:
    """All that a run wrote but for what the clock told, and its weights."""
    lines = [ln for ln in read_metrics(path / "metrics.jsonl") if ln["kind"] != "timing"]
    weights = read_bundle(path / "agents/last", "agent").tensors["weights"]
    return lines, {name: weight.numpy().tobytes() for name, weight in weights.items()}


def saved(path: Path) -> list[int]:
    return sorted(int(p.name.removeprefix("step-")) for p in path.glob("checkpoints/step-*"))


def test_the_clock_changes_nothing_but_where_a_run_goes_on(
    config: Config, tmp_path: Path, nine_seconds: float
) -> None:
    train(config, tmp_path / "plain")
    often = config.replace(checkpoint_minutes=nine_seconds)
    train(often, tmp_path / "often", die_at=53)
    assert saved(tmp_path / "often") == [40, 49]
    again = train(often, tmp_path / "often", "auto")
    assert again.resumed_at == 49
    assert course(tmp_path / "often") == course(tmp_path / "plain")


def test_a_checkpoint_follows_the_first_updates(config: Config, tmp_path: Path) -> None:
    seldom = config.replace(checkpoint_every=0, checkpoint_minutes=10.0)
    train(seldom, tmp_path / "run", die_at=33)
    assert saved(tmp_path / "run") == [30]  # the warm-up's last step
    again = train(seldom, tmp_path / "run", "auto")
    assert again.resumed_at == 30
    assert saved(tmp_path / "run") == [30, 90]
    train(config.replace(checkpoint_every=0), tmp_path / "off", die_at=33)
    assert saved(tmp_path / "off") == []


def test_a_run_goes_back_to_checkpoints_due_by_steps_only(
    config: Config, tmp_path: Path, nine_seconds: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    learner = get_method(default_method()).learner
    plain, faults = learner.update, set()

    def update(self: Any, batch: Any, **options: Any) -> Any:
        if self.updates + 1 in faults:
            faults.discard(self.updates + 1)
            batch.reward.fill_(math.nan)
        return plain(self, batch, **options)

    monkeypatch.setattr(learner, "update", update)
    for name, minutes in (("plain", 0.0), ("often", nine_seconds)):
        faults |= set(range(20, 32))
        going = config.replace(on_divergence="rollback", checkpoint_minutes=minutes)
        with pytest.warns(UserWarning, match=r"goes back to step 40 \(roll-back 1 of 2\)"):
            train(going, tmp_path / name)
    assert course(tmp_path / "often") == course(tmp_path / "plain")
    assert saved(tmp_path / "often") == [60, 80, 89, 90]  # the last ones by the clock and the end
    assert saved(tmp_path / "plain") == [60, 80, 90]


def test_what_has_diverged_is_not_saved_by_the_clock(
    config: Config, tmp_path: Path, nine_seconds: float
) -> None:
    # The next line of the log, at which a run finds out by itself, is a long way off.
    config = config.replace(checkpoint_minutes=nine_seconds, log_every=1000, checkpoint_every=0)
    run = Run(config, tmp_path / "run")

    def poison(progress: Any) -> None:
        if progress.step == 43:
            with torch.no_grad():
                next(run.trainer.learner.critic.parameters()).fill_(math.nan)

    with pytest.raises(Exception, match="diverged"):
        run.train([poison])
    run.close()
    assert max(saved(tmp_path / "run")) < 43 + 10 < run.trainer.step


def test_what_an_earlier_start_left_is_kept(config: Config, tmp_path: Path) -> None:
    path = tmp_path / "run"
    none = config.replace(checkpoint_every=0)
    train(none, path, die_at=53)
    left = {
        name: (path / name).read_bytes()
        for name in ("metrics.jsonl", "result.json", "agents/best/weights.safetensors")
    }
    run = Run(none, path, "auto")
    assert run.begins_again and run.set_aside == path / "earlier"
    run.close()
    assert {name: (path / "earlier" / name).read_bytes() for name in left} == left
    assert read_run(path / "earlier").config == none
    assert (path / "metrics.jsonl").read_bytes() == b""
    again = Run(none, path, "auto")
    again.close()
    assert again.begins_again and again.set_aside is None  # nothing had been left
    train(none, path, "auto", die_at=25)
    assert train(none, path, "auto").set_aside == path / "earlier-2"
    train(config, tmp_path / "plain")
    assert course(path) == course(tmp_path / "plain")


def test_minutes_that_cannot_be(config: Config) -> None:
    for minutes in (-1.0, math.nan, math.inf):
        with pytest.raises(ConfigError, match="checkpoint_minutes"):
            config.replace(checkpoint_minutes=minutes)


def test_killed_by_force_soon_after_the_first_updates(
    tiny_flags: list[str], tmp_path: Path, capsys: Any
) -> None:
    """A real process, and a checkpoint that its steps would ask for in a year."""
    path = tmp_path / "run"
    flags = ["train", "TMaze-v0", *tiny_flags, "--checkpoint-minutes", "10", "--threads", "1"]
    process = start(*flags, "--steps", "1e7", "--run-dir", str(path))
    until = time.monotonic() + 120
    while not list(path.glob("checkpoints/step-*/manifest.json")) and time.monotonic() < until:
        assert process.poll() is None
        time.sleep(0.02)
    process.kill()
    process.communicate()
    assert process.returncode == -signal.SIGKILL
    (step,) = saved(path)
    assert main(["resume", str(path), "--steps", str(step + 20)]) == 0
    assert f"Going on from step {step}." in capsys.readouterr().out
    assert json.loads((path / "result.json").read_text())["exact"] is True
