"""From a name to its files, with real runs of the smallest networks."""

from __future__ import annotations

import io
import json
import os
import socket
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import tiny_sweep as tiny
from fake_runs import write_run
from rich.console import Console

from resel.benchmarks import UpdateCost, kept_costs
from resel.cli import main
from resel.config import Config
from resel.errors import ConfigError, RunDirectoryError
from resel.experiments import CATALOGUE, Experiment, Setting, Study, Sweep, record, reproduce
from resel.experiments import plan as planning
from resel.experiments.outcomes import _probes
from resel.experiments.plan import Job, make_plan
from resel.experiments.reproduce import plan_summary
from resel.runs._manifest import VERSION

pytestmark = pytest.mark.usefixtures("own_folder")


@pytest.fixture
def quick_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    """Plans that measure nothing."""
    monkeypatch.setattr(planning, "measure_cost", lambda c, t: UpdateCost(0.01, 10**8, 10**5))


def run(sweep: Sweep) -> tuple[int, str]:
    said = io.StringIO()
    return reproduce(sweep, Console(file=said, width=200)), said.getvalue()


def written(folder: Path) -> dict[Path, int]:
    """All files and when they were last written."""
    return {path: path.stat().st_mtime_ns for path in folder.rglob("*") if path.is_file()}


def same_by_hand(experiment: Experiment, out: Path, folder: Path) -> None:
    """Every run of a sweep is, bit by bit, what its command gives without any engine."""
    for member in make_plan([experiment], "smoke", out, 1).members[experiment.name]:
        hand = folder / member.setting.group
        flags = [*member.setting.flags(member.seed), "--threads", "1", "--run-dir", str(hand)]
        assert main(["train", *flags]) == 0
        tiny.assert_same_run(member.run, hand)


@pytest.mark.slow
def test_two_runs_are_what_they_are_by_hand(tmp_path: Path, quick_plan: None) -> None:
    out = tmp_path / "out"
    code, said = run(tiny.tiny_sweep(out))
    assert code == 0 and "2 runs completed, 0 diverged" in said
    assert "Left: 2 runs, 120 steps" in said
    record = json.loads((out / "fig-tiny" / "experiment.json").read_text())
    assert {entry["status"] for entry in record["runs"]} == {"completed"}
    assert record["files"] == ["curves.csv", "finals.csv", "curves.png", "curves.svg"]
    assert all((out / "fig-tiny" / file).is_file() for file in record["files"])
    same_by_hand(tiny.tiny_experiment(), out, tmp_path / "by-hand")

    before = written(out / "runs")
    code, said = run(tiny.tiny_sweep(out))
    assert code == 0 and "No run is left" in said
    assert before == written(out / "runs")


