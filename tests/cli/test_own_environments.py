"""Environments of one's own from the command: trained, resumed, measured and watched anywhere."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest
from command import start
from PIL import Image
from terminal import SMALL, read, refused

from resel.cli import main
from resel.runs import saved_config

WORLD = """
import gymnasium
import numpy as np
from gymnasium import spaces

class Track(gymnasium.Env):
    observation_space = spaces.Box(-1, 1, (2,), np.float32)
    action_space = spaces.Box(-1, 1, (1,), np.float32)

    def __init__(self, noise=0.1, length=5):
        self.noise, self.length = noise, length

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.time = 0
        return self.np_random.uniform(-1, 1, 2).astype(np.float32), {}

    def step(self, action):
        self.time += 1
        seen = self.np_random.uniform(-1, 1, 2).astype(np.float32)
        ended = self.time == self.length
        return seen, float(action[0]), False, ended, {"success": self.noise > 0.15}
"""


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file with an environment in the current folder."""
    monkeypatch.setattr(sys, "path", [*sys.path])
    path = tmp_path / "own_track.py"
    path.write_text(WORLD)
    return path


@pytest.mark.filterwarnings("always:Since the")
def test_a_class_in_a_file(
    world: Path,
    tiny_flags: list[str],
    capsys: Any,
    tmp_path: Path,
    tmp_path_factory: pytest.TempPathFactory,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    command = ["train", "own_track.py:Track", *tiny_flags, *SMALL, "--env-workers"]
    assert main([*command, "--env-kwargs", "noise=0.2"]) == 0
    (run,) = (tmp_path / "runs").iterdir()
    assert run.name.startswith("own_track.py-Track-gru-seed1-")
    config = saved_config(run)
    assert config.task == f"{world}:Track" and config.training.env_kwargs == {"noise": 0.2}
    assert read(run / "result.json")["success_rate"] == 1.0
    evaluated = ["eval", str(run), "--episodes", "2", "--json"]

    monkeypatch.chdir(tmp_path_factory.mktemp("elsewhere"))
    capsys.readouterr()
    assert main([*evaluated, "--env-kwargs", "length=9"]) == 0
    assert json.loads(capsys.readouterr().out)["length_mean"] == 9
    told = refused(capsys, "watch", str(run), "--out", "film.gif")
    assert "draws no pictures" in told and f"resel watch {run} --out film.png" in told
    assert main(["watch", str(run), "--out", "film.png", "--env-kwargs", "length=9"]) == 0
    with Image.open("film.png") as picture:
        assert picture.width > 0
    assert main(["resume", str(run), "--steps", "70", "--no-env-workers"]) == 0
    assert read(run / "result.json")["exact"]

    copy = shutil.copytree(run, "copy")
    world.write_text(WORLD.replace("float(action[0])", "2 * float(action[0])"))
    capsys.readouterr()
    assert main(evaluated) == 0
    assert "Warning: Since the agent was saved the file" in capsys.readouterr().err
    assert main(["resume", str(run), "--steps", "80"]) == 0
    assert "Warning: Since the checkpoint the file of the" in capsys.readouterr().err
    result = read(run / "result.json")
    assert not result["exact"] and "file of the environment" in result["inexact_because"][0]

    world.unlink()
    before = {p: p.stat().st_mtime_ns for p in Path(copy).rglob("*") if p.name != ".lock"}
    for verb in (["eval", "copy"], ["resume", "copy", "--steps", "90"]):
        assert f"is not there: {world}" in refused(capsys, *verb)
    after = {p: p.stat().st_mtime_ns for p in Path(copy).rglob("*") if p.name != ".lock"}
    assert after == before


def test_a_class_in_a_module_of_the_current_folder(world: Path, tiny_flags: list[str]) -> None:
    flags = [*tiny_flags, "--steps", "40", "--run-dir", "run"]
    process = start("train", "own_track:Track", *flags)
    _, said = process.communicate(timeout=120)
    assert process.returncode == 0, said
    assert saved_config(Path("run")).task == "own_track:Track"


def test_what_cannot_start_leaves_nothing(world: Path, tiny_flags: list[str], capsys: Any) -> None:
    world.write_text(WORLD.replace("self.noise, self.length = noise, length", "noise / 0"))
    command = ["train", "own_track.py:Track", *tiny_flags, "--run-dir", "run"]
    told = refused(capsys, *command, code=1)
    assert "could not be made (line 11 of own_track.py): ZeroDivisionError" in told
    world.write_text(WORLD.replace("astype(np.float32), {}", "astype(np.float32)"))
    told = refused(capsys, *command, code=1, alone=True)
    assert "one value of type ndarray from reset(" in told and "(observation, info)" in told
    world.write_text("no Python at all")
    assert "own_track.py is no Python that can be read (line 1)" in refused(capsys, *command)
    assert not Path("run").exists()


@pytest.mark.filterwarnings("always:Since the")
def test_a_fault_before_the_first_step_leaves_nothing(
    world: Path, tiny_flags: list[str], capsys: Any
) -> None:
    """Nothing was raised where an observation has a wrong shape; mended, the same command works."""
    world.write_text(WORLD.replace("return seen,", "return seen[:1],"))
    command = ["train", "own_track.py:Track", *tiny_flags, *SMALL, "--run-dir", "run"]
    capsys.readouterr()
    assert main(command) == 1
    said = capsys.readouterr()
    assert "The observation has shape (1,), expected (2,)." in said.err
    assert "raised" not in said.out + said.err
    assert said.out.endswith("No step was taken, so nothing is kept: mend it and start again.\n")
    assert not Path("run").exists()
    Path("run").mkdir()
    Path("run/console.log").write_text("mine")
    assert main(command) == 1
    assert [entry.name for entry in Path("run").iterdir()] == ["console.log"]
    world.write_text(WORLD.replace("self.time += 1", "self.time += 1; assert self.time < 3"))
    assert main([*command, "--eval-every", "0"]) == 1
    said = capsys.readouterr()
    assert "Traceback of the environment:" in said.out and "metrics.jsonl" not in said.out
    assert "Stopped at step 2. Go on with: resel resume run" in said.out
    world.write_text(WORLD)
    assert main(["resume", "run"]) == 0
    said = capsys.readouterr().out
    assert "resel watch run --out episode.png" in said and "film.gif" not in said
