"""Engines with commands that take no time: what is run, how often, and what becomes of it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from fake_runs import SAVES_WHEN_ASKED, Choosy, fake_job, write_run

from resel._process import LAUNCHER
from resel.experiments.engines import Ledger, _ledger, _process, read_state, run_local, slurm_script
from resel.experiments.plan import Job
from resel.runs import RunDirectory


@pytest.fixture(autouse=True)
def _no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_ledger, "_WAITS", (0.0,))


def work(jobs: list[Job], slots: int = 2, attempts: int = 3, **more: int) -> Ledger:
    ledger = Ledger.of(jobs, attempts)
    run_local(ledger, lambda: None, slots=slots, **more)
    return ledger


def calls(job: Job) -> int:
    path = job.run / "calls"
    return len(path.read_text().splitlines()) if path.exists() else 0


def test_everything_is_done_once_and_never_again(tmp_path: Path) -> None:
    jobs = [fake_job(tmp_path, f"run{i}") for i in range(4)]
    jobs.append(fake_job(tmp_path, "nan", "end('diverged', 3)"))
    for _ in range(2):
        ledger = work(jobs)
        assert ledger.count("completed") == 4 and ledger.count("diverged") == 1
        assert [calls(job) for job in jobs] == [1] * 5


def test_other_ends_are_tried_again_up_to_the_cap(tmp_path: Path) -> None:
    flaky = fake_job(tmp_path, "flaky", "end('completed', 0) if calls == 3 else sys.exit(1)")
    killed = fake_job(
        tmp_path, "killed", "end('completed', 0) if calls == 2 else os.kill(os.getpid(), 9)"
    )
    hopeless = fake_job(tmp_path, "hopeless", "print('Error: no such [thing]'); sys.exit(1)")
    refused = fake_job(tmp_path, "refused", "sys.exit(2)")
    liar = fake_job(tmp_path, "liar", "sys.exit(0)")
    unsure = fake_job(tmp_path, "unsure", "end('interrupted', 143)")
    ledger = work([flaky, killed, hopeless, refused, liar, unsure])
    found = {run.name: (entry.status, calls(entry.job)) for run, entry in ledger.entries.items()}
    assert found == {
        "flaky": ("completed", 3),
        "killed": ("completed", 2),
        "hopeless": ("failed", 3),
        "refused": ("failed", 1),
        "liar": ("failed", 3),
        "unsure": ("failed", 3),
    }
    assert ledger.entries[hopeless.run].problem == "exit code 1: no such [thing]"


def test_attempts_count_only_without_progress(tmp_path: Path) -> None:
    moved = (
        "(run / 'checkpoints' / f'step-{calls:09d}').mkdir(parents=True)\n"
        "end('completed', 0) if calls == 6 else sys.exit(143)"
    )
    job = fake_job(tmp_path, "moved", moved)
    ledger = work([job], attempts=2)
    assert ledger.entries[job.run].status == "completed" and calls(job) == 6


def test_runs_whose_process_was_lost(tmp_path: Path) -> None:
    done, half = fake_job(tmp_path, "done"), fake_job(tmp_path, "half")
    ledger = Ledger.of([done, half], attempts=2)
    for job in (done, half):
        ledger.started(job)
    write_run(done.run, [])
    ledger.ended(done, None, "lost")  # after its last line was written
    assert ledger.entries[done.run].status == "completed"
    for step in (1, 2, 3):
        ledger.ended(half, None, "lost")
        assert ledger.entries[half.run].status == "waiting"
        (half.run / "checkpoints" / f"step-{step:09d}").mkdir(parents=True)  # its last breath
        ledger.started(half)
    assert ledger.entries[half.run].attempts == 0
    ledger.ended(half, None, "lost")
    ledger.started(half)
    ledger.ended(half, None, "lost")
    assert ledger.entries[half.run].status == "failed"


def test_slots_gpus_and_memory_bound_what_runs_at_once(tmp_path: Path) -> None:
    wait = "time.sleep(0.3); end('completed', 0)"

    def at_once(jobs: list[Job]) -> int:
        begun = [float((j.run / "calls").read_text().split()[1]) for j in jobs]
        ended = [float((j.run / "ends").read_text()) for j in jobs]
        return max(sum(b <= t < e for b, e in zip(begun, ended, strict=True)) for t in begun)

    jobs = [fake_job(tmp_path / "slots", f"run{i}", wait) for i in range(5)]
    work(jobs, slots=2, gpus=2)
    assert at_once(jobs) <= 2
    used = {(job.run / "calls").read_text().split()[0] for job in jobs}
    assert used == {"0", "1"}
    jobs = [fake_job(tmp_path / "memory", f"run{i}", wait, memory=60) for i in range(3)]
    work(jobs, slots=3, memory=100)
    assert at_once(jobs) == 1
    large = fake_job(tmp_path, "large", memory=1000)
    assert work([large], memory=100).count("completed") == 1, "one always runs"


def test_interrupted_sweeps_let_their_runs_save(tmp_path: Path) -> None:
    job = fake_job(tmp_path, "run", SAVES_WHEN_ASKED)
    ledger = Ledger.of([job])

    def tick() -> None:
        if (job.run / "ready").exists():
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_local(ledger, tick, slots=1)
    assert json.loads((job.run / "result.json").read_text())["status"] == "interrupted"
    assert ledger.entries[job.run].status == "waiting" and ledger.entries[job.run].attempts == 0


def test_runs_that_nobody_needs_any_more_save_and_leave(tmp_path: Path) -> None:
    job = fake_job(tmp_path, "run", SAVES_WHEN_ASKED)
    ledger = Choosy.of([job], attempts=1)
    run_local(ledger, lambda: None, slots=1)
    assert json.loads((job.run / "result.json").read_text())["status"] == "interrupted"
    assert len((job.run / "ends").read_text().splitlines()) == 1, "it was asked once"


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only Linux tells children")
def test_runs_save_when_the_sweep_is_killed(tmp_path: Path) -> None:
    job = fake_job(tmp_path, "run", SAVES_WHEN_ASKED)
    script = (
        "import runpy, pathlib\n"
        f"start = runpy.run_path({_process.__file__!r})['start']\n"
        f"start({job.command!r}, pathlib.Path({str(job.run)!r})).wait()"
    )
    sweep = subprocess.Popen([sys.executable, "-c", script])
    wait_for(job.run / "ready")
    sweep.kill()
    sweep.wait()
    wait_for(job.run / "ends")
    assert json.loads((job.run / "result.json").read_text())["status"] == "interrupted"


def test_runs_that_somebody_else_writes_are_waited_for(tmp_path: Path) -> None:
    job = fake_job(tmp_path, "run")
    write_run(job.run, [], status=None)
    other = RunDirectory.open(job.run)  # such as the last breath of a sweep that was killed
    ledger = Ledger.of([job], attempts=1)
    told: list[str | None] = []
    ledger.changed = lambda entry: told.append(entry.problem)
    ticks: list[int] = []

    def tick() -> None:
        ticks.append(calls(job))
        if len(ticks) == 3:
            other.close()

    run_local(ledger, tick, slots=1)
    assert ticks[:3] == [0, 0, 0] and calls(job) == 1
    assert ledger.count("completed") == 1
    assert told[0] == "in use by another process" and told.count(told[0]) == 1


def wait_for(path: Path, seconds: float = 60) -> None:
    deadline = time.monotonic() + seconds
    while not path.exists():
        assert time.monotonic() < deadline, f"no {path.name}"
        time.sleep(0.02)


def test_half_written_directories_are_not_finished(tmp_path: Path) -> None:
    job = fake_job(tmp_path, "run")
    assert read_state(job).status == "waiting"
    write_run(job.run, [{"step": 5, "kind": "eval", "return_mean": 2.0}], status=None)
    assert (read_state(job).status, read_state(job).evaluation) == ("waiting", 2.0)
    (job.run / "metrics.jsonl").write_bytes(b'{"step": 7, "kind": "train"}\n{"step": 9, "ki')
    assert read_state(job).step == 7
    for broken in ('{"status": "comp', "[]", '{"status": "completed", "steps": 99}'):
        (job.run / "result.json").write_text(broken)
        assert read_state(job).status == "waiting"
    (job.run / "result.json").write_text('{"status": "completed", "steps": 100}')
    assert read_state(job).status == "completed"


def test_the_slurm_script(tmp_path: Path) -> None:
    own = Job(
        tmp_path / "a b",
        (*LAUNCHER, "train", "TMaze-v0", "--run-dir", str(tmp_path / "a b"), "--resume", "auto"),
        100,
        threads=2,
        memory=800_000_000,
    )
    other = fake_job(tmp_path, "it's", memory=100)
    text = slurm_script([own, other], "resel-smoke")
    for line in (
        "--array=0-1",
        "--requeue",
        "--signal=TERM@120",
        "--cpus-per-task=2",
        "--mem=1000M",
    ):
        assert f"\n#SBATCH {line}\n" in text
    assert "resel train TMaze-v0" in text and sys.executable + " -m" not in text
    assert "command -v resel" in text
    # What Slurm provides, made up: each task of the array runs its own command.
    (tmp_path / "bin").mkdir()
    for name, body in (
        ("srun", 'exec "$@"'),
        ("scontrol", 'echo "$@" > "$HERE/requeued"'),
        ("resel", "exit 0"),
    ):
        tool = tmp_path / "bin" / name
        tool.write_text(f"#!/bin/sh\n{body}\n")
        tool.chmod(0o755)
    (tmp_path / "job.sh").write_text(text)
    environment = {
        **os.environ,
        "PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}",
        "HERE": str(tmp_path),
        "SLURM_ARRAY_TASK_ID": "1",
        "SLURM_ARRAY_JOB_ID": "77",
    }
    assert subprocess.run(["bash", str(tmp_path / "job.sh")], env=environment).returncode == 0
    assert read_state(other).status == "completed" and not (tmp_path / "requeued").exists()
    (tmp_path / "bin" / "resel").unlink()
    environment["PATH"] = f"{tmp_path / 'bin'}:/usr/bin:/bin"
    told = subprocess.run(
        ["bash", str(tmp_path / "job.sh")], env=environment, capture_output=True, text=True
    )
    assert told.returncode == 1 and "resel is not on the PATH" in told.stderr


def test_a_time_limit_puts_a_slurm_task_back_into_the_queue(tmp_path: Path) -> None:
    job = fake_job(tmp_path, "run", "end('interrupted', 143)")
    script = slurm_script([job], "x").replace("srun ", "").replace("scontrol", "echo")
    script = script.replace("command -v resel", "true")
    environment = {**os.environ, "SLURM_ARRAY_TASK_ID": "0", "SLURM_ARRAY_JOB_ID": "77"}
    done = subprocess.run(["bash", "-c", script], env=environment, capture_output=True, text=True)
    assert done.returncode == 143 and done.stdout == "requeue 77_0\n"


def test_the_console_log_keeps_what_every_attempt_said(tmp_path: Path) -> None:
    job = fake_job(tmp_path, "run", "print('call', calls); end('completed', 0 if calls > 1 else 1)")
    assert work([job]).count("completed") == 1
    assert (job.run / "console.log").read_text() == "call 1\ncall 2\n"
