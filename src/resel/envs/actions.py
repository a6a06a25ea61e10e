"""Action spaces as the networks see them: [-1, 1] for Box, an index for choices."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from resel.envs._arrays import Choices, brief, describe, floats
from resel.errors import BadInputError, UnsupportedSpaceError

MAX_JOINT_ACTIONS = 256
"""A MultiDiscrete action space may have this many combinations, each learned as one action."""

InternalAction = NDArray[np.float32] | int
"""Box: float32 in [-1, 1] of shape (size,). Discrete: an index from 0 to size - 1."""


@dataclass(frozen=True)
class ActionSpec:
    """How actions of one space map to the networks' own: [-1, 1] for Box, an index otherwise."""

    space: spaces.Space[Any]
    discrete: bool
    size: int
    """Box: numbers per action. Discrete: how many actions there are."""
    _codec: _BoxCodec | _ChoiceCodec = field(repr=False, compare=False)

    @classmethod
    def of(cls, space: spaces.Space[Any]) -> ActionSpec:
        """Takes bounded float Box, Discrete, and MultiDiscrete of few combinations."""
        if isinstance(space, spaces.Box):
            return cls(space, False, math.prod(space.shape), _BoxCodec.of(space))
        if isinstance(space, spaces.Discrete | spaces.MultiDiscrete):
            codec = _ChoiceCodec.of(space)
            return cls(space, True, codec.size, codec)
        raise UnsupportedSpaceError(
            f"The action space {space} is a {type(space).__name__}, which cannot be learned on: "
            "use a bounded Box, Discrete or MultiDiscrete, for example through "
            "gymnasium.wrappers.TransformAction."
        )

    def like(self, space: spaces.Space[Any]) -> ActionSpec:
        """That of another space."""
        return self.of(space)

    @property
    def stored_size(self) -> int:
        """Numbers per action in the replay buffer."""
        return 1 if self.discrete else self.size

    def to_env(self, action: Any) -> Any:
        """What `env.step` wants, in the space's shape, dtype and units, always inside it."""
        return self._codec.to_env(action)

    def from_env(self, action: Any) -> InternalAction:
        """The inverse of `to_env`, up to float32 rounding for a Box."""
        return self._codec.from_env(action)

    def sample(self, rng: np.random.Generator) -> InternalAction:
        """A uniformly random internal action."""
        if self.discrete:
            return int(rng.integers(self.size))
        return rng.uniform(-1.0, 1.0, self.size).astype(np.float32)

    def to_json(self) -> dict[str, Any]:
        """Equal for two environments exactly when the same action means the same in both."""
        return describe(self.space, bounds=True)


@dataclass(frozen=True)
class _BoxCodec:
    """[-1, 1] stretched to the bounds, in float64 so that only the last rounding is lossy."""

    low: NDArray[np.float64]
    high: NDArray[np.float64]
    centre: NDArray[np.float64]
    half: NDArray[np.float64]
    shape: tuple[int, ...]
    dtype: np.dtype[Any]

    @classmethod
    def of(cls, space: spaces.Box) -> _BoxCodec:
        if space.dtype.kind != "f":
            raise UnsupportedSpaceError(
                f"The action space {space} is a Box of {space.dtype}, which is neither continuous "
                "nor a list of choices: declare it as Discrete, MultiDiscrete or a float Box."
            )
        if math.prod(space.shape) == 0:
            raise UnsupportedSpaceError(f"The action space {space} leaves nothing to decide.")
        if not space.is_bounded():
            raise UnsupportedSpaceError(
                f"The action space {space} has no bounds in some direction: declare finite ones, "
                "or wrap the environment in gymnasium.wrappers.TransformAction with a bounded Box."
            )
        low = space.low.astype(np.float64).reshape(-1)
        high = space.high.astype(np.float64).reshape(-1)
        # Halved before they are joined, so that the widest bounds do not overflow.
        return cls(low, high, low / 2 + high / 2, high / 2 - low / 2, space.shape, space.dtype)

    def to_env(self, action: Any) -> NDArray[Any]:
        value = self.centre + self.half * floats(action, self.low.shape, "action")
        # The bounds are exact in the space's dtype, so the cast cannot leave them again.
        value = np.minimum(np.maximum(value, self.low), self.high)
        return value.astype(self.dtype).reshape(self.shape)

    def from_env(self, action: Any) -> NDArray[np.float32]:
        floats(action, self.shape, "action")
        value = np.asarray(action, np.float64).reshape(-1)
        # A degenerate direction, low == high, has one value only: any unit gives it back.
        unit = (value - self.centre) / np.where(self.half > 0, self.half, 1.0)
        if np.abs(unit).max() > 1 + 1e-5:
            raise BadInputError(
                f"The action {brief(action)} lies outside its space: "
                f"low {self.low.tolist()}, high {self.high.tolist()}."
            )
        return np.clip(unit, -1.0, 1.0).astype(np.float32)


@dataclass(frozen=True)
class _ChoiceCodec:
    """Every combination of choices under one index, the last entry counting fastest."""

    choices: Choices
    size: int
    dtype: np.dtype[Any]

    @classmethod
    def of(cls, space: spaces.Discrete[Any] | spaces.MultiDiscrete[Any]) -> _ChoiceCodec:
        choices = Choices.of(space)
        size = math.prod(choices.counts.tolist())
        if isinstance(space, spaces.MultiDiscrete) and size > MAX_JOINT_ACTIONS:
            raise UnsupportedSpaceError(
                f"The action space {space} has {size} combinations, more than the "
                f"{MAX_JOINT_ACTIONS} that can be learned as joint actions: offer fewer choices, "
                "or declare a Box and round inside the environment."
            )
        return cls(choices, size, np.dtype(space.dtype))

    def to_env(self, action: Any) -> Any:
        array = np.asarray(action)
        whole = array.size == 1 and array.dtype.kind in "iuf" and float(array.item()).is_integer()
        if not whole:
            raise BadInputError(
                f"A discrete action is one whole number below {self.size}, got {brief(action)}."
            )
        index = int(array.item())
        if not 0 <= index < self.size:
            raise BadInputError(f"There is no action {index}: expected 0 to {self.size - 1}.")
        entries = np.array(np.unravel_index(index, self.choices.counts.tolist()))  # (entries,)
        value = (entries + self.choices.start).astype(self.dtype)
        return value.reshape(self.choices.shape)[()]  # a scalar for Discrete

    def from_env(self, action: Any) -> int:
        index = self.choices.indices(action, "action")
        return int(np.ravel_multi_index(tuple(index), self.choices.counts.tolist()))
