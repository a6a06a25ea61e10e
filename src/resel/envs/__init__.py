"""Environments as the loop sees them: spaces, checks, processes of their own, restarts."""

from resel.envs._arrays import brief
from resel.envs._vector_info import row_info
from resel.envs._worker_main import Player
from resel.envs.actions import ActionSpec, InternalAction
from resel.envs.autoreset import AutoresetHelper
from resel.envs.checked import (
    AnyEnv,
    CheckedEnv,
    Env,
    EnvFactory,
    StepResult,
    build,
    check_spaces,
    spaces_of,
    warn_user,
)
from resel.envs.critic_signal import CRITIC, OF_FUNCTION, OF_TASK, CriticSignal
from resel.envs.images import FlatImage, ImageShape
from resel.envs.limits import DEFAULT_EPISODE_CAP, DefaultLimit, own_limit
from resel.envs.recipe import Recipe
from resel.envs.restarts import Restarts
from resel.envs.spaces import Encoded, ObservationSpec, Run
from resel.envs.subproc import SubprocEnv
from resel.envs.told import COLUMNS, Told, in_words
from resel.envs.tracebacks import own_traceback
from resel.envs.vector import AnyVector, VectorRow, is_pool, row_count, vector_rows
from resel.envs.worker import Worker

__all__ = [
    "COLUMNS",
    "CRITIC",
    "DEFAULT_EPISODE_CAP",
    "OF_FUNCTION",
    "OF_TASK",
    "ActionSpec",
    "AnyEnv",
    "AnyVector",
    "AutoresetHelper",
    "CheckedEnv",
    "CriticSignal",
    "DefaultLimit",
    "Encoded",
    "Env",
    "EnvFactory",
    "FlatImage",
    "ImageShape",
    "InternalAction",
    "ObservationSpec",
    "Player",
    "Recipe",
    "Restarts",
    "Run",
    "StepResult",
    "SubprocEnv",
    "Told",
    "VectorRow",
    "Worker",
    "brief",
    "build",
    "check_spaces",
    "in_words",
    "is_pool",
    "own_limit",
    "own_traceback",
    "row_count",
    "row_info",
    "spaces_of",
    "vector_rows",
    "warn_user",
]
