"""Experiments beyond the paper: their plans, and tables from runs whose numbers are known."""

from __future__ import annotations

import csv
import json
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from fake_runs import write_run

from resel import Agent
from resel.analysis.published import read_anchors, read_popgym
from resel.choices import Scale
from resel.errors import ConfigError, DamagedFileError, RunDirectoryError
from resel.experiments import CATALOGUE, Experiment, Setting, Study
from resel.experiments._settings import Kind
from resel.experiments.engines import Status, is_finished
from resel.experiments.outcomes import _agents, make_outcome
from resel.experiments.outcomes._agents import Evaluations, Measured
from resel.experiments.outcomes._rates import _panel
from resel.experiments.outcomes._reading import read_runs
from resel.experiments.plan import Job, Member
from resel.tasks import get_task

REPEAT, RECALL = "popgym-RepeatPreviousEasy-v0", "popgym-CountRecallEasy-v0"


@pytest.fixture
def measured(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Any, ...]]:
    """What was measured; an agent's return is its run's seed, its success 1 / length."""
    calls: list[tuple[Any, ...]] = []

    def measure(path: Path, episodes: int, env_kwargs: Mapping[str, Any]) -> Measured:
        calls.append((path.parent.parent.name, path.name, episodes, dict(env_kwargs)))
        better = 0.5 if path.name == "best" else 0.0
        success = 20 / env_kwargs["length"] if env_kwargs else None
        return Measured(float(path.parent.parent.name[-1]) + better, success)

    monkeypatch.setattr(_agents, "measure", measure)
    return calls


def evaluations(*returns: float, success: float | None = None) -> list[dict[str, Any]]:
    more = {} if success is None else {"success_rate": success}
    return [
        {"step": 1000 * i, "kind": "eval", "return_mean": value, "return_std": 0.0, **more}
        for i, value in enumerate(returns)
    ]


def make(kind: Kind, members: list[Member], out: Path, **how: Any) -> dict[str, Any]:
    status: dict[Path, Status] = {m.run: "completed" for m in members} | how.pop("status", {})
    measures = how.pop("measures", ("return",))
    figure = Experiment("name", "A title", "none", kind, {"smoke": Study(**how)}, measures)
    out.mkdir(exist_ok=True)
    files = make_outcome(figure, "smoke", members, status, out)
    assert sorted(files) == sorted(path.name for path in out.iterdir())
    return {
        "rows": list(csv.DictReader((out / "table.csv").read_text().splitlines())),
        "text": (out / "table.md").read_text(),
        "files": files,
    }


@pytest.mark.parametrize(
    ("name", "runs", "steps"),
    [
        ("tmaze", 12, 240_000),
        ("table-novel", 15, 300_000),
        ("table-popgym", 46, 2_300_000),
        ("fig-auto-lr", 42, 840_000),
    ],
)
def test_what_the_plans_take(name: str, runs: int, steps: int) -> None:
    study = CATALOGUE[name].studies["cpu"]
    planned = [setting.config(seed) for setting, seed in study.runs()]
    assert study.count == len(planned) == runs
    assert sum(config.training.steps for config in planned) == steps


def test_popgym_has_every_task_that_was_asked_for() -> None:
    study = CATALOGUE["table-popgym"].studies["cpu"]
    easy = {name for name in read_popgym() if name.endswith("Easy-v0")}
    assert len(easy) == 8 and len(read_popgym()) == 24
    for encoder in ("mamba", "gru"):
        assert easy <= {s.task for s in study.settings if s.group == encoder}
    assert len({s.task for s in study.settings}) == 8 + 6 + 2
    reaching = [s.config(1) for s in study.settings if s.group.endswith("taps")]
    taps = {config.task: config.encoder_settings.conv_kernel for config in reaching}
    assert all(n > 32 * (1 + task.endswith("Hard-v0")) for task, n in taps.items())
    assert len(taps) == 2
    seeds = Counter((setting.task, setting.group) for setting, _ in study.runs())
    thrice = {task for (task, _), count in seeds.items() if count == 3}
    assert len(thrice) == 3 and {REPEAT, "popgym-RepeatFirstEasy-v0"} < thrice <= easy
    assert {task for task, encoder in seeds if encoder == "mlp"} == thrice
    for setting in study.settings:
        training, task = setting.config(1).training, get_task(setting.task)
        assert task is not None and training.steps == 50_000
        assert training.stop_return is None
        # 100 greedy episodes fit into what is left once exploration has ended.
        assert training.exploration_fraction is not None
        assert (1 - training.exploration_fraction) * training.steps >= 100 * task.horizon * 0.99


