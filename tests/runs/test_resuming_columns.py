"""Runs on tasks that tell something: resuming in mid-episode keeps every column, bit for bit."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from checkpoints import save_checkpoint

from resel.config import Config
from resel.envs import CheckedEnv, SubprocEnv
from resel.errors import DamagedFileError
from resel.runs import ReplayLog, Run, open_trainer, restore_trainer
from resel.tasks import make_env
from resel.training import Trainer, TrainProgress, make_task

Everything = Callable[[Trainer], dict[str, Any]]


@pytest.fixture
def config(tiny: dict[str, Any]) -> Callable[..., Config]:
    def build(task: str = "Wind-v0", **settings: Any) -> Config:
        return Config.build(task, tiny, {"max_episode_steps": 9, "warmup_steps": 20}, settings)

    return build


@pytest.mark.parametrize(("num_envs", "workers"), [(1, False), (2, True)])
def test_the_continued_run_is_the_same_run(
    config: Any, everything: Everything, tmp_path: Path, num_envs: int, workers: bool
) -> None:
    wanted = config(num_envs=num_envs, buffer_steps=60)
    whole = _trainer(wanted, workers=False)
    whole.train(40)
    whole.train(60)

    first = _trainer(wanted, workers)
    first.train(40)
    bundle = save_checkpoint(first, tmp_path / "checkpoint")
    saved = bundle.tensors["collector"]
    assert all(len(saved[f"episode.{i}.actions"]) for i in range(num_envs)), "in mid-episode"
    first.train(6)  # what happens after the checkpoint is forgotten
    first.close()

    second = _trainer(wanted, workers)
    second.train(14)  # whatever it did before does not matter
    assert restore_trainer(second, bundle, ReplayLog(tmp_path))
    second.train(60)
    second.close()
    assert everything(second) == everything(whole)
    _check_columns(second)


def _trainer(config: Config, workers: bool) -> Trainer:
    make = partial(make_task, config)
    if not workers:
        return Trainer(config, [CheckedEnv(make(), make) for _ in range(config.training.num_envs)])
    envs = [SubprocEnv(make, 120) for _ in range(config.training.num_envs)]
    return Trainer(config, [env.ready() for env in envs])


def _check_columns(trainer: Trainer) -> None:
    """The drift of every stored episode is the wind its columns tell."""
    buffer = trainer.buffer
    assert buffer.column_sizes == {"hidden": 2, "task": 1}
    world: Any = make_env("Wind-v0").unwrapped
    for piece in buffer:
        observations, actions, _, hidden, task = buffer.blocks(piece)
        wind = world.winds[int(task[0, 0])]
        drift = np.diff(observations, axis=0) - 0.1 * actions
        np.testing.assert_allclose(drift, np.tile(wind, (piece.length, 1)), atol=1e-6)
        np.testing.assert_allclose(hidden * 0.16 - 0.08, np.tile(wind, (len(hidden), 1)), atol=1e-6)
        assert (task == task[0]).all()
    batch = trainer.sample()
    assert {name: column.shape[2] for name, column in batch.extras.items()} == buffer.column_sizes


def _interrupt(run: Run, stop: int, progress: TrainProgress) -> None:
    if progress.step >= stop:
        run.trainer.request_stop()


@pytest.mark.parametrize("num_envs", [1, 2])
def test_a_run_in_a_directory_goes_on_with_its_columns(
    config: Any, everything: Everything, tmp_path: Path, num_envs: int
) -> None:
    found = []
    for name, stops in (("whole", [60]), ("parts", [25, 60])):
        for stop in stops:
            run = Run(config(num_envs=num_envs, steps=60), tmp_path / name, "auto")
            try:
                run.train([partial(_interrupt, run, stop)])
                assert run.inexact == []
                # A full buffer of 60 steps: observation, action, reward, task and hidden.
                assert run.buffer_bytes == 4 * (60 + 1) * (2 + 2 + 1 + 1 + 2)
            finally:
                run.close()
        found.append(everything(run.trainer))
    assert found[0] == found[1]
    looked_at = open_trainer(tmp_path / "parts")
    _check_columns(looked_at)
    looked_at.close()


def test_a_checkpoint_with_other_columns_is_refused(
    tiny: dict[str, Any], toy: Any, tmp_path: Path
) -> None:
    class Telling(toy):  # type: ignore[misc]
        def __init__(self, told: Any) -> None:
            super().__init__()
            self.told = told

        def reset(self, **how: Any) -> Any:
            return super().reset(**how)[0], self.told

    def trainer(told: Any) -> Trainer:
        return Trainer(Config.build("", tiny), [CheckedEnv(Telling(told))])

    telling = trainer({"hidden": [1.0, 2.0]})
    telling.train(40)
    bundle = save_checkpoint(telling, tmp_path / "a")
    for told in ({}, {"hidden": [1.0]}, {"task": 1, "hidden": [1.0, 2.0]}):
        other = trainer(told)
        with pytest.raises(DamagedFileError, match=r"columns {'hidden'.*continue it with the env"):
            restore_trainer(other, bundle, ReplayLog(tmp_path))
        assert other.step == 0 and len(other.buffer) == 0
    # Numbers other than those that were told: the unfinished episode is another one.
    assert restore_trainer(trainer({"hidden": [1.0, 3.0]}), bundle, ReplayLog(tmp_path)) is False
