"""Tables, curves and pictures from run directories whose numbers are known."""

from __future__ import annotations

import csv
import json
import math
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from fake_runs import write_run
from PIL import Image
from simulators import installed

from resel.analysis import measure_amplification
from resel.cli import main
from resel.errors import DamagedFileError, RunDirectoryError
from resel.experiments import Experiment, Setting, Study
from resel.experiments._paper_scale import PAIRS
from resel.experiments._settings import Kind, Measure
from resel.experiments.engines import Ledger, Status
from resel.experiments.outcomes import _probes, make_outcome
from resel.experiments.plan import Job, Member
from resel.experiments.record import check_folder, write_record
from resel.reports import make_report
from resel.tasks import make_env


def lines(*returns: float, every: int = 10, success: float | None = None) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for index, value in enumerate(returns, start=1):
        line = {"step": index * every, "kind": "eval", "return_mean": value, "return_std": 0.0}
        found.append(line | ({} if success is None else {"success_rate": success}))
        found.append({"step": index * every, "kind": "train", "episode_return": value - 1})
    return found


def make(
    kind: Kind,
    members: list[Member],
    folder: Path,
    status: dict[Path, Status] | None = None,
    measures: tuple[Measure, ...] = ("return",),
    table: str | None = None,
    **study: Any,
) -> list[str]:
    experiment = Experiment(
        "name", "A title", "fig.x", kind, {"smoke": Study(**study)}, measures, table
    )
    known: dict[Path, Status] = {member.run: "completed" for member in members}
    folder.mkdir(exist_ok=True)
    files = make_outcome(experiment, "smoke", members, known | (status or {}), folder)
    assert sorted(files) == sorted(path.name for path in folder.iterdir())
    for file in files:
        if file.endswith(".png"):
            with Image.open(folder / file) as picture:
                assert picture.size[0] > 300
        if file.endswith(".svg"):
            assert "<svg" in (folder / file).read_text()
    return files


def rows(path: Path) -> list[dict[str, str]]:
    return list(csv.DictReader(path.read_text().splitlines()))


def test_curves_with_divergences_counted(tmp_path: Path) -> None:
    members, status = [], {}
    for group, first in (("low", 0.0), ("high", 10.0)):
        for seed in (1, 2):
            run = tmp_path / "runs" / f"{group}{seed}"
            member = Member(run, Setting("TMaze-v0", {}, group), seed, 30)
            members.append(member)
            gone = (group, seed) == ("high", 2)
            returns = [first + seed] if gone else [first + seed, 3.0, 4.0]
            write_run(run, lines(*returns), "diverged" if gone else "completed", 30)
            status[run] = "diverged" if gone else "completed"
    measures: tuple[Measure, ...] = ("return", "exploration")
    files = make("curves", members, tmp_path / "out", status, measures)
    assert set(files) == {
        "curves.csv",
        "finals.csv",
        "curves.png",
        "curves.svg",
        "curves-exploration.png",
        "curves-exploration.svg",
    }
    found = {
        (row["group"], row["measure"], int(row["step"])): row
        for row in rows(tmp_path / "out" / "curves.csv")
    }
    assert len(found) == 12
    row = found["low", "return", 10]
    assert (float(row["mean"]), float(row["standard_error"]), row["runs"]) == (1.5, 0.5, "2")
    row = found["high", "return", 20]
    assert (row["mean"], row["standard_error"], row["runs"], row["diverged"]) == (
        "3.0",
        "",
        "1",
        "1",
    )
    assert float(found["low", "exploration", 10]["mean"]) == 0.5
    assert "high: 1 of 2 diverged" in (tmp_path / "out" / "curves.svg").read_text()
    low, high = rows(tmp_path / "out" / "finals.csv")
    figures = [float(low[name]) for name in ("mean", "standard_error", "iqm")]
    ends = [(1 + 3 + 4) / 3, (2 + 3 + 4) / 3]  # over all evaluations, as there are under five
    assert figures == pytest.approx([np.mean(ends), (ends[1] - ends[0]) / 2, np.mean(ends)])
    assert [float(low[name]) for name in ("iqm_low", "iqm_high")] == pytest.approx(ends)
    assert (high["runs"], high["diverged"]) == ("1", "1")


def test_final_scores_along_an_axis(tmp_path: Path) -> None:
    members = []
    for x, success in ((60, 1.0), (120, 0.5)):
        for seed in (1, 2):
            run = tmp_path / "runs" / f"{x}-{seed}"
            write_run(run, lines(0, 0, success=success))
            members.append(Member(run, Setting("TMaze-v0", {}, panel="maze", x=x), seed, 20))
    lost = members[-1].run
    make("finals", members, tmp_path / "out", {lost: "failed"}, ("success",))
    found = [
        (r["panel"], float(r["x"]), float(r["mean"]), r["runs"])
        for r in rows(tmp_path / "out/finals.csv")
    ]
    assert found == [("maze", 60.0, 1.0, "2"), ("maze", 120.0, 0.5, "1")]


