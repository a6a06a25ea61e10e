"""A run that is killed by force again and again ends as one that never was, to the last bit.

Real processes of the command, SIGKILL at random moments: while it starts, learns, evaluates or
saves.
"""

from __future__ import annotations

import random
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest
from killed_runs import begin, check_equal, finish, saved_step

from resel.runs import RunDirectory, read_bundle, read_metrics

KILLS = 30
ROUND = 160
"""Steps in which every kind of method makes updates, with the flags below."""


def kill_while_starting(command: list[str], run: Path, rng: random.Random) -> None:
    """Kill a run that may not have done anything yet."""
    process = begin(command, run, 10**6)
    time.sleep(rng.uniform(0, 4))
    kill(process)
    assert process.returncode == -signal.SIGKILL


def kill_while_running(command: list[str], run: Path, rng: random.Random, after: int) -> None:
    """Kill a run soon after it has saved more than these steps."""
    process = begin(command, run, 10**6)
    try:
        deadline = time.monotonic() + 300  # other jobs may have the machine
        while saved_step(run) <= after:
            assert process.poll() is None, process.communicate()[1]
            assert time.monotonic() < deadline, "the run makes no progress"
            time.sleep(0.005)
        time.sleep(rng.uniform(0, 0.3))
    finally:
        kill(process)
    assert process.returncode == -signal.SIGKILL


def kill(process: subprocess.Popen[str]) -> None:
    process.kill()
    process.communicate()


def kill_at_random(command: list[str], run: Path, rng: random.Random) -> str:
    """Start the run and kill it: mostly soon after a new checkpoint, sometimes before any."""
    if rng.random() < 0.2:
        kill_while_starting(command, run, rng)
        return "starting"
    kill_while_running(command, run, rng, saved_step(run))
    return "running"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("task", "encoder", "environments"),
    [
        ("Pendulum-V-v0", "gru", 1),
        ("Pendulum-V-v0", "mamba", 3),
        ("HopperBLT-P-v0", "gru", 3),
        ("HopperBLT-P-v0", "mamba", 1),
        ("Wind-v0", "gru", 2),  # tells its wind
    ],
)
def test_killed_thirty_times(
    task: str, encoder: str, environments: int, tiny_flags: list[str], tmp_path: Path, tally: Any
) -> None:
    command = ["train", task, *tiny_flags, "--encoder", encoder, "--num-envs", str(environments)]
    command += ["--max-episode-steps", "40", "--warmup-steps", "60", "--buffer-steps", "1500"]
    command += ["--checkpoint-every", "23", "--eval-every", "50", "--eval-episodes", "1"]
    command += ["--log-every", "10", "--threads", "1"]
    rng = random.Random(f"{task} {encoder} {environments}")
    killed, whole = tmp_path / "killed", tmp_path / "whole"
    moments = [kill_at_random(command, killed, rng) for _ in range(KILLS)]
    reached = saved_step(killed)
    steps = reached + 40
    finish(command, killed, steps)
    finish(command, whole, steps)
    check_equal(killed, whole)
    name = f"kill -9 of a run, resumed to the same bits: {task}, {encoder}, {environments} env."
    tally(name, len(moments))
    tally("kill -9 while a run was still starting", moments.count("starting"))


def learned(run: Path) -> tuple[int, int]:
    """Updates made up to the newest checkpoint, and how many of them are made before all else."""
    directory = RunDirectory.open(run, read_only=True)
    made = read_bundle(directory.checkpoints()[-1], "checkpoint").documents["learner"]["updates"]
    return made, directory.read_config()["algorithm"].get("pretraining_updates", 0)


@pytest.mark.parametrize(
    "flags",
    [
        ["Pendulum-V-v0", "--method", "td3", "--head-width", "8"],  # single steps
        ["Pendulum-V-v0", "--method", "sac-gru", "--width", "8", "--head-width", "8"],  # windows
        pytest.param(  # priorities, a policy that is kept, updates at the end of episodes
            [
                *("Pendulum-V-v0", "--method", "td7", "--target-every", "7"),
                *("--assessment-episodes", "2"),
            ],
            marks=pytest.mark.slow,
        ),
        ["Pendulum-V-v0", "--method", "ppo-gru", "--num-envs", "4", "--rollout-steps", "10"],
        pytest.param(  # several models
            [
                *("Pendulum-V-v0", "--method", "vrm", "--learn-after", "60"),
                *("--pretraining-updates", "20"),
            ],
            marks=pytest.mark.slow,
        ),
        [  # whole episodes, and a critic that is told the cue
            *("TMaze-v0", "--lr-ce", "auto", "--width", "8", "--head-width", "8"),
            *("--critic-observations", "task"),
        ],
        ["Pendulum-gravity-v0", "--method", "pearl", "--learn-after", "60"],  # trials of a task
        pytest.param(  # phases of all environments, weights of each task
            ["Pendulum-gravity-v0", "--method", "promp", "--num-envs", "2", "--phase-steps", "30"],
            marks=pytest.mark.slow,
        ),
    ],
    ids=[
        "td3",
        "sac-gru",
        "td7",
        "ppo-gru",
        "vrm",
        "resel with rates and exploration of its own",
        "pearl",
        "promp",
    ],
)
def test_every_kind_of_method_survives_kills(flags: list[str], tmp_path: Path, tally: Any) -> None:
    command = ["train", *flags, "--preset", "small", "--max-episode-steps", "40"]
    command += ["--warmup-steps", "60", "--checkpoint-every", "23", "--eval-every", "50"]
    command += ["--eval-episodes", "1", "--log-every", "10", "--threads", "1"]
    rng = random.Random(" ".join(flags))
    killed, whole = tmp_path / "killed", tmp_path / "whole"
    kill_while_running(command, killed, rng, ROUND)
    saved, steps = saved_step(killed), saved_step(killed) + ROUND
    updates, first = learned(killed)
    assert updates > first, "it was killed before everything had learned"
    recorded = max(line["step"] for line in read_metrics(killed / "metrics.jsonl"))
    said = finish(command, killed, steps)
    again = f"steps {saved + 1} to {recorded} are taken again."
    assert f"Going on from step {saved}." in said and (again in said) == (recorded > saved)
    assert learned(killed)[0] > updates, "nothing was learned after it"
    finish(command, whole, steps)
    check_equal(killed, whole)
    tally(f"kill -9 of a run with {' '.join(flags[1:3])}, resumed to the same bits", 1)
