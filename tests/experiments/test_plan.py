"""What a plan adds up to, and when it is refused."""

from __future__ import annotations

import os
from collections import namedtuple
from pathlib import Path
from typing import Any

import gymnasium
import pytest

from resel._process import LAUNCHER
from resel.benchmarks import PlayCost, UpdateCost, measure_cost
from resel.config import Config
from resel.data import ReplayBuffer
from resel.errors import ConfigError
from resel.experiments import Experiment, Setting, Study, choose
from resel.experiments import plan as planning
from resel.experiments.plan import Job, check_room, make_plan, run_name
from resel.methods import Phase
from resel.runs import RunDirectory, evaluation_steps, write_bundle
from resel.tasks import get_task
from resel.training import duration

BASE = {"steps": 2000, "warmup_steps": 500, "buffer_steps": 1000}


def experiment(name: str, *settings: Setting, seeds: tuple[int, ...] = (1, 2)) -> Experiment:
    return Experiment(name, name, name, "curves", {"smoke": Study(settings, seeds)})


def test_arithmetic(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[Config, int]] = []

    def cost(config: Config, threads: int) -> UpdateCost:
        asked.append((config, threads))
        return UpdateCost(0.5, 1000, 10)

    monkeypatch.setattr(planning, "measure_cost", cost)
    shared = Setting("TMaze-v0", BASE)
    one = experiment("one", shared, Setting("TMaze-v0", {**BASE, "gamma": 0.9}, "other"))
    two = experiment("two", shared, seeds=(1,))
    plan = make_plan([one, two], "smoke", tmp_path, threads=4)
    assert len(plan.jobs) == 4 and len(plan.members["one"]) == 4 and len(plan.members["two"]) == 1
    assert plan.members["two"][0].run == plan.members["one"][0].run
    assert len(asked) == 1, "the same network and batch cost the same"
    job = plan.jobs[0]
    buffer = ReplayBuffer.planned_bytes(1000, 3, 4)
    assert (job.seconds, job.threads, job.steps) == (0.5 * 1500, 1, 2000)
    assert job.memory == 1000 + 2 * buffer
    assert job.disk == 3 * (buffer + 10) + 2 * 10 + 5_000_000
    assert job.run.parent == tmp_path / "runs"
    words = list(job.command)
    assert words[:4] == [*LAUNCHER, "train"] and words[4] == "TMaze-v0"
    for flag, value in (("--resume", "auto"), ("--run-dir", str(job.run)), ("--threads", "1")):
        assert words[words.index(flag) + 1] == value


