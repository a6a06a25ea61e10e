"""The `resel` command: which verb, and what happens when one fails."""

from __future__ import annotations

import difflib
import importlib
import os
import sys
from collections.abc import Sequence

from rich.table import Table

import resel
from resel.cli.console import ERR, OUT, escape, fit_output, plain_warnings, print_table
from resel.errors import ConfigError, ReselError

VERBS = {
    "train": "train an agent on a task of ours or any Gymnasium environment",
    "resume": "go on with a run that was stopped",
    "eval": "measure a trained agent",
    "watch": "write a film of a trained agent",
    "zoo": "list, get and watch trained agents that come with resel; write the card of yours",
    "plot": "draw learning curves",
    "report": "write runs as one interactive page",
    "export": "write a trained policy for machines without resel: ONNX and a loader",
    "diagnose": "measure what an update does to a policy, and advise on LR_CE",
    "tasks": "list the tasks and their settings",
    "methods": "list the methods and their settings",
    "compare": "train several methods on one environment and set them side by side",
    "tune": "search for the settings of a method on a task",
    "reproduce": "run the paper's experiments and draw its figures",
    "doctor": "look whether this installation is in order",
    "bench": "measure speed and memory on this machine",
}
"""Each is a file beside this one with a function `run`, imported when it is asked for. It imports
what is slow to load once its words are understood: help, and wrong words, need none of that."""
_SPINS = "20000"
"""Some ten microseconds, as long as the gap between two operations of an update."""


def main(argv: Sequence[str] | None = None) -> int:
    """Entry point of the command; returns the exit code."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    fit_output()
    try:
        with plain_warnings():
            code = _run_verb(arguments)
        sys.stdout.flush()
        return code
    except ReselError as error:
        ERR.print(f"[bold red]Error:[/bold red] {escape(str(error))}", soft_wrap=True)
        return error.exit_code
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:  # the reader of our output, such as `head`, has gone
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # for the flush at exit
        return 0


def _run_verb(arguments: Sequence[str]) -> int:
    if not arguments or arguments[0] in ("-h", "--help"):
        _print_help()
        return 0
    if arguments[0] == "--version":
        print(f"resel {resel.__version__}")
        return 0
    verb, rest = arguments[0], arguments[1:]
    if verb not in VERBS:
        near = difflib.get_close_matches(verb, VERBS, n=1)
        hint = f" Did you mean {near[0]}?" if near else ""
        raise ConfigError(f"There is no verb {verb!r}: use one of {', '.join(VERBS)}.{hint}")
    _let_waiting_threads_sleep()
    if verb in ("train", "resume") and _tells_kept_help(verb, rest):
        return 0
    code: int = importlib.import_module(f"resel.cli.{verb}").run(rest)
    return code


def _tells_kept_help(verb: str, words: Sequence[str]) -> bool:
    from resel.cli._kept import tells_help  # what other verbs do not need

    return tells_help(verb, words)


def _let_waiting_threads_sleep() -> None:
    """Torch's threads wait for each other by spinning, for milliseconds if nothing is said.

    On a busy machine, where the one that is waited for has no core, that is most of what they do.
    It is said before torch is loaded, or not at all.
    """
    if "OMP_WAIT_POLICY" not in os.environ:
        os.environ.setdefault("GOMP_SPINCOUNT", _SPINS)


def _print_help() -> None:
    OUT.print(f"resel {resel.__version__}: {resel.__doc__}\n\nusage: resel VERB [--help] ...\n")
    table = Table(box=None, show_header=False)
    for verb, text in VERBS.items():
        table.add_row(f"[bold]{verb}[/bold]", text)
    print_table(table)
