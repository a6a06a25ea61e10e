"""What a reader sees first, and the way from a folder to its runs."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from html_reader import Reader, read_report
from run_folders import MACHINE, write_run

from resel.runs import RunDirectory

_BOTH = "final return ± standard error"


@pytest.fixture(autouse=True)
def _light(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("resel.reports.page.plotly_source", lambda: "/* plotly */")


def _states(page: Reader) -> list[tuple[str, str]]:
    """Colour and words of every status before the first table."""
    start = page.source.index('<p class="verdict">')
    verdict = page.source[start : page.source.index("</p>", start)]
    return re.findall(r'class="status (\w+)">([^<]*)<', verdict)


def _started(run: Path, *starts: tuple[str, str]) -> Path:
    listed = [{"at": at, "command": command} for at, command in starts]
    with RunDirectory.open(run) as directory:
        directory.write_environment(MACHINE | {"starts": listed})
    return run


def test_nobody_has_won_while_a_run_goes_on(tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    write_run(runs / "done", [0.0, 10.0], encoder="gru")
    write_run(runs / "going", [0.0, 1.0], encoder="mamba", status="interrupted")
    with RunDirectory.open(runs / "going"):  # as whoever goes on with it
        page = read_report(runs, tmp_path)
    assert _states(page) == [("good", "1 completed"), ("open", "1 running")]
    row = page.named("task", "TMaze-v0")
    assert (row["best"], row["finished"]) == ("not decided: 1 still running", "1 of 2")
    assert "ahead by" not in row
    assert "Still running, with its numbers so far: mamba." in page.texts
    row = read_report(runs, tmp_path).named("task", "TMaze-v0")
    assert row["best"] == "not decided: 1 not finished"


def test_a_run_that_was_stopped_early_has_ended(tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    write_run(runs / "done", [0.0, 10.0], encoder="gru")
    write_run(runs / "early", [0.0, 1.0], encoder="mamba", status="stopped early")
    page = read_report(runs, tmp_path)
    assert _states(page) == [("good", "1 completed"), ("good", "1 stopped early")]
    row = page.named("task", "TMaze-v0")
    assert (row["best"], row["finished"]) == (
        "gru, of a single seed",
        "2 of 2",
    ) and "Nothing failed." in page.text


def test_labels_name_what_differs(tmp_path: Path) -> None:
    many = {"lr_policy": 1e-3, "lr_critic": 3e-3, "lr_alpha": 3e-3, "tau": 0.01, "steps": 4000}
    runs = tmp_path / "runs"
    for name, settings in (
        ("a", {}),
        ("b", many),
        ("c", {**many, "gamma": 0.5}),
    ):
        write_run(runs / name, [0.0, 1.0], encoder="gru", **settings)
    page = read_report(runs, tmp_path)
    labels = {name: page.named("run", name)["label"] for name in "abc"}
    assert len(set(labels.values())) == 3 and "gamma=0.5" in labels["c"]
    assert all(re.fullmatch(r"gru(, \w+=[\w.]+){1,2}, \d more", text) for text in labels.values())


def test_who_won_and_by_how_much(tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    for seed in (1, 2):
        write_run(runs / f"good-{seed}", [0.0, 10.0 * seed], encoder="gru", seed=seed)
        write_run(runs / f"weak-{seed}", [0.0, 1.0 * seed], encoder="mamba", seed=seed)
    write_run(runs / "other", [0.0, 3.0], task="CartPole-V-v0", encoder="gru", status="diverged")
    (runs / "half").mkdir()
    (runs / "half" / "config.json").write_text("{")
    page = read_report(runs, tmp_path)
    assert _states(page) == [("good", "4 completed"), ("bad", "1 diverged"), ("bad", "1 not read")]
    maze = page.named("task", "TMaze-v0")
    assert (maze["best"], maze[_BOTH], maze["of"]) == ("gru", "15 ± 5", "mamba")
    assert maze["ahead by"].startswith("13.50 ± 5.02") and maze["finished"] == "4 of 4"
    pole = page.named("task", "CartPole-V-v0")
    assert (pole["best"], pole["ahead by"], pole["finished"]) == ("gru", "–", "0 of 1, 1 failed")
    assert "Events: 1, listed below." in page.text
    # A lead that is no larger than its error is none.
    write_run(runs / "weak-3", [0.0, 40.0], encoder="mamba", seed=3)
    again = read_report(runs, tmp_path).named("task", "TMaze-v0")
    assert again["best"] == "no lead to speak of: gru" and again["ahead by"].startswith("0.6667 ±")
    # The best stands first in the table of its task.
    methods = [row["method"] for row in page.named_rows if "method" in row]
    assert methods == ["gru", "gru", "mamba"]


def test_a_folder_in_which_nothing_failed_says_so(tmp_path: Path) -> None:
    write_run(tmp_path / "runs" / "a", [1.0, 2.0])
    page = read_report(tmp_path / "runs", tmp_path)
    assert _states(page) == [("good", "1 completed")] and "Nothing failed." in page.text
    assert "Events" not in page.texts


def test_every_run_has_a_page_that_the_table_leads_to(tmp_path: Path) -> None:
    for name in ("a/b", "a-b", "c"):  # two names that become the same
        write_run(tmp_path / "runs" / name, [1.0, 2.0], lr_policy=0.125)
    (tmp_path / "runs" / "c" / "film.mp4").write_bytes(b"film")
    page = read_report(tmp_path / "runs", tmp_path)
    pages = [a["id"] for tag, a in page.tags if tag == "template"]
    targets = [str(a["href"])[1:] for tag, a in page.tags if str(a.get("href")).startswith("#run-")]
    assert len(set(pages)) == 3 and set(pages) <= set(targets)
    places = {str(a["id"]) for _, a in page.tags if "id" in a} | {""}
    assert all(str(a["href"])[1:] in places for tag, a in page.tags if tag == "a")
    assert len(places) == 1 + len([a for _, a in page.tags if "id" in a])  # no name twice
    assert page.source.count("<td") > 3 and page.texts.count("lr_policy") >= 3
    # The figures of the runs are in the file, films are not.
    assert page.source.count('class="figures">{"return"') == 3
    assert "film.mp4: resel report" in page.text and "ZmlsbQ==" not in page.source


def test_date_and_command_of_a_run(tmp_path: Path) -> None:
    run = write_run(tmp_path / "runs" / "a", [1.0, 2.0])
    first, again = ("2026-03-01T09:05:00+00:00", "resel train X"), "2026-03-02T10:00:00+00:00"
    _started(run, first, (again, "resel resume runs/a"))
    page = read_report(tmp_path / "runs", tmp_path)
    assert page.named("run", "a")["started"] == "2026-03-01 09:05 UTC"
    assert "Folder runs, 90 s of training, started 2026-03-01 09:05 UTC" in page.texts
    alone = read_report(run, tmp_path)
    assert "Run a, started 2026-03-01 09:05 UTC" in alone.texts and "resel train X" in alone.texts
    assert alone.row("2026-03-02 10:00 UTC")[1] == "resel resume runs/a"
    _started(run, ("some day", "resel train X"))  # what cannot be read is not shown
    assert "started" not in read_report(tmp_path / "runs", tmp_path).named("run", "a")


def test_what_never_changed_is_a_line_of_text(tmp_path: Path) -> None:
    page = read_report(write_run(tmp_path / "r", [2.0, 2.0, 2.0]), tmp_path)
    assert "Constant: return while training 1; episode length 20." in page.texts
    assert "Constant: padding share 0; " in page.text
    assert "length" not in page.figures and "padding_share" not in page.figures
    assert page.figures["return"]["data"][1]["y"] == [2.0] * 3  # the return is always drawn


def test_speed_begins_with_learning(tmp_path: Path) -> None:
    page = read_report(write_run(tmp_path / "r", [1.0] * 5), tmp_path)
    (line,) = page.figures["speed"]["data"]  # an update a step: one line for both
    assert line["x"] == [2000, 3000, 4000] and max(line["y"]) == 41.0
    assert "From step 2,000 on, once learning had begun." in page.texts
    metrics = tmp_path / "r" / "metrics.jsonl"
    kept = [json.loads(text) for text in metrics.read_text().splitlines()]
    for record in kept:
        if record["kind"] == "timing":
            record["updates_per_second"] /= 2
    metrics.write_text("".join(json.dumps(record) + "\n" for record in kept))
    page = read_report(tmp_path / "r", tmp_path)
    assert [line["name"] for line in page.figures["speed"]["data"]] == ["updates", "steps"]


def test_one_legend_for_figures_that_show_the_same(tmp_path: Path) -> None:
    for encoder in ("gru", "mamba"):
        for seed in (1, 2):
            folder = tmp_path / "runs" / f"{encoder}-{seed}"
            write_run(folder, [0.0, 1.0, 2.0, 3.0], success=True, encoder=encoder, seed=seed)
    page = read_report(tmp_path / "runs", tmp_path)
    first = page.source[: page.source.index("<template")]
    assert first.count('class="plot"') == 2 and first.count('class="legend"') == 1
    assert first.count('data-view="single runs"') == 1
    # In the page of a run a line that is alone has no legend, lines that differ have their own.
    one = read_report(tmp_path / "runs" / "gru-1", tmp_path).source
    assert one.count('class="legend"') == 2 and "critic/context_encoder</button>" in one


def test_a_squeezed_axis_is_fitted_and_says_so(tmp_path: Path) -> None:
    values = [-1500.0, -900.0, -140.0, -136.0, -139.0, -137.0, -135.0, -138.0]
    page = read_report(write_run(tmp_path / "r", values), tmp_path)
    low, high = page.figures["return"]["layout"]["yaxis"]["range"]
    assert -250 < low < -139 and -135 < high < -100
    assert "earlier values down to -1,500 lie below it" in page.text and "all values" in page.texts
    assert page.figures["return"]["data"][1]["y"] == values
