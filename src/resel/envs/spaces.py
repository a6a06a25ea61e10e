"""Gymnasium spaces as the networks see them: flat float observations, normalised actions."""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from resel.envs._arrays import Choices, brief, describe, floats
from resel.envs.images import ImageShape, image_shape
from resel.errors import BadInputError, UnsupportedSpaceError

MAX_JOINT_ACTIONS = 256
"""A MultiDiscrete action space may have this many combinations, each learned as one action."""

InternalAction = NDArray[np.float32] | int
"""Box: float32 in [-1, 1] of shape (size,). Discrete: an index from 0 to size - 1."""


@dataclass(frozen=True)
class ObservationSpec:
    """How observations of one space become float32 vectors of `size` numbers.

    Boxes are flattened, unscaled; discrete entries become one-hot; Tuple and Dict are joined in
    the order of the space, as `gymnasium.spaces.flatten` does.
    """

    space: spaces.Space[Any]
    size: int
    _vector_shape: tuple[int, ...] | None = field(repr=False, compare=False)
    without: frozenset[str] = frozenset()
    """Entries of a Dict observation that are passed over where they come."""

    @classmethod
    def of(cls, space: spaces.Space[Any], without: Collection[str] = ()) -> ObservationSpec:
        """Refuses spaces that have no fixed number of entries."""
        space = _left_out(space, without)
        _refuse_unsupported(space, "observation")
        size = int(spaces.flatdim(space))
        if size == 0:
            raise UnsupportedSpaceError(f"The observation space {space} holds no numbers at all.")
        vector = isinstance(space, spaces.Box) and len(space.shape) == 1
        return cls(space, size, space.shape if vector else None, frozenset(without))

    def like(self, space: spaces.Space[Any]) -> ObservationSpec:
        """That of another space, with the same entries left out."""
        return self.of(space, self.without)

    def encode(self, obs: Any) -> NDArray[np.float32]:
        """One observation as a new array of shape (size,), checked for shape and finiteness."""
        if self._vector_shape is not None:
            return floats(obs, self._vector_shape, "observation")
        return _encode(self.space, self._seen(obs), "observation")

    def encode_batch(self, obs: Any, rows: int) -> NDArray[np.float32]:
        """`rows` observations as (rows, size): an array, or for Tuple and Dict a list of them."""
        if isinstance(self.space, spaces.Box):
            shape = (rows, *self.space.shape)
            return floats(obs, shape, "batch of observations").reshape(rows, -1)
        if isinstance(self.space, spaces.Discrete | spaces.MultiDiscrete):
            choices = Choices.of(self.space)
            return choices.one_hot(choices.batch_indices(obs, rows, "batch of observations"))
        try:
            found = len(obs)
        except TypeError:
            found = -1
        if found != rows or isinstance(obs, Mapping):
            raise BadInputError(
                f"A batch of {rows} observations of {self.space} is a list of as many "
                f"observations, got {brief(obs)}."
            )
        flat = np.empty((rows, self.size), np.float32)
        for row, one in enumerate(obs):
            flat[row] = _encode(self.space, self._seen(one), f"observation {row} of the batch")
        return flat

    def _seen(self, obs: Any) -> Any:
        if not self.without or not isinstance(obs, Mapping):
            return obs
        return {key: value for key, value in obs.items() if key not in self.without}

    def bounds(self) -> tuple[NDArray[np.float32], NDArray[np.float32]] | None:
        """The lowest and highest encoded observation declared; None if nothing is bounded."""
        flat = spaces.flatten_space(self.space)
        assert isinstance(flat, spaces.Box), "other spaces are refused by `of`"
        if np.isinf(flat.low).all() and np.isinf(flat.high).all():
            return None
        with np.errstate(over="ignore"):  # a bound that float32 does not hold is none
            return flat.low.astype(np.float32), flat.high.astype(np.float32)

    @property
    def image(self) -> ImageShape | None:
        """The image that an observation is; None if it is none."""
        return image_shape(self.space)

    def is_batch(self, obs: Any) -> bool:
        """Whether `obs` looks like several observations rather than one.

        For a Tuple space a tuple is one observation and a list is a batch.
        """
        if isinstance(self.space, spaces.Tuple):
            return isinstance(obs, list)
        if isinstance(self.space, spaces.Dict):
            return isinstance(obs, list | tuple)
        try:
            array = np.asarray(obs)
        except ValueError:  # ragged
            return False
        if isinstance(self.space, spaces.Discrete) and array.dtype.kind not in "iu":
            return False
        shape = tuple(self.space.shape or ())
        return array.ndim == len(shape) + 1 and array.shape[1:] == shape

    def to_json(self) -> dict[str, Any]:
        """Equal for two environments exactly when their encoded observations match up."""
        return describe(self.space)


