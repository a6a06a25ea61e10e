"""Environments in processes of their own: real crashes, real hangs, and nobody left behind."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
import types
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from processes import alive, children, gone

from resel import RESeL
from resel.cli import main
from resel.config import Config
from resel.envs import CheckedEnv, SubprocEnv
from resel.errors import ConfigError, EnvironmentFault
from resel.runs import Run, read_bundle, read_metrics
from resel.training import Trainer, make_envs

pytestmark = pytest.mark.usefixtures("importable", "nobody_is_left")
NOTHING = np.zeros(1, np.float32)
FAULTS = {  # seconds allowed, and what is told
    "step": (60, "raised ZeroDivisionError at step 2 of an episode: division by zero"),
    "leave": (60, "raised SystemExit at step 2 of an episode: enough"),
    "killed": (60, "process was ended by SIGKILL at step 2 of an episode"),
    "exit": (60, "process ended with exit code 7 at step 2 of an episode"),
    "stopped": (2, "took longer than 2 s for step 2 of an episode"),
    "hang": (2, "took longer than 2 s for step 2 of an episode"),
}


@pytest.fixture
def start() -> Iterator[Callable[..., SubprocEnv]]:
    """A env that is closed after the test, however that ends."""
    started: list[SubprocEnv] = []

    def begin(*arguments: Any, **options: Any) -> SubprocEnv:
        started.append(SubprocEnv(*arguments, **options))
        return started[-1].ready()

    yield begin
    for env in started:
        env.close()


def _played(env: Any, episodes: int) -> list[Any]:
    seen = []
    for seed in range(episodes):
        seen.append(env.reset(seed).tobytes())
        ended = False
        while not ended:
            outcome = env.step(np.float32([0.3]))
            seen.append((outcome.observation.tobytes(), *outcome[1:]))
            ended = outcome.terminated or outcome.truncated
    return seen


# Working


def test_the_same_run_as_in_one_process(
    tiny: dict[str, Any], world: Any, everything: Callable[[Trainer], dict[str, Any]]
) -> None:
    found = []
    for workers in (False, True):
        settings = {"num_envs": 2, "env_workers": workers, "eval_every": 20, "warmup_steps": 20}
        config = Config.build("", tiny, settings)
        trainer = Trainer(config, *make_envs(config.training, world, world))
        trainer.train(60)
        trainer.close()
        found.append(everything(trainer))
    assert found[0].pop("config") != found[1].pop("config")
    assert found[0] == found[1]


def test_they_step_at_the_same_time(tiny: dict[str, Any], tmp_path: Path) -> None:
    """Each waits for the other: taken one after the other, they would wait for ever."""
    from failing_worlds import Meeting

    names = ("one", "other")
    envs = [
        SubprocEnv(partial(Meeting, str(tmp_path), mine, other), 60)
        for mine, other in (names, names[::-1])
    ]
    config = Config.build("", tiny, {"num_envs": 2, "warmup_steps": 100})
    trainer = Trainer(config, [env.ready() for env in envs])
    trainer.train(20)
    assert trainer.step == 20
    trainer.close()


def test_an_answer_nobody_waited_for(start: Any, world: Any) -> None:
    """As Ctrl-C leaves it: the next question gets its own answer."""
    env = start(world, 60)
    reference = CheckedEnv(world())
    env.reset(1)
    env.send(NOTHING)
    env.send(NOTHING)
    assert _played(env, 2) == _played(reference, 2)
    env.close()
    env.close()


def test_what_is_odd_is_told_here(start: Any) -> None:
    env = start(_outside, 60, longest=3)
    with pytest.warns(UserWarning, match="outside the"):
        env.reset(1)
    with pytest.warns(UserWarning, match="cut .* after 3 steps"):
        assert [env.step(NOTHING).truncated for _ in range(3)] == [False, False, True]


def _outside() -> Any:
    from failing_worlds import World

    class Outside(World):  # type: ignore[misc]
        def _observation(self) -> Any:
            return np.float32([2, 0])

    return Outside()


# Failing


@pytest.mark.parametrize("fault", FAULTS)
def test_faults(start: Any, world: Any, fault: str, tmp_path: Path) -> None:
    seconds, message = FAULTS[fault]
    how = partial(world, fault, at=2, once=str(tmp_path / "once"))
    env = start(how, seconds)
    env.reset(1)
    env.step(NOTHING)
    with pytest.raises(EnvironmentFault, match=message) as caught:
        env.step(NOTHING)
    if fault in ("step", "leave"):
        (note,) = caught.value.__notes__
        assert "Traceback" in note and "failing_worlds.py" in note
    else:  # what hung or died is gone at once
        assert children(os.getpid()) == []
    if fault != "killed":  # a reset alone starts a process where there is none
        env.rebuild()
    assert _played(env, 2) == _played(CheckedEnv(world()), 2)


@pytest.mark.parametrize("forgotten", [False, True])
def test_a_program_that_the_environment_started_goes_with_it(
    start: Any, world: Any, tmp_path: Path, forgotten: bool
) -> None:
    env = start(partial(world, "program", once=str(tmp_path / "once")), 60)
    program = int((tmp_path / "once.pid").read_text())
    assert alive(program)
    if forgotten:
        os.kill(env._worker._process.pid, signal.SIGTERM)  # as Python does for us when it ends
        env._worker._process.join()
        env._worker._end_group()
    else:
        env.close()
    gone(lambda: {program} if alive(program) else set())


@pytest.mark.slow
def test_the_run_goes_on(tiny: dict[str, Any], world: Any, tmp_path: Path) -> None:
    """Hanging in one of two environments: that one loses its episode, the other goes on."""
    settings = {"num_envs": 2, "env_workers": True, "env_restarts": 1, "warmup_steps": 20}
    config = Config.build("", tiny, settings, {"env_timeout": 2.0})
    how = partial(world, "hang", once=str(tmp_path / "once"))
    trainer = Trainer(config, *make_envs(config.training, how, world))
    with pytest.warns(UserWarning, match="took longer than 2 s .*restart 1 of 1"):
        trainer.train(60)
    trainer.close()
    assert trainer.step == 60 and trainer.restarts.used == 1 and trainer.learner.updates > 0
    assert all(piece.length == 5 for piece in trainer.buffer)
    assert trainer.buffer.steps == 55


@pytest.mark.slow
@pytest.mark.parametrize("fault", ["killed", "hang", "reset"])
def test_a_run_that_stopped_is_the_same_once_mended(
    fault: str, tiny: dict[str, Any], tmp_path: Path, monkeypatch: Any, capsys: Any
) -> None:
    flags = [w for k, v in tiny.items() for w in ("--" + k.replace("_", "-"), str(v))]
    flags += ["--env-workers", "--env-timeout", "3", "--steps", "60", "--num-envs", "2"]
    flags += ["--warmup-steps", "20", "--eval-every", "25", "--resume", "auto", "--run-dir"]
    command = ["train", "failing_worlds:World-v0", *flags]
    run, whole = tmp_path / "run", tmp_path / "whole"
    assert main([*command, str(whole)]) == 0
    for name, value in {"FAULT": fault, "AT": "11", "ONCE": str(tmp_path / "once")}.items():
        monkeypatch.setenv(f"WORLD_{name}", value)
    capsys.readouterr()
    assert main([*command, str(run)]) == 1
    told = capsys.readouterr()
    # The two to train in get to their eleventh step together, before that for evaluation does.
    who = "The evaluation environment" if fault == "reset" else "Environment [12] of 2"
    assert re.search(f"Error: {who}", told.err) and "Traceback" not in told.err
    assert "Stopped at step" in told.out and f"Go on with: resel resume {run}" in told.out
    result = json.loads((run / "result.json").read_text())
    assert result["status"] == "failed" and result["fault"] in told.err
    read_bundle(run / f"checkpoints/step-{result['steps']:09d}", "checkpoint")
    assert main([*command, str(run)]) == 0
    assert f"Going on from step {result['steps']}." in capsys.readouterr().out
    found, wanted = (read_bundle(p / "agents/last", "agent") for p in (run, whole))
    assert all(
        (w == found.tensors["weights"][n]).all() for n, w in wanted.tensors["weights"].items()
    )
    lines = [read_metrics(p / "metrics.jsonl") for p in (run, whole)]
    assert [e["event"] for e in lines[0] if e["kind"] == "event"] == ["environment failed"]
    kept = [[ln for ln in part if ln["kind"] in ("train", "eval")] for part in lines]
    assert kept[0] == kept[1] and len(kept[0]) > 5


@pytest.mark.slow
def test_learning_can_be_called_again(tiny: dict[str, Any], world: Any, tmp_path: Path) -> None:
    how = partial(world, "killed", once=str(tmp_path / "once"))
    agent = RESeL(how, **tiny, env_workers=True)
    with pytest.raises(EnvironmentFault, match="its process was ended by SIGKILL"):
        agent.learn(50)
    agent.learn(20)
    assert agent.num_timesteps == 31
    agent.close()


# What cannot start


def test_functions_that_cannot_be_sent(tiny: dict[str, Any], world: Any) -> None:
    for how in (lambda: world(), partial(lambda: world())):
        with pytest.raises(ConfigError, match=r"cannot be sent .* at the top of a module"):
            RESeL(how, **tiny, env_workers=True)


def test_a_function_that_is_not_found_there(tiny: dict[str, Any], monkeypatch: Any) -> None:
    """As one that was typed into a session."""
    module = types.ModuleType("typed_by_hand")
    exec("def make(): pass", module.__dict__)
    monkeypatch.setitem(sys.modules, "typed_by_hand", module)
    with pytest.raises(EnvironmentFault, match="where the function that makes it is not found"):
        RESeL(module.make, **tiny, env_workers=True)


def test_one_that_cannot_be_made(tiny: dict[str, Any], tmp_path: Path) -> None:
    how = partial(open, str(tmp_path / "missing"))
    with pytest.raises(EnvironmentFault, match="could not be made: FileNotFoundError") as caught:
        RESeL(how, **tiny, env_workers=True)
    assert "Traceback" in caught.value.__notes__[0]


@pytest.mark.slow
def test_a_script_without_a_guard(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        "import resel\nresel.RESeL('TMaze-v0', size='tiny', env_workers=True)\nprint('made')\n"
    )
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=120)
    assert done.returncode != 0 and "made" not in done.stdout
    assert 'must begin its work under `if __name__ == "__main__":`' in done.stderr


# Ended from outside


@pytest.fixture
def running(tiny_flags: list[str], tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    """`resel train` with workers, past its first checkpoint."""
    command = [str(Path(sys.executable).with_name("resel")), "train", "failing_worlds:World-v0"]
    command += [*tiny_flags, "--steps", "1e6", "--num-envs", "2", "--env-workers"]
    command += ["--checkpoint-every", "40", "--run-dir", str(tmp_path / "run")]
    with (tmp_path / "stderr").open("wb") as stderr:
        process = subprocess.Popen(
            command, stdout=subprocess.DEVNULL, stderr=stderr, env=_environment()
        )
    deadline = time.monotonic() + 120
    while not list((tmp_path / "run/checkpoints").glob("step-*/manifest.json")):
        assert process.poll() is None and time.monotonic() < deadline
        time.sleep(0.02)
    yield process
    process.kill()
    process.wait()


def _environment() -> dict[str, str]:
    return {**os.environ, "OMP_NUM_THREADS": "1"}


@pytest.mark.slow
def test_killed_by_force_it_leaves_nobody_behind(running: subprocess.Popen[bytes]) -> None:
    workers = children(running.pid)
    assert len(workers) == 3  # two to train in, one to evaluate in
    running.kill()
    running.wait()
    gone(lambda: {pid for pid in workers if alive(pid)})


@pytest.mark.slow
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_signals_to_everybody(
    running: subprocess.Popen[bytes], tmp_path: Path, number: signal.Signals, code: int
) -> None:
    """As a terminal or a scheduler sends them: the run is saved and nobody is left behind."""
    workers = children(running.pid)
    for pid in (running.pid, *workers):
        os.kill(pid, number)
    assert running.wait(60) == code
    gone(lambda: {pid for pid in workers if alive(pid)})
    result = json.loads((tmp_path / "run/result.json").read_text())
    assert result["status"] == "interrupted"
    read_bundle(tmp_path / f"run/checkpoints/step-{result['steps']:09d}", "checkpoint")
    assert "Traceback" not in (tmp_path / "stderr").read_text()


def test_a_hanging_environment_ends_with_its_parent(tmp_path: Path) -> None:
    """Killed by force while the environment hangs with a program of its own."""
    script = tmp_path / "script.py"
    script.write_text(
        "import sys\nfrom functools import partial\nimport numpy as np\n"
        "from failing_worlds import World\nfrom resel.envs import SubprocEnv\n"
        "if __name__ == '__main__':\n"
        "    env = SubprocEnv(partial(World, 'program', 1, sys.argv[1]), 100).ready()\n"
        "    env.reset(1)\n"
        "    env.send(np.zeros(1, np.float32))\n"
        "    print('ready', flush=True)\n"
        "    env.receive()\n"
    )
    process = subprocess.Popen(
        [sys.executable, script, tmp_path / "once"], stdout=subprocess.PIPE, env=_environment()
    )
    assert process.stdout is not None
    with process.stdout:
        assert process.stdout.readline() == b"ready\n"
    left = children(process.pid)
    assert int((tmp_path / "once.pid").read_text()) in left and len(left) == 2
    process.kill()
    process.wait()
    gone(lambda: {pid for pid in left if alive(pid)})


def test_a_run_keeps_its_settings_but_not_its_processes(
    tiny: dict[str, Any], tmp_path: Path
) -> None:
    """Whether environments have processes of their own may change in the middle of a run."""
    config = Config.build("TMaze-v0", tiny, {"steps": 35, "env_workers": True})
    run = Run(config, tmp_path / "run")
    run.train()
    run.close()
    run = Run(config.replace(env_workers=False, steps=40), tmp_path / "run", "auto")
    assert run.resumed_at == 35
    assert run.train()["status"] == "completed"
    run.close()
    agent = RESeL.load(tmp_path / "run/agents/last")
    assert not agent.config.training.env_workers
