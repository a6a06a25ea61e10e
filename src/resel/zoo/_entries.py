"""The agents that come with resel, by name."""

from __future__ import annotations

import difflib
import os
from dataclasses import dataclass
from pathlib import Path

from resel.errors import ConfigError, DamagedFileError
from resel.zoo._card import Card, read_card

PREFIX = "zoo:"
AGENTS = Path(__file__).with_name("agents")


@dataclass(frozen=True)
class Entry:
    """An agent of the zoo: its folder, and its card or why that cannot be used."""

    name: str
    folder: Path
    card: Card | None
    problem: str | None = None

    @property
    def size(self) -> int:
        """Bytes of all its files."""
        return sum(path.stat().st_size for path in self.folder.iterdir())


def entries() -> list[Entry]:
    """All agents, sorted by name."""
    return [_entry(name) for name in _names()]


def get_entry(name: str) -> Entry:
    """The agent of that name, checked; near matches for one that is not there."""
    name, known = name.removeprefix(PREFIX), _names()
    if name not in known:
        near = difflib.get_close_matches(name, known, n=3)
        hint = f"Did you mean {', '.join(near)}?" if near else f"There are: {', '.join(known)}."
        raise ConfigError(f"There is no agent {name!r} in the zoo. {hint} See `resel zoo list`.")
    entry = _entry(name)
    if entry.problem is not None:
        raise DamagedFileError(f"The agent {name!r} of the zoo cannot be used. {entry.problem}")
    return entry


def locate(path: str | os.PathLike[str]) -> Path:
    """The folder of a saved agent or a run: `zoo:NAME`, or the path as it is."""
    text = os.fspath(path)
    return get_entry(text).folder if text.startswith(PREFIX) else Path(text)


def _names() -> list[str]:
    try:
        return sorted(path.name for path in AGENTS.iterdir() if path.is_dir())
    except OSError:  # an installation without them
        return []


def _entry(name: str) -> Entry:
    folder = AGENTS / name
    try:
        return Entry(name, folder, read_card(folder))
    except DamagedFileError as error:
        return Entry(name, folder, None, str(error))
