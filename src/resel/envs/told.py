"""What an environment tells when it is reset, beside the first observation: columns of numbers.

No policy sees them. Methods that learn from a task's number or its hidden parameters find them in
the batch, beside the steps of the episode.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from resel.envs._arrays import brief
from resel.errors import EnvironmentFault, NotAskedError

Told = Mapping[str, NDArray[np.float32]]
"""Columns by name, (size,) each."""


class Column(NamedTuple):
    """An entry of `info` that is kept."""

    meaning: str
    is_number: bool
    """One whole number from 0 on, as tasks are counted; otherwise any array of finite numbers."""


COLUMNS: Mapping[str, Column] = {
    "task": Column("the number of the task, a whole one from 0 on", is_number=True),
    "hidden": Column("the parameters the agent cannot see, as finite numbers", is_number=False),
}
"""What is looked for in the `info` of a reset; an environment may tell any of it or nothing."""

_LARGEST_EXACT = 2**24
"""From here on float32 no longer tells all whole numbers apart."""


def read_told(info: Any, called: str, where: str) -> dict[str, NDArray[np.float32]]:
    """The columns an `info` holds, as flat copies."""
    if not isinstance(info, Mapping):
        return {}
    return {
        name: _column(info[name], name, f"{called}: info[{name!r}] at {where}")
        for name in COLUMNS
        if name in info
    }


def check_alike(sizes: Mapping[str, int], expected: Mapping[str, int], called: str) -> None:
    """Refuse a reset that tells other columns than the first did."""
    if sizes != expected:
        raise EnvironmentFault(
            f"{called} told {in_words(sizes)} at this reset, but {in_words(expected)} at the "
            "first: tell the same entries of the same size at every reset, or none of them."
        )


def check_task(told: Told, asked: int, called: str) -> None:
    """Refuse a reset that plays another task than it was asked for."""
    if "task" not in told or int(told["task"][0]) != asked:
        played = f"task {int(told['task'][0])}" if "task" in told else "no task"
        raise NotAskedError(
            f"{called} was asked for task {asked} and told of {played}: let its reset play the "
            "task that options['task'] says, and tell it as info['task']."
        )


def in_words(sizes: Mapping[str, int]) -> str:
    """Columns by name and size, for messages."""
    return ", ".join(f"{name} ({size})" for name, size in sizes.items()) or "nothing"


def _column(value: Any, name: str, subject: str) -> NDArray[np.float32]:
    column = COLUMNS[name]
    advice = f"tell {column.meaning}, or give the entry another name"
    flat = finite_numbers(value, subject, advice)
    if column.is_number:
        counts = flat.size == 1 and flat[0] >= 0 and flat[0] == np.floor(flat[0])
        if not counts or np.asarray(value).reshape(-1)[0] > _LARGEST_EXACT:
            raise EnvironmentFault(
                f"{subject} is {brief(value)}, no number from 0 to {_LARGEST_EXACT}: {advice}."
            )
    return flat


def finite_numbers(value: Any, subject: str, advice: str) -> NDArray[np.float32]:
    """A flat float32 copy of what an environment gave, refused unless it is finite numbers."""
    try:
        array = np.asarray(value)
    except ValueError:  # ragged
        array = np.empty(0, object)
    if array.dtype.kind not in "biuf" or not array.size:
        raise EnvironmentFault(f"{subject} is {brief(value)}, no numbers: {advice}.")
    with np.errstate(over="ignore"):  # what float32 cannot hold becomes inf and is refused
        flat = array.astype(np.float32).reshape(-1)  # (size,)
    if not np.isfinite(flat).all():
        raise EnvironmentFault(f"{subject} is {brief(value)}, not finite in float32: {advice}.")
    return flat
