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
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

from resel._children import PATIENCE
from resel.errors import ConfigError, MissingDependencyError
from resel.experiments.engines import _process
from resel.experiments.engines._ledger import Ledger
from resel.experiments.plan import Job
from resel.runs import is_in_use

_POLL = 0.5
_REACHABLE_WITHIN = 5.0
_OBJECT_STORE = 100_000_000
"""Bytes; the smallest Ray likes, as we store nothing there."""


def run_ray(ledger: Ledger, tick: Callable[[], None], *, slots: int, address: str | None) -> None:
    """Work through the ledger on the cluster at `address`, or on one of our own on this machine.

    At most `slots` runs go on at a time; 0 leaves it to the cluster named by `address`. When
    interrupted, runs save before it is passed on.
    """
    if not ledger.waiting():
        return
    threads = max(job.threads for job in ledger.waiting())
    ray = _connect(slots * threads, address)
    running: dict[Any, Job] = {}
    try:
        _work(ray, ledger, tick, running, slots, shared=address is not None)
    finally:
        ray.shutdown()  # ends our workers, and with them their runs, which save
        _let_save(running.values(), ledger)


def _work(
    ray: Any,
    ledger: Ledger,
    tick: Callable[[], None],
    running: dict[Any, Job],
    slots: int,
    shared: bool,
) -> None:
    """Place runs until none is left; `running` is kept up to date for whoever has to end them."""
    # Sent as it is, or every worker would import all of resel, torch included, to find it.
    ray.cloudpickle.register_pickle_by_value(_process)
    gpus = 1 if ray.cluster_resources().get("GPU") else 0
    # A lost worker or node is ours to count, so Ray itself tries nothing again.
    remote = ray.remote(max_retries=0, num_gpus=gpus)(_process.run_to_end)
    not_before: dict[Job, float] = {}
    ending: set[Any] = set()
    while running or ledger.waiting():
        has = ray.cluster_resources()  # machines come and go
        for job in ledger.waiting():
            if (slots and len(running) >= slots) or _is_full(has, running.values(), job, gpus):
                break
            if time.monotonic() < not_before.get(job, 0.0) or ledger.held(job):
                continue
            ledger.started(job)
            # On this machine alone, what fits into memory was decided with the number of slots.
            wants = {"CPU": job.threads, "GPU": gpus, "memory": job.memory if shared else 0}
            if not _has_place(ray, wants):
                ledger.told(job, f"waits for a machine with {_words(wants)}: the cluster has none")
            place = remote.options(num_cpus=job.threads, memory=wants["memory"] or None)
            running[place.remote(job.command, job.run)] = job
        tick()
        for reference, job in running.items():
            if reference not in ending and ledger.unwanted(job):
                ending.add(reference)
                ray.cancel(reference)  # not by force, which would kill the run before it saves
        if not running:
            time.sleep(_POLL)
            continue
        done, _ = ray.wait(list(running), num_returns=1, timeout=_POLL)
        for reference in done:
            job = running.pop(reference)
            wait = ledger.ended(job, *_outcome(ray, reference))
            not_before[job] = time.monotonic() + wait
    tick()


def _is_full(has: Mapping[str, float], running: Collection[Job], job: Job, gpus: int) -> bool:
    """Whether the job would only wait inside Ray, which shows it to nobody; one always goes on."""
    cpus = sum(other.threads for other in running) + job.threads
    wants_too_much = cpus > has.get("CPU", 0) or gpus * (len(running) + 1) > has.get("GPU", 0)
    return bool(running) and wants_too_much


def _has_place(ray: Any, wants: dict[str, int]) -> bool:
    """Whether some machine could run this if it were idle; Ray waits for one without a word."""
    machines = [node["Resources"] for node in ray.nodes() if node["Alive"]]
    return any(all(has.get(name, 0) >= wants[name] for name in wants) for has in machines)


def _words(wants: dict[str, int]) -> str:
    memory = f", {wants['memory'] / 1e9:.1f} GB of memory" if wants["memory"] else ""
    return f"{wants['CPU']} CPUs" + (f", {wants['GPU']} GPU" if wants["GPU"] else "") + memory


def _let_save(jobs: Iterable[Job], ledger: Ledger) -> None:
    """Runs notice by themselves that their worker is gone; their locks tell when they are done."""
    deadline = time.monotonic() + PATIENCE
    for job in jobs:
        while is_in_use(job.run) and time.monotonic() < deadline:
            time.sleep(_POLL)
        ledger.stopped(job)


def _outcome(ray: Any, reference: Any) -> tuple[int | None, str]:
    try:
        code, said = ray.get(reference)
    except ray.exceptions.RayError as error:  # the worker or its machine is gone
        return None, f"{type(error).__name__}: the machine or the worker was lost"
    how = f"killed by signal {-code}" if code < 0 else f"exit code {code}"
    return code, f"{how}: {said}" if said else how


def _connect(cpus: int, address: str | None) -> Any:
    """Ray, connected; what it does besides placing processes is turned off."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.setdefault("RAY_AUTH_MODE", "token")
    if address is None:
        # Or anybody who reaches its ports could run code here: Ray's name for "loopback only".
        os.environ["RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"] = "0"
        os.environ.setdefault("RAY_AUTH_TOKEN", secrets.token_hex(32))
    else:
        check_reachable(address)
    try:
        ray = importlib.import_module("ray")
    except ImportError as error:
        raise MissingDependencyError(
            "--engine ray needs the package ray: pip install 'resel[ray]'."
        ) from error
    own = {"num_cpus": cpus, "object_store_memory": _OBJECT_STORE, "include_dashboard": False}
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


def check_reachable(address: str) -> None:
    """Refuse an address at which nobody listens: Ray itself goes on trying for minutes."""
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
