"""Callbacks of `learn`: what they see, and the ready ones."""

from __future__ import annotations

import logging
import math
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from resel import (
    CheckpointEvery,
    EvaluateEvery,
    LearnProgress,
    RESeL,
    SaveBest,
    StopAtReturn,
)
from resel.errors import ConfigError
from resel.training import compiling

TASK = "toy/Box-v0"


def weights(agent: RESeL) -> list[torch.Tensor]:
    return [tensor.clone() for tensor in agent.learner.weights().values()]


def same(a: list[torch.Tensor], b: list[torch.Tensor]) -> bool:
    return all(map(torch.equal, a, b))


def test_callbacks_see_the_agent_and_the_last_metrics(tiny: dict[str, Any]) -> None:
    agent = RESeL(TASK, **tiny)
    seen: list[LearnProgress] = []
    agent.learn(60, callback=seen.append)
    assert all(progress.agent is agent for progress in seen)
    assert seen[0].metrics == {} and seen[28].metrics == {}  # no update yet
    assert {"critic_loss", "policy_loss", "episodes"} <= seen[-1].metrics.keys()
    assert seen[-1].metrics["episodes"] > 0


def test_every_callback_is_called_though_one_says_no(tiny: dict[str, Any]) -> None:
    steps: list[int] = []
    agent = RESeL(TASK, **tiny)
    agent.learn(20, callback=[lambda p: p.step < 3, lambda p: steps.append(p.step)])
    assert steps == [1, 2, 3] and agent.num_timesteps == 3
    agent.learn(2, callback=lambda p: 0)  # only False ends it
    assert agent.num_timesteps == 5


def test_evaluating_on_the_way_changes_nothing(tiny: dict[str, Any]) -> None:
    plain, evaluated = (RESeL(TASK, **tiny, num_envs=3) for _ in range(2))
    plain.learn(60)
    evaluate = EvaluateEvery(20, episodes=2)
    evaluated.learn(60, callback=evaluate)
    assert same(weights(plain), weights(evaluated))
    assert [step for step, _, _ in evaluate.history] == [21, 42, 60]
    assert evaluate.history[-1][1:] == evaluated.evaluate(2)


def test_evaluating_in_a_task_with_other_arguments(tiny: dict[str, Any]) -> None:
    evaluate = EvaluateEvery(10, episodes=1, env_kwargs={"length": 9})
    RESeL("TMaze-v0", **tiny, env_kwargs={"length": 4}).learn(10, callback=evaluate)
    assert len(evaluate.history) == 1


def test_the_return_at_which_it_ends(tiny: dict[str, Any]) -> None:
    agent = RESeL(TASK, **{**tiny, "eval_every": 5})
    agent.learn(60, callback=StopAtReturn(-1e9, evaluations=2))
    assert agent.num_timesteps == 10  # step 0 does not count
    agent.learn(20, callback=StopAtReturn(1e9))
    assert agent.num_timesteps == 30
    evaluate = EvaluateEvery(7, episodes=1)
    agent.learn(60, callback=[evaluate, StopAtReturn(-1e9, 1, of=evaluate)])
    assert agent.num_timesteps == 35


def test_the_best_agent_is_kept(tiny: dict[str, Any], tmp_path: Path, monkeypatch: Any) -> None:
    agent, path = RESeL(TASK, **tiny), tmp_path / "best"
    evaluate, returns = EvaluateEvery(10), iter([1.0, 3.0, 2.0, 3.5, 3.0])
    monkeypatch.setattr(agent, "evaluate", lambda *a, **k: (next(returns), 0.0))
    kept: dict[int, list[torch.Tensor]] = {}
    save = SaveBest(path, of=evaluate)
    keep = [evaluate, save, lambda p: kept.update({p.step: weights(p.agent)})]
    agent.learn(35, callback=keep)
    assert same(weights(RESeL.load(path)), kept[20])
    agent.learn(15, callback=keep)
    assert [mean for _, mean, _ in evaluate.history] == [1.0, 3.0, 2.0, 3.5, 3.0]
    assert same(weights(RESeL.load(path)), kept[40]) and not same(kept[40], kept[50])


def test_what_an_earlier_training_found_is_not_replaced(
    tiny: dict[str, Any], tmp_path: Path
) -> None:
    settings = {**tiny, "eval_every": 10}
    agent = RESeL(TASK, **settings).learn(30)
    best = max(mean for _, mean, _ in agent.evaluations[1:])
    agent._trainer.evaluator.history[1] = (10, best + 1e6, 0.0)
    agent.learn(30, callback=SaveBest(tmp_path / "best"))
    assert not (tmp_path / "best").exists()
    agent._trainer.evaluator.history[1] = (10, -1e6, 0.0)
    agent.learn(5, callback=SaveBest(tmp_path / "best"))  # no evaluation is new
    assert not (tmp_path / "best").exists()


