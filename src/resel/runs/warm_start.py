"""Warm starts: the weights of another run or agent, as far as they fit."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from torch import Tensor

from resel.config import Config
from resel.errors import ConfigError
from resel.runs.agents import read_agent
from resel.training import Trainer, check_tensors

_TARGET = "target_"
_WHOLE = ("normalizer", "signal_normalizer", "reward_scale")
"""Running scales: their numbers mean something together only."""


@dataclass(frozen=True)
class WarmStart:
    """What was taken over, by the names of tensors."""

    source: str
    taken: tuple[str, ...]
    fresh: tuple[str, ...]
    """What starts anew, because nothing of that name and shape was there."""

    def __str__(self) -> str:
        have, every = (
            Counter(_part(name) for name in names if not name.startswith(_TARGET))
            for names in (self.taken, self.taken + self.fresh)
        )
        parts = ", ".join(f"{part} {have[part]} of {count}" for part, count in every.items())
        new = [name for name in self.fresh if not name.startswith(_TARGET)]
        shown = ", ".join(new[:4]) + (f" and {len(new) - 4} more" if len(new) > 4 else "")
        return f"Weights taken over from {self.source}: {parts} tensors. " + (
            f"New are {shown}." if new else "All of them fit."
        )


def warm_start(trainer: Trainer) -> WarmStart | None:
    """Take over what fits of the agent that the config names; None if it names none.

    Optimisers, random streams and counters stay those of a new run.
    """
    learner, source = trainer.learner, trainer.config.training.init_from
    if source is None:
        return None
    config, bundle = read_agent(source)
    own = learner.weights()
    fitting = _fitting(bundle.tensors.get("weights", {}), own)
    if not any(_is_matrix(t) and _part(name) in learner.networks for name, t in fitting.items()):
        raise ConfigError(
            f"init_from={source} has no weights in common with this agent ({_words(config)} there, "
            f"{_words(learner.config)} here): take the same method, encoder and sizes, or leave it "
            "out. Nothing was changed."
        )
    check_tensors(fitting, {name: own[name] for name in fitting}, f"init_from={source}")
    learner.load_weights({**own, **fitting})
    fresh = tuple(name for name in own if name not in fitting)
    done = WarmStart(source, tuple(fitting), fresh)
    trainer.log.event(trainer.step, {"event": "warm start", "message": str(done)})
    return done


def _fitting(given: Mapping[str, Tensor], own: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """By our names, the tensors that have the shape of ours.

    A target that the other method has not begins as a copy of its network.
    """
    found = {name: given.get(name, given.get(name.removeprefix(_TARGET))) for name in own}
    fitting = {
        name: tensor
        for name, tensor in found.items()
        if tensor is not None and (tensor.shape, tensor.dtype) == (own[name].shape, own[name].dtype)
    }
    for part in _WHOLE:
        names = [name for name in own if _part(name) == part]
        if any(name not in fitting for name in names):
            fitting = {name: t for name, t in fitting.items() if name not in names}
    return fitting


def _is_matrix(tensor: Tensor) -> bool:
    """Biases and single rows fit by chance."""
    return tensor.dim() > 1 and min(tensor.shape[-2:]) > 1


def _part(name: str) -> str:
    return name.partition(".")[0]


def _words(config: Config) -> str:
    settings = config.flat()
    width = settings.get("width", settings.get("head_width"))
    words = (config.method, config.encoder, width and f"width {width}")
    return " ".join(str(word) for word in words if word)
