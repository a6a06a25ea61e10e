"""Methods side by side on any environment: what is run, and the table that comes of it."""

from __future__ import annotations

import csv
import json
import math
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import tiny_sweep as tiny
from fake_runs import write_run

from resel.cli import compare, main
from resel.errors import ConfigError
from resel.experiments import COMPARISON, comparison, narrowed, with_seeds
from resel.experiments._settings import Experiment, Setting, Study
from resel.experiments.engines import Status
from resel.experiments.outcomes import make_outcome
from resel.experiments.plan import Member, run_name

pytestmark = pytest.mark.usefixtures("own_folder")


def test_all_methods_are_measured_alike() -> None:
    given = {"gamma": 0.9, "batch_steps": 300, "encoder": "gru"}
    found = comparison("Pendulum-V-v0", ["resel", "sac-mlp", "ppo-gru"], 2, settings=given)
    study = found.studies[COMPARISON]
    assert study.seeds == (1, 2) and study.numbers["thresholds"]["Pendulum-V-v0"] == -200
    configs = {s.method_name: s.config(1) for s in study.settings}
    assert [s.group for s in study.settings] == ["RESeL", "SAC-MLP", "PPO-GRU"]
    for name in ("steps", "eval_every", "eval_episodes"):
        assert len({getattr(config.training, name) for config in configs.values()}) == 1
    assert {config.algorithm.gamma for config in configs.values()} == {0.9}
    assert configs["resel"].algorithm.batch_steps == 300  # the others have none
    assert [c.encoder for c in configs.values()] == ["gru", None, "gru"]


def test_an_environment_that_is_nobodys() -> None:
    found = comparison("Acrobot-v1", ["resel", "sac"], 1, settings={"steps": 5000})
    resel, sac = (setting.config(1) for setting in found.studies[COMPARISON].settings)
    assert {s.preset for s in found.studies[COMPARISON].settings} == {"auto"}
    assert resel.training.steps == sac.training.steps == 5000
    assert found.studies[COMPARISON].numbers["thresholds"] == {"Acrobot-v1": None}


def evaluated(*returns: float) -> list[dict[str, Any]]:
    """Evaluations every 10 steps; the processor takes 6 seconds a step."""
    lines: list[dict[str, Any]] = []
    for i, value in enumerate(returns):
        lines.append({"step": 10 * i, "kind": "eval", "return_mean": value, "return_std": 0.0})
        lines[-1]["updates"] = 10 * i
        lines.append({"step": 10 * i, "kind": "timing", "cpu_seconds": 60.0 * i})
    return lines


