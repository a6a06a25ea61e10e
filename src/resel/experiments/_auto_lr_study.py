"""LR_CE that finds itself, against rates chosen by hand."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from resel.choices import Scale
from resel.experiments._settings import Setting, Study

_LONG_TASK = "HalfCheetahBLT-V-v0"
"""Where every episode has 1,000 steps: the longest that an encoder is trained on here."""
_LONG: dict[str, Any] = {
    "batch_steps": 1000,
    "warmup_steps": 2000,
    "eval_every": 1000,
    "eval_episodes": 5,
    "checkpoint_every": 5000,
    # The paper's order of the three, each faster: there are a hundredth of its updates.
    "lr_policy": 1e-3,
    "lr_critic": 3e-3,
    "lr_alpha": 1e-3,
}
_SPECIFIC = 1e-4
_BRIEF_TASK = "CartPole-P-v0"
"""In its place where there are minutes."""
_TASKS = ("Pendulum-V-v0", "popgym-RepeatPreviousEasy-v0")
"""Where rates and starts are varied."""
_FIXED = (3e-5, 3e-4, 1e-3)
_STARTS = (1e-5, 1e-3)
_STEPS = 20_000
_BRIEF: dict[str, Any] = {"steps": 3000, "eval_every": 500, "checkpoint_every": 1500}


def auto_lr_study(scale: Scale) -> Study:
    """A network of some size where episodes are long, then the usual ones on two tasks."""
    if scale == "smoke":
        arms = _long(_BRIEF_TASK, {**_BRIEF, "size": "tiny"}, {}, (1,))
        return Study((*arms, *_varied(_TASKS[0], _BRIEF, (1,))), (1,))
    base = {"steps": _STEPS}
    specific = {"lr_context_encoder": _SPECIFIC}
    settings = [*_long(_LONG_TASK, {**base, **_LONG, "size": "small"}, specific, (1, 2, 3, 4))]
    for task in _TASKS:
        settings += _varied(task, base, (1, 2, 3))
    return Study(tuple(settings), (1, 2, 3, 4))


def _long(
    task: str, base: Mapping[str, Any], specific: Mapping[str, Any], seeds: tuple[int, ...]
) -> Iterator[Setting]:
    """A rate of its own (the preset's if `specific` names none), that of the others, and auto."""
    for group, values in (
        ("LR_CE specific", specific),
        ("LR_CE = LR_other", {"lr_context_encoder": None}),
        ("LR_CE auto", {"lr_context_encoder": "auto"}),
    ):
        panel = f"{task}, {base['size']} network"
        yield Setting(task, {**base, **values}, group, panel, seeds=seeds)


def _varied(task: str, base: Mapping[str, Any], seeds: tuple[int, ...]) -> Iterator[Setting]:
    for rate in _FIXED:
        fixed = {**base, "lr_context_encoder": rate}
        yield Setting(task, fixed, f"LR_CE = {rate:g}", seeds=seeds)
    for start in _STARTS:
        steered = {**base, "lr_context_encoder": "auto", "auto_lr_start": start}
        yield Setting(task, steered, f"LR_CE auto from {start:g}", seeds=seeds)
