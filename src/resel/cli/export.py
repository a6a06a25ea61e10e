"""`resel export`: a trained policy for machines without resel, and whether one works here."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import tyro

from resel.choices import CWeights, Which
from resel.cli._arguments import PLAIN, word
from resel.cli.console import OUT, escape
from resel.errors import ConfigError, RunDirectoryError

if TYPE_CHECKING:
    from resel.cli._agents import Loaded
    from resel.deploy import Batch, Outcome

_Path = Annotated[tyro.conf.Positional[Path | None], word("RUN")]


@dataclass(frozen=True)
class ExportArguments:
    """Write a trained policy for machines without resel, or check one here."""

    run: _Path = None
    """A run directory, the directory of a saved agent, or zoo:NAME."""
    out: Annotated[Path | None, word("DIR")] = None
    """Folder to write; an export that is there is replaced."""
    check: Annotated[Path | None, word("DIR")] = None
    """Instead: run the check of an exported policy again, on this machine."""
    agent: Which = "last"
    """Which agent of a run."""
    batch: Annotated[str, tyro.conf.arg(metavar="N|dynamic")] = "1"
    """Environments that the model acts in at once: a number, or dynamic for any."""
    stochastic: bool = False
    """Sample actions: the model reads noise, which the loader draws."""
    weights: CWeights = "float32"
    """Of the policy in C; float16 for small chips."""
    json: bool = False
    """Print one JSON object and nothing else."""


def run(argv: Sequence[str]) -> int:
    """Export or check."""
    arguments = tyro.cli(ExportArguments, args=argv, prog="resel export", config=PLAIN)
    if arguments.check is not None:
        if arguments.run is not None or arguments.out is not None:
            raise ConfigError(
                "--check DIR looks at a folder that is there: leave out RUN and --out."
            )
        from resel.deploy import check_export

        _tell_check(arguments.check, check_export(arguments.check), arguments.json)
        return 0
    if arguments.run is None or arguments.out is None:
        raise ConfigError("Give a run and a folder: resel export RUN --out DIR. See --help.")
    batch = _batch(arguments.batch)
    from resel.cli._agents import load_agent

    # Nobody should put a policy on a machine that its own training has given up.
    loaded = load_agent(arguments.run, arguments.agent, refuse_diverged=True)
    _refuse_young(loaded)
    about = loaded.agent.export(
        arguments.out, batch=batch, stochastic=arguments.stochastic, weights=arguments.weights
    )
    if arguments.json:
        print(json.dumps({"out": str(arguments.out), **about}))
        return 0
    _tell_export(arguments.out, loaded, about)
    return 0


def _batch(text: str) -> Batch:
    if text == "dynamic":
        return "dynamic"
    if not text.isdecimal() or int(text) < 1:
        raise ConfigError(f"--batch {text!r} is neither a number, 1 or more, nor dynamic.")
    return int(text)


def _refuse_young(loaded: Loaded) -> None:
    """Refuse what no update has been made to; older agents tell by their step alone."""
    from resel.runs import learning_begins, updates_by

    learned, agent = loaded.learned, loaded.agent
    if learned is None and loaded.step is not None:
        learned = updates_by(agent.config, agent.learner.schedule, loaded.step) > 0
    if learned is False:
        begins = learning_begins(agent.config, agent.learner.schedule)
        raise RunDirectoryError(
            f"This is {loaded}, and no update has been made to it yet: learning begins after "
            f"{begins:,} steps at the earliest. It has learned nothing that could be exported; "
            "wait for a later agent."
        )


def _tell_check(path: Path, found: Mapping[str, Outcome | None], as_json: bool) -> None:
    from resel.deploy import TOLERANCE

    if as_json:
        outcomes = {name: outcome and vars(outcome) for name, outcome in found.items()}
        print(json.dumps({"check": str(path), "tolerance": TOLERANCE, "runtimes": outcomes}))
        return
    for runtime, outcome in found.items():
        OUT.print(f"{runtime}: {_words(outcome, TOLERANCE)}", soft_wrap=True)
    OUT.print(
        f"{escape(str(path))} does on this machine what it was exported to do.", soft_wrap=True
    )


def _words(outcome: Outcome | None, tolerance: float) -> str:
    if outcome is None:
        return "not checked, there is no compiler on this machine (or name yours in CC)."
    if outcome.worst is None:
        return f"its own test of {outcome.steps:,} steps passed."
    return f"{outcome.steps:,} steps, at most {outcome.worst:.1e} off ({tolerance:g} is allowed)."


def _tell_export(path: Path, loaded: Loaded, about: Mapping[str, Any]) -> None:
    config = loaded.agent.config
    OUT.print(escape(f"Exported: {loaded}, of {config.task} with {config.method}."), soft_wrap=True)
    for name, entry in {**about["files"], "policy.json": None}.items():
        size = "" if entry is None else f"  {entry['size'] / 1000:,.0f} kB"
        OUT.print(f"  {escape(str(path / name))}{size}", soft_wrap=True)
    if "left_out" in about["c"]:
        OUT.print(escape(f"Without policy.h: {about['c']['left_out']}"), soft_wrap=True)
    takes = ", ".join([*about["inputs"]])
    OUT.print(f"The model takes {takes} and gives {', '.join(about['outputs'])}.", soft_wrap=True)
    OUT.print(
        f"Checked here with ONNX Runtime. On another machine resel export --check "
        f"{escape(str(path))} does it again; without resel, python -c 'from policy import Policy; "
        'Policy(".")\' in that folder loads it.',
        soft_wrap=True,
    )