def test_agents_saved_on_the_way(tiny: dict[str, Any], tmp_path: Path) -> None:
    agent = RESeL(TASK, **tiny, num_envs=2)
    agent.learn(46, callback=CheckpointEvery(15, tmp_path / "agents"))
    names = sorted(p.name for p in (tmp_path / "agents").iterdir())
    assert names == ["step-000000016", "step-000000030", "step-000000046"]
    assert same(weights(RESeL.load(tmp_path / "agents" / names[-1])), weights(agent))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: EvaluateEvery(0), r"EvaluateEvery\(steps=0\)"),
        (lambda: EvaluateEvery(10, episodes=1.5), r"EvaluateEvery\(episodes=1.5\)"),
        (lambda: CheckpointEvery(True, "x"), r"CheckpointEvery\(steps=True\)"),
        (lambda: StopAtReturn(math.nan), r"StopAtReturn\(nan\)"),
        (lambda: StopAtReturn(0.0, evaluations=0), r"StopAtReturn\(evaluations=0\)"),
    ],
)
def test_callbacks_that_cannot_be(make: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        make()


class Counted(list[Any]):
    """A history that knows how often it was gone through."""

    passes = 0

    def __iter__(self) -> Any:
        self.passes += 1
        return super().__iter__()


def test_a_long_history_is_not_gone_through_at_every_step(
    tiny: dict[str, Any], tmp_path: Path
) -> None:
    agent = RESeL(TASK, **{**tiny, "eval_every": 25})
    history = agent._trainer.evaluator.history = Counted()
    agent.learn(100, callback=[SaveBest(tmp_path / "best"), StopAtReturn(1e9)])
    assert len(history) == 5 and (tmp_path / "best").exists()
    assert history.passes <= 2 * len(history), "once for each evaluation, not for each step"
    assert agent.evaluations == agent.evaluated and agent.evaluations is not agent.evaluated


def test_learn_says_how_long_it_may_take(
    tiny: dict[str, Any], capsys: Any, caplog: pytest.LogCaptureFixture
) -> None:
    quiet, told, logged = (RESeL(TASK, **tiny) for _ in range(3))
    quiet.learn(50)
    assert capsys.readouterr().out == "" and caplog.text == ""
    told.learn(50, progress_bar=True)
    first = capsys.readouterr().out.splitlines()[0]
    assert first.startswith(f"50 steps in {TASK}: about ") and "for 21 updates" in first
    assert told.learner.updates == 21
    with caplog.at_level(logging.INFO, "resel"):
        logged.learn(20)
        logged.learn(30)
    early, late = (record.message for record in caplog.records)
    assert early == f"20 steps in {TASK}: no update before the warm-up of 30 ends."
    assert late.startswith(f"30 steps in {TASK}: about ")
    assert same(weights(quiet), weights(told)) and same(weights(quiet), weights(logged))


def test_learn_compiles_beside_the_warm_up(
    tiny: dict[str, Any],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The first update waits for it, nothing is measured meanwhile, and it is said."""
    monkeypatch.setattr(compiling, "kernels_are_compiled", lambda networks: False)
    monkeypatch.setattr(compiling, "_cores", lambda: 2)
    compiled = tmp_path / "compiled"
    program = f"import time, pathlib; time.sleep(1); pathlib.Path({str(compiled)!r}).touch()"
    monkeypatch.setattr(compiling, "_COMMAND", (sys.executable, "-c", program))
    agent, alone, seen = RESeL(TASK, **tiny), RESeL(TASK, **tiny), []
    with caplog.at_level(logging.INFO, "resel"):
        agent.learn(50, callback=lambda p: seen.append((p.updates > 0, compiled.exists())))
    assert (False, False) in seen and (True, True) in seen and (True, False) not in seen
    first, second = (record.message for record in caplog.records)
    assert first.startswith("Compiling kernels for this machine while the warm-up plays")
    assert second == f"50 steps in {TASK}: 21 updates, and what the environment takes."
    monkeypatch.setattr(compiling, "kernels_are_compiled", lambda networks: True)
    alone.learn(50)
    assert same(weights(agent), weights(alone))


def test_what_an_agent_says_of_itself(tiny: dict[str, Any], toy: Any) -> None:
    agent = RESeL(TASK, **{**tiny, "eval_every": 20})
    assert repr(agent).startswith(f"<RESeL('{TASK}', encoder='gru'): ")
    assert repr(agent).endswith(" parameters on cpu, 0 steps>")
    agent.learn(40)
    assert "40 steps, 11 updates, evaluation " in repr(agent)
    assert repr(agent).endswith(" at step 40>")
    assert repr(RESeL(toy(), **tiny)).startswith("<RESeL(Toy, encoder='gru'): ")
    _, state = agent.predict([[0.0, 0.0, 0.0]] * 2)
    assert repr(state) == "PolicyState(2 row(s), 8 numbers of memory each)"
