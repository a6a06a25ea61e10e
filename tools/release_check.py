"""What `make release-check` runs: the package as a user gets it, away from the repository.

Wheel and sdist are built, the wheel is installed with the extra `all` into an empty environment in
a temporary folder, and every verb of the command is run there. A table tells how each went.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import tempfile
import textwrap
import time
import venv
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "src" / "resel"
SMALL = "--preset small --size tiny --warmup-steps 200 --batch-steps 100 --eval-every 200"
TUNED = "--preset small --size tiny --eval-every 200 --settings warmup_steps=200 batch_steps=100"
LIMIT = 600.0
"""Seconds that a command may take."""


class Step(NamedTuple):
    """A command, and the files it must leave."""

    command: str
    files: tuple[str, ...] = ()


STEPS = (
    Step("--version"),
    Step("--help"),
    Step("doctor"),
    Step("tasks"),
    Step("methods --show resel"),
    Step(f"train Pendulum-V-v0 {SMALL} --steps 600 --run-dir runs/pendulum", ("runs/pendulum",)),
    Step("resume runs/pendulum --steps 800", ("runs/pendulum/result.json",)),
    Step("eval runs/pendulum --episodes 2"),
    Step("watch runs/pendulum --out film.gif", ("film.gif",)),
    Step("watch runs/pendulum --out film.mp4", ("film.mp4",)),
    Step("watch runs/pendulum --out drawing.png", ("drawing.png",)),
    Step("plot runs/pendulum --out curve.svg --csv curve.csv", ("curve.svg", "curve.csv")),
    Step(
        "diagnose runs/pendulum --episodes 2 --out runs/pendulum/diagnosis",
        ("runs/pendulum/diagnosis/diagnosis.json", "runs/pendulum/diagnosis/diagnosis.png"),
    ),
    Step("report runs --out report.html", ("report.html",)),
    Step("export runs/pendulum --out policy", ("policy/policy.onnx", "policy/policy.h")),
    Step("export --check policy"),
    Step("compare Pendulum-V-v0 --methods resel,sac-mlp --preset small --seeds 1 --dry-run"),
    Step("reproduce fig-lr-ablation --dry-run"),
    Step(
        f"tune Pendulum-V-v0 {TUNED} --trials 2 --workers 1 --steps 600 --out tuned",
        ("tuned/preset.json",),
    ),
    Step("zoo list"),
    Step("zoo get pendulum-v --out pendulum-v", ("pendulum-v/README.md",)),
    Step("eval zoo:pendulum-v --episodes 2"),
    Step("bench export --repetitions 1 --steps 50 --out bench", ("bench",)),
)


def unpacked() -> set[str]:
    """The package's files, as paths in a wheel."""
    found = (path for path in SOURCE.rglob("*") if path.is_file())
    return {
        path.relative_to(SOURCE.parent).as_posix()
        for path in found
        if "__pycache__" not in path.parts
    }


def missing_from(wheel: Path) -> set[str]:
    """Files of the package that the wheel has not."""
    with zipfile.ZipFile(wheel) as archive:
        return unpacked() - set(archive.namelist())


def build(folder: Path) -> Path:
    """Make an sdist, and from that the wheel; returns the latter."""
    _say("Building wheel and sdist")
    _call([sys.executable, "-m", "build", "--no-isolation", "--outdir", str(folder), str(ROOT)])
    (wheel,) = folder.glob("*.whl")
    if lost := missing_from(wheel):
        sys.exit(
            f"{wheel.name} lacks {', '.join(sorted(lost))}: see `tool.hatch` in pyproject.toml."
        )
    return wheel


def install(wheel: Path, folder: Path) -> Path:
    """Put the wheel into an empty environment; returns where its commands are."""
    _say("Installing it with the extra `all` into an empty environment (several minutes)")
    venv.create(folder, with_pip=True)
    pip = [str(folder / "bin" / "python"), "-m", "pip", "install", "--quiet"]
    pip += ["--disable-pip-version-check", f"{wheel}[all]", "-c", str(ROOT / "constraints.txt")]
    _call(pip)
    return folder / "bin"


def run_all(commands: Path, folder: Path) -> bool:
    """Every step, and the help of every verb, in one folder; whether all went well."""
    folder.mkdir()
    code = "import resel, sys; sys.exit(not resel.__file__.startswith(sys.prefix))"
    _call([str(commands / "python"), "-c", code], folder)
    steps = [*STEPS, *(Step(f"{verb} --help") for verb in verbs())]
    rows = []
    for step in steps:
        _say(f"resel {step.command}")
        began = time.monotonic()
        problem = _problem(step, commands, folder)
        rows.append((f"resel {step.command}", time.monotonic() - began, problem))
    width = 60
    print()
    for name, seconds, problem in rows:
        short = textwrap.shorten(name, width, placeholder=" ...")
        print(f"{short:{width}}  {seconds:6.1f} s  {problem or 'good'}")
    bad = sum(bool(problem) for _, _, problem in rows)
    print(f"\n{len(rows) - bad} of {len(rows)} commands went well.")
    return not bad


def verbs() -> Iterator[str]:
    """Those that are tried, each once."""
    yield from dict.fromkeys(step.command.split()[0] for step in STEPS if step.command[0] != "-")


def _problem(step: Step, commands: Path, folder: Path) -> str:
    """What went wrong with a step; empty if nothing did."""
    log = folder / "output.txt"
    with log.open("wb") as output:
        try:
            code = subprocess.run(
                [str(commands / "resel"), *shlex.split(step.command)],
                cwd=folder,
                env=_environment(),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                timeout=LIMIT,
            ).returncode
        except subprocess.TimeoutExpired:
            return f"took longer than {LIMIT:.0f} s"
    if code:
        print(log.read_text(encoding="utf-8", errors="replace"))
        return f"exit code {code}"
    lost = [name for name in step.files if not (folder / name).exists()]
    return f"did not write {', '.join(lost)}" if lost else ""


def _environment() -> dict[str, str]:
    """Nothing that would lead back to the repository."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    return {**kept, "OMP_NUM_THREADS": "1"}


def _call(command: list[str], folder: Path | None = None) -> None:
    if subprocess.run(command, cwd=folder, env=_environment()).returncode:
        sys.exit(f"This failed: {shlex.join(command)}")


def _say(text: str) -> None:
    print(f"==> {text}", flush=True)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(prefix="resel-release-") as place:
        there = Path(place)
        tools = install(build(there / "dist"), there / "environment")
        sys.exit(not run_all(tools, there / "work"))
