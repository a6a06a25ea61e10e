"""What the verbs can be told, and how a command line becomes that."""

from __future__ import annotations

import io
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, redirect_stderr
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal, TypeVar, cast

import tyro

from resel.agent import configure
from resel.config import (
    SIZES,
    AlgorithmConfig,
    Config,
    Count,
    NetworkConfig,
    SizeName,
    TrainingConfig,
)
from resel.errors import ConfigError
from resel.experiments import EngineName, Scale
from resel.runs import Resume, saved_config
from resel.tasks import get_task

_SIZE_TEXT = "; ".join(
    f"{name}: " + ", ".join(f"{key} {value}" for key, value in numbers.items())
    for name, numbers in SIZES.items()
)

_RunPath = Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="RUN")]
# Plain flags, `--json` and `--csv PATH`: only the settings of `train` need a way back to a default.
PLAIN = (tyro.conf.FlagCreatePairsOff, tyro.conf.DisallowNone)


@dataclass(frozen=True)
class TrainArguments:
    """Train an agent. Settings: the task's preset, then --size, then single flags."""

    task: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="TASK")]
    """A task of ours (see `resel tasks`), any Gymnasium id, or module:Id-v0."""
    network: NetworkConfig
    algorithm: AlgorithmConfig
    training: TrainingConfig
    preset: str = "paper"
    """Settings to start from: paper, or released where the released code differs."""
    size: Annotated[
        str | None,  # not a Literal: refusing another word, the parser would also offer `None`
        tyro.conf.arg(help=f"Network size ({_SIZE_TEXT}).", metavar="{" + ",".join(SIZES) + "}"),
    ] = None
    run_dir: Path | None = None
    """Where the run is written; a new folder under runs/ if not given."""
    resume: Resume = "never"
    """auto starts the run in --run-dir, or goes on with the one that is there."""
    wandb: bool = False
    """Also log to Weights & Biases (extra `wandb`)."""
    force: bool = False
    """Go on even where the machine differs from before, so that the run is not exact."""


@dataclass(frozen=True)
class ResumeArguments:
    """Go on with a run. Its settings are the defaults; some may change on the way."""

    run: _RunPath
    """A run directory."""
    network: NetworkConfig
    algorithm: AlgorithmConfig
    training: TrainingConfig
    wandb: bool = False
    """Also log to Weights & Biases (extra `wandb`)."""
    force: bool = False
    """Go on even where the machine differs from before, so that the run is not exact."""


_Settings = TypeVar("_Settings", TrainArguments, ResumeArguments)


@dataclass(frozen=True)
class EvalArguments:
    """Measure a trained agent: deterministic actions, fixed seeds."""

    run: _RunPath
    """A run directory, or the directory of a saved agent."""
    episodes: Count = 20
    """How many to play."""
    seed: Count = 1
    """Chooses the episodes."""
    agent: Literal["last", "best"] = "last"
    """Which agent of a run."""
    json: bool = False
    """Print one JSON object and nothing else."""


@dataclass(frozen=True)
class WatchArguments:
    """Write a film of a trained agent."""

    run: _RunPath
    """A run directory, or the directory of a saved agent."""
    out: Path
    """File to write: .gif or .mp4."""
    episodes: Count = 1
    """How many to play."""
    seed: Count = 1
    """Chooses the episodes."""
    agent: Literal["last", "best"] = "last"
    """Which agent of a run."""


@dataclass(frozen=True)
class PlotArguments:
    """Draw the learning curves of one or more runs; seeds of the same run as one."""

    runs: Annotated[tyro.conf.Positional[tuple[Path, ...]], tyro.conf.arg(metavar="RUN [RUN ...]")]
    """Run directories."""
    out: Path = Path("curve.png")
    """Picture to write (.png, .svg or .pdf)."""
    csv: Path | None = None
    """Also write the evaluations as a table."""


@dataclass(frozen=True)
class ReportArguments:
    """Write a run, or a folder of runs, as one interactive page (extra `report`)."""

    folder: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="DIR")]
    """A run directory, or a folder with runs at any depth."""
    out: Path = Path("report.html")
    """Page to write."""
    figures: Path | None = None
    """Also write each figure as PNG, SVG and CSV into this folder."""


