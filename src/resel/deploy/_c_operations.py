"""The operations of a step as statements of C."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from resel.deploy._c_body import Body, at, bracketed
from resel.deploy._c_graph import CannotWriteError, Operation, Read
from resel.deploy._c_mamba import write_mamba
from resel.deploy._c_text import number

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
    **dict.fromkeys(("__add__", "__radd__"), "add"),
    **dict.fromkeys(("__mul__", "__rmul__"), "mul"),
    **dict.fromkeys(("__truediv__", "true_divide"), "div"),
    **{"__sub__": "sub", "__rsub__": "rsub", "__neg__": "neg", "__eq__": "eq"},
}
_PLAIN = {"alpha": 1, "beta": 1, "threshold": 20, "approximate": "none", "inplace": False}
"""Further arguments, as they must be."""


def write_operation(body: Body, operation: Operation) -> None:
    """The statements of an operation."""
    name = _OTHER_NAMES.get(operation.name, operation.name)
    if name in _EACH:
        _each(body, operation, _EACH[name])
    elif name in _WRITERS:
        _WRITERS[name](body, operation)
    else:
        raise CannotWriteError(f"The network computes {operation.name}, which has no C here.")


def _each(body: Body, operation: Operation, formula: str) -> None:
    """The same for every number."""
    count = sum(f"{{{n}}}" in formula for n in range(3))
    odd = [name for name, value in operation.kwargs.items() if _PLAIN.get(name) != value]
    if odd or len(operation.args) != count:
        raise CannotWriteError(f"{operation.name} with further arguments has no C here.")
    operands = operation.args
    shape = torch.broadcast_shapes(*map(_shape, operands))  # type: ignore[no-untyped-call]
    parts = [body.element(x, shape) for x in operands]
    whole = operands[0]
    if count == 1 and isinstance(whole, Read) and body.may_reuse(whole):
        into = body.take_over(operation, whole)
    else:
        into = body.result(operation)
    body.loop(operation.size, f"{into}[i] = {formula.format(*parts)};")


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
    body.linear(body.result(operation), source, weight, bias)


def _clamp(body: Body, operation: Operation) -> None:
    x, *bounds = operation.args
    low = bounds[0] if bounds else operation.kwargs.get("min")
    high = bounds[1] if len(bounds) > 1 else operation.kwargs.get("max")
    if any(isinstance(end, Read | Tensor) for end in (low, high)):
        raise CannotWriteError("clamp between other numbers of the network has no C here.")
    most = float(np.finfo(np.float32).max)
    ends = [number(-most if low is None else low), number(most if high is None else high)]
    source, into = bracketed(body.operand(x)), body.result(operation)
    body.loop(operation.size, f"{into}[i] = resel_clamp({source}[i], {ends[0]}, {ends[1]});")


def _leaky_relu(body: Body, operation: Operation) -> None:
    x, *rest = operation.args
    slope = number(rest[0] if rest else operation.kwargs.get("negative_slope", 0.01))
    source, into = bracketed(body.operand(x)), body.result(operation)
    body.loop(operation.size, f"{into}[i] = {source}[i] * ({source}[i] > 0.0f ? 1.0f : {slope});")


def _log_softmax(body: Body, operation: Operation) -> None:
    source, into = body.operand(operation.args[0]), body.result(operation)
    body.lines.append(f"resel_log_softmax({into}, {source}, {operation.size});")


def _total(body: Body, operation: Operation) -> None:
    """A sum or a mean over all that is read."""
    x = operation.args[0]
    if operation.size != 1:
        raise CannotWriteError(f"{operation.name} over a part of the numbers has no C here.")
    source, into = bracketed(body.operand(x)), body.result(operation)
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
        body.linear(into, x, weight, bias)
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
        here, out = at(memory, layer * width), at(into, (1 + layer) * width)
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
        here, out = at(memory, layer * width), at(into, (1 + layer) * width)
        new = at(into, (1 + layers + layer) * width)
        of_input, of_memory = _gates(body, source, here, *_weights(flat, layer, biased))
        both = f"{of_input}, {of_memory}, {at(cell, layer * width)}"
        body.lines.append(f"resel_lstm_gates({out}, {new}, {both}, {width});")
        source = out
    body.lines.append(f"memcpy({into}, {source}, {width} * sizeof(float));")


def _lstm_cell(body: Body, operation: Operation) -> None:
    x, (h, c), w_input, w_memory, *biases = operation.args
    width = operation.sizes[0]
    source, memory, cell = body.operand(x), body.operand(h), body.operand(c)
    into = body.result(operation)
    both = _gates(body, source, memory, (w_input, w_memory), biases or (None, None))
    given = f"{into}, {at(into, width)}, {both[0]}, {both[1]}, {cell}, {width}"
    body.lines.append(f"resel_lstm_gates({given});")


def _nothing(body: Body, operation: Operation) -> None:
    """What is read has its place already."""


_WRITERS: dict[str, Callable[[Body, Operation], None]] = {
    "clamp": _clamp,
    "constant": _constant,
    "encoder": write_mamba,
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
