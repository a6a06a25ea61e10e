"""Fully connected layers with ELU, initialised as in the released code."""

from __future__ import annotations

from torch import Tensor, nn

from resel.networks.ops.activation import dense_elu


def xavier_linear(inputs: int, outputs: int) -> nn.Linear:
    """A linear layer with Xavier-uniform weights and zero bias."""
    layer = nn.Linear(inputs, outputs)
    nn.init.xavier_uniform_(layer.weight)
    nn.init.zeros_(layer.bias)
    return layer


class DenseELU(nn.Module):
    """elu(W x + b), with Xavier-uniform weights and zero bias."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.linear = xavier_linear(inputs, outputs)

    def forward(self, x: Tensor) -> Tensor:
        return dense_elu(x, self.linear.weight, self.linear.bias)


def hidden_layers(inputs: int, width: int, layers: int) -> nn.Sequential:
    """Fully connected layers, each followed by ELU."""
    return nn.Sequential(*(DenseELU(width if i else inputs, width) for i in range(layers)))


def mlp(inputs: int, width: int, layers: int, outputs: int) -> nn.Sequential:
    """Hidden layers with ELU and a linear output."""
    return nn.Sequential(hidden_layers(inputs, width, layers), xavier_linear(width, outputs))
