"""`resel export`: a policy that leaves, and one that has arrived."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

from terminal import read, refused

from resel import RESeL
from resel.cli import main


def test_export_and_check(finished: Path, capsys: Any) -> None:
    assert main(["export", str(finished), "--out", "out"]) == 0
    told = capsys.readouterr()
    assert told.err == "" and "saved at step 60, of TMaze-v0 with resel" in told.out
    assert "The model takes obs, h_in and gives actions, h_out, logits." in told.out
    assert main(["export", "--check", "out"]) == 0
    text = capsys.readouterr().out
    assert text.startswith("ONNX Runtime: 1,000 steps, at most ") and "does on this machine" in text
    assert "\nC: " in text
    assert main(["export", "--check", "out", "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["runtimes"]["ONNX Runtime"]["worst"] < answer["tolerance"] == 1e-5
    model = Path("out/policy.onnx")
    model.write_bytes(model.read_bytes()[:-1])
    assert "it was cut off or altered" in refused(capsys, "export", "--check", "out")


def test_what_is_refused(finished: Path, tmp_path: Path, capsys: Any) -> None:
    run = str(finished)
    assert "resel export RUN --out DIR" in refused(capsys, "export")
    assert "resel export RUN --out DIR" in refused(capsys, "export", run)
    assert "leave out RUN" in refused(capsys, "export", run, "--check", "out")
    assert "--batch 'all' is neither" in refused(
        capsys, "export", run, "--out", "out", "--batch", "all"
    )
    assert "no folder" in refused(capsys, "export", "--check", "nowhere")
    assert "has no policy.json" in refused(capsys, "export", "--check", run)
    assert "no part of an export" in refused(capsys, "export", run, "--out", run)
    assert not Path("out").exists()


def test_runs_that_are_not_ready(finished: Path, tmp_path: Path, capsys: Any) -> None:
    run = tmp_path / "run"
    shutil.copytree(finished, run)
    config = json.loads((run / "agents/last/agent.json").read_text())["config"]
    assert config["training"]["warmup_steps"] == 30
    result = {**read(run / "result.json"), "status": "diverged", "fault": "The loss was NaN."}
    (run / "result.json").write_text(json.dumps(result))
    message = refused(capsys, "export", str(run), "--out", "out", code=3)
    assert "has diverged" in message and "--agent best exports" in message
    shutil.rmtree(run / "agents")
    (run / "result.json").unlink()
    assert "has no agent yet" in refused(capsys, "export", str(run), "--out", "out")
    assert not Path("out").exists()


def test_a_young_agent(tiny: dict[str, Any], capsys: Any) -> None:
    RESeL("TMaze-v0", **tiny).save("young")
    message = refused(capsys, "export", "young", "--out", "out")
    assert "learning begins after 30 steps" in message and not Path("out").exists()
