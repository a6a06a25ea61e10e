"""MiniGrid: memory tasks that are listed without the package, and any other of its worlds."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from presets import task_settings
from terminal import refused

from resel.cli import main
from resel.envs import CheckedEnv, ImageShape
from resel.errors import ConfigError, MissingDependencyError
from resel.tasks import all_tasks, get_task, make_env

FAMILY = [spec for spec in all_tasks() if spec.family == "MiniGrid"]
SMALLEST = "MiniGrid-MemoryS7-v0"


def test_the_list_needs_no_package(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "minigrid", None)
    assert main(["tasks", "--json"]) == 0
    listed = [task for task in json.loads(capsys.readouterr().out) if task["family"] == "MiniGrid"]
    assert [task["id"] for task in listed] == [spec.id for spec in FAMILY] and len(FAMILY) == 6
    for name in (SMALLEST, f"minigrid:{SMALLEST}", f"resel/{SMALLEST}"):
        with pytest.raises(MissingDependencyError, match=r"pip install 'resel\[minigrid\]'"):
            make_env(name)


@pytest.mark.parametrize("task", FAMILY, ids=lambda spec: spec.id)
def test_it_is_what_its_spec_says(task: Any) -> None:
    """One that declares other observations than it gives, or odd numbers, would warn or raise."""
    pytest.importorskip("minigrid")
    env = CheckedEnv(make_env(task.id))
    assert env.observation.images == (ImageShape(7, 7, 20, False, 1),)
    assert (env.observation.size, env.action.size) == (task.observation_size, task.action_size)
    rng, longest = np.random.default_rng(0), 0
    for seed in range(2):
        assert env.reset(seed).dtype == np.uint8
        ended = False
        while not ended:
            last = env.step(env.sample(rng))
            ended, longest = last.terminated or last.truncated, longest + 1
        assert last.success is (last.reward > 0)
    assert env.horizon == task.horizon and longest <= 2 * task.horizon
    env.close()


def test_seeds_alone_decide(repeats: Any) -> None:
    pytest.importorskip("minigrid")
    repeats(lambda: make_env(SMALLEST))


def test_the_way_to_the_same_thing_pays() -> None:
    """From where the thing is seen: along the hallway, and to the side on which it stands."""
    pytest.importorskip("minigrid")
    found = set()
    env = make_env(f"minigrid:{SMALLEST}")
    for seed in range(20):
        env.reset(seed=seed)
        world: Any = env.unwrapped
        ahead = int(world.width - 2 - world.agent_pos[0])
        up = tuple(world.success_pos)[1] < world.height // 2
        for turn in (up, not up):
            env.reset(seed=seed)
            for action in [2] * ahead + [0 if turn else 1, 2]:
                _, reward, terminated, _, info = env.step(action)
            assert terminated and info["success"] is (turn == up) and (reward > 0) is (turn == up)
        found.add(up)
    assert found == {True, False}
    env.close()


def test_the_preset_reads_cells_without_convolutions() -> None:
    assert get_task(f"minigrid:{SMALLEST}") is get_task(SMALLEST) is FAMILY[0]
    for preset in ("paper", "small"):
        own = task_settings(SMALLEST, preset)
        assert own["image_channels"] == 0 and own["policy_kl"] == "forward"
        assert (own["exploration_epsilon"], own["noise_hold"], own["warmup_steps"]) == (
            1.0,
            4,
            3000,
        )


def test_any_other_world_without_its_mission(
    capsys: pytest.CaptureFixture[str], own_folder: None
) -> None:
    pytest.importorskip("minigrid")
    env = make_env("resel.tasks.minigrid:grid_env", env_kwargs={"world": "MiniGrid-DoorKey-5x5-v0"})
    assert type(env.unwrapped).__name__ == "DoorKeyEnv"
    planes = env.reset(seed=1)[0]
    env.close()
    given = {"world": "MiniGrid-DoorKey-5x5-v0", "one_hot": False}
    env = make_env("resel.tasks.minigrid:grid_env", env_kwargs=given)
    numbers = env.reset(seed=1)[0]
    env.close()
    assert (planes.shape, numbers.shape) == ((7, 7, 20), (7, 7, 3))
    assert np.array_equal(planes[..., :11].argmax(-1), numbers[..., 0])
    assert (planes.sum(-1) == 3).all(), "an object, a colour and a state"
    with pytest.raises(ConfigError, match="world='Pendulum-v1' is none of MiniGrid's"):
        make_env("resel.tasks.minigrid:grid_env", env_kwargs={"world": "Pendulum-v1"})
    words = refused(capsys, "train", "minigrid:MiniGrid-DoorKey-5x5-v0", "--run-dir", "run")
    assert "ImgObsWrapper" in words and "resel.tasks.minigrid:grid_env" in words
    assert not Path("run").exists()
