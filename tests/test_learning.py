"""It learns: a reduced T-maze that only a memory can solve."""

import runpy
from pathlib import Path

import pytest
import torch
from gymnasium.vector import AutoresetMode, SyncVectorEnv

from resel import RESeL
from resel.envs import AnyVector
from resel.tasks.tmaze import TMazeEnv

_SMALL = {
    "width": 16,
    "embedding": 8,
    "head_width": 16,
    "n_critics": 4,
    "lr_context_encoder": 3e-3,
    "lr_policy": 5e-3,
    "lr_critic": 5e-3,
    "lr_alpha": 1e-2,
    "target_entropy_scale": 0.3,
    "batch_steps": 120,
    "warmup_steps": 300,
    "buffer_steps": 20_000,
    "eval_every": 0,
    "policy_delay": 1,
}
_EPISODES = 40
_EXAMPLE = runpy.run_path(
    str(Path(__file__).parents[1] / "examples" / "any_environment.py"), run_name="example"
)


def _right_turns(encoder: str, envs: AnyVector | None = None) -> float:
    """Share of episodes in which the trained agent turns the way it was shown three steps ago."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    own = {"state_size": 4} if encoder == "mamba" else {}
    try:
        world = lambda: TMazeEnv(length=3)  # noqa: E731
        agent = RESeL(envs or world, encoder=encoder, preset="paper", seed=1, **_SMALL, **own)
        agent.learn(2000, eval_env=world)
        mean, _ = agent.evaluate(_EPISODES)
    finally:
        torch.set_num_threads(before)
    return mean  # 1 for each right turn, 0 for a wrong one, less for not getting there


@pytest.mark.parametrize("encoder", [pytest.param("gru", marks=pytest.mark.slow), "mamba"])
def test_a_recurrent_agent_learns_to_remember(encoder: str) -> None:
    assert _right_turns(encoder) > 0.9


@pytest.mark.slow
@pytest.mark.parametrize("mode", AutoresetMode)
def test_it_learns_in_a_vector(mode: AutoresetMode) -> None:
    mazes = [lambda length=length: TMazeEnv(length=length) for length in (2, 3, 3, 4)]
    assert _right_turns("gru", SyncVectorEnv(mazes, autoreset_mode=mode)) > 0.9


def test_an_agent_without_memory_cannot_know_which_way_to_turn() -> None:
    assert _right_turns("mlp") < 0.75


@pytest.mark.slow
@pytest.mark.parametrize(
    ("task", "encoder", "steps", "threshold"),
    [
        ("Pendulum-V-v0", "mamba", 15_000, -300.0),
        ("TMaze-v0", "gru", 20_000, 0.95),
        ("TMaze-v0", "mamba", 20_000, 0.95),
        ("popgym-RepeatPreviousEasy-v0", "mamba", 15_000, 0.95),
    ],
)
def test_it_learns_the_task_with_its_preset(
    task: str, encoder: str, steps: int, threshold: float
) -> None:
    agent = RESeL(task, encoder=encoder, seed=101, device="cpu", stop_return=threshold)
    agent.learn(steps)
    assert agent.evaluate(20)[0] >= threshold
    agent.close()


@pytest.mark.slow
def test_it_learns_in_an_environment_that_nobody_made_settings_for() -> None:
    agent = RESeL(_EXAMPLE["make_env"], seed=101, device="cpu", steps=20_000, stop_return=-120.0)
    agent.learn(20_000)
    assert agent.evaluate(20)[0] >= -150
    agent.close()
