"""Experience: steps one or many environments and hands over whole episodes.

The environments are reset here, each on its own when its episode ends, so no transition crosses
an episode's boundary. The collector owns the recurrent states and last-step contexts. An
unfinished episode is saved as its seed and actions; resuming plays them again.

A step is taken as a whole or not at all: when an environment fails and may not be made anew, the
records and random streams are those from before the step, and can be saved.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from resel.data import TASK, Taken, Trajectory
from resel.envs import CRITIC, AnyEnv, Restarts, StepResult, in_words
from resel.errors import DamagedFileError, EnvironmentFault
from resel.networks import PolicyDistribution
from resel.randomness import draw_seed, numpy_state, numpy_stream, restore_numpy, torch_stream
from resel.training.actor import Actor, PolicyState
from resel.training.episode import Episode
from resel.training.exploration import Exploration
from resel.training.replaying import replayed
from resel.training.trials import Place, Trials, check_asking


class Collector:
    """Steps all environments together with the current policy."""

    def __init__(
        self,
        envs: Sequence[AnyEnv],
        actor: Actor,
        seed: int,
        restarts: Restarts | None = None,
        exploration: Exploration | None = None,
        on_step: Callable[[Taken], None] | None = None,
        trials: Trials | None = None,
        on_drop: Callable[[NDArray[np.bool_]], None] | None = None,
    ) -> None:
        """`on_step` hears of every step, `on_drop` of rows whose unfinished episode is dropped."""
        self._envs, self._actor, self._explores = list(envs), actor, exploration
        self._on_step, self._on_drop = on_step, on_drop
        self._restarts = restarts or Restarts()
        self._seeds = numpy_stream(seed, "episode-seeds")
        self._random_actions = numpy_stream(seed, "random-actions")
        self._exploration = torch_stream(seed, "exploration", actor.device)
        for env in self._envs:
            # Some simulators carry their construction into the first episode only.
            env.reset(draw_seed(self._seeds))
        self.columns = _common_columns(self._envs)
        """Names and sizes of what is stored beside the steps: what environments tell at a reset,
        and where an episode stands in its trial."""
        if not all(TASK in env.told for env in self._envs):
            trials = None  # who adapts can act there all the same, but not learn
        self._trials = trials
        if trials is not None:
            self.columns |= trials.columns
            seeds = [draw_seed(self._seeds) for _ in self._envs]
            check_asking(self._envs[0], seeds[0])
            for env, own in zip(self._envs, seeds, strict=True):
                env.reset(own, int(env.told[TASK][0]))
        self._episodes: list[Episode] = []
        self.restart()

    def restart(self) -> None:
        """Begin new episodes everywhere, dropping the unfinished ones."""
        self._torn = True  # until all have begun
        for env in self._envs:
            env.abandon()
        places = [self._place_after(row, 0, dropped=True) for row in range(len(self._envs))]
        self._episodes = [
            self._begin(env, place) for env, place in zip(self._envs, places, strict=True)
        ]
        everywhere = np.ones(len(self._envs), np.bool_)
        if self._on_drop is not None:
            self._on_drop(everywhere)
        state = self._actor.initial_state(len(self._envs))
        self._state: PolicyState = self._actor.begin(state, everywhere, self._exploration)
        if self._explores is not None:
            for row in range(len(self._envs)):
                self._explores.begin(row, finished=0)
        self._torn = False

    def _begin(self, env: AnyEnv, place: Place | None) -> Episode:
        while True:
            seed = draw_seed(self._seeds)
            try:
                return Episode.begin(env, seed, place)
            except EnvironmentFault as fault:
                self._restarts.recover(env, fault)

    def _follow(self, row: int, *, dropped: bool) -> Episode:
        """The episode after that of a row."""
        env = self._envs[row]
        if env.between_episodes:
            return Episode.awaited(env)
        return self._begin(env, self._place_after(row, 1, dropped=dropped))

    def _place_after(self, row: int, further: int, *, dropped: bool) -> Place | None:
        """Where the episode stands that follows that of a row, after so many further steps."""
        if self._trials is None:
            return None
        if not self._episodes:
            return self._trials.first(row)
        episode = self._episodes[row]
        assert episode.place is not None
        return self._trials.after(episode.place, len(episode.rewards) + further, dropped=dropped)

    def _started(self, trials: Trials) -> PolicyState:
        """The state with the memory that trials give to episodes about to begin."""
        hidden = [part.clone() for part in self._state.hidden]
        for row, episode in enumerate(self._episodes):
            if not episode.rewards:
                assert episode.place is not None
                own = trials.start(episode.place, self._exploration)
                for part, value in zip(hidden, own, strict=True):
                    part[row] = value[0]
        return dataclasses.replace(self._state, hidden=tuple(hidden))

    def step(self, *, random: bool) -> list[Trajectory]:
        """One step of every environment; the episodes that ended with it.

        With random actions the recurrent state advances all the same. After a step that raised,
        the next one begins new episodes.
        """
        if self._torn:
            self.restart()
        self._torn = True  # until every environment and its record have moved on together
        streams = self._streams()
        explores = self._explores.state() if self._explores is not None else None
        try:
            finished = self._step(random)
        except BaseException:
            self._restore_streams(*streams)
            if self._explores is not None and explores is not None:
                self._explores.restore(*explores)
            raise
        self._torn = False
        return finished

    def _step(self, random: bool) -> list[Trajectory]:
        if self._trials is not None:
            self._state = self._started(self._trials)
        if CRITIC in self.columns:
            self._actor.tell(np.stack([episode.signals[-1] for episode in self._episodes]))
        policy, state = self._actor.observe(
            np.stack([episode.observations[-1] for episode in self._episodes]),
            np.asarray([episode.last_reward for episode in self._episodes], np.float32),
            self._state,
        )
        actions = self._actions(policy, random)
        outcomes = self._cut(self._play(actions))
        begun = {
            i: self._follow(i, dropped=outcome is None)
            for i, outcome in enumerate(outcomes)
            if outcome is None or outcome.terminated or outcome.truncated
        }
        # Nothing fails from here on: the step is written down.
        if self._on_step is not None:
            self._on_step(self._taken(actions, outcomes))
        finished: list[Trajectory] = []
        for i, (episode, outcome) in enumerate(zip(self._episodes, outcomes, strict=True)):
            if outcome is not None:
                episode.record(actions[i], outcome)
                if i in begun:
                    finished.append(episode.finish(outcome.terminated))
        lengths = [len(episode.rewards) for episode in self._episodes]
        awaited = [episode.is_awaited for episode in self._episodes]
        self._episodes = [begun.get(i, episode) for i, episode in enumerate(self._episodes)]
        ended = np.isin(np.arange(len(self._envs)), list(begun))
        state = self._actor.remember(state, actions)
        self._state = self._actor.begin(state, ended, self._exploration)
        if self._explores is not None:
            for i in begun:
                if not awaited[i]:  # it was begun when the one before ended
                    self._explores.begin(i, lengths[i])
        return finished

    def _taken(self, actions: NDArray[np.float32], outcomes: Sequence[StepResult | None]) -> Taken:
        """The step for whoever learns from it at once; before it is written down."""
        before = [episode.observations[-1] for episode in self._episodes]
        after = [
            StepResult(last, 0.0, terminated=False, truncated=True, success=None)
            if outcome is None
            else outcome
            for last, outcome in zip(before, outcomes, strict=True)
        ]
        return Taken(
            np.stack(before),
            actions,
            np.asarray([outcome.reward for outcome in after], np.float32),
            np.asarray([outcome.terminated for outcome in after]),
            np.asarray([outcome.truncated and not outcome.terminated for outcome in after]),
            np.stack([outcome.observation for outcome in after]),
            np.asarray([not episode.rewards for episode in self._episodes]),
            np.asarray([outcome is not None for outcome in outcomes]),
            self._state.hidden,
        )

    def _actions(self, policy: PolicyDistribution, random: bool) -> NDArray[np.float32]:
        if self._explores is None:
            if random:
                return np.stack([env.sample(self._random_actions) for env in self._envs])
            return self._actor.choose(policy, self._exploration)
        if random:
            return self._explores.random_actions(self._random_actions)
        steps = [len(episode.rewards) for episode in self._episodes]
        return self._explores.actions(self._actor, policy, steps, self._exploration)

    def _play(self, actions: NDArray[np.float32]) -> list[StepResult | None]:
        """Step all environments at once; None for one that took no step.

        It failed and was made anew, or let the step pass.
        """
        passing = [env.between_episodes for env in self._envs]
        for env, action in zip(self._envs, actions, strict=True):
            env.send(action)
        outcomes: list[StepResult | None] = []
        failed: list[tuple[AnyEnv, EnvironmentFault]] = []
        # All of them, so that no answer is left for the next step.
        for env, passes in zip(self._envs, passing, strict=True):
            try:
                outcomes.append(None if passes else env.receive())
            except EnvironmentFault as fault:
                outcomes.append(None)
                failed.append((env, fault))
        for env, cause in failed:
            self._restarts.recover(env, cause)
        return outcomes

    def _cut(self, outcomes: list[StepResult | None]) -> list[StepResult | None]:
        """The same, truncated where the phase of a trial ends or allows no longer episode."""
        if self._trials is None:
            return outcomes
        for row, (episode, outcome) in enumerate(zip(self._episodes, outcomes, strict=True)):
            assert episode.place is not None
            if outcome is not None and self._trials.cuts(episode.place, len(episode.rewards) + 1):
                outcomes[row] = outcome._replace(truncated=True)
        return outcomes

    def _streams(self) -> tuple[Tensor, dict[str, Any], dict[str, Any]]:
        return (
            self._exploration.get_state(),
            numpy_state(self._seeds),
            numpy_state(self._random_actions),
        )

    def _restore_streams(
        self, exploration: Tensor, seeds: Mapping[str, Any], random_actions: Mapping[str, Any]
    ) -> None:
        self._exploration.set_state(exploration)
        restore_numpy(self._seeds, seeds)
        restore_numpy(self._random_actions, random_actions)

    def state(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """Everything the next step depends on."""
        tensors = {f"hidden.{i}": part for i, part in enumerate(self._state.hidden)}
        tensors |= {"observation": self._state.observation, "action": self._state.action}
        tensors["exploration"], seeds, random_actions = self._streams()
        for i, episode in enumerate(self._episodes):
            width = self._envs[i].action.stored_size
            played = np.asarray(episode.actions, np.float32).reshape(-1, width)
            tensors[f"episode.{i}.actions"] = torch.from_numpy(played)
            for name, values in episode.marks().items():
                tensors[f"episode.{i}.{name}"] = torch.from_numpy(values)
        document: dict[str, Any] = {
            "episode_seeds": [episode.seed for episode in self._episodes],
            "seeds": seeds,
            "random_actions": random_actions,
        }
        if self._trials is not None:
            document["places"] = [episode.place for episode in self._episodes]
        if self._explores is not None:
            held, document["explores"] = self._explores.state()
            tensors |= {f"explores.{name}": tensor for name, tensor in held.items()}
        return tensors, document

    @property
    def why_not_repeated(self) -> str:
        """In words, why `restore` gave up unfinished episodes, if it did."""
        if self._envs[0].replay == "never":
            return (
                "a vector that begins its episodes by itself cannot repeat unfinished ones, which "
                "were dropped"
            )
        return "the environment did not repeat an unfinished episode, which was dropped"

    def restore(self, tensors: Mapping[str, Tensor], document: Mapping[str, Any]) -> bool:
        """Take over what `state` gave; False if an environment did not repeat itself.

        Such an episode cannot be continued: it is dropped and a new one begun.
        """
        seeds = document["episode_seeds"]
        if len(seeds) != len(self._envs):
            raise DamagedFileError(
                f"The checkpoint has {len(seeds)} environments, this run {len(self._envs)}: "
                "resume with the same num_envs."
            )
        device = self._state.observation.device
        self._state = PolicyState(
            tuple(tensors[f"hidden.{i}"].to(device) for i in range(len(self._state.hidden))),
            tensors["observation"].to(device),
            tensors["action"].to(device),
        )
        self._restore_streams(tensors["exploration"], document["seeds"], document["random_actions"])
        if self._explores is not None:
            prefix = "explores."
            held = {n.removeprefix(prefix): t for n, t in tensors.items() if n.startswith(prefix)}
            self._explores.restore(held, document["explores"])
        if self._trials is not None:
            self._trials.forget()
        lost = np.zeros(len(self._envs), np.bool_)
        rows = range(len(self._envs))
        played = [tensors[f"episode.{i}.actions"].numpy() for i in rows]
        places = [None if self._trials is None else Place(*document["places"][i]) for i in rows]
        seeds = [int(seed) for seed in seeds]
        episodes = replayed(self._envs, seeds, played, places, self._restarts)
        for i, episode in enumerate(episodes):
            if episode is None or not all(
                np.array_equal(values, tensors[f"episode.{i}.{name}"].numpy())
                for name, values in episode.marks().items()
            ):
                lost[i] = True
                place = places[i]
                if self._trials is not None and place is not None:
                    place = self._trials.after(place, len(played[i]), dropped=True)
                episode = self._begin(self._envs[i], place)
                if self._explores is not None:
                    self._explores.begin(i, finished=0)
            self._episodes[i] = episode
        self._state = self._actor.begin(self._state, lost, self._exploration)
        if self._on_drop is not None:
            self._on_drop(lost)
        self._torn = False
        return not lost.any()

    def close(self) -> None:
        """Release the simulators."""
        for env in self._envs:
            env.close()


def _common_columns(envs: Sequence[AnyEnv]) -> dict[str, int]:
    """The columns that all environments tell; they have been reset."""
    first = envs[0]
    for env in envs[1:]:
        if env.columns != first.columns:
            raise EnvironmentFault(
                f"{env.name} told {in_words(env.columns or {})} at its reset, but "
                f"{first.name.lower()} {in_words(first.columns or {})}: let all of them tell the "
                "same."
            )
    return dict(first.columns or {})
