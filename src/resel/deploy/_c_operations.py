"""The operations of a step as statements of C."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from resel.deploy._c_graph import CannotWriteError, Graph, Operation, Read
from resel.deploy._c_text import array, number
from resel.errors import DivergedError

_EACH = {
    "abs": "fabsf({0})",
    "elu": "resel_elu({0})",
    "exp": "expf({0})",
    "gelu": "resel_gelu({0})",
    "log": "logf({0})",
    "neg": "-{0}",
    "relu": "resel_relu({0})",
    "rsqrt": "1.0f / sqrtf({0})",
    "sigmoid": "resel_sigmoid({0})",
    "silu": "resel_silu({0})",
    "softplus": "resel_softplus({0})",
    "sqrt": "sqrtf({0})",
    "square": "{0} * {0}",
    "tanh": "tanhf({0})",
    "add": "{0} + {1}",
    "div": "{0} / {1}",
    "mul": "{0} * {1}",
    "sub": "{0} - {1}",
    "rsub": "{1} - {0}",
    "eq": "({0} == {1}) ? 1.0f : 0.0f",
    "maximum": "({0} > {1}) ? {0} : {1}",
    "minimum": "({0} < {1}) ? {0} : {1}",
    "where": "({0} != 0.0f) ? {1} : {2}",
}
"""What is done to each number, by the number of its operands."""
_OTHER_NAMES = {
    **dict.fromkeys(("__add__", "__radd__", "__iadd__"), "add"),
    **dict.fromkeys(("__mul__", "__rmul__"), "mul"),
    **dict.fromkeys(("__truediv__", "true_divide"), "div"),
    **{"__sub__": "sub", "__rsub__": "rsub", "__neg__": "neg", "__eq__": "eq", "concat": "cat"},
}
_PLAIN = {"alpha": 1, "beta": 1, "threshold": 20, "approximate": "none", "inplace": False}
"""Further arguments, as they must be."""


class Body:
    """Statements and the constant arrays they read, as they come to be written."""

    def __init__(self, graph: Graph, places: dict[int, str], half: bool) -> None:
        self.lines: list[str] = []
        self.arrays: list[str] = []
        self.functions: list[str] = []
        self.matrices: list[Tensor] = []
        """Weights that are stored in 16 bits if that is asked for."""
        self.stack = 0
        """Numbers that are kept while a step is computed."""
        self._half, self._names, self._vectors = half, dict(places), 0
        self._uses: dict[int, int] = {}
        asked = [graph.action, graph.observation, *graph.state]
        reads = [x for operation in graph.needed() for x in operation.reads()]
        for read in [*reads, *(x for x in asked if isinstance(x, Read))]:
            for operation in read.operations():
                self._uses[operation] = self._uses.get(operation, 0) + 1
        self._written: list[tuple[Tensor, str, str]] = []

    def write(self, operation: Operation) -> None:
        """The statements of an operation."""
        name = _OTHER_NAMES.get(operation.name, operation.name)
        if name in _EACH:
            self._each(operation, _EACH[name])
        elif name in _WRITERS:
            _WRITERS[name](self, operation)
        else:
            raise CannotWriteError(f"The network computes {operation.name}, which has no C here.")

    def vector(self, size: int) -> str:
        """A new vector of numbers."""
        self._vectors += 1
        self.stack += size
        self.lines.append(f"float v{self._vectors}[{size}];")
        return f"v{self._vectors}"

    def result(self, operation: Operation, size: int | None = None) -> str:
        """The vector for what an operation gives, or for so many of its first numbers."""
        self.name_result(operation, self.vector(operation.size if size is None else size))
        return self._names[operation.number]

    def name_result(self, operation: Operation, name: str) -> None:
        """An operation's result lies in a vector that is there."""
        self._names[operation.number] = name

    def operand(self, read: Any) -> str:
        """Where numbers that are read lie in one row; they are copied there if they do not yet."""
        if not isinstance(read, Read):
            return self.constant(read)
        runs = read.runs()
        if len(runs) == 1:
            return _at(self._names[runs[0][0]], runs[0][1])
        into, at = self.vector(read.size), 0
        for operation, first, length in runs:
            source = _at(self._names[operation], first)
            self.lines.append(f"memcpy({_at(into, at)}, {source}, {length} * sizeof(float));")
            at += length
        return into

    def apart(self, read: Any) -> str:
        """The same, in no place that a step writes to before it ends."""
        source = self.operand(read)
        if not source.startswith("state->"):
            return source
        into = self.vector(read.size)
        self.lines.append(f"memcpy({into}, {source}, {read.size} * sizeof(float));")
        return into

    def constant(self, values: Tensor) -> str:
        """The name of a constant array of floats."""
        return self._array("float", values, values.detach().float().cpu().numpy())

    def matrix(self, weight: Tensor, turned: Tensor | None = None) -> str:
        """The name of a constant array of weights; `turned` is how they are to lie, if not so."""
        if not any(weight is known for known in self.matrices):
            self.matrices.append(weight)
        stored = (weight if turned is None else turned).detach().float().cpu().numpy()
        return self._array(
            "resel_weight", weight, stored.astype(np.float16) if self._half else stored
        )

    def _array(self, kind: str, key: Tensor, values: Any) -> str:
        for known, of_kind, name in self._written:
            if known is key and of_kind == kind:
                return name
        if not np.isfinite(values).all():
            if np.isfinite(key.detach().cpu().numpy()).all():
                raise CannotWriteError(
                    "A weight is too large for float16: export with weights of float32."
                )
            raise DivergedError(
                "The policy's weights are not finite: its training has diverged. Export an "
                "earlier agent."
            )
        name = f"resel_{'w' if kind == 'resel_weight' else 'c'}{len(self.arrays)}"
        self.arrays.append(array(kind, name, values))
        self._written.append((key, kind, name))
        return name

    def _each(self, operation: Operation, formula: str) -> None:
        count = sum(f"{{{n}}}" in formula for n in range(3))
        for name, value in operation.kwargs.items():
            if _PLAIN.get(name, value) != value:
                raise CannotWriteError(f"{operation.name} with {name}={value} has no C here.")
        shape = torch.broadcast_shapes(*(_shape(x) for x in operation.args[:count]))
        parts = [self._element(x, shape) for x in operation.args[:count]]
        whole = operation.args[0]
        reused = count == 1 and isinstance(whole, Read) and self._may_reuse(whole)
        if reused:
            self.name_result(operation, self._names[whole.runs()[0][0]])
        into = self._names[operation.number] if reused else self.result(operation)
        self.loop(operation.size, f"{into}[i] = {formula.format(*parts)};")

    def _may_reuse(self, read: Read) -> bool:
        """Whether nobody else needs what is read, so that the result may take its place."""
        runs = read.runs()
        operation, first, _ = runs[0]
        return (
            len(runs) == 1
            and first == 0
            and self._uses[operation] == 1
            and self._names[operation].startswith("v")
        )

    def _element(self, x: Any, shape: torch.Size) -> str:
        """Number i of an operand that is spread over a shape."""
        if isinstance(x, int | float):
            return number(x)
        if isinstance(x, Read):
            addresses = x.addresses.expand(shape).reshape(-1)
            if len(addresses) > 1 and bool((addresses == addresses[0]).all()):
                return f"{self.operand(Read(addresses[:1]))}[0]"
            return f"{_bracketed(self.operand(Read(addresses)))}[i]"
        assert isinstance(x, Tensor)
        if x.numel() == 1:
            return number(x.item())
        return f"{self.constant(x if x.shape == shape else x.expand(shape))}[i]"

    def loop(self, size: int, statement: str) -> None:
        """A statement for i from 0 on."""
        self.lines.append(f"for (i = 0; i < {size}; i++) {statement}")