@pytest.mark.parametrize("threshold", [None, 5.0])
def test_steps_and_minutes_to_a_threshold(threshold: float | None, tmp_path: Path) -> None:
    curves = {
        ("quick", 1): evaluated(0, 6, 10, 10, 10, 10, 10),
        ("quick", 2): evaluated(0, 2, 6, 10, 10, 10, 10),
        ("slow", 1): evaluated(0, 0, 0, 0, 0, 0, 6),
        ("slow", 2): evaluated(0, 0, 0, 0, 0, 0, 0),
        ("lost", 1): evaluated(0, 0),
    }
    members, status = [], dict[Path, Status]()
    for (method, seed), lines in curves.items():
        run = tmp_path / f"{method}-{seed}"
        lost = method == "lost"
        if method == "slow":
            lines[-2]["adaptation_steps"] = 1200
        write_run(run, lines, "diverged" if lost else "completed", cpu_seconds=600.0)
        privileged = {"method": "pearl"} if method == "slow" else {}
        members.append(Member(run, Setting("a-task", group=method, **privileged), seed, 60))
        status[run] = "diverged" if lost else "completed"
    study = Study((), (1, 2), numbers={"thresholds": {"a-task": threshold}})
    figure = Experiment("comparison", "A title", "", "comparison", {COMPARISON: study})
    files = make_outcome(figure, COMPARISON, members, status, tmp_path)
    assert {"table.csv", "table.md", "curves.csv", "curves.png"} <= set(files)
    rows = list(csv.DictReader((tmp_path / "table.csv").read_text().splitlines()))
    assert [row["method"] for row in rows] == ["quick", "slow", "lost"]
    quick, slow, lost_row = rows
    # Of the last five evaluations: (10 + 9.2) / 2, of which 90 % lie between 6 and 10.
    assert float(quick["mean"]) == pytest.approx(9.6)
    assert float(quick["threshold"]) == pytest.approx(threshold or 0.9 * 9.6)
    steps = (10 + 20) / 2 if threshold else (20 + 30) / 2
    assert float(quick["steps_to_threshold"]) == steps
    assert float(quick["cpu_minutes_to_threshold"]) == pytest.approx(steps / 10)
    assert quick["reached"] == "2" and float(quick["cpu_minutes"]) == 10
    assert slow["reached"] == ("1" if threshold else "0")
    assert slow["steps_to_threshold"] == slow["cpu_minutes_to_threshold"] == ""
    assert lost_row["mean"] == "" and lost_row["diverged"] == "1"
    assert (quick["told"], quick["adaptation_steps"]) == ("", "")
    assert (slow["told"], slow["adaptation_steps"]) == ("task", "1200")
    assert (quick["reads_rewards"], slow["reads_rewards"]) == ("", "yes")
    # Two runs of a method have a mean and no interval.
    assert float(quick["iqm"]) == pytest.approx(9.6) and quick["iqm_low"] == ""
    told = (tmp_path / "table.md").read_text()
    assert "| yes | task | 1,200 |" in told and "| 9.6 |" in told
    assert ("90% of the way" in told) == (threshold is None) and "nan" not in told


def test_no_threshold_where_nobody_is_ahead_of_an_untrained_policy(tmp_path: Path) -> None:
    lines = evaluated(0, 1, 1, 1, 1, 1, 1)
    for line in lines:
        if line["kind"] == "eval":
            line["return_std"] = 5.0  # over 10 episodes: two standard errors are 3.2
    write_run(tmp_path / "one", lines, "completed", cpu_seconds=600.0)
    member = Member(tmp_path / "one", Setting("a-task", group="one"), 1, 60)
    study = Study((), (1,), numbers={"thresholds": {"a-task": None}})
    figure = Experiment("comparison", "A title", "", "comparison", {COMPARISON: study})
    make_outcome(figure, COMPARISON, [member], {member.run: "completed"}, tmp_path)
    assert "a-task has no threshold: no method is ahead" in (tmp_path / "table.md").read_text()
    (row,) = csv.DictReader((tmp_path / "table.csv").read_text().splitlines())
    assert row["threshold"] == "" and row["reached"] == "0"


def test_from_the_command_to_a_page(tmp_path: Path, capsys: Any) -> None:
    settings = {n: v for n, v in tiny.SETTINGS.items() if not n.startswith("eval")}
    words = [f"{name}={json.dumps(value)}" for name, value in settings.items()]
    flags = ["--methods", "resel,sac-mlp", "--seeds", "1", "--steps", "60", "--eval-every", "20"]
    flags += ["--eval-episodes", "2", "--out", "out", "--jobs", "2", "--settings", *words]
    assert main(["compare", "TMaze-v0", *flags]) == 0
    said = capsys.readouterr().out
    assert "Plan in out" in said and "2 runs completed" in said and "cpu min to it" in said
    assert re.search(r"reached 0\.\d+ +steps to it", said) and "± -" not in said
    assert "return: mean of the last five evaluations, or of as many as there were." in said
    assert "was told" not in said and "the last reward" not in said  # nobody
    page = (tmp_path / "out" / "comparison.html").read_text()
    assert "RESeL" in page and "SAC-MLP" in page and "cpu minutes</button>" in page
    record = json.loads((tmp_path / "out" / "comparison" / "experiment.json").read_text())
    assert record["command"].startswith("resel compare TMaze-v0 --methods resel,sac-mlp")
    minutes = [float(row["cpu_minutes"]) for row in _table(tmp_path)]
    assert len(minutes) == 2 and all(math.isfinite(m) and m > 0 for m in minutes)
    assert main(["compare", "TMaze-v0", *flags]) == 0
    assert "No run is left" in capsys.readouterr().out


