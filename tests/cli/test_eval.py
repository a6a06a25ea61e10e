"""`resel eval`: what a trained agent is worth."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from terminal import lines, read, refused

from resel import RESeL
from resel.cli import main
from resel.runs import agent_step
from resel.training import evaluation_seeds


def test_eval(finished: Path, capsys: Any) -> None:
    command = ["eval", str(finished), "--episodes", "3", "--json"]
    assert main(command) == 0
    told = capsys.readouterr()
    answer = json.loads(told.out)
    assert told.err == "" and told.out.count("\n") == 1
    assert answer["task"] == "TMaze-v0" and answer["episodes"] == 3
    assert answer["agent"] == "last" and answer["step"] == 60
    assert answer["length_mean"] == 21 and -1.06 <= answer["return_mean"] <= 1
    assert answer["return_std"] >= 0 and 0 <= answer["success_rate"] <= 1
    assert main(command) == 0
    assert json.loads(capsys.readouterr().out) == answer
    assert main(["eval", str(finished / "agents" / "best"), "--seed", "5"]) == 0
    text = capsys.readouterr().out
    assert text.startswith("TMaze-v0: return ") and "over 20 episodes of 21 steps" in text
    assert "Measured: the saved agent, saved at step " in text
    assert main(["eval", str(finished), "--episodes", "1"]) == 0
    assert capsys.readouterr().out.splitlines()[1] == (
        "Measured: the agent 'last' of the run, saved at step 60. "
        "±: the standard deviation over episodes."
    )
    seeds = evaluation_seeds(1, 3)
    assert (answer["seed"], answer["seeds"]) == (1, seeds)
    assert main(["eval", str(finished), "--episodes", "3"]) == 0
    told_seeds = f"Episodes: the seeds {seeds[0]} to {seeds[2]}, which --seed 1 chooses."
    assert told_seeds in capsys.readouterr().out.splitlines()
    agent = RESeL.load(finished / "agents/last")
    agent.save("mine")
    assert agent.num_timesteps == 0 and agent_step("mine") == 60
    assert "--episodes 0" in refused(capsys, "eval", str(finished), "--episodes", "0")


def test_a_single_agent_has_no_best(finished: Path, capsys: Any) -> None:
    alone = str(finished / "agents/last")
    assert main(["eval", alone, "--episodes", "1", "--agent", "best"]) == 0
    told = capsys.readouterr()
    assert f"{alone} is a single agent, not a run: --agent best chooses nothing" in told.err
    assert "Measured: the saved agent" in told.out
    assert main(["eval", "zoo:pendulum-v", "--episodes", "1", "--agent", "best", "--json"]) == 0
    assert "zoo:pendulum-v is a single agent" in capsys.readouterr().err


def test_eval_measures_the_same_as_the_run(finished: Path, capsys: Any) -> None:
    last = [line for line in lines(finished) if line["kind"] == "eval"][-1]
    assert main(["eval", str(finished), "--episodes", "2", "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["return_mean"] == pytest.approx(last["return_mean"])
    assert answer["success_rate"] == last["success_rate"]


def test_eval_at_another_length(finished: Path, capsys: Any) -> None:
    command = ["eval", str(finished), "--episodes", "2", "--env-kwargs", "length=40"]
    assert main([*command, "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["length_mean"] == 41 and answer["env_kwargs"] == {"length": 40}
    assert answer["differs_from_training"] == ["length"]
    assert main(command) == 0
    told = capsys.readouterr().out.splitlines()
    assert "episodes of 41 steps" in told[0]
    assert told[3] == "Not as in the evaluations of its training: length=40 (was 20)"
    assert len(told) == 4
    assert main([*command[:-1], "length=20"]) == 0  # said again, but the same
    assert "Not as in" not in capsys.readouterr().out


def test_a_limit_of_the_training_still_holds(capsys: Any) -> None:
    settings = {"width": 8, "head_width": 8, "embedding": 4, "warmup_steps": 20}
    RESeL("TMaze-v0", encoder="gru", max_episode_steps=15, **settings).save("cut")
    assert main(["eval", "cut", "--episodes", "1", "--env-kwargs", "length=40"]) == 0
    told = capsys.readouterr().out.splitlines()
    assert "episodes of 15 steps" in told[0]
    assert told[-1] == "As in its training, episodes are cut after 15 steps (max_episode_steps)."


@pytest.mark.parametrize(
    ("word", "message"),
    [
        ("lenght=40", "'TMaze-v0' has no argument 'lenght': it has length."),
        ("length=0", "length=0 cannot work"),
        ("length=long", "length='long' cannot work"),
    ],
)
def test_eval_with_bad_arguments(finished: Path, capsys: Any, word: str, message: str) -> None:
    assert message in refused(capsys, "eval", str(finished), "--env-kwargs", word)


def test_eval_of_a_damaged_agent(finished: Path, capsys: Any, tmp_path: Path) -> None:
    shutil.copytree(finished, tmp_path / "copy")
    file = tmp_path / "copy/agents/last/weights.safetensors"
    file.write_bytes(file.read_bytes()[:-1])
    assert "cut off or altered" in refused(capsys, "eval", "copy")
    assert main(["eval", "copy", "--agent", "best"]) == 0


def test_eval_of_a_young_run(finished: Path, capsys: Any) -> None:
    shutil.copytree(finished, "young")
    shutil.rmtree("young/agents/last")
    assert main(["eval", "young", "--episodes", "1", "--json"]) == 0
    told = capsys.readouterr()
    assert json.loads(told.out)["episodes"] == 1
    assert "Warning: The run in young is too young to have the agent 'last'" in told.err
    assert "this is 'best'" in told.err
    shutil.rmtree("young/agents/best")
    assert "has no agent yet" in refused(capsys, "eval", "young")


def test_eval_of_a_diverged_run(finished: Path, capsys: Any) -> None:
    shutil.copytree(finished, "run")
    result = read(Path("run/result.json"))
    fault = "Training has diverged at step 60: lr_critic=9 is too high."
    Path("run/result.json").write_text(json.dumps({**result, "status": "diverged", "fault": fault}))
    assert main(["eval", "run", "--episodes", "1"]) == 0
    told = capsys.readouterr().err
    assert f"The run in run has diverged. {fault}" in told and "--agent best" in told
    assert main(["eval", "run", "--episodes", "1", "--agent", "best"]) == 0
    assert "--agent best" not in capsys.readouterr().err


def test_a_run_stands_for_its_newest_agent(finished: Path) -> None:
    ours, named = RESeL.load(finished), RESeL.load(finished / "agents/last")
    weights, expected = ours.learner.weights(), named.learner.weights()
    assert all(torch.equal(weights[name], expected[name]) for name in expected)
