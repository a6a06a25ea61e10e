"""Trials: resumed in the middle, evaluated on one task at a time, and asked of any environment."""

from __future__ import annotations

import copy
from functools import partial
from typing import Any

import numpy as np
import pytest
from hidden_goals import HiddenGoals

from resel import Agent
from resel.data import ReplayBuffer
from resel.envs import CheckedEnv, SubprocEnv
from resel.errors import NotAskedError
from resel.methods import Phase
from resel.training import evaluate

COMMON: dict[str, Any] = {
    "head_width": 8,
    "buffer_steps": 2000,
    "warmup_steps": 0,
    "eval_every": 0,
    "checkpoint_every": 0,
    "device": "cpu",
}
METHODS: dict[str, dict[str, Any]] = {
    "pearl": {
        "encoder_width": 8,
        "batch_tasks": 2,
        "batch_transitions": 8,
        "batch_context": 8,
        "learn_after": 20,
        "updates_per_step": 0.25,
    },
    "promp": {"num_envs": 3, "phase_steps": 20},
}


def make(method: str, world: Any = HiddenGoals) -> Agent:
    return Agent(world, method, preset="paper", **COMMON, **METHODS[method])


@pytest.mark.parametrize("steps", [60, 117])
@pytest.mark.parametrize("method", METHODS)
def test_resumed_in_the_middle_of_a_trial(method: str, steps: int, everything: Any) -> None:
    agents = [make(method) for _ in range(2)]
    first, again = (agent._trainer for agent in agents)
    first.train(steps)
    tensors, documents = first.checkpoint()
    held = [block.copy() for piece in first.buffer for block in first.buffer.blocks(piece)]

    def load(index: Any, buffer: ReplayBuffer) -> None:
        blocks = iter(held)
        buffer.restore(buffer.read_index(index), lambda block: np.copyto(block, next(blocks)))

    assert again.restore(copy.deepcopy(tensors), copy.deepcopy(documents), load)
    for trainer in (first, again):
        trainer.train(90)
    assert everything(first) == everything(again)
    for agent in agents:
        agent.close()


@pytest.mark.parametrize("method", METHODS)
def test_an_episode_that_cannot_be_played_again_costs_no_place(method: str) -> None:
    agent = make(method)
    trainer = agent._trainer
    trainer.train(93)
    before = [episode.place for episode in trainer.collector._episodes]
    played = [len(episode.rewards) for episode in trainer.collector._episodes]
    trainer.collector.restart()
    after = [episode.place for episode in trainer.collector._episodes]
    for one, other, steps in zip(before, after, played, strict=True):
        assert one is not None and other is not None
        assert other == one._replace(steps=one.steps + steps)
    trainer.train(60)
    agent.close()


@pytest.mark.parametrize(("method", "phases"), [("pearl", [8, 8]), ("promp", [8, 8, 4])])
def test_an_evaluation_stays_in_the_task_of_its_seed(method: str, phases: list[int]) -> None:
    agent, world = make(method), HiddenGoals(held_out=True)
    env = CheckedEnv(world)
    seen: list[int] = []
    steps: list[None] = []
    result = evaluate(
        agent.actor,
        env,
        [10, 11, 12],
        on_step=lambda: steps.append(None),
        on_episode=lambda episode: seen.append(int(episode.extras["task"][0, 0])),
    )
    episodes = len(phases) + 1
    assert world.played == [4] * episodes + [5] * episodes + [4] * episodes
    assert seen == [4, 5, 4] and len(steps) == 3 * 9  # only those that count are seen
    assert result.adaptation_steps == 3 * sum(phases) and result.lengths == [8, 8, 8]
    again = evaluate(agent.actor, env, [10, 11, 12])
    assert again.returns == result.returns
    assert agent._trainer.step == 0 == len(agent._trainer.buffer)
    agent.close()


def test_what_ends_a_phase() -> None:
    by_steps, by_episodes = Phase(steps=10, longest=4), Phase(episodes=2)
    assert by_steps.cuts(4, 4) and by_steps.cuts(2, 10) and not by_steps.cuts(2, 6)
    assert by_steps.over(0, 10) and not by_steps.over(9, 9)
    assert by_episodes.over(2, 0) and not by_episodes.over(1, 99) and not by_episodes.cuts(99, 99)


class Unasked(HiddenGoals):
    """Does not know of options."""

    def reset(self, *, seed: int | None = None) -> Any:  # type: ignore[override]
        return super().reset(seed=seed)


@pytest.mark.parametrize("in_process", [False, True])
def test_a_task_can_be_asked_for(in_process: bool) -> None:
    if not in_process:
        env: Any = CheckedEnv(HiddenGoals())
    else:
        env = SubprocEnv(HiddenGoals, 60.0).ready()
    for task in (3, 0):
        env.reset(1, task)
        assert env.told["task"].tolist() == [task]
    env.reset(2)
    assert env.told["task"].tolist() == [2]
    env.close()


@pytest.mark.parametrize(
    ("world", "said"),
    [
        (HiddenGoals(obeys=False), "asked for task 3 and told of task 1: let its reset play"),
        (Unasked(), r"cannot be asked for a task: its reset must take options="),
    ],
)
def test_environments_that_cannot_be_asked(world: Any, said: str) -> None:
    with pytest.raises(NotAskedError, match=said) as refused:
        CheckedEnv(world).reset(1, 3)
    assert refused.value.exit_code == 2


class AsItLikes(HiddenGoals):
    """Plays any task, whatever the seed and whatever is asked for."""

    def reset(self, **how: Any) -> Any:
        how.update(seed=None, options={"task": int(CHANCE.integers(2))})
        return super().reset(**how)


class AsSeeded(HiddenGoals):
    """Plays one task for ever, then that of the seed, and never what it is asked for."""

    def __init__(self) -> None:
        super().__init__(obeys=False)


CHANCE = np.random.default_rng(0)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("world", [AsItLikes, AsSeeded, Unasked])
def test_they_are_refused_before_anything_runs(world: Any, method: str) -> None:
    with pytest.raises(NotAskedError, match="asked for") as refused:
        make(method, world)
    assert refused.value.exit_code == 2


def test_one_in_a_process_of_its_own_is_refused_alike() -> None:
    env = SubprocEnv(partial(HiddenGoals, obeys=False), 60.0).ready()
    with pytest.raises(NotAskedError, match="asked for task 3 and told of task 1") as refused:
        env.reset(1, 3)
    assert refused.value.exit_code == 2
    env.close()


class OneTask(HiddenGoals):
    """There is but one to ask for."""

    def reset(self, **how: Any) -> Any:
        return super().reset(**{**how, "options": {"task": 1}})


def test_a_single_task_can_be_asked_for() -> None:
    make("pearl", OneTask).close()


def test_other_methods_ask_for_nothing(make_trainer: Any) -> None:
    trainer = make_trainer()
    trainer.train(40)
    assert trainer.collector.columns == {} and "places" not in trainer.collector.state()[1]
    assert trainer.evaluate(2).adaptation_steps is None
