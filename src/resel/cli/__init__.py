"""The `resel` command."""

from resel.cli._entry import main

__all__ = ["main"]