def test_the_screen_names_who_had_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    members, statuses = [], {}
    for method in ("sac-mlp", "osi", "escp", "vrm"):
        write_run(tmp_path / method, evaluated(0.0, 6.0), "completed", cpu_seconds=60.0)
        members.append(
            Member(tmp_path / method, Setting("a-task", {}, method, method=method), 1, 10)
        )
        statuses[members[-1].run] = "completed"
    study = Study((), (1,), numbers={"thresholds": {"a-task": 5.0}})
    figure = Experiment("comparison", "A title", "", "comparison", {COMPARISON: study})
    folder = tmp_path / "out" / "comparison"
    folder.mkdir(parents=True)
    make_outcome(figure, COMPARISON, members, statuses, folder)
    monkeypatch.setattr("resel.reports.make_report", lambda out: SimpleNamespace(write=str))
    compare._show(tmp_path / "out", "comparison")
    assert "osi was told hidden, escp was told task; vrm reads the last reward." in (
        capsys.readouterr().out
    )
    rows = [{"method": name, "told": "", "reads_rewards": "yes"} for name in ("A", "B")]
    assert compare._privileges(rows) == "A, B read the last reward."


def test_what_changes_nothing_for_a_method_is_not_given_to_it() -> None:
    given = {"updates_per_step": 0.25}
    study = comparison("TwoGoals-v0", ["resel", "rl2"], 1, settings=given).studies[COMPARISON]
    resel, rl2 = (setting.config(1).training.updates_per_step for setting in study.settings)
    assert (resel, rl2) == (0.25, 1.0)


def _table(folder: Path) -> list[dict[str, str]]:
    text = (folder / "out" / "comparison" / "table.csv").read_text()
    return list(csv.DictReader(text.splitlines()))


def test_fewer_methods_of_figures() -> None:
    def figure(name: str, *methods: str | None) -> Experiment:
        settings = tuple(Setting("TMaze-v0", method=method) for method in methods)
        return Experiment(name, "", "", "curves", {"smoke": Study(settings, (1,))})

    one, other = figure("fig-one", None, "sac", "sac-gru"), figure("fig-other", "sac", "td7")
    times = figure("table-times")
    (kept,), notes = narrowed([one], "smoke", ["resel", "sac-gru"])
    assert [s.method_name for s in kept.studies["smoke"].settings] == ["resel", "sac-gru"]
    assert not notes
    with pytest.raises(
        ConfigError, match=r"fig-one .*'td7' at scale smoke: it has resel, sac, sac"
    ):
        narrowed([one], "smoke", ["td7"])
    with pytest.raises(ConfigError, match=r"table-times does not run 'sac'.*: it trains nothing"):
        narrowed([times], "smoke", ["sac"])

    found, notes = narrowed([times, one, other], "smoke", ["sac", "td7"])
    assert [[s.method_name for s in e.studies["smoke"].settings] for e in found] == [
        ["sac"],
        ["sac", "td7"],
    ]
    assert notes == [
        "Left out, as they run none of these methods: table-times.",
        "td7 is in fig-other alone.",
    ]
    words = (
        "None of these figures runs 'ppo-gru' at scale smoke: they have resel, sac, sac-gru, td7"
    )
    with pytest.raises(ConfigError, match=words):
        narrowed([times, one, other], "smoke", ["sac", "ppo-gru"])


