"""Numbers in the words of the pages of results are those of their tables."""

from __future__ import annotations

import csv

from doc_pages import DOCS


def test_equal_processor_time_is_told_in_percent_of_ours() -> None:
    folder = DOCS / "results" / "methods"
    with (folder / "table.csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    minutes = {(row["panel"], row["method"]): float(row["cpu_minutes"]) for row in rows}
    shares: dict[str, list[int]] = {}
    for (panel, method), taken in minutes.items():
        task, _, longer = panel.partition(", ")
        if longer:
            shares.setdefault(method, []).append(round(100 * taken / minutes[task, "RESeL"]))
    told = [f"{name} {' and '.join(map(str, sorted(own)))} %" for name, own in shares.items()]
    page = " ".join((folder / "README.md").read_text(encoding="utf-8").split())
    assert not [words for words in told if words not in page]
    every = [share for own in shares.values() for share in own]
    outline = (DOCS / "experiments.md").read_text(encoding="utf-8")
    assert f"took the processor {min(every)} to {max(every)} % as long as RESeL" in outline
