"""RESeL's settings task by task: the paper's table, the released code's, and those of small tasks.

`paper` is the default. `released` is what the scripts of the released code run, where they differ.
`small` is for a training of minutes on any task.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from resel.tasks import TaskSpec

Settings = dict[str, Any]

_SLOW: Settings = {"lr_context_encoder": 2e-6, "lr_policy": 6e-5, "lr_critic": 2e-4}
"""The paper's learning rates on MuJoCo and meta-RL tasks."""
_FAST: Settings = {"lr_context_encoder": 1e-5, "lr_policy": 3e-4, "lr_critic": 1e-3}
"""The paper's learning rates on all other tasks."""
_COMMON: Settings = {
    "gamma": 0.99,
    "warmup_steps": 5000,
    "lr_alpha": 1e-4,
    "clamp_target_values": True,  # not in the paper, but its numbers were made with it
}
_PAPER: dict[str, Settings] = {
    "classic POMDP": {**_COMMON, **_FAST, "batch_steps": 2000},
    "gravity": {**_COMMON, **_FAST, "batch_steps": 1000},
    "meta-RL": {**_COMMON, **_SLOW, "batch_steps": 1000, "reward_input": True},
    "credit assignment": {
        **_COMMON,
        **_FAST,
        "batch_steps": 1000,
        "gamma": 0.9999,
        "conv_kernel": 0,
        "feed_forward": False,
        "input_layers": 3,
        # The paper's table gives this task a target entropy that Discrete actions cannot have; no
        # script of the released code runs it, but its discrete method has these.
        "alpha": 0.2,
        "probability_floor": 0.01,
    },
    "MDP": {**_COMMON, **_SLOW, "batch_steps": 1000},
}
"""By family."""
_PAPER_TASKS: dict[str, Settings] = {
    "KeyToDoor-500-v0": {"n_layers": 4},
    "Hopper-v2": {"target_entropy_scale": 0.0},
}

_RELEASED_EVALUATION: Settings = {"eval_every": 1000, "eval_episodes": 5}
"""How often the released code evaluates; the paper does not say."""
_RELEASED_GRAVITIES: Settings = {"tasks": 120, "train_tasks": 100, "task_seed": "seed"}
_RELEASED: dict[str, Settings] = {
    "classic POMDP": {**_RELEASED_EVALUATION, "batch_steps": 1999},
    "gravity": {
        **_RELEASED_EVALUATION,
        **_SLOW,
        "batch_steps": 999,
        "env_kwargs": _RELEASED_GRAVITIES,
    },
    "meta-RL": {**_RELEASED_EVALUATION, "batch_steps": 999},
    "credit assignment": {},
    "MDP": {**_RELEASED_EVALUATION, "batch_steps": 1999},
}
_RELEASED_DETAILS: Settings = {"released_details": True, "initialisation": "xavier"}
_RELEASED_TASKS: dict[str, Settings] = {
    "AntBLT-V-v0": {"batch_steps": 128, "lr_policy": 5e-4, "lr_critic": 5e-4},
    "WalkerBLT-P-v0": {"lr_context_encoder": 5e-6},
    "Hopper-gravity-v0": {"target_entropy_scale": 0.0},
    "Humanoid-gravity-v0": {"env_kwargs": {**_RELEASED_GRAVITIES, "limit": 2.0}},
    "HalfCheetah-v2": _FAST,
}

