"""`resel resume`: go on with a run that was stopped."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

import tyro

from resel.cli._arguments import RunPath, parse_settings, settings_help, value_of
from resel.cli._help import Help, Page
from resel.cli._training import train_run
from resel.config import Config, TrainingConfig
from resel.errors import ConfigError
from resel.runs import MAY_DIFFER, saved_config

_PAGE = Page(
    "resume RUN",
    (*MAY_DIFFER, "wandb", "force"),
    hidden=("method", "encoder"),
    rest="The {} other settings, which a run keeps",
)

_Algorithm = TypeVar("_Algorithm")
_Network = TypeVar("_Network")
_Encoder = TypeVar("_Encoder")


@dataclass(frozen=True)
class ResumeArguments(Generic[_Algorithm, _Network, _Encoder]):
    """Go on with a run. Its settings are the defaults; some may change on the way."""

    run: RunPath
    """A run directory."""
    algorithm: _Algorithm
    network: _Network
    encoder_settings: _Encoder
    training: TrainingConfig
    method: str
    """What learns: a run keeps its method."""
    encoder: str | None
    """The context encoder: a run keeps it."""
    wandb: bool = False
    """Also log to Weights & Biases (extra `wandb`)."""
    force: bool = False
    """Go on even where the machine differs from before, so that the run is not exact."""


def run(argv: Sequence[str]) -> int:
    """Train on, in the directory of the run."""
    arguments, saved = _resume_arguments(argv)
    config = Config(
        saved.task,
        saved.method,
        saved.encoder,
        arguments.algorithm,
        arguments.network,
        arguments.encoder_settings,
        arguments.training,
    )
    return train_run(config, arguments.run, "auto", arguments.wandb, arguments.force)


def _resume_arguments(argv: Sequence[str]) -> tuple[ResumeArguments[Any, Any, Any], Config]:
    """The words after `resel resume`, and the settings of the run, which are the defaults."""
    runs = [Path(word) for word in argv if Path(word, "config.json").is_file()]
    config = saved_config(runs[0]) if runs else Config.build()
    if runs:
        _check_kept(config, runs[0], argv)
    arguments: ResumeArguments[Any, Any, Any] = parse_settings(
        ResumeArguments, _own(config), config, argv, "resel resume", _PAGE
    )
    return arguments, saved_config(arguments.run)  # refuses what is no run


def plain_help() -> Help:
    """What `resel resume --help` says where no run is named."""
    config = Config.build()
    return settings_help(ResumeArguments, _own(config), config, _PAGE)


def _own(config: Config) -> dict[str, Any]:
    return {"run": tyro.MISSING, "method": config.method, "encoder": config.encoder}


def _check_kept(saved: Config, path: Path, argv: Sequence[str]) -> None:
    """A run keeps its method and its encoder."""
    for name in ("method", "encoder"):
        has, asked = getattr(saved, name), value_of(f"--{name}", argv)
        if asked is not None and asked != str(has):
            raise ConfigError(
                f"The run in {path} has the {name} {has} and keeps it: leave --{name} {asked} out, "
                f"or begin another run with `resel train {saved.task} --{name} {asked}`."
            )
