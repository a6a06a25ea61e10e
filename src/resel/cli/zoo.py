"""`resel zoo`: trained agents that come with resel, and folders of one's own for others."""

from __future__ import annotations

import dataclasses
import json
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import tyro
from rich.table import Table

from resel._process import render_offscreen
from resel.choices import Which
from resel.cli import watch
from resel.cli._arguments import PLAIN, RunPath, positive, word, writing
from resel.cli.console import OUT, announce_compilation, print_table, tell_files, warn
from resel.config import Count
from resel.errors import ConfigError
from resel.zoo import CARD, entries, get_entry

Name = Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="NAME")]


@dataclass(frozen=True)
class ListArguments:
    """List the agents that come with resel; zoo:NAME stands for one in eval, watch and the rest."""

    json: bool = False
    """Print their cards as one JSON list and nothing else."""


@dataclass(frozen=True)
class GetArguments:
    """Copy an agent with its card, curve and film into a folder of yours."""

    name: Name
    """Of an agent of the zoo."""
    out: Annotated[Path | None, word("DIR")] = None
    """A new folder; NAME in this one if not given."""


@dataclass(frozen=True)
class WatchArguments:
    """Write a film of an agent of the zoo, as `resel watch zoo:NAME` does."""

    name: Name
    """Of an agent of the zoo."""
    out: Annotated[Path | None, word("PATH")] = None
    """File to write, as for `resel watch`; NAME.gif, or NAME.png where nothing can be filmed."""
    episodes: Count = 1
    """How many to play."""
    seed: Count = 1
    """Chooses the episodes."""


@dataclass(frozen=True)
class CardArguments:
    """Measure an agent of a run and write it with its card to a folder, ready for a model hub."""

    run: RunPath
    """A run directory."""
    out: Path
    """A new folder."""
    name: Annotated[str | None, word("NAME")] = None
    """What it is called; the task's name if not given."""
    agent: Which = "last"
    """Which agent of the run."""
    episodes: Count = 100
    """How many to play for the return on the card."""
    commit: Annotated[str | None, word("SHA")] = None
    """Of the code that trained it; what the run says, if not given."""
    whole: bool = False
    """With critics and targets, several times the size: it can learn on, not only act."""
    note: Annotated[str | None, word("TEXT")] = None
    """A sentence for the card, such as how this seed was chosen among others."""


Action = (
    Annotated[ListArguments, tyro.conf.subcommand("list")]
    | Annotated[GetArguments, tyro.conf.subcommand("get")]
    | Annotated[WatchArguments, tyro.conf.subcommand("watch")]
    | Annotated[CardArguments, tyro.conf.subcommand("card")]
)


def run(argv: Sequence[str]) -> int:
    """One of the actions."""
    chosen: Any = tyro.cli(Action, args=argv, prog="resel zoo", config=PLAIN)
    if isinstance(chosen, ListArguments):
        return _list(chosen)
    if isinstance(chosen, GetArguments):
        return _get(chosen)
    if isinstance(chosen, WatchArguments):
        return _watch(chosen)
    return _card(chosen)


def _list(arguments: ListArguments) -> int:
    found = entries()
    if arguments.json:
        cards = [dataclasses.asdict(entry.card) for entry in found if entry.card is not None]
        print(json.dumps(cards))
        return 0
    table = Table("name", "task", "method", "steps", "return", "success", "size", box=None)
    for entry in found:
        card = entry.card
        if card is None:
            warn(f"The agent {entry.name!r} is left out. {entry.problem}")
            continue
        table.add_row(
            entry.name,
            card.task,
            ", ".join(filter(None, (card.method, card.encoder))),
            "-" if card.steps is None else f"{card.steps:,}",
            f"{card.return_mean:.2f} ± {card.return_std:.2f}",
            "-" if card.success_rate is None else f"{card.success_rate:.0%}",
            f"{entry.size / 1000:,.0f} kB",
        )
    print_table(table)
    OUT.print("Use one as zoo:NAME: resel eval zoo:NAME, resel watch zoo:NAME --out film.gif")
    return 0


def _get(arguments: GetArguments) -> int:
    entry = get_entry(arguments.name)
    out = arguments.out or Path(entry.name)
    if out.exists():
        raise ConfigError(f"--out {out} is there already: name a new folder.")
    with writing("--out", out):
        shutil.copytree(entry.folder, out)
    OUT.print(f"Written: {out}, an agent for resel eval and Agent.load", soft_wrap=True)
    return 0


def _watch(arguments: WatchArguments) -> int:
    entry = get_entry(arguments.name)
    filmed = (entry.folder / "film.gif").exists()
    out = arguments.out or Path(f"{entry.name}{'.gif' if filmed else '.png'}")
    words = ["--episodes", str(arguments.episodes), "--seed", str(arguments.seed)]
    return watch.run([f"zoo:{entry.name}", "--out", str(out), *words])


def _card(arguments: CardArguments) -> int:
    from resel.reports import Wanted, write_agent_folder  # the other actions need none of it

    render_offscreen()
    announce_compilation()
    episodes = positive("episodes", arguments.episodes)
    asked = arguments
    wanted = Wanted(asked.name, asked.agent, episodes, asked.commit, asked.whole, asked.note)
    with writing("--out", arguments.out):
        card = write_agent_folder(arguments.run, arguments.out, wanted)
    OUT.print(
        f"{card.name}: return {card.return_mean:.2f} ± {card.return_std:.2f} over "
        f"{card.episodes} episodes",
        soft_wrap=True,
    )
    tell_files(arguments.out / name for name in ("README.md", CARD, *card.files))
    return 0