def test_the_price_of_playing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Acting in training, and in evaluations with all that is played before they count."""
    phases = (Phase(episodes=2), Phase(episodes=3, longest=4), Phase(steps=50))
    cost = UpdateCost(0.0, 1, 1, playing=PlayCost(1.0, 100.0, phases))
    monkeypatch.setattr(planning, "measure_cost", lambda c, threads: cost)
    own = {**BASE, "eval_every": 300, "eval_episodes": 5, "max_episode_steps": 10}
    (job,) = make_plan(
        [experiment("a", Setting("TMaze-v0", own), seeds=(1,))], "smoke", tmp_path, 1
    ).jobs
    evaluations = 1 + 6 + 1  # before the training, every 300 of 2000 steps, and at the end
    assert job.evaluation == evaluations * 5 * (10 + 2 * 10 + 3 * 4 + 50)
    assert job.seconds == 2000 * 1.0 + job.evaluation * 100.0


def test_the_steps_of_evaluations() -> None:
    def steps(task: str, **settings: Any) -> int | None:
        return evaluation_steps(Config.build(task, {**BASE, "eval_episodes": 3, **settings}), ())

    tmaze = get_task("TMaze-v0")
    assert tmaze is not None
    assert steps("TMaze-v0", eval_every=1000) == 3 * 3 * tmaze.horizon
    assert steps("TMaze-v0", eval_every=0) == 3 * tmaze.horizon  # at the end
    assert steps("toy/Box-v0", eval_every=0) == 3 * 100
    assert steps("CartPole-v0", eval_every=0, max_episode_steps=7) == 3 * 7
    gymnasium.register("toy/Endless-v0", lambda: None)
    try:
        assert steps("toy/Endless-v0", eval_every=0) is None
    finally:
        del gymnasium.registry["toy/Endless-v0"]


def test_names_of_runs_tell_their_settings_apart() -> None:
    base = Config.build("TMaze-v0", BASE)
    same = [base, Config.build("TMaze-v0", BASE, {"threads": 3, "gamma": 0.99, "n_critics": 8})]
    assert len({run_name(config) for config in same}) == 1
    others = [
        base,
        Config.build("TMaze-v0", BASE, {"gamma": 0.9}),
        Config.build("TMaze-v0", BASE, {"seed": 2}),
        Config.build("Wind-v0", BASE),
    ]
    assert len({run_name(config) for config in others}) == len(others)
    assert run_name(base).startswith(f"TMaze-v0-{base.encoder}-seed1-")


def test_only_wide_networks_take_several_threads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(planning, "measure_cost", lambda c, threads: UpdateCost(threads, 0, 0))
    wide = experiment("wide", Setting("TMaze-v0", {**BASE, "width": 256}), seeds=(1,))
    plan = make_plan([wide], "smoke", tmp_path, 4)
    assert plan.jobs[0].threads == 4 and plan.jobs[0].seconds == 4 * 1500
    # One that has begun keeps its own: with others it would not go on exactly.
    with RunDirectory.create(plan.jobs[0].run, Config.build("TMaze-v0").to_json()) as run:
        written = {"run": {"machine": {"threads": 3}}}
        write_bundle(run.checkpoint_path(20), "checkpoint", {}, written)
    assert make_plan([wide], "smoke", tmp_path, 4).jobs[0].threads == 3


@pytest.mark.parametrize(("scale", "runs"), [("smoke", 62), ("paper", 1248)])
def test_every_run_of_the_catalogue_is_planned_once(
    scale: Any, runs: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(planning, "measure_cost", lambda c, threads: UpdateCost(1.0, 1, 1))
    plan = make_plan(choose(["all"]), scale, tmp_path, 1)
    assert len(plan.jobs) == len({job.run for job in plan.jobs}) == runs


def test_the_cost_of_an_update_is_measured(tiny: dict[str, Any]) -> None:
    cost = measure_cost(Config.build("TMaze-v0", tiny), 1)
    assert 0 < cost.seconds < 60 and cost.memory > 1e7
    assert 0 < cost.playing.acting < 0.1 and 0 < cost.playing.judging < 0.1
    larger = measure_cost(Config.build("TMaze-v0", tiny, {"width": 16}), 1)
    assert cost.saved < larger.saved < 1e8


def test_too_little_room_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    usage = namedtuple("usage", "free")
    monkeypatch.setattr(planning.shutil, "disk_usage", lambda path: usage(1e9))
    monkeypatch.setattr(planning, "available_memory", lambda: 4_000_000_000)

    def jobs(memory: int, disk: int) -> list[Job]:
        return [Job(tmp_path / f"{i}", (), 1, memory=memory, disk=disk) for i in range(3)]

    out = tmp_path / "not" / "yet"
    check_room(jobs(1_000_000_000, 1000), 3, out, "ask for less")
    check_room([], 3, out, "ask for less")
    with pytest.raises(ConfigError, match=r"about 1.5 GB on the disk .* 1.0 GB are free.*--out"):
        check_room(jobs(0, 500_000_000), 3, out, "ask for less")
    with pytest.raises(ConfigError, match=r"3 runs side by side.* 4.5 GB.*use --jobs 2"):
        check_room(jobs(1_500_000_000, 0), 3, out, "ask for less")
    with pytest.raises(ConfigError, match=r"needs about 5.0 GB of memory.*ask for less"):
        check_room(jobs(5_000_000_000, 0), 1, out, "ask for less")
    check_room(jobs(1_500_000_000, 0), 0, out, "ask for less")  # the engine takes fewer at a time
    monkeypatch.setattr(planning, "available_memory", lambda: None)
    check_room(jobs(5_000_000_000, 0), 3, out, "ask for less")


def test_files_that_vanish_while_a_run_is_weighed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a killed sweep left behind may still be saving."""
    (tmp_path / "checkpoints").mkdir()
    for name, size in (("a", 10), ("checkpoints/b", 20), ("checkpoints/gone", 40)):
        (tmp_path / name).write_bytes(bytes(size))
    stat = os.stat

    def without(path: Any, **how: Any) -> Any:
        if str(path).endswith("gone"):
            raise FileNotFoundError(path)
        return stat(path, **how)

    monkeypatch.setattr(planning.os, "stat", without)
    assert planning._size_of(tmp_path) == 30 and planning._size_of(tmp_path / "not") == 0


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(3, "3 s"), (119, "119 s"), (150, "2.5 min"), (7200, "2.0 h"), (1e8, "1,157 days")],
)
def test_durations(seconds: float, text: str) -> None:
    assert duration(seconds) == text
