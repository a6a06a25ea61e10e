"""Every method of ours on the pendulum: with all of it seen, and with the angle hidden.

Methods without a memory are tried on both, where they must succeed and fail; the others where the
angle is hidden. Those that must be told what changes are tried where gravity does.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from resel.experiments._settings import Scale, Setting, Study
from resel.methods import Method, own_methods
from resel.tasks import get_task

_HIDDEN, _SEEN, _CHANGING = "Pendulum-V-v0", "Pendulum-v1", "Pendulum-gravity-v0"
_STEPS: dict[Scale, int] = {"smoke": 3000, "cpu": 12_000, "paper": 12_000}
_WORLD: dict[str, Any] = {"size": "tiny", "checkpoint_every": 4000}


def _settings(method: Method, steps: int) -> Iterator[Setting]:
    if method.needs_told:
        world = {**_WORLD, "steps": steps}
        yield Setting(_CHANGING, world, method.title, method=method.name, preset="small")
        return
    spec = get_task(_HIDDEN)
    assert spec is not None
    # The fully observed pendulum is nobody's preset, so it takes what is said of the masked one.
    world = {**spec.settings, **spec.hints, **_WORLD, "steps": steps}
    tasks = (_HIDDEN,) if method.encoder is not None else (_SEEN, _HIDDEN)
    for task in tasks:
        yield Setting(task, world, method.title, method=method.name, preset="small")


def methods_study(scale: Scale) -> Study:
    """All methods, two seeds."""
    settings = [s for method in own_methods() for s in _settings(method, _STEPS[scale])]
    return Study(tuple(settings), (1, 2) if scale != "smoke" else (1,))
