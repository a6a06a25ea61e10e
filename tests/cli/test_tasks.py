"""`resel tasks`: the list, and the settings of one."""

from __future__ import annotations

import importlib.util
import json
import re
from typing import Any

import pytest

from resel.cli import main


def test_tasks(capsys: Any) -> None:
    assert main(["tasks", "--json"]) == 0
    listed = {task["id"]: task for task in json.loads(capsys.readouterr().out)}
    maze = listed["TMaze-v0"]
    assert (maze["observation_size"], maze["action_size"], maze["horizon"]) == (3, 4, 21)
    assert main(["tasks"]) == 0
    table = capsys.readouterr().out
    assert all(name in table for name in listed)
    assert max(map(len, table.splitlines())) <= 80
    assert maze["threshold"] == 0.95 and listed["AntDir-v0"]["threshold"] is None
    assert all(task["summary"] in table for task in listed.values())  # at 80 columns too
    named = {task["critic_observations"] for task in listed.values()}
    assert named == {"unseen", "hidden", None}
    assert "--critic-observations task lets the critic read unseen of Pendulum-P-v0," in table
    assert "All are installed." in table and maze["installed"] and maze["needs"] is None
    assert main(["tasks", "--show", "TMaze-v0"]) == 0
    shown = capsys.readouterr().out
    assert re.search(r"encoder +gru +task's own", shown)
    assert re.search(r"counts as solved +a return of 0.95 *\n", shown)
    assert re.search(r"n_critics +8 *\n", shown)
    assert re.search(r"critic_observations +none; task means unseen", shown)
    assert re.search(r"target_entropy_scale +0.2 +task's own", shown)
    assert re.search(r"threads +automatic: 1\b", shown) and re.search(r"device +automatic: ", shown)
    assert main(["tasks", "--show", "toy/Box-v0"]) == 0
    shown = capsys.readouterr().out
    assert re.search(r"target_entropy_scale +automatic: 1\n", shown)
    assert "counts as solved" not in shown
    assert re.search(r"preset +auto\n", shown), "as it is trained"
    assert re.search(r"width +64\n", shown)
    assert main(["tasks", "--show", "toy/Box-v0", "--preset", "paper"]) == 0
    shown = capsys.readouterr().out
    assert re.search(r"threads +automatic: all cores", shown)
    assert main(["tasks", "--show", "TMaze-v0", "--preset", "auto"]) == 0
    assert re.search(r"gamma +0.95 +chosen", capsys.readouterr().out), "of episodes of 21 steps"


def test_what_is_not_installed_is_marked(capsys: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    found = importlib.util.find_spec
    absent = ("mujoco", "popgym")
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name, *more: None if name in absent else found(name)
    )
    assert main(["tasks"]) == 0
    table = capsys.readouterr().out
    assert "Ant-v2 *" in table and "AntBLT-P-v0  " in table and "Wind-v0  " in table
    assert "*: not installed; pip install 'resel[mujoco]', pip install 'resel[popgym]'" in table
    assert main(["tasks", "--json"]) == 0
    listed = {task["id"]: task for task in json.loads(capsys.readouterr().out)}
    assert not listed["Ant-v2"]["installed"] and listed["Ant-v2"]["needs"] == "mujoco"
