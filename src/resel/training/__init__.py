"""The loop: collecting, learning, evaluating, and the run around them."""

from resel.training.acting import Actor, PolicyState
from resel.training.collector import Collector
from resel.training.environment import Env, EnvFactory, Stage
from resel.training.evaluation import Evaluation, evaluate, evaluation_seeds
from resel.training.progress import Callback, ProgressLine, TrainProgress, describe_groups
from resel.training.replay_log import ReplayLog
from resel.training.run import Run
from resel.training.saving import check_spaces, read_agent, save_agent, spaces_of, use_weights
from resel.training.starting import Resume, finished_result, saved_config
from resel.training.trainer import Trainer, choose_device

__all__ = [
    "Actor",
    "Callback",
    "Collector",
    "Env",
    "EnvFactory",
    "Evaluation",
    "PolicyState",
    "ProgressLine",
    "ReplayLog",
    "Resume",
    "Run",
    "Stage",
    "TrainProgress",
    "Trainer",
    "check_spaces",
    "choose_device",
    "describe_groups",
    "evaluate",
    "evaluation_seeds",
    "finished_result",
    "read_agent",
    "save_agent",
    "saved_config",
    "spaces_of",
    "use_weights",
]
