"""What is built has all that users need, and the release check tries every verb."""

from __future__ import annotations

import re
import tarfile
import zipfile
from email.parser import Parser
from pathlib import Path

import pytest
from project_tools import ROOT, tool

import resel
from resel.cli._entry import VERBS
from resel.runs.machine import NUMBERS_SINCE, differences, numeric_machine


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from hatchling.builders.wheel import WheelBuilder

    folder = tmp_path_factory.mktemp("dist")
    (built,) = WheelBuilder(str(ROOT)).build(directory=str(folder), versions=["standard"])
    return Path(built)


def test_the_wheel_is_the_package(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    inside = {name for name in names if ".dist-info/" not in name}
    assert inside == tool("release_check").unpacked()
    for needed in (
        "resel/py.typed",
        "resel/reports/assets/page.js",
        "resel/analysis/paper_tables/tables.csv",
        "resel/analysis/published_tables/popgym.csv",
        "resel/zoo/agents/pendulum-v/weights.safetensors",
    ):
        assert needed in names


def test_the_wheel_says_what_it_is(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        (path,) = [name for name in archive.namelist() if name.endswith("/METADATA")]
        told = Parser().parsestr(archive.read(path).decode())
        assert any(name.endswith("licenses/LICENSE") for name in archive.namelist())
    assert told["Version"] == resel.__version__ and told["Requires-Python"] == ">=3.11"
    assert told["License-Expression"] == "MIT"
    assert "Typing :: Typed" in told.get_all("Classifier", [])
    assert str(ROOT) not in told.as_string() and "file:" not in told.as_string()


def test_a_file_that_is_left_out_is_named(wheel: Path, tmp_path: Path) -> None:
    lacking = tmp_path / wheel.name
    with zipfile.ZipFile(wheel) as whole, zipfile.ZipFile(lacking, "w") as less:
        for name in whole.namelist():
            if name != "resel/py.typed":
                less.writestr(name, whole.read(name))
    check = tool("release_check")
    assert check.missing_from(wheel) == set()
    assert check.missing_from(lacking) == {"resel/py.typed"}


def test_the_sdist_can_be_built_and_tested_from(tmp_path: Path) -> None:
    from hatchling.builders.sdist import SdistBuilder

    (built,) = SdistBuilder(str(ROOT)).build(directory=str(tmp_path), versions=["standard"])
    with tarfile.open(built) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert {
        "pyproject.toml", "Makefile", "constraints.txt", "mkdocs.yml", "CHANGELOG.md", "LICENSE",
        ".pre-commit-config.yaml", "SECURITY.md", "CODE_OF_CONDUCT.md", "CITATION.cff",
        "tools/release_check.py", "tests/conftest.py", "examples/demo.py", "docs/index.md",
    } <= names  # fmt: skip
    hosting = {str(path.relative_to(ROOT)) for path in (ROOT / ".github").rglob("*.*")}
    assert hosting and hosting <= names


def test_the_release_check_tries_every_verb() -> None:
    assert set(tool("release_check").verbs()) == set(VERBS), "add it to tools/release_check.py"


def test_the_changelog_has_the_version() -> None:
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    headings = re.findall(r"^## (.+)$", text, re.MULTILINE)
    assert headings[0] == "Unreleased"
    releases = [re.fullmatch(r"(\d+\.\d+\.\d+) - (\d{4}-\d\d-\d\d)", line) for line in headings[1:]]
    assert all(releases), "a release is `## VERSION - YEAR-MONTH-DAY`"
    versions, dates = zip(*(found.groups() for found in releases if found), strict=True)
    assert versions[0] == resel.__version__
    assert list(dates) == sorted(dates, reverse=True)
    unreleased = text.partition("## Unreleased")[2].partition("\n## ")[0]
    assert NUMBERS_SINCE in versions or f"numbers of {NUMBERS_SINCE}" in unreleased


def test_runs_of_a_release_with_the_same_numbers_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """The version that is installed is told in environment.json, and refuses no run."""
    before = numeric_machine("cpu")
    monkeypatch.setattr("resel.runs.machine._version", lambda name: f"{name} 9")
    after = numeric_machine("cpu")
    assert before["resel"] == after["resel"] == NUMBERS_SINCE
    assert [line for line in differences(before, after) if line.startswith("torch: ")]
