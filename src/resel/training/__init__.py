"""The loop: collecting, learning, evaluating, and the run around them."""

from resel.training.acting import Actor, PolicyState
from resel.training.collector import Collector
from resel.training.environment import Env, EnvFactory, Stage
from resel.training.evaluation import Evaluation, evaluate, evaluation_seeds
from resel.training.progress import Callback, ProgressLine, TrainProgress, describe_groups
from resel.training.run import Resume, Run
from resel.training.saving import check_spaces, read_agent, save_agent, spaces_of, use_weights
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
    "read_agent",
    "save_agent",
    "spaces_of",
    "use_weights",
]
