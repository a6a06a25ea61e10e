"""A block without memory: what is left when the recurrence is taken away."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor, nn

from resel.config import Count, at_least
from resel.networks.encoders.base import Encoder, State
from resel.networks.encoders.registry import EncoderSpec


@dataclass(frozen=True)
class MLPSettings:
    """Depth of the layers."""

    n_layers: Count = 1
    """Layers on top of each other."""

    def __post_init__(self) -> None:
        at_least(self, 1, "n_layers")


class MLPEncoder(Encoder):
    """Fully connected layers with ELU between them."""

    def __init__(self, width: int, n_layers: int) -> None:
        super().__init__()
        layers: list[nn.Module] = [nn.Linear(width, width)]
        for _ in range(n_layers - 1):
            layers += [nn.ELU(), nn.Linear(width, width)]
        self.layers = nn.Sequential(*layers)

    def forward(self, x: Tensor, is_first: Tensor) -> Tensor:
        return self.layers(x)  # type: ignore[no-any-return]

    def step(self, x: Tensor, state: State) -> tuple[Tensor, State]:
        return self.layers(x), ()

    def initial_state(self, rows: int) -> State:
        return ()


MLP = EncoderSpec(
    "mlp",
    "no memory: sees the last observation and action at most",
    MLPSettings,
    lambda settings, width: MLPEncoder(width, settings.n_layers),
    memory=False,
    reach=lambda settings: 1,
)
