"""What a run ran on: bit-exact results hold for the same machine type, versions and threads."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import subprocess
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import torch

NUMBERS_SINCE = "0.3.0"
"""The release since which the same settings give the same bits, or the coming one. A release that
changes numbers names itself here; runs of others go on exactly."""

_CHANGED = ("status", "--porcelain", "--untracked-files=no", "--", "src")
_PACKAGES = (
    "resel",
    "torch",
    "numpy",
    "numba",
    "llvmlite",
    "gymnasium",
    "safetensors",
    "mujoco",
    "pybullet",
    "pybullet_envs_gymnasium",
)
_OF_TASKS = ("popgym", "minigrid")
"""Written down, but not compared: whoever installs one does not change the runs of other tasks."""


def describe_machine(device: str) -> dict[str, Any]:
    """Plain data for environment.json; what cannot be found out is None."""
    gpu = device if device.startswith("cuda") else None  # or the first one there is
    return {
        "python": platform.python_version(),
        "platform": platform.platform(),
        "cpu": _cpu_model(),
        "cores": os.cpu_count(),
        "memory_bytes": _memory_bytes(),
        "gpu": torch.cuda.get_device_name(gpu) if torch.cuda.is_available() else None,
        "device": device,
        "threads": torch.get_num_threads(),
        "commit": checkout_commit(),
        "versions": {package: _version(package) for package in (*_PACKAGES, *_OF_TASKS)},
    }


@cache
def checkout_commit() -> str | None:
    """Of the checkout that this package is run from, with "-dirty" if the package was changed."""
    root = Path(__file__).resolve().parents[3]
    if not (root / ".git").exists() or not (root / "src" / "resel").is_dir():
        return None
    commit, changed = _git(root, "rev-parse", "--short=7", "HEAD"), _git(root, *_CHANGED)
    return commit if not (commit and changed) else f"{commit}-dirty"


def _git(root: Path, *words: str) -> str | None:
    own = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    try:
        told = subprocess.run(
            ["git", "--no-optional-locks", "-C", str(root), *words],
            capture_output=True,
            text=True,
            timeout=10,
            check=True,
            env=own,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return told.stdout.strip() or None


def numeric_machine(device: str) -> dict[str, Any]:
    """All that the bits of a result depend on besides the settings; a run goes on exactly only
    where this is the same."""
    on_gpu = device.startswith("cuda")
    return {
        "processor": _cpu_model(),
        "instructions": torch.backends.cpu.get_cpu_capability(),
        "system": f"{platform.system()} {platform.machine()}",
        "device": device,
        "gpu": torch.cuda.get_device_name(device) if on_gpu else None,
        "threads": torch.get_num_threads(),
        "python": ".".join(platform.python_version_tuple()[:2]),
        "resel": NUMBERS_SINCE,
        **{name: _version(name) for name in _PACKAGES if name not in ("resel", "safetensors")},
    }


def differences(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """What differs between two machines, in words."""
    names = [*now, *(name for name in before if name not in now)]
    pairs = [(name, before.get(name, "unknown"), now.get(name, "unknown")) for name in names]
    return [f"{name}: {then} then, {here} now" for name, then, here in pairs if then != here]


def _cpu_model() -> str | None:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return platform.processor() or None
    for line in lines:
        key, _, value = line.partition(":")
        if key.strip() == "model name":
            return value.strip()
    return platform.processor() or None


def _memory_bytes() -> int | None:
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):
        return None


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None