_SMALL: Settings = {
    "size": "tiny",
    "lr_context_encoder": 3e-4,
    "lr_policy": 1e-3,
    "lr_critic": 3e-3,
    "lr_alpha": 3e-3,
    "tau": 0.01,
    "batch_steps": 400,
    "warmup_steps": 1000,
}
_SETTLING: Settings = {"lr_final_scale": 0.1}
"""Where all is learned in the first half of the steps: the second is for what holds."""
_TRYING: Settings = {
    "critic_entropy": False,
    "policy_kl": "forward",
    "critic_episodes": 0.5,
    "deviation_episodes": 0.25,
}
"""Discrete actions: a policy that is sure goes on trying."""
_LOUD: Settings = {
    # A cart that balances sees nothing else any more, forgets what it is that it avoids, and
    # falls. Some episodes that push it about at random go on showing that.
    "exploration_epsilon": 1.0,
    "noise_hold": 15,
    **_TRYING,
    # What a push leads to is the end of the track, a hundred steps ahead.
    "gamma": 0.99,
    "td_lambda": 0.9,
    # A batch of whole episodes would hold a single one of those that balance.
    "context_length": 125,
    "batch_steps": 500,
    "reward_scale": 1.0,
    "normalize_rewards": True,
    **_SETTLING,
}
"""As the preset `auto` chooses for episodes of 500 steps and Discrete actions."""
_SMALL_TASKS: dict[str, Settings] = {
    "CartPole-P-v0": _LOUD,
    "CartPole-V-v0": _LOUD,
    # A batch of 400 steps would hold two episodes, and the targets would jump from batch to batch.
    "Pendulum-P-v0": {"context_length": 64, **_SETTLING},
    # A car that is pushed one way or the other for a second at a time gets up the hill by chance.
    "MountainCarContinuous-P-v0": {"noise_hold": 32, **_SETTLING},
    "TMaze-v0": {
        "encoder": "gru",
        "tau": 0.005,
        "lr_alpha": 1e-2,
        "target_entropy_scale": 0.2,
        "batch_steps": 420,
        # The critic knows after some thousand steps that the turn it knows pays for one cue alone;
        # the policy, for which all turns are then worth the same, does not learn the cue from that.
        **_TRYING,
    },
}
_SMALL_FAMILIES: dict[str, Settings] = {
    # Mazes with a cue as well, but one that is met only by turning round.
    "MiniGrid": {
        **_SMALL_TASKS["TMaze-v0"],
        "warmup_steps": 3000,
        "critic_episodes": 0.25,
        "exploration_epsilon": 1.0,
        "noise_hold": 4,
    },
}


_POPGYM: Settings = {
    # As many episodes are needed with a quarter of the updates.
    "updates_per_step": 0.25,
    # What counts are the episodes of the training itself (MMER).
    "exploration_fraction": 0.6,
    **_SETTLING,
}
_CHOOSING: Settings = {**_TRYING, "exploration_epsilon": 1.0}


def _popgym(task: TaskSpec) -> Settings:
    """One preset for all worlds, but for what tells control from cards, arms and boards.

    Where something moves it is as `auto` chooses, but for whole episodes: random pushes are to
    add up, and what they lead to lies ahead. Where every step is a new guess neither helps.
    """
    box = "Pendulum" in task.id
    settings = {**_POPGYM, **({} if box else _CHOOSING)}
    if "normalize_observations" not in task.hints:  # cards, arms, boards
        return settings
    return {
        **settings,
        **({} if box else {"td_lambda": 0.9}),
        "noise_hold": max(1, task.horizon // 32),
        "batch_steps": min(4 * task.horizon, 2000),
    }


def _own_settings(task: TaskSpec) -> Settings:
    """What is known of a small task beyond its family."""
    if task.family == "POPGym":
        return _popgym(task)
    return _SMALL_TASKS.get(task.id) or _SMALL_FAMILIES.get(task.family, {})


def preset(task: TaskSpec | None, name: str) -> Mapping[str, Any] | None:
    """The settings of a task that the preset `name` brings; None if there is no such preset."""
    if task is None:
        return {"paper": {}, "small": _SMALL}.get(name)
    small = _own_settings(task)
    if name == "small":
        return {**_SMALL, **task.hints, **small}
    own = _PAPER_TASKS.get(task.id) or small
    paper = {**_PAPER.get(task.family, _SMALL), **task.hints, **own}
    if name == "paper":
        return paper
    if name == "released" and task.family in _RELEASED:
        own = _RELEASED_TASKS.get(task.id, {})
        return {**paper, **_RELEASED_DETAILS, **_RELEASED[task.family], **own}
    return None
