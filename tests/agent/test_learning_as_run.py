"""`learn(run_dir=...)` is the run of the command: the same files, the same numbers, one goes on
with the other."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from terminal import SMALL, lines, read, same_run

from resel import LearnProgress, RESeL, StopAtReturn
from resel.cli import main
from resel.errors import ConfigError, RunDirectoryError
from resel.runs import open_trainer

TASK = "toy/Box-v0"
TIMES = ("wall_seconds", "cpu_seconds")


@pytest.fixture(autouse=True)
def _terminal(own_folder: None, narrow_terminal: None) -> None:
    pass


@pytest.fixture
def settings(tiny: dict[str, Any]) -> dict[str, Any]:
    """What SMALL says as flags, but for the steps."""
    return {**tiny, "preset": "paper", "eval_every": 20, "checkpoint_every": 20, "threads": 1}


def command(tiny_flags: list[str], path: Path | str, *more: str) -> Path:
    words = [TASK, "--preset", "paper", *tiny_flags, *SMALL, "--run-dir", str(path), *more]
    assert main(["train", *words]) == 0
    return Path(path)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory, tiny_flags: list[str]) -> Path:
    """A run of the command from its first to its last step."""
    threads = torch.get_num_threads()
    path = command(tiny_flags, tmp_path_factory.mktemp("runs") / "whole")
    torch.set_num_threads(threads)
    return path


def same_weights(a: RESeL, b: RESeL) -> bool:
    one, other = a.learner.weights(), b.learner.weights()
    return all(torch.equal(one[name], other[name]) for name in one)


def interrupted_at(step: int) -> Callable[[LearnProgress], None]:
    """A callback that does what Ctrl-C does, but for the error at the end."""
    return lambda p: p.agent._trainer.request_stop() if p.step == step else None


def files(run: Path) -> set[str]:
    """What a run is made of; TensorBoard writes the time into the names of its files."""
    found = {str(p.relative_to(run)) for p in run.rglob("*") if p.is_file()}
    return {name for name in found if not name.startswith("tensorboard")}


def test_the_same_run_as_the_command(settings: dict[str, Any], whole: Path) -> None:
    there = whole
    agent = RESeL(TASK, **settings)
    assert agent.learn(60, run_dir="library") is agent
    here = Path("library")
    assert files(here) == files(there) and (here / "tensorboard").is_dir()
    assert lines(here) == lines(there) and same_run(here, there)
    assert read(here / "config.json") == read(there / "config.json")
    one, other = (read(run / "result.json") for run in (here, there))
    for name in TIMES:
        assert one.pop(name) >= 0 and other.pop(name) >= 0
    assert one == other and one["status"] == "completed"
    agent.learn(5)  # in memory again: the run is closed
    assert lines(here) == lines(there)


def test_each_goes_on_with_the_other(
    settings: dict[str, Any], tiny_flags: list[str], whole: Path
) -> None:
    RESeL(TASK, **settings).learn(60, run_dir="a", callback=interrupted_at(33))
    assert read(Path("a/result.json"))["status"] == "interrupted"
    assert main(["resume", "a"]) == 0
    assert same_run(Path("a"), whole)
    command(tiny_flags, "b", "--steps", "40")
    agent = RESeL(TASK, **settings).learn(60, run_dir=Path("b"), resume="auto")
    assert agent.num_timesteps == 60 and same_run(Path("b"), whole)
    assert read(Path("b/result.json"))["exact"]


def test_the_same_call_goes_on_and_then_rests(
    settings: dict[str, Any], whole: Path, capsys: Any
) -> None:
    RESeL(TASK, **settings).learn(60, run_dir="a", resume="auto", callback=interrupted_at(33))
    again = RESeL(TASK, **settings).learn(60, run_dir="a", resume="auto")
    assert again.num_timesteps == 60 and same_run(Path("a"), whole)
    before = {name: Path("a", name).stat().st_mtime_ns for name in files(Path("a"))}
    steps: list[int] = []
    done = RESeL(TASK, **settings)
    seen = lambda p: steps.append(p.step)  # noqa: E731
    done.learn(60, run_dir="a", resume="auto", callback=seen, progress_bar=True)
    assert capsys.readouterr().out == "a is finished: no step is left to take.\n"
    assert steps == [] and done.num_timesteps == 60
    assert done.evaluations == again.evaluations
    assert {name: Path("a", name).stat().st_mtime_ns for name in before} == before
    done.learn(20, run_dir="a", resume="auto")  # further steps, as ever
    assert done.num_timesteps == 80 and read(Path("a/result.json"))["exact"]
    plain = RESeL(TASK, **settings).learn(80)
    assert same_weights(plain, done)


def test_a_return_that_is_reached_ends_the_run(
    settings: dict[str, Any], tiny_flags: list[str], capsys: Any
) -> None:
    """By a callback and by `stop_return`: the same state, and no step more without a reason."""
    stop = StopAtReturn(-1e6, evaluations=2)
    agent = RESeL(TASK, **settings).learn(60, run_dir="a", callback=stop, progress_bar=True)
    why = "the return asked for, -1e+06, was reached in each of the last 2 evaluations"
    assert agent.num_timesteps == 40 and agent.stopped_because == why
    assert f"Stopped early at step 40: {why}." in capsys.readouterr().out
    result = read(Path("a/result.json"))
    assert (
        result["status"],
        result["steps"],
        result["stopped_because"],
        result["held_return"],
    ) == (
        "stopped early",
        40,
        why,
        -1e6,
    )
    before = lines(Path("a"))
    again = RESeL(TASK, **settings)
    again.learn(60, run_dir="a", resume="auto", callback=stop, progress_bar=True)
    told = capsys.readouterr().out
    assert f"a was stopped early at step 40: {why}. It goes on if more is asked for" in told
    assert again.num_timesteps == 40 and again.stopped_because == why
    assert same_weights(again, agent)
    assert main(["resume", "a"]) == 0
    told = " ".join(capsys.readouterr().out.split())
    assert f"It stopped because {why}." in told and "resel resume a --steps 120" in told
    assert lines(Path("a")) == before and read(Path("a/result.json")) == result

    higher = RESeL(TASK, **settings)
    higher.learn(60, run_dir="a", resume="auto", callback=StopAtReturn(1e6))
    assert higher.num_timesteps == 60 and higher.stopped_because is None
    assert read(Path("a/result.json"))["status"] == "completed"
    plain = RESeL(TASK, **settings).learn(60)
    assert same_weights(plain, higher)

    command(tiny_flags, "b", "--stop-return", "-1e6", "--eval-every", "10")
    assert "resel resume b --stop-return None" in capsys.readouterr().out
    result = read(Path("b/result.json"))
    assert (result["status"], result["steps"], result["held_return"]) == ("stopped early", 30, -1e6)
    assert main(["resume", "b", "--steps", "90"]) == 0
    assert "It goes on if more is asked for" in capsys.readouterr().out
    assert main(["resume", "b", "--stop-return", "None"]) == 0
    assert read(Path("b/result.json"))["steps"] == 60


def test_environments_without_a_name(settings: dict[str, Any], toy: Any, capsys: Any) -> None:
    whole = RESeL(toy, **settings).learn(60)
    RESeL(toy, **settings).learn(60, run_dir="a", callback=interrupted_at(33))
    assert main(["resume", "a"]) == 2
    assert "without a name, which only the program that made it knows" in capsys.readouterr().err
    again = RESeL(toy, **settings).learn(60, run_dir="a", resume="auto")
    assert same_weights(again, whole)
    alone = RESeL(toy(), **settings).learn(10, run_dir="alone")  # nothing to evaluate in
    assert alone.evaluations == [] and read(Path("alone/result.json"))["eval_return_mean"] is None


def test_what_a_run_refuses(settings: dict[str, Any]) -> None:
    agent = RESeL(TASK, **settings)
    for wrong in ({"resume": "auto"}, {"wandb": True}, {"force": True}):
        with pytest.raises(ConfigError, match=r"learn\(\.\.\., run_dir=\.\.\.\)"):
            agent.learn(10, **wrong)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="resume='always' is not known: it is 'never' or 'auto'"):
        agent.learn(10, run_dir="a", resume="always")  # type: ignore[arg-type]
    assert not Path("a").exists() and agent.num_timesteps == 0
    agent.learn(40, run_dir="a")
    with pytest.raises(RunDirectoryError, match="already holds a run"):
        agent.learn(40, run_dir="a")
    assert agent.config.training.steps == 40
    agent.learn(5)
    steps = agent.config.training.steps
    before = lines(Path("a"))
    with pytest.raises(RunDirectoryError, match="at step 40 and this agent at step 45"):
        agent.learn(20, run_dir="a", resume="auto")
    other = RESeL(TASK, **{**settings, "seed": 2}).learn(3)
    with pytest.raises(RunDirectoryError, match="other settings"):
        other.learn(20, run_dir="a", resume="auto")
    late = RESeL(TASK, **settings).learn(3)
    with pytest.raises(RunDirectoryError, match="at step 40 and this agent at step 3"):
        late.learn(20, run_dir="a", resume="auto")
    assert agent.num_timesteps == 45 and agent.config.training.steps == steps
    assert lines(Path("a")) == before
    agent.learn(15, run_dir="b")  # a run may begin with what an agent has learned in memory
    assert open_trainer("b").step == 60
    assert main(["resume", "b", "--steps", "70"]) == 0


_PROGRAM = """
import sys
sys.path[:0] = {paths!r}
import conftest
from resel import RESeL

