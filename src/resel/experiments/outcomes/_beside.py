"""Tables with the numbers of other libraries and benchmarks beside ours."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

from resel.analysis.published import (
    POPGYM_SOURCE,
    POPGYM_STEPS,
    Anchor,
    PopgymNumber,
    read_anchors,
    read_popgym,
)
from resel.experiments._settings import Experiment, Study
from resel.experiments.outcomes._agents import FILE, Evaluations
from resel.experiments.outcomes._curves import write_rows
from resel.experiments.outcomes._markdown import count, page, score, short
from resel.experiments.outcomes._reading import RunData, completed, diverged, grouped
from resel.experiments.outcomes._seeds import columns, in_words, over_seeds

Row = dict[str, Any]
_RUN = ("task", "encoder", "seed", "status", "steps")
_ANCHOR = ("anchor_method", "anchor_mean", "anchor_deviation", "anchor_steps", "anchor_source")
_GYM = ("published_gru_mmer", "published_gru_sd", "published_best_model", "published_best_mmer")


def make_anchors(
    experiment: Experiment, study: Study, runs: Sequence[RunData], folder: Path
) -> list[str]:
    """A row for each task: how good, how soon, how long, and what another library reports."""
    known, anchors = Evaluations(folder), read_anchors()
    own = ("last", "best", "steps_to_threshold", "cpu_seconds")
    rows, singles = [], []
    for (task,), here in grouped(runs, lambda run: (run.member.setting.task,)).items():
        threshold = study.numbers["thresholds"][task]
        seeds = [_row_of(run) | _anchored(run, study, known, threshold) for run in here]
        singles += seeds
        row = _shared(here, seeds, own) | {"task": task, "threshold": threshold}
        ended = [seed for seed in seeds if seed["status"] == "completed"]
        row["reached"] = sum(seed["steps_to_threshold"] is not None for seed in ended)
        rows.append(row | _anchor(anchors.get(task)))
    head = ("task", "steps", "runs", "diverged", "threshold", "reached")
    write_rows(
        folder / "table.csv", rows, (*head, *(c for name in own for c in columns(name)), *_ANCHOR)
    )
    write_rows(folder / "seeds.csv", singles, (*_RUN, *own))
    (folder / "table.md").write_text(_anchor_text(experiment, study, rows), encoding="utf-8")
    return _files(runs)


def make_mmer(
    experiment: Experiment, study: Study, runs: Sequence[RunData], folder: Path
) -> list[str]:
    """A row for each task and encoder: MMER, the last agent, and POPGym's own numbers."""
    known, published = Evaluations(folder), read_popgym()
    episodes = study.numbers["last_episodes"]
    rows, singles = [], []
    cells = grouped(runs, lambda run: (run.member.setting.task, run.member.setting.group))
    for (task, encoder), here in cells.items():
        seeds = [
            _row_of(run)
            | {"encoder": encoder, "mmer": run.number("mmer"), "last": _last(run, known, episodes)}
            for run in here
        ]
        singles += seeds
        row = _shared(here, seeds, ("mmer", "last")) | {"task": task, "encoder": encoder}
        row["share_of_published_steps"] = row["steps"] / POPGYM_STEPS
        rows.append(row | _popgym(published.get(task)))
    head = ("task", "encoder", "runs", "diverged", "steps")
    scores = (*columns("mmer"), *columns("last"), *_GYM, "share_of_published_steps")
    write_rows(folder / "table.csv", rows, (*head, *scores))
    write_rows(folder / "seeds.csv", singles, (*_RUN, "mmer", "last"))
    (folder / "table.md").write_text(_mmer_text(experiment, study, rows), encoding="utf-8")
    return _files(runs)


def _files(runs: Sequence[RunData]) -> list[str]:
    return ["table.csv", "table.md", "seeds.csv", *([FILE] if completed(runs) else [])]


def _row_of(run: RunData) -> Row:
    """What is said of every run; a run that ended early took fewer steps than were planned."""
    member, result = run.member, run.result
    values = (member.setting.task, result.get("encoder"), member.seed, run.status)
    return dict(zip(_RUN, (*values, result.get("steps")), strict=True))


def _shared(runs: Sequence[RunData], seeds: Sequence[Row], names: Sequence[str]) -> Row:
    """What is said of every row: of runs that were completed, the mean steps and these numbers."""
    ended = [seed for seed in seeds if seed["status"] == "completed"]
    steps = fmean(seed["steps"] for seed in ended) if ended else math.nan
    row: Row = {"runs": len(ended), "diverged": diverged(runs), "steps": steps}
    for name in names:
        row |= over_seeds(name, [seed[name] for seed in ended])
    return row


