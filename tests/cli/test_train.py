"""`resel train`: what it writes, what it says, where its settings come from."""

from __future__ import annotations

import json
import re
from datetime import datetime
from pathlib import Path
from typing import Any

import gymnasium
import pytest
import torch
from terminal import SMALL, read, refused

import resel
from resel.cli import main
from resel.config import Config
from resel.methods import default_method
from resel.runs import read_bundle, saved_config

MAZE = resel.configure("TMaze-v0")
_STEPS = "Environment steps in all."


def test_the_files_of_a_run(finished: Path) -> None:
    result = read(finished / "result.json")
    assert {
        k: result[k] for k in ("task", "method", "encoder", "steps", "seed", "status", "updates")
    } == {
        "task": "TMaze-v0",
        "method": default_method(),
        "encoder": "gru",
        "steps": 60,
        "seed": 1,
        "status": "completed",
        "updates": 31,
    }
    assert isinstance(result["eval_return_mean"], float) and result["wall_seconds"] > 0
    assert result["eval_return_std"] >= 0 and 0 <= result["success_rate"] <= 1

    config = saved_config(finished)
    assert config.training.steps == 60 and config.network.width == 8
    assert config.algorithm.target_entropy_scale == MAZE.algorithm.target_entropy_scale

    environment = read(finished / "environment.json")
    assert environment["device"] == "cpu" and environment["versions"]["torch"]
    (start,) = environment["starts"]
    assert datetime.fromisoformat(start["at"]).tzinfo is not None and start["command"]
    groups = {(g["network"], g["group"]): g for g in environment["parameter_groups"]}
    assert set(groups) == {
        (network, group)
        for network in ("policy", "critic")
        for group in ("context_encoder", "other")
    }
    weights = read_bundle(finished / "agents/last", "agent").tensors["weights"]
    for network in ("policy", "critic"):
        count = sum(w.numel() for name, w in weights.items() if name.startswith(f"{network}."))
        both = [groups[network, group] for group in ("context_encoder", "other")]
        assert sum(g["parameters"] for g in both) == count
        assert both[0]["learning_rate"] == config.algorithm.lr_context_encoder
        assert both[1]["learning_rate"] == getattr(config.algorithm, f"lr_{network}")

    assert list((finished / "tensorboard").glob("events.out.tfevents.*"))
    assert (finished / "agents/best/manifest.json").is_file()


def test_the_lines_of_the_metrics(finished: Path) -> None:
    raw = [json.loads(line) for line in (finished / "metrics.jsonl").read_text().splitlines()]
    assert {line["kind"] for line in raw} == {"train", "eval", "timing"}
    assert all(list(line)[:2] == ["step", "kind"] for line in raw)
    by_kind = {line["kind"]: line for line in raw}
    assert {"return_mean", "return_std", "length_mean", "success_rate"} <= set(by_kind["eval"])
    assert {"updates_per_second", "steps_per_second", "seconds"} <= set(by_kind["timing"])
    assert {
        "gradient_norm/policy/context_encoder",
        "gradient_norm/policy/other",
        "gradient_norm/critic/context_encoder",
        "gradient_norm/critic/other",
        "critic_loss",
        "policy_loss",
        "alpha",
        "padding_share",
    } <= set(by_kind["train"])
    assert [ln["step"] for ln in raw if ln["kind"] == "eval"] == [0, 20, 40, 60]


def test_what_training_says(tiny_flags: list[str], capsys: Any, tmp_path: Path) -> None:
    flags = [*tiny_flags, "--steps", "3.5e1", "--lr-ce", "2e-3", "--no-feed-forward"]
    assert main(["train", *flags, "--encoder", "mamba", "toy/Box-v0"]) == 0  # the task comes last
    said = capsys.readouterr()
    assert "toy/Box-v0 with RESeL (mamba), seed 1, 35 steps" in said.out
    assert re.search(r"policy +context_encoder +[\d,]+ +0\.002\b", said.out)
    assert "Completed: 35 steps, 6 updates" in said.out and "step 35/35" in said.err
    assert "(mean of" not in said.out  # there was one evaluation, at the end
    for line in (
        "warm-up +30 steps with random actions",
        "batch +whole episodes until there are 30 steps; updates per step: 1",
        r"horizon +20 steps \(gamma 0.95\), episodes of up to 100",
        "evaluation +2 episodes at the end",
        "checkpoint +at the end",
        r"  resel eval runs/toy-Box-v0-\S+",
        r"  resel resume runs/toy-Box-v0-\S+ --steps 70",
    ):
        assert re.search(line, said.out), line
    assert "may last 100 steps, and the run has 35." in said.err and "--context-length" in said.err
    (run,) = (tmp_path / "runs").iterdir()
    assert run.name.startswith("toy-Box-v0-mamba-seed1-")
    assert str(run.relative_to(tmp_path)) in said.out
    config = saved_config(run)
    assert config.algorithm.lr_context_encoder == 2e-3 and not config.encoder_settings.feed_forward
    assert config.training.steps == 35
    assert max(map(len, said.out.splitlines())) <= 80


