"""The page of a search for settings: its history, what mattered, and all trials side by side."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

from resel.reports.cells import Cell, Html
from resel.reports.elements import code, paragraph, status, table, tiles
from resel.reports.figures import Chart
from resel.reports.page import Page, Part, Section
from resel.tuning import Summary, Trial

_BLUE, _ORANGE, _GREY = "#0072b2", "#d55e00", "#8c8c8c"
_KINDS = {"complete": "good", "failed": "bad"}
_BANDS = ("#440154", "#3b528b", "#21918c", "#5ec962", "#e69f00")
"""From the worst fifth of the trials to the best."""


def tuning_page(summary: Summary, commands: Sequence[str]) -> Page:
    """A search so far; `commands` are what comes next."""
    search, best = summary.search, summary.best
    sections = [Section("Best settings", _best(summary, commands))]
    scored = [trial for trial in summary.trials if _is_drawn(trial)]
    if scored:
        importance = [_importance(summary)] if summary.importance else []
        sections.append(Section("Course of the search", [(_history(scored), *importance)]))
        sections.append(Section("Trials side by side", [(_parallel(summary, scored),)]))
    sections.append(Section("Trials", [_trials(summary)]))
    words = f"{len(summary.trials)} trials of {search.setting.method_name}"
    at = "" if best is None else f", best {best.score:.5g}"
    return Page(f"Settings for {search.setting.task}", f"{words}{at}", sections)


def _is_drawn(trial: Trial) -> bool:
    return trial.score is not None and math.isfinite(trial.score)


def _best(summary: Summary, commands: Sequence[str]) -> list[Part]:
    best, search = summary.best, summary.search
    if best is None:
        return [paragraph("No trial has come to its end yet.")]
    before = summary.baseline
    seeds = ", ".join(map(str, search.about["seeds"]))
    facts: list[tuple[str, Cell]] = [
        ("score", best.score),
        ("score of the preset", None if before is None else before.score),
        ("trial", best.number),
        ("complete", summary.count("complete")),
        ("given up", summary.count("pruned")),
        ("failed", summary.count("failed")),
    ]
    usual = search.config.flat()
    rows: list[list[Cell]] = [
        [name, str(value), str(usual[name])] for name, value in best.settings.items()
    ]
    return [
        tiles([fact for fact in facts if fact[1] is not None]),
        table(("setting", "best", "preset"), rows),
        paragraph(
            "A score is the mean of the last evaluations of a run, over the seeds of a trial "
            f"({seeds}). The best of many trials was in part lucky on these: what it is worth is "
            "told by fresh seeds."
        ),
        code("\n".join(commands)),
    ]


def _history(trials: Sequence[Trial]) -> Chart:
    complete = [trial for trial in trials if trial.is_complete]
    given_up = [trial for trial in trials if not trial.is_complete]
    best = list(itertools.accumulate((t.score or 0.0 for t in complete), max))
    return Chart(
        "history",
        "Scores in the order of the trials",
        [
            _points("complete", complete, _BLUE, "circle"),
            _points("given up", given_up, _GREY, "x"),
            {
                "type": "scatter",
                "mode": "lines",
                "name": "best so far",
                "x": [trial.number for trial in complete],
                "y": best,
                "line": {"color": _ORANGE, "shape": "hv", "width": 2},
                "hoverinfo": "skip",
            },
        ],
        _layout("trial", "score"),
        "Circles: complete. Crosses: given up, at the last evaluation. Line: the best so far.",
    )


def _points(name: str, trials: Sequence[Trial], colour: str, symbol: str) -> dict[str, Any]:
    return {
        "type": "scatter",
        "mode": "markers",
        "name": name,
        "x": [trial.number for trial in trials],
        "y": [trial.score for trial in trials],
        "marker": {"color": colour, "symbol": symbol, "size": 8},
        "hovertemplate": "trial %{x}<br>%{y:.5~g}<extra>" + name + "</extra>",
    }


def _importance(summary: Summary) -> Chart:
    shares = sorted(summary.importance.items(), key=lambda item: item[1])
    note = "Share of each setting in how the scores of trials differ (PED-ANOVA)."
    bars = {
        "type": "bar",
        "orientation": "h",
        "x": [share for _, share in shares],
        "y": [name for name, _ in shares],
        "marker": {"color": _BLUE},
        "hovertemplate": "%{y}<br>%{x:.1%}<extra></extra>",
    }
    layout = _layout("importance", "")
    layout["yaxis"] |= {"type": "category"}
    return Chart("importance", "Which settings mattered", [bars], layout, note)


def _parallel(summary: Summary, trials: Sequence[Trial]) -> Chart:
    """Lines over one axis for each setting, each from its lowest value to its highest."""
    names = list(summary.search.space)
    axes = [_axis([trial.settings.get(name) for trial in trials], name, summary) for name in names]
    scores = [float(trial.score or 0.0) for trial in trials]
    low, high = min(scores), max(scores)
    heights = [
        [*(axis[0][i] for axis in axes), _share(scores[i], low, high)] for i in range(len(trials))
    ]
    ranks = {i: place for place, i in enumerate(sorted(range(len(trials)), key=scores.__getitem__))}
    traces = []
    for index in sorted(range(len(trials)), key=scores.__getitem__):  # the best on top
        trial, band = trials[index], (len(_BANDS) - 1) * ranks[index] // max(1, len(trials) - 1)
        values = [*(trial.settings.get(name) for name in names), f"{scores[index]:.5g}"]
        traces.append(
            {
                "type": "scatter",
                "mode": "lines+markers",
                "name": f"trial {trial.number}",
                "x": [*names, "score"],
                "y": heights[index],
                "text": [str(value) for value in values],
                "line": {
                    "color": _BANDS[band],
                    "width": 3 if ranks[index] == len(trials) - 1 else 1,
                },
                "marker": {"color": _BANDS[band], "size": 5},
                "opacity": 1.0 if trial.is_complete else 0.45,
                "hovertemplate": "%{x}: %{text}<extra>trial " + str(trial.number) + "</extra>",
            }
        )
    ends = [*((axis[1], axis[2]) for axis in axes), (f"{low:.4g}", f"{high:.4g}")]
    layout = _layout("", "")
    layout["xaxis"] |= {"type": "category", "tickangle": -30}
    layout["yaxis"] |= {"range": [-0.12, 1.12], "showticklabels": False, "showgrid": False}
    layout["annotations"] = [
        {"x": name, "y": y, "text": text, "showarrow": False, "yshift": shift, "font": {"size": 10}}
        for name, both in zip([*names, "score"], ends, strict=True)
        for y, text, shift in zip((0, 1), both, (-10, 10), strict=True)
    ]
    return Chart(
        "parallel-coordinates",
        "Settings and score of every trial",
        traces,
        layout,
        "A line is a trial: dark for the worst fifth, orange for the best, faint if given up.",
    )


def _axis(values: Sequence[Any], name: str, summary: Summary) -> tuple[list[float], str, str]:
    """Heights from 0 to 1, and the words at both ends."""
    found = summary.search.space[name]
    choices = getattr(found, "choices", None)
    if choices is None:
        log = getattr(found, "log", False)
        low, high = (float(getattr(found, end)) for end in ("low", "high"))
        change = math.log if log else float
        heights = [_share(change(float(value)), change(low), change(high)) for value in values]
        return heights, f"{low:.3g}", f"{high:.3g}"
    ordered = sorted(
        choices, key=lambda value: (isinstance(value, str), value is not None, value or 0)
    )
    places = [ordered.index(value) / max(1, len(ordered) - 1) for value in values]
    return places, str(ordered[0]), str(ordered[-1])


def _share(value: float, low: float, high: float) -> float:
    return 0.5 if high <= low else (value - low) / (high - low)


def _layout(x: str, y: str) -> dict[str, Any]:
    axis = {"automargin": True, "zeroline": False}
    return {
        "hovermode": "closest",
        "xaxis": {**axis, "title": {"text": x}},
        "yaxis": {**axis, "title": {"text": y}},
    }


def _trials(summary: Summary) -> Html:
    names = list(summary.search.space)
    rows: list[list[Cell]] = [
        [
            trial.number,
            status(trial.status, _KINDS.get(trial.status, "open")),
            trial.score,
            *(None if name not in trial.settings else str(trial.settings[name]) for name in names),
            trial.problem,
        ]
        for trial in summary.trials
    ]
    marked = [i for i, trial in enumerate(summary.trials) if trial == summary.best]
    return table(("trial", "status", "score", *names, "why"), rows, marked)
