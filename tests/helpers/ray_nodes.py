"""A Ray cluster of two nodes on the loopback, one processor each, for tests that kill one of them.

`python ray_nodes.py` prints one JSON object, {"address", "head", "node"}, with the processes
that each node began with, and takes the cluster down at the end of its input.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

SETTINGS: dict[str, Any] = {
    "num_cpus": 1,
    "object_store_memory": 80_000_000,
    "include_dashboard": False,
    "include_log_monitor": False,
    "no_monitor": True,
}


def parent(process: int) -> int:
    """Who started a process."""
    return int(Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[1])


def children() -> dict[int, list[int]]:
    """The processes of this machine by their parents."""
    found: dict[int, list[int]] = {}
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # it ended meanwhile
            found.setdefault(parent(int(entry.name)), []).append(int(entry.name))
    return found


def tree(*roots: int) -> set[int]:
    """Processes and all that descend from them."""
    known, found, left = children(), set[int](), list(roots)
    while left:
        process = left.pop()
        found.add(process)
        left += known.get(process, [])
    return found


def kill(processes: set[int]) -> None:
    """All at once and without a warning, as when a machine loses its power."""
    for process in processes:
        with contextlib.suppress(ProcessLookupError):
            os.kill(process, signal.SIGKILL)


def _add_node(cluster: Any, attempts: int = 20) -> set[int]:
    """Its processes. Ray gives a node half a minute to start, which busy machines may not keep."""
    before = tree(os.getpid())
    try:
        cluster.add_node(**SETTINGS)
    except Exception:
        kill(tree(os.getpid()) - before)
        if attempts == 1:
            raise
        return _add_node(cluster, attempts - 1)
    return tree(os.getpid()) - before


def serve() -> None:
    """Start both nodes, tell where they are, and keep them until the input ends."""
    from ray.cluster_utils import Cluster

    cluster = Cluster()
    try:
        head, node = _add_node(cluster), _add_node(cluster)
        told = {"address": cluster.address, "head": sorted(head), "node": sorted(node)}
        print(json.dumps(told), flush=True)
        sys.stdin.read()
    finally:
        cluster.shutdown()


if __name__ == "__main__":
    serve()
