"""Evaluations beside learning: the same results as in between, wherever a run is interrupted.

The process is a made-up one here, which answers after so many steps; the real one is in
tests/faults/test_evaluation_processes.py.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from method_cases import same_bits

from resel import RESeL
from resel.agent.callbacks import CheckpointEvery, EvaluateEvery, SaveBest, StopAtReturn
from resel.config import Config
from resel.errors import DivergedError, EnvironmentFault
from resel.runs import Run, read_bundle, read_metrics
from resel.training import evaluator
from resel.training.beside import Judge
from resel.training.clock import Clock

STEPS_LATER = 7
SETTINGS: dict[str, Any] = {"steps": 70, "checkpoint_every": 22, "eval_every": 20, "log_every": 5}


class Late:
    """A process that is known to have finished some steps later; `faults` come first."""

    name, can_rebuild = "The evaluation environment", True
    faults: list[Exception]
    begun: int

    def __init__(self, learner: Any, env: Any, timeout: float) -> None:
        self._judge = Judge(learner.config, learner.dims, learner.device, lambda: None)
        self._env, self.busy = env, False

    def begin(self, weights: Any, seeds: Any) -> None:
        Late.begun += 1
        self.busy, self._left, self._asked = True, STEPS_LATER, (weights, seeds)

    def has_finished(self) -> bool:
        self._left -= 1
        return self._left < 0

    def result(self) -> Any:
        self.busy = False
        if Late.faults:
            raise Late.faults.pop(0)
        return self._judge.evaluate(self._asked[0], self._env, self._asked[1]), 0.5

    def rebuild(self) -> None: ...

    def reset(self, seed: int) -> None: ...

    def close(self) -> None:
        self.busy = False


@pytest.fixture(autouse=True)
def _late(monkeypatch: pytest.MonkeyPatch) -> None:
    Late.faults, Late.begun = [], 0
    monkeypatch.setattr(evaluator, "EvaluationWorker", Late)


@pytest.fixture(scope="module")
def config(tiny: dict[str, Any]) -> Config:
    return Config.build("toy/Box-v0", tiny, SETTINGS, {"eval_parallel": True})


def train(
    config: Config, path: Path, resume: Any = "never", callbacks: Sequence[Any] = ()
) -> dict[str, Any]:
    run = Run(config, path, resume)
    try:
        return run.train(callbacks)
    finally:
        run.close()


def lines(path: Path) -> list[dict[str, Any]]:
    return [ln for ln in read_metrics(path / "metrics.jsonl") if ln["kind"] != "timing"]


def order(path: Path) -> list[tuple[str, int]]:
    return [(ln["kind"], ln["step"]) for ln in read_metrics(path / "metrics.jsonl")]


@pytest.fixture(scope="module")
def plain(config: Config, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The run with evaluations in between."""
    path = tmp_path_factory.mktemp("runs") / "plain"
    train(config.replace(eval_parallel=False), path)
    return path


def check_same(path: Path, other: Path) -> None:
    assert lines(path) == lines(other) and order(path) == order(other)
    for agent in ("best", "last"):
        one, two = (read_bundle(p / "agents" / agent, "agent") for p in (path, other))
        assert one.documents["agent"]["step"] == two.documents["agent"]["step"]
        assert one.documents["agent"]["learned"] == two.documents["agent"]["learned"]
        same_bits(one.tensors["weights"], two.tensors["weights"])
    last = "checkpoints/step-000000070"
    one, two = (read_bundle(p / last, "checkpoint") for p in (path, other))
    assert one.tensors.keys() == two.tensors.keys()
    for part, tensors in two.tensors.items():
        same_bits(one.tensors[part], tensors)
    for name in ("learner", "collector", "evaluator", "log", "loop"):
        assert one.documents[name] == two.documents[name]


def test_the_same_run_as_with_evaluations_in_between(
    config: Config, plain: Path, tmp_path: Path
) -> None:
    result = train(config, tmp_path / "run")
    check_same(tmp_path / "run", plain)
    assert Late.begun == 4 and result["final_evaluations"] == 3
    steps = [step for _, step in order(plain)]
    assert steps == sorted(steps)


@pytest.mark.parametrize("parallel", [True, False])
def test_killed_with_an_evaluation_under_way(
    config: Config, plain: Path, tmp_path: Path, parallel: bool
) -> None:
    """The checkpoint at step 44 has the evaluation of step 40, and lines that wait for it."""
    run, left = tmp_path / "run", tmp_path / "left"

    def leave(progress: Any) -> None:
        if progress.step == 45:
            shutil.copytree(run, left)

    train(config, run, callbacks=[leave])
    checkpoint = read_bundle(left / "checkpoints/step-000000044", "checkpoint")
    assert checkpoint.documents["evaluator"]["pending"] == {"step": 40, "updates": 11}
    held = {tuple(line[:2]) for line in checkpoint.documents["log"]["held"]}
    assert held == {("timing", 40), ("train", 40)}
    assert order(left)[-1] == ("train", 35)
    train(config.replace(eval_parallel=parallel), left, "auto")
    check_same(left, plain)


