"""Every method of ours, where it can show what it is made for.

Those with a memory learn the pendulum whose angle is hidden; those without one learn it too, and
the pendulum that is seen, where they must fail and succeed. What the paper compares under changing
gravity or in trials of several episodes is tried on the small relatives of those tasks. Cards are
repeated by RESeL, another memory and a method without one. On-policy methods are given their steps
twice: as many as the others, and as many as take the processor as long as RESeL.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from resel.choices import Scale
from resel.experiments._settings import Setting, Study
from resel.methods import Method, default_method, own_methods
from resel.tasks import get_task

_HIDDEN, _SEEN = "Pendulum-V-v0", "Pendulum-v1"
_CARDS, _ON_CARDS = "popgym-RepeatPreviousEasy-v0", ("resel", "sac-gru", "sac-mlp")
_BY_FIGURE = {"fig-gravity": "Pendulum-gravity-v0", "fig-meta": "TwoGoals-v0"}
_STEPS: dict[Scale, int] = {"smoke": 3000, "cpu": 15_000, "paper": 15_000}
_WORLD: dict[str, Any] = {"size": "tiny", "checkpoint_every": 5000}
_EQUAL_TIME, _USUAL_FACTOR = {"a2c-gru": 95, "varibad": 50, "promp": 70}, 20
"""How many times RESeL's steps take an on-policy method about as long on the processor, evaluations
with them, as these runs show it."""
_LONG_EVALUATIONS = 20
_SAID_BY_THIS = "Pendulum-gravity-v0"
"""Its threshold was taken from these runs, so they are judged by what they show themselves."""
_LR_TASK, _LR_OWN = _HIDDEN, 3e-4


def _tasks(method: Method) -> Iterator[str]:
    """Where a method is tried."""
    own = [task for figure, task in _BY_FIGURE.items() if figure in method.figures]
    if not method.learner.learns_from:
        yield _HIDDEN
        if method.name in _ON_CARDS:
            yield _CARDS
        if not method.memory:
            yield _SEEN
    yield from own


def _settings(method: Method, steps: int) -> Iterator[Setting]:
    for task in _tasks(method):
        # The fully observed pendulum is nobody's preset, so it takes what is said of the other.
        spec = get_task(_HIDDEN if task == _SEEN else task)
        assert spec is not None
        world = {**spec.settings, **(spec.hints if task == _SEEN else {}), **_WORLD}
        named: dict[str, Any] = {"method": method.name, "preset": "small"}
        yield Setting(task, {**world, "steps": steps}, method.title, **named)
        if task == _HIDDEN and method.name == default_method():  # as some of the others do
            reading = {**world, "steps": steps, "reward_input": True}
            yield Setting(task, reading, f"{method.title}, reading rewards", **named)
        if method.learner.on_policy and steps == _STEPS["cpu"]:
            longer = {**world, "steps": _EQUAL_TIME.get(method.name, _USUAL_FACTOR) * steps}
            longer["eval_every"] = longer["steps"] // _LONG_EVALUATIONS
            yield Setting(task, longer, method.title, _at_length(task), **named)


def _at_length(task: str) -> str:
    """Where on-policy methods are drawn that were given as much time."""
    return f"{task}, equal processor time"


def methods_study(scale: Scale) -> Study:
    """All methods, two seeds."""
    settings = [s for method in own_methods() for s in _settings(method, _STEPS[scale])]
    specs = [get_task(setting.task) for setting in settings]
    thresholds = {
        place: None if spec.id == _SAID_BY_THIS else spec.threshold
        for spec in specs
        if spec is not None
        for place in (spec.id, _at_length(spec.id))
    }
    judged_by = {_at_length(spec.id): spec.id for spec in specs if spec is not None}
    seeds = (1, 2) if scale != "smoke" else (1,)
    numbers = {"thresholds": thresholds, "judged_by": judged_by}
    return Study(tuple(settings), seeds, numbers=numbers)


def others_rates_study(scale: Scale) -> Study:
    """A rate of its own for the encoder of other methods, on whole trajectories and on windows."""
    base: dict[str, Any] = {**_WORLD, "steps": _STEPS[scale]}
    lines: tuple[tuple[str, str | None, dict[str, Any]], ...] = (
        ("SAC-GRU", "sac-gru", {}),
        ("MF-RNN", "mf-rnn", {}),
        ("RESeL with GRU", None, {"encoder": "gru"}),
        ("RESeL with GRU, windows of 64", None, {"encoder": "gru", "context_length": 64}),
    )
    settings = tuple(
        Setting(_LR_TASK, {**base, **own, "lr_context_encoder": rate}, group, panel, method=method)
        for panel, method, own in lines
        for group, rate in ((f"LR_CE = {_LR_OWN:g}", _LR_OWN), ("LR_CE = LR_other", None))
    )
    return Study(settings, (1, 2, 3) if scale != "smoke" else (1,))
