"""Environments of the user's own: files, modules, and what is said where they cannot be made."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gymnasium
import pytest

from resel import RESeL
from resel.errors import (
    ConfigError,
    EnvironmentFault,
    MissingDependencyError,
    NoPicturesError,
    ReselError,
    UnknownTaskError,
)
from resel.experiments import Setting
from resel.tasks import full_name, make_env, short_name

WORLD = """
import gymnasium
import numpy as np
from gymnasium import spaces

class Track(gymnasium.Env):
    observation_space = spaces.Box(-1, 1, (2,), np.float32)
    action_space = spaces.Box(-1, 1, (1,), np.float32)

    def __init__(self, noise=0.1):
        self.noise = noise

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.time = 0
        return np.zeros(2, np.float32), {}

    def step(self, action):
        self.time += 1
        return np.zeros(2, np.float32), 0.0, False, self.time == 5, {"success": True}

def quiet():
    return Track(0.0)

class Needy(Track):
    def __init__(self, size):
        self.size = size

class Broken(Track):
    def __init__(self):
        raise ValueError("no such model")

class Leaving(Track):
    def __init__(self):
        raise SystemExit(3)

class Thing:
    pass

NUMBER = 3
gymnasium.register("OwnTrack-v0", Track, max_episode_steps=7)
"""


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A folder of its own with the world in it; paths, modules and ids put back afterwards."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    before, modules = dict(gymnasium.registry), set(sys.modules)
    Path("own_world.py").write_text(WORLD)
    yield
    gymnasium.registry.clear()
    gymnasium.registry.update(before)
    for name in set(sys.modules) - modules:
        if name.startswith("own_world"):
            del sys.modules[name]


@pytest.mark.parametrize("place", ["own_world.py", "./own_world.py", "own_world"])
def test_classes_functions_and_ids(place: str) -> None:
    made: Any = make_env(f"{place}:Track", env_kwargs={"noise": 0.2}).unwrapped
    assert type(made).__name__ == "Track" and made.noise == 0.2
    quiet: Any = make_env(f"{place}:quiet").unwrapped
    assert quiet.noise == 0.0
    spec = make_env(f"{place}:OwnTrack-v0").spec
    assert spec is not None and spec.max_episode_steps == 7


def test_a_name_is_found_from_any_folder(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = full_name("own_world.py:Track")
    assert name == f"{tmp_path}/own_world.py:Track" and full_name(name) == name
    words = Setting("own_world.py:Track", {"env_kwargs": {"noise": 0.2}}, preset="auto").flags(1)
    assert words[0] == name and words[words.index("--env-kwargs") + 1] == "noise=0.2"
    monkeypatch.chdir(tmp_path_factory.mktemp("elsewhere"))
    assert make_env(name) is not None
    assert short_name(name) == "own_world.py:Track"
    for plain in ("TMaze-v0", "toy/Box-v0", "module:Id-v0"):
        assert full_name(plain) == short_name(plain) == plain


def test_one_class_for_one_file_until_it_changes() -> None:
    kinds = [type(make_env("own_world.py:Track").unwrapped) for _ in range(2)]
    assert kinds[0] is kinds[1]
    Path("own_world.py").write_text(WORLD.replace("noise=0.1", "noise=0.7"))
    changed: Any = make_env("own_world.py:Track").unwrapped  # told by nobody: it is meant
    assert changed.noise == 0.7


def test_a_file_imports_what_lies_beside_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("own_world_parts.py").write_text("LENGTH = 3\n")
    Path("user.py").write_text(f"from own_world_parts import LENGTH\n{WORLD}")
    monkeypatch.chdir("/")
    assert make_env(f"{tmp_path}/user.py:Track") is not None


@pytest.mark.parametrize(
    ("name", "kind", "told"),
    [
        ("own_world.py:Trak", UnknownTaskError, "Did you mean own_world.py:Track"),
        ("own_world:Trak", UnknownTaskError, "Did you mean own_world:Track"),
        ("own_world.py:OwnTrak-v0", UnknownTaskError, "own_world.py:OwnTrack-v0"),
        (
            "own_world.py",
            UnknownTaskError,
            "does not say which environment. Write own_world.py:Tra",
        ),
        ("own_world.py:Thing", ConfigError, "no environment: derive it from gymnasium.Env"),
        ("own_world.py:NUMBER", ConfigError, "is int and makes no environment"),
        ("own_world.py:Needy", EnvironmentFault, "'size'. Give arguments without a default as"),
        ("own_world.py:Broken", EnvironmentFault, "(line 31 of own_world.py): ValueError: no such"),
        ("own_world.py:Leaving", EnvironmentFault, "SystemExit: 3"),
        ("missing.py:Track", UnknownTaskError, "missing.py. Check the path."),
        ("notes.txt:Track", ConfigError, "notes.txt is no Python file"),
        ("folder.py:Track", UnknownTaskError, "cannot be read"),
        ("prose.py:Track", ConfigError, "prose.py is no Python that can be read (line 1)"),
        ("binary.py:Track", ConfigError, "binary.py is no Python that can be read"),
        ("lost.py:Track", MissingDependencyError, "(line 2 of lost.py): ModuleNotFoundError: No m"),
        ("failing.py:Track", EnvironmentFault, "(line 1 of failing.py): ZeroDivisionError"),
        ("empty.py:Track", UnknownTaskError, "It has none: write a class that is derived from gym"),
    ],
)
def test_what_cannot_be_made(name: str, kind: type[ReselError], told: str) -> None:
    Path("notes.txt").write_text("Track")
    Path("folder.py").mkdir()
    Path("prose.py").write_text("This is a letter.")
    Path("binary.py").write_bytes(bytes(range(256)))
    Path("lost.py").write_text("import os\nimport no_such_simulator\n")
    Path("failing.py").write_text("1 / 0\n")
    Path("empty.py").write_text("")
    with pytest.raises(kind) as caught:
        make_env(name)
    assert told in str(caught.value) and str(caught.value).count("\n") == 0


def test_a_file_that_trains_while_it_is_read() -> None:
    Path("loop.py").write_text(
        f"{WORLD}\nfrom resel.tasks import make_env\nmake_env('loop.py:Track')\n"
    )
    with pytest.raises(ConfigError, match='under `if __name__ == "__main__":`'):
        make_env("loop.py:Track")


def test_pictures_of_what_draws_none() -> None:
    with pytest.raises(NoPicturesError, match="it takes no argument render_mode"):
        make_env("own_world.py:Track", render_mode="rgb_array")


def test_the_library_takes_the_same_names(tiny: dict[str, Any]) -> None:
    agent = RESeL("own_world.py:Track", **tiny)
    assert agent.config.task == f"{os.getcwd()}/own_world.py:Track"
    agent.save("agent")
    os.chdir("/")
    saved = Path(agent.config.task).parent / "agent"
    assert RESeL.load(saved).config.task == agent.config.task
    source = saved.parent / "own_world.py"
    source.write_text(WORLD + "# another line\n")
    with pytest.warns(UserWarning, match=r"file of the environment has changed"):
        RESeL.load(saved)
    source.unlink()
    with pytest.raises(UnknownTaskError, match="is not there"):
        RESeL.load(saved)
