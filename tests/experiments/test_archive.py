"""Finished runs as their numbers alone: what is kept, and that nothing else is needed again."""

from __future__ import annotations

import io
import json
import math
from pathlib import Path
from typing import Any

import pytest
import tiny_sweep as tiny
from fake_runs import write_run
from rich.console import Console

from resel.analysis.runs import outcome_of
from resel.benchmarks import UpdateCost
from resel.cli import main
from resel.errors import ConfigError, RunDirectoryError
from resel.experiments import plan as planning
from resel.experiments import reproduce
from resel.experiments.archive import archive_run
from resel.experiments.outcomes._agents import Evaluations, Measured
from resel.experiments.plan import make_plan
from resel.runs import read_metrics

pytestmark = pytest.mark.usefixtures("own_folder")
_LINES: list[dict[str, Any]] = [
    {"step": 0, "kind": "eval", "return_mean": -1.23456789, "updates": 0},
    {"step": 5, "kind": "train", "q_mean": 1.0},
    {"step": 10, "kind": "train", "q_mean": 1.0, "episode_return": 0.12345678},
    {"step": 10, "kind": "timing", "cpu_seconds": 1.0},
    {"step": 20, "kind": "train", "q_mean": "nan", "alpha": 1.23456789},
    {"step": 20, "kind": "timing", "cpu_seconds": 3.0, "updates_per_second": 9.0},
    {"step": 20, "kind": "eval", "return_mean": 2, "updates": 5},
    {"step": 30, "kind": "timing", "cpu_seconds": 4.0},
]


def test_what_is_kept(tmp_path: Path) -> None:
    run, archive = tmp_path / "runs" / "a-run", tmp_path / "archive"
    write_run(run, _LINES, agents=("last", "best"))
    words = (
        f"resel train 'a b' --seed 1 --run-dir {tmp_path} --resume auto",
        f"resel train 'a b' --run-dir={tmp_path} --seed 1 --preset {tmp_path / 'found.json'}",
        f"resel resume {tmp_path} --steps 5",
    )
    starts = [*({"at": "then", "command": typed} for typed in words), {"at": "damaged"}]
    machine = {"cpu": "fast", "platform": "here", "starts": starts}
    (run / "environment.json").write_text(json.dumps(machine))
    archive_run(run, archive)
    kept = archive / "a-run"
    files = {path.name for path in kept.iterdir()}
    assert files == {"config.json", "environment.json", "metrics.jsonl", "result.json"}
    lines = read_metrics(kept / "metrics.jsonl")
    assert lines[0] == _LINES[0] and lines[-2] == _LINES[-2]  # evaluations, to the last digit
    assert lines[1] == {"step": 10, "kind": "train", "episode_return": 0.12345678}
    assert lines[2] == {"step": 10, "kind": "timing", "cpu_seconds": 1.0}
    assert math.isnan(lines[3].pop("q_mean"))
    assert lines[3] == {"step": 20, "kind": "train", "alpha": 1.23457}
    assert lines[4] == {"step": 20, "kind": "timing", "cpu_seconds": 3.0}
    assert len(lines) == 7 and lines[6] == _LINES[-1]
    assert json.loads((kept / "environment.json").read_text()) == {
        "cpu": "fast",
        "starts": [
            {"at": "then", "command": "resel train 'a b' --seed 1"},
            {"at": "then", "command": "resel train 'a b' --seed 1 --preset found.json"},
            {"at": "then", "command": "resel resume --steps 5"},
        ],
    }
    assert json.loads((kept / "result.json").read_text()) == {"status": "completed", "steps": 100}
    before = {path: path.stat().st_mtime_ns for path in kept.iterdir()}
    archive_run(kept, archive)  # it is there
    archive_run(run, archive)
    assert before == {path: path.stat().st_mtime_ns for path in kept.iterdir()}


def test_what_has_more_than_numbers_is_left_alone(tmp_path: Path) -> None:
    run, archive = tmp_path / "runs" / "a-run", tmp_path / "archive"
    write_run(run, _LINES)
    write_run(archive / "a-run", _LINES, status=None, agents=("last",))
    with pytest.raises(RunDirectoryError, match="no archived run: it was left as it is"):
        archive_run(run, archive)
    assert (archive / "a-run" / "agents" / "last" / "manifest.json").is_file()


def test_what_was_measured_is_known_without_the_agent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "resel.experiments.outcomes._agents.measure", lambda *words: Measured(7.5, None)
    )
    run, archive = tmp_path / "runs" / "a-run", tmp_path / "archive"
    write_run(run, _LINES, agents=("last",))
    known = Evaluations(tmp_path)
    known.of(run, "last", 3, {"length": 40})
    archive_run(run, archive, known.about(run))
    archive_run(run, archive)  # once more, by an experiment that measures nothing
    later = Evaluations(tmp_path / "elsewhere")
    assert later.of(archive / "a-run", "last", 3, {"length": 40}) == Measured(7.5, None)
    with pytest.raises(RunDirectoryError, match=r"no agent 'last'.*delete the run"):
        later.of(archive / "a-run", "last", 4, {"length": 40})


