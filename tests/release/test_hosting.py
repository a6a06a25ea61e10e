"""Workflows, hooks and templates are YAML, and call what is there."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import pytest
import yaml
from project_tools import ROOT

HOST = ROOT / ".github"
WORKFLOWS = sorted((HOST / "workflows").glob("*.yml"))
TARGETS = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))


def _read(path: Path) -> Any:
    return yaml.safe_load(path.read_text(encoding="utf-8"))


def _commands(workflow: Path) -> list[str]:
    jobs = _read(workflow)["jobs"].values()
    return [step["run"] for job in jobs for step in job["steps"] if "run" in step]


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda path: path.stem)
def test_workflows_make_targets_that_exist(workflow: Path) -> None:
    made = [command for command in _commands(workflow) if command.startswith("make ")]
    assert made
    for command in made:
        assert shlex.split(re.sub(r"\$\{\{.*?\}\}", "", command))[1] in TARGETS, command
    for job in _read(workflow)["jobs"].values():
        assert job["timeout-minutes"] <= 180
        used = set(re.findall(r"matrix\.([a-z]+)", yaml.safe_dump(job)))
        assert used == set(job.get("strategy", {}).get("matrix", {}))


def test_what_the_workflows_cover() -> None:
    commands = " ".join(command for workflow in WORKFLOWS for command in _commands(workflow))
    for target in ("test", "test-all", "test-lowest", "docs", "release-check"):
        assert re.search(rf"make {target}(\s|$)", commands), target
    jobs = _read(HOST / "workflows" / "tests.yml")["jobs"]
    for job in ("pinned", "newest"):
        assert jobs[job]["strategy"]["matrix"]["python"] == ["3.11", "3.12", "3.13"]


def test_hooks_are_those_of_make_check() -> None:
    (local,) = _read(ROOT / ".pre-commit-config.yaml")["repos"]
    assert local["repo"] == "local"
    tools = {hook["entry"].split()[0].removeprefix(".venv/bin/") for hook in local["hooks"]}
    checked = (ROOT / "Makefile").read_text().split("\ncheck:")[1].split("\ntest:")[0]
    assert tools == set(re.findall(r"\$\(BIN\)/([a-z-]+)", checked))


def test_templates_have_what_the_host_asks_for() -> None:
    for path in (HOST / "ISSUE_TEMPLATE").glob("*.yml"):
        form = _read(path)
        if path.stem != "config":
            assert form["name"] and form["description"]
            names = [field["id"] for field in form["body"]]
            assert len(names) == len(set(names))
            assert all(field["attributes"]["label"] for field in form["body"])


def test_the_citation_is_complete() -> None:
    citation = _read(ROOT / "CITATION.cff")
    assert citation["cff-version"] == "1.2.0" and citation["preferred-citation"]["year"] == 2024
