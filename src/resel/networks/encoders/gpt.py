"""GPT-2's form of the causal Transformer, with sine positions.

Radford et al. 2019, Language Models are Unsupervised Multitask Learners: GELU, dropout, a norm at
the end and first weights of N(0, 0.02), smaller where they lead back to the sum. Ni et al. 2023,
When Do Transformers Shine in RL?, use it with one block and one head.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial

from torch import Tensor, nn
from torch.nn import functional as F

from resel.config import Count, between
from resel.networks.dropout import Dropout
from resel.networks.encoders.registry import EncoderSpec
from resel.networks.encoders.transformer import Block, TransformerEncoder, TransformerSettings

_STD = 0.02


@dataclass(frozen=True)
class GPTSettings(TransformerSettings):
    """Its blocks, and how far it sees."""

    n_layers: Count = 1
    """Blocks on top of each other."""
    n_heads: Count = 1
    """Heads of attention, which share the width."""
    dropout: float = 0.1
    """Share of inputs, attention and outputs of a block's parts that is left out while learning."""

    def __post_init__(self) -> None:
        super().__post_init__()
        between(self, 0.0, 0.9, "dropout")


class GPTEncoder(TransformerEncoder):
    """Positions, blocks, norm."""

    def __init__(self, inputs: int, width: int, settings: GPTSettings) -> None:
        super().__init__(inputs, width, settings)
        self.dropout, self.norm = Dropout(settings.dropout), nn.LayerNorm(width)

    def _block(self, width: int, settings: TransformerSettings) -> Block:
        assert isinstance(settings, GPTSettings)
        gelu = partial(F.gelu, approximate="tanh")
        block = Block(width, settings.n_heads, settings.expansion, 1.0, gelu, settings.dropout)
        back = _STD / math.sqrt(2 * settings.n_layers)
        inner, outer = (block.query_key_value, block.up), (block.attended, block.down)
        for layer in (*inner, *outer):
            nn.init.normal_(layer.weight, std=_STD if layer in inner else back)
            nn.init.zeros_(layer.bias)
        return block

    def initialise_embedding(self, layer: nn.Linear) -> None:
        """Torch's own."""

    def _begin(self, x: Tensor) -> Tensor:
        return self.dropout(x)  # type: ignore[no-any-return]

    def _finish(self, x: Tensor) -> Tensor:
        return self.norm(x)  # type: ignore[no-any-return]


GPT = EncoderSpec(
    "gpt",
    "GPT-2's causal attention to the whole episode or to the newest steps",
    GPTSettings,
    lambda settings, width: GPTEncoder(width, width, settings),
    reach=lambda settings: settings.window,
    longest=lambda settings: settings.longest,
    carries_on=False,
    hidden_units=False,
    build_from=lambda settings, inputs, width: GPTEncoder(inputs, width, settings),
)
