"""One step of a policy as a list of operations on vectors, taken down while torch computes it.

Every number that depends on what a step reads has an address: the operation it comes from, and its
place in that operation's result. Slices, joins and turns move addresses only, so they cost nothing
and need no rule each. What depends on weights alone is a constant.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from resel.errors import ConfigError
from resel.methods import Learner
from resel.networks import Categorical, ContextInputs, Encoder, State

_SPACING = 1 << 40
"""Between the addresses of two operations: more than any result holds."""
_MOVES = {
    *("__get__", "__getitem__", "cat", "chunk", "concat", "expand", "expand_as", "flatten", "flip"),
    *("movedim", "narrow", "permute", "reshape", "roll", "select", "split", "squeeze", "stack"),
    *("split_with_sizes", "t", "transpose", "unbind", "unflatten", "unsqueeze", "view", "view_as"),
}
_KEEPS = {"clone", "contiguous", "detach", "float", "to", "type_as"}
_SHAPE_ONLY = {
    *("empty_like", "full_like", "new_empty", "new_full", "new_ones", "new_zeros", "ones_like"),
    "zeros_like",
}
_ESCAPES = {"__bool__", "__float__", "__int__", "item", "numpy", "tolist"}


class CannotWriteError(ConfigError):
    """A network does something for which there is no C."""


@dataclass(eq=False)
class Operation:
    """Something computed: its name, what it reads, and how many numbers come out."""

    number: int
    name: str
    args: tuple[Any, ...]
    """Numbers, tensors that are constant, and `Read`s."""
    kwargs: dict[str, Any]
    sizes: tuple[int, ...]
    """Of each result; they lie one behind the other."""
    module: nn.Module | None = None
    """What computes it, where it is a whole block."""

    @property
    def size(self) -> int:
        """Numbers that come out."""
        return sum(self.sizes)

    def results(self) -> list[Tensor]:
        """The addresses of each result."""
        first = self.number * _SPACING
        ends = list(itertools.accumulate(self.sizes, initial=first))
        return [torch.arange(*pair) for pair in itertools.pairwise(ends)]

    def reads(self) -> list[Read]:
        """What it reads that is not constant."""
        return [x for x in _leaves((self.args, self.kwargs)) if isinstance(x, Read)]


@dataclass(eq=False)
class Read:
    """Numbers that an operation reads, by address."""

    addresses: Tensor

    @property
    def size(self) -> int:
        """How many."""
        return self.addresses.numel()

    def operations(self) -> set[int]:
        """Numbers of the operations they come from."""
        return set((self.addresses // _SPACING).reshape(-1).tolist())

    def runs(self) -> list[tuple[int, int, int]]:
        """(operation, first place, length) of pieces that lie in one row, in order."""
        flat = self.addresses.reshape(-1)
        if not len(flat):
            return []
        cuts = (flat.diff() != 1).nonzero()[:, 0] + 1
        edges = [0, *cuts.tolist(), len(flat)]
        return [
            (int(flat[a]) // _SPACING, int(flat[a]) % _SPACING, b - a)
            for a, b in itertools.pairwise(edges)
        ]


@dataclass
class Graph:
    """A step: operations in order, and what of them is asked for."""

    operations: list[Operation]
    action: Read
    """Box: the action as it is fed back; Discrete: the log of each action's probability."""
    observation: Read
    """The observation as the networks read it."""
    state: list[Read | Tensor]
    """The memory for the next step, part by part."""

    def needed(self) -> list[Operation]:
        """Those that anything asked for depends on, in order."""
        wanted: set[int] = set()
        asked = [self.action, self.observation, *self.state]
        for read in asked:
            wanted |= read.operations() if isinstance(read, Read) else set()
        for operation in reversed(self.operations):
            if operation.number in wanted:
                for read in operation.reads():
                    wanted |= read.operations()
        return [operation for operation in self.operations if operation.number in wanted]


