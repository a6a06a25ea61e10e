"""How much one update of the policy changes its actions along an episode.

A run's policy, as its checkpoint holds it, takes one step with its saved optimiser moments, at
whatever rates are asked for. The policies before and after it read the same recorded episodes, and
the distance of what they would do is measured at every rollout step. Where the context encoder has
moved, its hidden state carries the change on and the distance grows; this is the paper's
amplification.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from resel.analysis._episodes import lay_out, record_episodes
from resel.analysis.geometric import Effective, fit
from resel.analysis.saturation import NOISE, Saturation, saturation_of
from resel.analysis.statistics import mean_and_error
from resel.config import Config
from resel.errors import BadInputError, ConfigError, RunDirectoryError
from resel.networks import encoder_spec
from resel.optim import PackedInputs, moved, policy_outputs
from resel.randomness import numpy_stream
from resel.runs import open_trainer
from resel.training import Trainer, evaluation_seeds

_SHORTEST = 4
"""Steps below which there is nothing to fit."""
_CONVERGED_SHARE = 0.25


class Rates(NamedTuple):
    """Learning rates of one update of the policy."""

    context_encoder: float
    other: float


PAPER_RATES = (
    Rates(3e-4, 0.0),
    Rates(0.0, 3e-4),
    Rates(0.0, 6e-3),
    Rates(1e-5, 0.0),
    Rates(1e-5, 3e-4),
)
"""The five updates of the paper's figure."""

Actions = list[NDArray[np.float64]]
"""Per episode, what the policy would do at each step: (L, A)."""


@dataclass(frozen=True)
class Variation:
    """What one update changed, per rollout step that at least half of the episodes reached."""

    rates: Rates
    mean: tuple[float, ...]
    """Mean over episodes of the L2 distance of the actions."""
    standard_error: tuple[float, ...]
    """Of that mean."""
    episodes: tuple[int, ...]
    """How many of them reached this step."""
    running_mean: tuple[float, ...]
    """Mean over the steps 0 .. t."""
    bound: tuple[float, ...]
    """Proposition 2 with the effective constants, to be seen beside `running_mean`."""
    effective: Effective
    first: float
    """At the first step, where inputs and hidden states are equal."""
    converged: float
    """Mean over the last quarter of the steps."""

    @property
    def is_noise(self) -> bool:
        """Whether what was measured in the end is rounding."""
        return self.converged <= NOISE

    @property
    def factor(self) -> float | None:
        """Converged variation in units of the first one; None if either is rounding."""
        return None if self.is_noise or self.first <= NOISE else self.converged / self.first

    def to_json(self) -> dict[str, Any]:
        """Plain data, but for the factor, which is for `Amplification.factor` to judge."""
        return {**dataclasses.asdict(self), "rates": self.rates._asdict()}


@dataclass(frozen=True)
class Amplification:
    """One update at several pairs of rates, each from the same start and on the same batch."""

    task: str
    encoder: str
    step: int
    """Environment steps of the run at its checkpoint."""
    updates: int
    """Updates of the run at its checkpoint."""
    distance: str
    """What is measured: of tanh(mean) for Box actions, of probabilities for Discrete ones."""
    seed: int
    """Chose the batch and the episodes."""
    lengths: tuple[int, ...]
    """Of the recorded episodes."""
    returns: tuple[float, ...]
    saturation: Saturation
    """Of the policy before the updates."""
    variations: tuple[Variation, ...]

    @property
    def doubt(self) -> str | None:
        """In words, why nothing follows from the numbers; None if something does."""
        if saturated := self.saturation.doubt():
            return saturated
        moved = [v for v in self.variations if any(v.rates)]
        return noise_in_words(moved) if moved and all(v.is_noise for v in moved) else None

    def factor(self, variation: Variation) -> float | None:
        """Its factor; None where saturation or rounding leaves it without meaning."""
        return None if self.doubt or self.saturation.at_first else variation.factor

    def of(self, rates: Rates) -> Variation:
        """The variation that these rates led to."""
        return next(v for v in self.variations if v.rates == rates)

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        variations = [v.to_json() | {"factor": self.factor(v)} for v in self.variations]
        return dataclasses.asdict(self) | {"doubt": self.doubt, "variations": variations}


