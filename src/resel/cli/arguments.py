"""What the verbs can be told, and how a command line becomes that."""

from __future__ import annotations

import io
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stderr
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Generic, Literal, TypeVar, cast

import tyro

from resel.agent import configure
from resel.config import (
    GROUPS,
    OTHER_NAMES,
    SIZES,
    Config,
    Count,
    TrainingConfig,
    field_names,
    owners,
)
from resel.errors import ConfigError
from resel.experiments import EngineName, Scale
from resel.runs import Resume, saved_config
from resel.tasks import get_task

_SIZE_TEXT = ", ".join(f"{name}: {factor:g}" for name, factor in SIZES.items())

_RunPath = Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="RUN")]
# Plain flags, `--json` and `--csv PATH`: only the settings of `train` need a way back to a default.
PLAIN = (tyro.conf.FlagCreatePairsOff, tyro.conf.DisallowNone)


_Algorithm = TypeVar("_Algorithm")
_Network = TypeVar("_Network")
_Encoder = TypeVar("_Encoder")


@dataclass(frozen=True)
class TrainArguments(Generic[_Algorithm, _Network, _Encoder]):
    """Train an agent. Settings: the method's preset for the task, then --size, then single flags.

    Shown are the flags of the method and encoder that the command line chooses.
    """

    task: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="TASK")]
    """A task of ours (see `resel tasks`), any Gymnasium id, or module:Id-v0."""
    algorithm: _Algorithm
    network: _Network
    encoder_settings: _Encoder
    training: TrainingConfig
    method: str = "resel"
    """What learns: see `resel methods`."""
    encoder: str | None = None
    """The context encoder; None for a method without one."""
    preset: str = "paper"
    """Settings to start from: paper, or released where the released code differs."""
    size: Annotated[
        str | None,  # not a Literal: refusing another word, the parser would also offer `None`
        tyro.conf.arg(
            help=f"Network size, as a factor on the method's own ({_SIZE_TEXT}).",
            metavar="{" + ",".join(SIZES) + "}",
        ),
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
class ResumeArguments(Generic[_Algorithm, _Network, _Encoder]):
    """Go on with a run. Its settings are the defaults; some may change on the way."""

    run: _RunPath
    """A run directory."""
    algorithm: _Algorithm
    network: _Network
    encoder_settings: _Encoder
    training: TrainingConfig
    wandb: bool = False
    """Also log to Weights & Biases (extra `wandb`)."""
    force: bool = False
    """Go on even where the machine differs from before, so that the run is not exact."""


Train = TrainArguments[Any, Any, Any]
Resumed = ResumeArguments[Any, Any, Any]


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
    method: str | None = None
    """With --show: of which method."""
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


def train_arguments(argv: Sequence[str]) -> Train:
    """The words after `resel train`; task, method, encoder, preset and size bring the defaults."""
    named = next((word for word in argv if get_task(word) is not None), "")
    asks = any(word in ("-h", "--help") for word in argv)
    prog = "resel train" if asks else f"resel train {named}".rstrip()
    chosen = {
        name: value
        for name in ("method", "encoder", "preset", "size")
        if (value := _value_of(f"--{name}", argv)) is not None
    }
    config = configure(named, **chosen)  # type: ignore[arg-type]  # looked at by `configure`
    names = {"task": tyro.MISSING, "method": config.method, "encoder": config.encoder}
    return cast("Train", _parse(TrainArguments, names, config, argv, prog))


def config_of(arguments: Train | Resumed, task: str) -> Config:
    """The complete settings."""
    chosen = arguments.algorithm, arguments.network, arguments.encoder_settings
    like = arguments if isinstance(arguments, TrainArguments) else saved_config(arguments.run)
    return Config(task, like.method, like.encoder, *chosen, arguments.training)


def _value_of(flag: str, argv: Sequence[str]) -> str | None:
    """What a flag is given on a command line, as `--flag value` or `--flag=value`."""
    for word, following in zip(argv, [*argv[1:], ""], strict=True):
        if word == flag:
            return following
        if word.startswith(f"{flag}="):
            return word.removeprefix(f"{flag}=")
    return None


def _parse(
    kind: Any, names: Mapping[str, Any], config: Config, argv: Sequence[str], prog: str
) -> object:
    """Arguments that take every setting not given from the config."""
    groups = {name: getattr(config, name) for name in GROUPS}
    typed = kind[tuple(type(groups[name]) for name in GROUPS[:-1])]
    own = {*field_names(kind), *config.flat()}
    for word in argv:
        name = word.partition("=")[0].removeprefix("--").removeprefix("no-").replace("-", "_")
        if word.startswith("--") and name not in own and name in OTHER_NAMES | _foreign(name):
            config.replace(**{name: None})  # refused, with the reason
    with _our_words():
        return tyro.cli(
            typed,
            args=argv,
            default=typed(**names, **groups),
            prog=prog,
            config=(tyro.conf.OmitArgPrefixes,),
        )


def _foreign(name: str) -> dict[str, list[str]]:
    """The name, if another method or encoder has a setting called so."""
    return {name: found} if (found := owners(name)) else {}


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


def resume_arguments(argv: Sequence[str]) -> Resumed:
    """The words after `resel resume`; the settings of the run are the defaults."""
    runs = [Path(word) for word in argv if Path(word, "config.json").is_file()]
    config = saved_config(runs[0]) if runs else Config.build()
    parsed = _parse(ResumeArguments, {"run": tyro.MISSING}, config, argv, "resel resume")
    found = cast("Resumed", parsed)
    saved_config(found.run)  # refuses what is no run
    return found
