"""The command, as somebody at a terminal meets it."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest
import torch
from command import COMMAND, start
from PIL import Image
from presets import task_settings

import resel
from resel import RESeL
from resel.cli import main
from resel.config import Config
from resel.runs import read_bundle, read_metrics
from resel.training import ProgressLine, TrainProgress

VERBS = (
    *("train", "resume", "eval", "watch", "plot", "report", "diagnose", "tasks", "reproduce"),
    "bench",
)
SMALL = ["--steps", "6e1", "--eval-every", "20", "--checkpoint-every", "2_0", "--threads", "1"]


pytestmark = pytest.mark.usefixtures("own_folder", "narrow_terminal")


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory, tiny_flags: list[str]) -> Path:
    """A run of the T-maze that nobody may change."""
    path = tmp_path_factory.mktemp("runs") / "finished"
    threads = torch.get_num_threads()
    assert main(["train", "TMaze-v0", *tiny_flags, *SMALL, "--run-dir", str(path)]) == 0
    torch.set_num_threads(threads)
    return path


def read(path: Path) -> dict[str, Any]:
    return json.loads(path.read_text())


def lines(run: Path) -> list[dict[str, Any]]:
    return [ln for ln in read_metrics(run / "metrics.jsonl") if ln["kind"] != "timing"]


def same_run(a: Path, b: Path) -> bool:
    one, other = (read_bundle(p / "agents/last", "agent").tensors["weights"] for p in (a, b))
    return lines(a) == lines(b) and all(torch.equal(one[k], other[k]) for k in one)


def refused(capsys: Any, *argv: str, code: int = 2) -> str:
    """The message of a command that ends in an error: one paragraph and nothing else."""
    capsys.readouterr()
    assert main(list(argv)) == code
    told = capsys.readouterr()
    assert told.err.startswith("Error: ") and told.err.endswith("\n")
    assert told.err.count("\n") == 1 and "Traceback" not in told.err
    return str(told.err)


# Training


def test_the_files_of_a_run(finished: Path) -> None:
    result = read(finished / "result.json")
    assert {k: result[k] for k in ("task", "encoder", "steps", "seed", "status", "updates")} == {
        "task": "TMaze-v0",
        "encoder": "gru",
        "steps": 60,
        "seed": 1,
        "status": "completed",
        "updates": 31,
    }
    assert isinstance(result["eval_return_mean"], float) and result["wall_seconds"] > 0
    assert result["eval_return_std"] >= 0 and 0 <= result["success_rate"] <= 1

    config = Config.from_json(read(finished / "config.json"))
    assert config.training.steps == 60 and config.network.width == 8
    assert (
        config.algorithm.target_entropy_scale == task_settings("TMaze-v0")["target_entropy_scale"]
    )

    environment = read(finished / "environment.json")
    assert environment["device"] == "cpu" and environment["versions"]["torch"]
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
    flags = [*tiny_flags, "--steps", "1.5e1", "--lr-ce", "2e-3", "--no-feed-forward"]
    assert main(["train", *flags, "--encoder", "mamba", "toy/Box-v0"]) == 0  # the task comes last
    said = capsys.readouterr()
    assert "toy/Box-v0 with mamba, seed 1, 15 steps" in said.out
    assert re.search(r"policy +context_encoder +[\d,]+ +0\.002\b", said.out)
    assert "Completed: 15 steps, 0 updates" in said.out and "step 15/15" in said.err
    assert "(mean of" not in said.out  # there was one evaluation, at the end
    (run,) = (tmp_path / "runs").iterdir()
    assert run.name.startswith("toy-Box-v0-mamba-seed1-")
    assert str(run.relative_to(tmp_path)) in said.out
    config = Config.from_json(read(run / "config.json"))
    assert config.algorithm.lr_context_encoder == 2e-3 and not config.network.feed_forward
    assert config.training.steps == 15
    assert max(map(len, said.out.splitlines())) <= 80


def test_piped_lines_are_not_broken(finished: Path) -> None:
    environment = {k: v for k, v in os.environ.items() if k != "COLUMNS"}
    told = subprocess.run(
        [COMMAND, "resume", str(finished)], capture_output=True, text=True, env=environment
    )
    (line,) = told.stdout.splitlines()
    # Evaluated at 0, 20, 40 and 60, of which the first does not count.
    assert line.endswith("(mean of the last 3 evaluations)") and len(line) > 80
    listed = subprocess.run([COMMAND, "tasks"], capture_output=True, text=True, env=environment)
    assert sum("TMaze-v0" in row for row in listed.stdout.splitlines()) == 1
    assert max(map(len, listed.stdout.splitlines())) > 80


def test_settings_come_from_the_task_then_the_size_then_flags(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seen: list[Config] = []

    class Stop(Exception):
        pass

    def run(config: Config, *rest: Any) -> None:
        seen.append(config)
        raise Stop

    monkeypatch.setattr("resel.cli.verbs.Run", run)
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


def test_resume_auto_starts_and_goes_on(
    finished: Path, tiny_flags: list[str], capsys: Any, tmp_path: Path
) -> None:
    command = ["train", "TMaze-v0", *tiny_flags, *SMALL, "--run-dir", "run", "--resume", "auto"]
    assert main([*command, "--steps", "35"]) == 0
    capsys.readouterr()
    assert main(command) == 0
    assert "Going on from step 35." in capsys.readouterr().out
    parts, whole = lines(tmp_path / "run"), lines(finished)
    # The first run ended with an evaluation of its own.
    assert [ln for ln in parts if (ln["kind"], ln["step"]) != ("eval", 35)] == whole
    one, other = (
        read_bundle(p / "agents/last", "agent").tensors["weights"]
        for p in (finished, tmp_path / "run")
    )
    assert all(torch.equal(one[name], other[name]) for name in one)


def test_a_run_is_not_overwritten(finished: Path, tiny_flags: list[str], capsys: Any) -> None:
    before = {p: p.stat().st_mtime_ns for p in finished.rglob("*") if p.name != ".lock"}
    command = ["train", "TMaze-v0", *tiny_flags, *SMALL, "--run-dir", str(finished)]
    assert "already holds a run" in refused(capsys, *command)
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
        (["--encoder", "transformer"], "transformer"),
        (["--size", "huge"], "size='huge' is not known: choose one of paper, small, tiny"),
        (["--stepps", "5"], f"(default: {task_settings('TMaze-v0')['steps']})"),
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


@pytest.mark.parametrize(
    ("argv", "told"),
    [
        (["train", "TMaze"], "Did you mean TMaze-v0"),
        (["train", "Pendulum-V"], "Pendulum-V-v0"),
        (["train", "nosuchmodule:Thing-v0"], "importing 'nosuchmodule', which failed"),
        (["train", "TMaze-v0", "--preset", "mine"], "choose from paper"),
        (["train", "TMaze-v0", "--n-critics", "1"], "lower subset_size or raise n_critics"),
        (["train", "TMaze-v0", "--device", "tpu"], "'auto', 'cpu', 'cuda'"),
        (
            ["eval", "nowhere"],
            "no saved agent at nowhere. Check the path: it must be the folder of one or a run",
        ),
        (["eval", "."], "Give the folder in which manifest.json lies or a run directory"),
        (
            ["watch", "nowhere", "--out", "a.gif"],
            "no saved agent at nowhere. Check the path: it must be the folder of one or a run",
        ),
        (["resume", "nowhere"], "Check the path: a run is the folder that `resel train` names"),
        (["resume", __file__], "test_cli.py is a file, but a run is a folder"),
        (["plot", "nowhere"], "Check the path: a run is the folder that `resel train` names"),
        (["plot"], "at least one run"),
        (["plot", "nowhere", "--out", "a.txt"], ".png, .svg or .pdf"),
        (["tasks", "--show", "TMaze"], "Did you mean TMaze-v0"),
        (["tasks", "--show", "Zzzzzz"], "`resel tasks` lists ours"),
        (["reproduce", "fig-lr-ablation", "--jobs=-1"], "--jobs -1 is too small: it must be at"),
        (["tran"], "use one of train, resume, eval, watch, plot, report, diagnose, tasks, "),
    ],
)
def test_mistakes(argv: list[str], told: str, capsys: Any, tmp_path: Path) -> None:
    assert told in refused(capsys, *argv)
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


# Looking at what was trained


def test_eval(finished: Path, capsys: Any) -> None:
    command = ["eval", str(finished), "--episodes", "3", "--json"]
    assert main(command) == 0
    told = capsys.readouterr()
    answer = json.loads(told.out)
    assert told.err == "" and told.out.count("\n") == 1
    assert answer["task"] == "TMaze-v0" and answer["episodes"] == 3
    assert answer["length_mean"] == 21 and -1.06 <= answer["return_mean"] <= 1
    assert answer["return_std"] >= 0 and 0 <= answer["success_rate"] <= 1
    assert main(command) == 0
    assert json.loads(capsys.readouterr().out) == answer
    assert main(["eval", str(finished / "agents" / "best"), "--seed", "5"]) == 0
    text = capsys.readouterr().out
    assert text.startswith("TMaze-v0: return ") and "over 20 episodes of 21 steps" in text
    assert "--episodes 0" in refused(capsys, "eval", str(finished), "--episodes", "0")


def test_eval_measures_the_same_as_the_run(finished: Path, capsys: Any) -> None:
    last = [line for line in lines(finished) if line["kind"] == "eval"][-1]
    assert main(["eval", str(finished), "--episodes", "2", "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["return_mean"] == pytest.approx(last["return_mean"])
    assert answer["success_rate"] == last["success_rate"]


def test_eval_of_a_damaged_agent(finished: Path, capsys: Any, tmp_path: Path) -> None:
    shutil.copytree(finished, tmp_path / "copy")
    file = tmp_path / "copy/agents/last/weights.safetensors"
    file.write_bytes(file.read_bytes()[:-1])
    assert "cut off or altered" in refused(capsys, "eval", "copy")
    assert main(["eval", "copy", "--agent", "best"]) == 0


def test_watch(finished: Path, capsys: Any, tmp_path: Path) -> None:
    command = ["watch", str(finished), "--episodes", "2", "--out"]
    assert main([*command, "films/maze.gif"]) == 0
    assert "films/maze.gif" in capsys.readouterr().out
    with Image.open(tmp_path / "films/maze.gif") as film:
        assert film.n_frames > 1 and film.size == (21 * 24, 3 * 24)
    for name in ("maze.avi", "maze"):
        assert "write to a .gif or .mp4 file" in refused(capsys, *command, name)
    assert "--episodes 0" in refused(capsys, *command, "a.gif", "--episodes", "0")


def test_plot(finished: Path, tmp_path: Path, capsys: Any) -> None:
    assert main(["plot", str(finished), str(finished), "--csv", "c.csv"]) == 0
    assert "curve.png" in capsys.readouterr().out
    with Image.open(tmp_path / "curve.png") as picture:
        assert min(picture.size) > 300
    rows = (tmp_path / "c.csv").read_text().splitlines()
    assert rows[0].startswith("task,encoder,seed,step,return_mean,return_std")
    assert [row.split(",")[3] for row in rows[1:]] == ["0", "20", "40", "60"] * 2
    assert main(["plot", str(finished), "--out", "curve.svg"]) == 0
    assert "<svg" in (tmp_path / "curve.svg").read_text()


def test_tasks(capsys: Any) -> None:
    assert main(["tasks", "--json"]) == 0
    listed = {task["id"]: task for task in json.loads(capsys.readouterr().out)}
    maze = listed["TMaze-v0"]
    assert (maze["observation_size"], maze["action_size"], maze["horizon"]) == (3, 4, 21)
    assert main(["tasks"]) == 0
    table = capsys.readouterr().out
    assert all(name in table for name in listed)
    assert max(map(len, table.splitlines())) <= 80
    families = len({task["family"] for task in listed.values()})
    assert len(table.splitlines()) <= 1 + len(listed) + families
    assert main(["tasks", "--show", "TMaze-v0"]) == 0
    shown = capsys.readouterr().out
    assert re.search(r"encoder +gru +task's own", shown)
    assert re.search(r"n_critics +8 *\n", shown)
    assert re.search(r"target_entropy_scale +0.2 +task's own", shown)
    assert re.search(r"threads +automatic: 1\b", shown) and re.search(r"device +automatic: ", shown)
    assert main(["tasks", "--show", "toy/Box-v0"]) == 0
    shown = capsys.readouterr().out
    assert re.search(r"target_entropy_scale +automatic: 1 ", shown)
    assert re.search(r"threads +automatic: all cores", shown)


def test_help_and_version(capsys: Any) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"resel {resel.__version__}\n"
    for argv in ([], ["--help"], ["-h"]):
        assert main(argv) == 0
        text = capsys.readouterr().out
        assert all(f" {verb} " in text for verb in VERBS)


@pytest.mark.parametrize("verb", VERBS)
def test_help_of_every_verb(verb: str, capsys: Any) -> None:
    with pytest.raises(SystemExit) as left:
        main([verb, "--help"])
    assert left.value.code == 0
    text = capsys.readouterr().out
    assert text.startswith(f"usage: resel {verb} ")
    positional = {
        "train": "TASK",
        "report": "DIR",
        "tasks": "",
        "bench": "scan",
        "reproduce": "NAME",
    }.get(verb, "RUN")
    assert positional in text.splitlines()[0]
    # tyro does not wrap the line of the usage
    assert max(map(len, text.splitlines()[1:])) <= 80


def test_help_shows_the_defaults_of_the_task(capsys: Any) -> None:
    def steps(*argv: str) -> str:
        with pytest.raises(SystemExit):
            main(["train", *argv, "--help"])
        text = " ".join(re.sub("[│\n]", " ", capsys.readouterr().out).split())
        found = re.search(r"Environment steps in all\. \(default: (\d+)\)", text)
        assert found and "--lr-ce" in text
        return found[1]

    assert steps() == "1000000"
    assert steps("TMaze-v0") == str(task_settings("TMaze-v0")["steps"])


# Signals, in processes of their own


def _wait_for_step(process: subprocess.Popen[str], run: Path, step: int) -> None:
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline and process.poll() is None:
        if (run / "metrics.jsonl").exists() and any(
            line["step"] >= step for line in read_metrics(run / "metrics.jsonl")
        ):
            return
        time.sleep(0.02)
    pytest.fail(f"never came to step {step}: {process.communicate(timeout=10)}")


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_saves_and_tells_how_to_go_on(
    tiny_flags: list[str], monkeypatch: pytest.MonkeyPatch, capsys: Any, number: int, code: int
) -> None:
    class Signalling(ProgressLine):
        def __call__(self, progress: TrainProgress) -> None:
            super().__call__(progress)
            if progress.step == 43:
                signal.raise_signal(number)

    flags = ["train", "TMaze-v0", *tiny_flags, "--steps", "60", "--threads", "1", "--run-dir"]
    with monkeypatch.context() as patch:
        patch.setattr("resel.cli.verbs.ProgressLine", Signalling)
        assert main([*flags, "a run"]) == code
    out = capsys.readouterr().out
    assert "Interrupted: 43 steps" in out
    assert out.endswith("Stopped at step 43. Go on with: resel resume 'a run'\n")
    assert main(["resume", "a run"]) == 0
    assert main([*flags, "whole"]) == 0
    assert same_run(Path("a run"), Path("whole"))


@pytest.mark.slow
def test_signals_stop_the_run_and_it_goes_on(tiny_flags: list[str], tmp_path: Path) -> None:
    run = tmp_path / "a run"  # with a space, as people have
    flags = [*tiny_flags, "--eval-every", "1000", "--threads", "1", "--run-dir", str(run)]
    flags += ["--checkpoint-every", "1000"]
    process = start("train", "TMaze-v0", *flags, "--steps", "1e6")
    _wait_for_step(process, run, 40)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert "Traceback" not in err and "Interrupted:" in out
    first = read(run / "result.json")
    assert first["status"] == "interrupted" and first["steps"] >= 40
    found = re.search(r"Go on with: (resel resume .*)", out)
    assert found

    process = start(*shlex.split(found[1])[1:])  # as printed
    _wait_for_step(process, run, first["steps"] + 20)
    process.send_signal(signal.SIGTERM)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 143, err
    assert f"Going on from step {first['steps']:,}." in out
    second = read(run / "result.json")
    assert second["status"] == "interrupted" and second["steps"] >= first["steps"] + 20

    steps = ["--steps", str(second["steps"] + 15)]
    assert main(["train", "TMaze-v0", *flags, *steps, "--resume", "auto"]) == 0
    assert read(run / "result.json")["status"] == "completed"
    flags[flags.index(str(run))] = "whole"
    assert main(["train", "TMaze-v0", *flags, *steps]) == 0
    assert same_run(run, tmp_path / "whole")


@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_output_that_nobody_reads(unbuffered: str) -> None:
    process = subprocess.Popen(
        [COMMAND, "tasks", "--json"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "PYTHONUNBUFFERED": unbuffered},
    )
    assert process.stdout is not None and process.stderr is not None
    process.stdout.close()  # long before it has something to say
    with process.stderr as told:
        assert told.read() == b""
    assert process.wait(timeout=60) == 0


def test_a_run_stands_for_its_newest_agent(finished: Path) -> None:

    ours, named = RESeL.load(finished), RESeL.load(finished / "agents/last")
    weights, expected = ours.learner.weights(), named.learner.weights()
    assert all(torch.equal(weights[name], expected[name]) for name in expected)


def test_a_run_that_is_too_young_says_so(
    tmp_path: Path, tiny_flags: list[str], capsys: Any
) -> None:
    """Stopped before its first checkpoint: no agent, and resuming begins again."""
    flags = [*tiny_flags, "--steps", "60", "--threads", "1", "--run-dir", "young"]
    assert main(["train", "TMaze-v0", *flags]) == 0
    shutil.rmtree("young/agents")
    shutil.rmtree("young/checkpoints")
    Path("young/result.json").unlink()
    assert main(["eval", "young"]) == 2
    assert "has no agent 'last' yet: wait for its first checkpoint" in _flat(capsys)
    Path("young/agents/best").mkdir(parents=True)
    assert main(["watch", "young", "--out", "film.gif"]) == 2
    assert "or use --agent best" in _flat(capsys)
    Path("young/agents/best").rmdir()
    assert main(["resume", "young"]) == 0
    assert "begins again at step 0" in _flat(capsys)
    assert main(["eval", "young", "--episodes", "1"]) == 0


def _flat(capsys: Any) -> str:
    captured = capsys.readouterr()
    return " ".join((captured.out + captured.err).split())
