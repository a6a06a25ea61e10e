"""Optimisers that do without torch's compiler.

Torch's own load it, which takes two seconds, to tell it that it is not to look into them.
"""

from __future__ import annotations

import inspect
from typing import TypeVar

import torch

Kind = TypeVar("Kind", bound=type[torch.optim.Optimizer])
_WRAPPED = ("add_param_group", "load_state_dict", "state_dict", "zero_grad")


def uncompiled(kind: Kind) -> Kind:
    """The class of an optimiser, whose methods are torch's without what the compiler is told."""
    for name in _WRAPPED:
        setattr(kind, name, inspect.unwrap(getattr(torch.optim.Optimizer, name)))
    return kind


@uncompiled
class AdamW(torch.optim.AdamW):
    """Torch's."""

    step = torch.no_grad()(inspect.unwrap(torch.optim.AdamW.step))
