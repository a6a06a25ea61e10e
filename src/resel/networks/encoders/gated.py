"""GRU and LSTM blocks; the parameters live in torch's own layers."""

from __future__ import annotations

from torch import Tensor, nn

from resel.networks.encoders.base import Encoder, State
from resel.networks.ops.recurrent import by_trajectory, gru_packed


class GRUEncoder(Encoder):
    """Gated recurrent unit, `blocks` layers deep."""

    def __init__(self, width: int, blocks: int) -> None:
        super().__init__()
        self.layers = nn.GRU(width, width, blocks, batch_first=True)

    def forward(self, x: Tensor, is_first: Tensor) -> Tensor:
        if x.device.type != "cpu":
            return by_trajectory(x, is_first, lambda rows: self.layers(rows)[0])
        for index in range(self.layers.num_layers):
            x = gru_packed(x, is_first, self.layers, index)
        return x

    def step(self, x: Tensor, state: State) -> tuple[Tensor, State]:
        y, hidden = self.layers(x[:, None], state[0].transpose(0, 1).contiguous())
        return y[:, 0], (hidden.transpose(0, 1),)

    def initial_state(self, rows: int) -> State:
        weight = self.layers.weight_hh_l0
        assert isinstance(weight, Tensor)
        return (weight.new_zeros(rows, self.layers.num_layers, self.layers.hidden_size),)


class LSTMEncoder(Encoder):
    """Long short-term memory, `blocks` layers deep."""

    def __init__(self, width: int, blocks: int) -> None:
        super().__init__()
        self.layers = nn.LSTM(width, width, blocks, batch_first=True)

    def forward(self, x: Tensor, is_first: Tensor) -> Tensor:
        return by_trajectory(x, is_first, lambda rows: self.layers(rows)[0])

    def step(self, x: Tensor, state: State) -> tuple[Tensor, State]:
        before = tuple(part.transpose(0, 1).contiguous() for part in state)
        y, after = self.layers(x[:, None], before)
        return y[:, 0], tuple(part.transpose(0, 1) for part in after)

    def initial_state(self, rows: int) -> State:
        weight = self.layers.weight_hh_l0
        assert isinstance(weight, Tensor)
        shape = (rows, self.layers.num_layers, self.layers.hidden_size)
        return (weight.new_zeros(shape), weight.new_zeros(shape))
