"""Experience: steps one or many environments and hands over whole episodes.

The environments are reset here, each on its own when its episode ends, so no transition crosses
an episode's boundary. The collector owns the recurrent states and last-step contexts. An
unfinished episode is saved as its seed and actions; resuming plays them again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from resel.errors import DamagedFileError
from resel.randomness import draw_seed, numpy_state, numpy_stream, restore_numpy, torch_stream
from resel.replay import Trajectory
from resel.training.acting import Actor, PolicyState
from resel.training.environment import Stage


@dataclass
class _Episode:
    """An episode under way."""

    seed: int
    observations: list[NDArray[np.float32]]
    actions: list[NDArray[np.float32]] = field(default_factory=list)
    rewards: list[float] = field(default_factory=list)

    @property
    def last_reward(self) -> float:
        return self.rewards[-1] if self.rewards else 0.0

    def finish(self, terminated: bool) -> Trajectory:
        return Trajectory(
            np.stack(self.observations),
            np.stack(self.actions),
            np.asarray(self.rewards, np.float32),
            terminated,
        )


class Collector:
    """Steps all environments together with the current policy."""

    def __init__(self, stages: Sequence[Stage], actor: Actor, seed: int) -> None:
        self._stages, self._actor = list(stages), actor
        self._seeds = numpy_stream(seed, "episode-seeds")
        self._random_actions = numpy_stream(seed, "random-actions")
        self._exploration = torch_stream(seed, "exploration", actor.device)
        for stage in self._stages:
            # Some simulators carry their construction into the first episode only.
            stage.reset(draw_seed(self._seeds))
        self.restart()

    def restart(self) -> None:
        """Begin new episodes everywhere, dropping the unfinished ones."""
        self._episodes = [self._begin(stage) for stage in self._stages]
        self._state: PolicyState = self._actor.initial_state(len(self._stages))
        self._torn = False

    def _begin(self, stage: Stage) -> _Episode:
        seed = draw_seed(self._seeds)
        return _Episode(seed, [stage.reset(seed)])

    def step(self, *, random: bool) -> list[Trajectory]:
        """One step of every environment; the episodes that ended with it.

        With random actions the recurrent state advances all the same. After a step that raised,
        the next one begins new episodes.
        """
        if self._torn:
            self.restart()
        self._torn = True  # until every environment and its record have moved on together
        policy, state = self._actor.observe(
            np.stack([episode.observations[-1] for episode in self._episodes]),
            np.asarray([episode.last_reward for episode in self._episodes], np.float32),
            self._state,
        )
        if random:
            actions = np.stack([stage.sample(self._random_actions) for stage in self._stages])
        else:
            actions = self._actor.choose(policy, self._exploration)
        finished: list[Trajectory] = []
        ended = np.zeros(len(self._stages), np.bool_)
        for i, (stage, episode) in enumerate(zip(self._stages, self._episodes, strict=True)):
            outcome = stage.step(actions[i])
            episode.actions.append(actions[i])
            episode.rewards.append(outcome.reward)
            episode.observations.append(outcome.observation)
            if outcome.terminated or outcome.truncated:
                finished.append(episode.finish(outcome.terminated))
                self._episodes[i] = self._begin(stage)
                ended[i] = True
        self._state = self._actor.remember(state, actions).reset(ended)
        self._torn = False
        return finished

    def state(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """Everything the next step depends on."""
        tensors = {f"hidden.{i}": part for i, part in enumerate(self._state.hidden)}
        tensors |= {"observation": self._state.observation, "action": self._state.action}
        tensors["exploration"] = self._exploration.get_state()
        for i, episode in enumerate(self._episodes):
            width = self._stages[i].action.stored_size
            played = np.asarray(episode.actions, np.float32).reshape(-1, width)
            tensors[f"episode.{i}.actions"] = torch.from_numpy(played)
            tensors[f"episode.{i}.last"] = torch.from_numpy(episode.observations[-1])
        return tensors, {
            "episode_seeds": [episode.seed for episode in self._episodes],
            "seeds": numpy_state(self._seeds),
            "random_actions": numpy_state(self._random_actions),
        }

    def restore(self, tensors: Mapping[str, Tensor], document: Mapping[str, Any]) -> bool:
        """Take over what `state` gave; False if an environment did not repeat itself.

        Such an episode cannot be continued: it is dropped and a new one begun.
        """
        seeds = document["episode_seeds"]
        if len(seeds) != len(self._stages):
            raise DamagedFileError(
                f"The checkpoint has {len(seeds)} environments, this run {len(self._stages)}: "
                "resume with the same num_envs."
            )
        device = self._state.observation.device
        self._state = PolicyState(
            tuple(tensors[f"hidden.{i}"].to(device) for i in range(len(self._state.hidden))),
            tensors["observation"].to(device),
            tensors["action"].to(device),
        )
        self._exploration.set_state(tensors["exploration"])
        restore_numpy(self._seeds, document["seeds"])
        restore_numpy(self._random_actions, document["random_actions"])
        lost = np.zeros(len(self._stages), np.bool_)
        for i, stage in enumerate(self._stages):
            actions = tensors[f"episode.{i}.actions"].numpy()
            episode = _replay(stage, int(seeds[i]), actions)
            expected = tensors[f"episode.{i}.last"].numpy()
            if episode is None or not np.array_equal(episode.observations[-1], expected):
                lost[i] = True
                episode = self._begin(stage)
            self._episodes[i] = episode
        self._state = self._state.reset(lost)
        return not lost.any()

    def close(self) -> None:
        """Release the simulators."""
        for stage in self._stages:
            stage.close()


def _replay(stage: Stage, seed: int, actions: NDArray[np.float32]) -> _Episode | None:
    """Play an episode again; None if it now ends before its last action."""
    episode = _Episode(seed, [stage.reset(seed)])
    for action in actions:
        outcome = stage.step(action)
        if outcome.terminated or outcome.truncated:
            return None
        episode.actions.append(action)
        episode.rewards.append(outcome.reward)
        episode.observations.append(outcome.observation)
    return episode
