"""Finished runs as their numbers alone: what is kept, and that nothing else is needed again."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest
import tiny_sweep as tiny
from fake_runs import write_run
from rich.console import Console

from resel.analysis.runs import outcome_of
from resel.benchmarks import UpdateCost
from resel.cli import main
from resel.errors import RunDirectoryError
from resel.experiments import plan as planning
from resel.experiments import reproduce
from resel.experiments.archive import archive_run
from resel.experiments.outcomes._agents import Evaluations, Measured
from resel.experiments.plan import make_plan
from resel.runs import read_metrics

pytestmark = pytest.mark.usefixtures("own_folder")
_LINES: list[dict[str, Any]] = [
    {"step": 0, "kind": "eval", "return_mean": -1.23456789, "updates": 0},
    {"step": 10, "kind": "train", "q_mean": 1.0},
    {"step": 20, "kind": "train", "q_mean": "nan"},
    {"step": 20, "kind": "timing", "cpu_seconds": 3.0},
    {"step": 20, "kind": "eval", "return_mean": 2, "updates": 5},
    {"step": 30, "kind": "timing", "cpu_seconds": 4.0},
]


def test_what_is_kept(tmp_path: Path) -> None:
    run, archive = tmp_path / "runs" / "a-run", tmp_path / "archive"
    write_run(run, _LINES, agents=("last", "best"))
    place = f"--run-dir {tmp_path} --resume auto"
    starts = [{"at": "then", "command": f"resel train 'a b' --seed 1 {place}"}]
    machine = {"cpu": "fast", "platform": "here", "starts": starts}
    (run / "environment.json").write_text(json.dumps(machine))
    archive_run(run, archive)
    kept = archive / "a-run"
    files = {path.name for path in kept.iterdir()}
    assert files == {"config.json", "environment.json", "metrics.jsonl", "result.json"}
    lines = read_metrics(kept / "metrics.jsonl")
    found = [(line["step"], line["kind"]) for line in lines]
    assert found == [(0, "eval"), (20, "train"), (20, "timing"), (20, "eval"), (30, "timing")]
    assert lines[0]["return_mean"] == -1.23457 and lines[1]["q_mean"] != lines[1]["q_mean"]
    assert json.loads((kept / "environment.json").read_text()) == {
        "cpu": "fast",
        "starts": [{"at": "then", "command": "resel train 'a b' --seed 1"}],
    }
    assert json.loads((kept / "result.json").read_text()) == {"status": "completed", "steps": 100}
    before = {path: path.stat().st_mtime_ns for path in kept.iterdir()}
    archive_run(kept, archive)  # it is there
    assert before == {path: path.stat().st_mtime_ns for path in kept.iterdir()}


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
        returns = [{**line, "return_mean": number} for line in _LINES if line["kind"] == "eval"]
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

    lost = next(archive.iterdir())
    (lost / "result.json").write_text(json.dumps({"status": "interrupted", "steps": 60}))
    monkeypatch.setattr(planning, "measure_cost", lambda c, t: UpdateCost(0.01, 10**8, 10**5))
    plan = make_plan([figure], "smoke", tmp_path / "other", 1, archive=archive)
    places = [member.run.parent for member in plan.members["fig-tiny"]]
    assert places.count(archive) == 3 and places.count(tmp_path / "other" / "runs") == 1


@pytest.mark.parametrize(
    ("result", "outcome"),
    [
        ({"status": "completed", "steps": 60}, "completed"),
        ({"status": "completed", "steps": 59}, None),
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
    assert "--archive" in capsys.readouterr().err
