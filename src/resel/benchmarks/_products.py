"""The matrix products of a piece of work: which they are, and how fast torch does them alone.

Products inside fused operations are invisible to torch's dispatcher. A gated layer with H hidden
units and G gates multiplies (1, H) x (H, G H) at every place forward, and (1, G H) x (G H, H)
backward. They are noted as one product over all places (`recurrent_products`): the arithmetic is
the same, and no loop over time can be faster, while torch's speed at a single place is one that a
fused loop does beat. The gradient of the recurrent weights is one more product over all places,
which the fused GRU leaves to torch and oneDNN's LSTM does itself.
"""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

from resel.benchmarks._timing import Laps, synchronize
from resel.networks import Encoder

_aten = torch.ops.aten
_PRODUCTS: Mapping[Any, int] = {_aten.mm: 0, _aten.bmm: 0, _aten.addmm: 1, _aten.baddbmm: 1}
"""Operation and where its first factor stands among the arguments."""

_LONG_ENOUGH = 5e-4
_GRU_GATES, _LSTM_GATES = 3, 4


@dataclass(frozen=True)
class Product:
    """One matrix product, or a batch of them: sizes and strides of both factors."""

    left: tuple[int, ...]
    left_stride: tuple[int, ...]
    right: tuple[int, ...]
    right_stride: tuple[int, ...]

    @classmethod
    def of(cls, left: Tensor, right: Tensor) -> Product:
        return cls(tuple(left.shape), left.stride(), tuple(right.shape), right.stride())

    @classmethod
    def plain(cls, rows: int, inner: int, columns: int) -> Product:
        """(rows, inner) x (inner, columns), both laid out row by row."""
        return cls((rows, inner), (inner, 1), (inner, columns), (columns, 1))

    @property
    def flops(self) -> int:
        """Multiplications and additions."""
        return 2 * math.prod(self.left) * self.right[-1]

    def caller(self, device: torch.device) -> Callable[[], Tensor]:
        """The product alone, on numbers of its own in the same layout."""
        left = _laid_out(self.left, self.left_stride, device)
        right = _laid_out(self.right, self.right_stride, device)
        multiply = torch.mm if left.dim() == 2 else torch.bmm
        out = torch.empty(*self.left[:-1], self.right[-1], device=device)
        return lambda: multiply(left, right, out=out)


def _laid_out(shape: tuple[int, ...], stride: tuple[int, ...], device: torch.device) -> Tensor:
    extent = 1 + sum((size - 1) * step for size, step in zip(shape, stride, strict=True))
    return torch.randn(extent, device=device).as_strided(shape, stride)


@dataclass
class Recording:
    """Products that were executed, and how often."""

    seen: Counter[Product] = field(default_factory=Counter)
    """By torch's own operations."""
    fused: Counter[Product] = field(default_factory=Counter)
    """Inside fused operations."""

    @property
    def flops(self) -> int:
        """Of all products."""
        return sum(p.flops * n for p, n in self.all().items())

    def all(self) -> Counter[Product]:
        """Seen and fused together."""
        return self.seen + self.fused


@contextmanager
def record_products(encoders: Sequence[Encoder]) -> Iterator[Recording]:
    """Notes every matrix product of the block, with those of the fused GRU in `encoders`."""
    recording = Recording()
    with ExitStack() as stack:
        for encoder in encoders:
            layers = getattr(encoder, "layers", None)
            if isinstance(layers, nn.GRU):
                handle = encoder.register_forward_hook(_gru_hook(recording, layers))
                stack.callback(handle.remove)
        stack.enter_context(_ProductMode(recording))
        yield recording


class _ProductMode(TorchDispatchMode):  # type: ignore[no-untyped-call]
    def __init__(self, recording: Recording) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._recording = recording

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        packet = func.overloadpacket
        if packet in _PRODUCTS:
            first = _PRODUCTS[packet]
            self._recording.seen[Product.of(args[first], args[first + 1])] += 1
        elif packet in (_aten.mkldnn_rnn_layer, _aten.mkldnn_rnn_layer_backward):
            backward = packet is _aten.mkldnn_rnn_layer_backward
            self._recording.fused += _lstm_products(args[0], args[2], backward)
        return func(*args, **(kwargs or {}))


def has_hidden_products(encoders: Sequence[Encoder]) -> bool:
    """Whether a GPU has operations of its own for layers of these, with all their products."""
    return any(isinstance(getattr(encoder, "layers", None), nn.RNNBase) for encoder in encoders)


def recurrent_products(places: int, hidden: int, gates: int, layers: int = 1) -> Counter[Product]:
    """h W at every place of a tape, forward."""
    return Counter({Product.plain(places, hidden, gates * hidden): layers})


def _backward_of(products: Counter[Product]) -> Counter[Product]:
    """The gradient of the left factor, for each."""
    return Counter(
        {Product.plain(p.left[0], p.right[1], p.left[1]): count for p, count in products.items()}
    )


def _gru_hook(recording: Recording, layers: nn.GRU) -> Callable[[nn.Module, Any, Tensor], None]:
    def note(_module: nn.Module, inputs: Any, output: Tensor) -> None:
        _x, start = inputs
        forward = recurrent_products(
            start.numel(), layers.hidden_size, _GRU_GATES, layers.num_layers
        )
        recording.fused += forward

        def note_backward(_gradient: Tensor) -> None:
            recording.fused += _backward_of(forward)

        if output.requires_grad:
            output.register_hook(note_backward)  # type: ignore[no-untyped-call]

    return note


def _lstm_products(x: Tensor, weight: Tensor, backward: bool) -> Counter[Product]:
    """Of one oneDNN layer over x (length, rows, inputs), recurrent weight (4H, H)."""
    length, rows, inputs = x.shape
    hidden = weight.shape[1]
    places = length * rows
    recurrent = recurrent_products(places, hidden, _LSTM_GATES)
    from_input = Counter({Product.plain(places, inputs, _LSTM_GATES * hidden): 1})
    if not backward:
        return recurrent + from_input
    of_weights = Counter({Product.plain(_LSTM_GATES * hidden, places, inputs): 1})
    of_weights[Product.plain(_LSTM_GATES * hidden, places, hidden)] += 1
    return _backward_of(recurrent) + _backward_of(from_input) + of_weights


@dataclass(frozen=True)
class ProductClock:
    """Times each of some products, one after another."""

    recording: Recording
    products: tuple[Product, ...]
    callers: tuple[Callable[[], Tensor], ...]
    counts: tuple[int, ...]
    """Calls per measurement, so that short products are measured over a long enough time."""
    device: torch.device

    @classmethod
    def build(cls, recording: Recording, device: torch.device) -> ProductClock:
        products = tuple(recording.all())
        callers = tuple(product.caller(device) for product in products)
        counts = []
        for call in callers:
            call()
            once = _seconds_of_each(call, 1, device)
            counts.append(math.ceil(_LONG_ENOUGH / once))
        return cls(recording, products, callers, tuple(counts), device)

    def __call__(self) -> Laps:
        """Seconds of each product, by its place in `products`."""
        pairs = zip(self.callers, self.counts, strict=True)
        return {
            f"product {index}": _seconds_of_each(call, count, self.device)
            for index, (call, count) in enumerate(pairs)
        }


def _seconds_of_each(call: Callable[[], object], count: int, device: torch.device) -> float:
    """The mean of so many calls."""
    synchronize(device)
    start = time.perf_counter()
    for _ in range(count):
        call()
    synchronize(device)
    return (time.perf_counter() - start) / count