RESeL("toy/Box-v0", **{settings!r}).learn(10**6, run_dir="a", resume="auto")
"""


def test_ctrl_c_saves_first(settings: dict[str, Any]) -> None:
    """A real process and a real signal: nothing is lost, and Python's own error comes out."""
    paths = [str(Path(__file__).parents[1]), *filter(None, sys.path)]
    program = _PROGRAM.format(paths=paths, settings={**settings, "checkpoint_every": 0})
    process = subprocess.Popen(
        [sys.executable, "-c", program], stderr=subprocess.PIPE, text=True, env={**os.environ}
    )
    metrics = Path("a/metrics.jsonl")
    deadline = time.monotonic() + 120
    try:
        while not (metrics.exists() and '"train"' in metrics.read_text()):
            assert process.poll() is None and time.monotonic() < deadline
            time.sleep(0.1)
        process.send_signal(signal.SIGINT)
        _, told = process.communicate(timeout=60)
    finally:
        process.kill()
    assert process.returncode != 0 and told.rstrip().endswith("KeyboardInterrupt")
    result = read(Path("a/result.json"))
    assert result["status"] == "interrupted" and result["updates"] > 0
    trainer = open_trainer("a")
    assert trainer.step == result["steps"] and trainer.learner.updates == result["updates"]
    trainer.close()