def test_no_run_of_the_archive_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out, archive, figure = tmp_path / "out", tmp_path / "archive", tiny.tiny_experiment(seeds=2)
    monkeypatch.setattr(planning, "measure_cost", lambda c, t: UpdateCost(0.01, 10**8, 10**5))
    for number, member in enumerate(make_plan([figure], "smoke", out, 1).members["fig-tiny"]):
        returns = [{**line, "return_mean": number / 7} for line in _LINES if "updates" in line]
        write_run(member.run, returns, steps=60)

    def draw(place: Path) -> str:
        said = io.StringIO()
        sweep = tiny.tiny_sweep(place, figure, archive=archive)
        assert reproduce(sweep, Console(file=said, width=200)) == 0
        return said.getvalue()

    draw(out)
    assert len(list(archive.iterdir())) == 4

    def measured(*words: Any) -> UpdateCost:
        raise AssertionError("what is not trained again need not be measured")

    monkeypatch.setattr(planning, "measure_cost", measured)
    said = draw(tmp_path / "other")
    assert "No run is left" in said and "4 runs completed" in said
    assert not (tmp_path / "other" / "runs").exists()
    for file in ("curves.csv", "finals.csv"):
        ours, theirs = (place / "fig-tiny" / file for place in (out, tmp_path / "other"))
        assert ours.read_bytes() == theirs.read_bytes()

    lost, torn = sorted(archive.iterdir())[:2]
    (lost / "result.json").write_text(json.dumps({"status": "interrupted", "steps": 60}))
    (torn / "metrics.jsonl").write_text("")
    monkeypatch.setattr(planning, "measure_cost", lambda c, t: UpdateCost(0.01, 10**8, 10**5))
    plan = make_plan([figure], "smoke", tmp_path / "other", 1, archive=archive)
    places = [member.run.parent for member in plan.members["fig-tiny"]]
    assert places.count(archive) == 2 and places.count(tmp_path / "other" / "runs") == 2


def test_what_cannot_be_archived_is_told_and_costs_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out, archive, figure = tmp_path / "out", tmp_path / "archive", tiny.tiny_experiment()
    monkeypatch.setattr(planning, "measure_cost", lambda c, t: UpdateCost(0.01, 10**8, 10**5))
    first, second = (m.run for m in make_plan([figure], "smoke", out, 1).members["fig-tiny"])
    for run in (first, second):
        write_run(run, _LINES, steps=60)
    write_run(archive / first.name, _LINES, status=None, agents=("last",))
    said = io.StringIO()
    sweep = tiny.tiny_sweep(out, figure, archive=archive)
    assert reproduce(sweep, Console(file=said, width=200)) == 1
    assert "no archived run: it was left as it is" in said.getvalue()
    assert (out / "fig-tiny" / "curves.png").is_file()
    assert (archive / second.name / "result.json").is_file()


def test_drawing_what_is_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    figure = tiny.tiny_experiment()
    monkeypatch.setattr(planning, "measure_cost", lambda c, t: UpdateCost(0.01, 10**8, 10**5))
    first, second = (m.run for m in make_plan([figure], "smoke", tmp_path, 1).members["fig-tiny"])
    write_run(second, _LINES, steps=60)
    said = io.StringIO()
    assert reproduce(tiny.tiny_sweep(tmp_path, figure, draw=True), Console(file=said)) == 0
    assert f"{first.name}: has not been made" in " ".join(said.getvalue().split())
    assert not first.exists()
    rows = (tmp_path / "fig-tiny" / "finals.csv").read_text().splitlines()
    assert len(rows) == 2 and ",mlp," in rows[1]
    with pytest.raises(ConfigError, match="--draw starts nothing"):
        tiny.tiny_sweep(tmp_path, figure, draw=True, dry_run=True)


@pytest.mark.parametrize(
    ("result", "outcome"),
    [
        ({"status": "completed", "steps": 60}, "completed"),
        ({"status": "completed", "steps": 59}, None),
        ({"status": "completed", "steps": None}, None),
        ({"status": "completed", "steps": "nan"}, None),
        ({"status": "stopped early", "steps": 9, "held_return": 1.0}, "completed"),
        ({"status": "diverged", "steps": 9}, "diverged"),
        ({"status": "interrupted", "steps": 60}, None),
        ({}, None),
    ],
)
def test_what_a_result_says(result: dict[str, Any], outcome: str | None) -> None:
    assert outcome_of(result, 60) == outcome


def test_the_flag(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").write_text("")
    words = ["reproduce", "fig-tsne", "--dry-run", "--archive", str(tmp_path / "file")]
    assert main(words) == 2
    assert "is a file: name a folder" in capsys.readouterr().err
