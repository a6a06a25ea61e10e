"""Acting with a recurrent policy: everything it must carry from step to step, in one object."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from resel.errors import DivergedError
from resel.methods import Learner
from resel.networks import Categorical, ContextInputs, PolicyDistribution, State


@dataclass(frozen=True)
class PolicyState:
    """Hidden state, last observation and last action of some rows; all zero at a start.

    The last observation is kept as the network saw it, the last action as it is fed back.
    """

    hidden: State
    observation: Tensor  # (rows, O)
    action: Tensor  # (rows, A)

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
    """Runs the learner's policy one step at a time."""

    def __init__(self, learner: Learner) -> None:
        self._learner = learner
        self._dims, self.device = learner.dims, learner.device
        self._row_shapes = _row_shapes(self.initial_state(1))

    def initial_state(self, rows: int) -> PolicyState:
        """The state at the start of an episode."""
        return PolicyState(
            self._learner.policy.initial_state(rows),
            torch.zeros(rows, self._dims.observation, device=self.device),
            torch.zeros(rows, self._dims.action, device=self.device),
        )

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

    def fits(self, state: PolicyState) -> bool:
        """Whether a state is of this policy, as far as sizes tell."""
        return _row_shapes(state) == self._row_shapes

    @torch.inference_mode()  # less to set up for each operation than without gradients only
    def observe(
        self, observation: NDArray[np.float32], reward: NDArray[np.float32], state: PolicyState
    ) -> tuple[PolicyDistribution, PolicyState]:
        """The policy after observations (rows, O) and the rewards (rows,) of the last step.

        The state returned still holds the last action: see `remember`.
        """
        seen = self._learner.normalizer(torch.from_numpy(observation).to(self.device))
        inputs = ContextInputs(
            seen,
            state.observation,
            state.action,
            torch.from_numpy(reward).to(self.device)[:, None],
        )
        policy, hidden = self._learner.policy.step(inputs, state.hidden)
        return policy, PolicyState(hidden, seen, state.action)

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
                "The policy's output is not finite: training has diverged. " + self._learner.remedy
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


def _row_shapes(state: PolicyState) -> list[torch.Size]:
    return [part.shape[1:] for part in (*state.hidden, state.observation, state.action)]
