"""Writes docs/methods/README.md, the list of methods, from what they say of themselves.

python docs/write_methods.py          # after a method was added or changed
"""

from __future__ import annotations

from pathlib import Path

from resel.methods import Method, own_methods

FOLDER = Path(__file__).parent / "methods"
_PAGES = {"mf-lstm": "mf-gpt"}
"""Methods that stand on the page of another one."""
_HEAD = """# Methods

Every method of the paper's tables and figures, and RESeL. `resel train TASK --method NAME` trains
one, `resel compare TASK --methods A,B` sets some side by side, `resel methods --show NAME` lists
the settings of one. "Told" is what a reset of the environment must tell for training: `task`, the
number of the task, or `hidden`, the parameters the agent cannot see; neither reaches a policy.
VRM and PEARL have a memory of their own kind in the place of a context encoder. How to write one:
[extending.md](../extending.md).

| method | name | context encoder | actions | told | in the paper |
|---|---|---|---|---|---|
"""


def page_of(method: Method) -> str:
    """The file of its page."""
    return f"{_PAGES.get(method.name, method.name)}.md"


def listing() -> str:
    """The whole file."""
    rows = []
    for method in own_methods():
        told = ", ".join(method.learner.learns_from) or "-"
        cells = (
            f"[{method.title}]({page_of(method)})",
            f"`{method.name}`",
            method.encoder or "-",
            ", ".join(method.spaces),
            told,
            ", ".join(f"`{figure}`" for figure in method.figures) or "-",
        )
        rows.append(f"| {' | '.join(cells)} |\n")
    return _HEAD + "".join(rows)


if __name__ == "__main__":
    (FOLDER / "README.md").write_text(listing(), encoding="utf-8")
