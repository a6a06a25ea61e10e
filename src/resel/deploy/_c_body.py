"""What a function of C is put together from: statements, vectors, and constant arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from resel.deploy._c_graph import CannotWriteError, Graph, Operation, Read
from resel.deploy._c_text import array, number
from resel.errors import DivergedError


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

    def take_over(self, operation: Operation, read: Read) -> str:
        """The vector for what an operation gives: that of what it reads."""
        self.name_result(operation, self._names[read.runs()[0][0]])
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
            return at(self._names[runs[0][0]], runs[0][1])
        into, done = self.vector(read.size), 0
        for operation, first, length in runs:
            source = at(self._names[operation], first)
            self.lines.append(f"memcpy({at(into, done)}, {source}, {length} * sizeof(float));")
            done += length
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
        with np.errstate(over="ignore"):  # infinity, which is refused
            rounded = stored.astype(np.float16) if self._half else stored
        return self._array("resel_weight", weight, rounded)

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

    def may_reuse(self, read: Read) -> bool:
        """Whether nobody else needs what is read, so that the result may take its place."""
        runs = read.runs()
        operation, first, _ = runs[0]
        return (
            len(runs) == 1
            and first == 0
            and self._uses[operation] == 1
            and self._names[operation].startswith("v")
        )

    def element(self, x: Any, shape: torch.Size) -> str:
        """Number i of an operand that is spread over a shape."""
        if isinstance(x, int | float):
            return number(x)
        if isinstance(x, Read):
            addresses = x.addresses.expand(shape).reshape(-1)
            if len(addresses) > 1 and bool((addresses == addresses[0]).all()):
                return f"{bracketed(self.operand(Read(addresses[:1])))}[0]"
            return f"{bracketed(self.operand(Read(addresses)))}[i]"
        assert isinstance(x, Tensor)
        if x.numel() == 1:
            return number(x.item())
        return f"{self.constant(x if x.shape == shape else x.expand(shape))}[i]"

    def linear(self, into: str, source: str, weight: Tensor, bias: Tensor | None) -> None:
        """into = weight source + bias."""
        outputs, inputs = weight.shape
        given = f"{self.matrix(weight)}, {'0' if bias is None else self.constant(bias)}"
        self.lines.append(f"resel_linear({into}, {given}, {source}, {outputs}, {inputs});")

    def loop(self, size: int, statement: str) -> None:
        """A statement for i from 0 on."""
        self.lines.append(f"for (i = 0; i < {size}; i++) {statement}")


def at(name: str, first: int) -> str:
    """A vector from one of its places on."""
    return f"{name} + {first}" if first else name


def bracketed(name: str) -> str:
    """A vector as something may follow it."""
    return f"({name})" if "+" in name else name
