"""Which settings a method brings to a task, under which preset."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from resel.agent import configure
from resel.errors import ConfigError
from resel.methods import Method, default_method, get_method, methods, preset_settings
from resel.tasks import TaskSpec, all_tasks, get_task

every_method = pytest.mark.parametrize("method", methods()[0], ids=lambda method: method.name)


@every_method
def test_settings_are_a_copy(method: Method) -> None:
    preset_settings(method, "TMaze-v0", "paper")["steps"] = 1
    maze = get_task("TMaze-v0")
    assert maze is not None
    assert preset_settings(method, "resel/TMaze-v0", "paper")["steps"] == maze.steps > 1


def test_tasks_of_others_have_none_by_default() -> None:
    assert preset_settings(get_method(default_method()), "Pendulum-v1", "paper") == {}


@pytest.mark.parametrize("task", ["TMaze-v0", "Pendulum-v1"])
def test_a_preset_that_does_not_exist(task: str) -> None:
    with pytest.raises(ConfigError, match=f"'released' is not .* {task!r} .*: choose from paper"):
        configure(task, preset="released")


@every_method
def test_every_task_can_be_configured(method: Method) -> None:
    for task in all_tasks():
        config = configure(task.id, method=method.name)
        assert (config.method, config.task) == (method.name, task.id)
        assert config.training.steps == task.steps


def test_the_methods_settings_go_on_top_of_the_tasks() -> None:
    maze = get_task("TMaze-v0")
    assert maze is not None

    def preset(task: TaskSpec | None, name: str) -> dict[str, Any] | None:
        assert task is maze
        return {"paper": {}, "released": {"gamma": 0.5, "steps": 7}}.get(name)

    method = dataclasses.replace(get_method(default_method()), preset=preset)
    assert preset_settings(method, maze.id, "paper") == maze.settings
    released = preset_settings(method, maze.id, "released")
    assert released == {**maze.settings, "gamma": 0.5, "steps": 7}
    with pytest.raises(ConfigError, match="choose from paper, released"):
        preset_settings(method, maze.id, "other")
