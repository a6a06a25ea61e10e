"""A block without memory: what is left when the recurrence is taken away."""

from __future__ import annotations

from torch import Tensor, nn

from resel.networks.encoders.base import Encoder, State


class MLPEncoder(Encoder):
    """Fully connected layers with ELU between them."""

    def __init__(self, width: int, blocks: int) -> None:
        super().__init__()
        layers: list[nn.Module] = [nn.Linear(width, width)]
        for _ in range(blocks - 1):
            layers += [nn.ELU(), nn.Linear(width, width)]
        self.layers = nn.Sequential(*layers)

    def forward(self, x: Tensor, is_first: Tensor) -> Tensor:
        return self.layers(x)  # type: ignore[no-any-return]

    def step(self, x: Tensor, state: State) -> tuple[Tensor, State]:
        return self.layers(x), ()

    def initial_state(self, rows: int) -> State:
        return ()