def _at(name: str, first: int) -> str:
    return f"{name} + {first}" if first else name


def _bracketed(name: str) -> str:
    return f"({name})" if "+" in name else name


def _shape(x: Any) -> torch.Size:
    if isinstance(x, Read):
        return x.addresses.shape
    return x.shape if isinstance(x, Tensor) else torch.Size()


def _linear(body: Body, operation: Operation) -> None:
    x, weight, *rest = operation.args
    bias = rest[0] if rest else operation.kwargs.get("bias")
    given = isinstance(x, Read) and isinstance(weight, Tensor) and x.size == weight.shape[1]
    if not given:
        raise CannotWriteError("A linear layer reads several rows at once, which has no C here.")
    source = body.operand(x)
    linear(body, body.result(operation), source, weight, bias)


def linear(body: Body, into: str, source: str, weight: Tensor, bias: Tensor | None) -> None:
    """into = weight source + bias."""
    outputs, inputs = weight.shape
    added = "0" if bias is None else body.constant(bias)
    body.lines.append(
        f"resel_linear({into}, {body.matrix(weight)}, {added}, {source}, {outputs}, {inputs});"
    )


def _clamp(body: Body, operation: Operation) -> None:
    x, *bounds = operation.args
    low = bounds[0] if bounds else operation.kwargs.get("min")
    high = bounds[1] if len(bounds) > 1 else operation.kwargs.get("max")
    most = np.finfo(np.float32).max
    ends = [number(-most if low is None else low), number(most if high is None else high)]
    source, into = _bracketed(body.operand(x)), body.result(operation)
    body.loop(operation.size, f"{into}[i] = resel_clamp({source}[i], {ends[0]}, {ends[1]});")


