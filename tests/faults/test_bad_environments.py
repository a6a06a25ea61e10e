"""Environments that misbehave: a clear word, the right exit code, and nothing lost."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gymnasium import spaces

from resel.cli import main
from resel.envs import CheckedEnv
from resel.errors import EnvironmentFault, UnsupportedSpaceError
from resel.runs import read_bundle, read_metrics, saved_config

MODULE = '''
import gymnasium, numpy as np
from gymnasium import spaces

class World(gymnasium.Env):
    """Goes wrong at a certain step or reset of the process, in the way its `fault` says."""

    fault = ""
    at = 45
    steps = resets = 0
    observation_space = spaces.Box(-1, 1, (2,))
    action_space = spaces.Box(-1, 1, (1,))

    def __init__(self, fault):
        World.fault, World.steps, World.resets = fault, 0, 0
        if fault == "make":
            raise FileNotFoundError("the model file is gone")
        if fault == "text space":
            self.observation_space = spaces.Text(5)
        if fault == "unbounded":
            self.action_space = spaces.Box(-np.inf, np.inf, (1,))
        if fault == "binary":
            self.action_space = spaces.MultiBinary(3)
        if fault == "empty":
            self.observation_space = spaces.Box(-1, 1, (0,))

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        World.resets += 1
        self.time = 0
        late = World.resets > 8
        if self.fault == "reset" and late or self.fault == "first reset":
            raise ConnectionError("the simulator\\nis [bold]busy[/bold]")
        if self.fault == "nan reset" and late:
            return np.array([0, np.nan], np.float32), {}
        return self.np_random.uniform(-1, 1, 2).astype(np.float32), {}

    def step(self, action):
        World.steps += 1
        self.time += 1
        seen = self.np_random.uniform(-1, 1, 2).astype(np.float32)
        reward = float(action[0])
        if World.steps >= World.at:
            if self.fault == "step":
                raise ZeroDivisionError("division by zero")
            if self.fault == "nan observation":
                seen[1] = np.nan
            if self.fault == "inf observation":
                seen[0] = np.inf
            if self.fault == "nan reward":
                reward = np.nan
            if self.fault == "inf reward":
                reward = -np.inf
            if self.fault == "text reward":
                reward = "much"
            if self.fault == "shape":
                seen = np.zeros(3, np.float32)
            if self.fault == "text observation":
                seen = "left"
            if self.fault == "four":
                return seen, reward, False, {}
        return seen, reward, self.time == 5, False, {}

for fault in FAULTS:
    gymnasium.register(
        fault.replace(" ", "-").title() + "-v0", World, max_episode_steps=50,
        kwargs={"fault": fault},
    )
'''

IN_MID_RUN = {
    "step": "raised ZeroDivisionError at step 5 of an episode: division by zero",
    "reset": "raised ConnectionError in reset(seed=",
    "nan reset": "observation at reset(seed=",
    "nan observation": "not finite: nan at index (1,)",
    "inf observation": "not finite: inf at index (0,)",
    "nan reward": "reward at step 5 of an episode is nan",
    "inf reward": "reward at step 5 of an episode is -inf",
    "text reward": "reward at step 5 of an episode is 'much', not a number",
    "shape": "has shape (3,), expected (2,)",
    "text observation": "not an array of numbers",
    "four": "at step 5 of an episode: step must return (observation, reward, terminated, truncated",
}
AT_ONCE = {
    "make": (1, "FileNotFoundError: the model file is gone"),
    "first reset": (1, "is [bold]busy[/bold]"),  # not taken for our own markup
    "text space": (2, "is a Text, which cannot be learned on"),
    "unbounded": (2, "has no bounds in some direction"),
    "binary": (2, "is a MultiBinary, which cannot be learned on"),
    "empty": (2, "holds no numbers at all"),
}


def task(fault: str) -> str:
    return "broken_worlds:" + fault.replace(" ", "-").title() + "-v0"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    path = tmp_path_factory.mktemp("worlds")
    faults = repr([*IN_MID_RUN, *AT_ONCE])
    (path / "broken_worlds.py").write_text(MODULE.replace("FAULTS", faults))
    (path / "broken_import.py").write_text("raise OSError('no licence')\n")
    sys.path.insert(0, str(path))
    yield path
    sys.path.remove(str(path))


@pytest.fixture
def flags(folder: Path, tiny_flags: list[str]) -> list[str]:
    return [*tiny_flags, "--steps", "100", "--checkpoint-every", "20", "--run-dir", "run"]


@pytest.fixture(autouse=True)
def _here(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)


def _told(capsys: Any) -> str:
    err = str(capsys.readouterr().err)
    message = err[err.index("Error: ") :]
    assert "Traceback" not in err
    assert len(message) < 600 and "\n\n" not in message.strip()
    return message


@pytest.mark.parametrize("fault", IN_MID_RUN)
def test_a_fault_in_mid_run(fault: str, flags: list[str], capsys: Any, tmp_path: Path) -> None:
    assert main(["train", task(fault), *flags]) == 1
    assert IN_MID_RUN[fault] in _told(capsys)
    run = tmp_path / "run"
    result = json.loads((run / "result.json").read_text())
    assert result["status"] == "failed" and 30 <= result["steps"] < 60
    newest = max((run / "checkpoints").iterdir())
    assert newest.name == f"step-{result['steps']:09d}"  # saved because of the fault
    read_bundle(newest, "checkpoint")
    read_bundle(run / "agents/last", "agent")
    assert saved_config(run).task == task(fault)
    steps = [line["step"] for line in read_metrics(run / "metrics.jsonl")]
    assert steps and steps == sorted(steps)


@pytest.mark.parametrize("fault", AT_ONCE)
def test_a_fault_before_the_first_step(
    fault: str, flags: list[str], capsys: Any, tmp_path: Path
) -> None:
    code, message = AT_ONCE[fault]
    assert main(["train", task(fault), *flags]) == code
    assert message in _told(capsys)
    assert list(tmp_path.iterdir()) == []  # the same command can be given again


@pytest.mark.parametrize(
    ("name", "code", "message"),
    [
        ("broken_import:A-v0", 1, "which raised OSError: no licence"),
        ("broken_worlds:Stepp-v0", 2, "Did you mean broken_worlds:Step-v0"),
        ("missing_module:A-v0", 2, "add its folder to PYTHONPATH"),
    ],
)
def test_modules(
    name: str, code: int, message: str, flags: list[str], capsys: Any, tmp_path: Path
) -> None:
    assert main(["train", name, *flags]) == code
    assert message in _told(capsys)
    assert list(tmp_path.iterdir()) == []


def test_a_mended_environment_goes_on(flags: list[str], capsys: Any, tmp_path: Path) -> None:
    from broken_worlds import World  # type: ignore[import-not-found]

    assert main(["train", task("step"), *flags]) == 1
    at = World.at
    try:
        World.at = 10**9
        assert main(["train", task("step"), *flags, "--resume", "auto"]) == 0
    finally:
        World.at = at
    assert "Going on from step 44." in capsys.readouterr().out
    assert json.loads((tmp_path / "run/result.json").read_text())["status"] == "completed"


def test_as_a_command(folder: Path, flags: list[str], tmp_path: Path) -> None:
    """The same in a process of its own, found by PYTHONPATH."""
    done = subprocess.run(
        [str(Path(sys.executable).with_name("resel")), "train", task("step"), *flags],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(folder), "OMP_NUM_THREADS": "1"},
        timeout=120,
    )
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    assert IN_MID_RUN["step"] in done.stderr
    assert json.loads((tmp_path / "run/result.json").read_text())["status"] == "failed"


# The same for those who use the library


def test_faults_keep_their_cause(toy: Any) -> None:
    class Failing(toy):  # type: ignore[misc]
        def step(self, action: Any) -> Any:
            raise LookupError("no such joint")

    env = CheckedEnv(Failing())
    env.reset(1)
    with pytest.raises(EnvironmentFault, match="LookupError at step 1") as caught:
        env.step(np.zeros(2, np.float32))
    assert isinstance(caught.value.__cause__, LookupError)


@pytest.mark.parametrize(
    ("method", "told"),
    [
        ("step", r"Old\) returned 4 values at step 1 .*: step must return \(observation, "),
        ("reset", r"Old\) returned one value of type ndarray from reset.*\(observation, "),
        ("seed", r"Old\) cannot be seeded: reset must take seed="),
    ],
)
def test_environments_of_the_old_gym(toy: Any, method: str, told: str) -> None:
    class Old(toy):  # type: ignore[misc]
        def step(self, action: Any) -> Any:
            observation, reward, ended, _, info = super().step(action)
            return observation, reward, ended, info

    if method == "reset":
        Old.reset = lambda self, **how: toy.reset(self, **how)[0]
    if method == "seed":
        Old.reset = lambda self: toy.reset(self)
    env = CheckedEnv(Old())

    def play() -> None:
        env.reset(1)
        env.step(np.zeros(2, np.float32))

    with pytest.raises(EnvironmentFault, match=told):
        play()


@pytest.mark.parametrize("name", ["observation_space", "action_space"])
def test_spaces_that_change(toy: Any, name: str) -> None:
    class Growing(toy):  # type: ignore[misc]
        def reset(self, **how: Any) -> Any:
            setattr(self, name, spaces.Box(-1, 1, (5,)))
            return super().reset(**how)

    with pytest.raises(EnvironmentFault, match=rf"Growing\) changed its {name} at reset"):
        CheckedEnv(Growing()).reset(1)


def test_a_space_that_is_made_anew_each_time(toy: Any) -> None:
    class Asked(toy):  # type: ignore[misc]
        @property
        def observation_space(self) -> Any:
            return spaces.Box(-np.inf, np.inf, (3,), np.float32)

        @observation_space.setter
        def observation_space(self, value: Any) -> None:
            pass

    assert CheckedEnv(Asked()).reset(1).shape == (3,)


def test_an_info_that_is_none(toy: Any) -> None:
    class Terse(toy):  # type: ignore[misc]
        def step(self, action: Any) -> Any:
            return *super().step(action)[:4], None

    env = CheckedEnv(Terse())
    env.reset(1)
    with pytest.raises(EnvironmentFault, match=r"type NoneType as info at step 1 .*must return"):
        env.step(np.zeros(2, np.float32))
    Terse.reset = lambda self, **how: [0.0, 0.0]
    with pytest.raises(EnvironmentFault, match=r"type float as info from reset.*\(observation, "):
        env.reset(1)


@pytest.mark.parametrize("name", ["observation_space", "action_space"])
def test_an_environment_without_a_space(toy: Any, name: str) -> None:
    world = toy()
    delattr(world, name)
    with pytest.raises(UnsupportedSpaceError, match=rf"Toy\) has no {name}: set self\.{name}"):
        CheckedEnv(world)


def test_warnings_point_at_the_line_of_the_user(toy: Any) -> None:
    env = CheckedEnv(toy(), longest=1)
    env.reset(1)
    with pytest.warns(UserWarning, match=r"\(Toy\): an episode was cut") as told:
        env.step(np.zeros(2, np.float32))
    assert told[0].filename == __file__


@pytest.mark.parametrize("reward", [math.nan, math.inf, None, "a", [1, 2]])
def test_rewards_that_are_no_numbers(toy: Any, reward: Any) -> None:
    class Odd(toy):  # type: ignore[misc]
        def step(self, action: Any) -> Any:
            observation, _, *rest = super().step(action)
            return observation, reward, *rest

    env = CheckedEnv(Odd())
    env.reset(1)
    with pytest.raises(EnvironmentFault, match="reward at step 1"):
        env.step(np.zeros(2, np.float32))


def test_rewards_and_flags_of_numpy_are_taken(toy: Any) -> None:
    class Numpy(toy):  # type: ignore[misc]
        def step(self, action: Any) -> Any:
            observation, _, *_ = super().step(action)
            return observation.astype(np.float64), np.float32(0.5), np.True_, np.False_, {}

    env = CheckedEnv(Numpy())
    env.reset(1)
    outcome = env.step(np.zeros(2, np.float32))
    assert outcome.reward == 0.5 and outcome.terminated is True and outcome.truncated is False
    assert outcome.observation.dtype == np.float32


def test_an_observation_that_is_used_again(toy: Any) -> None:
    """Simulators that write into one array all the time do not rewrite what was stored."""

    class Reusing(toy):  # type: ignore[misc]
        array = np.zeros(3, np.float32)

        def _observation(self, moved: float) -> Any:
            self.array[:] = super()._observation(moved)
            return self.array

    env = CheckedEnv(Reusing())
    first = env.reset(1)
    kept = first.copy()
    env.step(np.ones(2, np.float32))
    assert np.array_equal(first, kept)


def test_spaces_are_refused_before_anything_is_made(toy: Any) -> None:
    world = toy()
    world.action_space = spaces.MultiDiscrete([100, 100])
    with pytest.raises(UnsupportedSpaceError, match="10000 combinations"):
        CheckedEnv(world)