def test_runs_that_cannot_learn_are_refused(tiny_flags: list[str], capsys: Any) -> None:
    command = ["train", "toy/Box-v0", *tiny_flags, "--run-dir", "run"]
    told = refused(capsys, *command, "--steps", "20", alone=True)
    assert "would learn nothing" in told and "warmup_steps" in told
    told = refused(capsys, *command, "--steps", "1e30")
    assert "steps=1e+30 is too large" in told
    assert not Path("run").exists()


def test_the_traceback_of_an_environment_is_shown(
    tiny_flags: list[str], toy: Any, capsys: Any
) -> None:
    class Typo(toy):  # type: ignore[misc]
        def step(self, action: Any) -> Any:
            return super().step(action)[self.lenght]

    gymnasium.register("toy/Typo-v0", Typo)
    command = ["train", "toy/Typo-v0", *tiny_flags, "--steps", "50", "--run-dir", "run"]
    assert main(command) == 1
    said = capsys.readouterr()
    assert "Traceback of the environment:" in said.out
    assert "return super().step(action)[self.lenght]" in said.out
    assert "resel/envs" not in said.out and "metrics.jsonl" not in said.out
    assert said.out.endswith("No step was taken, so nothing is kept: mend it and start again.\n")
    assert not Path("run").exists()
    assert said.err.splitlines()[-1].startswith("Error: The environment (toy/Typo-v0) raised Attr")


def test_flags_that_nobody_has(capsys: Any) -> None:
    """The nearest first, with the defaults of the task, also where the preset `auto` has them."""
    capsys.readouterr()
    for argv in (["toy/Box-v0", "--step", "20"], ["--step", "20", "toy/Box-v0"]):
        assert main(["train", *argv]) == 2
        told = capsys.readouterr()
        first, nearest, *_, last = told.err.splitlines()
        assert first == "Error: There is no flag --step. Did you mean:" and told.out == ""
        usual = resel.configure("toy/Box-v0").training.steps
        assert nearest == f"  --steps N: {_STEPS} (default: {usual})"
        assert last == "`resel train TASK --help` lists them."
    assert main(["train", "TMaze-v0", "--zzz"]) == 2
    assert capsys.readouterr().err == (
        "Error: There is no flag --zzz. `resel train TMaze-v0 --help` lists them.\n"
    )
    assert main(["train", "nowhere.py:Env", "--step", "3"]) == 2
    assert "There is no flag --step." in capsys.readouterr().err


