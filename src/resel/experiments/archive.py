"""Finished runs as their numbers alone: small enough to be kept beside a result and handed on.

An archived run is a run directory without weights, checkpoints and replay: settings, machine,
evaluations and the result. It can be drawn, reported and compared like any other, on any machine,
but neither played nor resumed. Which run it is of says its name, which is made from its settings.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from resel.analysis.runs import Lines, environment_so_far, outcome_of, result_so_far
from resel.runs import (
    RunDirectory,
    read_metrics,
    to_json,
    whole_directory,
    write_file,
    write_json,
    writing,
)

MEASURED = "measured.json"
"""What its agents did when they were measured after the training, as long as they were there."""
_CONFIG, _METRICS = "config.json", "metrics.jsonl"
_EVALUATION = "eval"
_DIGITS = 6
_OF_A_PLACE = ("platform",)
_WHERE = ("--run-dir", "--resume")


def find_archived(archive: Path, name: str, steps: int) -> Path | None:
    """The run of this name in the archive, if it came to its end there."""
    place = archive / name
    return place if outcome_of(result_so_far(place), steps) is not None else None


def archive_run(run: Path, archive: Path, measured: Mapping[str, Any] | None = None) -> None:
    """Keep the numbers of a finished run; `measured` goes beside what was kept before."""
    target = (archive / run.name).resolve()
    if target == run.resolve():
        return
    directory = RunDirectory.open(run, read_only=True)
    with (
        writing(
            f"The run {run.name} could not be archived in {archive}",
            "The run itself is whole; the same command archives it once there is room.",
        ),
        whole_directory(target) as temporary,
    ):
        write_file(temporary / _CONFIG, [(run / _CONFIG).read_bytes()])
        lines = _thinned(read_metrics(run / _METRICS))
        text = "".join(json.dumps(to_json(line), allow_nan=False) + "\n" for line in lines)
        write_file(temporary / _METRICS, [text.encode()])
        write_json(temporary / "environment.json", _environment(run))
        write_json(temporary / "result.json", directory.read_result())
        known = {**read_measured(target), **(measured or {})}
        if known:
            write_json(temporary / MEASURED, known)


def read_measured(run: Path) -> dict[str, Any]:
    """What an archived run knows of its agents; nothing if it is none, or knows nothing."""
    try:
        found = json.loads((run / MEASURED).read_bytes())
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _thinned(lines: Lines) -> Iterator[dict[str, Any]]:
    """All evaluations, and of every other kind the last line before each and before the end."""
    waiting: dict[Any, Mapping[str, Any]] = {}
    for line in lines:
        if line.get("kind") != _EVALUATION:
            waiting[line.get("kind")] = line
            continue
        yield from map(_rounded, (*waiting.values(), line))
        waiting.clear()
    yield from map(_rounded, waiting.values())


def _rounded(line: Mapping[str, Any]) -> dict[str, Any]:
    return {
        name: float(f"{value:.{_DIGITS}g}") if isinstance(value, float) else value
        for name, value in line.items()
    }


def _environment(run: Path) -> dict[str, Any]:
    """The machine, without what only says where things lay there."""
    found = {k: v for k, v in environment_so_far(run).items() if k not in _OF_A_PLACE}
    starts = found.get("starts")
    if isinstance(starts, list):
        found["starts"] = [{**start, "command": _typed(start["command"])} for start in starts]
    return found


def _typed(command: str) -> str:
    """A command without the folder of its run."""
    words = shlex.split(command)
    for flag in _WHERE:
        if flag in words[:-1]:
            at = words.index(flag)
            del words[at : at + 2]
    return shlex.join(words)
