"""Agents on disk: the weights, the config they belong to and the spaces they act in."""

from __future__ import annotations

import os
from typing import Any

from resel.algorithm import Learner
from resel.config import Config
from resel.errors import ConfigError, DamagedFileError, UnsupportedSpaceError
from resel.runs import Bundle, check_tensors, read_bundle, write_bundle
from resel.training.environment import AnyStage

Path = str | os.PathLike[str]


def save_agent(path: Path, learner: Learner, stage: AnyStage) -> None:
    """Write an agent directory: safetensors, JSON and hashes."""
    write_bundle(
        path,
        "agent",
        {"weights": learner.weights()},
        {"agent": {"config": learner.config.to_json(), "spaces": spaces_of(stage)}},
    )


def read_agent(path: Path) -> tuple[Config, Bundle]:
    """The config of a saved agent, and its files, checked but not yet used."""
    bundle = read_bundle(path, "agent")
    try:
        return Config.from_json(bundle.documents["agent"]["config"]), bundle
    except (KeyError, TypeError, AttributeError, ConfigError) as error:
        raise DamagedFileError(
            f"The agent at {os.fspath(path)} has no usable config: {error}"
        ) from error


def use_weights(bundle: Bundle, learner: Learner, stage: AnyStage) -> None:
    """Put a saved agent's weights into a learner built for the same config and spaces."""
    check_spaces(stage, bundle.documents["agent"].get("spaces"), "env")
    weights = bundle.tensors.get("weights", {})
    check_tensors(weights, learner.weights(), "the agent")
    learner.load_weights(weights)


def check_spaces(stage: AnyStage, wanted: Any, name: str) -> None:
    """Refuse an environment other than an agent with the spaces `wanted` can act in."""
    found = spaces_of(stage)
    if found != wanted:
        raise UnsupportedSpaceError(
            f"The agent was trained on spaces {wanted}, but {name} has {found}: use an environment "
            "with the same spaces."
        )


def spaces_of(stage: AnyStage) -> dict[str, Any]:
    """The spaces of an environment as JSON data."""
    return {"observation": stage.observation.to_json(), "action": stage.action.to_json()}