def test_tables_stand_beside_the_papers(tmp_path: Path) -> None:
    members = []
    for seed, last in ((1, 1000.0), (2, 1200.0)):
        run = tmp_path / "runs" / f"{seed}"
        write_run(run, lines(*[0.0] * 3, *[last] * 5, every=250_000))
        members.append(Member(run, Setting("Ant-gravity-v0"), seed, 2_000_000))
    other = tmp_path / "runs" / "escp"
    adapting = lines(*[0.0] * 3, *[700.0] * 5, every=250_000)
    adapting[-2]["adaptation_steps"] = 4000
    write_run(other, adapting)
    setting = Setting("Ant-gravity-v0", group="ESCP", method="escp")
    members.append(Member(other, setting, 1, 2_000_000))
    table = "table.meta_gravity_final"
    make("table", members, tmp_path / "out", table=table)
    ours, escp, *others = rows(tmp_path / "out" / "table.csv")
    assert [ours[name] for name in ("task", "method", "mean", "standard_error")] == [
        *("Ant-gravity-v0", "RESeL"),
        *("1100.0", "100.0"),
    ]
    assert (ours["paper"], ours["paper_error"]) == ("5949.0", "314.0")
    assert (ours["iqm_low"], ours["iqm_high"]) == ("1000.0", "1200.0")
    assert (escp["task"], escp["method"], escp["mean"]) == ("Ant-gravity-v0", "ESCP", "700.0")
    assert (escp["paper"], escp["runs"]) == ("3403.0", "1")
    assert (ours["told"], ours["adaptation_steps"]) == ("", "")
    assert (escp["told"], escp["adaptation_steps"]) == ("task", "4000")
    assert {row["task"] for row in others} == {
        "Ant-gravity-v0",
        *(f"{robot}-gravity-v2" for robot in ("HalfCheetah", "Hopper", "Humanoid", "Walker2d")),
    }
    assert all(row["mean"] == "" and row["paper"] for row in others)
    assert len({(row["task"], row["method"]) for row in [ours, escp, *others]}) == 5 * 8
    text = (tmp_path / "out" / "table.md").read_text()
    assert (
        "| Ant-gravity-v0 | 2,000,000 | RESeL | 1100 ± 100 | 1100 [1000, 1200] | 2 | 0 | 5949 ± 314"
        " | - | - |" in text
    )
    assert " | task | 4,000 |" in text


def test_tables_end_with_averages(tmp_path: Path) -> None:
    """The paper's RESeL has 5949 on Ant and 8705 on HalfCheetah."""
    members = []
    for task, values in (("Ant", (2974.5, 5949.0)), ("HalfCheetah", (8705.0, 8705.0))):
        for seed, value in enumerate(values, 1):
            run = tmp_path / "runs" / f"{task}-{seed}"
            write_run(run, lines(*[value] * 5, every=400_000))
            members.append(Member(run, Setting(f"{task}-gravity-v0"), seed, 2_000_000))
    make("table", members, tmp_path / "out", table="table.meta_gravity_final")
    found = {
        row["task"]: row for row in rows(tmp_path / "out" / "table.csv") if row["method"] == "RESeL"
    }
    average, share = found["Average of 2"], found["Share of the paper's RESeL"]
    assert float(average["mean"]) == pytest.approx((4461.75 + 8705) / 2)
    assert float(average["standard_error"]) == pytest.approx(1487.25 / 2)
    assert (average["iqm"], average["runs"]) == ("", "4")
    assert float(average["paper"]) == pytest.approx((5949 + 8705) / 2)
    assert float(share["mean"]) == pytest.approx(0.875)
    assert float(share["paper"]) == 1
    # Of 0.5, 1, 1, 1 the middle two; the least that can be drawn is 0.5, 0.5, 1, 1.
    assert [float(share[name]) for name in ("iqm", "iqm_low", "iqm_high")] == [1, 0.75, 1]
    assert "Share of the paper's RESeL" in (tmp_path / "out" / "table.md").read_text()


def test_pictures_tell_of_runs_that_diverged(tmp_path: Path) -> None:
    members, status = [], {}
    for x in (1e-4, 1e-3):
        for seed in (1, 2):
            run = tmp_path / "runs" / f"{x}-{seed}"
            write_run(run, lines(1, 2))
            members.append(Member(run, Setting("TMaze-v0", {}, panel="rates", x=x), seed, 20))
            if x == 1e-3 or seed == 2:
                status[run] = "diverged"
    known: dict[Path, Status] = dict.fromkeys(status, "diverged")
    make("finals", members, tmp_path / "out", known)
    text = (tmp_path / "out" / "finals.svg").read_text()
    assert "1 of 2 diverged" in text and "2 of 2 diverged" in text


