"""`resel train`: any method on a task of ours or any Gymnasium environment."""

from __future__ import annotations

import dataclasses
import io
import os
from collections.abc import Mapping, Sequence
from contextlib import closing, redirect_stderr
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Generic, TypeVar

import tyro
from rich.table import Table

from resel.agent import configure, world_of
from resel.cli._arguments import (
    parse_settings,
    settings_help,
    unknown_flags,
    value_of,
    without_flags,
)
from resel.cli._help import Help, Page, asks_for_help, without_help
from resel.cli._training import train_run
from resel.cli.console import OUT, print_table
from resel.config import SIZES, Config, TrainingConfig
from resel.envs import ActionSpec
from resel.errors import ConfigError, ReselError
from resel.methods import (
    AUTO_STEPS,
    Choice,
    auto_choices,
    get_method,
    is_preset_file,
    methods,
    not_overruled,
    run_label,
)
from resel.networks import encoders
from resel.runs import Resume, default_run_path
from resel.tasks import full_name, get_task, make_env
from resel.training import named_by_task

_SIZE_TEXT = ", ".join(f"{name}: {factor:g}" for name, factor in SIZES.items())

_PRESETS = ("paper", "released", "small", "auto")
_FIRST = (
    "steps",
    "seed",
    "run_dir",
    "resume",
    "env_kwargs",
    "max_episode_steps",
    "size",
    "encoder",
    "method",
    "preset",
    "lr_context_encoder",
    "lr_policy",
    "lr_critic",
    "gamma",
    "batch_steps",
    "batch_windows",
    "batch_transitions",
    "context_length",
    "warmup_steps",
    "eval_every",
    "eval_episodes",
    "device",
)
"""Flags that `--help` shows, in the order of use."""

_Algorithm = TypeVar("_Algorithm")
_Network = TypeVar("_Network")
_Encoder = TypeVar("_Encoder")


@dataclass(frozen=True)
class TrainArguments(Generic[_Algorithm, _Network, _Encoder]):
    """Train an agent. Settings: the method's preset, then --size, then single flags.

    Shown are the flags of the method and encoder that the command line chooses.
    """

    task: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="TASK")]
    """A task of ours (see `resel tasks`), any Gymnasium id, or one of your own: file.py:Class,
    module:Class or module:Id-v0; envpool:Id-v0 is one of EnvPool's."""
    algorithm: _Algorithm
    network: _Network
    encoder_settings: _Encoder
    training: TrainingConfig
    method: str
    """What learns; `resel methods` says more of each."""
    encoder: str | None
    """The context encoder, which is the memory."""
    preset: Annotated[
        str | None,
        tyro.conf.arg(
            help="Settings to start from: paper (tasks of ours, if not given), released where the "
            "released code differs, small, with which a method trains in minutes, or auto (all "
            "other environments, if not given), which looks at the environment and the steps; or "
            "a file of `resel tune`, which ends in .json.",
            metavar="{" + ",".join(_PRESETS) + ",FILE}",
        ),
    ] = None
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

    @property
    def config(self) -> Config:
        """The complete settings."""
        config = Config(
            full_name(self.task),
            self.method,
            self.encoder,
            self.algorithm,
            self.network,
            self.encoder_settings,
            self.training,
        )
        return named_by_task(config)


def run(argv: Sequence[str]) -> int:
    """Train, in a new run directory or in one that is to be continued."""
    arguments, choices = _chosen(argv)
    config = arguments.config
    if config.training.init_from is not None:  # the run may be resumed from another folder
        config = config.replace(init_from=os.path.abspath(config.training.init_from))
    if arguments.resume == "auto" and arguments.run_dir is None:
        raise ConfigError("--resume auto needs --run-dir: it goes on with the run in that folder.")
    path = arguments.run_dir or default_run_path(
        config.task, run_label(config), config.training.seed
    )
    given = arguments.resume, arguments.wandb, arguments.force
    return train_run(config, path, *given, before=lambda: _show(choices, config))


def train_arguments(argv: Sequence[str]) -> TrainArguments[Any, Any, Any]:
    """The words after `resel train`."""
    return _chosen(argv)[0]