@pytest.mark.slow
def test_a_killed_sweep_goes_on(tmp_path: Path, quick_plan: None) -> None:
    out, steps = tmp_path / "out", 600
    script = str(Path(tiny.__file__))
    sweep = [sys.executable, script, str(out), str(steps), "1"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    process = subprocess.Popen(sweep, stdout=subprocess.DEVNULL, env=environment)
    first, second = (
        job.run for job in make_plan([tiny.tiny_experiment(steps)], "smoke", out, 1).jobs
    )
    deadline = time.monotonic() + 300
    while not list(second.glob("checkpoints/step-*/manifest.json")):
        assert time.monotonic() < deadline and process.poll() is None
        time.sleep(0.02)
    process.kill()
    process.wait()
    assert (first / "result.json").exists() and not (second / "result.json").exists()
    before = written(first)
    done = subprocess.run(sweep, capture_output=True, text=True, env=environment, timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "2 runs completed" in done.stdout and first.name not in done.stdout
    assert written(first) == before, "what is finished is not touched again"
    assert "Going on from step" in (second / "console.log").read_text()
    same_by_hand(tiny.tiny_experiment(steps), out, tmp_path / "by-hand")


@pytest.mark.filterwarnings("ignore")  # Ray's own, in whatever release is installed
def test_ray_gives_the_same_runs(tmp_path: Path, quick_plan: None, ray_environment: None) -> None:
    figure = tiny.tiny_experiment(encoders=("mlp",))
    code, said = run(tiny.tiny_sweep(tmp_path / "out", figure, engine="ray", jobs=1))
    assert code == 0 and "1 runs completed" in said
    same_by_hand(figure, tmp_path / "out", tmp_path / "by-hand")


def test_a_cluster_that_is_not_there_costs_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    monkeypatch.setattr(planning, "measure_cost", lambda *a: pytest.fail("planned all the same"))
    out = tmp_path / "out"
    write_run(out / "runs" / "run", [])
    (out / "fig-pomdp").mkdir()
    (out / "fig-pomdp" / "curves.csv").write_text("an earlier outcome")
    before = written(tmp_path)
    with socket.socket() as taken:  # bound but not listening: nobody answers
        taken.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        where = ["--engine", "ray", "--ray-address", address, "--out", str(out)]
        assert main(["reproduce", "fig-pomdp", *where]) == 2
    assert f"Nobody answers at --ray-address {address}" in capsys.readouterr().err
    assert written(tmp_path) == before


@pytest.fixture
def measured(monkeypatch: pytest.MonkeyPatch) -> list[Config]:
    """What was measured, which takes no time."""
    asked: list[Config] = []

    def cost(config: Config, threads: int) -> UpdateCost:
        asked.append(config)
        return UpdateCost(2.0, 10**8, 10**5)

    monkeypatch.setattr(planning, "measure_cost", cost)
    return asked


def test_an_update_is_measured_once_on_a_machine(tmp_path: Path, measured: list[Config]) -> None:
    sweep = tiny.tiny_sweep(tmp_path / "out", dry_run=True)
    code, said = run(replace(sweep, measure_again=True))
    assert code == 0 and len(measured) == said.count("Measuring an update: ") > 0
    assert "as measured on this machine" in said and "~" not in said
    count = len(measured)
    code, later = run(sweep)
    assert code == 0 and len(measured) == count and "Measuring" not in later
    assert said.endswith(later)
    run(replace(sweep, measure_again=True))
    assert len(measured) == 2 * count


def test_a_dry_run_estimates(tmp_path: Path, measured: list[Config]) -> None:
    """The machine is measured once, and then no update is."""
    sweep = tiny.tiny_sweep(tmp_path / "out", dry_run=True)
    code, said = run(sweep)
    assert code == 0 and len(measured) == 3 and said.count("Measuring three updates") == 1
    assert "~ is an estimate" in said and "as measured" not in said
    other = tiny.tiny_experiment(encoders=("mamba", "mlp", "lstm"))
    code, said = run(tiny.tiny_sweep(tmp_path / "out", other, dry_run=True))
    assert code == 0 and len(measured) == 3 and "Measuring" not in said
    code, said = run(replace(sweep, measure_again=True))
    assert len(measured) == 3 + 2 and "~" not in said


def test_other_code_gives_estimates(
    tmp_path: Path, measured: list[Config], monkeypatch: pytest.MonkeyPatch
) -> None:
    sweep = tiny.tiny_sweep(tmp_path / "out", dry_run=True)
    _, said = run(replace(sweep, measure_again=True))
    monkeypatch.setattr(kept_costs, "_source_digest", lambda: "newer")
    count = len(measured)
    code, later = run(sweep)
    assert code == 0 and len(measured) == count and "Measuring" not in later
    # The same numbers, but for the mark.
    assert "updates and acting take ~" in later and later.count("2.0 min") == said.count("2.0 min")


def test_nothing_is_refused_by_an_estimate(
    tmp_path: Path, measured: list[Config], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where runs might not fit they are measured, and for a script for another machine."""
    out = tmp_path / "out"
    script = tiny.tiny_sweep(out, engine="slurm", write=tmp_path / "sweep.sh")
    code, said = run(script)
    assert code == 0 and len(measured) == 2 and "~" not in said
    monkeypatch.setattr(kept_costs, "_source_digest", lambda: "newer")
    monkeypatch.setattr(planning, "available_memory", lambda: 10**8 + 10**6)
    dry = tiny.tiny_sweep(out, dry_run=True, jobs=1)
    assert "By these estimates" not in run(dry)[1] and len(measured) == 2
    monkeypatch.setattr(planning, "available_memory", lambda: 10**8 - 10**6)
    assert "By these estimates this would be refused" in run(dry)[1] and len(measured) == 2
    with pytest.raises(ConfigError, match=r"needs about 0\.1 GB of memory"):
        run(tiny.tiny_sweep(out, jobs=1))
    assert len(measured) == 4


def test_a_dry_run_leaves_nothing(tmp_path: Path, quick_plan: None) -> None:
    code, said = run(tiny.tiny_sweep(tmp_path / "out", dry_run=True))
    assert code == 0 and "fig-tiny" in said and "disk" in said
    assert not (tmp_path / "out").exists()


def test_the_script_for_slurm(tmp_path: Path, quick_plan: None) -> None:
    script = tmp_path / "jobs" / "sweep.sh"
    sweep = tiny.tiny_sweep(tmp_path / "out", engine="slurm", write=script)
    code, said = run(sweep)
    assert code == 0 and "submit it with sbatch" in said and not (tmp_path / "out").exists()
    assert script.read_text().count("resel train TMaze-v0") == 2
    with pytest.raises(ConfigError, match="cannot be written"):
        run(tiny.tiny_sweep(tmp_path / "out", engine="slurm", write=tmp_path))
    script.unlink()
    code, said = run(replace(sweep, dry_run=True))
    assert code == 0 and "Written" not in said and not script.exists()
    for job in make_plan(sweep.experiments, "smoke", tmp_path / "out", 1).jobs:
        write_run(job.run, [], steps=job.steps)
    code, said = run(sweep)
    assert code == 0 and "nothing to submit" in said and not script.exists()


@pytest.mark.slow
def test_runs_that_cannot_be_gone_on_with_are_told(tmp_path: Path, quick_plan: None) -> None:
    out = tmp_path / "out"
    plan = make_plan([tiny.tiny_experiment()], "smoke", out, 1)
    half, other = (job.run for job in plan.jobs)
    half.mkdir(parents=True)
    (half / "config.json").write_text('{"task": "TM')  # a torn write of another program
    other.mkdir()
    newer = {"format_version": VERSION, **Config.build("TMaze-v0").to_json(), "novelty": {}}
    (other / "config.json").write_text(json.dumps(newer))
    code, said = run(tiny.tiny_sweep(out, attempts=1))
    assert code == 1 and "0 runs completed, 0 diverged" in said and "2 failed" in said
    record = json.loads((out / "fig-tiny" / "experiment.json").read_text())
    problems = [entry["problem"] for entry in record["runs"]]
    assert "cannot be read as JSON" in problems[0] and "does not know: novelty" in problems[1]
    assert record["notes"][0].startswith(half.name)


@pytest.mark.parametrize("fault", [RunDirectoryError("no moments"), OSError(28, "No space left")])
def test_an_outcome_that_cannot_be_made_is_told(
    tmp_path: Path, quick_plan: None, monkeypatch: pytest.MonkeyPatch, fault: Exception
) -> None:
    """And does not cost the others."""

    def measure(*asked: Any) -> Any:
        raise fault

    monkeypatch.setattr(_probes, "measure_amplification", measure)
    setting = Setting("TMaze-v0", {**tiny.SETTINGS, "steps": 60})
    study = Study((setting,), (1,), numbers={"pairs": (), "episodes": 2})
    figures = [
        Experiment("fig-a", "A", "fig.a", "amplification", {"smoke": study}),
        Experiment("fig-b", "B", "fig.b", "curves", {"smoke": study}),
    ]
    (job,) = make_plan(figures, "smoke", tmp_path, 1).jobs
    write_run(job.run, [], steps=60)
    code, said = run(Sweep(figures, "smoke", tmp_path, "resel reproduce fig-a fig-b"))
    assert code != 0 and f"No outcome: {fault}" in said
    record = json.loads((tmp_path / "fig-a" / "experiment.json").read_text())
    assert record["files"] == [] and record["notes"][0].startswith("No outcome")
    assert (tmp_path / "fig-b" / "curves.csv").is_file()


def test_an_out_that_is_a_file_is_refused(tmp_path: Path, quick_plan: None) -> None:
    (tmp_path / "out").write_text("mine")
    for out in (tmp_path / "out", tmp_path / "out" / "deeper"):
        for dry_run in (True, False):
            with pytest.raises(ConfigError, match=r"out is a file\. Name another folder"):
                run(tiny.tiny_sweep(out, dry_run=dry_run))
    assert (tmp_path / "out").read_text() == "mine"


def test_a_record_that_cannot_be_written_is_told(
    tmp_path: Path, quick_plan: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*names: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(record.os, "replace", full)
    with pytest.raises(RunDirectoryError, match=r"No space left on device\): name another --out"):
        run(tiny.tiny_sweep(tmp_path / "out"))


def test_what_does_not_fit_is_refused(
    tmp_path: Path, quick_plan: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(planning, "available_memory", lambda: 10**6)
    with pytest.raises(ConfigError, match=r"needs about 0\.1 GB of memory"):
        run(tiny.tiny_sweep(tmp_path / "out"))
    assert not (tmp_path / "out").exists()
    code, said = run(tiny.tiny_sweep(tmp_path / "out", dry_run=True))
    assert code == 0 and "This would be refused: One of the runs needs about" in said


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["fig-pomdq"], "Did you mean fig-pomdp"),
        (["fig-pomdp", "--engine", "slurm"], "--write FILE belong together"),
        (["fig-pomdp", "--write", "x"], "--write FILE belong together"),
        (["fig-pomdp", "--ray-address", "auto"], "belongs to --engine ray"),
        (["fig-pomdp", "--attempts", "0"], "at least 1"),
    ],
)
def test_bad_input(flags: list[str], message: str, capsys: Any) -> None:
    assert main(["reproduce", *flags]) == 2
    assert message in capsys.readouterr().err.replace("\n", " ")


def test_names_are_listed(capsys: Any) -> None:
    assert main(["reproduce"]) == 0
    said = capsys.readouterr().out
    assert all(name in said for name in CATALOGUE)


def test_the_plan_is_shown_by_the_command(capsys: Any, quick_plan: None) -> None:
    assert main(["reproduce", "fig-lr-ablation", "fig-pomdp", "--dry-run"]) == 0
    said = capsys.readouterr().out
    others = [s for s in CATALOGUE["fig-pomdp"].studies["smoke"].settings if s.method]
    assert f"Left: {8 + len(others)} runs, {40_000 + 5000 * len(others):,} steps" in said
    assert not Path("reproduce-output").exists()


def test_evaluations_of_unknown_length_are_told(tmp_path: Path) -> None:
    def said(*evaluation: int | None) -> str:
        return plan_summary(
            [Job(tmp_path, (), 100, evaluation=n, seconds=3.0) for n in evaluation], 1
        )

    assert "200 steps, and of evaluations at most 120; as measured" in said(40, 80)
    assert "200 steps, and of evaluations an unknown number; as" in said(40, None)


def test_figures_are_narrowed_to_the_methods_they_have(capsys: Any, quick_plan: None) -> None:
    names = ["table-timing", "fig-pomdp", "table-mdp"]
    assert main(["reproduce", *names, "--methods", "resel,td7", "--dry-run"]) == 0
    said = capsys.readouterr().out
    assert "Left out, as they run none of these methods: table-timing." in said
    assert "td7 is in table-mdp alone." in said
    assert f"Left: {4 + 2 + 1} runs, 35,000 steps, and of evaluations at most " in said
    assert "steps of evaluations left" in said
    assert main(["reproduce", *names, "--methods", "resel,escp", "--dry-run"]) == 2
    assert "None of these figures runs 'escp'" in capsys.readouterr().err
