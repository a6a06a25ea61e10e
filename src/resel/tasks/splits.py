"""Tasks of one family by number: some to train on, the rest held out for evaluation."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from resel.errors import ConfigError


@dataclass(frozen=True)
class TaskSplit:
    """`total` tasks, the first `train` of them for training, and the part that is played."""

    total: int
    train: int
    part: str = "train"
    """train, test or all."""

    def __post_init__(self) -> None:
        for name, value in (("total", self.total), ("train", self.train)):
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise ConfigError(f"A split with {name}={value!r} tasks cannot work: at least 1.")
        if self.part not in ("train", "test", "all"):
            raise ConfigError(f"split={self.part!r} is not known: use train, test or all.")
        if not self.numbers:
            raise ConfigError(
                f"Of {self.total} tasks {self.train} are for training, "
                f"which leaves none for split={self.part!r}: lower the training tasks."
            )

    @property
    def numbers(self) -> range:
        """The tasks of the part that is played."""
        if self.part == "all":
            return range(self.total)
        if self.part == "train":
            return range(min(self.train, self.total))
        return range(self.train, self.total)

    def draw(
        self, rng: np.random.Generator, seed: int | None, options: Mapping[str, Any] | None
    ) -> int:
        """A random task of the part, or any task that `options["task"]` asks for.

        A seed chooses the one that it is in turn, so that an evaluation, whose seeds follow each
        other, plays every task equally often.
        """
        if options is None or "task" not in options:
            if seed is not None:
                return self.numbers[seed % len(self.numbers)]
            return int(rng.integers(self.numbers.start, self.numbers.stop))
        number = options["task"]
        if isinstance(number, bool) or not isinstance(number, int | np.integer):
            raise ConfigError(f"options['task']={number!r} is not a whole number.")
        if not 0 <= number < self.total:
            raise ConfigError(
                f"There is no task {number}: options['task'] goes from 0 to {self.total - 1}."
            )
        return int(number)


def tell_task(
    number: int, parameters: ArrayLike, low: ArrayLike, high: ArrayLike
) -> dict[str, Any]:
    """The entries of `info` that every randomised task has: its number and what is hidden.

    `hidden` holds the parameters scaled to [0, 1] by their range; one without a range is 0.
    """
    values, least, most = (
        np.atleast_1d(np.asarray(v, np.float64)) for v in (parameters, low, high)
    )
    span = np.where(most > least, most - least, 1.0)
    hidden: NDArray[np.float32] = ((values - least) / span).astype(np.float32)
    return {"task": number, "hidden": hidden}


def check_task_seed(seed: Any) -> None:
    """Refuse what cannot fix the tasks."""
    if isinstance(seed, bool) or not isinstance(seed, Integral) or seed < 0:
        raise ConfigError(f"task_seed={seed!r} must be a whole number of at least 0.")
