"""Writes the list of methods from what they say of themselves, and their curves from the results.

python docs/write_methods.py          # after a method was added or changed, or docs/results/methods

The list is docs/methods/README.md; curves and what they came to are the last section of each page.
Pages of task families show all methods on a task of theirs, and the README those on one that hides
something. The tables of docs/results/methods/README.md are those of its table.csv.
"""

from __future__ import annotations

import csv
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from resel.analysis.plots import EVALUATED, STEPS, around, curve, legend, looks, panels, save
from resel.methods import Method, default_method, get_method, own_methods

FOLDER = Path(__file__).parent / "methods"
RESULTS = Path(__file__).parent / "results" / "methods"
_CLAIM = "Pendulum-V-v0"
_HEADING = "## Curve\n"
_BEGIN, _END = "<!-- written by write_methods.py -->\n", "<!-- until here -->"
_HEAD = """# Methods

Every method of the paper's tables and figures, and RESeL. `resel train TASK --method NAME` trains
one, `resel compare TASK --methods A,B` sets some side by side, `resel methods --show NAME` lists
the settings of one. "Told" is what a reset of the environment must tell for training: `task`, the
number of the task, or `hidden`, the parameters the agent cannot see; neither reaches a policy.
{own} have a memory of their own kind in the place of a context encoder. How to write one:
[extending.md](../extending.md).

| method | name | context encoder | actions | told | in the paper |
|---|---|---|---|---|---|
"""


def page_of(method: Method) -> str:
    """The file of its page."""
    return f"{method.name}.md"


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
    own = " and ".join(method.title for method in own_methods() if method.own_memory)
    return _HEAD.format(own=own) + "".join(rows)


def with_curves(text: str, method: Method) -> str:
    """A page whose last section is what its method came to."""
    before, heading, _ = text.partition(_HEADING)
    assert heading, f"the page of {method.name} has no section {_HEADING.strip()!r}"
    rows = [
        f"| {row['group']} | {row['panel']} | {_score(row)} | {row['runs']} |"
        for row in _rows("finals.csv", [method.title])
    ]
    lines = ["```bash", f"resel reproduce methods --scale cpu --methods {method.name}", "```", ""]
    if not rows:
        return "\n".join([before + heading, *lines, "It has not been run yet.", ""])
    lines += [
        f"![Returns while it learns]({_picture(method).relative_to(FOLDER).as_posix()})",
        "",
        "| method | task | final return | runs |",
        "|---|---|---|---|",
        *rows,
        "",
        "Final returns are means of the last five evaluations, ± standard error over the runs. "
        "[Settings, machine, all",
        "methods](../results/methods/README.md).",
    ]
    return "\n".join([before + heading, *lines, ""])


def with_tables(page: str) -> str:
    """The page of the results with a table for each task, the best first."""
    before, _, rest = page.partition(_BEGIN)
    parts = []
    rows = _rows("table.csv", _lines(), "method")
    for place in dict.fromkeys(row["panel"] for row in rows):
        here = [row for row in rows if row["panel"] == place]
        threshold = here[0]["threshold"] and _threshold(float(here[0]["threshold"]))
        lines = [
            f"### {place}",
            "",
            "| method | reads rewards | told | final return |"
            f" steps to {threshold or 'a threshold'} | minutes to it |"
            " steps in all | minutes | adaptation steps | runs |",
            "|---|---|---|---|---|---|---|---|---|---|",
            *(f"| {' | '.join(_cells(row))} |" for row in here),
        ]
        parts.append("\n".join(lines))
    tables = "\n\n".join(parts)
    return f"{before}{_BEGIN}\n{tables}\n\n{_END}{rest.partition(_END)[2]}"


def _cells(row: dict[str, str]) -> list[str]:
    def number(name: str, form: str) -> str:
        return format(float(row[name]), form) if row[name] else "-"

    reached = (number("steps_to_threshold", ",.0f"), number("cpu_minutes_to_threshold", ".1f"))
    return [
        f"**{row['method']}**" if row["method"].startswith(_ours()) else row["method"],
        row["reads_rewards"] or "-",
        row["told"] or "-",
        _score(row),
        *reached,
        number("steps", ",.0f"),
        number("cpu_minutes", ".1f"),
        number("adaptation_steps", ",.0f"),
        row["runs"],
    ]


def _threshold(value: float) -> str:
    """As far as it tells anything: one of a hundred or more in whole numbers."""
    return f"{value:.0f}" if abs(value) >= 100 else f"{value:g}"


def _score(row: dict[str, str]) -> str:
    if not row["mean"]:
        return f"all {row['diverged']} diverged"
    mean, lost = float(row["mean"]), int(row["diverged"])
    digits = 0 if abs(mean) >= 100 else 1
    error = f" ± {float(row['standard_error']):.{digits}f}" if row["standard_error"] else ""
    return f"{mean:.{digits}f}{error}" + (f", {lost} diverged" if lost else "")


def _rows(file: str, groups: Sequence[str], column: str = "group") -> list[dict[str, str]]:
    with (RESULTS / file).open(newline="", encoding="utf-8") as opened:
        return [row for row in csv.DictReader(opened) if row[column] in groups]


def _picture(method: Method) -> Path:
    return FOLDER / "curves" / f"{method.name}.png"