def measure_amplification(
    run_dir: str | os.PathLike[str],
    pairs: Sequence[tuple[float, float]] = PAPER_RATES,
    episodes: int = 20,
    seed: int = 1,
) -> Amplification:
    """The paper's measurement on the newest checkpoint of a run; `pairs` are (LR_CE, LR_other)."""
    with Probe(run_dir, episodes, seed) as probe:
        return probe.measure([Rates(*pair) for pair in pairs])


class Probe:
    """A run's policy that can be updated again and again from the same starting point."""

    def __init__(self, run_dir: str | os.PathLike[str], episodes: int = 20, seed: int = 1) -> None:
        if episodes < 2:
            raise ConfigError(
                f"episodes={episodes} is too small: a standard error needs at least 2."
            )
        self._trainer = open_trainer(run_dir)
        try:
            _check(self._trainer, run_dir)
            self.config: Config = self._trainer.config
            self._seed, learner = seed, self._trainer.learner
            self._steps = _policy_steps(self._trainer, seed)
            stage = self._trainer.evaluator.env
            assert stage is not None, "open_trainer always makes one"
            self._trajectories = record_episodes(
                self._trainer.actor, stage, evaluation_seeds(seed, episodes)
            )
            batches = [packed.to(learner.device) for packed in lay_out(self._trajectories)]
            self._sequences = [
                PackedInputs(learner.inputs(packed)[0], packed.is_first, packed.mask)
                for packed in batches
            ]
            _check_lengths([len(t) for t in self._trajectories], self.config.task)
            self._before = self._actions()
            steps = _common_length([len(t) for t in self._trajectories])
            self.saturation = saturation_of(
                self._before, learner.dims.discrete, steps, _converged_steps(steps)
            )
            self._known: dict[Rates, Variation] = {}
        except BaseException:
            self.close()
            raise

    @property
    def rates(self) -> Rates:
        """Those of the run's policy now, also where they steer themselves."""
        groups = self._trainer.learner.optimizers["policy"].param_groups
        return Rates(**{group["name"]: float(group["lr"]) for group in groups})

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        """Release the simulators."""
        self._trainer.close()

    def measure(self, pairs: Sequence[Rates]) -> Amplification:
        """One update for each pair of rates."""
        return Amplification(
            task=self.config.task,
            encoder=self.config.encoder or "",
            step=self._trainer.step,
            updates=self._trainer.learner.updates,
            distance="probabilities" if self._trainer.learner.dims.discrete else "tanh(mean)",
            seed=self._seed,
            lengths=tuple(len(t) for t in self._trajectories),
            returns=tuple(float(t.rewards.sum(dtype=np.float64)) for t in self._trajectories),
            saturation=self.saturation,
            variations=tuple(self.vary(pair) for pair in pairs),
        )

    def vary(self, rates: Rates) -> Variation:
        """One update at these rates, measured, and undone."""
        if rates not in self._known:
            self._known[rates] = compare(self._before, self._act_after(rates), rates)
        return self._known[rates]

    def _act_after(self, rates: Rates) -> Actions:
        """What the policy would do in the recorded episodes after one update at these rates."""
        if not all(np.isfinite(rate) and rate >= 0 for rate in rates):
            raise ConfigError(f"Learning rates {tuple(rates)} cannot work: none may be below 0.")
        with moved(self._trainer.learner.groups["policy"], self._steps, rates._asdict()):
            return self._actions()

    def _actions(self) -> Actions:
        outputs = policy_outputs(self._trainer.learner.policy, self._sequences)
        return [output.cpu().numpy() for output in outputs]


