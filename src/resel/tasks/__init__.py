"""Worlds to learn in: Gymnasium environments, and what is known about each before it is made.

Importing this registers our tasks with Gymnasium as `resel/<id>`.
"""

from resel.tasks.masking import KeepIndices, mask
from resel.tasks.randomize import RandomizeField
from resel.tasks.registry import (
    all_tasks,
    get_task,
    make_env,
    register_tasks,
)
from resel.tasks.spec import Needs, TaskSpec
from resel.tasks.tmaze import TMazeEnv

__all__ = [
    "KeepIndices",
    "Needs",
    "RandomizeField",
    "TMazeEnv",
    "TaskSpec",
    "all_tasks",
    "get_task",
    "make_env",
    "mask",
]

register_tasks()
