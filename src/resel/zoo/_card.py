"""card.json: what is known of a trained agent, and the hashes of the files around it.

{"format": "resel-card", "version": 1, "card": {"name": "pendulum-v", ...}, "sha256": "..."}
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from resel.errors import DamagedFileError

FORMAT, VERSION = "resel-card", 1
CARD = "card.json"
_FREE = (CARD, "README.md")
"""What has no hash in a card: itself, and the text that people complete."""


@dataclass(frozen=True)
class Card:
    """An agent in numbers."""

    name: str
    task: str
    method: str
    encoder: str | None
    seed: int
    steps: int | None
    """Environment steps it has learned from."""
    episodes: int
    """How many were played to measure it, with actions that are not drawn."""
    evaluation_seed: int
    """Chooses these episodes, as `resel eval --seed` does."""
    return_mean: float
    return_std: float
    """Over episodes."""
    length_mean: float
    success_rate: float | None
    command: str
    """What trains such an agent."""
    resel: str
    """The version that trained it."""
    commit: str | None
    """Of the code that trained it, where that is known."""
    seconds: float | None
    """That the training took."""
    note: str | None = None
    """A sentence on it, as how its seed was chosen."""
    files: dict[str, str] = field(default_factory=dict)
    """SHA-256 of each file beside the card."""


def write_card(folder: Path, card: Card) -> Card:
    """Write the card of a folder whose other files are complete; the card with their hashes."""
    files = sorted(path for path in folder.iterdir() if path.name not in _FREE)
    card = dataclasses.replace(card, files={path.name: _digest(path) for path in files})
    content = dataclasses.asdict(card)
    document = {"format": FORMAT, "version": VERSION, "card": content, "sha256": _own(content)}
    (folder / CARD).write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    return card


def read_card(folder: Path) -> Card:
    """The card of a folder, if neither it nor what it describes was altered."""
    path = folder / CARD
    try:
        document = json.loads(path.read_bytes())
        found, version, content = (document[key] for key in ("format", "version", "card"))
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise DamagedFileError(
            f"{path} cannot be read as a card ({type(error).__name__}: {error}). {_REMEDY}"
        ) from error
    if found != FORMAT or type(version) is not int or version > VERSION:
        raise DamagedFileError(
            f"{path} is of format {found!r} version {version!r}, and this resel reads {FORMAT!r} "
            f"up to {VERSION}. Update resel: pip install --upgrade resel."
        )
    if document.get("sha256") != _own(content):
        raise DamagedFileError(f"{path} was altered: it does not match its own hash. {_REMEDY}")
    try:
        card = Card(**content)
        files = dict(card.files)
    except (TypeError, ValueError) as error:
        raise DamagedFileError(f"{path} is no card of this resel ({error}). {_REMEDY}") from error
    for name, digest in files.items():
        file = folder / name
        if Path(name).name != name or not file.is_file():
            raise DamagedFileError(f"{file}, which {path} names, is missing. {_REMEDY}")
        if _digest(file) != digest:
            raise DamagedFileError(f"{file} is not the file that {path} describes. {_REMEDY}")
    return card


_REMEDY = "Take the folder from where it came once more, or write its card anew: resel zoo card."


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _own(content: Any) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