def test_settings_with_seeds_of_their_own() -> None:
    once, always = Setting("A", seeds=(2,)), Setting("B")
    study = Study((once, always), (1, 2))
    assert list(study.runs()) == [(always, 1), (once, 2), (always, 2)]
    with pytest.raises(ConfigError, match=r"A has the seeds \[2\], which its study does not have"):
        Study((once,), (1, 3))


def test_anchors_are_of_our_tasks() -> None:
    anchors = read_anchors()
    assert set(anchors) == {s.task for s in CATALOGUE["table-novel"].studies["cpu"].settings}
    found = {(a.mean, a.deviation, a.steps) for a in anchors.values()}
    assert found == {(-217.9, 140, 100_000), (500, 0, 100_000), (91.5, 1.8, 300_000)}


def test_arms_of_the_automatic_rate() -> None:
    study = CATALOGUE["fig-auto-lr"].studies["cpu"]
    arms = Counter(setting.place for setting in study.settings)
    assert sorted(arms.values()) == [3, 5, 5]
    rates = [s.config(1).algorithm for s in study.settings]
    assert [rate.auto_lr_start for rate in rates].count(None) == 9
    assert sum(rate.lr_context_encoder == "auto" for rate in rates) == 5
    seeds = Counter(setting.place for setting, _ in study.runs())
    assert sorted(seeds.values()) == [12, 15, 15]


def test_a_run_that_held_its_return_is_finished(tmp_path: Path) -> None:
    for name, held in (("held", 0.999), ("short", None)):
        write_run(tmp_path / name, [], steps=60, held_return=held)
        assert is_finished(Job(tmp_path / name, (), 100)) == (held is not None)


def test_lengths(tmp_path: Path, measured: list[tuple[Any, ...]]) -> None:
    members = []
    for group in ("gru", "mamba"):
        for seed in (1, 2):
            run = tmp_path / "runs" / f"{group}-{seed}"
            write_run(run, evaluations(0, 1, success=seed / 2), agents=("last",))
            members.append(Member(run, Setting("TMaze-v0", {}, group), seed, 1000))
    status = {members[-1].run: "diverged"}
    numbers = {"lengths": (20, 40), "episodes": 7}
    how: dict[str, Any] = {"status": status, "numbers": numbers, "measures": ("success",)}
    made = make("lengths", members, tmp_path / "out", **how)
    assert {"curves-success.png", "curves.csv", "evaluations.json"} <= set(made["files"])
    found = [(r["group"], r["seed"], r["length"], r["success_rate"]) for r in made["rows"]]
    assert found[:2] == [("gru", "1", "20", "1.0"), ("gru", "1", "40", "0.5")]
    assert len(found) == 7 and found[-1] == ("mamba", "2", "", "")
    assert "| gru | 1 | 50% | 100% | 50% |" in made["text"]
    assert "| gru | mean of 2 | 75% | 100% | 50% |" in made["text"]
    assert "| mamba | 2 | 100% | - | - |" in made["text"]
    assert ("gru-1", "last", 7, {"length": 40}) in measured and len(measured) == 6
    (members[0].run / "agents" / "last" / "manifest.json").write_text("made anew")
    how["status"] = status
    assert make("lengths", members, tmp_path / "out", **how)["rows"] == made["rows"]
    assert [call[0] for call in measured[6:]] == ["gru-1"] * 2, "what is known is not measured"