def _chosen(argv: Sequence[str]) -> tuple[TrainArguments[Any, Any, Any], list[Choice]]:
    """The same, and what the preset `auto` chose.

    Task, method, encoder, preset and size bring the defaults.
    """
    named = next((word for word in argv if get_task(word) is not None), "")
    chosen: dict[str, Any] = {
        name: value
        for name in ("method", "encoder", "preset", "size")
        if (value := value_of(f"--{name}", argv)) not in (None, "None")
    }
    automatic = chosen.get("preset", "paper" if named else "auto") == "auto"
    if not automatic:
        discrete = _has_discrete_actions(named) if asks_for_help(argv) else None
        config = configure(named, **chosen)
        if not named and is_preset_file(chosen["preset"]):  # some of it is for its own task alone
            task = _parsed(config, named, _with_task(config, named, argv)).task
            config = configure(task, **chosen)
        return _parsed(config, named, argv, discrete), []
    # Once to learn which environment and how many steps are meant, once with what follows from it.
    bare = _bare(chosen)
    plain = _parsed(bare, named, _with_task(bare, named, argv))
    settings = {**dataclasses.asdict(plain.algorithm), **dataclasses.asdict(plain.training)}
    steps = AUTO_STEPS if value_of("--steps", argv) is None else plain.training.steps
    try:
        world = world_of(plain.task, settings)
    except ReselError:
        _parsed(bare, named, argv)  # a flag that nobody has is told first
        raise
    assert world is not None
    choices = auto_choices(get_method(plain.method), world, steps)
    chosen["preset"] = "auto"
    config = configure(plain.task, world=world, steps=steps, **chosen)
    return _parsed(config, named, argv, world.discrete), choices


def _with_task(bare: Config, named: str, argv: Sequence[str]) -> Sequence[str]:
    """The words without a question for help and flags that nobody has, if there is a task: it is
    answered, and they are refused, with the task's own defaults."""
    unknown = unknown_flags(TrainArguments, bare, argv)
    words = without_flags(unknown, without_help(argv))
    if len(words) < len(argv):
        try:
            with redirect_stderr(io.StringIO()):
                _parsed(bare, named, words)
        except (SystemExit, ReselError):  # no task, or words that no parser understands
            return argv
    return words


def _has_discrete_actions(task: str) -> bool | None:
    """None if there is no such task here."""
    try:
        with closing(make_env(task)) as env:
            return ActionSpec.of(env.action_space).discrete
    except ReselError:
        return None


def _show(choices: Sequence[Choice], config: Config) -> None:
    """Every choice of the preset `auto` that was not overruled, with its reason."""
    if not choices:
        return
    table = Table("setting", "value", "reason", box=None)
    for name, value, reason in not_overruled(choices, config.flat()):
        table.add_row(name, f"{value:,}" if type(value) is int else str(value), reason)
    OUT.print("Nobody has made settings for this environment; the preset auto chose:")
    print_table(table)


def plain_help() -> Help:
    """What `resel train --help` says where no task is named."""
    config = _bare({})
    return settings_help(TrainArguments, _own(config), config, _page(config, "", True, None))


def _bare(chosen: Mapping[str, Any]) -> Config:
    """The settings as long as no task is known."""
    return configure("", **{**chosen, "preset": "paper"})


def _own(config: Config) -> dict[str, Any]:
    return {"task": tyro.MISSING, "method": config.method, "encoder": config.encoder}


def _page(config: Config, named: str, asks: bool, discrete: bool | None) -> Page:
    known = {
        "method": [method.name for method in methods()[0]] if asks else [],
        "encoder": [encoder.name for encoder in encoders()[0]] if asks else [],
    }
    return Page(
        f"train {named or 'TASK'}",
        _FIRST,
        hidden=() if config.encoder else ("encoder",),
        choices=known,
        actions=None if discrete is None else "Discrete" if discrete else "Box",
    )


def _parsed(
    config: Config, named: str, argv: Sequence[str], discrete: bool | None = None
) -> TrainArguments[Any, Any, Any]:
    parsed: TrainArguments[Any, Any, Any] = parse_settings(
        TrainArguments,
        _own(config),
        config,
        argv,
        f"resel train {named}".rstrip(),
        _page(config, named, asks_for_help(argv), discrete),
    )
    return dataclasses.replace(parsed, encoder=config.encoder)  # None stands for the usual one
