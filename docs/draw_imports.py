"""Which room imports which: `python docs/draw_imports.py` writes imports.json and imports.svg.

The list is complete. The picture leaves out what follows from it: if a room imports another that
imports a third, the arrow from the first to the third is not drawn.
"""

from __future__ import annotations

import json
from math import copysign
from pathlib import Path

import grimp

Imports = dict[str, list[str]]
LIST = Path(__file__).with_name("imports.json")
_MIDDLE = 0.0
_BEND = 0.35
"""Of long arrows, outwards, past what stands between."""
_COLUMN, _ROW = 2.3, 1.0
_BOX = {"boxstyle": "round,pad=0.45", "facecolor": "#eef3fa", "edgecolor": "#3b5b92"}
_ARROW = {"arrowstyle": "-|>", "color": "#7a7a7a", "linewidth": 1.1, "shrinkA": 0, "shrinkB": 1}


def read_imports() -> Imports:
    """By room, sorted, the rooms that its modules import; the package's own door is no room."""
    graph = grimp.build_graph("resel", cache_dir=None)
    rooms = {module.split(".")[1] for module in graph.find_children("resel")}
    found: dict[str, set[str]] = {room: set() for room in rooms}
    for module in graph.modules - {"resel"}:
        for imported in graph.find_modules_directly_imported_by(module) - {"resel"}:
            found[module.split(".")[1]].add(imported.split(".")[1])
    return {room: sorted(found[room] - {room}) for room in sorted(found)}


def _reachable(imports: Imports, room: str) -> set[str]:
    return {r for near in imports[room] for r in (near, *_reachable(imports, near))}


def _reduced(imports: Imports) -> Imports:
    """Without what follows from the rest."""
    return {
        room: [
            near
            for near in own
            if not any(near in _reachable(imports, other) for other in own if other != near)
        ]
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


def _dealt(rooms: list[str], imports: Imports) -> list[str]:
    """Those with most below them in the middle, so that long ways to the bottom run outside."""
    left: list[str] = []
    right: list[str] = []
    for place, room in enumerate(sorted(rooms, key=lambda r: (len(_reachable(imports, r)), r))):
        (right if place % 2 else left).append(room)
    return left + right[::-1]


def _places(imports: Imports) -> dict[str, tuple[float, float]]:
    """Each room below the middle of those who import it, the rooms of a level side by side."""
    levels, x = _levels(imports), dict[str, float]()
    for depth in range(1 + max(levels.values())):
        here = _dealt([room for room in imports if levels[room] == depth], imports)
        wish = {
            room: _mean([x[other] for other, own in imports.items() if room in own])
            for room in here
        }
        for place, room in enumerate(sorted(here, key=lambda r: wish[r])):
            x[room] = _mean(list(wish.values())) + place - (len(here) - 1) / 2
    return {room: (_COLUMN * x[room], -_ROW * levels[room]) for room in imports}


def _mean(numbers: list[float]) -> float:
    return sum(numbers) / len(numbers) if numbers else _MIDDLE


def draw(imports: Imports, path: Path) -> None:
    """The rooms from top to bottom, with arrows to what they import."""
    import matplotlib

    matplotlib.use("Agg")
    matplotlib.rcParams["svg.hashsalt"] = "imports"  # the same picture for the same list
    from matplotlib import pyplot as plt

    few = _reduced(imports)
    places = _places(few)
    xs, ys = zip(*places.values(), strict=True)
    figure, axes = plt.subplots(figsize=(1.1 * (max(xs) - min(xs)) + 2.5, 0.72 * -min(ys) + 1))
    boxes = {
        room: axes.text(x, y, room, ha="center", va="center", fontsize=11, bbox=_BOX, zorder=3)
        for room, (x, y) in places.items()
    }
    axes.set_xlim(min(xs) - 1.2, max(xs) + 1.2)
    axes.set_ylim(min(ys) - 0.6, 0.6)
    axes.axis("off")
    figure.canvas.draw()  # the boxes get their sizes, at which the arrows end
    for room, own in few.items():
        for near in own:
            ends = {"patchA": boxes[room].get_bbox_patch(), "patchB": boxes[near].get_bbox_patch()}
            (x, y), (to_x, to_y) = places[room], places[near]
            bend = 0.0 if y - to_y < 2 * _ROW else copysign(_BEND, to_x - x)
            style = {**_ARROW, **ends, "connectionstyle": f"arc3,rad={bend}"}
            axes.annotate("", (to_x, to_y), (x, y), arrowprops=style, zorder=4)
    figure.savefig(
        path, bbox_inches="tight", metadata={"Date": None} if path.suffix == ".svg" else None
    )
    plt.close(figure)


if __name__ == "__main__":
    found = read_imports()
    LIST.write_text(json.dumps(found, indent=1) + "\n")
    draw(found, LIST.with_suffix(".svg"))
