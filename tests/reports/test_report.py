"""What a report says, read back from its HTML."""

from __future__ import annotations

import json
import math
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest
from html_reader import Reader
from html_reader import read_report as read
from PIL import Image
from run_folders import write_run

from resel.analysis import paper as paper_module
from resel.analysis.runs import read_run
from resel.cli import main
from resel.errors import DamagedFileError, MissingDependencyError, RunDirectoryError
from resel.methods import methods, run_label
from resel.reports import make_report
from resel.runs._manifest import VERSION

_EVIL = "<script>alert('x')</script>&\"%{x}"


@pytest.fixture(autouse=True)
def _light(monkeypatch: pytest.MonkeyPatch) -> None:
    """Five megabytes of somebody else's JavaScript are looked at in one test only."""
    monkeypatch.setattr("resel.reports.page.plotly_source", lambda: "/* plotly */")


def _traces(figure: dict[str, Any], view: str) -> dict[str, dict[str, Any]]:
    return {t["name"]: t for t in figure["data"] if t["meta"]["view"] == view and "fill" not in t}


def test_one_run(tmp_path: Path) -> None:
    event = {"event": "environment restarted", "environment": "env 0", "message": "it broke"}
    run = write_run(
        tmp_path / "r", [1.0, 2.5, 4.0], success=True, events=[event], lr_policy=0.125, seed=7
    )
    page = read(run, tmp_path)
    evaluation = page.figures["return"]["data"]
    assert evaluation[1]["x"] == [0, 1000, 2000]
    assert evaluation[1]["y"] == [1.0, 2.5, 4.0]
    assert evaluation[1]["name"] == "gru, seed 7" and evaluation[1]["mode"] == "lines+markers"
    axis = page.figures["return"]["layout"]["yaxis"]
    assert axis["title"]["text"] == "return (deterministic policy)"
    # The band is the standard deviation of 2 that the run recorded, as one closed outline.
    assert evaluation[0]["y"] == [-1.0, 0.5, 2.0, 6.0, 4.5, 3.0]
    assert page.figures["success"]["data"][0]["y"] == [0.5, 0.75, 1.0]
    assert page.figures["critic-loss"]["data"][0]["y"] == [4.25, 4.5, 4.75]
    names = [trace["name"] for trace in page.figures["gradient-norms"]["data"]]
    assert names == ["critic/context_encoder", "policy/other"]
    assert {"entropy", "alpha", "q-values"} <= set(page.figures)
    assert page.row("lr_policy") == ["lr_policy", "0.125", "0.001"]
    assert page.row("processor")[1] == "Some processor"
    assert page.row("threads")[1] == "1"
    assert page.row("1,000")[1:] == ["environment restarted", "it broke (env 0)"]
    assert "seed 7" in page.text and "3.25" in page.text and "completed" in page.text


def test_every_axis_has_a_title(tmp_path: Path) -> None:
    page = read(write_run(tmp_path / "r", [1.0, 2.0], success=True), tmp_path)
    assert len(page.figures) > 8
    for figure in page.figures.values():
        assert figure["layout"]["xaxis"]["title"]["text"]
        assert figure["layout"]["yaxis"]["title"]["text"]


def test_a_number_that_is_not_finite_is_a_gap_and_an_event(tmp_path: Path) -> None:
    run = write_run(tmp_path / "r", [1.0, 2.0, 3.0], status="diverged", broken_at=2)
    page = read(run, tmp_path)
    assert page.figures["critic-loss"]["data"][0]["y"] == [4.25, 4.5, None]
    assert ["2,000", "not finite", "the first time: critic_loss"] in page.rows
    assert ["2,000", "run diverged", ""] in page.rows