def compare(before: Actions, after: Actions, rates: Rates) -> Variation:
    """The variation between two policies that read the same episodes."""
    distances = [np.linalg.norm(b - a, axis=-1) for b, a in zip(before, after, strict=True)]
    if not all(np.isfinite(distance).all() for distance in distances):
        raise BadInputError(
            f"After an update at {tuple(rates)} the policy's output is not finite: try lower rates."
        )
    steps = _common_length([len(distance) for distance in distances])
    at_step = [np.array([d[t] for d in distances if len(d) > t]) for t in range(steps)]
    mean, error = np.array([mean_and_error(d) for d in at_step]).T
    effective = fit(mean)
    return Variation(
        rates=rates,
        mean=_floats(mean),
        standard_error=_floats(error),
        episodes=tuple(len(d) for d in at_step),
        running_mean=_floats(np.cumsum(mean) / np.arange(1, steps + 1)),
        bound=_floats(effective.mean_variation(steps)),
        effective=effective,
        first=float(mean[0]),
        converged=float(mean[-_converged_steps(steps) :].mean()),
    )


def noise_in_words(variations: Sequence[Variation]) -> str:
    """That these variations are rounding, from which nothing can be learned."""
    largest = max(variations, key=lambda v: v.converged)
    return (
        f"An update at LR_CE = {largest.rates.context_encoder:g} and LR_other = "
        f"{largest.rates.other:g} moves the policy's output by {largest.converged:.2g} in the end, "
        f"which is no more than rounding (up to {NOISE:g}): the rate is too small, or the policy "
        "is stuck at its bounds. No factor and no LR_CE follow from this measurement."
    )


def _policy_steps(trainer: Trainer, seed: int) -> dict[str, Tensor]:
    """By parameter group, what the next update of the policy subtracts at a rate of 1.

    AdamW's step is its rate times this, whatever the rate: one update serves them all. The learner
    is left as it was.
    """
    learner = trainer.learner
    batch = learner.sampler.draw(
        trainer.buffer, numpy_stream(seed, "diagnostics-batch"), learner.policy.suitable_rows
    )
    weights = {name: tensor.clone() for name, tensor in learner.weights().items()}
    state = learner.state()
    groups = learner.groups["policy"]
    before = {group.name: group.block.detach().clone() for group in groups}
    try:
        learner.update_policy(batch, 1.0, 1.0)
        return {group.name: before[group.name] - group.block.detach() for group in groups}
    finally:
        learner.load_weights(weights)
        learner.restore(*state)


def _floats(values: Any) -> tuple[float, ...]:
    return tuple(float(value) for value in values)


def _converged_steps(steps: int) -> int:
    return max(1, round(_CONVERGED_SHARE * steps))


def _common_length(lengths: Sequence[int]) -> int:
    """The steps that at least half of the episodes, and at least two, have."""
    return sorted(lengths, reverse=True)[max(2, (len(lengths) + 1) // 2) - 1]


def _check(trainer: Trainer, run_dir: str | os.PathLike[str]) -> None:
    config = trainer.config
    if config.encoder is None or not encoder_spec(config.encoder).memory:
        raise ConfigError(
            f"The run in {os.fspath(run_dir)} ({config.encoder or config.method}) carries nothing "
            "from step to step: there is no recurrence that could amplify an update, and nothing "
            "to diagnose. Use a run with a memory."
        )
    if trainer.learner.updates == 0:
        raise RunDirectoryError(
            f"The run in {os.fspath(run_dir)} has a checkpoint, but learning had not begun: wait "
            "until its warm-up is over."
        )


def _check_lengths(lengths: Sequence[int], task: str) -> None:
    if _common_length(lengths) < _SHORTEST:
        raise BadInputError(
            f"Most episodes of {task} are over in fewer than {_SHORTEST} steps: too few to see an "
            "amplification."
        )
