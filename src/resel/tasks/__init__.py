"""Worlds to learn in: Gymnasium environments, and what is known about each before it is made.

Importing this registers our tasks with Gymnasium as `resel/<id>`.
"""

from resel.tasks.masking import KeepIndices, mask
from resel.tasks.own import full_name, short_name, source_digest
from resel.tasks.randomize import RandomizeField
from resel.tasks.registry import (
    all_tasks,
    get_task,
    is_installed,
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
    "full_name",
    "get_task",
    "is_installed",
    "make_env",
    "mask",
    "short_name",
    "source_digest",
]

register_tasks()
