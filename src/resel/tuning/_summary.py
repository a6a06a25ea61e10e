"""What a study has come to, as plain data: for the preset file, the table and the page."""

from __future__ import annotations

import csv
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from resel.config import Config
from resel.methods import PresetFile
from resel.tuning._search import Search
from resel.tuning._study import begun, optuna

_LEAST = 4
"""Trials with a score from which on importance is worth a word."""


@dataclass(frozen=True)
class Trial:
    """One trial."""

    number: int
    status: str
    """complete, pruned, failed or running."""
    score: float | None
    """The mean over seeds of the last evaluations; for one that was given up its last report."""
    settings: Mapping[str, Any]
    seconds: float | None = None
    problem: str | None = None

    @property
    def is_complete(self) -> bool:
        """Whether it can be the best."""
        return self.status == "complete" and self.score is not None


@dataclass(frozen=True)
class Summary:
    """A search, so far."""

    search: Search
    trials: list[Trial]
    importance: Mapping[str, float]
    """Share of each setting in how scores differ; empty for too few trials."""

    @property
    def best(self) -> Trial | None:
        """The complete trial with the highest score; of equals the first."""
        complete = [trial for trial in self.trials if trial.is_complete]
        return max(complete, key=lambda trial: trial.score or 0.0) if complete else None

    @property
    def baseline(self) -> Trial | None:
        """The trial with the settings of the preset, if it is complete."""
        wanted = self.search.settings_of(self.search.baseline)
        same = [t for t in self.trials if t.is_complete and dict(t.settings) == wanted]
        return same[0] if same else None

    def count(self, status: str) -> int:
        """Trials of this status."""
        return sum(trial.status == status for trial in self.trials)

    @property
    def config(self) -> Config | None:
        """All settings of the best trial."""
        best = self.best
        return None if best is None else self.search.config.replace(**best.settings)

    def write_preset(self, path: Path) -> bool:
        """The best settings as a preset file; False if there are none."""
        best, config = self.best, self.config
        if best is None or config is None:
            return False
        about = {
            "found_by": "resel tune",
            "study": self.search.study,
            "trial": best.number,
            "trials": len(self.trials),
            "score": best.score,
            "score_of_the_preset": None if self.baseline is None else self.baseline.score,
            "seeds": self.search.about["seeds"],
            "searched": sorted(self.search.space),
        }
        PresetFile.of(config, about, best.settings).write(path)
        return True

    def write_table(self, path: Path) -> None:
        """A line for each trial."""
        names = list(self.search.space)
        with path.open("w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file)
            writer.writerow(["trial", "status", "score", "seconds", *names, "problem"])
            for t in self.trials:
                values = [t.settings.get(name) for name in names]
                writer.writerow([t.number, t.status, t.score, t.seconds, *values, t.problem])


def summarize(search: Search, study: Any) -> Summary:
    """Read a study."""
    trials = [_trial(search, found) for found in begun(study)]
    return Summary(search, trials, _importance(study, trials, search))


def _trial(search: Search, found: Any) -> Trial:
    reports = found.intermediate_values
    score = found.value if found.value is not None else reports.get(max(reports, default=None))
    ended = found.datetime_complete and found.datetime_start
    return Trial(
        found.number,
        {"FAIL": "failed"}.get(found.state.name, found.state.name.lower()),
        score,
        search.settings_of(found.params),
        (found.datetime_complete - found.datetime_start).total_seconds() if ended else None,
        found.user_attrs.get("problem"),
    )


def _importance(study: Any, trials: list[Trial], search: Search) -> dict[str, float]:
    scores = {trial.score for trial in trials if trial.is_complete}
    if sum(trial.is_complete for trial in trials) < _LEAST or len(scores) < 2:
        return {}
    measure = optuna().importance
    try:
        found = measure.get_param_importances(
            study, evaluator=measure.PedAnovaImportanceEvaluator(), params=list(search.space)
        )
    except (ValueError, RuntimeError):  # ranges that differ, or nothing that differs
        return {}
    return {name: float(share) for name, share in found.items()}
