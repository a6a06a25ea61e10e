"""POPGym's worlds: listed without the package, and learned in like any other task."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from presets import task_settings
from terminal import refused

from resel import RESeL, configure
from resel.cli import main
from resel.envs import CheckedEnv
from resel.errors import ConfigError, MissingDependencyError
from resel.tasks import TaskSpec, all_tasks, get_task, make_env

FAMILY = [spec for spec in all_tasks() if spec.family == "POPGym"]
LEVELS = ("Easy", "Medium", "Hard")
EASY = [spec for spec in FAMILY if spec.id.endswith("Easy-v0")]
every_easy_one = pytest.mark.parametrize("task", EASY, ids=lambda spec: spec.id)
REPEAT = "popgym-RepeatPreviousEasy-v0"
SMALLEST: dict[str, Any] = {
    **{"width": 4, "embedding": 4, "head_width": 4, "n_critics": 2, "state_size": 2},
    **{"batch_steps": 20, "warmup_steps": 10, "max_episode_steps": 20, "eval_every": 0},
}
TINY = (
    "--width 8 --embedding 4 --head-width 8 --n-critics 2 --state-size 4 --batch-steps 50 "
    "--warmup-steps 60 --steps 120 --eval-every 0 --eval-episodes 1"
)


# Without the package


def test_the_list_needs_no_package(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "popgym", None)
    assert main(["tasks", "--json"]) == 0
    listed = [task for task in json.loads(capsys.readouterr().out) if task["family"] == "POPGym"]
    assert len(listed) == 42 == 3 * len(EASY)
    assert REPEAT in {task["id"] for task in listed}
    assert configure(REPEAT).training.steps == 50_000


def test_a_missing_package_names_the_extra(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], own_folder: None
) -> None:
    monkeypatch.setitem(sys.modules, "popgym", None)
    monkeypatch.setitem(sys.modules, "popgym.envs", None)
    for name in (REPEAT, f"popgym.envs:{REPEAT}", f"resel/{REPEAT}"):
        with pytest.raises(MissingDependencyError, match=r"pip install 'resel\[popgym\]'"):
            make_env(name)
    with pytest.raises(MissingDependencyError, match=r"pip install 'resel\[popgym\]'"):
        gymnasium.make(f"resel/{REPEAT}")
    assert "pip install 'resel[popgym]'" in refused(capsys, "train", REPEAT, "--run-dir", "run")
    assert not Path("run").exists()


# With it


def test_every_world_that_it_registers_is_ours() -> None:
    envs = pytest.importorskip("popgym.envs")
    known = {value["id"] for value in envs.ALL.values()}
    assert {spec.id for spec in FAMILY} == {id for id in known if "Labyrinth" not in id}


@every_easy_one
def test_it_can_be_stepped(task: TaskSpec) -> None:
    """One that declares other observations than it gives, or odd numbers, would warn or raise."""
    pytest.importorskip("popgym")
    env = CheckedEnv(make_env(task.id))
    rng = np.random.default_rng(0)
    for seed in range(3):
        env.reset(seed)
        total, ended = 0.0, False
        while not ended:
            outcome = env.step(env.sample(rng))
            total += outcome.reward
            ended = outcome.terminated or outcome.truncated
        assert -1.25 <= total <= 1.0  # Battleship's worst is -64/52


@pytest.mark.parametrize("task", FAMILY, ids=lambda spec: spec.id)
def test_seeds_repeat_an_episode(task: TaskSpec) -> None:
    pytest.importorskip("popgym")

    def episode(env: CheckedEnv, seed: int) -> list[Any]:
        rng = np.random.default_rng(seed)
        seen: list[Any] = [env.reset(seed).tolist()]
        for _ in range(40):
            outcome = env.step(env.sample(rng))
            seen.append((outcome.observation.tolist(), outcome.reward))
            if outcome.terminated or outcome.truncated:
                break
        return seen

    one, other = CheckedEnv(make_env(task.id)), CheckedEnv(make_env(task.id))
    first = episode(one, 1)
    other.reset(2)
    assert any(episode(one, seed) != first for seed in range(2, 8))
    assert episode(one, 1) == episode(other, 1) == first


@pytest.mark.parametrize("world", ["Autoencode", "CountRecall", "Battleship", "Concentration"])
def test_an_agent_learns_in_it(world: str) -> None:
    """Tuple and MultiDiscrete observations, MultiDiscrete actions."""
    pytest.importorskip("popgym")
    agent = RESeL(f"popgym-{world}Easy-v0", **SMALLEST)
    agent.learn(25)
    assert agent.num_timesteps == 25
    agent.close()


def test_it_goes_through_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("popgym")
    run = tmp_path / "run"
    assert main(["train", REPEAT, *TINY.split(), "--run-dir", str(run)]) == 0
    assert json.loads((run / "result.json").read_text())["status"] == "completed"
    capsys.readouterr()
    assert main(["eval", str(run), "--episodes", "1", "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["task"] == REPEAT and answer["length_mean"] == 51


def test_both_spellings_are_one_task() -> None:
    pytest.importorskip("popgym")
    name = f"popgym.envs:{REPEAT}"
    assert get_task(name) is get_task(REPEAT) is not None
    spec = make_env(name).spec
    assert spec is not None and spec.id == f"resel/{REPEAT}"
    assert task_settings(name) == task_settings(REPEAT)


def test_what_is_told_is_a_copy() -> None:
    pytest.importorskip("popgym")
    env = make_env("popgym-CountRecallEasy-v0")
    _, info = env.reset(seed=0)
    before = info["counts"].copy()
    for _ in range(5):
        env.step(env.action_space.sample())
    np.testing.assert_array_equal(info["counts"], before)


def test_settings() -> None:
    settings = task_settings(REPEAT)
    assert (settings["size"], settings["gamma"], settings["steps"]) == ("tiny", 0.95, 50_000)
    assert (settings["eval_every"], settings["eval_episodes"]) == (1000, 10)
    for spec in FAMILY:  # a step earns about the same everywhere
        assert spec.hints["reward_scale"] / spec.horizon == pytest.approx(0.2)
        own = task_settings(spec.id)
        assert (own["updates_per_step"], own["exploration_fraction"]) == (0.25, 0.6)
        moves, box = "Pole" in spec.id or "pole" in spec.id, "Pendulum" in spec.id
        assert (own.get("td_lambda", 0.0) > 0) == moves, "what is done now is felt later"
        assert (own["gamma"] == 0.95) == (not moves and not (box and spec.horizon > 100))
        assert (own.get("noise_hold", 1) > 1) == (moves or box)
        assert own.get("policy_kl", "reverse") == ("reverse" if box else "forward")


def test_bad_input() -> None:
    pytest.importorskip("popgym")
    with pytest.raises(ConfigError, match="has no argument 'k': it has none"):
        make_env(REPEAT, env_kwargs={"k": 2})
    # Its class would take any argument and use none.
    with pytest.raises(ConfigError, match="has no argument 'max_episode_length'"):
        make_env("popgym-PositionOnlyCartPoleHard-v0", env_kwargs={"max_episode_length": 5})
    with pytest.raises(ConfigError, match="has no argument 'world'"):
        make_env(REPEAT, env_kwargs={"world": "popgym-RepeatFirstEasy-v0"})
    with pytest.raises(ConfigError, match="draws no pictures"):
        make_env(REPEAT, render_mode="rgb_array")


@pytest.mark.parametrize("name", ["popgym-LabyrinthEscapeEasy-v0", "resel/popgym-LabyrinthX-v0"])
def test_labyrinths_are_refused_in_words(name: str) -> None:
    with pytest.raises(MissingDependencyError, match=r"mazelib.*popgym\.envs:popgym-Labyrinth"):
        make_env(name)


def test_a_pole_is_drawn_at_every_level(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("popgym")
    pytest.importorskip("pygame")
    monkeypatch.setenv("SDL_VIDEODRIVER", "dummy")
    for level in LEVELS:
        env = make_env(f"popgym-PositionOnlyCartPole{level}-v0", render_mode="rgb_array")
        env.reset(seed=0)
        picture: Any = env.render()
        assert picture.ndim == 3 and picture.dtype == np.uint8
        env.close()
