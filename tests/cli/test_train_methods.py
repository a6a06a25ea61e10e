"""`resel train --method`: flags, names, runs and agents of any method of the registry."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from other_methods import echo_method
from terminal import read, refused

import resel
from resel.cli import main
from resel.cli.train import train_arguments
from resel.config import Config, field_names
from resel.errors import ConfigError
from resel.methods import default_method, get_method, methods, run_label
from resel.networks import encoder_spec, encoders
from resel.runs import saved_config

METHODS = methods()[0]
RECURRENT = [method.name for method in METHODS if method.encoder is not None]
ENCODERS = [spec.name for spec in encoders()[0]]


def flags_of(capsys: Any, *argv: str) -> set[str]:
    """The settings that the help of `resel train ARGV` offers."""
    capsys.readouterr()
    with pytest.raises(SystemExit) as left:
        main(["train", *argv, "--help-all"])
    assert left.value.code == 0
    lines = [line.lstrip("│| ") for line in capsys.readouterr().out.splitlines()]
    flags = " ".join(line for line in lines if line.startswith("--"))
    return {flag.removeprefix("--").replace("-", "_") for flag in re.findall("--[a-z-]+", flags)}


# Flags


@pytest.mark.parametrize("method", [method.name for method in METHODS])
def test_help_shows_the_flags_of_the_method_and_no_others(method: str, capsys: Any) -> None:
    config = Config.build("", {"method": method})
    own = set(config.flat()) - {"encoder"}
    every = {
        name
        for other in METHODS
        for kind in (other.settings, other.network)
        for name in field_names(kind)
    } | {name for spec in encoders()[0] for name in field_names(spec.settings)}
    shown = flags_of(capsys, "--method", method)
    assert own <= shown and not (every - own) & shown


@pytest.mark.parametrize("encoder", ENCODERS)
def test_help_shows_the_flags_of_the_encoder_and_no_others(encoder: str, capsys: Any) -> None:
    own = set(Config.build("", {"encoder": encoder}).flat())
    foreign = {n for spec in encoders()[0] for n in field_names(spec.settings)} - own
    for argv in (["--encoder", encoder], [f"--encoder={encoder}", "TMaze-v0"]):
        shown = flags_of(capsys, "--method", default_method(), *argv)
        assert set(field_names(encoder_spec(encoder).settings)) <= shown and not foreign & shown


def test_the_gru_has_no_flags_of_mamba(capsys: Any) -> None:
    shown = flags_of(capsys, "--method", "resel", "--encoder", "gru")
    assert "n_layers" in shown and not {"state_size", "conv_kernel", "expansion"} & shown


def test_the_last_of_repeated_flags_counts(capsys: Any) -> None:
    assert train_arguments(["TMaze-v0", "--encoder", "gru", "--encoder=lstm"]).encoder == "lstm"
    with pytest.raises(SystemExit) as left:
        main(["train", "TMaze-v0", "--method", "--encoder", "gru"])
    assert left.value.code == 2 and "--method" in capsys.readouterr().err


@pytest.mark.parametrize("method", [method.name for method in METHODS])
@pytest.mark.parametrize("size", ["paper", "small", "tiny"])
def test_sizes_of_every_method(method: str, size: Any) -> None:
    config = train_arguments(["TMaze-v0", "--method", method, "--size", size]).config
    assert config == resel.configure("TMaze-v0", method=method, size=size)
    assert config.sized(size) and config.sized(size).items() <= config.flat().items()


# Names that are not there


@pytest.mark.parametrize(
    ("flags", "told"),
    [
        (["--method", "resell"], "There is no method 'resell'. Did you mean resel"),
        (["--method", "PPO-GRU"], "There is no method 'PPO-GRU'. Did you mean ppo-gru"),
        (["--method=zzz"], "There is no method 'zzz'. Choose one of resel"),
        (["--encoder", "grru"], "There is no encoder 'grru'. Did you mean gru"),
        (["--encoder", "zzz"], "Choose one of mamba, gru, lstm, mlp"),
        (["--encoder", "gru", "--state-size", "4"], "has no setting 'state_size': it belongs to"),
        (["--encoder", "gru", "--state-size=4"], "belongs to the encoder mamba."),
        (["--encoder", "gru", "--no-feed-forward"], "belongs to the encoder mamba."),
        (["--ent-coef", "0.1"], "Did you mean alpha (the temperature itself), target_entropy"),
        (["--learning-starts", "100"], "Did you mean warmup_steps?"),
        (["--buffer-size", "1e5"], "Did you mean buffer_steps?"),
        (["--batch-size=256"], "Did you mean batch_steps?"),
        (["--train_freq", "1"], "Did you mean updates_per_step?"),
        (["--gradient-steps", "1"], "Did you mean updates_per_step?"),
        (["--critics", "4"], "Did you mean n_critics?"),
        (["--blocks", "4"], "Did you mean n_layers?"),
        (["--target-keep", "0.99"], "Did you mean tau (1 - target_keep)?"),
        (["--entropy-coefficient", "1"], "Did you mean target_entropy_scale?"),
    ],
)
def test_names_that_are_not_there(flags: list[str], told: str, capsys: Any, tmp_path: Path) -> None:
    assert told in refused(capsys, "train", "TMaze-v0", *flags)
    assert list(tmp_path.iterdir()) == []


def test_settings_of_another_method(capsys: Any) -> None:
    with echo_method():
        told = refused(capsys, "train", "TMaze-v0", "--echo-strength", "0.1")
        assert "resel with gru has no setting 'echo_strength': it belongs to the method e" in told
        with pytest.raises(ConfigError, match="belongs to the method echo-method"):
            resel.configure("TMaze-v0", echo_strength=0.1)
        taken = train_arguments(["TMaze-v0", "--method", "echo-method", "--echo-strength", "0.1"])
        assert taken.config.algorithm.echo_strength == 0.1


def test_a_method_without_an_encoder(capsys: Any) -> None:
    with echo_method(encoder=None) as method:
        ours = ["train", "TMaze-v0", "--method", method.name]
        assert not {"n_layers", "state_size"} & flags_of(capsys, "--method", method.name)
        told = refused(capsys, *ours, "--encoder", "gru")
        assert "has no context encoder. Leave it out, or choose one of" in told
        assert "echo-method has no setting 'state_size'" in refused(capsys, *ours, "--state-size=4")
        # What is told by another name belongs to somebody else too.
        assert "no setting 'n_layers': it belongs to" in refused(capsys, *ours, "--blocks", "2")
        assert train_arguments([*ours[1:], "--encoder", "None"]).config.encoder is None


def test_none_stands_for_the_usual_encoder() -> None:
    taken = train_arguments(["Pendulum-v1", "--encoder", "None"])
    assert taken.config == resel.configure("Pendulum-v1")


@pytest.mark.parametrize("value", ["0", "-1", "nan", "inf", "-inf", "-0.5"])
def test_updates_per_step_must_be_a_number_above_0(value: str, capsys: Any) -> None:
    told = refused(capsys, "train", "TMaze-v0", f"--updates-per-step={value}")
    assert f"updates_per_step={float(value)} cannot work: it must be a finite number" in told


def test_updates_per_step_may_be_a_fraction() -> None:
    taken = train_arguments(["TMaze-v0", "--updates-per-step", "0.25"])
    assert taken.config.training.updates_per_step == 0.25


# Runs


@pytest.mark.parametrize("method", [method.name for method in METHODS])
def test_a_run_of_every_method(method: str, capsys: Any, tmp_path: Path) -> None:
    """Trained, told about, continued, measured and loaded."""
    record = get_method(method)
    task = "Pendulum-gravity-v0" if record.learner.learns_from else f"toy/{record.spaces[0]}-v0"
    flags = (
        ["--max-episode-steps", "6", "--eval-episodes", "1"] if record.learner.learns_from else []
    )
    flags += ["--method", method, "--size", "tiny", "--steps", "15", "--threads", "1"]
    flags += ["--eval-every", "0", "--buffer-steps", "1000"]
    settings = {
        "--learn-after": "0",
        "--rollout-steps": "1",
        "--phase-steps": "2",
        "--minibatches": "1",
    }
    own = {f"--{name.replace('_', '-')}" for name in Config.build("", {"method": method}).flat()}
    settings["--num-envs"] = "2" if "--phase-steps" in own else "1"  # its tasks
    settings["--warmup-steps"] = "0" if "--phase-steps" in own else "13"
    flags += [word for flag, value in settings.items() if flag in own for word in (flag, value)]
    assert main(["train", task, *flags]) == 0
    said = capsys.readouterr().out
    # Commands to copy are not broken.
    assert all(len(line) <= 80 for line in said.splitlines() if "runs/" not in line)
    assert f"{task} with {record.title}" in said and re.search(
        rf"\d updates? of {re.escape(record.title)}", said
    )
    (run,) = (tmp_path / "runs").iterdir()
    config = saved_config(run)
    assert run.name.startswith(f"{task.replace('/', '-')}-{run_label(config)}-seed1-")
    result = read(run / "result.json")
    assert (result["method"], result["encoder"]) == (method, record.encoder)
    assert main(["resume", str(run), "--method", method, "--steps", "20"]) == 0
    assert main(["eval", str(run), "--episodes", "1", "--json"]) == 0
    assert f'"method": "{method}"' in capsys.readouterr().out
    assert resel.Agent.load(run).config.method == method
    if method != default_method():
        with pytest.raises(ConfigError, match=rf"learned with {method}.*use Agent\.load"):
            resel.RESeL.load(run)


def test_the_method_is_named_where_it_is_not_the_usual_one() -> None:
    with echo_method() as method:
        usual = get_method(default_method())
        names = {
            (default_method(), usual.encoder): usual.encoder,
            (default_method(), "lstm"): "lstm",
            (method.name, "gru"): "echo-method",
            (method.name, "lstm"): "echo-method-lstm",
        }
        for (name, encoder), label in names.items():
            assert run_label(Config.build("", {"method": name, "encoder": encoder})) == label
    with echo_method(encoder=None) as method:
        assert run_label(Config.build("", {"method": method.name})) == "echo-method"


def test_a_run_keeps_its_method(tiny_flags: list[str], capsys: Any, tmp_path: Path) -> None:
    with echo_method() as method:
        name = method.name
        flags = [*tiny_flags, "--steps", "31", "--threads", "1", "--run-dir", "run"]
        assert main(["train", "TMaze-v0", "--method", name, *flags]) == 0
        said = capsys.readouterr().out
        assert "TMaze-v0 with Echo (echo-method, gru), seed 1" in said
        assert "updates of Echo (echo-method, gru)" in said
        before = {p: p.stat().st_mtime_ns for p in tmp_path.rglob("*") if p.name != ".lock"}
        for other in (default_method(), "nobodys"):
            told = refused(capsys, "resume", "run", "--method", other, "--steps", "40")
            assert f"has the method {name} and keeps it: leave --method {other} out" in told
            assert f"resel train TMaze-v0 --method {other}" in told
        told = refused(capsys, "resume", "run", "--encoder=lstm")
        assert "has the encoder gru and keeps it" in told
        # `--resume auto` finds the same.
        again = ["train", "TMaze-v0", *flags, "--resume", "auto"]
        told = refused(capsys, *again)
        assert f"method: '{name}' there, '{default_method()}' asked" in told
        told = refused(capsys, *again, "--method", name, "--encoder", "lstm")
        assert "encoder: 'gru' there, 'lstm' asked" in told
        after = {p: p.stat().st_mtime_ns for p in tmp_path.rglob("*") if p.name != ".lock"}
        assert after == before
        assert main(["resume", "run", "--method", name, "--encoder", "gru"]) == 0
        assert "run is finished." in capsys.readouterr().out
        assert main(["watch", "run", "--out", "film.gif"]) == 0
        with pytest.raises(ConfigError, match=r"learned with echo-method, but RESeL is an agent"):
            resel.RESeL.load("run")
        assert resel.Agent.load("run").config.method == name
    assert "There is no method 'echo-method'" in refused(capsys, "eval", "run")


def test_the_settings_of_a_task_with_a_method(capsys: Any) -> None:
    with echo_method():
        assert main(["tasks", "--show", "TMaze-v0", "--method", "echo-method"]) == 0
        shown = capsys.readouterr().out
        assert re.search(r"method +echo-method", shown) and re.search(r"encoder +gru *\n", shown)
        assert re.search(r"echo_strength +0\.5", shown)
        assert max(map(len, shown.splitlines())) <= 80
    told = refused(capsys, "tasks", "--show", "TMaze-v0", "--method", "echo-method")
    assert "There is no method 'echo-method'" in told
