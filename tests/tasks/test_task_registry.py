"""Finding and making tasks by name."""

from __future__ import annotations

import dataclasses
import os
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gymnasium
import pytest
from gymnasium.envs.classic_control import CartPoleEnv
from gymnasium.utils.env_checker import check_env
from gymnasium.wrappers import TimeLimit
from simulators import installed

from resel.agent import configure
from resel.envs import DEFAULT_EPISODE_CAP, ActionSpec, ObservationSpec
from resel.errors import (
    ConfigError,
    EnvironmentFault,
    MissingDependencyError,
    UnknownTaskError,
    UnsupportedSpaceError,
)
from resel.tasks import (
    Needs,
    TaskSpec,
    TMazeEnv,
    all_tasks,
    get_task,
    make_env,
    registry,
)

every_task = pytest.mark.parametrize(
    "task", [pytest.param(spec, id=spec.id, marks=installed(spec)) for spec in all_tasks()]
)


@pytest.fixture
def gym_ids() -> Iterator[dict[str, Any]]:
    """Gymnasium's registry, put back afterwards."""
    before = dict(gymnasium.registry)
    yield gymnasium.registry
    gymnasium.registry.clear()
    gymnasium.registry.update(before)


def add_task(monkeypatch: pytest.MonkeyPatch, **changes: Any) -> TaskSpec:
    """A made-up task of ours, derived from the T-maze."""
    maze = get_task("TMaze-v0")
    assert maze is not None
    spec = dataclasses.replace(maze, id="Made-Up-v0", **changes)
    monkeypatch.setitem(registry._TASKS, spec.id, spec)
    registry.register_tasks()
    return spec


def test_the_small_family_is_complete() -> None:
    assert [spec.id for spec in all_tasks() if spec.family == "small"] == [
        "Pendulum-P-v0",
        "Pendulum-V-v0",
        "Pendulum-gravity-v0",
        "CartPole-P-v0",
        "CartPole-V-v0",
        "MountainCarContinuous-P-v0",
        "TMaze-v0",
        "TwoGoals-v0",
    ]