def _encode(space: spaces.Space[Any], obs: Any, name: str) -> NDArray[np.float32]:
    match space:
        case spaces.Box():
            return floats(obs, space.shape, name).reshape(-1)
        case spaces.Discrete() | spaces.MultiDiscrete():
            choices = Choices.of(space)
            return choices.one_hot(choices.indices(obs, name)[None]).reshape(-1)
        case spaces.MultiBinary():
            bits = floats(obs, space.shape, name).reshape(-1)
            if not np.isin(bits, (0.0, 1.0)).all():
                raise BadInputError(f"The {name} must hold only 0 and 1, got {brief(obs)}.")
            return bits
        case spaces.Tuple():
            if not isinstance(obs, tuple | list) or len(obs) != len(space.spaces):
                raise BadInputError(
                    f"The {name} must be a tuple of {len(space.spaces)} parts, got {brief(obs)}."
                )
            parts = [(f"{name}[{i}]", s, obs[i]) for i, s in enumerate(space.spaces)]
        case spaces.Dict():
            keys = list(space.spaces)
            if not isinstance(obs, Mapping) or set(obs) != set(keys):
                got = f"keys {sorted(map(str, obs))}" if isinstance(obs, Mapping) else brief(obs)
                raise BadInputError(f"The {name} must be a dict with keys {keys}, got {got}.")
            parts = [(f"{name}[{key!r}]", s, obs[key]) for key, s in space.spaces.items()]
        case _:  # refused when the spec was built
            raise UnsupportedSpaceError(f"The {name} belongs to {space}, which is not supported.")
    return np.concatenate([_encode(s, part, where) for where, s, part in parts])


def _left_out(space: spaces.Space[Any], without: Collection[str]) -> spaces.Space[Any]:
    """A Dict space but for these entries; any other as it is."""
    if not isinstance(space, spaces.Dict) or not set(without) & set(space.spaces):
        return space
    left = OrderedDict((key, part) for key, part in space.spaces.items() if key not in without)
    if not left:
        raise UnsupportedSpaceError(
            f"Without {', '.join(without)} nothing is left of the observation space {space}: leave "
            "the policy something to see."
        )
    return spaces.Dict(left)


def _refuse_unsupported(space: spaces.Space[Any], where: str) -> None:
    match space:
        case spaces.Tuple():
            for i, part in enumerate(space.spaces):
                _refuse_unsupported(part, f"{where}[{i}]")
        case spaces.Dict():
            for key, part in space.spaces.items():
                _refuse_unsupported(part, f"{where}[{key!r}]")
        case spaces.Box() | spaces.Discrete() | spaces.MultiDiscrete() | spaces.MultiBinary():
            pass
        case _:
            raise UnsupportedSpaceError(
                f"The {where} space {space} is a {type(space).__name__}, which cannot be learned "
                "on: use Box, Discrete, MultiDiscrete, MultiBinary, or a Tuple or Dict of these, "
                "for example through gymnasium.wrappers.TransformObservation."
            )


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