@dataclass(frozen=True)
class DiagnoseArguments:
    """Measure what one update does to the policy of a run, and which LR_CE suits it."""

    run: _RunPath
    """A run directory with a checkpoint. It is only read."""
    episodes: Count = 20
    """How many to record and compare."""
    seed: Count = 1
    """Chooses the batch and the episodes."""
    json: bool = False
    """Print one JSON object and nothing else."""
    out: Path | None = None
    """Folder to write diagnosis.json and the picture diagnosis.png to."""


@dataclass(frozen=True)
class TasksArguments:
    """List the tasks that come with resel."""

    json: bool = False
    """Print a JSON list and nothing else."""
    show: str | None = None
    """Print every setting of one task instead."""
    preset: str = "paper"
    """With --show: which preset."""


@dataclass(frozen=True)
class ReproduceArguments:
    """Run the paper's experiments and draw its figures; without names, list them."""

    names: Annotated[tyro.conf.Positional[tuple[str, ...]], tyro.conf.arg(metavar="[NAME ...]")]
    """Figures and tables, or all."""
    scale: Scale = "smoke"
    """smoke: minutes to an hour on two cores; cpu: hours; paper: the paper's own sizes."""
    out: Path | None = None
    """Folder for runs and figures; reproduce-output/SCALE if not given."""
    engine: EngineName = "local"
    """local processes, a ray cluster (extra `ray`), or a slurm script to submit."""
    jobs: Count = 0
    """Runs side by side; 0 is automatic: one per GPU, or else per core."""
    attempts: Count = 3
    """How often a run may fail without progress before it is given up."""
    ray_address: str | None = None
    """Cluster to join (HOST:PORT or auto); if not given, one is started on this machine."""
    write: Path | None = None
    """With slurm: the script to write."""
    dry_run: bool = False
    """Only tell what would be run."""


def train_arguments(argv: Sequence[str]) -> TrainArguments:
    """Parse twice: once to learn task, preset and size, then with the defaults they bring."""
    named = next((word for word in argv if get_task(word) is not None), "")
    asks = any(word in ("-h", "--help") for word in argv)
    prog = "resel train" if asks else f"resel train {named}".rstrip()
    # The first defaults are also those that hints show.
    first = _with_defaults(TrainArguments, "task", configure(named), argv, prog)
    size = cast("SizeName | None", first.size)  # looked at by `configure`
    config = configure(first.task, preset=first.preset, size=size)
    return _with_defaults(TrainArguments, "task", config, argv, prog)


def _with_defaults(
    kind: type[_Settings], first: str, config: Config, argv: Sequence[str], prog: str
) -> _Settings:
    """Arguments that begin with `first` and take every setting not given from the config."""
    default = kind(
        **{first: tyro.MISSING},
        network=config.network,
        algorithm=config.algorithm,
        training=config.training,
    )
    with _our_words():
        markers = (tyro.conf.OmitArgPrefixes,)
        return tyro.cli(kind, args=argv, default=default, prog=prog, config=markers)


@contextmanager
def _our_words() -> Iterator[None]:
    """A value that a config refuses is told as the config tells it.

    The parser would put the name of the group in front, which is no flag of anybody's.
    """
    said = io.StringIO()
    try:
        with redirect_stderr(said):
            yield
    except SystemExit as left:
        cause: BaseException | None = left
        while cause is not None and not isinstance(cause, ConfigError):
            cause = cause.__context__
        if cause is not None:
            said.truncate(0)
            raise cause from None
        raise
    finally:
        sys.stderr.write(said.getvalue())


def resume_arguments(argv: Sequence[str]) -> ResumeArguments:
    """Parse twice: once to learn which run, then with its settings as defaults."""

    def parse(config: Config) -> ResumeArguments:
        return _with_defaults(ResumeArguments, "run", config, argv, "resel resume")

    if any(word in ("-h", "--help") for word in argv):
        runs = [Path(word) for word in argv if Path(word, "config.json").is_file()]
        return parse(saved_config(runs[0]) if runs else Config())
    return parse(saved_config(parse(Config()).run))
