"""Runs on images: bytes from the environment to the disk, and resuming is exact."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from checkpoints import save_checkpoint
from image_worlds import Cameras

from resel import Agent
from resel.config import Config
from resel.envs import CheckedEnv, ObservationSpec, SubprocEnv
from resel.runs import ReplayLog, restore_trainer
from resel.runs.preflight import check_memory
from resel.training import Trainer

SEEN = {"image_channels": 4, "image_kernel": 0, "image_stride": 0, "image_features": 5}


def _trainer(config: Config, workers: bool) -> Trainer:
    many = config.training.num_envs
    if not workers:
        return Trainer(config, [CheckedEnv(Cameras(), Cameras) for _ in range(many)])
    return Trainer(config, [env.ready() for env in [SubprocEnv(Cameras, 120) for _ in range(many)]])


@pytest.mark.parametrize(("num_envs", "workers"), [(1, False), (2, True)])
def test_the_continued_run_is_the_same_run(
    tiny: dict[str, Any],
    everything: Callable[[Trainer], dict[str, Any]],
    tmp_path: Path,
    num_envs: int,
    workers: bool,
) -> None:
    settings = {"num_envs": num_envs, "buffer_steps": 60, "normalize_observations": True}
    config = Config.build("", tiny, {"warmup_steps": 20}, SEEN, settings)
    whole = _trainer(config, workers=False)
    whole.train(44)
    whole.train(60)

    first = _trainer(config, workers)
    first.train(44)
    bundle = save_checkpoint(first, tmp_path / "checkpoint")
    assert all(len(bundle.tensors["collector"][f"episode.{i}.actions"]) for i in range(num_envs))
    assert first.env.reset(1).dtype == np.uint8, "through the pipe as well"
    first.close()

    second = _trainer(config, workers=False)
    assert restore_trainer(second, bundle, ReplayLog(tmp_path))
    second.train(60)
    second.close()
    assert everything(second) == everything(whole)

    spec = ObservationSpec.of(Cameras.LAYOUT)
    buffer = second.buffer
    assert buffer.observations.dtype == np.uint8
    assert buffer.observations.shape[1] == spec.stored_size
    assert second.sample().observation.dtype == torch.uint8
    arrays = (buffer.observations, buffer.actions, buffer.rewards)
    assert check_memory(config.training, second.env) == sum(array.nbytes for array in arrays)
    segments = sum(path.stat().st_size for path in tmp_path.glob("*.bin"))
    steps = first.buffer.steps + len(first.buffer)
    assert segments < steps * (spec.stored_size + 20)


@pytest.mark.parametrize("method", ["resel", "ppo-gru", "mf-lstm", "td7"])
def test_an_agent_that_sees_several_images_is_saved_and_acts(method: str, tmp_path: Path) -> None:
    space = "Box" if method == "td7" else "Discrete"
    agent = Agent(partial(Cameras, space), method, seed=1, steps=60, max_episode_steps=6)
    reasons = [choice.reason for choice in agent.choices if choice.name == "image_channels"]
    sees = method != "td7"
    assert (
        reasons == ["images: convolutions, for 14 x 16 x 3 and 5 x 6 x 1, each by its size"] * sees
    )
    agent.learn(60)
    agent.save(tmp_path / "agent")
    again = Agent.load(tmp_path / "agent", env=partial(Cameras, space), device="cpu")
    world, states = Cameras(space), [None, None]
    seen, _ = world.reset(seed=3)
    for _ in range(3):
        actions = []
        for i, one in enumerate((agent, again)):
            action, states[i] = one.predict(seen, states[i], reward=0.0)
            actions.append(action)
        np.testing.assert_array_equal(*actions)
        seen = world.step(actions[0])[0]
    agent.close()
    again.close()
