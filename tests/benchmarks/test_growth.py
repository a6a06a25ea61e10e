"""What grows in a run that goes on: seen where it does, and not where it does not."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from resel.benchmarks import growth
from resel.cli import main

QUICK = ["bench", "growth", "--steps", "500", "--repetitions", "3", "--updates-per-step", "0.02"]


def test_only_logs_grow(tmp_path: Path, capsys: Any) -> None:
    assert main([*QUICK, "--out", str(tmp_path)]) == 0
    told = " ".join(capsys.readouterr().out.split())
    assert "Pendulum-V-v0: 500 and 1,500 steps" in told and "late / early" in told
    result = json.loads((tmp_path / "growth.json").read_text())
    assert [len(result["parts"][name]) for name in ("wall", "processor", "memory")] == [3] * 3
    for log in ("metrics", "tensorboard"):
        short, long = (result[f"{log}_{which}_bytes"] for which in ("short", "long"))
        assert 2 * short < long
        assert result[f"{log}_per_1000_steps"] == pytest.approx((long - short) / 1.0)
    # A segment of which one episode is needed stays as a whole.
    assert result["replay_long_bytes"] < 3 * result["replay_short_bytes"]
    # Windows of recent numbers still fill.
    assert result["checkpoint_long_bytes"] < 1.05 * result["checkpoint_short_bytes"]
    assert 0 < result["step_early_ms"] < 1000 and result["step_cpu_late_over_early"] < 10
    assert result["day_steps"] == pytest.approx(86_400_000 / result["step_late_ms"])
    each = result["metrics_per_1000_steps"] / 1000
    assert result["metrics_per_day"] == pytest.approx(each * result["day_steps"])


def test_what_leaks_and_slows_down_is_seen(monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    """A thousand bytes a step, and steps that take twice as long in the end."""
    parts = growth._Parts(500)
    parts.memory = [5_000_000, *(1_000_000 + 500_000 * part for part in range(6))]
    parts.wall = parts.processor = [0.9, 0.001, 0.001, 0.0015, 0.0015, 0.002, 0.002]
    sizes = dict.fromkeys(growth._PLACES, 1000)
    monkeypatch.setattr(growth, "_run", lambda *words: (sizes, parts))
    words = ["--steps", "500", "--repetitions", "7", "--json"]
    assert main(["bench", "growth", *words]) == 0
    result = json.loads(capsys.readouterr().out)
    assert result["memory_per_1000_steps"] == pytest.approx(1_000_000)
    assert result["step_late_over_early"] == 2 and result["step_late_ms"] == 2
    assert result["memory_per_day"] == pytest.approx(1000 * 43_200_000)
    assert result["checkpoint_per_1000_steps"] == 0


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["--steps", "499"], "--steps 499 is too small"),
        (["--repetitions", "2"], "--repetitions 2 is too small"),
    ],
)
def test_refused(words: list[str], why: str, capsys: Any) -> None:
    with pytest.raises(SystemExit):
        main(["bench", "growth", *words])
    assert why in " ".join(capsys.readouterr().err.split())
