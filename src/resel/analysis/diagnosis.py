"""The paper's argument turned into advice: which rate suits the context encoder of a run."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from resel.analysis._picture import draw
from resel.analysis.amplification import (
    Amplification,
    Probe,
    Rates,
    Variation,
    noise_in_words,
)
from resel.errors import RunDirectoryError

_TOLERANCE = 0.02
_REACH = 4.0**5
_BALANCE = 3.0
"""Rates within this factor of the balanced one are left alone."""
_SAME = 1.1
"""Numbers within this factor of each other are called the same."""
_EARLY = 1000
"""Updates before which a policy changes too fast for its numbers to last."""


@dataclass(frozen=True)
class Diagnosis:
    """What an update does to the policy of a run, and the rate that brings balance."""

    amplification: Amplification
    lr_context_encoder: float
    lr_other: float
    balanced_lr: float | None
    """LR_CE at which a step of the context encoder moves the policy, in the end, as much as a step
    of the other layers with the run's LR_other; None if no rate within a factor of 1000 does, or if
    the measurement is in doubt."""

    @property
    def same_rate(self) -> Variation:
        """The context encoder alone, at the rate of the other layers."""
        return self.amplification.of(Rates(self.lr_other, 0.0))

    @property
    def others(self) -> Variation:
        """The other layers alone."""
        return self.amplification.of(Rates(0.0, self.lr_other))

    @property
    def own(self) -> Variation:
        """The context encoder alone, at its own rate."""
        return self.amplification.of(Rates(self.lr_context_encoder, 0.0))

    @property
    def doubt(self) -> str | None:
        """In words, why no advice follows from the numbers; None if it does."""
        noise = [v for v in (self.same_rate, self.others) if v.is_noise]
        return self.amplification.doubt or (noise_in_words(noise) if noise else None)

    def words(self) -> list[str]:
        """The findings, a paragraph each."""
        return [self._findings(), self.doubt or self._advice()]

    def _findings(self) -> str:
        same, others = self.same_rate, self.others
        factors = self.amplification.factor(same), self.amplification.factor(others)
        updates = self.amplification.updates
        early = f"After only {updates:,} updates all of this may still change: at"
        return (
            f"{early if updates < _EARLY else 'At'} LR_CE = LR_other = {self.lr_other:g}, one "
            f"update of the context encoder moves the actions by {same.first:.3g} at the first "
            f"step and by {same.converged:.3g} in the end"
            f"{_times(factors[0])}; one of the other layers by {others.first:.3g} and "
            f"{others.converged:.3g}{_times(factors[1])}.{self._growth(*factors)}"
        )

    def _growth(self, memory: float | None, others: float | None) -> str:
        """The growth that is the memory's own: actions may be easier to move later in any case."""
        if memory is not None and others is not None:
            ratio = memory / others
            if _about_one(ratio):
                return " Both grow by about the same factor."
            size = f"{ratio:.1f} times larger" if ratio > 1 else f"{1 / ratio:.1f} times smaller"
            return f" The context encoder's factor is {size}."
        if self.doubt is None and self.amplification.saturation.at_first:
            return " The first actions of the policy are saturated, so no factors are given."
        return ""

    def _advice(self) -> str:
        own, balanced = self.lr_context_encoder, self.balanced_lr
        if balanced is None:
            return (
                f"No LR_CE within a factor of {_REACH:g} of the one expected lets the context "
                "encoder move the policy "
                f"as much as the other layers do at LR_other = {self.lr_other:g}: there is nothing "
                "to balance."
            )
        found = (
            f"Both move the policy equally much in the end at LR_CE = {balanced:.2g}, "
            f"{_share(balanced, self.lr_other)}. This run uses LR_CE = {own:g}, "
            f"{_share(own, balanced, 'that')}"
        )
        if own > _BALANCE * balanced:
            return (
                f"{found}: its context encoder changes the policy more than all other layers do. "
                f"If training is unstable, lower --lr-ce to about {balanced:.1g}."
            )
        if own * _BALANCE < balanced:
            return (
                f"{found}: safe, and if memory is learned too slowly there is room up to "
                f"--lr-ce {balanced:.1g}."
            )
        return f"{found}: in balance, for which a factor of {_BALANCE:g} either way is allowed."

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        return {
            "lr_context_encoder": self.lr_context_encoder,
            "lr_other": self.lr_other,
            "balanced_lr": self.balanced_lr,
            "first": self.same_rate.first,
            "converged": self.same_rate.converged,
            "factor": self.amplification.factor(self.same_rate),
            "effective": asdict(self.same_rate.effective),
            "doubt": self.doubt,
            "words": self.words(),
            "amplification": self.amplification.to_json(),
        }

    def write(self, folder: Path) -> list[Path]:
        """diagnosis.json and diagnosis.png; the files that were written."""
        document, picture = folder / "diagnosis.json", folder / "diagnosis.png"
        try:
            folder.mkdir(parents=True, exist_ok=True)
            document.write_text(json.dumps(self.to_json()) + "\n")
            draw(self.amplification, picture, self.doubt)
        except OSError as error:
            raise RunDirectoryError(
                f"The diagnosis cannot be written to {folder} ({error.strerror}): choose another "
                "folder."
            ) from error
        return [document, picture]


def diagnose(run_dir: str | os.PathLike[str], episodes: int = 20, seed: int = 1) -> Diagnosis:
    """Measure the policy of a run at its own rates and find the balanced one; only reads."""
    with Probe(run_dir, episodes, seed) as probe:
        lr_context_encoder, lr_other = probe.rates
        others, same = probe.vary(Rates(0.0, lr_other)), probe.vary(Rates(lr_other, 0.0))

        def converged(rate: float) -> float:
            return probe.vary(Rates(rate, 0.0)).converged

        balanced = None
        if not (probe.saturation.doubt() or same.is_noise or others.is_noise):
            # Nearly linear in the rate, so this is about the answer already.
            start = lr_other * others.converged / same.converged
            balanced = crossing(converged, others.converged, start)
        pairs = [
            Rates(lr_other, 0.0),
            Rates(0.0, lr_other),
            Rates(lr_context_encoder, 0.0),
            Rates(lr_context_encoder, lr_other),
            *([] if balanced is None else [Rates(balanced, 0.0)]),
        ]
        return Diagnosis(
            probe.measure(list(dict.fromkeys(pairs))), lr_context_encoder, lr_other, balanced
        )


def crossing(variation: Callable[[float], float], target: float, start: float) -> float | None:
    """The rate at which a growing `variation(rate)` reaches `target`, to 2 %; None if none does.

    A bracket is opened from `start` by factors of 4, then halved in log space.
    """
    rising = variation(start) < target
    rate = start
    while True:
        before, rate = rate, rate * (4.0 if rising else 0.25)
        if not start / _REACH <= rate <= start * _REACH:
            return None
        if (variation(rate) < target) != rising:
            break
    low, high = sorted((before, rate))
    while high / low > 1 + _TOLERANCE:
        middle = math.sqrt(low * high)
        low, high = (middle, high) if variation(middle) < target else (low, middle)
    return math.sqrt(low * high)


def _times(factor: float | None) -> str:
    return "" if factor is None else f" ({factor:.1f} times as much)"


def _share(rate: float, other: float, name: str = "LR_other") -> str:
    if _about_one(rate / other):
        return f"about the same as {name}"
    if rate < other:
        return f"{other / rate:.2g} times smaller than {name}"
    return f"{rate / other:.2g} times {name}"


def _about_one(ratio: float) -> bool:
    return 1 / _SAME <= ratio <= _SAME