def draw_curves(method: Method) -> None:
    """What a method did, in colour, and RESeL beside it, in grey.

    One that reads rewards beside it, if it does, where it was run.
    """
    rows = _rows("curves.csv", _lines())
    reading = _reads_rewards(method.title) and method.title != _ours()
    places = list(dict.fromkeys(row["panel"] for row in rows if row["group"] == method.title))
    if not places:
        return
    figure, axes = panels(len(places), height=2.6)
    for ax, place in zip(axes, places, strict=True):
        there = {row["group"] for row in rows if row["panel"] == place}
        ours = _READING if reading and _READING in there else _ours()
        for title in dict.fromkeys([method.title, ours]):
            colour = {} if title == method.title else {"color": "0.6"}
            _line(ax, rows, place, title, **colour)
        ax.set_title(place, fontsize=10)
        ax.set_xlabel(STEPS)
    axes[0].set_ylabel(EVALUATED)
    legend(figure, axes)
    path = _picture(method)
    path.parent.mkdir(exist_ok=True)
    save(figure, path, dpi=100)


def draw_tasks() -> None:
    """All methods on each task that stands for a family, for the family's page."""
    for place, file in _FAMILIES.items():
        rows = _rows("curves.csv", [method.title for method in own_methods()])
        titles = list(dict.fromkeys(row["group"] for row in rows if row["panel"] == place))
        if titles:
            figure, (ax,) = panels(1, width=7.0, height=3.6)
            for title, look in looks(titles).items():
                _line(ax, rows, place, title, **look)
            ax.set(title=place, xlabel=STEPS, ylabel=EVALUATED)
            legend(figure, [ax])
            (TASKS / "curves").mkdir(exist_ok=True)
            save(figure, TASKS / "curves" / file, dpi=100)


def draw_claim() -> None:
    """The hidden pendulum: RESeL, the other memories, and what can be had without one.

    Dashed are those that read the last reward, which tells the angle but for its sign.
    """
    blind = {method.title for method in own_methods() if not method.memory}
    rows = _rows("curves.csv", _lines())
    titles = list(dict.fromkeys(row["group"] for row in rows if row["panel"] == _CLAIM))
    rivals = [m.title for m in own_methods() if "fig-pomdp" in m.figures and m.title not in blind]
    others = [title for title in titles if title in rivals and not title.startswith(_ours())]
    figure, (ax,) = panels(1, width=7.4, height=3.8)
    for index, title in enumerate(t for t in titles if t in blind):
        label = None if index else f"{len(blind & set(titles))} without a memory"
        look: dict[str, Any] = {"label": label, "color": "0.75", "linewidth": 1.0}
        _line(ax, rows, _CLAIM, title, shaded=False, **look)
    for index, title in enumerate(others):
        style = "--" if _reads_rewards(title) else "-"
        look = {"color": f"C{index % 10}", "linestyle": style, "linewidth": 1.2}
        _line(ax, rows, _CLAIM, title, shaded=False, **look)
    for title in (title for title in titles if title.startswith(_ours())):
        style = "--" if _reads_rewards(title) else "-"
        _line(ax, rows, _CLAIM, title, color="black", linestyle=style, linewidth=2.6)
    ax.set(xlabel=STEPS, ylabel=EVALUATED, title="a pendulum of which the angle is hidden")
    legend(figure, [ax])
    save(figure, RESULTS / "claim.png", dpi=110)


def _line(
    ax: Any,
    rows: Sequence[dict[str, str]],
    place: str,
    group: str,
    shaded: bool = True,
    **look: Any,
) -> None:
    """What a method did on a task, if it was run there."""
    here = [r for r in rows if (r["panel"], r["group"]) == (place, group) and r["mean"]]
    if here:
        x, y, off = ([float(r[c] or 0) for r in here] for c in _COLUMNS)
        edges = around(y, off) if shaded else None
        curve(ax, x, y, edges, **{"label": group, "linewidth": 1.6, **look})


def _ours() -> str:
    return get_method(default_method()).title


def _lines() -> list[str]:
    """What the lines of the comparison are called."""
    return [*(method.title for method in own_methods()), _READING]


def _reads_rewards(line: str) -> bool:
    """Whether a line of the comparison is one whose policy is told the last reward."""
    rows = _rows("table.csv", [line], "method")
    return any(row["reads_rewards"] for row in rows if row["panel"] == _CLAIM)


TASKS = Path(__file__).parent / "tasks"
_FAMILIES = {
    "Pendulum-v1": "mdp.png",
    "Pendulum-gravity-v0": "gravity.png",
    "TwoGoals-v0": "meta-rl.png",
    "popgym-RepeatPreviousEasy-v0": "popgym.png",
}
_READING = "RESeL, reading rewards"
_COLUMNS = ("step", "mean", "standard_error")


if __name__ == "__main__":
    (FOLDER / "README.md").write_text(listing(), encoding="utf-8")
    for standing in own_methods():
        page = FOLDER / page_of(standing)
        page.write_text(with_curves(page.read_text(encoding="utf-8"), standing), encoding="utf-8")
        draw_curves(standing)
    draw_tasks()
    draw_claim()
    results = RESULTS / "README.md"
    results.write_text(with_tables(results.read_text(encoding="utf-8")), encoding="utf-8")
