"""RecurrentPPO of sb3-contrib on a task of ours, in a process of its own.

Called as `python -m resel.benchmarks._recurrent_ppo TASK SEED THRESHOLD STEPS EVAL_EVERY
EVAL_EPISODES THREADS`; prints what it took as JSON. Environments, episodes of the evaluations and
the end are those of our own runs: the training ends once three evaluations in a row reach the
threshold.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np
import torch
from sb3_contrib import RecurrentPPO
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.logger import Logger
from stable_baselines3.common.vec_env import DummyVecEnv, VecNormalize
from torch import nn

from resel.tasks import make_env
from resel.training import evaluation_seeds, is_held

_COMMON: dict[str, Any] = {"environments": 8, "n_epochs": 10}
_OTHERS: dict[str, Any] = {"policy_kwargs": {"lstm_hidden_size": 64}}
"""Of tasks that nobody tuned it for."""


def _policy(memory: int, **own: Any) -> dict[str, Any]:
    return {
        "ortho_init": False,
        "lstm_hidden_size": memory,
        "enable_critic_lstm": True,
        "net_arch": {"pi": [64], "vf": [64]},
        **own,
    }


_TUNED: dict[str, dict[str, Any]] = {
    # What rl-baselines3-zoo says it tuned for the same tasks (PendulumNoVel-v1 and so on).
    "Pendulum": {
        "normalize": True,
        "environments": 4,
        "n_steps": 1024,
        "gae_lambda": 0.95,
        "gamma": 0.9,
        "learning_rate": 1e-3,
        "clip_range": 0.2,
        "use_sde": True,
        "sde_sample_freq": 4,
        "policy_kwargs": _policy(64, activation_fn=nn.ReLU),
    },
    "CartPole": {
        "normalize": True,
        "n_steps": 32,
        "batch_size": 256,
        "gae_lambda": 0.8,
        "gamma": 0.98,
        "n_epochs": 20,
        "learning_rate": lambda left: 1e-3 * left,
        "clip_range": lambda left: 0.2 * left,
        "policy_kwargs": _policy(64, activation_fn=nn.ReLU),
    },
    "MountainCarContinuous": {
        "normalize": True,
        "n_steps": 1024,
        "batch_size": 256,
        "gamma": 0.9999,
        "gae_lambda": 0.9,
        "learning_rate": 7.77e-5,
        "ent_coef": 0.00429,
        "clip_range": 0.1,
        "max_grad_norm": 5.0,
        "vf_coef": 0.19,
        "use_sde": True,
        "sde_sample_freq": 8,
        "policy_kwargs": _policy(32, log_std_init=0.0),
    },
}


class _Evaluations(BaseCallback):
    """Evaluates as our own runs do, and ends the training once the threshold is held."""

    def __init__(self, task: str, seed: int, threshold: float, every: int, episodes: int) -> None:
        super().__init__()
        self.history: list[tuple[int, float, float]] = []
        self._env = make_env(task, evaluation=True)
        self._seeds = evaluation_seeds(seed, episodes)
        self._threshold, self._every, self._due = threshold, every, every

    @property
    def solved(self) -> bool:
        return is_held(self._threshold, self.history)

    def _on_step(self) -> bool:
        if self.num_timesteps >= self._due:
            self._due += self._every
            returns = [self._play(seed) for seed in self._seeds]
            mean, deviation = float(np.mean(returns)), float(np.std(returns))
            self.history.append((self.num_timesteps, mean, deviation))
        return not self.solved

    def _play(self, seed: int) -> float:
        observation, _ = self._env.reset(seed=seed)
        state, total, starts, ended = None, 0.0, np.ones(1, bool), False
        while not ended:
            seen: Any = np.asarray(observation)[None]
            if isinstance(self.training_env, VecNormalize):
                seen = self.training_env.normalize_obs(seen)
            action, state = self.model.predict(seen, state, starts, deterministic=True)
            observation, reward, terminated, truncated, _ = self._env.step(action[0])
            starts, ended = np.zeros(1, bool), terminated or truncated
            total += float(reward)
        return total


def main(words: list[str]) -> None:
    """Train until solved or out of steps, and print what it took."""
    task, seed, threshold, steps, every, episodes, threads = words
    torch.set_num_threads(int(threads))
    own = next((values for name, values in _TUNED.items() if task.startswith(name)), _OTHERS)
    settings = {**_COMMON, **own}
    envs: Any = DummyVecEnv([_maker(task)] * settings.pop("environments"))
    if settings.pop("normalize", False):
        envs = VecNormalize(envs, gamma=settings["gamma"])
    model = RecurrentPPO("MlpLstmPolicy", envs, seed=int(seed), device="cpu", **settings)
    model.set_logger(Logger(None, []))  # its own makes a folder for nothing, and leaves it there
    evaluations = _Evaluations(task, int(seed), float(threshold), int(every), int(episodes))
    wall, processor = time.monotonic(), time.process_time()
    model.learn(int(steps), callback=evaluations)
    returns = [mean for _, mean, _ in evaluations.history]
    result = {
        "solved": evaluations.solved,
        "steps": model.num_timesteps,
        "minutes": (time.monotonic() - wall) / 60,
        "processor_minutes": (time.process_time() - processor) / 60,
        "last_return": returns[-1] if returns else None,
        "best_return": max(returns, default=None),
    }
    print(json.dumps(result))


def _maker(task: str) -> Callable[[], gymnasium.Env[Any, Any]]:
    return lambda: make_env(task)


if __name__ == "__main__":
    main(sys.argv[1:])
