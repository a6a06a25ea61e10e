"""Every method has settings for every task it can act in, and small ones for any."""

from __future__ import annotations

from typing import Any

import pytest

from resel.agent import configure
from resel.data import PerStep
from resel.data.schedules import Moment
from resel.methods import get_method, methods, preset_settings, smallest_size
from resel.tasks import all_tasks

ALL = [method.name for method in methods()[0]]


@pytest.mark.parametrize("method", ALL)
def test_all_tasks_have_settings(method: str) -> None:
    for task in all_tasks():
        config = configure(task.id, method=method)
        assert config.training.steps == task.steps
        for name, value in task.hints.items():
            assert config.flat().get(name, value) == value
        if task.family == "small":
            assert config.training.warmup_steps <= 1000


@pytest.mark.parametrize("method", ALL)
def test_small_settings_for_any_task(method: str) -> None:
    config = configure("Pendulum-v1", method=method, preset="small")
    assert config.training.warmup_steps <= 1000
    assert smallest_size(config) < smallest_size(configure("Pendulum-v1", method=method))
    assert preset_settings(get_method(method), "Pendulum-P-v0", "small")["gamma"] == 0.96


@pytest.mark.parametrize(
    ("method", "task", "expected"),
    [
        ("sac", "Ant-v2", {"batch_transitions": 256, "warmup_steps": 25_000, "alpha_loss": "log"}),
        ("sac-mlp", "AntBLT-P-v0", {"batch_transitions": 64, "warmup_steps": 10_000}),
        ("sac-mlp", "AntBLT-P-v0", {"initialisation": "fan_out", "alpha_loss": "exp"}),
        ("sac-mlp", "Ant-gravity-v0", {"head_width": 128, "last_width": 64, "lr_critic": 1e-3}),
        ("sac-mlp", "Ant-gravity-v0", {"warmup_steps": 4000, "learn_after": 20_000}),
        ("sac-mlp", "Ant-gravity-v0", {"target_entropy_scale": 1.5, "alpha_start": 0.2}),
        ("td3", "Ant-v2", {"policy_delay": 2, "policy_loss": "q1", "warmup_steps": 25_000}),
        ("td3-mlp", "AntBLT-P-v0", {"policy_delay": 1, "policy_loss": "min", "lr_critic": 3e-4}),
        ("tqc", "Hopper-v2", {"dropped_quantiles": 5, "critic_width": 512, "critic_layers": 3}),
        ("tqc", "HalfCheetah-v2", {"dropped_quantiles": 0, "warmup_steps": 0}),
        ("tqc", "Ant-v2", {"dropped_quantiles": 2, "n_critics": 5, "learn_after": 256}),
    ],
)
def test_settings_of_the_sources(method: str, task: str, expected: dict[str, Any]) -> None:
    found = configure(task, method=method).flat()
    assert {name: found[name] for name in expected} == expected


def test_learning_may_wait() -> None:
    schedule = PerStep(1.0, after=10)
    made = [schedule.due(Moment(t - 1, t, 0, 0)) for t in range(1, 15)]
    assert made == [0] * 9 + [1] * 5
