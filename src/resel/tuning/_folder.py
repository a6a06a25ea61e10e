"""The folder of a search: it belongs to one study, and tells its trials from those elsewhere."""

from __future__ import annotations

import json
import time
import uuid
from contextlib import suppress
from pathlib import Path
from typing import Any

from resel.errors import ConfigError
from resel.tuning._search import Search

_FILE = "search.json"
_TRIES, _WAIT = 10, 0.05


def own_folder(search: Search) -> str:
    """Make the folder, or find that it is of this study; the name by which its trials know it.

    Machines that share a database may have folders of the same path, but not of the same name.
    """
    search.out.mkdir(parents=True, exist_ok=True)
    path = search.out / _FILE
    with suppress(FileExistsError), path.open("x", encoding="utf-8") as file:
        json.dump({"study": search.study, "origin": uuid.uuid4().hex}, file)
    try:
        document = _read(path)
        study, origin = str(document["study"]), str(document["origin"])
    except (ValueError, KeyError, TypeError) as error:
        raise ConfigError(
            f"{path} cannot be read ({type(error).__name__}: {error}): remove it, or name another "
            "--out. Trials that are under way are then not taken up."
        ) from error
    if study != search.study:
        raise ConfigError(
            f"--out {search.out} holds the study {study!r}, and this is {search.study!r}, whose "
            "preset, table and time are others: name another --out."
        )
    return origin


def _read(path: Path) -> Any:
    """What another worker may be writing at this moment."""
    for _ in range(_TRIES):
        with suppress(ValueError):
            return json.loads(path.read_bytes())
        time.sleep(_WAIT)
    return json.loads(path.read_bytes())