class _Recorder(TorchFunctionMode):
    """Takes down what torch computes from tensors that were made known."""

    def __init__(self) -> None:
        super().__init__()
        self.operations: list[Operation] = []
        self.resting = False
        self._known: dict[int, tuple[Tensor, Tensor]] = {}  # a tensor, kept alive, and addresses

    def __torch_function__(
        self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        given = [x for x in _leaves((args, kwargs)) if isinstance(x, Tensor)]
        before = _versions(given)
        result = func(*args, **kwargs)
        if not self.resting and any(id(x) in self._known for x in given):
            if _versions(given) != before:
                raise CannotWriteError(
                    f"The network changes numbers in their place ({func.__name__}), which there is "
                    "no C for."
                )
            self._take_down(func, args, kwargs, result)
        return result

    def _take_down(self, func: Any, args: Any, kwargs: Any, result: Any) -> None:
        name = func.__name__
        if name in _ESCAPES:
            raise CannotWriteError(
                "The network looks at its numbers outside of torch, which there is no C for."
            )
        found = [leaf for leaf in _leaves(result) if isinstance(leaf, Tensor)]
        if not found or name in _SHAPE_ONLY or all(id(x) in self._known for x in found):
            return
        if name in _KEEPS:
            self._learn(found[0], self._known[id(args[0])][1])
        elif name in _MOVES:
            with torch.no_grad():
                moved = func(*_map(args, self.addresses), **_map(kwargs, self.addresses))
            for tensor, addresses in zip(found, _leaves(moved), strict=True):
                self._learn(tensor, addresses)
        else:
            self.add(name, _map(args, self.read), _map(kwargs, self.read), found)

    def add(
        self,
        name: str,
        args: Any,
        kwargs: dict[str, Any],
        results: Sequence[Tensor],
        module: nn.Module | None = None,
    ) -> Operation:
        """A further operation with these results, which are known from now on."""
        sizes = tuple(tensor.numel() for tensor in results)
        operation = Operation(len(self.operations), name, tuple(args), kwargs, sizes, module)
        self.operations.append(operation)
        for tensor, part in zip(results, operation.results(), strict=True):
            self._learn(tensor, part.view(tensor.shape).to(tensor.device))
        return operation

    def _learn(self, tensor: Tensor, addresses: Tensor) -> None:
        self._known[id(tensor)] = (tensor, addresses)

    def addresses(self, tensor: Tensor) -> Tensor:
        """Of a tensor's numbers; one that is constant becomes an operation that reads nothing."""
        if id(tensor) in self._known:
            return self._known[id(tensor)][1]
        copy = tensor.detach().clone()  # the tensor itself stays a constant
        self.add("constant", (copy.clone(),), {}, [copy])
        return self._known[id(copy)][1]

    def read(self, tensor: Tensor) -> Read | Tensor:
        """A tensor as an operation reads it."""
        known = self._known.get(id(tensor))
        return tensor if known is None else Read(known[1].cpu())


def _versions(tensors: Sequence[Tensor]) -> list[int]:
    """How often each was written to; what was made in inference mode does not count that."""
    return [0 if x.is_inference() else x._version for x in tensors]


def _leaves(tree: Any) -> list[Any]:
    if isinstance(tree, dict):
        tree = list(tree.values())
    return [x for part in tree for x in _leaves(part)] if isinstance(tree, tuple | list) else [tree]


def _map(tree: Any, change: Callable[[Tensor], Any]) -> Any:
    if isinstance(tree, dict):
        return {key: _map(value, change) for key, value in tree.items()}
    if isinstance(tree, tuple | list):
        return type(tree)(_map(part, change) for part in tree)
    return change(tree) if isinstance(tree, Tensor) else tree


@contextmanager
def _whole(encoder: Encoder, recorder: _Recorder) -> Iterator[None]:
    """Take down the encoder's step as one operation."""
    step = encoder.step

    def taken_down(x: Tensor, state: State) -> tuple[Tensor, State]:
        reads = [recorder.read(part) for part in (x, *state)]
        recorder.resting = True
        y, after = step(x, state)
        recorder.resting = False
        recorder.add("encoder", reads, {}, [y, *after], encoder)
        return y, after

    encoder.step = taken_down  # type: ignore[method-assign]
    try:
        yield
    finally:
        del encoder.step


def trace(learner: Learner, whole: tuple[type[Encoder], ...]) -> Graph:
    """The step of the policy that counts; encoders of the types `whole` are one operation each.

    The first operations are what is read: observation, last observation, last action, last reward
    and the parts of the memory.
    """
    policy, dims, recorder = learner.evaluation_policy, learner.dims, _Recorder()
    modules = [module for network in learner.networks.values() for module in network.modules()]
    encoders = {m for m in (*modules, *policy.modules()) if isinstance(m, whole)}
    with ExitStack() as stack:
        for encoder in encoders:
            stack.enter_context(_whole(encoder, recorder))
        stack.enter_context(torch.no_grad())
        sizes = (dims.observation, dims.observation, dims.action, 1)
        inputs = [torch.zeros(1, size, device=learner.device) for size in sizes]
        state = policy.initial_state(1)
        for tensor in (*inputs, *state):
            recorder.add("input", (), {}, [tensor])
        with recorder:
            seen = ContextInputs(learner.normalizer(inputs[0]), *inputs[1:])
            distribution, after = policy.step(seen, state)
            if isinstance(distribution, Categorical):
                action = distribution.log_probs
            else:
                action = distribution.mode()
    chosen, observation = recorder.read(action), recorder.read(seen.observation)
    assert isinstance(chosen, Read) and isinstance(observation, Read)
    return Graph(recorder.operations, chosen, observation, [recorder.read(part) for part in after])
