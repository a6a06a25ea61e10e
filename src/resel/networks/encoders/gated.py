"""GRU and LSTM of `n_layers` layers; the parameters live in torch's own layers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal, TypeVar

from torch import Tensor, nn

from resel.config import Count, at_least, one_of
from resel.networks.encoders.base import Encoder, State
from resel.networks.encoders.registry import EncoderSpec
from resel.networks.ops.recurrent import by_trajectory, gru_packed

Initialisation = Literal["torch", "xavier", "orthogonal"]


@dataclass(frozen=True)
class GatedSettings:
    """Depth of a gated network."""

    n_layers: Count = 1
    """Layers on top of each other."""
    initialisation: Initialisation = "torch"
    """First weights: torch's own, Xavier-uniform or orthogonal, the last two with zero biases."""

    def __post_init__(self) -> None:
        at_least(self, 1, "n_layers")
        one_of(self, "initialisation", Initialisation)


class GRUEncoder(Encoder):
    """Gated recurrent unit, `n_layers` layers deep."""

    cpu_kernel: ClassVar[str] = "kernels.gru_forward"
    """The first that it needs there."""

    def __init__(self, inputs: int, width: int, n_layers: int) -> None:
        super().__init__()
        self.layers = nn.GRU(inputs, width, n_layers, batch_first=True)

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
    """Long short-term memory, `n_layers` layers deep."""

    def __init__(self, inputs: int, width: int, n_layers: int) -> None:
        super().__init__()
        self.layers = nn.LSTM(inputs, width, n_layers, batch_first=True)

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


_Gated = TypeVar("_Gated", GRUEncoder, LSTMEncoder)


def _initialised(encoder: _Gated, settings: GatedSettings) -> _Gated:
    """The encoder with the first weights that the settings ask for."""
    if settings.initialisation == "torch":
        return encoder
    draw = {"xavier": nn.init.xavier_uniform_, "orthogonal": nn.init.orthogonal_}
    for name, parameter in encoder.layers.named_parameters():
        if name.startswith("bias"):
            nn.init.zeros_(parameter)
        else:
            draw[settings.initialisation](parameter)
    return encoder


def _gru(settings: GatedSettings, inputs: int, width: int) -> GRUEncoder:
    return _initialised(GRUEncoder(inputs, width, settings.n_layers), settings)


def _lstm(settings: GatedSettings, inputs: int, width: int) -> LSTMEncoder:
    return _initialised(LSTMEncoder(inputs, width, settings.n_layers), settings)


GRU = EncoderSpec(
    "gru",
    "gated recurrent unit",
    GatedSettings,
    lambda settings, width: _gru(settings, width, width),
    build_from=_gru,
)
LSTM = EncoderSpec(
    "lstm",
    "long short-term memory",
    GatedSettings,
    lambda settings, width: _lstm(settings, width, width),
    cell_state=True,
    build_from=_lstm,
)
