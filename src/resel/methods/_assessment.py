"""When TD7 learns, and which of its policies it keeps: policies are judged by whole episodes."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import torch
from torch import Tensor

from resel.config import TrainingConfig
from resel.data import Moment, PerEpisode

_FIELDS = ("episodes", "steps", "since", "lowest", "best", "needed")


class Assessment:
    """The policy stays as it is while episodes are played with it. Then updates are due.

    One that was never worse than `best` in `needed` episodes is kept: `keep` is called for it. As
    soon as it is worse in one, the assessment ends.
    """

    def __init__(self, settings: TrainingConfig, needed: int, keep: Callable[[], None]) -> None:
        self._keep = keep
        self._rate, self._envs = settings.updates_per_step, settings.num_envs
        self._first = settings.warmup_steps
        self.episodes = self.steps = 0.0
        """Episodes that were judged, and steps played, since the last update."""
        self.since = float(settings.warmup_steps)
        """The environment step from which on the policy has been the same."""
        self.lowest, self.best = math.inf, -math.inf
        """The lowest return of this policy, and that of the best one before."""
        self.needed = float(needed)
        """Episodes that it takes."""

    @property
    def ahead(self) -> PerEpisode:
        """What is due in the long run, whatever the returns."""
        return PerEpisode(self._rate)

    def due(self, moment: Moment) -> int:
        """Take in the episodes that ended; the updates to make now.

        Who looks ahead knows no episodes, but how many steps they will have: each brings its share.
        """
        if not moment.ended:
            return self.ahead.due(moment)
        judged = False
        for trajectory in moment.ended:
            begun = moment.step - len(trajectory) * self._envs
            if begun < self._first:
                continue  # its first actions were random
            self.steps += len(trajectory)
            if begun < self.since:
                continue  # played with more than one policy, as happens with several environments
            judged = True
            self.episodes += 1
            self.lowest = min(self.lowest, float(trajectory.rewards.sum(dtype="float64")))
        if not judged or (self.lowest >= self.best and self.episodes < self.needed):
            return 0
        if self.lowest >= self.best:
            self.best = self.lowest
            self._keep()
        updates = math.floor(self.steps * self._rate)
        self.steps -= updates / self._rate
        self.episodes, self.since, self.lowest = 0.0, float(moment.step), math.inf
        return updates

    def ask_for_more(self, episodes: int, share: float) -> None:
        """From now on it takes so many episodes, so what is to be reached falls to a share."""
        self.needed = float(episodes)
        if math.isfinite(self.best):
            self.best -= (1 - share) * abs(self.best)

    def state(self) -> dict[str, Tensor]:
        """Everything the next moment depends on."""
        values = [getattr(self, name) for name in _FIELDS]
        return {"assessment": torch.tensor(values, dtype=torch.float64)}

    def restore(self, tensors: Mapping[str, Tensor]) -> None:
        """Take over what `state` gave."""
        for name, value in zip(_FIELDS, tensors["assessment"].tolist(), strict=True):
            setattr(self, name, value)
