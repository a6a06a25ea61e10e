"""What the command says of methods and benchmarks without loading them, for they need torch.

`python docs/write_help.py` writes kept.json from the code, which is the source: a test compares.
It holds for a process that has loaded no methods yet, where no package brings others.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from resel.cli._help import Help, print_help, without_help
from resel.cli._meanings import Flag
from resel.registry import ENCODERS, METHODS

FILE = Path(__file__).with_name("kept.json")


def kept() -> dict[str, Any] | None:
    """What is written down; None where the code itself has to be asked."""
    if "resel.methods" in sys.modules or METHODS.offered() or ENCODERS.offered():
        return None
    found: dict[str, Any] = json.loads(FILE.read_bytes())
    return found


def tells_help(verb: str, words: Sequence[str]) -> bool:
    """Print the help of a verb that takes settings, if nothing but help is asked for."""
    if not words or without_help(words) or (found := kept()) is None:
        return False
    page = found[verb]
    groups = [(title, _flags(part)) for title, part in page["groups"]]
    print_help(Help(**{**page, "positional": _flags(page["positional"]), "groups": groups}), words)
    return True


def _flags(plain: Sequence[Sequence[Any]]) -> list[Flag]:
    return [Flag(*parts) for parts in plain]
