"""Settings of a run that somebody has edited."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from resel.config import Config
from resel.errors import ConfigError, DamagedFileError, ReselError, RunDirectoryError
from resel.runs import Run, finished_result, open_trainer, read_bundle, saved_config, write_bundle


@pytest.fixture
def config(tiny: dict[str, Any]) -> Config:
    return Config.build("toy/Box-v0", tiny, {"steps": 60, "checkpoint_every": 20})


@pytest.fixture
def run(config: Config, tmp_path: Path) -> Path:
    run = Run(config, tmp_path / "a run")
    run.train([lambda progress: progress.step < 45])
    run.close()
    return tmp_path / "a run"


def edit(run: Path, group: str, name: str, value: Any) -> None:
    file = run / "config.json"
    config = json.loads(file.read_text())
    config[group][name] = value
    file.write_text(json.dumps(config))


def refused(use: Callable[[], Any], kind: type[ReselError]) -> str:
    with pytest.raises(kind) as raised:
        use()
    return str(raised.value)


def go_back(told: str) -> None:
    """Do what a message says."""
    found = re.search(r"go back with `(cp .*?)`", told)
    assert found is not None, told
    subprocess.run(shlex.split(found[1]), check=True)


def test_an_edited_setting_is_named_with_the_way_back(config: Config, run: Path) -> None:
    before = (run / "metrics.jsonl").read_bytes()
    edit(run, "algorithm", "gamma", 0.5)
    edited = config.replace(gamma=0.5)
    for use in (
        lambda: saved_config(run),
        lambda: Run(edited, run, "auto"),
        lambda: Run(config, run, "auto"),
        lambda: finished_result(edited, run),
        lambda: open_trainer(run),
    ):
        told = refused(use, RunDirectoryError)
        assert "config.json was edited" in told and "(gamma: 0.5, was 0.99)" in told
        assert "anew" not in told
    assert (run / "metrics.jsonl").read_bytes() == before
    go_back(told)
    assert saved_config(run) == config
    again = Run(config, run, "auto")
    assert again.resumed_at == 45
    again.close()


def test_a_value_or_a_file_that_cannot_be(config: Config, run: Path) -> None:
    edit(run, "algorithm", "gamma", 5)
    told = refused(lambda: saved_config(run), ConfigError)
    assert "config.json cannot be used: gamma=5" in told
    go_back(told)
    (run / "config.json").write_text("{")
    told = refused(lambda: saved_config(run), DamagedFileError)
    assert "cannot be read as JSON" in told
    go_back(told)
    assert saved_config(run) == config


def test_what_may_change_may_be_edited(config: Config, run: Path) -> None:
    edit(run, "training", "steps", 90)
    assert saved_config(run) == config.replace(steps=90)


def test_copies_of_an_older_resel_and_damaged_ones(config: Config, run: Path) -> None:
    """They cannot take the place of config.json, but say what was there."""
    for path in (run / "checkpoints").iterdir():
        bundle = read_bundle(path, "checkpoint")
        del bundle.documents["config"]["format_version"]
        write_bundle(path, "checkpoint", bundle.tensors, bundle.documents)
    Run(config, run, "auto").close()
    edit(run, "algorithm", "gamma", 0.5)
    told = refused(lambda: saved_config(run), RunDirectoryError)
    assert "was 0.99" in told and "Put back what" in told and "cp " not in told
    for path in (run / "checkpoints").iterdir():
        (path / "config.json").write_text("{}")
    assert saved_config(run).algorithm.gamma == 0.5  # nothing is known of what was there
