"""The code in pages runs, with fewer steps, and their commands have the flags that they show."""

from __future__ import annotations

import contextlib
import io
import itertools
import re
import shlex
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from doc_pages import DOCS, PAGES, blocks, name_of

from resel import Agent, RESeL
from resel.cli import main
from resel.methods import get_method

_STEPS = 230
"""Enough for an episode of the pendulum and some updates after it."""
_SMALL: dict[str, Any] = {
    "warmup_steps": 60,
    "updates_per_step": 0.1,
    "eval_every": 0,
    "eval_episodes": 1,
    "device": "cpu",
}
_FEWER = {
    "docs/diagnostics.md": {"episodes=40": "episodes=5", "episodes=20": "episodes=2"},
    "docs/coming-from.md": {"model.learn(1_000)": "model.learn(120)"},
    "docs/results/real/README.md": {"n = 200_000": "n = 2_000"},
    "docs/results/minigrid/README.md": {"1_200, 4_000, 300": "40, 500, 10"},
}
"""What a page takes long for, and what is done instead."""
_SLOW = {"docs/diagnostics.md", "docs/tutorials/reading-a-diagnosis.md"}
_ELSEWHERE = {"docs/extending.md"}
"""Its code is a package that tests/test_extending.py installs."""


def _with_code() -> Iterator[Any]:
    for page in PAGES:
        name = name_of(page)
        if name not in _ELSEWHERE and blocks(page, "python"):
            marks = [pytest.mark.slow] if name in _SLOW else []
            yield pytest.param(page, id=name, marks=marks)


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Agents learn for few steps, with small networks, whatever is asked for."""
    init, learn = Agent.__init__, Agent.learn

    def small_init(self: Agent, *given: Any, **settings: Any) -> None:
        small = dict(_SMALL)
        if get_method(settings.get("method", "resel")).learner.on_policy:
            del small["updates_per_step"]
        init(self, *given, **{"size": "tiny", **settings, **small})

    def short_learn(self: Agent, steps: int, **options: Any) -> Agent:
        return learn(self, min(steps, _STEPS), **{**options, "progress_bar": False})

    monkeypatch.setattr(Agent, "__init__", small_init)
    monkeypatch.setattr(Agent, "learn", short_learn)


def _make_what_it_speaks_of(code: str) -> None:
    """A run of the pendulum, an agent of a robot."""
    if "runs/pendulum" in code:
        RESeL("Pendulum-V-v0", seed=1).learn(20_000, run_dir="runs/pendulum")
    if "runs/cheetah" in code:
        RESeL("HalfCheetah-gravity-v0", seed=1).save("runs/cheetah/agents/last")


@pytest.mark.usefixtures("small", "own_folder")
@pytest.mark.parametrize("page", list(_with_code()))
def test_python_blocks_run(page: Path) -> None:
    _make_what_it_speaks_of("\n".join(blocks(page, "python")))
    names: dict[str, Any] = {"__name__": "page"}
    for number, code in enumerate(blocks(page, "python")):
        for long, short in _FEWER.get(name_of(page), {}).items():
            code = code.replace(long, short)
        exec(compile(code, f"{name_of(page)}, block {number}", "exec"), names)


def test_what_is_shortened_is_still_there() -> None:
    for name, changes in _FEWER.items():
        text = (DOCS.parent / name).read_text(encoding="utf-8")
        assert all(long in text for long in changes), name


def _commands(page: Path) -> list[str]:
    lines = "\n".join(blocks(page, "bash", "console")).replace("\\\n", " ").splitlines()
    return [line.removeprefix("$ ") for line in lines if re.match(r"(\$ )?resel( |$)", line)]


_QUICK = {
    "--steps": "300",
    "--warmup-steps": "60",
    "--updates-per-step": "0.1",
    "--eval-every": "0",
    "--size": "tiny",
}
_FOLLOWED = ("environments", "tutorials/first-hour", "tutorials/reading-a-diagnosis")


@pytest.mark.slow
@pytest.mark.usefixtures("small", "own_folder")
@pytest.mark.parametrize("name", _FOLLOWED)
def test_a_reader_can_follow_the_commands(name: str) -> None:
    page = DOCS / f"{name}.md"
    commands = [shlex.split(line, comments=True)[1:] for line in _commands(page)]
    if not any("runs/pendulum" in words for words in commands if words[0] == "train"):
        _make_what_it_speaks_of(" ".join(itertools.chain(*commands)))
    for code in blocks(page, "python"):
        if name == "environments":
            Path("tracking.py").write_text(code, encoding="utf-8")
    for words in commands:
        if words[0] == "train":
            given = dict(zip(words, [*words[1:], ""], strict=True))
            words = [word for word in words if word not in ("--steps", given.get("--steps"))]
            words += itertools.chain(*_QUICK.items())
        assert main(words) == 0, words


@cache
def _flags(verb: str, *chosen: str) -> set[str]:
    """Those that a verb tells of, with the method and encoder that are chosen."""
    if verb == "resume":
        return _flags("train")
    said = io.StringIO()
    with contextlib.redirect_stdout(said), contextlib.suppress(SystemExit):
        assert main([verb, *chosen, "--help-all" if verb == "train" else "--help"]) == 0
    return set(re.findall(r"--[a-z][a-z-]*", said.getvalue())) | {"--help", "--help-all"}


@pytest.mark.parametrize("page", [page for page in PAGES if _commands(page)], ids=name_of)
def test_commands_have_the_flags_that_pages_show(page: Path) -> None:
    for line in _commands(page):
        _, *words = shlex.split(line, comments=True)
        if not words or words[0].startswith("-"):
            continue
        verb = words[0]
        chosen = (
            words[1:2]
            if verb in ("bench", "zoo")
            else [
                part
                for flag, value in itertools.pairwise(words)
                if flag in ("--method", "--encoder") and verb == "train" and value.islower()
                for part in (flag, value)
            ]
        )
        asked = {word.split("=")[0] for word in words if word.startswith("--")}
        assert asked <= _flags(verb, *chosen), f"{line}: {asked - _flags(verb, *chosen)}"
