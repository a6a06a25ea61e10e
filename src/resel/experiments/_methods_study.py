"""Every method of ours on the pendulum: with all of it seen, with the angle or the gravity hidden.

Methods without a memory are tried on the first two, where they must succeed and fail; the others
where the angle is hidden, those that need to be told what differs between tasks under a gravity.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from resel.experiments._settings import Scale, Setting, Study
from resel.methods import Method, own_methods
from resel.tasks import get_task

_HIDDEN, _SEEN, _TOLD = "Pendulum-V-v0", "Pendulum-v1", "Pendulum-gravity-v0"
_STEPS: dict[Scale, int] = {"smoke": 3000, "cpu": 12_000, "paper": 12_000}
_WORLD: dict[str, Any] = {"size": "tiny", "checkpoint_every": 4000}


def _settings(method: Method, steps: int) -> Iterator[Setting]:
    spec = get_task(_HIDDEN)
    assert spec is not None
    # The fully observed pendulum is nobody's preset, so it takes what is said of the masked one.
    world = {**spec.settings, **spec.hints, **_WORLD, "steps": steps}
    tasks = (_HIDDEN,) if method.encoder is not None else (_SEEN, _HIDDEN)
    tasks = (_TOLD,) if method.learner.learns_from else tasks
    for task in tasks:
        yield Setting(task, world, method.title, method=method.name, preset="small")


def methods_study(scale: Scale) -> Study:
    """All methods, two seeds."""
    settings = [s for method in own_methods() for s in _settings(method, _STEPS[scale])]
    return Study(tuple(settings), (1, 2) if scale != "smoke" else (1,))