@every_task
@pytest.mark.filterwarnings("ignore:.*is different from the unwrapped version:UserWarning")
@pytest.mark.filterwarnings("ignore:.*For Box action spaces, we recommend:UserWarning")
@pytest.mark.filterwarnings("ignore:.*A Box observation space m.* value is -?infinity:UserWarning")
def test_gymnasium_accepts_the_environment(task: TaskSpec, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SDL_VIDEODRIVER", "dummy")
    rendered_by_us = task.id.startswith(("TMaze", "Wind", "KeyToDoor"))
    check_env(gymnasium.make(task.gym_id), skip_render_check=not rendered_by_us)


@every_task
def test_the_description_matches_the_environment(task: TaskSpec) -> None:
    env = make_env(task.id)
    assert ObservationSpec.of(env.observation_space).size == task.observation_size
    assert ActionSpec.of(env.action_space).size == task.action_size
    assert env.spec is not None and env.spec.id == task.gym_id
    assert env.spec.max_episode_steps == (None if task.ends_itself else task.horizon)
    assert task.summary.endswith(".") and "\n" not in task.summary


@every_task
def test_no_episode_outlasts_the_horizon(task: TaskSpec) -> None:
    env = make_env(task.id)
    env.reset(seed=0)
    env.action_space.seed(0)
    steps, terminated, truncated = 0, False, False
    while not (terminated or truncated):
        _, _, terminated, truncated, _ = env.step(env.action_space.sample())
        steps += 1
    assert steps <= task.horizon
    if task.ends_itself:
        assert terminated and steps == task.horizon
    elif not task.id.startswith("AntDir"):  # a trial may lose steps to a fall in its first half
        assert truncated == (steps == task.horizon)


@every_task
def test_settings_build_a_config(task: TaskSpec) -> None:
    is_small = task.family in ("small", "POPGym", "MiniGrid")
    for preset in ["paper"] if is_small else ["paper", "released"]:
        config = configure(task.id, preset=preset)
        assert config.training.steps == task.steps
        assert config.training.warmup_steps < task.steps
        assert config.network.width == (64 if is_small else 256)


@every_task
def test_both_spellings_name_the_same_task(task: TaskSpec) -> None:
    assert get_task(task.id) is get_task(f"resel/{task.id}") is task
    one, other = make_env(task.id).spec, make_env(task.gym_id).spec
    assert one is not None and other is not None and one.id == other.id


def test_make_env_draws_a_picture() -> None:
    env = make_env("TMaze-v0", render_mode="rgb_array")
    env.reset(seed=0)
    picture: Any = env.render()
    assert picture.shape == (72, 504, 3)


def test_the_base_environment_draws_for_masked_tasks(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("pygame")
    monkeypatch.setenv("SDL_VIDEODRIVER", "dummy")
    env = make_env("Pendulum-V-v0", render_mode="rgb_array")
    env.reset(seed=0)
    picture: Any = env.render()
    env.close()
    assert picture.shape == (500, 500, 3)


def test_the_length_can_be_chosen_through_gymnasium() -> None:
    env = gymnasium.make("resel/TMaze-v0", length=3)
    env.reset(seed=0)
    assert [env.step(0)[2] for _ in range(4)] == [False, False, False, True]


# Time limits


@pytest.mark.parametrize("task", ["Pendulum-V-v0", "TMaze-v0", "Pendulum-v1"])
def test_a_shorter_limit_truncates(task: str) -> None:
    env = make_env(task, max_episode_steps=5)
    env.reset(seed=0)
    ends = [env.step(env.action_space.sample())[2:4] for _ in range(5)]
    assert ends == [(False, False)] * 4 + [(False, True)]


def test_a_longer_limit_takes_the_place_of_the_own_one() -> None:
    env = make_env("Pendulum-v1", max_episode_steps=300)
    env.reset(seed=0)
    truncated = [env.step(env.action_space.sample())[3] for _ in range(300)]
    assert truncated == [False] * 299 + [True]


def test_environments_without_a_limit_are_capped(gym_ids: dict[str, Any]) -> None:
    gymnasium.register("Endless-v0", entry_point=CartPoleEnv)
    env = make_env("Endless-v0")
    assert isinstance(env, TimeLimit)
    assert env.spec is not None and env.spec.max_episode_steps == DEFAULT_EPISODE_CAP


def test_a_limit_inside_the_entry_point_is_kept(gym_ids: dict[str, Any]) -> None:
    gymnasium.register("Inner-v0", entry_point=lambda: TimeLimit(CartPoleEnv(), 30))
    spec = make_env("Inner-v0").spec
    assert spec is not None and spec.max_episode_steps == 30


@pytest.mark.parametrize("steps", [0, -1, 2.5])
def test_bad_limits(steps: Any) -> None:
    with pytest.raises(ConfigError, match=f"max_episode_steps={steps} must be a whole number"):
        make_env("TMaze-v0", max_episode_steps=steps)


# Names


def test_older_versions_do_not_warn(recwarn: pytest.WarningsRecorder) -> None:
    env = make_env("CartPole-v0")
    assert env.spec is not None and env.spec.id == "CartPole-v0"
    assert not recwarn.list


@pytest.mark.parametrize(
    ("task", "suggestion"),
    [
        ("Pendulum-V-v1", "Did you mean .*Pendulum-V-v0"),
        ("resel/Tmaze-v0", "Did you mean TMaze-v0"),
        ("cartpole-v1", "Did you mean CartPole-v1"),
        ("CartPole", "Did you mean .*CartPole-v1"),
        ("xyzzy", r"`resel tasks` lists ours.*write file.py:Class"),
        (
            "gymnasium:Pendulun-v1",
            "has no environment 'Pendulun-v1'. Did you mean gymnasium:Pendulum-v1",
        ),
    ],
)
def test_unknown_names_get_near_matches(task: str, suggestion: str) -> None:
    with pytest.raises(UnknownTaskError, match=suggestion):
        make_env(task)


def test_a_module_is_imported_first(
    gym_ids: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "my_worlds.py").write_text(
        "import gymnasium\n"
        "gymnasium.register('Mine-v0', 'gymnasium.envs.classic_control:PendulumEnv',"
        " max_episode_steps=7)\n"
    )
    (tmp_path / "needy_worlds.py").write_text("import no_such_dependency\n")
    (tmp_path / "zero_division_worlds.py").write_text("1 / 0\n")
    monkeypatch.syspath_prepend(tmp_path)
    spec = make_env("my_worlds:Mine-v0").spec
    assert spec is not None and spec.max_episode_steps == 7
    with pytest.raises(MissingDependencyError, match=r"'needy_worlds'.*'no_such_dependency'"):
        make_env("needy_worlds:Mine-v0")
    with pytest.raises(
        EnvironmentFault, match="'zero_division_worlds', which raised ZeroDivisionError"
    ):
        make_env("zero_division_worlds:Mine-v0")
    with pytest.raises(MissingDependencyError, match=r"No module named 'no_worlds'.*PYTHONPATH"):
        make_env("no_worlds:Mine-v0")


# Faults while making


def test_a_dependency_that_gymnasium_misses(gym_ids: dict[str, Any]) -> None:
    def needy() -> gymnasium.Env[Any, Any]:
        raise gymnasium.error.DependencyNotInstalled("MuJoCo is missing, pip install mujoco")

    gymnasium.register("Needy-v0", entry_point=needy)
    with pytest.raises(MissingDependencyError, match=r"'Needy-v0' cannot be made: .*install"):
        make_env("Needy-v0")


def test_our_own_missing_dependency_names_the_extra(
    gym_ids: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    add_task(monkeypatch, needs=Needs(extra="robots", module="no_such_robots.arms"))
    expected = r"'no_such_robots' is not installed. Install it with: pip install 'resel\[robots\]'"
    with pytest.raises(MissingDependencyError, match=expected):
        make_env("Made-Up-v0")


def test_a_failing_constructor_is_the_environments_fault(gym_ids: dict[str, Any]) -> None:
    gymnasium.register("Faulty-v0", entry_point=lambda: 1 / 0)
    with pytest.raises(
        EnvironmentFault,
        match=r"'Faulty-v0' could not be made \(line \d+ of test_task_reg.*: ZeroDivisionError",
    ):
        make_env("Faulty-v0")


def test_our_own_errors_pass_unchanged(
    gym_ids: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    add_task(
        monkeypatch,
        entry_point="resel.tasks.masking:masked",
        kwargs={"base": "FrozenLake-v1", "keep": [0]},
    )
    with pytest.raises(UnsupportedSpaceError, match="1-D Box"):
        make_env("Made-Up-v0")


# Evaluation


def test_evaluation_has_its_own_arguments(
    gym_ids: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = add_task(monkeypatch, evaluation_kwargs={"length": 2})
    lengths = []
    for evaluation in (False, True):
        maze = make_env(spec.id, evaluation=evaluation).unwrapped
        assert isinstance(maze, TMazeEnv)
        lengths.append(maze.length)
    assert lengths == [20, 2]


def test_importing_makes_no_environment_and_loads_no_simulator() -> None:
    program = """
        import sys
        import gymnasium
        def refuse(*args, **kwargs):
            raise AssertionError("an environment was made")
        gymnasium.Env.__new__ = refuse
        gymnasium.make = refuse
        import resel.tasks
        assert "resel/TMaze-v0" in gymnasium.registry
        heavy = {"minigrid", "pygame", "popgym", "pybullet", "mujoco"}
        loaded = heavy & set(sys.modules)
        assert not loaded, loaded
        import importlib
        importlib.reload(resel.tasks)
    """
    # Found even when the package is tested from its source tree without being installed.
    env = {**os.environ, "PYTHONPATH": str(Path(registry.__file__).parents[2])}
    command = [sys.executable, "-W", "error", "-c", textwrap.dedent(program)]
    subprocess.run(command, check=True, env=env)