def test_interrupted_it_waits_for_the_evaluation(
    config: Config, plain: Path, tmp_path: Path
) -> None:
    run = Run(config, tmp_path / "run")
    stop = [lambda progress: run.trainer.request_stop() if progress.step == 42 else None]
    assert run.train(stop)["status"] == "interrupted"
    run.close()
    assert run.trainer.step == 42 and ("eval", 40) in order(tmp_path / "run")
    train(config, tmp_path / "run", "auto")
    check_same(tmp_path / "run", plain)


def test_an_evaluation_that_fails_is_played_after_resuming(
    config: Config, plain: Path, tmp_path: Path
) -> None:
    Late.faults = [EnvironmentFault("The evaluation environment broke.")]
    with pytest.raises(EnvironmentFault, match="broke"):
        train(config.replace(eval_every=40), tmp_path / "run")
    events = [ln for ln in lines(tmp_path / "run") if ln["kind"] == "event"]
    assert [(ln["step"], ln["event"]) for ln in events] == [(0, "environment failed")]
    assert ("eval", 0) not in order(tmp_path / "run")
    train(config.replace(eval_every=40), tmp_path / "run", "auto")
    found = [ln for ln in lines(tmp_path / "run") if ln["kind"] in ("eval", "train")]
    kept = [ln for ln in lines(plain) if ln["kind"] == "train" or ln["step"] in (0, 40, 70)]
    assert found == kept


def test_an_environment_made_anew(config: Config, plain: Path, tmp_path: Path) -> None:
    Late.faults = [EnvironmentFault("The evaluation environment broke.")]
    with pytest.warns(UserWarning, match="broke. It is made anew .restart 1 of 1."):
        result = train(config.replace(env_restarts=1), tmp_path / "run")
    found = lines(tmp_path / "run")
    event = next(ln for ln in found if ln["kind"] == "event")
    assert event["step"] == 0 and event["event"] == "environment restarted"
    found.remove(event)
    assert found == lines(plain) and result["env_restarts"] == 1


def test_a_diverged_policy_is_told_at_the_next_evaluation(config: Config, tmp_path: Path) -> None:
    """And not when the process happens to have found it out."""
    Late.faults = [DivergedError("The policy's output is not finite.")]
    with pytest.raises(DivergedError, match="not finite"):
        train(config, tmp_path / "run")
    found = order(tmp_path / "run")
    assert found[-1] == ("event", 20) and ("timing", 15) in found and ("eval", 0) not in found


def test_a_return_that_is_held_ends_it_at_the_same_step(config: Config, tmp_path: Path) -> None:
    ends = {}
    for parallel in (False, True):
        path = tmp_path / str(parallel)
        wanted = config.replace(stop_return=-1e6, eval_parallel=parallel)
        ends[parallel] = train(wanted, path)["steps"], order(path)
    assert ends[True] == ends[False] and ends[True][0] == 60
    assert Late.begun == 3  # at steps 0, 20 and 40; the one at 60 decides


def _learned(tiny: dict[str, Any], parallel: bool, *callbacks: Any) -> RESeL:
    agent = RESeL("toy/Box-v0", **{**tiny, "eval_every": 20}, eval_parallel=parallel)
    return agent.learn(50, callback=callbacks)


@pytest.mark.parametrize(
    ("make", "beside"),
    [
        (lambda path: StopAtReturn(-1e6, evaluations=2), 2),
        (lambda path: StopAtReturn(-1e6, evaluations=1), 0),
        (lambda path: SaveBest(path / "best"), 0),
        (lambda path: lambda progress: None, 0),
        (lambda path: CheckpointEvery(30, path / "all"), 3),
        (lambda path: EvaluateEvery(30, 1), 3),
        (lambda path: SaveBest(path / "best", of=EvaluateEvery(30)), 3),
    ],
)
def test_callbacks_that_look_at_evaluations_have_them_in_time(
    make: Callable[[Path], Any], beside: int, tiny: dict[str, Any], tmp_path: Path
) -> None:
    plain = _learned(tiny, False, make(tmp_path / "plain"))
    agent = _learned(tiny, True, make(tmp_path / "beside"))
    assert agent.num_timesteps == plain.num_timesteps and agent.evaluations == plain.evaluations
    assert Late.begun == beside
    if (tmp_path / "plain/best").exists():
        one, two = (RESeL.load(tmp_path / name / "best") for name in ("plain", "beside"))
        same_bits(one.learner.weights(), two.learner.weights())


def test_a_callback_sees_each_evaluation_after_its_step(tiny: dict[str, Any]) -> None:
    seen = {}

    def look(progress: Any) -> None:
        seen[progress.step] = progress.evaluation_return

    agent = _learned(tiny, True, look)
    assert all(seen[step] == mean for step, mean, _ in agent.evaluations if step)


def test_processor_time_elsewhere_counts() -> None:
    clock = Clock()
    clock.start()
    clock.add_cpu(100.0)
    clock.tick()
    assert clock.cpu_seconds is not None and 100 <= clock.cpu_seconds < 101
