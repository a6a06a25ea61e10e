"""The engine of many machines: Ray places the processes, the run directories hold everything.

All machines need the same file system and the same Python environment. Nothing of a run goes
through Ray, so that a run may be moved, lost and begun again like on one machine.
"""

from __future__ import annotations

import importlib
import os
import secrets
import socket
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from resel.errors import ConfigError, MissingDependencyError
from resel.experiments.engines._ledger import Ledger
from resel.experiments.engines._process import last_words, start
from resel.experiments.plan import Job

_POLL = 0.5
_REACHABLE_WITHIN = 5.0
_OBJECT_STORE = 100_000_000
"""Bytes; the smallest Ray likes, as we store nothing there."""


def run_ray(ledger: Ledger, tick: Callable[[], None], *, slots: int, address: str | None) -> None:
    """Work through the ledger on the cluster at `address`, or on one of our own on this machine."""
    ray = _connect(slots, address)
    try:
        _work(ray, ledger, tick, gpus=1 if ray.cluster_resources().get("GPU") else 0)
    finally:
        ray.shutdown()  # ends our workers, and with them their runs, which save


def _work(ray: Any, ledger: Ledger, tick: Callable[[], None], gpus: int) -> None:
    # A lost worker or node is ours to count, so Ray itself tries nothing again.
    remote = ray.remote(max_retries=0, num_gpus=gpus)(_run)
    running: dict[Any, Job] = {}
    not_before: dict[Job, float] = {}
    while running or ledger.waiting():
        for job in ledger.waiting():
            if time.monotonic() >= not_before.get(job, 0.0) and not ledger.held(job):
                ledger.started(job)
                place = remote.options(num_cpus=job.threads, memory=job.memory or None)
                running[place.remote(job.command, str(job.run))] = job
        tick()
        if not running:
            time.sleep(_POLL)
            continue
        done, _ = ray.wait(list(running), num_returns=1, timeout=_POLL)
        for reference in done:
            job = running.pop(reference)
            wait = ledger.ended(job, *_outcome(ray, reference))
            not_before[job] = time.monotonic() + wait
    tick()


def _run(command: Sequence[str], run: str) -> tuple[int, str]:
    """On whichever machine Ray chose: the exit code and what was said last."""
    code = start(command, Path(run)).wait()
    return code, last_words(Path(run))


def _outcome(ray: Any, reference: Any) -> tuple[int | None, str]:
    try:
        code, said = ray.get(reference)
    except ray.exceptions.RayError as error:  # the worker or its machine is gone
        return None, f"{type(error).__name__}: the machine or the worker was lost"
    how = f"killed by signal {-code}" if code < 0 else f"exit code {code}"
    return code, f"{how}: {said}" if said else how


def _connect(slots: int, address: str | None) -> Any:
    """Ray, connected; what it does besides placing processes is turned off."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.setdefault("RAY_AUTH_MODE", "token")
    if address is None:
        # Or anybody who reaches its ports could run code here: Ray's name for "loopback only".
        os.environ["RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"] = "0"
        os.environ.setdefault("RAY_AUTH_TOKEN", secrets.token_hex(32))
    else:
        _check_reachable(address)
    try:
        ray = importlib.import_module("ray")
    except ImportError as error:
        raise MissingDependencyError(
            "--engine ray needs the package ray: pip install 'resel[ray]'."
        ) from error
    own = {"num_cpus": slots, "object_store_memory": _OBJECT_STORE, "include_dashboard": False}
    try:
        ray.init(
            address=address or "local",
            log_to_driver=False,
            logging_level="error",
            **({} if address else own),
        )
    except Exception as error:
        where = f"the Ray cluster at {address}" if address else "a Ray cluster of our own"
        raise ConfigError(
            f"Could not connect to {where}: {type(error).__name__}: {error} A cluster with token "
            "authentication needs RAY_AUTH_TOKEN; for one without, set RAY_AUTH_MODE=disabled."
        ) from error
    return ray


def _check_reachable(address: str) -> None:
    """Ray itself goes on trying for minutes."""
    if address == "auto":
        return
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if not (host and port.isdigit()):
        raise ConfigError(
            f"--ray-address {address} is not an address: write HOST:PORT, ray://HOST:PORT or auto."
        )
    try:
        socket.create_connection((host, int(port)), timeout=_REACHABLE_WITHIN).close()
    except (OSError, OverflowError) as error:
        raise ConfigError(
            f"Nobody answers at --ray-address {address} ({error}): start the cluster with "
            "`ray start --head`, or leave the address out for one on this machine."
        ) from error
