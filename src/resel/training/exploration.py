"""How collecting departs from the policy: drawn anew for each episode, kept for some steps.

A policy that is nearly sure in a long corridor never finds out what lies at its end: one that is
random at every step does not get there, and one that follows its own entropy spends it on the way.
For Discrete actions an episode can have a strength of its own (a near-greedy episode beside a loud
one), be greedy but for a single random step, or follow a head of the critic, which knows what pays
long before the policy does. For Box actions noise can be held, so that it adds up instead of
averaging out. All of it can come to an end: a growing share of the episodes is then greedy.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from resel.config import TrainingConfig
from resel.envs import AnyEnv
from resel.errors import ConfigError
from resel.methods import Learner
from resel.networks import PolicyDistribution
from resel.randomness import numpy_state, numpy_stream, restore_numpy
from resel.training.actor import Actor, CriticActor

_NEVER = -1
_NOT_AT_ALL = 2**31
"""The moment of a deviation that no episode gets to."""


class Exploration:
    """What the episodes under way do besides following the policy; one row per environment."""

    def __init__(self, settings: TrainingConfig, envs: Sequence[AnyEnv]) -> None:
        self._epsilon = settings.exploration_epsilon
        self._deviating, self._by_critic = settings.deviation_episodes, settings.critic_episodes
        self._longest_hold = settings.noise_hold
        self._fraction = settings.exploration_fraction
        self.at(0.0)
        self._discrete = envs[0].action.discrete
        self._envs = envs
        self._rng = numpy_stream(settings.seed, "exploration-episodes")
        rows, size = len(envs), envs[0].action.stored_size
        self._strength = np.zeros(rows)
        # Of the one deviation; the rest is then greedy, and all of it without one.
        self._moment = np.full(rows, _NEVER)
        self._head = np.full(rows, _NEVER)  # of the critic that is followed
        self._length = np.zeros(rows, np.int64)  # of the last episode
        self._left = np.zeros(rows, np.int64)  # steps for which noise is still held
        self._held = np.zeros((rows, size), np.float32)
        self._held_is_action = np.zeros(rows, np.bool_)

    @classmethod
    def of(cls, settings: TrainingConfig, envs: Sequence[AnyEnv]) -> Self | None:
        """As the settings have it; None where the policy alone explores."""
        discrete = envs[0].action.discrete
        for name in ("exploration_epsilon", "deviation_episodes", "critic_episodes"):
            if (value := getattr(settings, name)) and not discrete:
                raise ConfigError(
                    f"{name}={value} is for Discrete actions, and the actions here are Box: "
                    "leave it out."
                )
        asked = settings.exploration_epsilon or settings.deviation_episodes
        asked = asked or settings.critic_episodes or settings.noise_hold > 1
        asked = asked or settings.exploration_fraction is not None
        return cls(settings, envs) if asked else None

    def actor(self, learner: Learner) -> Actor | None:
        """What acts, if the learner's usual actor does not know enough."""
        if learner.on_policy:
            departs = {
                "exploration_epsilon": self._epsilon or None,
                "deviation_episodes": self._deviating or None,
                "noise_hold": self._longest_hold if self._longest_hold > 1 else None,
                "exploration_fraction": self._fraction,
            }
            for name, value in departs.items():
                if value is not None:
                    raise ConfigError(
                        f"{name}={value} has episodes played otherwise than the policy would, and "
                        f"{learner.config.method} learns from what its policy draws alone: leave "
                        "it out."
                    )
        if not self._by_critic:
            return None
        if learner.temperature is None:
            raise ConfigError(
                f"critic_episodes={self._by_critic} needs the temperature of a maximum-entropy "
                f"method, and {learner.config.method} has none: leave it out."
            )
        return CriticActor(learner)

    def at(self, share: float) -> None:
        """So much of the training is over, for episodes that begin from here on."""
        fraction = self._fraction
        self._exploring = 1.0 if fraction is None else max(0.0, 1 - share / (fraction or 1e-9))

    def begin(self, row: int, finished: int) -> None:
        """An episode starts in this row; the one before, if any, had so many steps."""
        self._length[row] = finished or self._length[row]
        self._strength[row] = self._epsilon * self._rng.random()
        kind = self._rng.random()
        self._moment[row] = self._head[row] = _NEVER
        if kind < self._deviating:
            self._moment[row] = self._rng.integers(max(1, self._length[row]))
        elif kind < self._deviating + self._by_critic:
            self._head[row] = self._rng.integers(2**31)
        if self._fraction is not None and self._rng.random() >= self._exploring:
            self._moment[row], self._head[row] = _NOT_AT_ALL, _NEVER
        self._left[row] = 0

    def random_actions(self, rng: np.random.Generator) -> NDArray[np.float32]:
        """Uniformly random actions, held where noise is."""
        drawn = np.stack([env.sample(rng) for env in self._envs])
        if self._longest_hold == 1:
            return drawn
        return self._hold(drawn, is_action=True)

    def actions(
        self,
        actor: Actor,
        policy: PolicyDistribution,
        steps: Sequence[int],
        generator: torch.Generator,
    ) -> NDArray[np.float32]:
        """What is done after so many steps of each episode."""
        if isinstance(actor, CriticActor):
            heads = np.where(self._head == _NEVER, _NEVER, self._head % len(actor.values))
            policy = actor.by_values(policy, heads)
        chosen = self._drawn(actor, policy, generator)
        at = np.asarray(steps)
        greedy = self._moment != _NEVER
        if greedy.any():
            chosen = np.where(greedy[:, None], actor.choose(policy, None), chosen)
        if not self._discrete:
            return chosen
        loud = ~greedy & (self._rng.random(len(at)) < self._strength)
        deviates = loud | (greedy & (at == self._moment))
        if self._longest_hold > 1:
            return self._held_choices(chosen, deviates)
        for row in np.flatnonzero(deviates).tolist():
            chosen[row] = self._envs[row].sample(self._rng)
        return chosen

    def _drawn(
        self, actor: Actor, policy: PolicyDistribution, generator: torch.Generator
    ) -> NDArray[np.float32]:
        """What the policy draws, for Box actions from noise that is held."""
        if self._longest_hold == 1 or self._discrete:
            return actor.choose(policy, generator)
        noise = torch.randn(self._held.shape, generator=generator, device=actor.device)
        held = self._hold(noise.cpu().numpy(), is_action=False)
        return actor.choose(policy, torch.from_numpy(held).to(actor.device))

    def _held_choices(
        self, chosen: NDArray[np.float32], deviates: NDArray[np.bool_]
    ) -> NDArray[np.float32]:
        """What was chosen, or the random action that a deviation has begun and that goes on."""
        for row in np.flatnonzero(deviates & (self._left == 0)).tolist():
            self._held[row] = self._envs[row].sample(self._rng)
            self._left[row] = self._lengths(1)[0]
        holding = self._left > 0
        self._left = np.where(holding, self._left - 1, 0)
        return np.where(holding[:, None], self._held, chosen)

    def _lengths(self, count: int) -> NDArray[np.int64]:
        """One to the longest, n steps as often as 1 / n: alike many of every order of size, as
        nobody knows how long it takes here until something has changed."""
        n = np.arange(1, self._longest_hold + 1)
        weights = 1.0 / n
        return self._rng.choice(n, size=count, p=weights / weights.sum())

    def _hold(self, drawn: NDArray[np.float32], is_action: bool) -> NDArray[np.float32]:
        """What was drawn, in rows where nothing is held any more; else what is held."""
        anew = (self._left == 0) | (self._held_is_action != is_action)
        self._left = np.where(anew, self._lengths(len(anew)), self._left) - 1
        self._held_is_action[:] = is_action
        self._held = np.where(anew[:, None], drawn, self._held)
        return self._held

    def state(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """Everything the next step depends on."""
        arrays = {
            "strength": self._strength,
            "moment": self._moment,
            "head": self._head,
            "length": self._length,
            "left": self._left,
            "held": self._held,
            "held_is_action": self._held_is_action,
        }
        tensors = {name: torch.from_numpy(array.copy()) for name, array in arrays.items()}
        return tensors, {"rng": numpy_state(self._rng)}

    def restore(self, tensors: Mapping[str, Tensor], document: Mapping[str, Any]) -> None:
        """Take over what `state` gave."""
        for name in self.state()[0]:
            setattr(self, f"_{name}", tensors[name].numpy().copy())
        restore_numpy(self._rng, document["rng"])
