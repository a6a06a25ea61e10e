"""The face a library user sees."""

from resel.agent._agent import Agent, RESeL
from resel.agent._configure import configure, world_of

__all__ = ["Agent", "RESeL", "configure", "world_of"]
