"""RMSprop that leaves out a step by itself, as the fused Adam does."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from resel.optim._uncompiled import uncompiled
from resel.optim.groups import ParameterGroup


@uncompiled
class RMSprop(torch.optim.Optimizer):
    """Gradients over the root of their running mean square (Tieleman and Hinton 2012).

    A step is left out while its `found_inf` is 1: nothing moves then, and nobody waits for the
    device to find out.
    """

    found_inf: Tensor | None = None

    def __init__(
        self, groups: Sequence[ParameterGroup], decay: float = 0.99, eps: float = 1e-5
    ) -> None:
        rows = [{"params": [g.block], "lr": g.lr, "name": g.name} for g in groups]
        super().__init__(rows, {"decay": decay, "eps": eps})

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> None:  # type: ignore[override]
        """Descend, unless the step is to be left out."""
        left_out = 0.0 if self.found_inf is None else self.found_inf.double()
        for group in self.param_groups:
            for parameter in group["params"]:
                taken = torch.as_tensor(1.0 - left_out).to(parameter)
                gradient = torch.nan_to_num(parameter.grad, 0.0, 0.0, 0.0)
                state = self.state[parameter]
                if not state:
                    state["square"] = torch.zeros_like(parameter)
                square = state["square"]
                square += taken * (1 - group["decay"]) * (gradient.square() - square)
                parameter -= taken * group["lr"] * gradient / (square.sqrt() + group["eps"])
