"""Every method learns something, on every space it declares."""

from __future__ import annotations

from typing import Any

import torch
from method_cases import every_case, recalls, small_config, told_env
from recall_tasks import SOLVED, STEPS, Sign

from resel import Agent
from resel.methods import Method

_STEPS = 1200
_EPISODES = 20
_QUICK: dict[str, Any] = {
    "lr_context_encoder": 3e-3,
    "lr_policy": 3e-3,
    "lr_critic": 3e-3,
    "lr_alpha": 1e-2,
    "gamma": 0.5,
    "tau": 0.02,
    "batch_steps": 128,
    "batch_transitions": 64,
    "batch_windows": 16,
    "batch_episodes": 12,
    "quantiles": 5,
    "n_layers": 1,
    "lr_embeddings": 3e-3,
    "lr_features": 3e-3,
    "lr_transition": 3e-3,
    "n_tasks": 2,
    "kernel_sharpness": 3.0,
    "diversity_weight": 1.0,
    "consistency_weight": 5.0,
    "context_length": STEPS,
    "feature_layers": 2,
    "lr_vae": 1e-2,
    "vae_every": 2,
    "vae_updates": 4,
    "vae_after": 0,
    "target_every": 50,
    "assessment_after": 0,
    "assessment_episodes": 8,
    "warmup_steps": 200,
    "updates_per_step": 0.5,
    "rollout_steps": 10,
    "phase_steps": 24,
    "batch_tasks": 2,
    "batch_context": 16,
    "inner_step": 0.03,
    "minibatches": 1,
    "entropy_coefficient": 0.0,
    "buffer_steps": 10_000,
    "max_episode_steps": STEPS,
    "eval_every": 0,
    "checkpoint_every": 0,
}
"""For whoever has these settings."""


@every_case
def test_it_learns(method: Method, space: str) -> None:
    config = small_config(method, 16)
    quick = {k: v for k, v in _QUICK.items() if k in config.flat()}
    if method.learner.on_policy:
        del quick["updates_per_step"]
    config = config.replace(**quick)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        env = told_env(method, lambda: Sign(space, hidden=recalls(config)))
        agent = Agent(env, config=config)
        untrained, _ = agent.evaluate(_EPISODES)
        agent.learn(_STEPS * (5 if method.learner.on_policy else 1))
        trained, _ = agent.evaluate(_EPISODES)
    finally:
        torch.set_num_threads(threads)
    assert trained > (untrained + SOLVED) / 2
