"""Warm starts: weights of another run where they fit, and what is said of the rest."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from terminal import lines, read, refused

from resel import Agent, RESeL
from resel.cli import main
from resel.errors import ConfigError, DamagedFileError, RunDirectoryError
from resel.runs import read_bundle, write_bundle

BOX, DISCRETE = "toy/Box-v0", "toy/Discrete-v0"


@pytest.fixture(autouse=True)
def _terminal(own_folder: None, narrow_terminal: None) -> None:
    pass


@pytest.fixture
def source(tiny: dict[str, Any]) -> RESeL:
    """An agent that has learned, saved as `source`."""
    agent = RESeL(BOX, **tiny, preset="paper", normalize_observations=True).learn(45)
    agent.save("source")
    return agent


def weights(agent: Agent) -> dict[str, torch.Tensor]:
    return {name: tensor.clone() for name, tensor in agent.learner.weights().items()}


def test_everything_that_fits(source: RESeL, tiny: dict[str, Any]) -> None:
    new = RESeL(BOX, **tiny, preset="paper", init_from=Path("source"), seed=9)
    given, own = weights(source), weights(new)
    assert given.keys() == own.keys() and all(torch.equal(given[k], own[k]) for k in own)
    assert new.num_timesteps == 0 and new.learner.updates == 0
    assert new.config.training.init_from == str(Path("source").absolute())
    assert new.warm_start is not None and new.warm_start.fresh == ()
    assert str(new.warm_start).endswith(" tensors. All of them fit.")


def test_another_task_and_encoder(source: RESeL, tiny: dict[str, Any]) -> None:
    settings = {**tiny, "preset": "paper", "seed": 9}
    plain = RESeL(DISCRETE, **settings)
    new = RESeL(DISCRETE, **settings, init_from="source")
    before, given, own = weights(plain), weights(source), weights(new)
    assert new.warm_start is not None
    assert "policy.head.1.weight" in new.warm_start.fresh  # 4 outputs there, 3 here
    assert "policy.trunk.context_encoder.rnn.layers.weight_hh_l0" in new.warm_start.taken
    for name in new.warm_start.taken:
        assert torch.equal(own[name], given[name])
    for name in new.warm_start.fresh:
        assert torch.equal(own[name], before[name])
    assert "New are policy." in str(new.warm_start) and "target_" not in str(new.warm_start)
    lstm = RESeL(BOX, **{**settings, "encoder": "lstm"}, init_from="source")
    assert lstm.warm_start is not None
    assert all("rnn" in name for name in lstm.warm_start.fresh)


def test_another_method_whose_targets_are_new(tiny: dict[str, Any]) -> None:
    sizes = {"head_width": 8, "warmup_steps": 5, "eval_every": 0, "device": "cpu"}
    Agent(BOX, method="sac", preset="paper", **sizes).save("sac")
    td3 = Agent(BOX, method="td3", preset="paper", **sizes, seed=9, init_from="sac")
    own = weights(td3)
    assert td3.warm_start is not None
    taken = [n for n in td3.warm_start.taken if n.startswith("target_policy.")]
    assert taken and all(torch.equal(own[n], own[n.removeprefix("target_")]) for n in taken)


def test_scales_are_taken_whole_or_not(source: RESeL, tiny: dict[str, Any]) -> None:
    """A count without its means would keep the means of the new task from moving."""
    new = RESeL("TMaze-v0", **tiny, init_from="source", max_episode_steps=9)
    wider = RESeL("CartPole-v1", **tiny, init_from="source")
    assert new.warm_start is not None and wider.warm_start is not None
    assert "normalizer.count" in new.warm_start.taken  # three observations as well
    assert "normalizer.count" in wider.warm_start.fresh
    assert float(weights(wider)["normalizer.count"]) == 0


def test_nothing_in_common(source: RESeL, tiny: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=r"no weights in common .*resel gru width 8 there, resel"):
        RESeL(BOX, **{**tiny, "width": 12, "embedding": 6, "head_width": 10}, init_from="source")
    with pytest.raises(RunDirectoryError, match=r"There is no saved agent at .*nowhere"):
        RESeL(BOX, **tiny, init_from="nowhere")
    bundle = read_bundle("source", "agent")
    bundle.tensors["weights"]["policy.head.1.bias"].fill_(torch.nan)
    write_bundle("broken", "agent", bundle.tensors, bundle.documents)
    with pytest.raises(DamagedFileError, match="not finite"):
        RESeL(BOX, **tiny, init_from="broken")


def test_the_command(source: RESeL, tiny_flags: list[str], capsys: Any) -> None:
    train = ["train", DISCRETE, "--preset", "paper", *tiny_flags, "--steps", "45"]
    assert main([*train, "--run-dir", "new", "--init-from", "source"]) == 0
    told = " ".join(capsys.readouterr().out.split())
    assert "Weights taken over from /" in told and "New are policy.trunk.last_action.weight" in told
    event = next(line for line in lines(Path("new")) if line["kind"] == "event")
    assert event["event"] == "warm start" and event["message"] in told
    assert read(Path("new/config.json"))["training"]["init_from"] == str(Path("source").absolute())
    shutil.rmtree("source")  # a run that has begun has its own weights
    assert main(["resume", "new", "--steps", "50"]) == 0
    assert "Weights taken over" not in capsys.readouterr().out
    assert "init_from" in refused(capsys, "resume", "new", "--steps", "60", "--init-from", "x")


def test_the_command_refuses_in_a_sentence(
    source: RESeL, tiny_flags: list[str], capsys: Any
) -> None:
    before = sorted(p.name for p in Path("source").iterdir())
    flags = ["train", BOX, "--preset", "paper", *tiny_flags, "--steps", "35", "--run-dir", "new"]
    wider = ["--width", "12", "--embedding", "6", "--head-width", "10"]
    said = refused(capsys, *flags, *wider, "--init-from", "source")
    assert "no weights in common" in said and "leave it out" in said
    assert "There is no saved agent" in refused(capsys, *flags, "--init-from", "nowhere")
    assert not Path("new").exists() and sorted(p.name for p in Path("source").iterdir()) == before


def test_begun_again_before_its_first_checkpoint(source: RESeL, tiny: dict[str, Any]) -> None:
    """Killed before it had saved anything, a run begins again with the same weights."""
    settings = {**tiny, "preset": "paper", "init_from": "source"}
    RESeL(BOX, **settings).learn(40, run_dir="whole")
    RESeL(BOX, **settings).learn(40, run_dir="new", callback=lambda p: p.step < 10)
    shutil.rmtree("new/checkpoints")
    shutil.rmtree("new/agents")
    Path("new/result.json").unlink()
    assert main(["resume", "new"]) == 0
    one, other = (read_bundle(f"{run}/agents/last", "agent").tensors for run in ("new", "whole"))
    assert all(torch.equal(t, other["weights"][n]) for n, t in one["weights"].items())


# Loading a run and going on


def test_a_loaded_run_goes_on_as_it_would_have(tiny: dict[str, Any]) -> None:
    settings = {**tiny, "preset": "paper", "eval_every": 20}
    whole = RESeL(BOX, **settings).learn(80)
    RESeL(BOX, **settings).learn(50, run_dir="run")
    before = {p: p.stat().st_mtime_ns for p in Path("run").rglob("*")}
    agent = RESeL.load("run", device="cpu")
    assert agent.num_timesteps == 50
    agent.predict([0.0, 0.0, 0.0])
    agent.learn(30)
    assert agent.num_timesteps == 80 and agent.learner.updates == whole.learner.updates
    one, other = weights(agent), weights(whole)
    assert all(torch.equal(one[name], other[name]) for name in other)
    assert {p: p.stat().st_mtime_ns for p in Path("run").rglob("*")} == before
    RESeL.load("run", device="cpu").learn(30, run_dir="run", resume="auto")
    assert read(Path("run/result.json"))["steps"] == 80


def test_in_another_task_only_the_learner_goes_on(tiny: dict[str, Any], toy: Any) -> None:
    settings = {**tiny, "preset": "paper"}
    trained = RESeL(BOX, **settings).learn(50, run_dir="run")
    agent = RESeL.load("run", env=toy, device="cpu")
    assert agent.num_timesteps == 0
    agent.learn(5)
    assert agent.learner.updates == trained.learner.updates and agent.num_timesteps == 5
    own, given = agent.learner.state()[0], trained.learner.state()[0]
    moments = [name for name in given if name.startswith("optimizer.")]
    assert moments and all(torch.equal(own[name], given[name]) for name in moments)
    assert len(agent._trainer.buffer) <= 1


def test_a_saved_agent_has_no_optimisers(tiny: dict[str, Any]) -> None:
    RESeL(BOX, **tiny, preset="paper").learn(50, run_dir="run")
    agent = RESeL.load("run/agents/last").learn(5)
    assert agent.learner.updates == 0 and agent.num_timesteps == 5
