"""Runs read back: whole, young, broken, or not there at all."""

from __future__ import annotations

from pathlib import Path

import pytest
from run_folders import write_run

from resel.analysis.runs import (
    environment_so_far,
    last_recorded,
    lines_so_far,
    read_run,
    result_so_far,
    saved_step,
    settings_key,
    settings_of,
)
from resel.errors import RunDirectoryError
from resel.methods import methods, run_label
from resel.runs import MetricsLog, RunDirectory


def test_a_whole_run(tmp_path: Path) -> None:
    run = read_run(write_run(tmp_path / "r", [1.0, 2.0, 4.0], success=True, encoder="gru", seed=7))
    assert (run.name, run.label, run_label(run.config), run.seed) == ("r", "gru, seed 7", "gru", 7)
    assert (run.status, run.steps, run.final_return, run.success_rate) == (
        "completed",
        2000,
        3.0,
        1.0,
    )
    assert run.points("eval", "return_mean") == ([0, 1000, 2000], [1.0, 2.0, 4.0])


def test_a_young_run_is_scored_by_its_evaluations_so_far(tmp_path: Path) -> None:
    run = read_run(write_run(tmp_path / "r", [9.0, 2.0, 4.0], status=None), "young")
    assert (run.name, run.status, run.final_return) == ("young", "no result yet", 3.0)


def test_the_updates_a_second_of_a_run_that_goes_on(tmp_path: Path) -> None:
    """What came before learning does not count, and records are as long as they took."""
    path = write_run(tmp_path / "r", [], train_lines=1, status=None)
    with RunDirectory.open(path) as run, MetricsLog(run, tensorboard=False) as log:
        for step, rate, seconds in ((10, 0.0, 1.0), (20, 0.5, 61.0)):
            timing = {"updates_per_second": rate, "steps_per_second": 1.0, "seconds": seconds}
            log.write("timing", step, timing)
        assert read_run(path).updates_per_second is None  # kernels were compiled
        for step, rate, seconds in ((30, 40.0, 62.0), (40, 0.0, 63.0), (50, 20.0, 65.0)):
            timing = {"updates_per_second": rate, "steps_per_second": 1.0, "seconds": seconds}
            log.write("timing", step, timing)
        assert read_run(path).updates_per_second == pytest.approx(80 / 4)
        assert read_run(path).status == "running"
    assert read_run(path).status == "no result yet"


def test_the_seed_and_the_machine_are_no_settings(tmp_path: Path) -> None:
    first, same, other = (
        settings_of(read_run(write_run(tmp_path / name, [0.0], **changes)).config)
        for name, changes in (
            ("a", {"seed": 1}),
            ("b", {"seed": 2, "threads": 2}),
            ("c", {"gamma": 0.5}),
        )
    )
    assert first == same != other


def test_equal_settings_have_one_key_whatever_the_method(tmp_path: Path) -> None:
    keys = [
        settings_key(read_run(write_run(tmp_path / str(number), [0.0], **changes)).config)
        for number, changes in enumerate(
            (
                {"env_kwargs": {"length": 5, "corridor": 1}},
                {"env_kwargs": {"corridor": 1, "length": 5}, "seed": 4},
                {"env_kwargs": {"length": 6, "corridor": 1}},
                *({"method": method.name} for method in methods()[0]),
            )
        )
    ]
    assert keys[0] == keys[1] and len(set(keys)) == len(keys) - 1


def test_what_can_be_asked_of_a_run_at_any_moment(tmp_path: Path) -> None:
    nothing = tmp_path / "nothing"
    run = write_run(tmp_path / "r", [1.0, 2.5])
    (run / "checkpoints" / "step-000000500").mkdir(parents=True)
    (run / "checkpoints" / "step-000001000").mkdir()
    assert last_recorded(run) == (1000, 2.5) and saved_step(run) == 1000
    assert result_so_far(run)["status"] == "completed" and environment_so_far(run)["cores"] == 2
    assert len(lines_so_far(run)) == 6
    for name in ("metrics.jsonl", "result.json", "environment.json"):
        (run / name).write_text('{"step": 3, "kind"\n')
    for path in (run, nothing):
        assert last_recorded(path) == (0, None) and list(lines_so_far(path)) == []
        assert result_so_far(path) == environment_so_far(path) == {}
    assert saved_step(nothing) == 0
    with pytest.raises(RunDirectoryError, match="There is no run in"):
        read_run(nothing)
