"""A run as it stood at its newest checkpoint, to look at and not to go on with."""

from __future__ import annotations

import os
import warnings

import torch

from resel.envs import check_spaces
from resel.errors import ConfigError, DamagedFileError, RunDirectoryError
from resel.methods import Learner
from resel.runs.agents import use_weights
from resel.runs.bundle import Bundle, read_bundle
from resel.runs.directory import RunDirectory
from resel.runs.own_config import own_config
from resel.runs.replay_log import ReplayLog, restore_trainer
from resel.training import Trainer, damaged_if_wrong, task_envs


def open_trainer(path: str | os.PathLike[str]) -> Trainer:
    """The trainer of a run with weights, optimisers and buffer; the directory is only read.

    It is the caller's to close. The run may still be going on.
    """
    directory = RunDirectory.open(path, read_only=True)
    checkpoints = directory.checkpoints()
    if not checkpoints:
        raise RunDirectoryError(
            f"The run in {directory.path} has no checkpoint yet: wait for its first one, or for "
            "its end (--checkpoint-every says how often there is one)."
        )
    # Looking needs no processes of their own; the numbers are the same.
    config = own_config(directory).replace(env_workers=False)
    trainer = Trainer(config, *task_envs(config))
    try:
        restore_newest(trainer, directory)
    except BaseException:
        trainer.close()
        raise
    return trainer


def restore_newest(
    trainer: Trainer, directory: RunDirectory, *, learner_only: bool = False
) -> bool:
    """Go on from the newest good checkpoint of a run, which is only read.

    `learner_only` takes weights, optimisers and random streams of the learner, for another task.
    False if an unfinished episode had to be dropped.
    """
    for checkpoint in reversed(directory.checkpoints()):
        try:
            bundle = read_bundle(checkpoint, "checkpoint")
            check_spaces(trainer.env, bundle.documents.get("spaces"), "the environment now")
            _check_device(bundle, trainer.learner, directory)
            if not learner_only:
                return restore_trainer(trainer, bundle, ReplayLog(directory.replay_path))
            with damaged_if_wrong():
                use_weights(bundle, trainer.learner)
                trainer.learner.restore(bundle.tensors["learner"], bundle.documents["learner"])
            return True
        except DamagedFileError as error:
            warnings.warn(f"{error} Trying the one before.", stacklevel=2)
    raise DamagedFileError(f"No checkpoint in {directory.path} can be read.")


def _check_device(bundle: Bundle, learner: Learner, directory: RunDirectory) -> None:
    """Random streams of one kind of device mean nothing to another."""
    with damaged_if_wrong():
        there = str(bundle.documents["run"]["machine"]["device"])
    if torch.device(there).type != learner.device.type:
        raise ConfigError(
            f"The run in {directory.path} learned on {there} and cannot go on on {learner.device}: "
            f"load it with device={there!r}, or its weights alone from "
            f"{directory.last_agent_path}."
        )
