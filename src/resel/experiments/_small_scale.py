"""The experiments on two CPU cores: small tasks and tiny networks, for minutes or for hours.

They show the same comparisons, not the paper's numbers. Rates are those of the small tasks' own
presets, which are larger than the paper's because so few updates are made.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from resel.agent import configure
from resel.experiments._paper_scale import GRAVITIES, PAIRS, SEEDS, sensitivity
from resel.experiments._settings import Setting, Study
from resel.methods import default_method, get_method, preset_settings

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
_RATES = {"lr_context_encoder": 3e-4, "lr_policy": 1e-3, "lr_critic": 3e-3, "lr_alpha": 3e-3}
_TINY: dict[str, Any] = {
    "size": "tiny",
    **_RATES,
    "gamma": 0.97,
    "tau": 0.01,
    "warmup_steps": 1000,
    "eval_every": 1000,
    "checkpoint_every": 5000,
    "buffer_steps": 100_000,
}
"""For tasks whose own preset is the paper's."""
_PENDULUM, _CARTPOLE, _TMAZE = "Pendulum-V-v0", "CartPole-V-v0", "TMaze-v0"
_SEEN = {**preset_settings(get_method(default_method()), _PENDULUM, "paper")}
"""The fully observed pendulum is nobody's preset, so it takes that of the masked one."""


def _memory(length: int, **overrides: Any) -> tuple[Setting, ...]:
    """The T-maze with and without a memory, in the place of Key-to-Door."""
    return tuple(
        Setting(_TMAZE, {**overrides, "encoder": encoder}, group, "T-maze", length)
        for encoder, group in (("gru", "RESeL-GRU"), ("mlp", "no memory"))
    )


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
    pomdp = Study(tuple(Setting(task, base) for task in both), seeds)
    gravity_settings = {
        **_TINY,
        **base,
        "batch_steps": 1000,
        "steps": steps // 2 if quick else steps,
    }
    gravity = Study((Setting("HalfCheetah-gravity-v0", gravity_settings),), seeds)

    def compared(other: str, changed: Mapping[str, Any], ours: str) -> Study:
        settings = [
            Setting(task, {**base, **values}, group)
            for task in both
            for group, values in ((ours, {}), (other, changed))
        ]
        return Study(tuple(settings), seeds)

    return {
        "fig-amplification": Study(
            (Setting(_PENDULUM, base),), seeds[:1], numbers={"pairs": PAIRS, "episodes": 20}
        ),
        "fig-lr-ablation": Study(
            _rates_of_the_encoder(both if quick else (_PENDULUM, _TMAZE), base), seeds
        ),
        "fig-pomdp": pomdp,
        "table-pomdp": pomdp,
        "fig-gravity": gravity,
        "table-gravity": gravity,
        "fig-meta": Study(
            (Setting("Wind-v0", {**_TINY, "reward_input": True, **base}),),
            seeds,
        ),
        "fig-key-to-door": Study(_memory(20, **({"steps": 12_000} if quick else base)), seeds),
        "table-mdp": Study(
            (Setting("Pendulum-v1", {**_SEEN, **base}),),
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
        "fig-encoders": compared("RESeL-GRU", {"encoder": "gru"}, "RESeL-Mamba"),
        "fig-context-length": compared("64 steps", {"context_length": 64}, "whole trajectories"),
        "fig-tsne": Study(
            gravity.settings, seeds[:1], numbers={"gravities": 10 if quick else GRAVITIES}
        ),
        "table-timing": Study(numbers={"size": "tiny" if quick else "small", "quick": quick}),
        "fig-length-timing": Study(numbers={"size": "tiny" if quick else "small", "quick": quick}),
    }


SMOKE: dict[str, Study] = _studies(_BRIEF, (1, 2), quick=True)
CPU: dict[str, Study] = _studies(_HOURS, (1, 2, 3), quick=False)
CPU["fig-lr-ablation"] = Study(CPU["fig-lr-ablation"].settings, SEEDS)
