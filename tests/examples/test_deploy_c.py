"""The example that drives an environment from C: its return is that of `resel eval`."""

from __future__ import annotations

import importlib.util
import json
import shutil
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from resel import RESeL
from resel.cli import main

PATH = Path(__file__).parents[2] / "examples" / "deploy_c" / "run.py"


def example() -> ModuleType:
    """The example as a module."""
    spec = importlib.util.spec_from_file_location("deploy_c_run", PATH)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.skipif(shutil.which("cc") is None, reason="there is no compiler")
def test_the_return_in_c_is_that_of_resel_eval(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    settings: dict[str, Any] = {
        "warmup_steps": 200,
        "updates_per_step": 0.2,
        "eval_every": 0,
        "device": "cpu",
    }
    agent = RESeL("Pendulum-V-v0", size="tiny", encoder="gru", **settings)
    agent.learn(220)
    agent.save(tmp_path / "agent")
    module = example()
    in_c, in_library = module.compare(agent, tmp_path)
    agent.close()
    capsys.readouterr()
    assert main(["eval", str(tmp_path / "agent"), "--episodes", "3", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)["return_mean"]
    assert in_library == pytest.approx(told, abs=1e-9)
    assert in_c == pytest.approx(told, abs=1e-3)
    # A bad observation is told, and the process goes on.
    policy = module.PolicyInC(tmp_path / "policy", tmp_path / "again")
    policy.reset()
    with pytest.raises(ValueError, match="refused 1"):
        policy.act([float("nan")], 0.0)
    assert len(policy.act([0.1], 0.0)) == 1
    policy.close()


@pytest.mark.skipif(shutil.which("cc") is None, reason="there is no compiler")
def test_any_task_with_its_arguments(
    tiny: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("resel.deploy._export.onnx_model", lambda *_: b"")  # nobody reads it here
    monkeypatch.setattr("resel.deploy._export.check_export", lambda *_, **__: {})
    agent = RESeL("toy/Box-v0", **tiny, env_kwargs={"length": 9})
    in_c, in_library = example().compare(agent, tmp_path)
    agent.close()
    assert in_c == pytest.approx(in_library, abs=1e-3)
