"""The help of verbs that take settings as flags: a few at first, all when asked for, in groups."""

from __future__ import annotations

import difflib
import inspect
import textwrap
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from resel.cli._meanings import Flag, flags_of
from resel.cli.console import OUT, escape
from resel.config import GROUPS, Config

_FEW, _ALL = ("-h", "--help"), ("--help-all",)
_COLUMN = 26
_WIDEST = 100
_ALIKE = 0.7
"""From how much two names have in common on one may stand for the other."""
_MOST_ALIKE = 3
_LOOP = {
    "Exploration": (
        "exploration_epsilon",
        "deviation_episodes",
        "critic_episodes",
        "exploration_fraction",
        "noise_hold",
    ),
    "Environments": ("num_envs", "env_workers", "env_vector", "env_timeout", "env_restarts"),
    "Machine and disk": ("device", "threads", "disk_tries", "disk_wait"),
}
"""Settings of the loop that belong together; the others are one group."""


class Page(NamedTuple):
    """What the help of a verb says beside the settings."""

    usage: str
    first: Sequence[str]
    """The flags that are shown at first, in the order of use."""
    hidden: Sequence[str] = ()
    """Flags that are only there to be refused."""
    choices: Mapping[str, list[str]] = {}
    """Words that a flag may be."""
    rest: str = "{} more flags, by what they are about"
    """What the other flags are, and how many."""
    actions: str | None = None
    """The actions of the environment, Box or Discrete, if it is known."""


class Help(NamedTuple):
    """The help of a verb, as plain data."""

    usage: str
    text: str
    positional: list[Flag]
    groups: list[tuple[str, list[Flag]]]
    first: list[str]
    rest: str


def without_help(argv: Sequence[str]) -> list[str]:
    """The words that are no question for help."""
    return [word for word in argv if word not in (*_FEW, *_ALL)]


def asks_for_help(argv: Sequence[str]) -> bool:
    """Whether help is wanted instead of what the verb does."""
    return len(without_help(argv)) < len(argv)


def help_of(own: Any, config: Config, page: Page) -> Help:
    """That of a verb whose arguments are `own`, a config's groups among them."""
    text = inspect.getdoc(own) or ""
    return Help(page.usage, text, *_groups(own, config, page), list(page.first), page.rest)


def print_help(page: Help, argv: Sequence[str]) -> None:
    """The usual flags of a verb, or all of them if that is asked for."""
    everything = any(word in _ALL for word in argv)
    groups = page.groups
    flags = {flag.name: flag for _, part in groups for flag in part}
    first = [flags[name] for name in page.first if name in flags]
    _print(f"usage: resel {page.usage} [OPTIONS]\n")
    _print(f"{page.text}\n")
    for flag in page.positional:
        _print_flag(flag._replace(spelled=flag.name.upper()))
    if not everything:
        _print()
        for flag in first:
            _print_flag(flag)
        left = len(flags) - len(first)
        _print(f"\n{page.rest.format(left)}: resel {page.usage} --help-all")
        return
    for title, part in [("The usual ones", first), *groups]:
        shown = [flag for flag in part if flag not in first or part is first]
        if shown:
            _print(f"\n[bold]{escape(title)}[/bold]", markup=True)
        for flag in shown:
            _print_flag(flag)


def nearest_flags(flag: str, own: Any, config: Config, page: Page) -> str:
    """The few flags that are most like one that is not there, a line each, the nearest first."""
    wanted = flag.removeprefix("--").replace("-", "_")
    flags = [found for _, part in _groups(own, config, page)[1] for found in part]
    alike = {found: _likeness(wanted, found.name) for found in flags}
    near = sorted((f for f in flags if alike[f] >= _ALIKE), key=lambda f: alike[f], reverse=True)
    lines = [f"  {found.spelled}: {found.meaning}\n" for found in near[:_MOST_ALIKE]]
    return "".join(["Did you mean:\n", *lines]) if lines else ""


def _likeness(wanted: str, name: str) -> float:
    """1 for the same name; a name that begins with all of another, or has it as a word, is near."""
    ratio = difflib.SequenceMatcher(None, wanted, name).ratio()
    near = name.startswith(wanted) or wanted in name.split("_")
    return max(ratio, _ALIKE) if near else ratio


def _groups(
    own: Any, config: Config, page: Page
) -> tuple[list[Flag], list[tuple[str, list[Flag]]]]:
    """The argument without a flag, and all flags by what they are about."""
    mine = flags_of(own, (*GROUPS, *page.hidden), dict(page.choices))
    titles = {
        "algorithm": f"The method {config.method}",
        "network": "Its networks",
        "encoder_settings": f"Its encoder {config.encoder}",
        "training": "The loop",
    }
    groups = [("The run", mine[1:])]
    for name, title in titles.items():
        part = flags_of(getattr(config, name))
        for about, members in _LOOP.items() if name == "training" else ():
            groups.append((about, [flag for flag in part if flag.name in members]))
            part = [flag for flag in part if flag.name not in members]
        groups.append((title, part))
    fitting = [
        (title, [f for f in part if None in (f.actions, page.actions) or f.actions == page.actions])
        for title, part in groups
    ]
    return mine[:1], fitting


def _print_flag(flag: Flag) -> None:
    """A flag, and its meaning beside it or, where it is long, below."""
    wide = min(OUT.width, _WIDEST) - 1
    begin = f"  {flag.spelled}"
    lines = textwrap.wrap(flag.meaning, wide - _COLUMN, break_on_hyphens=False) or [""]
    if len(begin) < _COLUMN - 1:
        begin, lines = f"{begin:{_COLUMN}}{lines[0]}", lines[1:]
    for line in [begin, *(f"{'':{_COLUMN}}{line}" for line in lines)]:
        _print(line.rstrip())


def _print(text: str = "", markup: bool = False) -> None:
    OUT.print(text, markup=markup, soft_wrap=True)
