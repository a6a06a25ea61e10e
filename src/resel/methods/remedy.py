"""Which learning rate to lower when training has diverged."""

from __future__ import annotations

import dataclasses
from typing import Any

from resel.methods.base import Learner
from resel.methods.registry import get_method
from resel.networks import encoder_spec
from resel.tasks import get_task

_FAR = 3.0
"""Times the highest rate of the method's presets at which a rate is the first to be blamed."""


def remedy(learner: Learner, network: str = "critic") -> str:
    """What to try first, given the network that diverged."""
    rates, usual = _rates(vars(learner.settings)), _usual_rates(learner)
    times = {name: rate / usual[name] for name, rate in rates.items() if name in usual}
    highest = max(times, key=lambda name: times[name], default="")
    if highest and times[highest] >= _FAR:
        return (
            f"{highest}={rates[highest]:g} is {times[highest]:,.0f} times the highest of the "
            f"method's presets ({usual[highest]:g}): a smaller one is the first thing to try."
        )
    name, encoder = f"lr_{network}", learner.config.encoder
    if encoder is not None and encoder_spec(encoder).memory and learner.auto_rate is None:
        if "lr_context_encoder" not in rates and name in rates:
            return (
                f"The memory learns at the rate of the other layers ({name}={rates[name]:g}): a "
                "smaller lr_context_encoder is the first thing to try."
            )
        name = "lr_context_encoder"
    now = f" than {rates[name]:g}" if name in rates else ""
    return f"A smaller {name}{now} is the first thing to try."


def _rates(settings: Any) -> dict[str, float]:
    return {
        name: value
        for name, value in settings.items()
        if name.startswith("lr_") and type(value) in (int, float)
    }


def _usual_rates(learner: Learner) -> dict[str, float]:
    """The highest that the method's defaults and presets have for the task."""
    method, task = get_method(learner.config.method), get_task(learner.config.task)
    found = [_rates(dataclasses.asdict(method.settings()))]
    found += [_rates(method.preset(task, n) or {}) for n in ("paper", "released", "small")]
    names = {name for rates in found for name in rates}
    return {name: max(rates[name] for rates in found if name in rates) for name in names}