def _last(run: RunData, known: Evaluations, episodes: int) -> float | None:
    if run.status != "completed":
        return None
    return known.of(run.member.run, "last", episodes).return_mean


def _anchored(run: RunData, study: Study, known: Evaluations, threshold: float) -> Row:
    """How good a run became, and when its evaluations first reached the threshold."""
    seen = zip(*run.points("return"), strict=True)
    reached = [step for step, value in seen if step > 0 and value >= threshold]
    best = None
    if run.status == "completed":
        best = known.of(run.member.run, "best", study.numbers["best_episodes"]).return_mean
    return {
        "last": _last(run, known, study.numbers["last_episodes"]),
        "best": best,
        "steps_to_threshold": reached[0] if reached else None,
        "cpu_seconds": run.number("cpu_seconds"),
    }


def _anchor(found: Anchor | None) -> Row:
    if found is None:
        return {}
    values = (found.method, found.mean, found.deviation, found.steps, found.source)
    return dict(zip(_ANCHOR, values, strict=True))


def _popgym(found: PopgymNumber | None) -> Row:
    if found is None:
        return {}
    values = (found.gru_mmer, found.gru_sd, found.best_model, found.best_mmer)
    return dict(zip(_GYM, values, strict=True))


def _anchor_text(experiment: Experiment, study: Study, rows: Sequence[Row]) -> str:
    last, best = study.numbers["last_episodes"], study.numbers["best_episodes"]
    lines = []
    for row in rows:
        mean, error = (row[f"steps_to_threshold_{p}"] for p in ("mean", "standard_error"))
        sooner = count(mean) if math.isnan(error) else f"{count(mean)} ± {count(error)}"
        anchor = "-"
        if "anchor_mean" in row:
            anchor = f"{row['anchor_method']}: {row['anchor_mean']:g} ± {row['anchor_deviation']:g}"
            anchor += f" after {row['anchor_steps']:,}"
        lines.append(
            [
                row["task"],
                count(row["steps"]),
                in_words("last", row),
                in_words("best", row),
                f"{sooner} ({row['reached']} of {row['runs']})",
                short(row["cpu_seconds_mean"]),
                f"{row['runs']}",
                f"{row['diverged']}",
                anchor,
            ]
        )
    head = (
        *("task", "steps", f"last agent, {last} episodes", f"best agent, {best} episodes"),
        *("steps to the threshold", "processor seconds", "runs", "diverged", "another library"),
    )
    thresholds = ", ".join(f"{row['task']} {row['threshold']:g}" for row in rows)
    notes = (
        "Mean ± standard error over runs, with the 95 % interval of the interquartile mean in "
        "brackets. Both agents are measured in episodes that their training has not seen.",
        f"Thresholds: {thresholds}; counted is the first evaluation of the training that reaches "
        "one, on average over the runs that do.",
        "The other library's numbers are of one tuned agent each: mean ± deviation over its "
        "evaluation episodes (benchmark.md of RL Baselines3 Zoo).",
    )
    return page(experiment.title, head, lines, *notes)


def _mmer_text(experiment: Experiment, study: Study, rows: Sequence[Row]) -> str:
    lines = []
    for row in rows:
        best = "-"
        if "published_best_mmer" in row:
            best = f"{row['published_best_model']}: {row['published_best_mmer']:.3f}"
        lines.append(
            [
                row["task"].removeprefix("popgym-").removesuffix("-v0"),
                row["encoder"],
                f"{row['runs']}",
                f"{row['diverged']}",
                count(row["steps"]),
                in_words("mmer", row),
                in_words("last", row),
                score(row.get("published_gru_mmer"), row.get("published_gru_sd")),
                best,
                "-" if math.isnan(row["steps"]) else f"{row['share_of_published_steps']:.2%}",
            ]
        )
    head = (
        *("task", "encoder", "seeds", "diverged", "steps taken", "MMER"),
        f"last agent, {study.numbers['last_episodes']} episodes",
        *("published GRU, MMER", "best published, MMER", "share of the published steps"),
    )
    notes = [
        "MMER is the largest mean return of 100 consecutive episodes of training, exploration "
        "included. Ours: mean ± standard error over seeds, with the 95 % interval of the "
        "interquartile mean in brackets; of a single seed, its number.",
        POPGYM_SOURCE,
    ]
    return page(experiment.title, head, lines, *notes)
