"""The help of `train` and `resume`: few flags at first, all of them in groups."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from resel.cli import main
from resel.cli._meanings import field_meanings
from resel.config import GROUPS, Config, actions_of
from resel.methods import default_method, methods
from resel.networks import encoders
from resel.runs import MAY_DIFFER


def shown(capsys: Any, *argv: str) -> tuple[str, list[str]]:
    """The text of a help, and its flags in order."""
    capsys.readouterr()
    with pytest.raises(SystemExit) as left:
        main(list(argv))
    text = capsys.readouterr().out
    assert left.value.code == 0 and max(map(len, text.splitlines())) <= 80
    assert not re.search(r"STR|\{None\}", text)
    assert all(line == line.rstrip() for line in text.splitlines())
    return text, re.findall(r"^  (?:--[a-z-]+, )*--([a-z-]+)", text, re.MULTILINE)


def test_twenty_flags_in_the_order_of_use(capsys: Any) -> None:
    text, flags = shown(capsys, "train", "--help")
    assert len(flags) == 20
    order = ["steps", "seed", "run-dir", "size", "encoder", "method", "lr-policy", "eval-every"]
    assert [flag for flag in flags if flag in order] == order
    assert "{paper,released,small,auto,FILE}" in text
    words = " ".join(text.split())
    for known in ([method.name for method in methods()[0]], [spec.name for spec in encoders()[0]]):
        assert f"{{{','.join(known)}}}" in words or f"One of {', '.join(known)}." in words
    assert re.search(r"\n\d\d more flags, .*: resel train TASK --help-all\n", text)


@pytest.mark.parametrize("method", [method.name for method in methods()[0]])
def test_every_flag_is_shown_once_when_all_are(method: str, capsys: Any) -> None:
    _, flags = shown(capsys, "train", "--method", method, "--help-all")
    config = Config.build("", {"method": method})
    own = {name.replace("_", "-") for name in config.flat()} - {"encoder"}
    assert len(flags) == len(set(flags)) and own <= set(flags)
    assert ("encoder" in flags) == (config.encoder is not None)
    for group in GROUPS:  # what is for one kind of actions says so first, and is known by it
        kind = type(getattr(config, group))
        for name, meaning in field_meanings(kind).items():
            said = re.match("(Box|Discrete)(,| actions)?[^:]*: ", meaning)
            assert actions_of(kind, name) == (said[1] if said else None)
    _, first = shown(capsys, "train", "--method", method, "-h")
    assert len(first) <= 20 and set(first) < set(flags)


@pytest.mark.parametrize(
    ("task", "discrete"),
    [
        ("toy/Box-v0", False),
        ("toy/Discrete-v0", True),
        ("Pendulum-V-v0", False),
        ("TMaze-v0", True),
    ],
)
def test_flags_for_other_actions_are_left_out(task: str, discrete: bool, capsys: Any) -> None:
    _, flags = shown(capsys, "train", task, "--method", default_method(), "--help-all")
    _, every = shown(capsys, "train", "--help-all")
    assert "noise-hold" in flags and "noise-hold" in every
    for name in ("critic-episodes", "policy-kl", "exploration-epsilon"):
        assert (name in flags) is discrete and name in every


def test_the_environment_has_its_own_defaults(capsys: Any) -> None:
    text, _ = shown(capsys, "train", "toy/Box-v0", "--steps", "3e5", "--help")
    assert re.search(r"--warmup-steps N .*\(default: 5000\)", text, re.DOTALL)
    assert re.search(r"--eval-every N .*\(default: 15000\)", text, re.DOTALL)


def test_resuming_shows_what_may_change(finished: Path, capsys: Any) -> None:
    text, flags = shown(capsys, "resume", str(finished), "--help")
    assert flags == [*(name.replace("_", "-") for name in MAY_DIFFER), "wandb", "force"]
    assert "(default: 60)" in text and "which a run keeps" in text
    _, every = shown(capsys, "resume", str(finished), "--help-all")
    assert "gamma" in every and "method" not in every
