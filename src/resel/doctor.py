"""Is this installation in order? What `resel doctor` looks at: one finding after another."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import platform
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import torch
from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

from resel.benchmarks import cache_folder
from resel.errors import ReselError
from resel.networks import check_kernels
from resel.runs import available_memory, describe_machine, format_bytes
from resel.tasks import TaskSpec, all_tasks, is_installed, make_env
from resel.training import gpu_fault
from resel.training.threads import is_busy, usable_cores

State = Literal["good", "note", "missing", "bad"]
_LITTLE_MEMORY = 2 << 30
_LITTLE_DISK = 2 << 30
_NOT_FOR_USERS = ("all", "dev")


@dataclass(frozen=True)
class Finding:
    """One thing that was looked at."""

    part: str
    what: str
    state: State
    """missing is an extra that is not installed; only what is bad keeps resel from working."""
    text: str
    seconds: float | None = None
    """How long a kernel took, compiling included; None for all else."""


def examine() -> Iterator[Finding]:
    """Everything; what takes longest comes last."""
    yield from _versions()
    yield from _devices()
    yield from _room()
    yield from _extras()
    yield from _simulators()
    for device in _usable_devices():
        yield from _kernels(device)


def _versions() -> Iterator[Finding]:
    yield Finding(
        "versions", "python", "good", f"{platform.python_version()}, {platform.platform()}"
    )
    requirements = _requirements()
    if not requirements:
        text = "not installed: it runs from its source, and what it needs cannot be looked up"
        yield Finding("versions", "resel", "note", text)
    else:
        yield Finding("versions", "resel", "good", importlib.metadata.version("resel"))
    for needed in requirements:
        if needed.marker is None:
            yield _package(needed, "versions")


def _package(needed: Requirement, part: str, absent: State = "bad") -> Finding:
    """Whether a package is there, in a version that will do."""
    try:
        version = importlib.metadata.version(needed.name)
    except importlib.metadata.PackageNotFoundError:
        return Finding(part, needed.name, absent, f"not installed: pip install '{needed}'")
    if needed.specifier.contains(version, prereleases=True):
        return Finding(part, needed.name, "good", version)
    text = f"{version}, where {needed.specifier} is needed: pip install '{needed}'"
    return Finding(part, needed.name, "bad", text)


def _requirements(package: str = "resel") -> list[Requirement]:
    """What an installed package asks for, its extras included."""
    try:
        texts = importlib.metadata.requires(package) or []
    except importlib.metadata.PackageNotFoundError:
        return []
    found = []
    for text in texts:
        try:
            found.append(Requirement(text))
        except InvalidRequirement:  # of a tool that is newer than this library
            continue
    return found


def _of_extra(package: str, extra: str) -> list[Requirement]:
    """What an extra of a package brings, and what the extras of that bring."""
    found = [
        needed
        for needed in _requirements(package)
        if needed.marker is not None
        and needed.marker.evaluate({"extra": extra})
        and not needed.marker.evaluate({"extra": ""})
    ]
    deeper = [(needed.name, name) for needed in found for name in needed.extras]
    return found + [further for pair in deeper for further in _of_extra(*pair)]


def _devices() -> Iterator[Finding]:
    gpus = list(_gpus())  # first: torch would warn where it is asked by others
    machine = describe_machine("cpu")
    cores = usable_cores()
    instructions = torch.backends.cpu.get_cpu_capability()
    text = f"{machine['cpu'] or 'unknown'}, {cores} cores, {instructions}"
    yield Finding("devices", "cpu", "good", text)
    yield from gpus
    threads, load = torch.get_num_threads(), os.getloadavg()[0]
    busy = is_busy(load, cores)
    words = f"{threads} for large networks, 1 for small ones; the load of the machine is {load:.1f}"
    more = ": it is busy, and everything takes longer" if busy else ""
    yield Finding("devices", "threads", "note" if busy else "good", words + more)


def _gpus() -> Iterator[Finding]:
    """Each GPU, or a sentence on why there is none."""
    fault = gpu_fault()
    cards = _cards()
    if fault is not None and not cards:
        good = f"none, and none is needed: all runs on the CPU ({fault.why})"
        yield Finding("devices", "gpu", fault.state, good if fault.state == "good" else fault.why)
        return
    for card in cards:
        if (fault := gpu_fault(card)) is not None:
            yield Finding("devices", str(card), fault.state, fault.why)
            continue
        properties = torch.cuda.get_device_properties(card)
        text = f"{properties.name}, {format_bytes(properties.total_memory)}"
        yield Finding("devices", str(card), "good", text)
    if importlib.util.find_spec("triton") is None:
        text = "not installed: the scan takes torch's own operations, right but slower"
        yield Finding("devices", "triton", "note", f"{text}. pip install triton")


def _usable_devices() -> list[torch.device]:
    return [torch.device("cpu"), *(gpu for gpu in _cards() if gpu_fault(gpu) is None)]


def _cards() -> list[torch.device]:
    if not torch.cuda.is_available():  # the driver may know cards that cannot be used
        return []
    return [torch.device("cuda", index) for index in range(torch.cuda.device_count())]


def _room() -> Iterator[Finding]:
    free = available_memory()
    if free is None:
        yield Finding("room", "memory", "note", "this system does not tell how much is free")
    else:
        few = ": the replay buffer of large tasks may not fit" if free < _LITTLE_MEMORY else ""
        text = f"{format_bytes(free)} free{few}"
        yield Finding("room", "memory", "note" if few else "good", text)
    disk = shutil.disk_usage(Path.cwd()).free
    few = ": checkpoints of large runs may not fit" if disk < _LITTLE_DISK else ""
    text = f"{format_bytes(disk)} free in this folder{few}"
    yield Finding("room", "disk", "note" if few else "good", text)
    yield _cache(cache_folder())


def _cache(folder: Path) -> Finding:
    """Whether what was measured and compiled can be kept."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        text = f"{folder} cannot be written ({error.strerror}): name another in RESEL_CACHE"
        return Finding("room", "cache", "note", text)
    return Finding("room", "cache", "good", str(folder))