def test_seeds_are_taken_together_and_settings_are_not(tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    write_run(runs / "deep" / "er" / "a1", [0.0, 10.0], encoder="gru", seed=1)
    write_run(runs / "a2", [2.0, 20.0, 30.0], encoder="gru", seed=2, threads=2)
    write_run(runs / "b", [5.0, 5.0], encoder="mamba", seed=1)
    page = read(runs, tmp_path)
    means = _traces(page.figures["TMaze-v0-return"], "mean ± standard error")
    assert means["gru"]["y"] == [1.0, 15.0, 30.0]
    assert means["gru"]["customdata"] == [[2, " [0, 2]"], [2, " [10, 20]"], [1, ""]]
    assert means["mamba"]["y"] == [5.0, 5.0]
    single = _traces(page.figures["TMaze-v0-return"], "single runs")
    assert single["gru: a2"]["y"] == [2.0, 20.0, 30.0]
    # Final figures: means of all evaluations, as there are fewer than five.
    row = page.named("method", "gru")
    assert row["final return ± standard error"] == "17.5 ± 7.5"
    assert row["interquartile mean [95 %]"] == "17.5 [10.0, 25.0]"
    assert row["which seeds"] == "1, 2"
    row = page.named("run", "deep/er/a1")
    assert (row["label"], row["seed"], row["final return"]) == ("gru", "1", "10")


def test_the_paper_stands_beside_ours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tables = tmp_path / "paper"
    tables.mkdir()
    (tables / "tables.csv").write_text(
        "table,env,step,method,mean,stderr\n"
        "table.x,Hopper-gravity-v2,2000000,RESeL,2846,191\n"
        "table.x,Hopper-gravity-v2,2000000,ESCP,2683,369\n"
        "table.x,Average (as printed),2000000,ESCP,1,\n"
        "table.t,HalfCheetah-v2|layers=1|gpu_memory_mb,,FC,1474,\n"
    )
    monkeypatch.setattr(paper_module, "paper_folder", lambda: tables)
    write_run(tmp_path / "runs" / "a", [1.0, 2.0], task="Hopper-gravity-v0")
    write_run(tmp_path / "runs" / "b", [1.0, 2.0], task="HalfCheetah-v2")
    page = read(tmp_path / "runs", tmp_path)
    assert page.row("ESCP") == ["ESCP", "2,683 ± 369", "–", "2,000,000", "table.x"]
    assert page.named("method", "mamba")["final return ± standard error"] == "2"
    assert "1,474" not in page.text
    reference = page.figures["Hopper-gravity-v0-return"]["data"][-1]
    assert reference["y"] == [2846, 2846] and reference["visible"] is False


def test_methods_stand_beside_each_other(tmp_path: Path) -> None:
    labels = []
    for number, method in enumerate(methods()[0]):
        for seed in (1, 2):
            folder = tmp_path / "runs" / f"{method.name}-{seed}"
            write_run(folder, [0.0, 10.0 * number + seed], seed=seed, method=method.name)
        labels.append(run_label(read_run(folder).config))
    page = read(tmp_path / "runs", tmp_path)
    for number, label in enumerate(labels):
        rows = [row for row in page.rows if row[0].split(",")[0] == label and "1, 2" in row]
        assert [row[1].split()[0] for row in rows] == [f"{10.0 * number + 1.5:g}"]


def test_an_experiment_names_its_runs(tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    write_run(runs / "a", [1.0, 2.0], seed=1)
    write_run(runs / "b", [1.0, 4.0], seed=2, gamma=0.9)
    listed = [{"path": "a", "label": "Ours"}, {"path": "b", "label": "Ours"}, {"path": "gone"}, 3]
    document = {"title": "Figure 1", "scale": "smoke", "runs": listed, "outcomes": ["x.csv"]}
    (runs / "experiment.json").write_text(json.dumps(document))
    page = read(runs, tmp_path)
    assert "Figure 1" in page.text and "x.csv" in page.text
    assert page.named("method", "Ours")["which seeds"] == "1, 2"
    assert "different settings share a label: Ours" in page.text
    assert "lists this run" in page.row("gone")[1]


def test_experiments_share_runs_that_lie_elsewhere(tmp_path: Path) -> None:
    write_run(tmp_path / "all" / "runs" / "a", [1.0, 2.0], seed=1)
    write_run(tmp_path / "all" / "runs" / "b", [1.0, 4.0], seed=2, gamma=0.9)
    write_run(tmp_path / "all" / "runs" / "c", [1.0, 6.0], seed=3, gamma=0.8)
    for name, label in (("fig-1", "Ours"), ("fig-2", "gamma")):
        (tmp_path / "all" / name).mkdir()
        listed: list[dict[str, Any]] = [
            {"path": "../runs/a", "label": label, "x": 0.99},
            {"path": "../runs/b", "label": label, "x": 0.9, "status": "diverged"},
            {"path": "../runs/b", "label": label, "panel": "other", "x": 0.99},
            {"path": "../runs/later", "label": label, "x": 1, "problem": "waits"},
        ]
        document = {"title": name.upper(), "runs": listed, "files": ["x.csv"], "notes": ["a note"]}
        (tmp_path / "all" / name / "experiment.json").write_text(json.dumps(document))
    page = read(tmp_path / "all" / "fig-1", tmp_path)
    assert [row[0] for row in page.rows if row[0].startswith("../runs/")] == [
        "../runs/a",
        "../runs/b",
        "../runs/later",
    ]
    for label, score in (("Ours, 0.9", "4"), ("Ours, 0.99", "2"), ("Ours, other, 0.99", "4")):
        assert page.named("method", label)["final return ± standard error"] == score
    assert page.row("notes")[1] == "a note"
    assert page.row("../runs/later")[1].endswith("none yet. waits")
    every = read(tmp_path / "all", tmp_path)
    assert every.named("run", "runs/a")["label"] == "Ours, 0.99 / gamma, 0.99"
    assert {"FIG-1: TMaze-v0", "FIG-2: TMaze-v0", "TMaze-v0"} <= set(every.texts)
    assert every.named("method", "gru")["final return ± standard error"] == "6"
    studies = ("FIG-1-TMaze-v0", "FIG-2-TMaze-v0", "TMaze-v0")
    assert set(every.figures) == {f"{study}-return" for study in studies}


def test_outcomes_of_experiments_are_shown(tmp_path: Path) -> None:
    """Pictures that cannot be drawn from runs, and times; never a file from elsewhere."""
    folder = tmp_path / "all"
    write_run(folder / "runs" / "a", [1.0, 2.0])
    Image.new("RGB", (4, 3)).save(tmp_path / "secret.png")
    for name, kind, files in (
        ("map", "embedding", ["map.png", "curves.png", "gone.png", "../../secret.png"]),
        ("times", "timing", ["table.csv"]),
        ("returns", "table", ["table.csv"]),
        ("mazes", "lengths", ["table.csv", "seeds.csv"]),
    ):
        (folder / name).mkdir()
        document = {"name": name, "title": name.upper(), "kind": kind, "files": files}
        document |= {"scale": "smoke", "runs": [{"path": "../runs/a"}]}
        (folder / name / "experiment.json").write_text(json.dumps(document))
    for file in ("map.png", "curves.png"):
        Image.new("RGB", (4, 3)).save(folder / "map" / file)
    (folder / "times" / "table.csv").write_text("encoder,update_ms,paper_ms\ngru,12.5,\n")
    (folder / "returns" / "table.csv").write_text(
        "task,step,method,mean,standard_error,iqm,iqm_low,iqm_high,runs,diverged,paper,paper_error\n"
        "Hopper,300,A,1.5,0.25,1.25,1,2,4,1,7,0.5\nAnt,300,B,,,,,,,,8,\n"
    )
    (folder / "mazes" / "table.csv").write_text("group,success_rate\nlstm,0.75\n")
    page = read(folder, tmp_path)
    assert page.row("lstm") == ["lstm", "0.75"]
    (picture,) = [attributes for tag, attributes in page.tags if tag == "img"]
    assert picture["alt"] == "MAP: map"
    assert str(picture["src"]).startswith("data:image/png;base64,")
    assert page.row("gru") == ["gru", "12.5"]  # nothing stands in the paper's column
    ours = ["1.50 ± 0.25", "7.0 ± 0.5", "1.25 [1.00, 2.00]", "4", "1"]
    assert page.row("Hopper") == ["Hopper", "300", "A", *ours]
    assert page.row("Ant") == ["Ant", "300", "B", "–", "8.0", "–", "–", "–"]
    assert page.row("map")[1:] == ["MAP", "", "smoke", "1"]
    (folder / "times" / "table.csv").write_bytes(b"\xff\xfe")
    assert "table.csv cannot be read" in read(folder, tmp_path).text


def test_experiments_without_runs(tmp_path: Path) -> None:
    """Those about time measure by themselves; others may not have been drawn yet."""
    folder = tmp_path / "all"
    for name, files in (("times", ["table.csv"]), ("later", []), ("never", [])):
        (folder / name).mkdir(parents=True)
        document = {"name": name, "title": name.upper(), "kind": "timing", "files": files}
        document |= {"runs": [], "command": f"resel reproduce {name}"}
        document |= {"notes": ["No outcome: old"]} if name == "never" else {}
        (folder / name / "experiment.json").write_text(json.dumps(document))
    (folder / "times" / "table.csv").write_text("encoder,update_ms\ngru,12.5\n")
    page = read(folder, tmp_path)
    assert page.row("gru") == ["gru", "12.5"] and "3 experiments" in page.text
    later = "It comes when all runs have ended. The command: resel reproduce later"
    for words in (later, "No outcome: old The command: resel reproduce never"):
        assert f"Nothing is drawn yet. {words}" in page.text
    assert read(folder / "times", tmp_path).row("gru") == ["gru", "12.5"]


def test_one_experiment_of_many(tmp_path: Path) -> None:
    """As `resel reproduce --out OUT` leaves it, by whatever path one comes to it."""
    out = tmp_path / "out"
    write_run(out / "runs" / "a", [1.0, 2.0])
    (out / "fig-1").mkdir()
    document = {"title": "Figure 1", "runs": [{"path": "../runs/a", "label": "Ours"}]}
    (out / "fig-1" / "experiment.json").write_text(json.dumps(document))
    (tmp_path / "elsewhere").mkdir()
    link, above = tmp_path / "elsewhere" / "figure", tmp_path / "elsewhere" / "all"
    link.symlink_to(out / "fig-1")
    above.symlink_to(out)
    for folder in (out / "fig-1", link, above / "fig-1"):
        assert read(folder, tmp_path).named("run", "../runs/a")["label"] == "Ours"
    assert read(above, tmp_path).named("run", "runs/a")["label"] == "Ours"
    copied = tmp_path / "elsewhere" / "fig-1"
    shutil.copytree(out / "fig-1", copied)
    with pytest.raises(RunDirectoryError, match="elsewhere/runs, which is not there"):
        make_report(copied)


def test_text_of_runs_is_only_text(tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    name = "<img src=x onerror=alert(1)>"
    event = {"event": _EVIL, "message": _EVIL, "traceback": _EVIL, _EVIL: 1}
    write_run(runs / name, [1.0, 2.0], task=_EVIL, status=_EVIL, events=[event])
    write_run(runs / "b", [1.0, 2.0], task=_EVIL, seed=2)
    listed = [{"path": name, "label": _EVIL}, {"path": "b", "label": _EVIL}]
    document = {"title": _EVIL, "name": _EVIL, "runs": listed, _EVIL: _EVIL}
    (runs / "experiment.json").write_text(json.dumps(document))
    for folder, inner_pages in ((runs, 2), (runs / name, 0)):
        page = read(folder, tmp_path)
        tags = [tag for tag, _ in page.tags]
        assert tags.count("script") == 3 + inner_pages and "img" not in tags
        assert not any(key.startswith("on") for _, attributes in page.tags for key in attributes)
        assert _EVIL in page.text
        names = json.dumps([t["name"] for f in page.figures.values() for t in f["data"]])
        assert "<" not in names


def test_nothing_is_fetched(tmp_path: Path) -> None:
    run = write_run(tmp_path / "r", [1.0, 2.0])
    (run / "film.gif").write_bytes(b"GIF89a")
    page = read(run, tmp_path)
    links = [a[key] for _, a in page.tags for key in ("src", "href", "action") if key in a]
    assert links and all(link and link.startswith(("data:", "#")) for link in links)
    policy = next(a["content"] for t, a in page.tags if a.get("http-equiv"))
    assert policy and "default-src 'none'" in policy and "http" not in policy


def test_a_diagnosis_in_the_run_is_shown(tmp_path: Path) -> None:
    run = write_run(tmp_path / "a run", [1.0, 2.0])
    assert f"resel diagnose '{run}' --out '{run}/diagnosis'" in read(run, tmp_path).text
    effective = {"K_h": 0.875, "K_y": 2.5, "epsilon": 0.125, "relative_error": 0.0625}
    variation = {"rates": {"context_encoder": 3e-4, "other": 0.0}, "effective": effective}
    variation |= {"first": 0.25, "converged": 0.75, "factor": None}
    variation |= {"mean": [0.25, 0.75], "standard_error": [0.1, 0.2], "running_mean": [0.25, 0.5]}
    measured = {"variations": [variation], "distance": "tanh(mean)", "lengths": [9, 9], "step": 50}
    document = {"words": ["It grows.", "Lower it."]}
    document |= {"amplification": measured | {"doubt": "Saturated."}}
    (run / "diagnosis").mkdir()
    (run / "diagnosis" / "diagnosis.json").write_text(json.dumps(document))
    page = read(run, tmp_path)
    numbers = ["0.0003", "0", "0.25", "0.75", "0.875", "2.5", "0.125", "0.0625"]
    assert numbers in page.rows and "Saturated." in page.text
    # The verdict stands first. The page draws the curves itself, in the colours of its theme.
    assert 0 < page.text.index("Lower it.") < page.text.index("It grows.")
    assert [t["y"] for t in page.figures["variation"]["data"] if t["meta"]["view"] == "every step"][
        1
    ] == [0.25, 0.75]
    assert "img" not in [tag for tag, _ in page.tags]
    (run / "diagnosis" / "diagnosis.json").write_text("{")
    assert "diagnosis.json cannot be read" in read(run, tmp_path).text


def test_films(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = write_run(tmp_path / "r", [1.0, 2.0])
    (run / "small.mp4").write_bytes(b"film")
    (run / "large.gif").write_bytes(bytes(2000))
    monkeypatch.setattr("resel.reports.run_page.LARGEST_FILM", 1000)
    page = read(run, tmp_path)
    sources = [a["src"] for tag, a in page.tags if tag in ("video", "img")]
    assert sources == ["data:video/mp4;base64,ZmlsbQ=="]
    assert "large.gif: 2.0 KiB, too large" in page.text


def test_long_curves_are_thinned_and_the_page_says_so(tmp_path: Path) -> None:
    page = read(write_run(tmp_path / "r", [1.0], train_lines=5000), tmp_path)
    loss = page.figures["critic-loss"]["data"][0]
    assert 500 < len(loss["x"]) <= 1000
    assert max(loss["y"]) == 4.25
    assert min(loss["y"]) == pytest.approx(min(map(math.sin, range(5000))))
    assert "Of up to 5,001 points" in page.text


def test_what_cannot_be_read_is_listed_and_kept(tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    write_run(runs / "good", [1.0, 2.0])
    write_run(runs / "going on", [1.0], status=None)
    texts = {"half": '{"task": "TM', "older": '{"network": {"critics": 3}}'}
    texts["strange"] = json.dumps({"format_version": VERSION, "network": {"flux": 3}})
    for name, text in texts.items():
        (runs / name).mkdir()
        (runs / name / "config.json").write_text(text)
    (runs / "no config").mkdir()
    (runs / "no config" / "metrics.jsonl").write_text("{}\n")
    silent = write_run(runs / "silent", [])
    cut = write_run(runs / "cut", [1.0, 2.0])
    with (cut / "metrics.jsonl").open("a") as file:
        file.write('{"step": 3000, "kind": "ev')
    bad = write_run(runs / "bad line", [1.0])
    (bad / "metrics.jsonl").write_text('{"step": 1}\nnonsense\n')
    (runs / "experiment.json").write_text("[]")
    before = sorted(runs.rglob("*"))
    page = read(runs, tmp_path)
    assert sorted(runs.rglob("*")) == before and silent.is_dir()
    reasons = {
        "half": "cannot be read as JSON",
        "strange": "network.flux",
        "older": "format version 4 by an older resel",
        "no config": "no config.json",
        "silent": "recorded nothing",
        "bad line": "damaged in line 2",
        "experiment.json": "does not hold a JSON object",
    }
    for name, reason in reasons.items():
        assert reason in page.row(name)[1]
    assert page.named("run", "going on")["status"] == "no result yet"
    assert page.named("run", "cut")["steps"] == "1,000 of 20,000"


def test_a_run_without_evaluations(tmp_path: Path) -> None:
    write_run(tmp_path / "runs" / "a", [], train_lines=3, status=None)
    page = read(tmp_path / "runs", tmp_path)
    row = page.named("run", "a")
    assert (row["status"], row["steps"]) == ("no result yet", "2 of 20,000")
    assert "final return" not in row
    assert not page.figures
    alone = read(tmp_path / "runs" / "a", tmp_path)
    assert "return" not in alone.figures and len(alone.figures["critic-loss"]["data"][0]["y"]) == 3
    assert "There was none yet." in alone.text


def test_a_run_that_was_stopped_between_its_records(tmp_path: Path) -> None:
    write_run(tmp_path / "runs" / "a", [1.0], status="interrupted", ended_at=359)
    metrics = tmp_path / "runs" / "a" / "metrics.jsonl"
    kept = [line for line in metrics.read_text().splitlines() if '"timing"' not in line]
    metrics.write_text("\n".join(kept) + "\n")
    page = read(tmp_path / "runs", tmp_path)
    row = page.named("run", "a")
    assert (row["status"], row["steps"]) == ("interrupted", "359 of 20,000")
    assert row["updates per second"] == "1.111"  # 100 updates in 90 seconds
    assert ["a", "359", "run interrupted", ""] in page.rows


def test_a_folder_with_one_run_names_it(tmp_path: Path) -> None:
    write_run(tmp_path / "runs" / "a", [1.0, 2.0], encoder="gru", seed=3)
    page = read(tmp_path / "runs", tmp_path)
    assert "TMaze-v0: 1 run" in page.texts and "Folder runs, 90 s of training" in page.texts
    assert "Not read" not in page.texts and "not read" not in page.text
    assert page.named("task", "TMaze-v0")["best"] == "gru"
    write_run(tmp_path / "runs" / "b", [1.0], task="CartPole-V-v0")
    assert "2 runs of 2 tasks" in read(tmp_path / "runs", tmp_path).texts


def test_a_figure_that_is_not_finite_does_not_hide_the_others(tmp_path: Path) -> None:
    write_run(tmp_path / "runs" / "a", [1.0, 3.0], seed=1)
    write_run(tmp_path / "runs" / "b", [1.0, math.nan], seed=2, status="diverged")
    page = read(tmp_path / "runs", tmp_path)
    row = page.named("method", "gru")
    assert (row["final return ± standard error"], row["which seeds"]) == ("3", "1, 2")
    assert (row["unfinished runs"], row["steps"]) == ("1", "1,000")
    assert page.named("run", "b")["final return"] == "–"


def test_the_same_runs_give_the_same_files(tmp_path: Path) -> None:
    write_run(tmp_path / "runs" / "a", [1.0, 2.0], seed=1)
    write_run(tmp_path / "runs" / "b", [1.0, 3.0], seed=2)
    written = []
    for name in ("one", "two"):
        report = make_report(tmp_path / "runs")
        report.write(tmp_path / name / "page.html")
        report.write_figures(tmp_path / name / "figures")
        files = sorted(p for p in (tmp_path / name).rglob("*") if p.is_file())
        written.append({p.relative_to(tmp_path / name): p.read_bytes() for p in files})
    assert len(written[0]) == 4
    assert written[0] == written[1]


def test_errors(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(RunDirectoryError, match=r"no run in .* or below"):
        make_report(tmp_path / "empty")
    with pytest.raises(RunDirectoryError, match="There is no folder"):
        make_report(tmp_path / "nowhere")
    broken = tmp_path / "runs" / "broken"
    broken.mkdir(parents=True)
    (broken / "config.json").write_text("nonsense")
    with pytest.raises(RunDirectoryError, match=r"None of the 1 runs .* cannot be read as JSON"):
        make_report(tmp_path / "runs")
    with pytest.raises(DamagedFileError, match="cannot be read as JSON"):
        make_report(broken)


def test_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    monkeypatch.chdir(tmp_path)
    write_run(tmp_path / "runs" / "a", [1.0, 2.0])
    (tmp_path / "runs" / "b").mkdir()
    (tmp_path / "runs" / "b" / "config.json").write_text("[]")
    assert main(["report", "runs", "--figures", "figures"]) == 0
    said = capsys.readouterr()
    assert "Report: report.html" in said.out and "3 files in figures" in said.out
    assert "could not be read (1)" in said.err and "the first is b: " in said.err
    assert "TMaze-v0" in Reader(Path("report.html").read_text(encoding="utf-8")).text
    (tmp_path / "file").touch()
    for arguments, message in (
        (["report", "nowhere"], "There is no folder"),
        (["report", "runs", "--out", "a.pdf"], "file name with .html"),
        (["report", "runs", "--out", "file/a.html"], "cannot be written"),
        (["report", "runs", "--figures", "file"], "cannot be written"),
    ):
        assert main(arguments) == 2
        assert message in capsys.readouterr().err


def test_without_plotly_the_error_names_the_extra(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from resel.reports.interactive import plotly_source

    monkeypatch.setitem(sys.modules, "plotly.offline", None)
    with pytest.raises(MissingDependencyError, match=r"resel\[report\]"):
        plotly_source()


def test_the_page_carries_plotly(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from resel.reports.interactive import plotly_source

    monkeypatch.setattr("resel.reports.page.plotly_source", plotly_source)
    out = tmp_path / "page.html"
    make_report(write_run(tmp_path / "r", [1.0, 2.0])).write(out)
    text = out.read_text(encoding="utf-8")
    assert "plotly.js v" in text
    assert len(text) < 7e6
