"""What the paper's tasks have in common: its table of hyperparameters, and the released code's."""

from __future__ import annotations

from typing import Any

_EVALUATION: dict[str, Any] = {"eval_every": 5000, "eval_episodes": 5}
_COMMON: dict[str, Any] = {
    "gamma": 0.99,
    "warmup_steps": 5000,
    "lr_alpha": 1e-4,
    "clamp_target_values": True,  # not in the paper, but its numbers were made with it
    **_EVALUATION,
}

SLOW_RATES: dict[str, Any] = {"lr_context_encoder": 2e-6, "lr_policy": 6e-5, "lr_critic": 2e-4}
"""The paper's learning rates on MuJoCo and meta-RL tasks."""
FAST_RATES: dict[str, Any] = {"lr_context_encoder": 1e-5, "lr_policy": 3e-4, "lr_critic": 1e-3}
"""The paper's learning rates on all other tasks."""
RELEASED_EVALUATION: dict[str, Any] = {"eval_every": 1000, "eval_episodes": 5}
"""How often the released code evaluates; the paper does not say."""


def paper(steps: int, rates: dict[str, Any], batch_steps: int, **more: Any) -> dict[str, Any]:
    """The settings of one task."""
    return {**_COMMON, **rates, "steps": steps, "batch_steps": batch_steps, **more}