def test_fewer_seeds_of_a_figure() -> None:
    settings = (
        Setting("TMaze-v0"),
        Setting("TMaze-v0", method="sac", seeds=(1, 3)),
        Setting("TMaze-v0", method="sac-gru", seeds=(3,)),
    )
    figure = Experiment("a-name", "", "", "curves", {"smoke": Study(settings, (1, 2, 3))})
    runs = list(with_seeds(figure, "smoke", 2).studies["smoke"].runs())
    assert [(setting.method_name, seed) for setting, seed in runs] == [
        ("resel", 1),
        ("sac", 1),
        ("resel", 2),
    ]
    assert with_seeds(figure, "smoke", 4) == figure
    with pytest.raises(ConfigError, match="at least 1"):
        with_seeds(figure, "smoke", 0)


@pytest.mark.parametrize(
    ("task", "methods", "settings", "why"),
    [
        ("Pendulum-V-v0", "resel,pearl", [], "PEARL .* Pendulum-V-v0"),
        ("Pendulum-V-v0", "resel,osi", [], "OSI .* Pendulum-V-v0"),
        ("Pendulum-V-v0", "resel,ppo-gru", ["num_envs=2"], "num_envs"),
        ("Pendulum-V-v0", "resel,mf-gpt", ["longest_episode=50"], "MF-GPT .* 50"),
        ("CartPole-v1", "resel,td7", [], "TD7 .* Discrete"),
    ],
)
@pytest.mark.parametrize("more", [[], ["--dry-run"]], ids=["run", "dry-run"])
def test_a_method_that_cannot_learn_there_is_refused_first(
    task: str, methods: str, settings: list[str], why: str, more: list[str], capsys: Any
) -> None:
    words = ["compare", task, "--methods", methods, "--steps", "5000", "--out", "out", *more]
    assert main(words + (["--settings", *settings] if settings else [])) == 2
    caught = capsys.readouterr()
    assert re.search(why, caught.err.replace("\n", " "))
    assert not Path("out").exists()


@pytest.mark.parametrize(
    ("flags", "told"),
    [
        (["--threshold", "nan"], "--threshold nan is no return"),
        (["--threshold", "inf"], "--threshold inf is no return"),
        (["--settings", "seed=4"], "--settings seed=... has a flag of its own: --seeds"),
        (["--settings", "steps=9"], "has a flag of its own: --steps"),
        (["--settings", "gama=0.9"], "has a setting 'gama': did you mean 'gamma'?"),
        (
            ["--encoder", "gru"],
            "None of the methods compared has a context encoder: leave --encoder out.",
        ),
        (
            ["--methods", "resel,td7,resel"],
            "resel is named more than once among --methods: name it once",
        ),
        (["--seeds", "1001", "--dry-run"], "--seeds 1001 is too large"),
        (
            ["--methods", "rl2", "--settings", "updates_per_step=5"],
            "None of the methods compared has a setting 'updates_per_step'",
        ),
        (["--eval-every", "0"], "Nothing is compared with eval_every=0"),
        (["--eval-episodes", "0"], "eval_episodes=0"),
        (["--draw"], "There is nothing to draw"),
        (["--steps", "500"], "A run of 500 steps would learn nothing"),
    ],
)
def test_what_makes_no_sense_is_refused(flags: list[str], told: str, capsys: Any) -> None:
    words = ["--methods", "sac-mlp", "--seeds", "1", "--steps", "3000", *flags]
    assert main(["compare", "TMaze-v0", *words]) == 2
    assert told in " ".join(capsys.readouterr().err.split())
    assert not Path("compare-output").exists()


def test_a_changed_file_is_another_environment(tmp_path: Path) -> None:
    file = tmp_path / "maze.py"
    text = "from resel.tasks.tmaze import TMazeEnv\n\nclass Maze(TMazeEnv):\n    pass\n"
    file.write_text(text)
    task = f"{file}:Maze"

    def name() -> str:
        study = comparison(task, ["sac-mlp"], 1, settings={"steps": 3000}).studies[COMPARISON]
        return run_name(study.settings[0].config(1))

    first = name()
    assert name() == first
    file.write_text(text + "    prize = 100\n")
    assert name() != first
    file.write_text(text)
    assert name() == first
