"""Numbers in tables: one form for a column."""

from __future__ import annotations

import math
import re

import pytest

from resel.reports.cells import Cell, Measured, column_cells, number, share
from resel.reports.elements import status, table


def _texts(*column: Cell) -> list[str]:
    return [re.sub(r"<[^>]*>", "", cell) for cell in column_cells(column)]


@pytest.mark.parametrize(
    ("column", "texts"),
    [
        ((-135.62, -138.5, None), ["-135.6", "-138.5", "–"]),
        ((-1518.3, -1461.2, 7.0), ["-1,518", "-1,461", "7"]),
        ((12000, 500), ["12,000", "500"]),
        ((1.0, 2.0), ["1", "2"]),
        ((0.5, 0.25), ["0.50", "0.25"]),
        ((0.001, 4.75e-5, 0.0), ["0.001", "4.75e-05", "0"]),
        ((5000.0, 0.0001), ["5,000", "0.0001"]),
        ((math.nan, math.inf, 3.5), ["–", "inf", "3.5"]),
        ((Measured(17.5, 7.5), Measured(5.0)), ["17.5 ± 7.5", "5.0"]),
        ((Measured(1.25, interval=(1.0, 2.0)), None), ["1.25 [1.00, 2.00]", "–"]),
        ((share(0.5), share(None)), ["50%", "–"]),
        (("a <b>", True), ["a &lt;b&gt;", "True"]),
    ],
)
def test_one_form_for_a_column(column: tuple[Cell, ...], texts: list[str]) -> None:
    assert _texts(*column) == texts


def test_a_number_alone() -> None:
    assert [number(v) for v in (None, 3, 1234.5, -254.32, 1e-5)] == [
        "–",
        "3",
        "1,234",
        "-254.3",
        "1e-05",
    ]


def test_numbers_stand_at_the_right_and_empty_columns_are_left_out() -> None:
    heads = ("name", "score", "nothing", "b", "c", "last")
    text = table(heads, [["a", 1.5, None, 1, 2, "x"], ["b", None, None, 1, 2, "y"]]).text
    assert '<th scope="col" class="number"><button type="button">score</button>' in text
    assert (
        '<td class="number" data-head="score">' in text and '<td class="" data-head="name">' in text
    )
    assert "nothing" not in text
    # A phone shows four columns, and the others when it is asked.
    assert text.count(" more") == 2 and '<td class=" more" data-head="last">y</td>' in text
    assert table(("a", "b"), []).text.count("<th ") == 2


def test_the_colour_of_a_status() -> None:
    states = ("completed", "no result yet", "interrupted", "diverged", "failed", "<strange>")
    kinds = [re.findall('class="status ([a-z]+)"', status(state).text) for state in states]
    assert kinds == [["good"], ["open"], ["open"], ["bad"], ["bad"], ["bad"]]
    assert "&lt;strange&gt;" in status("<strange>").text
