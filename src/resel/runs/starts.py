"""When a run was started, and by which command: each start adds a line to environment.json."""

from __future__ import annotations

import shlex
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from resel.errors import ReselError
from resel.runs.directory import RunDirectory
from resel.runs.machine import checkout_commit


def starts_with_this(directory: RunDirectory) -> list[dict[str, Any]]:
    """The starts that are on record, the first one first, and this one."""
    try:
        recorded = (directory.read_environment() or {}).get("starts")
    except ReselError:  # nothing that a run needs to go on
        recorded = None
    earlier = recorded if isinstance(recorded, list) else []
    now = datetime.now(UTC).isoformat(timespec="seconds")
    return [*earlier, {"at": now, "command": command_line(), "commit": checkout_commit()}]


def command_line() -> str:
    """The words this program was started with, as one types them."""
    spec = getattr(sys.modules["__main__"], "__spec__", None)  # of `python -m resel`
    name = spec.name.partition(".")[0] if spec else Path(sys.argv[0]).name
    return shlex.join([name, *sys.argv[1:]])
