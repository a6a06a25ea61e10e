"""The experiments on two CPU cores: small tasks and tiny networks, for minutes or for hours.

They show the same comparisons, not the paper's numbers. Rates are those of the small tasks' own
presets, which are larger than the paper's because so few updates are made.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from resel.agent import configure
from resel.experiments._paper_scale import GRAVITIES, PAIRS, SEEDS, of_figure, sensitivity
from resel.experiments._settings import Setting, Study
from resel.methods import default_method, get_method, preset_settings
from resel.tasks import get_task

_BRIEF: dict[str, Any] = {
    "steps": 5000,
    "batch_steps": 400,
    "warmup_steps": 500,
    "eval_every": 500,
    "eval_episodes": 5,
    "checkpoint_every": 2000,
    "log_every": 250,
}
_HOURS: dict[str, Any] = {"steps": 20_000}
_OF_RESEL = ("batch_steps", "warmup_steps")
"""What other methods have under another name, or choose otherwise."""
_DISCRETE = ("CartPole-V-v0", "TMaze-v0")
_PENDULUM, _CARTPOLE, _TMAZE = "Pendulum-V-v0", "CartPole-V-v0", "TMaze-v0"
_SEEN, _GRAVITY, _TWO_GOALS = "Pendulum-v1", "Pendulum-gravity-v0", "TwoGoals-v0"


def _others(
    figure: str, tasks: Sequence[str], base: Mapping[str, Any], **more: Any
) -> list[Setting]:
    """The methods a figure compares RESeL with, on those of the tasks they can act in."""
    own = {n: v for n, v in base.items() if n not in _OF_RESEL}
    return [
        Setting(task, {"size": "tiny", **own}, method.title, method=method.name, **more)
        for task in tasks
        for method in of_figure(figure)[1:]
        if task not in _DISCRETE or "Discrete" in method.spaces
    ]


def _pendulum_seen(base: Mapping[str, Any], seeds: tuple[int, ...]) -> tuple[Setting, ...]:
    """The fully observed pendulum is nobody's preset, so it takes that of the masked one."""
    spec = get_task(_PENDULUM)
    assert spec is not None
    ours = preset_settings(get_method(default_method()), _PENDULUM, "paper")
    world = {**spec.settings, **spec.hints, **base}
    others = _others("table-mdp", (_SEEN,), world, preset="small", seeds=seeds)
    return (Setting(_SEEN, {**ours, **base}), *others)


def _memory(length: int, overrides: Mapping[str, Any], seeds: tuple[int, ...]) -> list[Setting]:
    """The T-maze with and without a memory, in the place of Key-to-Door."""
    place: dict[str, Any] = {"panel": "T-maze", "x": length}
    ours = [
        Setting(_TMAZE, {**overrides, "encoder": encoder}, group, **place, seeds=kept)
        for encoder, group, kept in (("gru", "RESeL-GRU", None), ("mlp", "no memory", seeds))
    ]
    return ours + _others("fig-key-to-door", (_TMAZE,), overrides, **place, seeds=seeds)


def _rates_of_the_encoder(tasks: tuple[str, ...], base: Mapping[str, Any]) -> tuple[Setting, ...]:
    """The encoder at its own rate and at that of the policy, which is 3 to 10 times as large.

    The T-maze, where the factor is 10, takes more steps than the brief scale has.
    """
    return tuple(
        Setting(task, {**base, **values}, group)
        for task in tasks
        for group, values in (
            ("LR_CE specific", {}),
            ("LR_CE = LR_other", {"lr_context_encoder": configure(task).algorithm.lr_policy}),
        )
    )


def _studies(base: Mapping[str, Any], seeds: tuple[int, ...], quick: bool) -> dict[str, Study]:
    """All experiments with `base` on top of each task's settings."""
    both = (_PENDULUM, _CARTPOLE)
    steps = base["steps"]
    few = seeds[:1] if quick else seeds
    """Seeds of the methods that RESeL is compared with."""
    pomdp = [Setting(task, base) for task in both]
    pomdp += _others("fig-pomdp", both[:1] if quick else both, base, seeds=few)
    gravity = [Setting(_GRAVITY, base), *_others("fig-gravity", (_GRAVITY,), base, seeds=few)]
    meta = [Setting(_TWO_GOALS, base), *_others("fig-meta", (_TWO_GOALS,), base, seeds=few)]
    maze: dict[str, Any] = {"steps": 12_000} if quick else {**base}

    def compared(arms: Mapping[str, Mapping[str, Any]], more: Sequence[Setting] = ()) -> Study:
        settings = [
            Setting(task, {**base, **values}, group)
            for task in both
            for group, values in arms.items()
        ]
        return Study((*settings, *more), seeds)

    return {
        "fig-amplification": Study(
            (Setting(_PENDULUM, base),), seeds[:1], numbers={"pairs": PAIRS, "episodes": 20}
        ),
        "fig-lr-ablation": Study(
            _rates_of_the_encoder(both if quick else (_PENDULUM, _TMAZE), base), seeds
        ),
        "fig-pomdp": Study(tuple(pomdp), seeds),
        "table-pomdp": Study(tuple(pomdp), seeds),
        "fig-gravity": Study(tuple(gravity), seeds),
        "table-gravity": Study(tuple(gravity), seeds),
        "fig-meta": Study(tuple(meta), seeds),
        "fig-key-to-door": Study(tuple(_memory(20, maze, few)), seeds),
        "table-mdp": Study(
            _pendulum_seen(base, few),
            seeds,
            marks=(3 * steps // 10, 6 * steps // 10, steps),
        ),
        "fig-sensitivity": Study(
            sensitivity(
                _PENDULUM,
                ((3e-5, 3e-4, 1e-3), (1e-4, 1e-3, 4e-3), (3e-4, 1e-3)),
                (1e-3, 3e-4, 3e-5),
                **base,
            ),
            seeds[:1] if quick else seeds,
        ),
        "fig-encoders": compared(
            {"RESeL-Mamba": {}, "RESeL-GRU": {"encoder": "gru"}},
            _others("fig-encoders", both, base, seeds=few),
        ),
        # The preset of the cart has windows of its own.
        "fig-context-length": compared(
            {"whole trajectories": {"context_length": None}, "64 steps": {"context_length": 64}}
        ),
        "fig-tsne": Study(
            tuple(gravity[:1]), seeds[:1], numbers={"gravities": 10 if quick else GRAVITIES}
        ),
        "table-timing": Study(numbers={"size": "tiny" if quick else "small", "quick": quick}),
        "fig-length-timing": Study(numbers={"size": "tiny" if quick else "small", "quick": quick}),
    }


SMOKE: dict[str, Study] = _studies(_BRIEF, (1, 2), quick=True)
CPU: dict[str, Study] = _studies(_HOURS, (1, 2, 3), quick=False)
CPU["fig-lr-ablation"] = Study(CPU["fig-lr-ablation"].settings, SEEDS)
