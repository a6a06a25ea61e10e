"""Ray on two nodes, where everything but the head is killed: the runs are those of one machine."""

from __future__ import annotations

import json
import os
import secrets
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

import pytest
import ray_nodes
import tiny_sweep as tiny

STEPS, SEEDS = 300, 2
PATIENCE = 1200.0
Found = TypeVar("Found")

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="processes are read in /proc"),
]


@pytest.fixture
def environment() -> Iterator[dict[str, str]]:
    """Nodes on the loopback that ask for a token; a short path, as Ray keeps its sockets there."""
    with tempfile.TemporaryDirectory(prefix="resel-", ignore_cleanup_errors=True) as folder:
        yield {
            **{name: value for name, value in os.environ.items() if not name.startswith("RAY_")},
            "RAY_TMPDIR": folder,
            "RAY_AUTH_MODE": "token",
            "RAY_AUTH_TOKEN": secrets.token_hex(32),
            "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",
            "RAY_USAGE_STATS_ENABLED": "0",
            "RAY_agent_register_timeout_ms": "300000",
            "RAY_worker_niceness": "0",
            "OMP_NUM_THREADS": "1",
        }


@contextmanager
def two_nodes(environment: dict[str, str]) -> Iterator[tuple[str, set[int], set[int]]]:
    """The address of a cluster, the processes of its head and those of its other node."""
    command = [sys.executable, str(Path(ray_nodes.__file__))]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment, text=True
    ) as cluster:
        try:
            assert cluster.stdout is not None
            told = json.loads(cluster.stdout.readline())
            yield told["address"], set(told["head"]), set(told["node"])
        finally:
            left = ray_nodes.tree(cluster.pid) - {cluster.pid}
            try:
                cluster.communicate(timeout=60)
            except subprocess.TimeoutExpired:
                cluster.kill()
            ray_nodes.kill(left)


@contextmanager
def sweeping(command: list[str], environment: dict[str, str]) -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=environment, text=True) as sweep:
        try:
            yield sweep
        finally:
            sweep.kill()


def wait_for(what: Callable[[], Found | None], sweep: subprocess.Popen[str]) -> Found:
    deadline = time.monotonic() + PATIENCE
    while (found := what()) is None:
        assert time.monotonic() < deadline and sweep.poll() is None
        time.sleep(0.02)
    return found


def run_under_way(out: Path, processes: set[int], but: set[int]) -> tuple[Path, int] | None:
    """A run that has saved something, and its process, below some of these but none of those."""
    below = ray_nodes.tree(*processes)
    for run, process in writers(out).items():
        saved = any(run.glob("checkpoints/step-*/manifest.json"))
        if saved and process in below - but and not is_finished(run):
            return run, process
    return None


def writers(out: Path) -> dict[Path, int]:
    """The processes that have written to runs last."""
    found = {lock.parent: lock.read_text().strip() for lock in out.glob("runs/*/.lock")}
    return {run: int(process) for run, process in found.items() if process}


def is_finished(run: Path) -> bool:
    result = run / "result.json"
    return result.exists() and json.loads(result.read_text())["status"] == "completed"


def still_there(out: Path) -> list[str]:
    """Command lines of processes that work on this sweep."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes().decode("utf-8", "replace")
        except OSError:  # it ended meanwhile
            continue
        found += [words] if str(out) in words else []
    return found


def test_a_worker_the_sweep_and_a_node_are_lost(
    tmp_path: Path, environment: dict[str, str]
) -> None:
    out, alone = tmp_path / "cluster", tmp_path / "alone"
    program = [sys.executable, str(Path(tiny.__file__))]
    size = [str(STEPS), str(SEEDS)]
    with two_nodes(environment) as (address, head, node):
        command = [*program, str(out), *size, address]
        with sweeping(command, environment) as sweep:
            disturbed, process = wait_for(lambda: run_under_way(out, head, set()), sweep)
            ray_nodes.kill({ray_nodes.parent(process)})
            left, _ = wait_for(lambda: run_under_way(out, node, set()), sweep)
            sweep.kill()
            before = set(writers(out).values())
        with sweeping(command, environment) as sweep:
            lost, _ = wait_for(lambda: run_under_way(out, node, before), sweep)
            ray_nodes.kill(ray_nodes.tree(*node))
            said, _ = sweep.communicate(timeout=PATIENCE)
    assert sweep.returncode == 0 and "4 runs completed, 0 diverged" in said, said
    assert f"{lost.name}: " in said and "the machine or the worker was lost" in said
    assert not still_there(out)

    done = subprocess.run([*program, str(alone), *size], env=environment, timeout=PATIENCE)
    assert done.returncode == 0
    runs = set((out / "runs").iterdir())
    assert len(runs) == 4 and {run.name for run in (alone / "runs").iterdir()} == {
        run.name for run in runs
    }
    for run in runs:
        tiny.assert_same_run(run, alone / "runs" / run.name)
        console = (run / "console.log").read_text()
        assert console.count("Completed: ") <= 1 and "is finished" not in console
        assert run not in {disturbed, left, lost} or "Going on from step" in console
