"""What `resel diagnose` has left in a run directory: the verdict, the curves, the numbers."""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from resel.analysis.plots import around
from resel.analysis.runs import RunRecord
from resel.networks import encoder_spec
from resel.reports.elements import code, fold, paragraph
from resel.reports.figures import Figure, Line
from resel.reports.outcomes import amplification_parts, read_or_say
from resel.reports.page import Part, Section

_STEPS, _SO_FAR = "every step", "mean so far"


def diagnosis_sections(run: RunRecord) -> list[Section]:
    """One for a run that has a memory, measured or not."""
    folder, encoder = run.path, run.config.encoder
    found = sorted([*folder.glob("diagnosis.json"), *folder.glob("*/diagnosis.json")])
    if found:
        parts = [part for path in found for part in read_or_say(path, _measured)]
        return [Section("Diagnosis", parts)]
    if encoder is None or not encoder_spec(encoder).memory:
        return []
    command = shlex.join(["resel", "diagnose", str(folder), "--out", str(folder / "diagnosis")])
    words = "Which LR_CE suits this run is not measured. This command does it, for the next report:"
    return [Section("Diagnosis", [paragraph(words), code(command)])]


def _measured(path: Path) -> Sequence[Part]:
    data = json.loads(path.read_bytes())
    *findings, advice = map(str, data["words"])
    measured = data["amplification"]
    return [
        paragraph(advice, "advice"),
        *map(paragraph, findings),
        (_figure(measured),),
        fold("The numbers", *amplification_parts(measured)),
    ]


def _figure(measured: dict[str, Any]) -> Figure:
    lines = []
    for index, variation in enumerate(measured["variations"]):
        rates, mean = variation["rates"], variation["mean"]
        label = f"LR_CE {rates['context_encoder']:.2g}, LR_other {rates['other']:.2g}"
        steps, edges = list(range(len(mean))), around(mean, variation["standard_error"])
        lines.append(Line(label, steps, mean, *edges, group=index, view=_STEPS))
        lines.append(Line(label, steps, variation["running_mean"], group=index, view=_SO_FAR))
    return Figure(
        "variation",
        "How far one update moves the actions, along an episode",
        f"L2 distance of {measured['distance']}",
        lines,
        f"Mean over {len(measured['lengths'])} episodes; shaded: its standard error.",
        x_title="rollout step",
        log_y=True,
    )
