"""Costs of updates that are measured once on a machine."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from resel.benchmarks import CostModel, KeptCosts, PlayCost, UpdateCost, kept_costs
from resel.config import Config
from resel.data import Moment, PerEpisode, PerRollout, PerStep, Pretrained
from resel.methods import Phase
from resel.methods._assessment import Assessment
from resel.tasks.source_files import run_file

TMAZE = Config.build("TMaze-v0", {"width": 16})
PHASES = (Phase(episodes=2), Phase(steps=30, longest=10, sampled=True, keeps=True))
COST = UpdateCost(0.25, 1000, 10, PerStep(0.5, after=7), PlayCost(1e-4, 1e-3, PHASES))


def file_in(folder: Path) -> Path:
    (path,) = folder.iterdir()
    return path


def test_a_cost_is_found_again(tmp_path: Path) -> None:
    folder = tmp_path / "not" / "yet"
    costs = KeptCosts(folder=folder)
    assert costs.find(TMAZE, 1) is None
    costs.keep(TMAZE, 1, COST)
    later = KeptCosts(folder=folder)
    assert costs.find(TMAZE, 1) == later.find(TMAZE, 1) == COST
    # Rates, seeds and lengths of runs cost nothing; sizes, tasks and threads do.
    same = TMAZE.replace(gamma=0.5, lr_policy=1e-5, seed=3, steps=10_000)
    assert later.find(same, 1) == COST
    assert later.find(TMAZE, 2) is None
    assert later.find(TMAZE.replace(width=32), 1) is None
    assert later.find(TMAZE.replace(batch_steps=50), 1) is None
    assert later.find(TMAZE.replace(env_kwargs={"length": 40}), 1) is None
    assert later.find(Config.build("CartPole-V-v0", {"width": 16}), 1) is None
    assert KeptCosts(again=True, folder=folder).find(TMAZE, 1) is None


def test_costs_in_a_file_of_ones_own_are_kept_until_it_changes(tmp_path: Path) -> None:
    file, folder = tmp_path / "mine.py", tmp_path / "costs"
    file.write_text("first = 1\n")
    config = Config.build(f"{file}:Mine", {"width": 16})
    KeptCosts(folder=folder).keep(config, 1, COST)
    assert KeptCosts(folder=folder).find(config, 1) == COST
    file.write_text("second = 2\n")
    run_file(file)
    assert KeptCosts(folder=folder).find(config, 1) is None
    assert not KeptCosts.keeps(Config.build("a.module:Mine", {"width": 16}))


@pytest.mark.parametrize(
    "schedule", [PerEpisode(1.0), PerRollout(100, 4, 2, 50), PerStep(1.0, after=3)]
)
def test_schedules_are_kept(schedule: Any, tmp_path: Path) -> None:
    KeptCosts(folder=tmp_path).keep(TMAZE, 1, UpdateCost(1.0, 1, 1, schedule))
    found = KeptCosts(folder=tmp_path).find(TMAZE, 1)
    assert found is not None and found.schedule == schedule


def test_a_schedule_that_counts_is_kept_as_it_begins(tmp_path: Path) -> None:
    schedule = Pretrained(500, lambda: 12, PerStep(1.0), part=7, after=2)
    KeptCosts(folder=tmp_path).keep(TMAZE, 1, UpdateCost(1.0, 1, 1, schedule))
    found = KeptCosts(folder=tmp_path).find(TMAZE, 1)
    assert found is not None and isinstance(found.schedule, Pretrained)
    assert found.schedule.made() == 0
    assert (found.schedule.first, found.schedule.then) == (500, PerStep(1.0))


def test_a_schedule_that_heeds_returns_is_kept_as_in_the_long_run(tmp_path: Path) -> None:
    config = Config.build("Pendulum-v1", {"method": "td7"})
    schedule = Assessment(config.training, 1, lambda: None)
    KeptCosts(folder=tmp_path).keep(config, 1, UpdateCost(1.0, 1, 1, schedule))
    found = KeptCosts(folder=tmp_path).find(config, 1)
    assert found is not None
    moment = Moment(0, 1000, 0, 800)
    assert found.schedule.due(moment) == schedule.due(moment) == 800


def test_costs_of_other_versions_are_not_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    KeptCosts(folder=tmp_path).keep(TMAZE, 1, COST)
    machine = kept_costs.numeric_machine
    monkeypatch.setattr(kept_costs, "numeric_machine", lambda d: {**machine(d), "torch": "9"})
    newer = KeptCosts(folder=tmp_path)
    assert newer.find(TMAZE, 1) is None
    assert newer.find_any(TMAZE, 1) == replace(COST, estimated=True)
    newer.keep(TMAZE, 2, COST)
    held = json.loads(file_in(tmp_path).read_text())
    assert held["versions"]["torch"] == "9" and len(held["costs"]) == 2
    monkeypatch.setattr(kept_costs, "_source_digest", lambda: "other code")
    assert KeptCosts(folder=tmp_path).find(TMAZE, 2) is None
    assert KeptCosts(again=True, folder=tmp_path).find_any(TMAZE, 2) is None
    for entry in held["costs"].values():  # as files were before entries said their versions
        del entry["versions"]
    file_in(tmp_path).write_text(json.dumps(held))
    assert KeptCosts(folder=tmp_path).find_any(TMAZE, 2) == replace(COST, estimated=True)


def test_old_costs_leave_at_last(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept_costs, "_MOST", 2)
    for threads in (1, 2, 3):
        KeptCosts(folder=tmp_path).keep(TMAZE, threads, COST)
    kept = KeptCosts(folder=tmp_path)
    assert [kept.find(TMAZE, threads) for threads in (1, 2, 3)] == [None, COST, COST]


def test_a_model_is_found_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model, kept = CostModel(1e-4, 1e-10, 1e-5, 4e8), KeptCosts(folder=tmp_path)
    assert kept.find_model(1) is None
    kept.keep_model(1, model)
    kept.keep(TMAZE, 1, COST)
    monkeypatch.setattr(kept_costs, "_source_digest", lambda: "newer")
    later = KeptCosts(folder=tmp_path)
    assert later.find_model(1) == model and later.find_model(2) is None
    document = json.loads(file_in(tmp_path).read_text())
    for damaged in ({"1": 3}, {"1": {"speed": 3}}, {"1": {**document["models"]["1"], "step": "x"}}):
        file_in(tmp_path).write_text(json.dumps({**document, "models": damaged}))
        assert KeptCosts(folder=tmp_path).find_model(1) is None


def test_two_processes_keep_both(tmp_path: Path) -> None:
    first, second = KeptCosts(folder=tmp_path), KeptCosts(folder=tmp_path)
    first.keep(TMAZE, 1, COST)
    second.keep(TMAZE, 2, COST)
    assert KeptCosts(folder=tmp_path).find(TMAZE, 1) == COST


@pytest.mark.parametrize("text", ["", "{", "[]", '{"costs": 3}', '{"versions": {}}'])
def test_a_damaged_file_is_made_anew(text: str, tmp_path: Path) -> None:
    KeptCosts(folder=tmp_path).keep(TMAZE, 1, COST)
    file_in(tmp_path).write_text(text)
    costs = KeptCosts(folder=tmp_path)
    assert costs.find(TMAZE, 1) is None
    costs.keep(TMAZE, 1, COST)
    assert KeptCosts(folder=tmp_path).find(TMAZE, 1) == COST


def test_damaged_entries_are_not_taken(tmp_path: Path) -> None:
    KeptCosts(folder=tmp_path).keep(TMAZE, 1, COST)
    document = json.loads(file_in(tmp_path).read_text())
    for name, value in (("seconds", "fast"), ("schedule", {"kind": "Never"}), ("memory", None)):
        held = {key: {**entry, name: value} for key, entry in document["costs"].items()}
        file_in(tmp_path).write_text(json.dumps({**document, "costs": held}))
        assert KeptCosts(folder=tmp_path).find(TMAZE, 1) is None


def test_a_folder_that_cannot_be_made_costs_only_time(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    costs = KeptCosts(folder=tmp_path / "file" / "below")
    costs.keep(TMAZE, 1, COST)
    assert costs.find(TMAZE, 1) == COST


def test_environments_that_change_unseen_are_not_kept(tmp_path: Path) -> None:
    own = Config.build("my_env.py:MyEnv", {"width": 16})
    KeptCosts(folder=tmp_path).keep(own, 1, COST)
    assert not list(tmp_path.iterdir())


def test_the_folder_is_the_users(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RESEL_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", "/somewhere")
    assert kept_costs.cache_folder() == Path("/somewhere/resel")
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert kept_costs.cache_folder() == Path.home() / ".cache" / "resel"
    monkeypatch.setenv("RESEL_CACHE", "/mine")
    assert kept_costs.cache_folder() == Path("/mine")