def _extras() -> Iterator[Finding]:
    """One line for each extra."""
    known = bool(_requirements())
    extras = importlib.metadata.metadata("resel").get_all("Provides-Extra") if known else []
    for extra in extras or []:
        if extra in _NOT_FOR_USERS:
            continue
        parts = _parts(extra)
        absent = [part.what for part in parts if part.state == "missing"]
        if wrong := [f"{part.what} {part.text}" for part in parts if part.state == "bad"]:
            yield Finding("extras", extra, "note", "; ".join(wrong))
        elif absent:
            text = f"without {', '.join(absent)}: pip install 'resel[{extra}]'"
            yield Finding("extras", extra, "missing", text)
        else:
            yield Finding("extras", extra, "good", ", ".join(f"{p.what} {p.text}" for p in parts))


def _parts(extra: str) -> list[Finding]:
    """The packages of an extra, each once: of two that ask for one, who is not content counts."""
    found: dict[str, Finding] = {}
    for needed in _of_extra("resel", extra):
        part = _package(needed, "extras", "missing")
        if part.state == "bad":
            found[canonicalize_name(needed.name)] = part
        else:
            found.setdefault(canonicalize_name(needed.name), part)
    return list(found.values())


def _simulators() -> Iterator[Finding]:
    """A few steps in one task of every family that can be made here."""
    families: dict[str, TaskSpec] = {}
    for task in all_tasks():
        families.setdefault(task.family, task)
    for family, task in families.items():
        if not is_installed(task):
            extra = task.needs.extra if task.needs else ""
            text = f"{task.id}: pip install 'resel[{extra}]'"
            yield Finding("simulators", family, "missing", text)
            continue
        try:
            with closing(make_env(task.id)) as env:
                env.reset(seed=1)
                env.step(env.action_space.sample())
        except ReselError as error:
            yield Finding("simulators", family, "bad", str(error))
        except Exception as error:  # whatever a simulator raises
            text = f"{task.id} failed ({type(error).__name__}: {error})"
            yield Finding("simulators", family, "bad", text)
        else:
            yield Finding("simulators", family, "good", f"{task.id} takes steps")


def _kernels(device: torch.device) -> Iterator[Finding]:
    part = f"kernels on {device}"
    for check in check_kernels(device):
        text = check.fault or f"differs from its reference by {check.deviation:.1e}"
        if not check.good and device.type == "cpu":
            text += ": do not train here; install numba and llvmlite again"
        elif not check.good:
            text += ": train with --device cpu, or update the driver, torch and Triton"
        yield Finding(part, check.name, "good" if check.good else "bad", text, check.seconds)
