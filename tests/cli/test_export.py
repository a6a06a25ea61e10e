"""`resel export`: a policy that leaves, and one that has arrived."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from terminal import read, refused

from resel import Agent, RESeL
from resel.cli import main
from resel.runs import agent_learned, read_bundle, write_bundle


def test_export_and_check(finished: Path, capsys: Any) -> None:
    out = Path("pol[mamba]")
    assert main(["export", str(finished), "--out", str(out)]) == 0
    told = capsys.readouterr()
    assert told.err == "" and "saved at step 60, of TMaze-v0 with resel" in told.out
    assert "The model takes obs, h_in and gives actions, h_out, logits." in told.out
    assert f"  {out}/policy.onnx  " in told.out and f"--check {out} does it again" in told.out
    assert main(["export", "--check", str(out)]) == 0
    text = capsys.readouterr().out
    assert (
        text.startswith("ONNX Runtime: 1,000 steps, at most ")
        and f"{out} does on this machine" in text
    )
    assert "\nC: " in text
    assert main(["export", "--check", str(out), "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["runtimes"]["ONNX Runtime"]["worst"] < answer["tolerance"] == 1e-5
    model = out / "policy.onnx"
    model.write_bytes(model.read_bytes()[:-1])
    assert "it was cut off or altered" in refused(capsys, "export", "--check", str(out))


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
    assert "has diverged" in message and "--agent best takes" in message
    shutil.rmtree(run / "agents/best")
    message = refused(capsys, "export", str(run), "--out", "out", code=3)
    assert "has diverged" in message and "--agent best" not in message
    assert main(["export", str(run), "--out", "out", "--agent", "best"]) == 3  # which is the last
    assert "has diverged" in capsys.readouterr().err
    shutil.rmtree(run / "agents")
    (run / "result.json").unlink()
    assert "has no agent yet" in refused(capsys, "export", str(run), "--out", "out")
    assert not Path("out").exists()


def test_a_young_agent(tiny: dict[str, Any], capsys: Any) -> None:
    RESeL("TMaze-v0", **tiny).save("young")
    message = refused(capsys, "export", "young", "--out", "out")
    assert "learning begins after 30 steps" in message and not Path("out").exists()
    RESeL.load("young").save("again")
    assert "no update" in refused(capsys, "export", "again", "--out", "out")


@pytest.mark.parametrize(
    ("method", "settings", "begins"),
    [
        ("gpide-ess", {"warmup_steps": 0, "learn_after": 500}, 500),
        ("ppo-gru", {"num_envs": 4, "rollout_steps": 128}, 512),
    ],
)
def test_a_method_that_learns_later(
    method: str, settings: dict[str, Any], begins: int, capsys: Any
) -> None:
    agent = Agent("toy/Box-v0", method, size="tiny", eval_every=0, device="cpu", **settings)
    agent.learn(40)
    assert agent.learner.updates == 0
    agent.save("young")
    agent.close()
    for known in (True, False):
        if not known:  # as older ones were saved
            forget("young")
        message = refused(capsys, "export", "young", "--out", "out")
        assert f"learning begins after {begins} steps" in message and not Path("out").exists()


def forget(folder: str) -> None:
    """Take out of a saved agent whether it has learned."""
    bundle = read_bundle(folder, "agent")
    document = {**bundle.documents["agent"]}
    del document["learned"]
    write_bundle(folder, "agent", bundle.tensors, {"agent": document})


def test_what_has_learned_says_so(finished: Path, tiny: dict[str, Any], tmp_path: Path) -> None:
    assert agent_learned(finished / "agents/last") is True
    RESeL.load(finished / "agents/last").save("again")  # it has made no update itself
    assert agent_learned("again") is True
    shutil.copytree("again", "older")
    forget("older")
    assert agent_learned("older") is None
    RESeL.load("older").save("newer")
    assert agent_learned("newer") is None
