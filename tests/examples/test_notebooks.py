"""The notebooks are small, have been run as they are, and run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import nbformat
import pytest

FOLDER = Path(__file__).parents[2] / "examples"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))
each = pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)


def _code(book: Any) -> list[Any]:
    return [cell for cell in book.cells if cell.cell_type == "code"]


def test_there_are_some() -> None:
    assert {"first_agent", "amplification", "memory_task"} == {path.stem for path in NOTEBOOKS}


@each
def test_what_is_stored(path: Path) -> None:
    book = nbformat.read(path, as_version=4)
    nbformat.validate(book)
    assert path.stat().st_size < 500_000
    cells = _code(book)
    assert [cell.execution_count for cell in cells] == list(range(1, len(cells) + 1))
    outputs = [output for cell in cells for output in cell.outputs]
    assert not [output for output in outputs if output.output_type == "error"]
    assert [out for out in outputs if {"image/png", "image/gif"} & set(out.get("data", {}))]
    assert not [place for place in (FOLDER.parent, Path.home()) if str(place) in path.read_text()]


@pytest.mark.slow
@each
def test_it_runs(path: Path, tmp_path: Path) -> None:
    from nbclient import NotebookClient

    book = nbformat.read(path, as_version=4)
    NotebookClient(book, timeout=1800, resources={"metadata": {"path": str(tmp_path)}}).execute()
