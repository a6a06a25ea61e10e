"""MLPs with the activations and first weights of the comparison methods, one or many side by side.

Glossary
    N steps, E heads, I inputs, O outputs
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from resel.networks.ensemble import plain_heads

Activation = Literal["relu", "leaky_relu", "elu", "tanh"]
Initialisation = Literal["torch", "fan_out", "orthogonal", "normc"]
"""torch: its default, uniform in ±1/sqrt(inputs). fan_out: hidden weights uniform in
±1/sqrt(outputs), their biases 0.1, the last layer within ±3e-3 (critic) or ±1e-3 (policy).
orthogonal: hidden weights times sqrt(2), the last layer times what it is given, biases 0. normc:
the weights of every unit are normal numbers of length 1, biases 0."""

POLICY_BOUND, CRITIC_BOUND = 1e-3, 3e-3
"""Of the last layer with `fan_out`."""
ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": F.relu,
    "leaky_relu": F.leaky_relu,
    "elu": F.elu,
    "tanh": torch.tanh,
}
_MODULES = {"relu": nn.ReLU, "leaky_relu": nn.LeakyReLU, "elu": nn.ELU, "tanh": nn.Tanh}
_BIAS = 0.1


@torch.no_grad()
def initialise(weight: Tensor, bias: Tensor, how: Initialisation, last: float | None) -> None:
    """Draw a layer, weight (..., O, I) and bias (..., O); `last` is the bound of a last layer."""
    outputs, inputs = weight.shape[-2:]
    if how == "torch":
        bound = 1 / math.sqrt(inputs)
        weight.uniform_(-bound, bound)
        bias.uniform_(-bound, bound)
    elif how == "orthogonal":
        for matrix in weight.view(-1, outputs, inputs):
            nn.init.orthogonal_(matrix, math.sqrt(2) if last is None else last)
        bias.zero_()
    elif how == "normc":
        weight.normal_()
        weight.div_(weight.norm(dim=-1, keepdim=True))
        bias.zero_()
    elif last is None:
        weight.uniform_(-1 / math.sqrt(outputs), 1 / math.sqrt(outputs))
        bias.fill_(_BIAS)
    else:
        weight.uniform_(-last, last)
        bias.uniform_(-last, last)


def activated_mlp(
    inputs: int,
    widths: Sequence[int],
    outputs: int,
    activation: Activation,
    initialisation: Initialisation,
    last: float,
) -> nn.Sequential:
    """Hidden layers of these widths and a linear output."""
    sizes = [inputs, *widths, outputs]
    layers: list[nn.Module] = []
    for number, (fan_in, fan_out) in enumerate(itertools.pairwise(sizes)):
        layer = nn.Linear(fan_in, fan_out)
        hidden = number < len(widths)
        initialise(layer.weight, layer.bias, initialisation, None if hidden else last)
        layers += [layer, _MODULES[activation]()] if hidden else [layer]
    return nn.Sequential(*layers)


class ActivatedHeads(nn.Module):
    """E such MLPs, drawn independently, on the same input or each on its own."""

    def __init__(
        self,
        heads: int,
        inputs: int,
        widths: Sequence[int],
        outputs: int,
        activation: Activation,
        initialisation: Initialisation,
        last: float,
    ) -> None:
        super().__init__()
        self._activation = ACTIVATIONS[activation]
        self.weights = nn.ParameterList()
        self.biases = nn.ParameterList()
        for number, (fan_in, fan_out) in enumerate(itertools.pairwise([inputs, *widths, outputs])):
            weight, bias = torch.empty(heads, fan_out, fan_in), torch.empty(heads, fan_out)
            initialise(weight, bias, initialisation, None if number < len(widths) else last)
            self.weights.append(weight)
            self.biases.append(bias)

    def forward(
        self, x: Tensor, heads: Tensor | None = None, *, frozen: bool = False
    ) -> Tensor:  # (N, I) or (E, N, I) -> (E, N, O)
        """Values of all heads or of those named; `frozen` keeps gradients off the weights."""
        weights: list[Tensor] = list(self.weights)
        biases: list[Tensor] = list(self.biases)
        if frozen:
            weights = [w.detach() for w in weights]
            biases = [b.detach() for b in biases]
        if heads is not None:
            weights = [w.index_select(0, heads) for w in weights]
            biases = [b.index_select(0, heads) for b in biases]
        return plain_heads(x, weights, biases, self._activation)
