"""Tables that both kinds of page have: settings, machines, events."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from resel.agent import configure
from resel.analysis.runs import RunRecord
from resel.config import Config
from resel.reports.cells import Cell, Html, escape
from resel.reports.collection import Experiment
from resel.reports.elements import code, fold, table
from resel.runs import format_bytes

_EVENT_WORDS = ("step", "kind", "event", "environment", "message", "traceback")


def task_defaults(config: Config) -> Config:
    """What `resel train TASK` would have used with this method and encoder."""
    return configure(config.task, preset="paper", method=config.method, encoder=config.encoder)


def changed_settings(config: Config) -> dict[str, tuple[Any, Any]]:
    """Value and default of each setting that is not the task's own; the seed is no such choice."""
    usual = task_defaults(config).flat()
    return {
        name: (value, usual[name])
        for name, value in config.flat().items()
        if value != usual[name] and name != "seed"
    }


def changed_table(config: Config) -> Html:
    """The settings somebody chose."""
    changed = changed_settings(config)
    return table(
        ("setting", "this run", "default for the task"),
        [(name, str(value), str(usual)) for name, (value, usual) in changed.items()],
    )


def all_settings(config: Config, title: str) -> Html:
    """Every setting, in a fold."""
    usual = task_defaults(config).flat()
    names = {"method": config.method, "encoder": config.encoder}
    library = Config.build("", names).flat()
    rows = [
        (config.group_of(name) or "", name, str(value), str(usual[name]), str(library[name]))
        for name, value in config.flat().items()
    ]
    heads = ("group", "setting", "this run", "default for the task", "default of the library")
    return fold(title, table(heads, rows))


def machine_table(runs: Sequence[RunRecord]) -> Html:
    """One line for each machine, set-up or version that runs were made with."""
    count: dict[str, int] = {}
    for run in runs:
        key = json.dumps(_place(run), sort_keys=True, default=str)
        count[key] = count.get(key, 0) + 1
    rows = [(*_machine(json.loads(place)).values(), number) for place, number in count.items()]
    return table((*_machine({}), "runs"), rows)


def machine_facts(run: RunRecord) -> Html:
    """The machine of one run."""
    return table(("made with", "what"), list(_machine(_place(run)).items()))


def machine_words(run: RunRecord) -> str:
    """The machine of one run in a sentence."""
    place, versions = run.environment, run.environment.get("versions")
    known = versions if isinstance(versions, dict) else {}
    words = [
        place.get("gpu") or place.get("cpu") or "an unknown machine",
        f"python {place['python']}" if "python" in place else "",
        *(f"{name} {known[name]}" for name in ("torch", "resel") if known.get(name)),
    ]
    return f"Made with {', '.join(str(word) for word in words if word)}."


def _place(run: RunRecord) -> dict[str, Any]:
    apart = ("parameter_groups", "starts")
    return {k: v for k, v in run.environment.items() if k not in apart}


def _machine(place: Mapping[str, Any]) -> dict[str, Cell]:
    memory, packages = place.get("memory_bytes"), place.get("versions")
    listed = packages.items() if isinstance(packages, dict) else ()
    return {
        "processor": _word(place.get("cpu")),
        "cores": _word(place.get("cores")),
        "memory": format_bytes(memory) if isinstance(memory, int) else None,
        "GPU": _word(place.get("gpu")),
        "device": _word(place.get("device")),
        # Of older runs, `threads` is what was asked for.
        "threads": _word(place.get("torch_threads", place.get("threads"))),
        "system": _word(place.get("platform")),
        "python": _word(place.get("python")),
        "packages": table_text(", ".join(f"{name} {v}" for name, v in listed if v is not None)),
    }


def _word(value: object) -> str | None:
    return None if value is None else str(value)


def parameter_groups(run: RunRecord) -> Html | None:
    """The parts of the networks with their sizes and learning rates, where recorded."""
    groups = run.environment.get("parameter_groups")
    known = [g for g in groups if isinstance(g, dict)] if isinstance(groups, list) else []
    if not known:
        return None
    keys = ("network", "group", "learning_rate", "parameters", "tensors")
    heads = ("network", "group", "learning rate", "parameters", "tensors")
    return table(heads, [[_cell(group.get(key)) for key in keys] for group in known])


def _cell(value: object) -> Cell:
    return value if isinstance(value, int | float) else _word(value)


def event_rows(run: RunRecord) -> list[list[Cell]]:
    """Step, what happened and what was said: events, numbers that are not finite, a bad end."""
    rows: list[list[Cell]] = [_event(line) for line in run.lines("event")]
    broken = run.first_broken()
    if broken is not None:
        step, names = broken
        rows.append([step, "not finite", f"the first time: {', '.join(names)}"])
    if not run.has_ended and run.status not in ("running", "no result yet"):
        said = run.result.get("fault")
        rows.append([run.steps, f"run {run.status}", str(said or "")])
    return rows


def _event(line: Mapping[str, Any]) -> list[Cell]:
    where = line.get("environment")
    more = [f"{key}: {value}" for key, value in line.items() if key not in _EVENT_WORDS]
    words = [str(line.get("message", "")), f"({where})" if where else "", "; ".join(more)]
    said = table_text(" ".join(word for word in words if word))
    if line.get("traceback"):
        said = Html(said.text + fold("traceback", code(str(line["traceback"]))).text)
    return [int(line["step"]), str(line.get("event", "event")), said]


def table_text(text: str) -> Html:
    """Running text in a cell, which may take several lines."""
    return Html(f'<div class="said">{escape(text)}</div>')


def experiment_block(experiment: Experiment) -> Html:
    """What experiment.json says: the words first, everything in a fold."""
    rows: list[tuple[str, Cell]] = [
        (key, table_text(str(experiment.data[key])))
        for key in ("name", "paper", "scale", "command")
        if isinstance(experiment.data.get(key), str | int | float)
    ]
    for key in ("files", "notes"):
        listed = experiment.data.get(key)
        if isinstance(listed, list) and listed:
            rows.append((key, table_text("; ".join(map(str, listed)))))
    everything = json.dumps(experiment.data, indent=2, ensure_ascii=False)
    return Html(
        table(("experiment", experiment.title), rows).text
        + fold("All of experiment.json", code(everything)).text
    )
