"""check.npz: what a policy saw while it played, and what it did, to be done again elsewhere.

Glossary
    T steps, B rows, O observation, A action
"""

from __future__ import annotations

import io
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from resel.deploy._step import PolicyStep
from resel.envs import AnyEnv
from resel.errors import DamagedFileError
from resel.methods import Learner, Phase
from resel.networks import Categorical, PolicyDistribution
from resel.randomness import draw_seed
from resel.training import Actor, play

STEPS = 1000
_LONGEST = 300
"""Episodes are cut here, so that there are resets."""
_NEARLY, _APART_BY_ROUNDING = 5e-7, 2.5e-6
"""How far off observations are, and how far actions may then be."""
_APART = 137
"""Rows are the same episodes, each so many steps ahead of the one before."""


@dataclass(frozen=True)
class Vectors:
    """Inputs and outputs of steps that follow each other, first axis T, second B."""

    start: NDArray[np.bool_]
    """Where an episode begins: the state is zero there."""
    inputs: Mapping[str, NDArray[np.float32]]
    """obs and, where they are read, reward and noise."""
    outputs: Mapping[str, NDArray[Any]]
    """actions and, for Discrete ones, logits."""

    def to_bytes(self) -> bytes:
        """As a file of NumPy."""
        stream = io.BytesIO()
        expected = {f"expected_{name}": values for name, values in self.outputs.items()}
        arrays: dict[str, Any] = {"start": self.start, **self.inputs, **expected}
        np.savez_compressed(stream, **arrays)
        return stream.getvalue()

    @classmethod
    def from_bytes(cls, data: bytes, where: object) -> Vectors:
        """Back from a file; nothing in it can run."""
        try:
            with np.load(io.BytesIO(data), allow_pickle=False) as file:
                arrays = dict(file)
            outputs = {
                name.removeprefix("expected_"): arrays.pop(name)
                for name in list(arrays)
                if name.startswith("expected_")
            }
            return cls(arrays.pop("start"), arrays, outputs)
        except Exception as error:  # whatever a damaged archive leads to
            raise DamagedFileError(f"{where} cannot be read: {error}. Export again.") from error


def played(learner: Learner, env: AnyEnv, steps: int, longest: int | None) -> list[Any]:
    """Episodes of the policy, cut so that there are several: observations and rewards of each."""
    actor, rng, found = Actor(learner), np.random.default_rng(0), []
    phase = Phase(episodes=1, longest=min(longest or _LONGEST, max(1, min(_LONGEST, steps // 3))))
    taken = 0
    while taken < steps:
        one = play(actor, env, draw_seed(rng), phase=phase).trajectory
        seen = env.observation.numbers(one.observations[:-1])
        found.append((seen, np.r_[np.float32(0), one.rewards[:-1]]))
        taken += len(one.rewards)
    return found


def expected(learner: Learner, step: PolicyStep, episodes: list[Any], rows: int) -> Vectors:
    """What the policy does as the library runs it, after these observations and rewards."""
    start = np.concatenate([np.arange(len(o)) == 0 for o, _ in episodes])[:STEPS]
    obs, reward = (np.concatenate(each)[: len(start)] for each in zip(*episodes, strict=True))

    def laid_out(values: NDArray[Any]) -> NDArray[Any]:
        return np.stack([np.roll(values, -_APART * row, 0) for row in range(rows)], 1)

    begins = laid_out(start)
    begins[0] = True
    inputs = {"obs": laid_out(obs).astype(np.float32)}
    begins = steady(learner, begins, inputs["obs"], laid_out(reward).astype(np.float32))
    rewards = np.where(begins, np.float32(0), laid_out(reward).astype(np.float32))  # (T, B)
    if step.layout.reward:
        inputs["reward"] = rewards[..., None]
    if step.layout.stochastic:
        rng = np.random.default_rng(1)
        draw = rng.gumbel if step.layout.discrete else rng.normal
        inputs["noise"] = draw(size=(*begins.shape, step.layout.action)).astype(np.float32)
    found = acted(learner, step, begins, inputs, rewards)
    return Vectors(begins, inputs, found)


@torch.inference_mode()
def steady(
    learner: Learner,
    start: NDArray[np.bool_],
    obs: NDArray[np.float32],
    rewards: NDArray[np.float32],
) -> NDArray[np.bool_]:
    """Where episodes are to begin, so that rounding cannot grow into another action.

    Some memories amplify whatever is fed to them: after tens of steps, two runtimes that differ in
    the last bit do different things, and both are right. An episode begins anew where observations
    that are a few bits off have led to another action. (T, B)
    """
    actor, start, rows = Actor(learner), start.copy(), start.shape[1]
    rng = np.random.default_rng(2)
    off = _NEARLY * (np.abs(obs) + obs.std((0, 1))) * rng.choice([-1, 1], obs.shape)
    near = (obs + off).astype(np.float32)
    pairs = np.concatenate([obs, near], 1)  # (T, 2B, O)
    state = actor.initial_state(2 * rows)
    for t in range(len(start)):
        before = state
        for _ in range(2):  # once more from the start if they are apart
            begins = np.tile(start[t], 2)
            given = np.where(begins, np.float32(0), np.tile(rewards[t], 2))
            policy, state = actor.observe(pairs[t], given, before.reset(begins))
            action = actor.choose(policy, None)
            found = policy.log_probs if isinstance(policy, Categorical) else torch.tensor(action)
            one, other = found.cpu().numpy().reshape(2, rows, -1)
            apart = (np.abs(one - other) / np.maximum(np.abs(one), 1)).max(-1)
            far = ~(apart <= _APART_BY_ROUNDING) & ~start[t]
            if not far.any():
                break
            start[t] |= far
        state = actor.remember(state, action)
    return start


@torch.inference_mode()
def acted(
    learner: Learner,
    step: PolicyStep,
    start: NDArray[np.bool_],
    inputs: Mapping[str, NDArray[np.float32]],
    rewards: NDArray[np.float32],
) -> dict[str, NDArray[Any]]:
    """The outputs of the policy as the library runs it; `rewards` (T, B) are 0 at starts."""
    found: dict[str, list[NDArray[Any]]] = {"actions": [], "logits": []}
    actor = Actor(learner)
    state = actor.initial_state(start.shape[1])
    for t, begins in enumerate(start):
        policy, state = actor.observe(inputs["obs"][t], rewards[t], state.reset(begins))
        noise = torch.from_numpy(inputs["noise"][t]) if "noise" in inputs else None
        action = actor.choose(_noisy(policy, noise), None if _discrete(policy) else noise)
        state = actor.remember(state, action)
        found["actions"].append(step.units(torch.from_numpy(action).to(actor.device)).cpu().numpy())
        if isinstance(policy, Categorical):
            found["logits"].append(policy.log_probs.cpu().numpy())
    return {name: np.stack(values) for name, values in found.items() if values}


def _discrete(policy: PolicyDistribution) -> bool:
    return isinstance(policy, Categorical)


def _noisy(policy: PolicyDistribution, noise: torch.Tensor | None) -> PolicyDistribution:
    """A Discrete policy whose most likely action is the one that Gumbel noise draws."""
    if noise is None or not isinstance(policy, Categorical):
        return policy
    return Categorical(policy.log_probs + noise.to(policy.log_probs.device))
