"""How the command says things: its two consoles, its warnings, and words that several verbs use."""

from __future__ import annotations

import shutil
import threading
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

OUT = Console(highlight=False)
ERR = Console(stderr=True, highlight=False)
_UNBROKEN = 10_000


def fit_output() -> None:
    """What is piped is for programs to read, and for `grep`: no line is broken there."""
    for console in (OUT, ERR):
        if not console.is_terminal:
            console.width = shutil.get_terminal_size((_UNBROKEN, 24)).columns


def warn(text: str) -> None:
    """One line of warning."""
    ERR.print(f"[yellow]Warning:[/yellow] {escape(text)}", soft_wrap=True)


def escape(text: str) -> str:
    """The text without a meaning for the console's markup."""
    return text.replace("[", r"\[")


def print_table(table: Table) -> None:
    """A table; where nobody watches, without the spaces that fill its lines."""
    if OUT.is_terminal:
        OUT.print(table)
        return
    with OUT.capture() as captured:
        OUT.print(table)
    for line in captured.get().splitlines():
        OUT.print(line.rstrip(), markup=False, soft_wrap=True)


def tell_files(paths: Iterable[Path]) -> None:
    """The files that a verb has written, a line each."""
    for path in paths:
        OUT.print(f"Written: {path}", soft_wrap=True)


def announce_compilation() -> None:
    """Why the first use takes a while."""
    from resel.networks import kernels_are_compiled  # what only lists things needs no networks

    if not kernels_are_compiled():
        ERR.print("Compiling kernels for this machine: about a minute, once.")


@contextmanager
def plain_warnings() -> Iterator[None]:
    """Warnings of ours as one line of text, without source code around it."""

    def show(message: Any, category: Any, *rest: Any, **more: Any) -> None:
        warn(str(message))

    def show_fault(fault: threading.ExceptHookArgs) -> None:
        if issubclass(fault.exc_type, OSError):  # TensorBoard's writer at a full disk
            show(f"A writer in the background stopped: {fault.exc_value}", None)
        else:
            hook(fault)

    before, warnings.showwarning = warnings.showwarning, show
    hook, threading.excepthook = threading.excepthook, show_fault
    try:
        yield
    finally:
        warnings.showwarning, threading.excepthook = before, hook
