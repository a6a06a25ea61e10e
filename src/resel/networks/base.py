"""What methods may expect of any policy and any critic."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from typing import Any, Generic, Literal, Self, TypeVar

from torch import Tensor, nn

from resel.networks.batch_norm import batch_norms
from resel.networks.distributions import PolicyDistribution
from resel.networks.encoders import State
from resel.networks.inputs import ContextInputs

LrScope = Literal["encoder", "rnn"]
_Held = TypeVar("_Held")


class Shared(Generic[_Held]):
    """What a network reads but does not own: its copies read the same."""

    def __init__(self, held: _Held) -> None:
        self.held = held

    def __deepcopy__(self, memo: object) -> Self:
        return self


class Network(nn.Module, ABC):
    """A policy or a critic; the part with a learning rate of its own is told by the network."""

    def context_parameters(self, scope: LrScope) -> Iterable[Tensor]:
        """The parameters of the context encoder, or of its recurrent layers alone (`rnn`).

        None for a network without one: all its parameters learn at one rate.
        """
        return ()

    @property
    def batch_statistics(self) -> bool:
        """Whether it looks at several steps of a batch together while learning."""
        return bool(batch_norms(self))


class PolicyNetwork(Network):
    """pi(a | history), over a sequence and one step at a time."""

    @abstractmethod
    def forward(self, inputs: ContextInputs, is_first: Tensor) -> PolicyDistribution:
        """Action distributions at every step of (rows, length)."""

    @abstractmethod
    def step(self, inputs: ContextInputs, state: State) -> tuple[PolicyDistribution, State]:
        """The action distribution at one moment, and the state for the next."""

    def initial_state(self, rows: int) -> State:
        """The state at the start of `rows` trajectories; nothing without a memory."""
        return ()

    def context(self, inputs: ContextInputs, is_first: Tensor) -> Tensor | None:
        """What it remembers at every step (rows, length, size); None without a memory."""
        return None

    def suitable_rows(self, lengths: Sequence[int]) -> int:
        """Rows a batch of trajectories should be laid out in."""
        return 1


class CriticNetwork(Network):
    """Q(history, a) of one or more heads."""

    @abstractmethod
    def embed(self, inputs: ContextInputs, is_first: Tensor) -> Any:
        """All that the heads need besides the action."""

    def embed_counted(self, inputs: ContextInputs, is_first: Tensor) -> Any:
        """The same at all steps of a row but the last, which never counts.

        With rows of two steps, single transitions, this saves half of the critic's work.
        """
        return self.embed(ContextInputs(*(x[:, :-1] for x in inputs)), is_first[:, :-1])

    @abstractmethod
    def embed_step(self, inputs: ContextInputs, state: State) -> tuple[Any, State]:
        """The same at one moment, as of a length of 1, and the state for the next."""

    def initial_state(self, rows: int) -> State:
        """The state at the start of `rows` trajectories; nothing without a memory."""
        return ()

    def informed(self, embedded: Any, signal: Tensor) -> Any:
        """What was embedded, together with what policies do not read (rows, length, privileged)."""
        raise NotImplementedError(f"{type(self).__name__} reads nothing beside the history.")

    @abstractmethod
    def values(
        self,
        embedded: Any,
        action: Tensor | None = None,
        heads: Tensor | None = None,
        *,
        frozen: bool = False,
    ) -> Tensor:
        """(E, rows, length) of Box actions, (E, rows, length, actions) for Discrete ones.

        `heads` names those to evaluate; `frozen` keeps gradients off the critic's weights.
        """

    def values_of(self, embedded: Any, action: Tensor) -> Tensor:
        """Q of the actions that were taken, for every head. (E, rows, length)

        They are Box values (rows, length, A), or indices (rows, length).
        """
        if action.is_floating_point():
            return self.values(embedded, action)
        q = self.values(embedded)  # (E, rows, length, A)
        return q.gather(-1, action.expand(q.shape[:-1])[..., None]).squeeze(-1)