def test_settings_come_from_the_task_then_the_size_then_flags(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seen: list[Config] = []

    class Stop(Exception):
        pass

    def run(config: Config, *rest: Any) -> None:
        seen.append(config)
        raise Stop

    monkeypatch.setattr("resel.cli._training.Run", run)
    for argv in (
        ["TMaze-v0"],
        ["TMaze-v0", "--size", "small", "--embedding", "5"],
        ["--gamma", "0.5", "TMaze-v0", "--context-length", "1e1"],
        ["--lr-context-encoder", "1e-2", "Pendulum-v1"],
    ):
        with pytest.raises(Stop):
            main(["train", *argv])
    task, sized, flagged, foreign = seen
    assert task == resel.configure("TMaze-v0")
    assert sized == resel.configure("TMaze-v0", size="small", embedding=5)
    assert flagged == resel.configure("TMaze-v0", gamma=0.5, context_length=10)
    assert foreign == resel.configure("Pendulum-v1", lr_context_encoder=1e-2)


def test_a_run_is_not_overwritten(finished: Path, tiny_flags: list[str], capsys: Any) -> None:
    before = {p: p.stat().st_mtime_ns for p in finished.rglob("*") if p.name != ".lock"}
    command = ["train", "TMaze-v0", *tiny_flags, *SMALL, "--run-dir", str(finished)]
    assert "already holds a run" in refused(capsys, *command, alone=True)
    automatic = ["train", "toy/Box-v0", "--run-dir", str(finished)]
    assert "already holds a run" in refused(capsys, *automatic, alone=True)
    told = refused(capsys, *command, "--resume", "auto", "--gamma", "0.5", "--seed", "2")
    assert "gamma: 0.99 there, 0.5 asked" in told and "seed: 1 there, 2 asked" in told
    assert "TMaze-v0" in refused(capsys, *["train", "toy/Box-v0", *command[2:]], "--resume", "auto")
    assert "--run-dir" in refused(capsys, "train", "TMaze-v0", "--resume", "auto")
    after = {p: p.stat().st_mtime_ns for p in finished.rglob("*") if p.name != ".lock"}
    assert after == before


@pytest.mark.parametrize(
    ("flags", "told"),
    [
        (["--width", "0"], "width=0 is too small"),
        (["--steps", "-5"], "steps=-5 is too small"),
        (["--steps", "0"], "steps=0 is too small"),
        (["--steps", "1.5"], "not a whole number"),
        (["--batch-steps", "many"], "'many' is not a number"),
        (["--lr-policy", "0"], "lr_policy=0.0 cannot work"),
        (["--lr-ce", "-1e-3"], "lr_context_encoder=-0.001 cannot work"),
        (["--lr-critic", "nan"], "lr_critic=nan cannot work"),
        (["--lr-alpha", "fast"], "fast"),
        (["--gamma", "1.01"], "gamma=1.01 is out of range"),
        (["--num-envs", "0"], "num_envs=0 is too small"),
        (["--env-kwargs", "lenght=4"], "'TMaze-v0' has no argument 'lenght': it has length."),
        (["--env-kwargs", "length=-3"], "length=-3 cannot work"),
        (["--env-kwargs", "render_mode=human"], "see episodes with `resel watch`"),
        (["--env-kwargs", "length"], "write NAME=VALUE, as in length=40"),
        (["--encoder", "perceiver"], "perceiver"),
        (["--size", "huge"], "size='huge' is not known: choose one of paper, small, tiny"),
        (["--stepps", "5"], f"Did you mean: --steps N: {_STEPS} (default: {MAZE.training.steps})"),
        (["another-task"], "another-task"),
    ],
)
def test_values_that_cannot_work(flags: list[str], told: str, capsys: Any, tmp_path: Path) -> None:
    try:
        code: Any = main(["train", "TMaze-v0", *flags])
        by_parser = False
    except SystemExit as left:
        code, by_parser = left.code, True
    assert code == 2
    said = capsys.readouterr()
    assert told in " ".join(re.sub("[│\n]", " ", said.err).split())
    assert "Traceback" not in said.err and len(said.err.splitlines()) < 15
    assert not re.search("parsing (training|algorithm|network)", said.err)
    if by_parser:
        assert max(map(len, said.err.splitlines())) <= 80
        assert "resel train TMaze-v0 --help" in said.err
    assert list(tmp_path.iterdir()) == []


def test_a_gpu_that_is_not_there(capsys: Any, monkeypatch: Any, tmp_path: Path) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    told = refused(capsys, "train", "TMaze-v0", "--device", "cuda", "--run-dir", "run")
    assert "finds no GPU" in told and "--device cpu" in told
    assert not (tmp_path / "run").exists()


def test_a_file_in_the_way(capsys: Any, tmp_path: Path) -> None:
    (tmp_path / "run").write_text("mine")
    assert "file is in the way" in refused(capsys, "train", "TMaze-v0", "--run-dir", "run")
    assert (tmp_path / "run").read_text() == "mine"


def test_a_folder_of_other_things(capsys: Any, tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/notes.txt").write_text("mine")
    told = refused(capsys, "train", "TMaze-v0", "--size", "tiny", "--run-dir", "mine")
    assert "not a run: it holds notes.txt" in told and "another --run-dir" in told
    assert [entry.name for entry in (tmp_path / "mine").iterdir()] == ["notes.txt"]


def test_help_shows_the_defaults_of_the_task(capsys: Any) -> None:
    def steps(*argv: str) -> str:
        with pytest.raises(SystemExit):
            main(["train", *argv, "--help"])
        text = " ".join(re.sub("[│\n]", " ", capsys.readouterr().out).split())
        found = re.search(r"Environment steps in all\. \(default: (\d+)\)", text)
        assert found and "--lr-ce" in text
        return found[1]

    assert steps() == "1000000"
    assert steps("TMaze-v0") == str(MAZE.training.steps)