def test_anchors(tmp_path: Path, measured: list[tuple[Any, ...]]) -> None:
    task, members = "CartPole-P-v0", []
    for seed, returns in ((1, (0, 500, 10)), (2, (0, 10, 450)), (3, (0, 1, 2)), (4, (0, 500))):
        run = tmp_path / "runs" / f"run-{seed}"
        ended = {"encoder": "mamba", "cpu_seconds": 100.0 * seed}
        write_run(run, evaluations(*returns), steps=2000, agents=("last", "best"), **ended)
        members.append(Member(run, Setting(task), seed, 2000))
    numbers = {"thresholds": {task: 450.0}, "last_episodes": 5, "best_episodes": 10}
    status = {members[3].run: "diverged"}
    made = make("anchors", members, tmp_path / "out", status=status, numbers=numbers)
    (row,) = made["rows"]
    assert (row["runs"], row["diverged"], row["reached"]) == ("3", "1", "2")
    assert [float(row[f"{name}_mean"]) for name in ("last", "best", "cpu_seconds")] == [2, 2.5, 200]
    assert (float(row["last_iqm_low"]), float(row["last_iqm_high"])) == (1, 3)
    assert float(row["steps_to_threshold_mean"]) == 1500
    assert row["anchor_mean"] == "500.0" and "rl-zoo" in row["anchor_source"]
    assert "| 1,500 ± 500 (2 of 3) | 200 | 3 | 1 |" in made["text"]
    assert "RecurrentPPO: 500 ± 0 after 100,000" in made["text"]
    seeds = list(csv.DictReader((tmp_path / "out" / "seeds.csv").read_text().splitlines()))
    assert [seed["steps_to_threshold"] for seed in seeds] == ["1000", "2000", "", "1000"]
    assert seeds[3]["last"] == "" and {n for _, _, n, _ in measured} == {5, 10}


def test_mmer_beside_the_published(tmp_path: Path, measured: list[tuple[Any, ...]]) -> None:
    members = []
    for task, encoder, seeds in ((REPEAT, "gru", (1, 2)), (RECALL, "mlp", (3,))):
        for seed in seeds:
            run = tmp_path / "runs" / f"{task}-{encoder}-{seed}"
            ended = {"encoder": encoder, "mmer": seed / 4}
            write_run(run, evaluations(0, 1), steps=3000 * seed, agents=("last",), **ended)
            members.append(Member(run, Setting(task, {}, encoder), seed, 50_000))
    lost = tmp_path / "runs" / "lost"
    other = Member(lost, Setting("popgym-BattleshipEasy-v0", {}, "mamba"), 1, 50_000)
    made = make(
        "mmer",
        [*members, other],
        tmp_path / "out",
        status={lost: "failed"},
        numbers={"last_episodes": 50},
    )
    repeat, recall, battleship = made["rows"]
    assert (float(repeat["mmer_mean"]), float(repeat["last_mean"])) == (0.375, 1.5)
    assert float(repeat["steps"]) == 4500
    assert float(repeat["share_of_published_steps"]) == pytest.approx(0.0003)
    assert (recall["mmer_mean"], recall["mmer_standard_error"]) == ("0.75", "")
    assert (recall["published_gru_mmer"], recall["published_best_model"]) == ("0.177", "LSTM")
    assert (battleship["runs"], battleship["mmer_mean"], battleship["steps"]) == ("0", "", "")
    assert battleship["published_gru_mmer"] == ""
    text = made["text"]
    assert "as transcribed by a third party from its appendix B" in text and "15 M steps" in text
    assert "| CountRecallEasy | mlp | 1 | 0 | 9,000 | 0.75 | 3 | 0.177 ± 0.005 |" in text
    assert "| BattleshipEasy | mamba | 0 | 0 | - | - | - | - | - | - |" in text


