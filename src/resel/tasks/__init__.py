"""Worlds to learn in: Gymnasium environments, their spaces, and the settings each is trained with.

Importing this registers our tasks with Gymnasium as `resel/<id>`.
"""

from resel.tasks.limits import DEFAULT_EPISODE_CAP, own_limit
from resel.tasks.masking import KeepIndices, mask
from resel.tasks.randomize import RandomizeField
from resel.tasks.registry import (
    all_tasks,
    get_task,
    make_env,
    register_tasks,
    task_settings,
)
from resel.tasks.spaces import ActionSpec, InternalAction, ObservationSpec
from resel.tasks.spec import Needs, TaskSpec
from resel.tasks.tmaze import TMazeEnv

__all__ = [
    "DEFAULT_EPISODE_CAP",
    "ActionSpec",
    "InternalAction",
    "KeepIndices",
    "Needs",
    "ObservationSpec",
    "RandomizeField",
    "TMazeEnv",
    "TaskSpec",
    "all_tasks",
    "get_task",
    "make_env",
    "mask",
    "own_limit",
    "task_settings",
]

register_tasks()
