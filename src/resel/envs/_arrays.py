"""Checks at the door: turn what an environment or a caller hands over into clean arrays."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from resel.envs.images import image_shape, is_bytes
from resel.errors import BadInputError


def floats(value: Any, shape: tuple[int, ...], name: str) -> NDArray[np.float32]:
    """A float32 copy of `value`, which must have this shape and be finite throughout."""
    try:
        # Text such as "1.5" would be read as a number below, and a date as its nanoseconds.
        if np.asarray(value).dtype.kind not in "biuf":
            raise TypeError
        # A float64 beyond the range of float32 becomes inf here and is reported below.
        with np.errstate(over="ignore"):
            array = np.array(value, dtype=np.float32)
    except (TypeError, ValueError):
        raise BadInputError(
            f"The {name} is not an array of numbers: got {brief(value)}, "
            f"expected numbers of shape {shape}."
        ) from None
    if array.shape != shape:
        raise BadInputError(f"The {name} has shape {array.shape}, expected {shape}.")
    # A method call less than `.all()`: this runs at every step of every environment.
    if not np.logical_and.reduce(np.isfinite(array), axis=None):
        place = tuple(int(i) for i in np.argwhere(~np.isfinite(array))[0])
        raise BadInputError(
            f"The {name} is not finite: {array[place]} at index {place}"
            f" of shape {shape}. Mend the source of the value; it cannot be learned from."
        )
    return array


def pixels(value: Any, shape: tuple[int, ...], name: str) -> NDArray[np.uint8]:
    """A uint8 copy of `value`, which must have this shape and hold whole numbers up to 255."""
    if isinstance(value, np.ndarray) and value.dtype == np.uint8 and value.shape == shape:
        return value.copy(order="C")  # what most images are
    numbers = floats(value, shape, name)
    wrong = (numbers != np.rint(numbers)) | (numbers < 0) | (numbers > 255)
    if wrong.any():
        place = tuple(int(i) for i in np.argwhere(wrong)[0])
        raise BadInputError(
            f"The {name} holds {numbers[place]:g} at index {place} of shape {shape}, but its space "
            "is of uint8: give whole numbers from 0 to 255, or declare the space as float32."
        )
    return numbers.astype(np.uint8)


@dataclass(frozen=True)
class Choices:
    """Discrete and MultiDiscrete seen alike: entries that each take one of `counts` values."""

    counts: NDArray[np.int64]
    start: NDArray[np.int64]
    shape: tuple[int, ...]

    @classmethod
    def of(cls, space: spaces.Discrete[Any] | spaces.MultiDiscrete[Any]) -> Choices:
        """A Discrete space is one entry of shape ()."""
        counts = space.n if isinstance(space, spaces.Discrete) else space.nvec
        return cls(
            counts=np.asarray(counts, np.int64).reshape(-1),
            start=np.asarray(space.start, np.int64).reshape(-1),
            shape=tuple(space.shape or ()),
        )

    def indices(self, value: Any, name: str) -> NDArray[np.int64]:
        """The entries of one value counted from 0, flat."""
        return self._checked(value, self.shape, name).reshape(-1)  # (entries,)

    def batch_indices(self, value: Any, rows: int, name: str) -> NDArray[np.int64]:
        """The same for `rows` values stacked along the first axis."""
        return self._checked(value, (rows, *self.shape), name)  # (rows, entries)

    def _checked(self, value: Any, shape: tuple[int, ...], name: str) -> NDArray[np.int64]:
        try:
            array = np.asarray(value)
        except ValueError:  # ragged
            array = np.empty(0)
        if array.dtype.kind not in "iu":
            raise BadInputError(
                f"The {name} must hold integers of shape {shape}, got {brief(value)}."
            )
        if array.shape != shape:
            raise BadInputError(f"The {name} has shape {array.shape}, expected {shape}.")
        index = array.astype(np.int64).reshape(-1, len(self.counts)) - self.start
        bad = (index < 0) | (index >= self.counts)
        if bad.any():
            row, entry = (int(i) for i in np.argwhere(bad)[0])
            low = int(self.start[entry])
            raise BadInputError(
                f"The {name} holds {int(index[row, entry]) + low}, "
                f"expected {low} to {low + int(self.counts[entry]) - 1}."
            )
        return index

    def one_hot(self, index: NDArray[np.int64]) -> NDArray[np.float32]:
        """Each entry as a one-hot vector, side by side, as Gymnasium flattens them."""
        offsets = np.cumsum(self.counts) - self.counts
        flat = np.zeros((len(index), int(self.counts.sum())), np.float32)
        np.put_along_axis(flat, index + offsets, 1.0, axis=1)
        return flat  # (rows, sum of counts)


def describe(space: spaces.Space[Any], *, bounds: bool = False) -> dict[str, Any]:
    """Plain JSON data that is equal for two spaces when one agent can serve both.

    `bounds` also tells apart Boxes of different limits, which matter for actions only.
    """
    match space:
        case spaces.Box():
            data: dict[str, Any] = {"type": "Box", "shape": list(space.shape)}
            if is_bytes(space):  # stored and scaled in another way than other numbers
                image = image_shape(space)
                assert image is not None
                data |= {"dtype": "uint8", "scale": image.scale}
            if bounds:
                data |= {"low": space.low.tolist(), "high": space.high.tolist()}
            return data
        case spaces.Discrete():
            return {"type": "Discrete", "n": int(space.n), "start": int(space.start)}
        case spaces.MultiDiscrete():
            nvec, start = space.nvec.tolist(), np.asarray(space.start).tolist()
            return {"type": "MultiDiscrete", "nvec": nvec, "start": start}
        case spaces.MultiBinary():
            return {"type": "MultiBinary", "shape": list(space.shape)}
        case spaces.Tuple():
            return {"type": "Tuple", "spaces": [describe(s, bounds=bounds) for s in space.spaces]}
        case spaces.Dict():
            # Pairs, because the order of the keys is the order of the encoded numbers.
            pairs = [[str(k), describe(s, bounds=bounds)] for k, s in space.spaces.items()]
            return {"type": "Dict", "spaces": pairs}
    raise TypeError(f"{type(space).__name__} has no description.")


def brief(value: Any) -> str:
    """A value in one line of an error message."""
    text = " ".join(repr(value).split())
    return f"{type(value).__name__} {text if len(text) <= 60 else text[:57] + '...'}"