def _leaky_relu(body: Body, operation: Operation) -> None:
    x, *rest = operation.args
    slope = number(rest[0] if rest else operation.kwargs.get("negative_slope", 0.01))
    source, into = _bracketed(body.operand(x)), body.result(operation)
    body.loop(operation.size, f"{into}[i] = {source}[i] * ({source}[i] > 0.0f ? 1.0f : {slope});")


def _log_softmax(body: Body, operation: Operation) -> None:
    source, into = body.operand(operation.args[0]), body.result(operation)
    body.lines.append(f"resel_log_softmax({into}, {source}, {operation.size});")


def _total(body: Body, operation: Operation) -> None:
    """A sum or a mean over all that is read."""
    x = operation.args[0]
    if operation.size != 1:
        raise CannotWriteError(f"{operation.name} over a part of the numbers has no C here.")
    source, into = _bracketed(body.operand(x)), body.result(operation)
    body.lines.append(f"{into}[0] = 0.0f;")
    body.loop(x.size, f"{into}[0] += {source}[i];")
    if operation.name == "mean":
        body.lines.append(f"{into}[0] /= {number(x.size)};")


def _constant(body: Body, operation: Operation) -> None:
    body.name_result(operation, body.constant(operation.args[0]))


def _gates(
    body: Body, source: str, h: str, inner: tuple[Tensor, Tensor], biases: Sequence[Tensor | None]
) -> tuple[str, str]:
    """The products with the input and with the memory, for the gates of a layer."""
    size = len(inner[0])
    both = [body.vector(size) for _ in inner]
    for into, x, weight, bias in zip(both, (source, h), inner, biases, strict=True):
        linear(body, into, x, weight, bias)
    return both[0], both[1]


def _weights(flat: Sequence[Tensor], layer: int, biased: bool) -> tuple[Any, Any]:
    """Matrices and biases of a layer, from torch's list."""
    own = flat[4 * layer : 4 * layer + 4] if biased else flat[2 * layer : 2 * layer + 2]
    return tuple(own[:2]), own[2:] if biased else (None, None)


def _gru(body: Body, operation: Operation) -> None:
    x, h, flat, biased, layers = operation.args[:5]
    width = operation.sizes[1] // layers
    source, memory, into = body.operand(x), body.operand(h), body.result(operation)
    for layer in range(layers):
        here, out = _at(memory, layer * width), _at(into, (1 + layer) * width)
        of_input, of_memory = _gates(body, source, here, *_weights(flat, layer, biased))
        body.lines.append(f"resel_gru_gates({out}, {of_input}, {of_memory}, {here}, {width});")
        source = out
    body.lines.append(f"memcpy({into}, {source}, {width} * sizeof(float));")


def _lstm(body: Body, operation: Operation) -> None:
    x, (h, c), flat, biased, layers = operation.args[:5]
    width = operation.sizes[1] // layers
    source, memory, cell = body.operand(x), body.operand(h), body.operand(c)
    into = body.result(operation)
    for layer in range(layers):
        here, out = _at(memory, layer * width), _at(into, (1 + layer) * width)
        new = _at(into, (1 + layers + layer) * width)
        of_input, of_memory = _gates(body, source, here, *_weights(flat, layer, biased))
        both = f"{of_input}, {of_memory}, {_at(cell, layer * width)}"
        body.lines.append(f"resel_lstm_gates({out}, {new}, {both}, {width});")
        source = out
    body.lines.append(f"memcpy({into}, {source}, {width} * sizeof(float));")


def _lstm_cell(body: Body, operation: Operation) -> None:
    x, (h, c), w_input, w_memory, *biases = operation.args
    width = operation.sizes[0]
    source, memory, cell = body.operand(x), body.operand(h), body.operand(c)
    into = body.result(operation)
    both = _gates(body, source, memory, (w_input, w_memory), biases or (None, None))
    given = f"{into}, {_at(into, width)}, {both[0]}, {both[1]}, {cell}, {width}"
    body.lines.append(f"resel_lstm_gates({given});")


def _nothing(body: Body, operation: Operation) -> None:
    """What is read has its place already."""


_WRITERS: dict[str, Callable[[Body, Operation], None]] = {
    "clamp": _clamp,
    "constant": _constant,
    "gru": _gru,
    "input": _nothing,
    "leaky_relu": _leaky_relu,
    "linear": _linear,
    "log_softmax": _log_softmax,
    "lstm": _lstm,
    "lstm_cell": _lstm_cell,
    "mean": _total,
    "sum": _total,
}
