"""Which room imports which: `python docs/draw_imports.py` writes imports.json and imports.svg.

The list is complete. The picture leaves out what follows from it: if a room imports another that
imports a third, the arrow from the first to the third is not drawn.
"""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path

import grimp

Imports = dict[str, list[str]]
LIST = Path(__file__).with_name("imports.json")
_COLUMN, _ROW = 2.3, 1.0
_BOX = {"boxstyle": "round,pad=0.45", "facecolor": "#eef3fa", "edgecolor": "#3b5b92"}
_LINE = {"color": "#7a7a7a", "linewidth": 1.1, "shrinkA": 0, "shrinkB": 0}


def read_imports() -> Imports:
    """By room, sorted, the rooms that its modules import; the package's own door is no room."""
    graph = grimp.build_graph("resel", cache_dir=None)
    found: dict[str, set[str]] = {m.split(".")[1]: set() for m in graph.find_children("resel")}
    for module in graph.modules - {"resel"}:
        for imported in graph.find_modules_directly_imported_by(module) - {"resel"}:
            found[module.split(".")[1]].add(imported.split(".")[1])
    return {room: sorted(found[room] - {room}) for room in sorted(found)}


def _below(imports: Imports, room: str) -> set[str]:
    """Everything a room imports, and what that imports."""
    return {r for near in imports[room] for r in (near, *_below(imports, near))}


def _reduced(imports: Imports) -> Imports:
    """Without what follows from the rest."""
    return {
        room: [near for near in own if not any(near in _below(imports, other) for other in own)]
        for room, own in imports.items()
    }


def _levels(imports: Imports) -> dict[str, int]:
    """0 for whom nobody imports; everybody else one below the lowest of those who import them."""
    levels: dict[str, int] = {}

    def level(room: str) -> int:
        if room not in levels:
            above = [level(other) for other, own in imports.items() if room in own]
            levels[room] = 1 + max(above, default=-1)
        return levels[room]

    for room in imports:
        level(room)
    return levels


def _with_bends(imports: Imports) -> tuple[Imports, dict[tuple[str, str], list[str]]]:
    """Long arrows get a place of their own at each level they pass; and which these are."""
    levels, paths = _levels(imports), dict[tuple[str, str], list[str]]()
    bent: Imports = {room: [] for room in imports}
    for room, own in imports.items():
        for near in own:
            passed = range(levels[room] + 1, levels[near])
            path = [room, *(f"{room} to {near} {level}" for level in passed), near]
            for here, there in pairwise(path):
                bent.setdefault(here, []).append(there)
            paths[room, near] = path
    return bent, paths


def _places(imports: Imports) -> dict[str, tuple[float, float]]:
    """Each below the middle of those who import it, a level side by side."""
    levels, x = _levels(imports), dict[str, float]()
    for depth in range(1 + max(levels.values())):
        here = _dealt([room for room in imports if levels[room] == depth], imports)
        above = {r: [x[other] for other, own in imports.items() if r in own] for r in here}
        wish = {room: sum(xs) / max(len(xs), 1) for room, xs in above.items()}
        for place, room in enumerate(sorted(here, key=lambda r: wish[r])):
            x[room] = sum(wish.values()) / len(wish) + place - (len(here) - 1) / 2
    return {room: (_COLUMN * x[room], -_ROW * levels[room]) for room in imports}


def _dealt(rooms: list[str], imports: Imports) -> list[str]:
    """Those with most below them in the middle."""
    left: list[str] = []
    right: list[str] = []
    for place, room in enumerate(sorted(rooms, key=lambda r: (len(_below(imports, r)), r))):
        (right if place % 2 else left).append(room)
    return left + right[::-1]


def draw(imports: Imports, path: Path) -> None:
    """The rooms from top to bottom, with arrows to what they import."""
    import matplotlib

    matplotlib.use("Agg")
    matplotlib.rcParams["svg.hashsalt"] = "imports"  # the same picture for the same list
    from matplotlib import pyplot as plt

    bent, paths = _with_bends(_reduced(imports))
    places = _places(bent)
    xs, ys = zip(*places.values(), strict=True)
    figure, axes = plt.subplots(figsize=(1.1 * (max(xs) - min(xs)) + 2.5, 0.72 * -min(ys) + 1))
    axes.set_xlim(min(xs) - 1.2, max(xs) + 1.2)
    axes.set_ylim(min(ys) - 0.6, 0.6)
    axes.axis("off")
    boxes = {
        room: axes.text(*places[room], room, ha="center", va="center", fontsize=11, bbox=_BOX)
        for room in imports
    }
    figure.canvas.draw()  # the boxes get their sizes, at which the arrows end
    for points in paths.values():
        for here, there in pairwise(points):
            ends = {
                "patchA": boxes[here].get_bbox_patch() if here in boxes else None,
                "patchB": boxes[there].get_bbox_patch() if there in boxes else None,
            }
            style = {**_LINE, **ends, "arrowstyle": "-|>" if there in boxes else "-"}
            axes.annotate("", places[there], places[here], arrowprops=style)
    about = {"Date": None} if path.suffix == ".svg" else {}
    figure.savefig(path, bbox_inches="tight", metadata=about)
    plt.close(figure)


if __name__ == "__main__":
    found = read_imports()
    LIST.write_text(json.dumps(found, indent=1) + "\n")
    draw(found, LIST.with_suffix(".svg"))
