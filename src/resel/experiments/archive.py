"""Finished runs as their numbers alone: small enough to be kept beside a result and handed on.

An archived run is a run directory without weights, checkpoints and replay: settings, machine,
evaluations and the result. It can be drawn, reported and compared like any other, on any machine,
but neither played nor resumed. Which run it is of says its name, which is made from its settings.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from resel.analysis.runs import (
    Ended,
    Lines,
    environment_so_far,
    last_recorded,
    outcome_of,
    result_so_far,
)
from resel.errors import RunDirectoryError
from resel.runs import (
    read_metrics,
    to_json,
    whole_directory,
    write_file,
    write_json,
    writing,
)

MEASURED = "measured.json"
"""What its agents did when they were measured after the training, as long as they were there."""
_CONFIG, _METRICS, _RESULT = "config.json", "metrics.jsonl", "result.json"
_FILES = {_CONFIG, _METRICS, _RESULT, "environment.json", MEASURED}
_EVALUATION, _TIMING, _EARNED = "eval", "timing", "episode_return"
_CLOCK = ("wall_seconds", "cpu_seconds")
_DIGITS = 6
_OF_A_PLACE = ("platform",)
_WHERE = ("--run-dir", "--resume")


def find_archived(
    archive: Path, name: str, steps: int, measured: bool = False
) -> tuple[Path, Ended] | None:
    """The run of this name in the archive and how it ended, if its numbers are all there.

    Where agents are to be `measured`, what they did has to be there too.
    """
    place = archive / name
    ended = outcome_of(result_so_far(place), steps)
    if ended is None or (measured and not read_measured(place)):
        return None
    if ended == "completed" and last_recorded(place)[1] is None:
        return None
    return place, ended


def archive_run(run: Path, archive: Path, measured: Mapping[str, Any] | None = None) -> None:
    """Keep the numbers of a finished run, and what was `measured` of its agents.

    What the archive has already stays, unless the run was made anew.
    """
    target = (archive / run.name).resolve()
    if target == run.resolve():
        return
    if target.exists():
        _refuse_foreign(target)
        if _numbers(target) == _numbers(run):
            known = read_measured(target)
            if measured and {**known, **measured} != known:
                with _archiving(run, archive):
                    write_json(target / MEASURED, {**known, **measured})
            return
    lines = list(_short(read_metrics(run / _METRICS)))
    with _archiving(run, archive), whole_directory(target) as temporary:
        write_file(temporary / _CONFIG, [(run / _CONFIG).read_bytes()])
        text = "".join(json.dumps(to_json(line), allow_nan=False) + "\n" for line in lines)
        write_file(temporary / _METRICS, [text.encode()])
        write_json(temporary / "environment.json", _environment(run))
        write_json(temporary / _RESULT, result_so_far(run))
        if measured:
            write_json(temporary / MEASURED, dict(measured))


def read_measured(run: Path) -> dict[str, Any]:
    """What an archived run knows of its agents; nothing if it is none, or knows nothing."""
    try:
        found = json.loads((run / MEASURED).read_bytes())
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _numbers(run: Path) -> dict[str, Any]:
    """What is the same however often a run is made."""
    return {name: v for name, v in result_so_far(run).items() if name not in _CLOCK}


def _archiving(run: Path, archive: Path) -> AbstractContextManager[None]:
    return writing(
        f"The run {run.name} could not be archived in {archive}",
        "The run itself is whole: the same command archives it once that works.",
    )


def _refuse_foreign(target: Path) -> None:
    """Leave alone what has more than numbers."""
    if not target.is_dir() or {entry.name for entry in target.iterdir()} - _FILES:
        raise RunDirectoryError(
            f"{target} is there already and is no archived run: it was left as it is. Give "
            "--archive a folder of its own."
        )


def _short(lines: Lines) -> Iterator[dict[str, Any]]:
    """Evaluations, in between what was earned while exploring, and a whole line of the log."""
    waiting: list[Mapping[str, Any]] = []
    for line in lines:
        if line.get("kind") != _EVALUATION:
            waiting.append(line)
            continue
        yield from _between(waiting)
        yield dict(line)
        waiting.clear()
    yield from _between(waiting)


def _between(lines: Lines) -> Iterator[dict[str, Any]]:
    """The clock, what every episode earned while exploring, and of other numbers the last ones."""
    last = {line.get("kind"): number for number, line in enumerate(lines)}
    for number, line in enumerate(lines):
        kind = line.get("kind")
        if kind == _TIMING:
            yield _only(line, "seconds", "cpu_seconds")
        elif number != last[kind]:
            if _EARNED in line:
                yield _only(line, _EARNED)
        else:
            yield {name: v if name == _EARNED else _rounded(v) for name, v in line.items()}


def _only(line: Mapping[str, Any], *names: str) -> dict[str, Any]:
    return {name: line[name] for name in ("step", "kind", *names) if name in line}


def _rounded(value: Any) -> Any:
    return float(f"{value:.{_DIGITS}g}") if isinstance(value, float) else value


def _environment(run: Path) -> dict[str, Any]:
    """The machine, without what only says where things lay there."""
    found = {k: v for k, v in environment_so_far(run).items() if k not in _OF_A_PLACE}
    starts = found.get("starts")
    if isinstance(starts, list):
        found["starts"] = [
            {**start, "command": _typed(str(start["command"]))}
            for start in starts
            if isinstance(start, dict) and "command" in start
        ]
    return found


def _typed(command: str) -> str:
    """A command without the folder of its run; of other files the names alone."""
    words = shlex.split(command)
    if words[1:2] == ["resume"]:
        del words[2:3]
    for flag in _WHERE:
        if flag in words:
            at = words.index(flag)
            del words[at : at + 2]
    typed = [w for w in words if not w.startswith(tuple(f"{flag}=" for flag in _WHERE))]
    return shlex.join(Path(word).name if Path(word).is_absolute() else word for word in typed)
