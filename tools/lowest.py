"""Write the lowest versions that pyproject.toml promises, as constraints for pip.

python tools/lowest.py > FILE; torch (unless --torch is added) and what the tests are run with are
as in constraints.txt. --install and --tests tell what pip and pytest are to be given.
"""

from __future__ import annotations

import re
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PINNED = "torch"
"""Its floor is left to the workflow of the host, which may find a build that old."""
LEFT_OUT = ("mujoco",)
"""Extras that need more of a core package than the core does."""
TOOLS = ("hypothesis", "pytest", "pytest-xdist", "PyYAML", "sb3_contrib", "stable_baselines3")
"""What the tests are run with."""

WITHOUT = (
    "agent/test_keywords.py",
    "docs",
    "examples/test_notebooks.py",
    "experiments/test_ray_cluster.py",
    "experiments/test_ray_engine.py",
    "networks/ops/test_scan_gpu.py",
    "release",
    "test_imports.py",
)
"""Tests of what is only for development."""
INCOMPLETE = (
    "agent/test_vectors.py::test_no_vectorised_version",  # Gymnasium 1.1 stumbles when it fails
    "cli/test_tasks.py::test_tasks",
    "experiments/test_reproduce.py::test_ray_gives_the_same_runs",
    "tasks/test_envpool.py::test_arguments_of_pools",  # the same
    "test_doctor.py::test_this_installation_is_well",
)
"""Tests that want every extra, or more of a package than resel does."""

_REQUIREMENT = re.compile(r"([A-Za-z0-9._-]+)(?:\[([^]]*)\])?>=([0-9.]+)")


def extras() -> list[str]:
    """What `all` has, without those left out."""
    (everything,) = _project()["optional-dependencies"]["all"]
    names = everything.partition("[")[2].rstrip("]").split(",")
    return [name for name in names if name not in LEFT_OUT]


def floors() -> dict[str, str]:
    """The lowest version of each package that the core or one of the extras names."""
    project = _project()
    texts = list(project["dependencies"])
    for extra in extras():
        texts += project["optional-dependencies"][extra]
    found: dict[str, str] = {}
    for text in texts:
        match = _REQUIREMENT.match(text)
        if match is None:
            sys.exit(
                f"{text!r} in pyproject.toml has no lower bound: give it one, as in name>=1.0."
            )
        name, _, version = match.groups()
        key = name.lower().replace("_", "-")
        found[key] = max(version, found.get(key, "0"), key=_numbers)
    return found


def constraints(torch: bool = False) -> Iterator[str]:
    """One line for a package; with `torch` that is at its lowest too."""
    pinned = dict(_pinned())
    for name, version in floors().items():
        yield f"{name}=={pinned[name] if name == PINNED and not torch else version}"
    for name in TOOLS:
        yield f"{name}=={pinned[name.lower().replace('_', '-')]}"


def _pinned() -> Iterator[tuple[str, str]]:
    for line in (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines():
        name, is_pin, version = line.partition("==")
        if is_pin:
            yield name.lower().replace("_", "-"), version


def _project() -> dict[str, object]:
    document = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    return dict(document["project"])


def _numbers(version: str) -> list[int]:
    return [int(part) for part in version.split(".")]


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["--install"]:
            print(f".[{','.join(extras())}]", *TOOLS)
        case ["--tests"]:
            print(*(f"--ignore=tests/{name}" for name in WITHOUT))
            print(*(f"--deselect=tests/{name}" for name in INCOMPLETE))
        case [] | ["--torch"]:
            print(*constraints("--torch" in sys.argv), sep="\n")
        case other:
            sys.exit(f"{' '.join(other)} is not known: use nothing, --torch, --install or --tests.")
