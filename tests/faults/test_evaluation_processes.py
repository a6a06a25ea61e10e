"""Evaluations in a process of their own: the same numbers, real crashes, nobody left behind."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from killed_runs import begin, check_equal, finish, saved_step
from processes import alive, children, gone

from resel import RESeL
from resel.config import Config
from resel.errors import EnvironmentFault
from resel.runs import read_document
from resel.training import Trainer, make_envs

pytestmark = pytest.mark.usefixtures("importable", "nobody_is_left")


def _train(tiny: dict[str, Any], train_in: Any, evaluate_in: Any, **settings: Any) -> Trainer:
    settings = {"eval_every": 20, "warmup_steps": 20, "env_timeout": 3.0, **settings}
    config = Config.build("", tiny, settings)
    trainer = Trainer(config, *make_envs(config.training, train_in, evaluate_in))
    try:
        trainer.train(60)
    finally:
        trainer.close()
    return trainer


@pytest.mark.parametrize("fault", ["killed", pytest.param("hang", marks=pytest.mark.slow)])
def test_the_same_run_though_the_process_was_lost_on_the_way(
    fault: str,
    tiny: dict[str, Any],
    world: Any,
    everything: Callable[[Trainer], dict[str, Any]],
    tmp_path: Path,
) -> None:
    plain = everything(_train(tiny, world, world, env_restarts=1))
    failing = partial(world, fault, once=str(tmp_path / "once"))
    told = "was ended by SIGKILL" if fault == "killed" else "took longer than 3 s"
    with pytest.warns(UserWarning, match=f"The evaluation environment.*{told}.*restart 1 of 1"):
        trainer = _train(tiny, world, failing, env_restarts=1, eval_parallel=True)
    found = everything(trainer)
    assert found.pop("config") != plain.pop("config")
    assert found["loop"].pop("env_restarts") == 1 and plain["loop"].pop("env_restarts") == 0
    assert found == plain and len(trainer.evaluator.history) == 4


@pytest.mark.slow
def test_an_environment_that_raises_in_an_evaluation(tiny: dict[str, Any], world: Any) -> None:
    with pytest.raises(EnvironmentFault, match=r"\(World\) raised ZeroDivisionError") as caught:
        _train(tiny, world, partial(world, "step"), eval_parallel=True)
    assert "failing_worlds.py" in caught.value.own_traceback


def test_what_cannot_be_sent_is_evaluated_here(tiny: dict[str, Any], world: Any, toy: Any) -> None:
    settings = {**tiny, "eval_every": 20}
    plain = RESeL(world, **settings).learn(40)
    with pytest.warns(UserWarning, match=r"Learning waits for evaluations.*cannot be sent"):
        agent = RESeL(lambda: world(), **settings, eval_parallel=True).learn(40)
    assert agent.evaluations == plain.evaluations
    agent = RESeL(world(), **settings, eval_parallel=True)
    with pytest.warns(UserWarning, match=r"was given as an object.*Give a name or a function"):
        agent.learn(40, eval_env=world())
    assert len(agent.evaluations) == 3


@pytest.mark.slow
def test_a_script_without_a_guard_learns_all_the_same(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        "import resel\n"
        "settings = dict(encoder='gru', width=8, head_width=8, warmup_steps=300, eval_every=50)\n"
        "agent = resel.RESeL('TMaze-v0', eval_parallel=True, **settings).learn(200)\n"
        "print('evaluations:', len(agent.evaluations))\n"
    )
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0 and done.stdout == "evaluations: 5\n", done.stderr
    assert 'must begin its work under `if __name__ == "__main__":`' in done.stderr


@pytest.fixture
def command(tiny_flags: list[str]) -> list[str]:
    words = ["train", "failing_worlds:World-v0", *tiny_flags, "--preset", "paper"]
    words += ["--eval-parallel", "--threads", "1"]
    words += ["--eval-every", "100", "--eval-episodes", "300", "--checkpoint-every", "30"]
    return words


def _evaluating(process: subprocess.Popen[str], run: Path) -> list[int]:
    """Wait for a new checkpoint beside an evaluation; the processes at work."""
    deadline, before = time.monotonic() + 200, saved_step(run)
    while True:
        assert process.poll() is None, process.communicate()[1]
        assert time.monotonic() < deadline, "there is no evaluation"
        if (step := saved_step(run)) > before:
            checkpoint = run / f"checkpoints/step-{step:09d}"
            if "pending" in read_document(checkpoint, "checkpoint", "evaluator"):
                return children(process.pid)
        time.sleep(0.005)


@pytest.mark.slow
def test_killed_by_force_in_an_evaluation(command: list[str], tmp_path: Path, tally: Any) -> None:
    """Nobody is left behind, and the run ends as one that was never killed."""
    rng = random.Random(1)
    run, whole = tmp_path / "run", tmp_path / "whole"
    for _ in range(3):
        process = begin(command, run, 10**6)
        workers = _evaluating(process, run)
        time.sleep(rng.uniform(0, 0.1))
        process.kill()
        process.communicate()
        assert len(workers) == 1
        gone(lambda workers=workers: {pid for pid in workers if alive(pid)})
    steps = saved_step(run) + 110
    finish(command, run, steps)
    finish(command, whole, steps)
    check_equal(run, whole)
    tally("kill -9 with an evaluation beside learning, resumed to the same bits", 3)


@pytest.mark.slow
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_signals_to_everybody(
    command: list[str], tmp_path: Path, number: signal.Signals, code: int
) -> None:
    process = begin(command, tmp_path / "run", 10**6)
    workers = _evaluating(process, tmp_path / "run")
    for pid in (process.pid, *workers):
        os.kill(pid, number)
    told = process.communicate(timeout=120)[1]
    assert process.returncode == code and "Traceback" not in told, told
    gone(lambda: {pid for pid in workers if alive(pid)})
    assert json.loads((tmp_path / "run/result.json").read_text())["status"] == "interrupted"
