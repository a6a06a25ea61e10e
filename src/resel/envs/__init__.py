"""Environments as the loop sees them: spaces, checks, processes of their own, restarts."""

from resel.envs._arrays import brief
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
from resel.envs.restarts import Restarts
from resel.envs.spaces import Encoded, ObservationSpec, Run
from resel.envs.subproc import SubprocEnv
from resel.envs.told import COLUMNS, Told, in_words
from resel.envs.tracebacks import own_traceback

__all__ = [
    "COLUMNS",
    "CRITIC",
    "DEFAULT_EPISODE_CAP",
    "OF_FUNCTION",
    "OF_TASK",
    "ActionSpec",
    "AnyEnv",
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
    "Restarts",
    "Run",
    "StepResult",
    "SubprocEnv",
    "Told",
    "brief",
    "build",
    "check_spaces",
    "in_words",
    "own_limit",
    "own_traceback",
    "spaces_of",
    "warn_user",
]
