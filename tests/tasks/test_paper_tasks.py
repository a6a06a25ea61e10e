"""All tasks of the paper: the list, and one pass of each through the public command."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from simulators import installed

from resel.cli import main
from resel.tasks import all_tasks, make_env

BY_FAMILY = {
    "classic POMDP": [
        f"{robot}BLT-{suffix}-v0"
        for robot in ("Ant", "HalfCheetah", "Hopper", "Walker")
        for suffix in "PV"
    ],
    "gravity": [
        f"{robot}-gravity-v0" for robot in ("Ant", "HalfCheetah", "Hopper", "Humanoid", "Walker2d")
    ],
    "meta-RL": ["AntDir-v0", "CheetahDir-v0", "HalfCheetahVel-v0", "Wind-v0"],
    "credit assignment": [f"KeyToDoor-{length}-v0" for length in (60, 120, 250, 500)],
    "MDP": [f"{robot}-v2" for robot in ("HalfCheetah", "Hopper", "Walker2d", "Ant", "Humanoid")],
}
QUICK = {"HopperBLT-P-v0", "HalfCheetah-gravity-v0", "AntDir-v0", "Wind-v0", "KeyToDoor-60-v0"}
QUICK |= {"Walker2d-v2"}
TINY = (
    "--width 8 --embedding 4 --head-width 8 --n-critics 2 --state-size 4 --batch-steps 50 "
    "--warmup-steps 40 --max-episode-steps 30 --steps 100 --eval-every 0 --eval-episodes 1"
)
DRAWN = ["AntBLT-V-v0", "KeyToDoor-120-v0", "Wind-v0"]


def ids() -> list[Any]:
    every = [id for family in BY_FAMILY.values() for id in family]
    return [
        pytest.param(id, marks=[installed(id), *([] if id in QUICK else [pytest.mark.slow])])
        for id in every
    ]


def test_the_families_are_complete() -> None:
    found: dict[str, list[str]] = {}
    for spec in all_tasks():
        found.setdefault(spec.family, []).append(spec.id)
    for other in ("small", "POPGym", "MiniGrid"):
        found.pop(other)
    assert found == BY_FAMILY
    assert sum(map(len, found.values())) == 26


@pytest.mark.parametrize("id", ids())
def test_it_goes_through_the_command(
    id: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = tmp_path / "run"
    assert main(["train", id, *TINY.split(), "--run-dir", str(run)]) == 0
    result = json.loads((run / "result.json").read_text())
    assert (result["status"], result["steps"]) == ("completed", 100)
    assert result["updates"] >= 20
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    assert [line["step"] for line in lines if line["kind"] == "eval"] == [100]
    assert (run / "agents" / "last" / "weights.safetensors").stat().st_size > 0
    config = json.loads((run / "config.json").read_text())
    assert config["algorithm"]["clamp_target_values"] is True
    capsys.readouterr()
    assert main(["eval", str(run), "--episodes", "1", "--json"]) == 0
    measured = json.loads(capsys.readouterr().out)
    assert measured["task"] == id and np.isfinite(measured["return_mean"])


@pytest.mark.parametrize("id", DRAWN)
def test_pictures(id: str) -> None:
    env = make_env(id, render_mode="rgb_array")
    env.reset(seed=0)
    picture: Any = env.render()
    assert picture.ndim == 3 and picture.shape[2] == 3 and picture.dtype == np.uint8
    env.close()
