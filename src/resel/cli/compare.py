"""`resel compare`: several methods on one environment, side by side."""

from __future__ import annotations

import csv
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import tyro
from rich.table import Table

from resel.cli._arguments import PLAIN, names_in, word
from resel.cli._sweeps import SweepArguments, run_sweep
from resel.cli.console import OUT, escape, print_table
from resel.config import Count, EnvKwargs
from resel.errors import ConfigError
from resel.tasks import short_name

_OWN = (
    *("steps", "size", "encoder", "eval_every", "eval_episodes"),
    *("max_episode_steps", "env_kwargs"),
)
"""Settings that have a flag here; others are given with --settings."""
_FLAGS = {name: f"--{name.replace('_', '-')}" for name in (*_OWN, "preset")} | {
    "seed": "--seeds",
    "method": "--methods",
}

_SHOWN = (
    *("method", "return", "reached {}", "steps to it"),
    *("cpu min to it", "cpu min in all"),
)

_RETURN = "return: mean of the last five evaluations, or of as many as there were."


@dataclass(frozen=True)
class CompareArguments:
    """Train several methods on one environment, measured alike, side by side."""

    task: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="TASK")]
    """A task of ours (see `resel tasks`), any Gymnasium id, or one of your own: file.py:Class."""
    methods: Annotated[str, tyro.conf.arg(metavar="METHOD,...")] = "resel,sac-gru,sac-mlp"
    """What is compared; `resel methods` lists them."""
    seeds: Count = 3
    """Runs of each method, with the seeds 1, 2, ..."""
    steps: Annotated[Count | None, word("INT")] = None
    """Environment steps of each run; those of the task's preset if not given."""
    threshold: Annotated[float | None, word("FLOAT")] = None
    """The return that counts as reached; the task's own if not given, else 90 % of the way from an
    untrained policy to the best method."""
    size: Annotated[str | None, word("{paper,small,tiny}")] = None
    """Network size, as a factor on each method's own."""
    encoder: Annotated[str | None, word("NAME")] = None
    """The context encoder of methods that have one; each method's own if not given."""
    preset: Annotated[str | None, word("{paper,released,small,auto,FILE}")] = None
    """Settings each method starts from, as for `resel train`; a file is for the method it names."""
    eval_every: Annotated[Count | None, word("INT")] = None
    """Steps between evaluations."""
    eval_episodes: Annotated[Count | None, word("INT")] = None
    """Episodes of an evaluation."""
    max_episode_steps: Annotated[Count | None, word("INT")] = None
    """Episodes are cut after so many steps, where the environment does not say when itself."""
    env_kwargs: EnvKwargs = field(default_factory=dict)
    """Arguments of the environment."""
    settings: EnvKwargs = field(default_factory=dict)
    """Other settings for every method that has them, as in gamma=0.95."""
    out: Annotated[Path | None, word("PATH")] = None
    """Folder for runs, table and page; compare-output/TASK if not given."""
    sweep: tyro.conf.OmitArgPrefixes[SweepArguments] = field(default_factory=SweepArguments)

    @property
    def given(self) -> dict[str, Any]:
        """Settings that were asked for."""
        for name in self.settings:
            if name in _FLAGS:
                raise ConfigError(f"--settings {name}=... has a flag of its own: {_FLAGS[name]}.")
        own = {name: getattr(self, name) for name in _OWN}
        asked = {name: value for name, value in own.items() if value not in (None, {})}
        return {**self.settings, **asked}


def run(argv: Sequence[str]) -> int:
    """Bring all runs to their end and write the page."""
    arguments = tyro.cli(CompareArguments, args=argv, prog="resel compare", config=PLAIN)
    from resel.experiments import COMPARISON, check_methods, comparison

    experiment = comparison(
        arguments.task,
        names_in("methods", arguments.methods),
        arguments.seeds,
        arguments.preset,
        arguments.threshold,
        arguments.given,
    )
    if not arguments.sweep.draw:
        check_methods(experiment)
    name = short_name(arguments.task).replace("/", "-").replace(":", "-")
    out = arguments.out or Path("compare-output") / name
    command = shlex.join(["resel", "compare", *argv])
    sweep = arguments.sweep.sweep([experiment], COMPARISON, out, command)
    code = run_sweep(sweep)
    if code < 128 and not sweep.dry_run and sweep.write is None:
        _show(out, experiment.name)
    return code


def _show(out: Path, name: str) -> None:
    """The essence of the table on the screen, and where the page is."""
    path = out / name / "table.csv"
    if path.is_file():
        rows = list(csv.DictReader(path.read_text(encoding="utf-8").splitlines()))
        threshold = _short(rows[0]["threshold"]) if rows else "-"
        table = Table(*(name.format(threshold) for name in _SHOWN), box=None)
        for row in rows:
            error = f" ± {_short(row['standard_error'])}" if row["standard_error"] else ""
            score = f"{_short(row['mean'])}{error}"
            reached = f"{row['reached']} of {int(row['runs']) + int(row['diverged'])}"
            minutes = (row["cpu_minutes_to_threshold"], row["cpu_minutes"])
            steps = _short(row["steps_to_threshold"])
            table.add_row(row["method"], score, reached, steps, *map(_minutes, minutes))
        OUT.print()
        print_table(table)
        OUT.print(_RETURN, soft_wrap=True)
        if had := _privileges(rows):
            OUT.print(escape(had), soft_wrap=True)
    from resel.reports import make_report

    page = out / "comparison.html"
    make_report(out).write(page)
    OUT.print(f"Page: {page}", soft_wrap=True)


def _privileges(rows: Sequence[Mapping[str, str]]) -> str:
    """Who was told what, and who reads the last reward, in a sentence; empty if nobody."""
    told = [f"{row['method']} was told {row['told']}" for row in rows if row["told"]]
    found = [", ".join(told)] if told else []
    if readers := [row["method"] for row in rows if row["reads_rewards"]]:
        verb = "reads" if len(readers) == 1 else "read"
        found.append(f"{', '.join(readers)} {verb} the last reward")
    return f"{'; '.join(found)}." if found else ""


def _minutes(text: str) -> str:
    return f"{float(text):,.1f}" if text else "-"


def _short(text: str) -> str:
    return f"{float(text):,.4g}" if text else "-"
