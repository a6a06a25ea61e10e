"""Presets in files: taken wherever a preset is, refused where they are not what they were."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from terminal import refused

from resel import Agent, RESeL
from resel.agent import configure
from resel.cli.train import train_arguments
from resel.errors import ConfigError, DamagedFileError
from resel.experiments import choose, comparison, with_preset
from resel.methods import PresetFile, get_method, read_preset

OWN = """
import gymnasium
class Env(gymnasium.Env):
    observation_space = gymnasium.spaces.Box(-1, 1, (1,))
    action_space = gymnasium.spaces.Discrete(2)
    def __init__(self, noise=0.0): self.noise = noise
"""


@pytest.fixture(autouse=True)
def _folder(own_folder: None) -> None:
    pass


def write(method: str = "resel", task: str = "TMaze-v0", **settings: Any) -> str:
    config = configure(task, method=method, **settings)
    PresetFile.of(config, {"why": "a test"}).write(Path("mine.json"))
    return "mine.json"


def test_it_holds_all_settings_of_a_run() -> None:
    path = write(encoder="mamba", gamma=0.5, size="tiny", seed=7, threads=1, steps=123)
    found = configure("TMaze-v0", preset=path)
    asked = configure("TMaze-v0", encoder="mamba", gamma=0.5, size="tiny", steps=123)
    assert found == asked, "but for what belongs to a run and its machine"
    assert configure("TMaze-v0", preset=path, gamma=0.6).algorithm.gamma == 0.6
    assert read_preset(path).about == {"why": "a test"}


def test_settings_that_its_method_no_longer_has() -> None:
    former = get_method("resel").former
    for changed, refusal in (({}, None), ({"alpha_start": 0.5}, "alpha_start=0.5, a setting that")):
        document = json.loads(Path(write(gamma=0.5)).read_text())
        document["settings"] |= former | changed
        del document["sha256"]
        Path("mine.json").write_text(json.dumps(document))
        if refusal is None:
            assert configure("TMaze-v0", preset="mine.json").algorithm.gamma == 0.5
        else:
            with pytest.raises(ConfigError, match=refusal):
                configure("TMaze-v0", preset="mine.json")


def test_it_brings_its_method() -> None:
    path = write("sac-gru", gamma=0.5)
    assert configure("TMaze-v0", preset=path).method == "sac-gru"
    assert Agent("TMaze-v0", preset=path, size="tiny").config.algorithm.gamma == 0.5
    with pytest.raises(ConfigError, match="settings of the method sac-gru, not of resel"):
        RESeL("TMaze-v0", preset=path)
    arguments = train_arguments(["TMaze-v0", "--preset", path, "--seed", "3"])
    assert arguments.config == configure("TMaze-v0", preset=path, seed=3)


def test_another_task_is_told_and_gets_no_arguments_of_the_first() -> None:
    path = write(env_kwargs={"length": 4}, gamma=0.5)
    assert configure("TMaze-v0", preset=path).training.env_kwargs == {"length": 4}
    with pytest.warns(UserWarning, match="found on TMaze-v0, and this is CartPole-V-v0"):
        other = configure("CartPole-V-v0", preset=path)
    assert other.training.env_kwargs == {} and other.algorithm.gamma == 0.5


def test_environments_of_one_s_own() -> None:
    Path("world.py").write_text(OWN)
    config = configure("world.py:Env", preset="small", gamma=0.5, env_kwargs={"noise": 0.2})
    PresetFile.of(config, {}).write(Path("mine.json"))
    found = train_arguments(["world.py:Env", "--preset", "mine.json"]).config
    assert found.training.env_kwargs == {"noise": 0.2} and found.algorithm.gamma == 0.5


def test_comparisons_and_figures_take_it() -> None:
    path = write(gamma=0.5)
    found = comparison("TMaze-v0", ["resel", "sac-gru"], 1, path).studies["cpu"].settings
    assert [s.config(1).algorithm.gamma for s in found] == [0.5, 0.99]
    assert Path(found[0].preset).is_absolute(), "workers elsewhere find it"
    with pytest.raises(ConfigError, match="resel, which is not compared"):
        comparison("TMaze-v0", ["sac-gru"], 1, path)
    (figure,) = choose(["tmaze"])
    changed = with_preset(figure, "smoke", path).studies["smoke"].settings
    assert any(setting.preset.endswith("mine.json") for setting in changed)
    with pytest.raises(ConfigError, match="does not run resel on Pendulum-P-v0"):
        with_preset(figure, "smoke", write(task="Pendulum-P-v0"))


def test_what_is_no_preset_of_ours(capsys: Any) -> None:
    path = Path(write(gamma=0.5))
    good = json.loads(path.read_text())
    command = ("train", "TMaze-v0", "--preset", str(path))

    def says(words: str, **changes: Any) -> None:
        path.write_text(json.dumps({**good, **changes}))
        assert words in refused(capsys, *command), words

    altered = {**good["settings"], "gamma": 0.6}
    says("was altered", settings=altered)
    says("up to 1: update resel", version=2)
    says("format 'other'", format="other")
    del good["sha256"]
    path.write_text(json.dumps({**good, "settings": altered}))
    assert configure("TMaze-v0", preset=str(path)).algorithm.gamma == 0.6, "one's own has no hash"
    says("no setting named 'gama'", settings={"gama": 1})
    says("gamma=2 is out of range", settings={"gamma": 2})
    says("There is no method 'nothing'", method="nothing")
    says("needs a task and a method", settings=[])
    path.write_text("{")
    assert "cannot be read as a preset file" in refused(capsys, *command)
    with pytest.raises(DamagedFileError):
        read_preset(str(path))
    path.unlink()
    assert "There is no preset file mine.json" in refused(capsys, *command)