def test_tables_read_runs_at_their_marks(tmp_path: Path) -> None:
    run = tmp_path / "runs" / "1"
    write_run(run, lines(1, 2, 3, 4, 5, 6, 7), status=None)
    members = [Member(run, Setting("Hopper-v2"), 1, 100)]
    status: dict[Path, Status] = {run: "failed"}
    table = "table.classic_result_full"
    make("table", members, tmp_path / "out", status, table=table, marks=(20, 70, 90))
    found = rows(tmp_path / "out" / "table.csv")[:3]
    assert [(row["step"], row["mean"], row["diverged"]) for row in found] == [
        ("20", "1.5", "0"),
        ("70", "5.0", "0"),
        ("90", "", "0"),
    ]
    make("table", members, tmp_path / "out", {run: "diverged"}, table=table, marks=(20, 70, 90))
    found = rows(tmp_path / "out" / "table.csv")[:3]
    counts = [(row["runs"], row["diverged"]) for row in found]
    assert counts == [("1", "0"), ("1", "0"), ("0", "1")], "it counts where it got to"


def test_timing_is_measured_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from resel.experiments.outcomes import _timing

    def point(encoder: str, blocks: int, length: int, ms: float, *sweeps: str) -> dict[str, Any]:
        fixed = {"steps": 1000, "memory_mb": 5.0, "sweeps": list(sweeps)}
        return {"encoder": encoder, "blocks": blocks, "length": length, "update_ms": ms, **fixed}

    points = [point("gru", 1, 1000, 40, "blocks", "length"), point("mamba", 1, 1000, 10, "blocks")]
    layers = [
        {"encoder": encoder, "length": length, "forward_ms": 1.0 * length, "backward_ms": 2.0}
        for encoder in ("mamba", "gru")
        for length in (100, 1000)
    ]
    measured = []

    def run(bench: Any) -> dict[str, Any]:
        measured.append(bench)
        return {"points": points, "layers": layers, "threads": 2}

    monkeypatch.setattr(_timing, "run", run)
    numbers = {"size": "tiny", "quick": True}
    table = "tab:full_timeoverhead_table"
    make("timing", [], tmp_path / "a", table=table, numbers=numbers)
    make("timing", [], tmp_path / "b", numbers=numbers)
    assert len(measured) == 1 and measured[0].size == "tiny" and measured[0].quick
    mamba, gru = rows(tmp_path / "a" / "table.csv")
    assert (mamba["encoder"], float(mamba["normalized"])) == ("mamba", 25.0)
    assert (mamba["paper_update_ms"], mamba["paper_normalized"]) == ("17.0", "25.8")
    assert (gru["paper_update_ms"], gru["paper_gpu_memory_mb"]) == ("66.0", "1500.0")
    assert (gru["device"], gru["threads"]) == ("cpu", "2")
    lengths = [(r["encoder"], r["forward_ms"]) for r in rows(tmp_path / "b" / "length.csv")]
    assert lengths == [("mamba", "100.0"), ("mamba", "1000.0"), ("gru", "100.0"), ("gru", "1000.0")]
    for damage in ("{", "{}", '{"layers": [{}]}'):
        (tmp_path / "timing" / "scaling-tiny-quick.json").write_text(damage)
        with pytest.raises(DamagedFileError, match="delete it"):
            make("timing", [], tmp_path / "b", numbers=numbers)


def train(run: Path, task: str, tiny_flags: list[str], *more: str) -> Member:
    """A real run of the smallest network."""
    threads = torch.get_num_threads()
    steps = ["--steps", "60", "--threads", "1", "--run-dir", str(run)]
    assert main(["train", task, *tiny_flags, *steps, *more]) == 0
    torch.set_num_threads(threads)
    return Member(run, Setting(task), 1, 60)


