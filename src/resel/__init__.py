"""Recurrent off-policy reinforcement learning with a context-encoder-specific learning rate."""

__version__ = "0.1.0"

from resel.agent import RESeL, configure
from resel.config import Config
from resel.errors import ReselError
from resel.training import PolicyState, TrainProgress

__all__ = ["Config", "PolicyState", "RESeL", "ReselError", "TrainProgress", "configure"]
