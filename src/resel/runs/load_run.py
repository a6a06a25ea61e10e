"""A run as it stood at its newest checkpoint, to look at and not to go on with."""

from __future__ import annotations

import os
import warnings

from resel.envs import check_spaces
from resel.errors import DamagedFileError, RunDirectoryError
from resel.runs.bundle import read_bundle
from resel.runs.directory import RunDirectory
from resel.runs.own_config import own_config
from resel.runs.replay_log import ReplayLog, restore_trainer
from resel.training import Trainer, task_envs


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
    envs, evaluation = task_envs(config)
    trainer = Trainer(config, envs, evaluation)
    try:
        for checkpoint in reversed(checkpoints):
            try:
                bundle = read_bundle(checkpoint, "checkpoint")
                check_spaces(envs[0], bundle.documents.get("spaces"), "the environment now")
                restore_trainer(trainer, bundle, ReplayLog(directory.replay_path))
                return trainer
            except DamagedFileError as error:
                warnings.warn(f"{error} Trying the one before.", stacklevel=2)
        raise DamagedFileError(f"No checkpoint in {directory.path} can be read.")
    except BaseException:
        trainer.close()
        raise