def test_rates(tmp_path: Path) -> None:
    members, status = [], {}
    for group, rate, last in (("low", 1e-5, 5.0), ("high", 1e-3, 9.0), ("auto", "auto", 11.0)):
        for seed in (1, 2):
            run = tmp_path / "runs" / f"{group}-{seed}"
            found = {"step": 900, "kind": "train", "lr_context_encoder": 10.0**-seed}
            steered = [found] if rate == "auto" else []
            write_run(run, evaluations(1.0, last) + steered)
            members.append(Member(run, Setting("T", {"lr_context_encoder": rate}, group), seed, 1))
    status = {members[2].run: "diverged"}
    made = make("rates", members, tmp_path / "out", status=status)
    drawn = {"curves.png", "curves.csv", "table.csv", "rates.png", "rates.csv"}
    assert drawn <= set(made["files"])
    with (tmp_path / "out" / "rates.csv").open() as file:
        seen = [(row["group"], row["seed"], row["step"], row["lr"]) for row in csv.DictReader(file)]
    assert seen == [("auto", "1", "900", "0.1"), ("auto", "2", "900", "0.01")]
    low, high, auto = made["rows"]
    assert [float(row["share"]) for row in (low, high, auto)] == [0.5, 1, 1.25]
    assert (high["runs"], high["diverged"], high["random"]) == ("1", "1", "1.0")
    assert low["lr"] == "" and float(auto["lr"]) == pytest.approx(10**-1.5)
    assert [float(auto[f"lr_{edge}"]) for edge in ("low", "high")] == [0.01, 0.1]
    assert [float(row["half_mean"]) for row in (low, high, auto)] == [5, 9, 11]
    assert (
        "| T | auto | 125% ± 0% | 11 ± 0 | 125% ± 0% | 11 ± 0 | 1 | 2 | 0 | 0.032 [0.01, 0.1] |"
        in made["text"]
    )
    lost: dict[Path, Status] = {m.run: "diverged" for m in members}
    assert all("share" not in row for row in _panel("T", read_runs(members, lost)))


def test_agents_that_are_measured(tmp_path: Path, tiny: dict[str, Any]) -> None:
    run = tmp_path / "run"
    agent = Agent("TMaze-v0", **tiny, env_kwargs={"length": 3})
    agent.save(run / "agents" / "last")
    agent.close()
    known = Evaluations(tmp_path)
    short, long = (known.of(run, "last", 3, {"length": length}) for length in (3, 6))
    assert short.success_rate is not None and short.return_mean != long.return_mean
    assert long.return_mean >= -7 / 6 - 1e-9  # a seventh step aside ends it
    assert Evaluations(tmp_path).of(run, "last", 3, {"length": 6}) == long
    assert len(json.loads((tmp_path / "evaluations.json").read_text())) == 2
    with pytest.raises(ConfigError, match="length=0 cannot work"):
        known.of(run, "last", 3, {"length": 0})
    with pytest.raises(RunDirectoryError, match="no agent 'best' to be measured"):
        known.of(run, "best", 3)
    for torn in ('{"a": 1}', "[]", '{"a": {"success_rate": null}}', "{"):
        (tmp_path / "evaluations.json").write_text(torn)
        with pytest.raises(DamagedFileError, match="delete it, and the agents are measured"):
            Evaluations(tmp_path)


@pytest.mark.parametrize("scale", ["smoke", "paper"])
def test_other_scales(scale: Scale) -> None:
    for name in ("tmaze", "table-novel", "table-popgym", "fig-auto-lr"):
        studies = CATALOGUE[name].studies
        if scale == "paper":
            assert studies["paper"] == studies["cpu"]
        else:
            assert all(s.config(1).training.steps == 3000 for s in studies["smoke"].settings)
