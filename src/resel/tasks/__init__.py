"""Worlds to learn in: Gymnasium environments, and what is known about each before it is made.

Importing this registers our tasks with Gymnasium as `resel/<id>`.
"""

from resel.tasks.envpool import PoolEnv, is_pool_task
from resel.tasks.masking import KeepIndices, mask
from resel.tasks.own import full_name, short_name, source_digest
from resel.tasks.randomize import RandomizeField
from resel.tasks.registry import (
    all_tasks,
    declared_horizon,
    get_task,
    is_installed,
    make_env,
    register_tasks,
)
from resel.tasks.spec import Needs, TaskSpec, usual_gamma
from resel.tasks.tmaze import TMazeEnv
from resel.tasks.vectors import make_vector

__all__ = [
    "KeepIndices",
    "Needs",
    "PoolEnv",
    "RandomizeField",
    "TMazeEnv",
    "TaskSpec",
    "all_tasks",
    "declared_horizon",
    "full_name",
    "get_task",
    "is_installed",
    "is_pool_task",
    "make_env",
    "make_vector",
    "mask",
    "short_name",
    "source_digest",
    "usual_gamma",
]

register_tasks()