def test_amplification_of_a_real_run(tmp_path: Path, tiny_flags: list[str]) -> None:
    member = train(tmp_path / "out" / "runs" / "1", "TMaze-v0", tiny_flags)
    folder, numbers = tmp_path / "out" / "fig-x", {"pairs": PAIRS[:2], "episodes": 3}
    files = make("amplification", [member], folder, numbers=numbers)
    measured = measure_amplification(member.run, PAIRS[:2], 3, 1)
    found = rows(folder / "amplification.csv")
    steps = len(measured.variations[0].mean)
    assert len(found) == 2 * steps and steps == 21
    for variation, part in zip(measured.variations, (found[:steps], found[steps:]), strict=True):
        assert {(float(r["lr_context_encoder"]), float(r["lr_other"])) for r in part} == {
            tuple(variation.rates)
        }
        for name in ("mean", "standard_error", "episodes", "running_mean", "bound"):
            assert [float(r[name]) for r in part] == list(getattr(variation, name)), name
    assert json.loads((folder / "amplification.json").read_text()) == json.loads(
        json.dumps(measured.to_json())
    )
    failed: dict[Path, Status] = {member.run: "failed"}
    with pytest.raises(RunDirectoryError, match="no run was completed"):
        make("amplification", [member], folder, failed, numbers=numbers)

    document = {"title": "Growth", "kind": "amplification", "files": files}
    document |= {"runs": [{"path": "../runs/1"}]}
    (folder / "experiment.json").write_text(json.dumps(document))
    page = tmp_path / "report.html"
    make_report(folder).write(page)
    text = page.read_text(encoding="utf-8")
    assert "effective epsilon" in text and 'alt="Growth: amplification"' in text
    for variation in measured.variations:
        for value in (variation.first, variation.effective.K_h, variation.effective.epsilon):
            assert f'data-value="{value!r}"' in text


@pytest.mark.parametrize(
    ("task", "range"),
    [
        pytest.param(
            "HalfCheetah-gravity-v0", (2.9, 33.1), marks=installed("HalfCheetah-gravity-v0")
        ),
        ("Pendulum-gravity-v0", (6.7, 15.0)),
    ],
)
def test_contexts_of_a_real_run(
    task: str, range: tuple[float, float], tmp_path: Path, tiny_flags: list[str]
) -> None:
    short = ["--max-episode-steps", "20", "--preset", "paper"]
    member = train(tmp_path / "runs" / "1", task, tiny_flags, *short)
    env = gymnasium.wrappers.TimeLimit(make_env(task, evaluation=True), 12)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_probes, "make_env", lambda name, evaluation: env)
        make("embedding", [member], tmp_path / "out", numbers={"gravities": 6})
    found = rows(tmp_path / "out" / "embedding.csv")
    values = sorted({round(float(row["gravity"]), 2) for row in found})
    assert len(found) == 6 * 12 and len(values) == 6 and (values[0], values[-1]) == range
    by_episode = {row["episode"]: row["gravity"] for row in found}
    assert all(row["gravity"] == by_episode[row["episode"]] for row in found), "one in each"
    summary = json.loads((tmp_path / "out" / "embedding.json").read_text())
    assert (summary["gravities"], summary["points"]) == (6, 72)
    assert math.isfinite(summary["read_out_score"]) and summary["read_out_score"] <= 1


def test_the_record_of_an_experiment(tmp_path: Path) -> None:
    run = tmp_path / "out" / "runs" / "1"
    write_run(run, lines(1.0), version="0.0.1")
    experiment = Experiment("fig-x", "A title", "fig.x", "curves", {"smoke": Study()})
    folder = tmp_path / "out" / "fig-x"
    members = [Member(run, Setting("TMaze-v0", {"gamma": 0.9}, "low", x=2.0), 3, 100)]
    ledger = Ledger.of([Job(run, (), 100)])
    check_folder(folder, experiment, "smoke")
    write_record(folder, experiment, "smoke", members, ledger.entries, "resel x", ["a.csv"], ["hm"])
    data = json.loads((folder / "experiment.json").read_text())
    assert (data["format"], data["version"], data["name"], data["scale"]) == (
        "resel-experiment",
        1,
        "fig-x",
        "smoke",
    )
    assert data["files"] == ["a.csv"] and data["machine"]["versions"]["torch"]
    assert data["notes"][0] == "hm" and "made with resel 0.0.1" in data["notes"][1]
    (entry,) = data["runs"]
    assert (folder / entry["path"]).resolve() == run and entry["path"] == "../runs/1"
    assert (entry["label"], entry["seed"], entry["status"]) == ("low", 3, "completed")
    check_folder(folder, experiment, "smoke")
    with pytest.raises(RunDirectoryError, match="holds fig-x at scale smoke: name another --out"):
        check_folder(folder, experiment, "paper")
    (folder / "experiment.json").write_text(json.dumps(data | {"version": 2}))
    with pytest.raises(DamagedFileError, match=r"version 2.*update resel"):
        check_folder(folder, experiment, "smoke")
    for broken in ('{"format"', "[]", "{}"):
        (folder / "experiment.json").write_text(broken)
        with pytest.raises(DamagedFileError, match=r"cannot be read .*delete it"):
            check_folder(folder, experiment, "smoke")
