"""Fully connected layers with ELU, initialised as in the released code."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from torch import Tensor, nn

from resel.networks.folding import Reading, dense_elu_folded
from resel.networks.ops.activation import dense_elu


def xavier_linear(inputs: int, outputs: int) -> nn.Linear:
    """A linear layer with Xavier-uniform weights and zero bias."""
    layer = nn.Linear(inputs, outputs)
    nn.init.xavier_uniform_(layer.weight)
    nn.init.zeros_(layer.bias)
    return layer


class DenseELU(nn.Module):
    """elu(W x + b), with Xavier-uniform weights and zero bias."""

    cpu_kernel: ClassVar[str] = "kernels.bias_elu"
    """The first that it needs there."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.linear = xavier_linear(inputs, outputs)

    def forward(self, x: Tensor) -> Tensor:
        return dense_elu(x, self.linear.weight, self.linear.bias)

    def folded(self, readings: Sequence[Reading]) -> Tensor:
        """Of all these side by side, without making what comes before this layer."""
        return dense_elu_folded(self.linear.weight, self.linear.bias, readings)


class Hidden(nn.Sequential):
    """Fully connected layers, each followed by ELU."""

    def __init__(self, inputs: int, width: int, layers: int) -> None:
        super().__init__(*(DenseELU(width if i else inputs, width) for i in range(layers)))

    def folded(self, readings: Sequence[Reading]) -> Tensor:
        """As `DenseELU.folded`, through all of them."""
        first, *others = self
        assert isinstance(first, DenseELU)
        x = first.folded(readings)
        for layer in others:
            x = layer(x)
        return x


class MLP(nn.Sequential):
    """Hidden layers with ELU and a linear output."""

    def __init__(self, inputs: int, width: int, layers: int, outputs: int) -> None:
        super().__init__(Hidden(inputs, width, layers), xavier_linear(width, outputs))

    def folded(self, readings: Sequence[Reading]) -> Tensor:
        """As `DenseELU.folded`, through all of them."""
        hidden, last = self
        assert isinstance(hidden, Hidden)
        return last(hidden.folded(readings))  # type: ignore[no-any-return]
