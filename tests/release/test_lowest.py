"""The lowest versions that are tested are those of pyproject.toml."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from project_tools import ROOT, tool


def test_every_bound_of_the_core_is_tested() -> None:
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    core = re.findall(r'"([a-z0-9]+)>=([0-9.]+)', text.split("dependencies = [")[1].split("]")[0])
    lines = set(tool("lowest").constraints())
    for name, version in core:
        if name != "torch":
            assert f"{name}=={version}" in lines
    pins = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    assert next(line for line in pins if line.startswith("torch==")) in lines
    assert "mujoco" not in tool("lowest").extras() and "export" in tool("lowest").extras()


def test_torch_too_if_asked() -> None:
    lowest = tool("lowest")
    assert f"torch=={lowest.floors()['torch']}" in set(lowest.constraints(torch=True))


def test_the_highest_of_several_bounds(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    lowest = tool("lowest")
    text = '[project]\ndependencies = ["a_b>=1.9"]\n[project.optional-dependencies]\n'
    (tmp_path / "pyproject.toml").write_text(text + 'x = ["a-b[c]>=1.10"]\nall = ["resel[x]"]\n')
    monkeypatch.setattr(lowest, "ROOT", tmp_path)
    assert lowest.floors() == {"a-b": "1.10"}


def test_a_dependency_without_a_bound(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    lowest = tool("lowest")
    text = '[project]\ndependencies = ["torch"]\n[project.optional-dependencies]\n'
    (tmp_path / "pyproject.toml").write_text(text + 'x = []\nall = ["resel[x]"]\n')
    monkeypatch.setattr(lowest, "ROOT", tmp_path)
    with pytest.raises(SystemExit, match="'torch' in pyproject\\.toml has no lower bound"):
        lowest.floors()
