"""What a vector environment tells of one of its rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any


class RowInfo(Mapping[str, Any]):
    """The `info` of one row, looked up when it is asked for.

    A vector has one array for each name, and in `_name` which rows the entry is told of; where
    there is no such mask, an array with an entry for every row is told of all of them.
    """

    def __init__(self, infos: Mapping[str, Any], row: int, rows: int) -> None:
        self._infos, self._row, self._rows = infos, row, rows

    def __getitem__(self, name: str) -> Any:
        values, mask = self._infos[name], self._infos.get(f"_{name}")
        if mask is not None and not mask[self._row]:
            raise KeyError(name)
        if isinstance(values, Mapping):
            return RowInfo(values, self._row, self._rows)
        if mask is None and not (hasattr(values, "__len__") and len(values) == self._rows):
            raise KeyError(name)
        return values[self._row]

    def __iter__(self) -> Iterator[str]:
        masks = {f"_{name}" for name in self._infos}
        return (name for name in self._infos if name not in masks and name in self)

    def __len__(self) -> int:
        return sum(1 for _ in self)


def row_info(infos: Any, row: int, rows: int) -> Any:
    """The `info` of a row, from a vector's dict or from a list of one for each row."""
    if isinstance(infos, list | tuple):
        return infos[row]
    return RowInfo(infos, row, rows) if isinstance(infos, Mapping) else infos
