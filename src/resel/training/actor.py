"""Acting with a recurrent policy: everything it must carry from step to step, in one object."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from resel.data import Trajectory
from resel.envs import AnyEnv, Encoded
from resel.errors import DivergedError
from resel.methods import Adaptation, Learner, remedy
from resel.networks import (
    Categorical,
    ContextInputs,
    PolicyDistribution,
    PolicyNetwork,
    State,
)


@dataclass(frozen=True)
class PolicyState:
    """Hidden state, last observation and last action of some rows; all zero at a start.

    The last observation is kept as the network saw it, the last action as it is fed back.
    """

    hidden: State
    observation: Tensor  # (rows, O)
    action: Tensor  # (rows, A)

    def __repr__(self) -> str:
        numbers = sum(part.numel() for part in self.hidden) // max(self.rows, 1)
        return f"PolicyState({self.rows} row(s), {numbers} numbers of memory each)"

    @property
    def rows(self) -> int:
        """Environments it stands for."""
        return len(self.observation)

    def reset(self, rows: NDArray[np.bool_]) -> PolicyState:
        """The same with these rows back at the start of an episode."""
        if not rows.any():
            return self
        mask = torch.from_numpy(rows).to(self.observation.device)

        def clear(x: Tensor) -> Tensor:
            return x.masked_fill(mask.view(-1, *[1] * (x.dim() - 1)), 0)

        return PolicyState(
            tuple(clear(part) for part in self.hidden), clear(self.observation), clear(self.action)
        )


class Actor:
    """Runs one of the learner's policies one step at a time.

    It is the one that learns where an actor `explores`, else the one that the learner is judged by;
    for most methods they are the same.
    """

    def __init__(self, learner: Learner, *, explores: bool = False) -> None:
        self._learner, self._explores = learner, explores
        self._dims, self.device = learner.dims, learner.device
        self._row_shapes = _row_shapes(self.initial_state(1))
        self.reads_reward = bool(getattr(learner.config.network, "reward_input", False))

    @property
    def _policy(self) -> PolicyNetwork:
        return self._learner.policy if self._explores else self._learner.evaluation_policy

    def initial_state(self, rows: int) -> PolicyState:
        """The state at the start of an episode."""
        return PolicyState(
            self._policy.initial_state(rows),
            torch.zeros(rows, self._dims.observation, device=self.device),
            torch.zeros(rows, self._dims.action, device=self.device),
        )

    @property
    def adaptation(self) -> Adaptation | None:
        """How the learner adapts to a task over several episodes, if it does."""
        return self._learner.adaptation

    def started(self, played: Sequence[Trajectory], generator: torch.Generator) -> PolicyState:
        """The state at the start of an episode, after these of the same task."""
        hidden = self._learner.start(played, generator)
        return dataclasses.replace(self.initial_state(1), hidden=hidden)

    def check_told(self, env: AnyEnv) -> None:
        """Refuse an environment that does not tell what the method learns from."""
        self._learner.check_told(env.told)

    def begin(
        self, state: PolicyState, rows: NDArray[np.bool_], generator: torch.Generator
    ) -> PolicyState:
        """The same with these rows at the start of an episode to explore."""
        state = state.reset(rows)
        if not self._learner.random_first_state or not rows.any():
            return state
        mask = torch.from_numpy(rows).to(self.device)
        hidden = []
        for part in state.hidden:
            drawn = torch.rand(part.shape, generator=generator, device=self.device) * 2 - 1
            hidden.append(torch.where(mask.view(-1, *[1] * (part.dim() - 1)), drawn, part))
        return dataclasses.replace(state, hidden=tuple(hidden))

    def tell(self, signal: NDArray[np.float32]) -> None:
        """Hear what critics are told of the moment that is observed next; policies are not."""

    def fits(self, state: PolicyState) -> bool:
        """Whether a state is of this policy, as far as sizes tell."""
        return _row_shapes(state) == self._row_shapes

    @torch.inference_mode()  # less to set up for each operation than without gradients only
    def observe(
        self, observation: Encoded, reward: NDArray[np.float32], state: PolicyState
    ) -> tuple[PolicyDistribution, PolicyState]:
        """The policy after observations (rows, O), as stored, and the last rewards (rows,).

        The state returned still holds the last action: see `remember`.
        """
        inputs = self._inputs(observation, reward, state)
        policy, hidden = self._policy.step(inputs, state.hidden)
        return policy, PolicyState(hidden, inputs.observation, state.action)

    def _inputs(
        self, observation: Encoded, reward: NDArray[np.float32], state: PolicyState
    ) -> ContextInputs:
        return ContextInputs(
            self._learner.normalizer(torch.from_numpy(observation).to(self.device)),
            state.observation,
            state.action,
            torch.from_numpy(reward).to(self.device)[:, None],
        )

    def choose(
        self, policy: PolicyDistribution, chance: torch.Generator | Tensor | None
    ) -> NDArray[np.float32]:
        """Actions as stored, (rows, A) or (rows, 1) of an index.

        Sampled with a generator or, for Box actions, with standard normal noise (rows, A); the mode
        without either.
        """
        # Looked at before the choice: the mode of a broken categorical is a valid index.
        if bool(policy.broken()):
            raise DivergedError(
                "The policy's output is not finite: training has diverged. "
                + remedy(self._learner, "policy")
            )
        if chance is None:
            action = policy.mode()
        elif isinstance(chance, torch.Generator):
            action = policy.choose(chance)
        else:
            assert not isinstance(policy, Categorical)
            action = policy.explore(chance)
        chosen: NDArray[np.float32] = action.float().cpu().numpy()
        return chosen

    def remember(self, state: PolicyState, action: NDArray[np.float32]) -> PolicyState:
        """The state with the action (as stored) that was really taken."""
        taken = self._dims.fed_back(torch.from_numpy(action).to(self.device))
        return dataclasses.replace(state, action=taken)


class CriticActor(Actor):
    """An actor that also asks the critic what it thinks of each Discrete action.

    The state holds the critic's memory behind the policy's.
    """

    def __init__(self, learner: Learner) -> None:
        super().__init__(learner, explores=True)
        self.values = torch.zeros(0)  # (heads, rows, A), of the last observation
        self._signal = torch.zeros(0)  # (rows, size)

    def initial_state(self, rows: int) -> PolicyState:
        state = super().initial_state(rows)
        hidden = (*state.hidden, *self._learner.critic.initial_state(rows))
        return dataclasses.replace(state, hidden=hidden)

    def tell(self, signal: NDArray[np.float32]) -> None:
        self._signal = torch.from_numpy(signal).to(self.device)

    @torch.inference_mode()
    def observe(
        self, observation: Encoded, reward: NDArray[np.float32], state: PolicyState
    ) -> tuple[PolicyDistribution, PolicyState]:
        inputs, critic = self._inputs(observation, reward, state), self._learner.critic
        own = len(state.hidden) - len(critic.initial_state(1))
        policy, of_policy = self._policy.step(inputs, state.hidden[:own])
        embedded, of_critic = critic.embed_step(inputs, state.hidden[own:])
        embedded = self._learner.informed(critic, embedded, self._signal[:, None])
        self.values = critic.values(embedded).squeeze(2)
        hidden = (*of_policy, *of_critic)
        return policy, PolicyState(hidden, inputs.observation, state.action)

    @torch.inference_mode()
    def by_values(self, policy: PolicyDistribution, heads: NDArray[np.int64]) -> PolicyDistribution:
        """The policy, where `heads` has a critic's number the one that this critic asks for.

        exp(Q / alpha), normalised, is what the policy is learning to be.
        """
        assert isinstance(policy, Categorical) and self._learner.temperature is not None
        rows = np.arange(len(heads))
        asked = self.values[np.maximum(heads, 0), rows] / self._learner.temperature.value
        follows = torch.from_numpy(heads >= 0).to(self.device)[:, None]
        return Categorical(torch.where(follows, torch.log_softmax(asked, -1), policy.log_probs))


def _row_shapes(state: PolicyState) -> list[torch.Size]:
    return [part.shape[1:] for part in (*state.hidden, state.observation, state.action)]
