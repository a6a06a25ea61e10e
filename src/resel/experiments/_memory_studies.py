"""Tasks that ask for a memory, beside the numbers of others or at lengths never trained at."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from resel.choices import Scale
from resel.experiments._settings import Setting, Study
from resel.tasks import TaskSpec, get_task

_BRIEF: dict[str, Any] = {"steps": 3000, "eval_every": 1000, "checkpoint_every": 1500}
"""Enough to see that all of it runs."""

_LENGTHS = (20, 40, 200)
"""Of the T-maze; the first is that of the training."""

_WITHOUT_VELOCITIES = ("Pendulum-P-v0", "CartPole-P-v0", "MountainCarContinuous-P-v0")

_PRIVILEGED = ("Pendulum-V-v0", "CartPole-P-v0")
_UNTIL_LEARNED = {"steps": 12_000}
"""The question is when, not how well in the end."""

_PUBLISHED = (
    "RepeatPreviousEasy",
    "RepeatFirstEasy",
    "CountRecallEasy",
    "AutoencodeEasy",
    "PositionOnlyCartPoleEasy",
    "NoisyPositionOnlyCartPoleEasy",
    "MultiarmedBanditEasy",
    "HigherLowerEasy",
)
"""The easy tasks of POPGym that have a published number."""
_OTHERS = (
    "VelocityOnlyCartpoleEasy",
    "PositionOnlyPendulumEasy",
    "NoisyPositionOnlyPendulumEasy",
    "BattleshipEasy",
    "ConcentrationEasy",
    "MineSweeperEasy",
)
_HARDER = ("RepeatPreviousMedium",)
_TAPS = {"RepeatPreviousMedium": 40, "RepeatPreviousHard": 72}
"""Cards that are asked for 31 and 63 steps later, by a convolution that reaches them."""
_THREE_SEEDS = _PUBLISHED[:3]
"""Tasks with three seeds, and without a memory as well."""


def tmaze_study(scale: Scale) -> Study:
    """The T-maze of length 20 with two memories, which are then measured at greater lengths."""
    brief = scale == "smoke"
    settings = tuple(
        Setting("TMaze-v0", {**(_BRIEF if brief else {}), "encoder": encoder}, group)
        for encoder, group in (("gru", "RESeL-GRU"), ("mamba", "RESeL-Mamba"))
    )
    numbers = {"lengths": _LENGTHS, "episodes": 20 if brief else 100}
    return Study(settings, (1,) if brief else (1, 2, 3, 4, 5, 6), numbers=numbers)


def novel_study(scale: Scale) -> Study:
    """Classic control without velocities, at the steps of the tasks' presets."""
    brief = scale == "smoke"
    settings = tuple(Setting(task, _BRIEF if brief else {}) for task in _WITHOUT_VELOCITIES)
    numbers = {
        "thresholds": {task: _spec(task).threshold for task in _WITHOUT_VELOCITIES},
        "last_episodes": 5 if brief else 50,
        "best_episodes": 10 if brief else 100,
    }
    return Study(settings, (1,) if brief else (1, 2, 3, 4, 5), numbers=numbers)


def privileged_study(scale: Scale) -> Study:
    """A critic that reads what the policy does not see, beside one that reads the history alone."""
    brief = scale == "smoke"
    settings = tuple(
        Setting(task, {**(_BRIEF if brief else _UNTIL_LEARNED), **own}, group)
        for task in _PRIVILEGED
        for group, own in (
            ("critic told what is unseen", {"critic_observations": "task"}),
            ("history alone", {}),
        )
    )
    thresholds = {task: _spec(task).threshold for task in _PRIVILEGED}
    return Study(settings, (1,) if brief else (1, 2, 3), numbers={"thresholds": thresholds})


def popgym_study(scale: Scale) -> Study:
    """POPGym's easy tasks with one preset; all runs take all steps, as exploration ends late."""
    if scale == "smoke":
        settings = _popgym(_PUBLISHED[:1], ("mamba", "mlp"), (1,), _BRIEF)
        return Study(tuple(settings), (1,), numbers={"last_episodes": 10})
    every = tuple(
        setting
        for tasks, encoders, seeds in (
            (_THREE_SEEDS, ("mamba", "gru", "mlp"), (1, 2, 3)),
            (_PUBLISHED[len(_THREE_SEEDS) :], ("mamba", "gru"), (1,)),
            (_OTHERS, ("mamba",), (1,)),
            (_HARDER, ("mamba",), (1,)),
        )
        for setting in _popgym(tasks, encoders, seeds)
    )
    reaching = tuple(
        Setting(f"popgym-{name}-v0", {"conv_kernel": n}, f"mamba, {n} taps", seeds=(1,))
        for name, n in _TAPS.items()
    )
    return Study((*every, *reaching), (1, 2, 3), numbers={"last_episodes": 50})


def _popgym(
    names: Iterable[str],
    encoders: Iterable[str],
    seeds: tuple[int, ...],
    overrides: dict[str, Any] | None = None,
) -> Iterator[Setting]:
    for name in names:
        task = f"popgym-{name}-v0"
        base = overrides or {}
        for encoder in encoders:
            yield Setting(task, {**base, "encoder": encoder}, encoder, seeds=seeds)


def _spec(task: str) -> TaskSpec:
    spec = get_task(task)
    assert spec is not None
    return spec
