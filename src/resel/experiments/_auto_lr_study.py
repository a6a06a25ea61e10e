"""LR_CE that finds itself, against rates chosen by hand."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from resel.choices import Scale
from resel.experiments._settings import Setting, Study

_LONG_TASK = "Pendulum-V-v0"
_LONG: dict[str, Any] = {
    "size": "small",
    "encoder": "gru",
    # The task's own are of 200 steps, in which little is amplified.
    "max_episode_steps": 500,
    "batch_steps": 1000,
    "updates_per_step": 0.5,
}
_TASKS = ("Pendulum-V-v0", "popgym-RepeatPreviousEasy-v0")
"""Where rates and starts are varied."""
_FIXED = (3e-5, 3e-4, 1e-3)
_STARTS = (1e-5, 1e-3)
_STEPS = 20_000
_BRIEF: dict[str, Any] = {"steps": 3000, "eval_every": 500, "checkpoint_every": 1500}


def auto_lr_study(scale: Scale) -> Study:
    """A network of some size where episodes are long, then the usual ones on two tasks."""
    if scale == "smoke":
        arms = _long({**_LONG, **_BRIEF, "size": "tiny"}, (1,))
        return Study((*arms, *_varied(_TASKS[0], _BRIEF, (1,))), (1,))
    base = {"steps": _STEPS}
    settings = [*_long({**_LONG, **base}, (1, 2, 3, 4))]
    for task in _TASKS:
        settings += _varied(task, base, (1, 2, 3))
    return Study(tuple(settings), (1, 2, 3, 4))


def _long(base: Mapping[str, Any], seeds: tuple[int, ...]) -> Iterator[Setting]:
    """A rate of its own, the preset's; that of the others; and auto."""
    for group, values in (
        ("LR_CE specific", {}),
        ("LR_CE = LR_other", {"lr_context_encoder": None}),
        ("LR_CE auto", {"lr_context_encoder": "auto"}),
    ):
        panel = f"{_LONG_TASK}, {base['max_episode_steps']} steps, {base['size']} network"
        yield Setting(_LONG_TASK, {**base, **values}, group, panel, seeds=seeds)


def _varied(task: str, base: Mapping[str, Any], seeds: tuple[int, ...]) -> Iterator[Setting]:
    for rate in _FIXED:
        fixed = {**base, "lr_context_encoder": rate}
        yield Setting(task, fixed, f"LR_CE = {rate:g}", seeds=seeds)
    for start in _STARTS:
        steered = {**base, "lr_context_encoder": "auto", "auto_lr_start": start}
        yield Setting(task, steered, f"LR_CE auto from {start:g}", seeds=seeds)
