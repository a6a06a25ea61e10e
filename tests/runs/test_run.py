"""A run on disk: what it leaves behind, however it ends."""

from __future__ import annotations

import dataclasses
import json
import math
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gymnasium
import pytest
import torch

from resel import RESeL
from resel.analysis.runs import read_run
from resel.config import Config
from resel.errors import (
    ConfigError,
    DamagedFileError,
    DivergedError,
    EnvironmentFault,
    RunDirectoryError,
    RunInUseError,
)
from resel.methods import default_method, get_method, register_method
from resel.registry import METHODS
from resel.runs import Run, finished_result, open_trainer, read_bundle, read_metrics, saved_config

SETTINGS: dict[str, Any] = {
    "steps": 70,
    "checkpoint_every": 20,
    "eval_every": 20,
    "log_every": 10,
}


@pytest.fixture(scope="module")
def config(tiny: dict[str, Any]) -> Config:
    return Config.build("toy/Box-v0", tiny, SETTINGS)


@pytest.fixture(scope="module")
def whole(config: Config, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The run that nothing happened to."""
    path = tmp_path_factory.mktemp("runs") / "whole"
    train(config, path)
    return path


def train(
    config: Config,
    path: Path,
    resume: Any = "never",
    callbacks: Any = (),
    interrupted_at: int | None = None,
) -> dict[str, Any]:
    run = Run(config, path, resume)

    def interrupt(progress: Any) -> None:
        if progress.step == interrupted_at:
            run.trainer.request_stop()

    try:
        return run.train([*callbacks, interrupt])
    finally:
        run.close()


def weights(path: Path) -> dict[str, torch.Tensor]:
    return read_bundle(path / "agents" / "last", "agent").tensors["weights"]


def lines(path: Path) -> list[dict[str, Any]]:
    """What training and evaluation wrote."""
    kinds = ("train", "eval")
    return [ln for ln in read_metrics(path / "metrics.jsonl") if ln["kind"] in kinds]


def same_run(a: Path, b: Path) -> bool:
    one, other = weights(a), weights(b)
    return lines(a) == lines(b) and all(torch.equal(one[name], other[name]) for name in other)


def result(path: Path) -> dict[str, Any]:
    return json.loads((path / "result.json").read_text())


def test_a_finished_run(config: Config, tmp_path: Path) -> None:
    returned = train(config, tmp_path / "run")
    assert returned == result(tmp_path / "run")
    assert returned["status"] == "completed" and returned["steps"] == 70
    evaluations = [ln for ln in lines(tmp_path / "run") if ln["kind"] == "eval"]
    # The last one is extra: 70 is no multiple of 20, and a run ends with a measurement.
    assert [ln["step"] for ln in evaluations] == [0, 20, 40, 60, 70]
    assert [ln["updates"] for ln in evaluations] == [0, 0, 11, 31, 41]
    # One of a policy that had not learned yet does not count.
    mean = sum(ln["return_mean"] for ln in evaluations[2:]) / 3
    assert returned["eval_return_mean"] == pytest.approx(mean)
    assert returned["final_evaluations"] == 3
    assert read_run(tmp_path / "run").final_return == returned["eval_return_mean"]
    (tmp_path / "run/result.json").unlink()
    assert read_run(tmp_path / "run").final_return == returned["eval_return_mean"]
    assert [p.name for p in sorted((tmp_path / "run/checkpoints").iterdir())] == [
        "step-000000060",
        "step-000000070",
    ]
    assert saved_config(tmp_path / "run") == config


def test_the_best_agent_is_that_of_the_best_evaluation(config: Config, tmp_path: Path) -> None:
    seen: dict[int, Any] = {}
    run = Run(config, tmp_path / "run")

    def remember(progress: Any) -> None:
        seen[progress.step] = {k: v.clone() for k, v in run.trainer.learner.weights().items()}

    run.train([remember])
    run.close()
    trained = [e for e in run.trainer.evaluator.history if e[0] > 0]
    step = max(trained, key=lambda e: (e[1], e[0]))[0]
    assert run.trainer.evaluator.history[0][1] < max(e[1] for e in trained)
    best = read_bundle(tmp_path / "run/agents/best", "agent").tensors["weights"]
    assert all(torch.equal(best[name], seen[step][name]) for name in best)


def test_interrupted_and_resumed_is_the_same_run(
    config: Config, tmp_path: Path, whole: Path
) -> None:
    stopped = train(config, tmp_path / "parts", interrupted_at=33)
    assert stopped["status"] == "interrupted" and stopped["steps"] == 33
    assert result(tmp_path / "parts") == stopped
    assert train(config, tmp_path / "parts", "auto")["status"] == "completed"
    assert same_run(tmp_path / "parts", whole)
    again = train(config, tmp_path / "parts", "auto")  # nothing is left to do
    assert again["status"] == "completed" and again["steps"] == 70
    assert same_run(tmp_path / "parts", whole)


def test_a_longer_run_may_follow(config: Config, tmp_path: Path, whole: Path) -> None:
    train(config.replace(steps=40), tmp_path / "parts")
    train(config, tmp_path / "parts", "auto")
    assert same_run(tmp_path / "parts", whole)


def test_a_run_ends_once_its_return_is_held(config: Config, tmp_path: Path) -> None:
    config = config.replace(stop_return=-1000.0, steps=40, eval_every=10)  # any policy has that
    stopped = train(config, tmp_path / "parts", interrupted_at=13)
    assert (stopped["status"], stopped["held_return"]) == ("interrupted", None)
    ended = train(config, tmp_path / "parts", "auto")
    assert (ended["status"], ended["steps"], ended["held_return"]) == ("stopped early", 30, -1000.0)
    assert ended["stopped_because"].startswith("the return asked for, -1000, was reached in each")
    assert [ln["step"] for ln in lines(tmp_path / "parts") if ln["kind"] == "eval"] == [
        0,
        10,
        20,
        30,
    ]
    train(config, tmp_path / "whole")
    assert same_run(tmp_path / "parts", tmp_path / "whole")
    for wanted, finished in ((-1000.0, True), (-2000.0, True), (1000.0, False), (None, False)):
        found = finished_result(config.replace(stop_return=wanted), tmp_path / "parts")
        assert (found is not None) == finished
    again = train(config, tmp_path / "parts", "auto")  # nothing is left to do
    assert again["steps"] == 30
    longer = train(config.replace(stop_return=None), tmp_path / "parts", "auto")
    assert (longer["steps"], longer["held_return"]) == (40, None)


def test_a_callback_ends_a_run(config: Config, tmp_path: Path) -> None:
    path = tmp_path / "run"
    stopped = train(config, path, callbacks=[lambda p: p.step != 33])
    assert (stopped["status"], stopped["steps"]) == ("stopped early", 33)
    assert stopped["stopped_because"] == "a callback returned False"
    assert lines(path)[-1]["kind"] == "eval" and lines(path)[-1]["step"] == 33
    assert finished_result(config, path) == stopped
    assert finished_result(config.replace(steps=33), path) == stopped
    assert finished_result(config, path, reach=1e9) == stopped  # it held no return
    assert finished_result(config.replace(steps=71), path) is None
    assert train(config.replace(steps=71), path, "auto")["status"] == "completed"


def test_steps_after_the_last_checkpoint_are_told(config: Config, tmp_path: Path) -> None:
    def die(progress: Any) -> None:
        if progress.step == 57:
            raise RuntimeError

    with pytest.raises(RuntimeError):
        train(config, tmp_path / "run", callbacks=[die])
    (tmp_path / "run/result.json").unlink()  # as after kill -9
    run = Run(config, tmp_path / "run", "auto")
    assert run.going_on == (
        "Going on from step 40. It had come to step 50 at least, but that is its last checkpoint: "
        "steps 41 to 50 are taken again."
    )
    run.close()
    train(config, tmp_path / "other", interrupted_at=57)
    run = Run(config, tmp_path / "other", "auto")
    assert run.going_on == "Going on from step 57."
    run.close()


def test_the_time_of_the_processor_adds_up(config: Config, tmp_path: Path) -> None:
    first = train(config.replace(steps=40), tmp_path / "run")
    second = train(config, tmp_path / "run", "auto")
    assert 0 < first["cpu_seconds"] < second["cpu_seconds"]


def test_killed_without_warning(config: Config, tmp_path: Path, whole: Path) -> None:
    """No save at the end, metrics beyond the last checkpoint: it goes on from that checkpoint."""

    class Killed(BaseException):
        pass

    def die(progress: Any) -> None:
        if progress.step == 55:
            raise Killed

    with pytest.raises(Killed):
        train(config, tmp_path / "parts", callbacks=[die])
    run = Run(config, tmp_path / "parts", "auto")
    assert run.resumed_at == 40
    run.train()
    run.close()
    assert same_run(tmp_path / "parts", whole)


def test_killed_before_the_first_checkpoint(config: Config, tmp_path: Path, whole: Path) -> None:
    Run(config, tmp_path / "parts").close()
    run = Run(config, tmp_path / "parts", "auto")
    assert run.resumed_at is None
    run.train()
    run.close()
    assert same_run(tmp_path / "parts", whole)


@pytest.mark.parametrize("damage", ["cut", "altered", "bad manifest"])
def test_a_damaged_checkpoint_is_passed_over(
    config: Config, tmp_path: Path, whole: Path, damage: str
) -> None:
    train(config, tmp_path / "parts", interrupted_at=60)
    newest = tmp_path / "parts/checkpoints/step-000000060"
    file = newest / "learner.safetensors"
    match damage:
        case "cut":
            file.write_bytes(file.read_bytes()[:-9])
        case "altered":
            data = bytearray(file.read_bytes())
            data[-5] ^= 1
            file.write_bytes(bytes(data))
        case "bad manifest":
            (newest / "manifest.json").write_text("{")
    with pytest.warns(UserWarning, match="Trying the one before"):
        train(config, tmp_path / "parts", "auto")
    assert same_run(tmp_path / "parts", whole)


def test_no_readable_checkpoint(config: Config, tmp_path: Path, whole: Path) -> None:
    shutil.copytree(whole, tmp_path / "run")
    for file in (tmp_path / "run/checkpoints").glob("*/loop.json"):
        file.write_text("{}")
    metrics = (tmp_path / "run/metrics.jsonl").read_bytes()
    before = result(tmp_path / "run")
    with (
        pytest.warns(UserWarning, match="Trying the one before"),
        pytest.raises(DamagedFileError, match="nothing was changed"),
    ):
        Run(config, tmp_path / "run", "auto")
    assert (tmp_path / "run/metrics.jsonl").read_bytes() == metrics
    assert result(tmp_path / "run") == before


def test_divergence_ends_the_run_and_it_can_go_back(
    config: Config, tmp_path: Path, whole: Path
) -> None:
    def poison(progress: Any) -> None:
        if progress.step == 43:
            with torch.no_grad():
                for weight in run.trainer.learner.critic.parameters():
                    weight.fill_(math.nan)

    run = Run(config, tmp_path / "run")
    with pytest.raises(DivergedError):
        run.train([poison])
    run.close()
    assert result(tmp_path / "run")["status"] == "diverged"
    assert [p.name for p in sorted((tmp_path / "run/checkpoints").iterdir())] == [
        "step-000000020",
        "step-000000040",
    ]
    train(config, tmp_path / "run", "auto")
    assert same_run(tmp_path / "run", whole)


def test_a_checkpoint_that_took_in_nan_is_passed_over(
    config: Config, tmp_path: Path, whole: Path
) -> None:
    run = Run(config, tmp_path / "parts")
    run.trainer.train(40, [run._save_when_due])
    with torch.no_grad():
        next(run.trainer.learner.critic.parameters()).fill_(math.nan)
    run.trainer.step += 1
    run._save()
    run.close()
    with pytest.warns(UserWarning, match=r"not finite.*Trying the one before"):
        train(config, tmp_path / "parts", "auto")
    assert same_run(tmp_path / "parts", whole)


def test_a_second_ctrl_c_ends_it_at_once(config: Config, tmp_path: Path, whole: Path) -> None:
    def interrupt(progress: Any) -> None:
        if progress.step == 47:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train(config, tmp_path / "run", callbacks=[interrupt])
    assert result(tmp_path / "run")["status"] == "interrupted"
    train(config, tmp_path / "run", "auto")
    assert same_run(tmp_path / "run", whole)


def test_other_settings_are_refused(config: Config, tmp_path: Path, whole: Path) -> None:
    shutil.copytree(whole, tmp_path / "run")
    before = (tmp_path / "run/metrics.jsonl").read_bytes()
    with pytest.raises(RunDirectoryError, match=r"gamma: 0\.99 there, 0\.5 asked"):
        Run(config.replace(gamma=0.5), tmp_path / "run", "auto")
    with pytest.raises(RunDirectoryError, match="already holds a run"):
        Run(config, tmp_path / "run")
    assert (tmp_path / "run/metrics.jsonl").read_bytes() == before
    assert result(tmp_path / "run")["status"] == "completed"
    train(config, tmp_path / "run", "auto")  # and the lock was given back


def test_another_encoder_or_method_is_refused(
    config: Config, tmp_path: Path, whole: Path, other_method: str
) -> None:
    shutil.copytree(whole, tmp_path / "run")
    others = {
        "encoder: 'gru' there, 'mamba' asked": config.replace(encoder="mamba"),
        f"method: '{config.method}' there, '{other_method}' asked": Config.build(
            config.task, {"method": other_method}
        ),
    }
    for told, other in others.items():
        with pytest.raises(RunDirectoryError, match=told):
            Run(other, tmp_path / "run", "auto")
        with pytest.raises(RunDirectoryError, match=told):
            finished_result(other, tmp_path / "run")


@pytest.fixture
def other_method() -> Iterator[str]:
    """A method by another name, with the settings of the usual one."""
    usual = get_method(default_method())
    yield register_method(dataclasses.replace(usual, name="as-usual")).name
    METHODS.remove("as-usual")


OLDER_CONFIG = {
    "task": "toy/Box-v0",
    "network": {"encoder": "gru", "blocks": 1, "critics": 2},
    "algorithm": {"target_subset": 2, "target_keep": 0.995},
    "training": {"steps": 70},
}


def test_a_run_of_an_older_resel_is_refused_by_its_format(
    config: Config, tmp_path: Path, whole: Path
) -> None:
    path = tmp_path / "run"
    shutil.copytree(whole, path)
    (path / "config.json").write_text(json.dumps(OLDER_CONFIG))
    before = {p: p.read_bytes() for p in path.rglob("*") if p.is_file()}
    told = r"config\.json was saved in format version 4 by an older resel; .* train anew"
    for use in (
        lambda: Run(config, path, "auto"),
        lambda: finished_result(config, path),
        lambda: saved_config(path),
        lambda: open_trainer(path),
    ):
        with pytest.raises(DamagedFileError, match=told):
            use()
    assert {p: p.read_bytes() for p in path.rglob("*") if p.is_file()} == before


def test_agents_and_checkpoints_of_an_older_resel_are_refused_by_their_format(
    tmp_path: Path, whole: Path
) -> None:
    shutil.copytree(whole, tmp_path / "run")
    for kind, bundle in (("agent", "agents/last"), ("checkpoint", "checkpoints/step-000000070")):
        manifest = tmp_path / "run" / bundle / "manifest.json"
        manifest.write_text(json.dumps({**json.loads(manifest.read_text()), "version": 4}))
        with pytest.raises(DamagedFileError, match="format version 4 by an older resel"):
            read_bundle(manifest.parent, kind)
    with pytest.raises(DamagedFileError, match="format version 4 by an older resel"):
        RESeL.load(tmp_path / "run")


def test_one_owner_at_a_time(config: Config, tmp_path: Path) -> None:
    run = Run(config, tmp_path / "run")
    with pytest.raises(RunInUseError):
        Run(config, tmp_path / "run", "auto")
    run.close()
    Run(config, tmp_path / "run", "auto").close()


def test_what_cannot_start_leaves_nothing_behind(
    config: Config, tmp_path: Path, toy: Any, monkeypatch: Any
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(ConfigError, match="GPU"):
        Run(config.replace(device="cuda"), tmp_path / "run")
    assert not (tmp_path / "run").exists()

    class Broken(toy):  # type: ignore[misc]
        def reset(self, **how: Any) -> Any:
            raise OSError("no display")

    gymnasium.register("toy/Broken-v0", Broken)
    with pytest.raises(EnvironmentFault, match=r"OSError in reset\(seed=\d+\): no display"):
        Run(config.replace(task="toy/Broken-v0"), tmp_path / "run")
    assert not (tmp_path / "run").exists()
    train(config.replace(steps=35), tmp_path / "run")


def test_a_fault_in_mid_run_keeps_what_was_saved(config: Config, tmp_path: Path, toy: Any) -> None:
    class Fragile(toy):  # type: ignore[misc]
        broken = True

        def step(self, action: Any) -> Any:
            if Fragile.broken and len(self.taken) == 50:
                raise RuntimeError("the simulator lost a wheel")
            return super().step(action)

    gymnasium.register("toy/Fragile-v0", Fragile, max_episode_steps=100)
    config = config.replace(task="toy/Fragile-v0", eval_every=0)
    with pytest.raises(EnvironmentFault, match="lost a wheel"):
        train(config, tmp_path / "run")
    ended = result(tmp_path / "run")
    assert ended["status"] == "failed" and ended["steps"] == 50
    assert "lost a wheel" in ended["fault"]
    (event,) = [ln for ln in read_metrics(tmp_path / "run/metrics.jsonl") if ln["kind"] == "event"]
    assert event["step"] == 50 and event["event"] == "environment failed"
    assert "Traceback" in event["traceback"] and "in step" in event["traceback"]
    for step in (40, 50):  # the last one was saved because of the fault
        read_bundle(tmp_path / f"run/checkpoints/step-0000000{step}", "checkpoint")
    read_bundle(tmp_path / "run/agents/last", "agent")
    Fragile.broken = False
    run = Run(config, tmp_path / "run", "auto")
    assert run.resumed_at == 50
    run.train()
    run.close()
    train(config, tmp_path / "whole")
    assert same_run(tmp_path / "run", tmp_path / "whole")
