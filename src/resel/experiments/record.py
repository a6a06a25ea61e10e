"""experiment.json: what an experiment is made of, for people and for `resel report`.

See docs/experiments.md for its fields.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import resel
from resel.analysis.runs import environment_so_far
from resel.choices import Scale
from resel.errors import DamagedFileError, RunDirectoryError
from resel.experiments._settings import Experiment
from resel.experiments.engines import Entry
from resel.experiments.plan import Member
from resel.runs import describe_machine

FORMAT, VERSION = "resel-experiment", 1
FILE = "experiment.json"


def check_folder(folder: Path, experiment: Experiment, scale: Scale) -> None:
    """Refuse a folder that holds something else than this experiment at this scale."""
    path = folder / FILE
    if not path.exists():
        return
    try:
        data = json.loads(path.read_bytes())
        found = (data["format"], data["version"], data["name"], data["scale"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise DamagedFileError(
            f"{path} cannot be read ({type(error).__name__}: {error}): delete it, the runs are not "
            "touched by that, or name another --out."
        ) from error
    if found[0] != FORMAT or not isinstance(found[1], int) or found[1] > VERSION:
        raise DamagedFileError(
            f"{path} is of format {found[0]!r} version {found[1]!r}, and this resel knows "
            f"{FORMAT!r} up to {VERSION}: update resel, or name another --out."
        )
    if found[2:] != (experiment.name, scale):
        raise RunDirectoryError(
            f"{folder} holds {found[2]} at scale {found[3]}: name another --out for {scale}."
        )


def write_record(
    folder: Path,
    experiment: Experiment,
    scale: Scale,
    members: Sequence[Member],
    entries: dict[Path, Entry],
    command: str,
    files: Sequence[str] = (),
    notes: Sequence[str] = (),
) -> None:
    """Replace the record in one step."""
    document = {
        "format": FORMAT,
        "version": VERSION,
        "name": experiment.name,
        "title": experiment.title,
        "paper": experiment.shows,
        "kind": experiment.kind,
        "scale": scale,
        "command": command,
        "resel": resel.__version__,
        "machine": describe_machine("auto"),
        "runs": [_run(folder, member, entries[member.run]) for member in members],
        "files": list(files),
        "notes": [*notes, *_other_versions(members)],
    }
    temporary = folder / f".tmp-{FILE}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        temporary.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
        os.replace(temporary, folder / FILE)
    except OSError as error:
        raise RunDirectoryError(
            f"{folder} cannot be written to ({error.strerror}): name another --out, or make room."
        ) from error


def _run(folder: Path, member: Member, entry: Entry) -> dict[str, Any]:
    setting = member.setting
    return {
        "path": Path(os.path.relpath(member.run, folder)).as_posix(),
        "label": setting.group,
        "panel": setting.place,
        "x": setting.x,
        "task": setting.task,
        "seed": member.seed,
        "steps": member.steps,
        "status": entry.status,
        "problem": entry.problem,
        "overrides": dict(setting.overrides),
    }


def _other_versions(members: Sequence[Member]) -> list[str]:
    """Finished runs are taken as they are, but which resel made them is told."""
    counts: dict[str, int] = {}
    for run in dict.fromkeys(member.run for member in members):
        version = str((environment_so_far(run).get("versions") or {}).get("resel"))
        counts[version] = counts.get(version, 0) + 1
    return [
        f"{count} of the runs were made with resel {version}, this is {resel.__version__}"
        for version, count in counts.items()
        if version not in (resel.__version__, "None")
    ]
