"""`resel tasks`: the list, and the settings of one."""

from __future__ import annotations

import json
import re
from typing import Any

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
    assert all(task["summary"] in table for task in listed.values())  # at 80 columns too
    assert main(["tasks", "--show", "TMaze-v0"]) == 0
    shown = capsys.readouterr().out
    assert re.search(r"encoder +gru +task's own", shown)
    assert re.search(r"n_critics +8 *\n", shown)
    assert re.search(r"target_entropy_scale +0.2 +task's own", shown)
    assert re.search(r"threads +automatic: 1\b", shown) and re.search(r"device +automatic: ", shown)
    assert main(["tasks", "--show", "toy/Box-v0"]) == 0
    shown = capsys.readouterr().out
    assert re.search(r"target_entropy_scale +automatic: 1\n", shown)
    assert re.search(r"threads +automatic: all cores", shown)
