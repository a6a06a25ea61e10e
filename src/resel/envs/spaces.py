"""Observation spaces as the networks see them: flat vectors."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any, NamedTuple

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from resel.envs._arrays import Choices, brief, describe, floats, pixels
from resel.envs.images import ImageShape, image_shape, is_bytes
from resel.errors import BadInputError, UnsupportedSpaceError

_REMEDIES = {
    "MissionSpace": (
        "wrap MiniGrid's environments in minigrid.wrappers.ImgObsWrapper, which leaves the text "
        "out. The command does that for the tasks that `resel tasks` lists, and for all others by "
        "resel train resel.tasks.minigrid:grid_env --env-kwargs world=ID."
    )
}
"""What to do about spaces of other packages."""

Encoded = NDArray[Any]
"""An observation as it is stored, (stored_size,): float32, or uint8 where it holds uint8 images."""


class Run(NamedTuple):
    """Numbers of an observation that are stored alike, one after another."""

    size: int
    whole: bool
    """Whether a number is a byte; else it is the four bytes of a float32."""

    @property
    def bytes(self) -> int:
        """What they take."""
        return self.size if self.whole else 4 * self.size


@dataclass(frozen=True)
class ObservationSpec:
    """How observations of one space become vectors of `size` numbers.

    Boxes are flattened, unscaled; discrete entries become one-hot; Tuple and Dict are joined in
    the order of the space, as `gymnasium.spaces.flatten` does. They are stored as float32. Where
    there are images of uint8 they are stored as bytes, those of the other numbers between those of
    the images, and `numbers` gives them back.
    """

    space: spaces.Space[Any]
    size: int
    images: tuple[ImageShape, ...]
    """Those that an observation is or holds."""
    runs: tuple[Run, ...]
    """How it is stored as bytes; nothing where it is stored as float32."""
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
        parts = list(_parts(space))
        kinds = groupby(parts, key=is_bytes)
        runs = tuple(Run(sum(map(_size, some)), whole) for whole, some in kinds)
        images, begin = [], 0
        for part in parts:
            if (image := image_shape(part)) is not None:
                images.append(image._replace(begin=begin))
            begin += _size(part)
        return cls(
            space,
            size,
            tuple(images),
            runs if any(run.whole for run in runs) else (),
            space.shape if vector else None,
            frozenset(without),
        )

    def like(self, space: spaces.Space[Any]) -> ObservationSpec:
        """That of another space, with the same entries left out."""
        return self.of(space, self.without)

    @property
    def dtype(self) -> np.dtype[Any]:
        """Of what is stored."""
        return np.dtype(np.uint8 if self.runs else np.float32)

    @property
    def stored_size(self) -> int:
        """Entries of an observation as it is stored."""
        return sum(run.bytes for run in self.runs) or self.size

    def encode(self, obs: Any) -> Encoded:
        """One observation as a new array of shape (stored_size,), checked for shape and
        finiteness."""
        if self._vector_shape is not None:
            return floats(obs, self._vector_shape, "observation")
        return self._joined(obs, "observation")

    def encode_batch(self, obs: Any, rows: int) -> Encoded:
        """`rows` observations as (rows, stored_size): an array, or for Tuple and Dict a list."""
        if isinstance(self.space, spaces.Box):
            shape = (rows, *self.space.shape)
            read = pixels if self.runs else floats
            return read(obs, shape, "batch of observations").reshape(rows, -1)
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
        flat = np.empty((rows, self.stored_size), self.dtype)
        for row, one in enumerate(obs):
            flat[row] = self._joined(one, f"observation {row} of the batch")
        return flat

    def _joined(self, obs: Any, name: str) -> Encoded:
        parts = list(_encode(self.space, self._seen(obs), name))
        if self.runs:
            parts = [part.view(np.uint8) for part in parts]
        return np.concatenate(parts) if len(parts) > 1 else parts[0]

    def numbers(self, stored: Encoded) -> NDArray[np.float32]:
        """What is stored, (..., stored_size), as the numbers it stands for, (..., size)."""
        if not self.runs:
            return stored
        ends = np.cumsum([run.bytes for run in self.runs])
        parts = np.split(stored, ends[:-1], axis=-1)
        return np.concatenate(
            [
                part.astype(np.float32)
                if run.whole
                else np.ascontiguousarray(part).view(np.float32)
                for part, run in zip(parts, self.runs, strict=True)
            ],
            axis=-1,
        )

    def _seen(self, obs: Any) -> Any:
        if not self.without or not isinstance(obs, Mapping):
            return obs
        return {key: value for key, value in obs.items() if key not in self.without}

    def bounds(self) -> tuple[NDArray[np.float32], NDArray[np.float32]] | None:
        """The lowest and highest numbers declared; None if nothing is bounded."""
        flat = spaces.flatten_space(self.space)
        assert isinstance(flat, spaces.Box), "other spaces are refused by `of`"
        if np.isinf(flat.low).all() and np.isinf(flat.high).all():
            return None
        with np.errstate(over="ignore"):  # a bound that float32 does not hold is none
            return flat.low.astype(np.float32), flat.high.astype(np.float32)

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


def _parts(space: spaces.Space[Any]) -> Iterator[spaces.Space[Any]]:
    """The space, or what a Tuple or Dict holds, in the order of encoded numbers."""
    match space:
        case spaces.Tuple():
            for part in space.spaces:
                yield from _parts(part)
        case spaces.Dict():
            for part in space.spaces.values():
                yield from _parts(part)
        case _:
            yield space


def _size(space: spaces.Space[Any]) -> int:
    return int(spaces.flatdim(space))


def _encode(space: spaces.Space[Any], obs: Any, name: str) -> Iterator[NDArray[Any]]:
    """Every part as a flat array of its own."""
    match space:
        case spaces.Box():
            read = pixels if is_bytes(space) else floats
            yield read(obs, space.shape, name).reshape(-1)
        case spaces.Discrete() | spaces.MultiDiscrete():
            choices = Choices.of(space)
            yield choices.one_hot(choices.indices(obs, name)[None]).reshape(-1)
        case spaces.MultiBinary():
            bits = floats(obs, space.shape, name).reshape(-1)
            if not np.isin(bits, (0.0, 1.0)).all():
                raise BadInputError(f"The {name} must hold only 0 and 1, got {brief(obs)}.")
            yield bits
        case spaces.Tuple():
            if not isinstance(obs, tuple | list) or len(obs) != len(space.spaces):
                raise BadInputError(
                    f"The {name} must be a tuple of {len(space.spaces)} parts, got {brief(obs)}."
                )
            for i, part in enumerate(space.spaces):
                yield from _encode(part, obs[i], f"{name}[{i}]")
        case spaces.Dict():
            keys = list(space.spaces)
            if not isinstance(obs, Mapping) or set(obs) != set(keys):
                got = f"keys {sorted(map(str, obs))}" if isinstance(obs, Mapping) else brief(obs)
                raise BadInputError(f"The {name} must be a dict with keys {keys}, got {got}.")
            for key, part in space.spaces.items():
                yield from _encode(part, obs[key], f"{name}[{key!r}]")
        case _:  # refused when the spec was built
            raise UnsupportedSpaceError(f"The {name} belongs to {space}, which is not supported.")


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
            kind = type(space).__name__
            remedy = _REMEDIES.get(kind) or (
                "use Box, Discrete, MultiDiscrete, MultiBinary, or a Tuple or Dict of these, "
                "for example through gymnasium.wrappers.TransformObservation."
            )
            raise UnsupportedSpaceError(
                f"The {where} space {space} is a {kind}, which cannot be learned on: {remedy}"
            )
