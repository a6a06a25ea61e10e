"""Trials as jobs for the engines: asked for, taken up again, watched, given up, told.

A trial is a folder with a run for each seed. Whoever works on it holds a lock there, which ends
with its process, however that ends: then another takes the trial up, with its settings and its
runs. A trial that is stopped stays open in the study.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from resel.analysis.runs import learned_since, lines_so_far, points, result_so_far
from resel.errors import ConfigError, RunInUseError
from resel.experiments import Entry, Job, Ledger, Setting, read_state, train_command
from resel.runs import Lock, is_in_use
from resel.tuning._search import FIRST_SEED, Search
from resel.tuning._study import begun, distributions, optuna

_ORIGIN = "origin"
_PROBLEM = "problem"
_LOOK = 2.0
"""Seconds between two looks at the learning curves."""
_HOPELESS = 3
"""So many failed trials and no other: it is not the settings."""
_PATIENCE = 120.0


@dataclass
class Work:
    """A trial that this process works on."""

    number: int
    trial: Any
    settings: dict[str, Any]
    folder: Path
    lock: Lock
    scores: list[float] = field(default_factory=list)
    """Of the seeds that are done."""
    reported: int = -1
    """The newest step that the study knows."""
    is_pruned: bool = False

    @property
    def seed(self) -> int:
        """The one that is next."""
        return FIRST_SEED + len(self.scores)

    @property
    def run(self) -> Path:
        """Of this seed."""
        return self.folder / f"seed{self.seed}"


@dataclass
class Trials(Ledger):
    """A ledger that never ends by itself: it asks the study for the next trial."""

    search: Search = field(kw_only=True)
    study: Any = field(kw_only=True)
    origin: str = field(kw_only=True)
    """Of trials whose runs are in the folder of this search."""
    slots: int = field(kw_only=True)
    threads: int = field(kw_only=True)
    is_over: Callable[[], bool] = field(kw_only=True)
    """Whether the time is spent."""
    limit: int | None = field(kw_only=True, default=None)
    """Trials in all."""
    told_trial: Callable[[Work, str], None] = field(kw_only=True, default=lambda work, text: None)
    """Called with what has become of a trial."""
    scored: Callable[[], None] = field(kw_only=True, default=lambda: None)
    """Called when a trial has its score."""
    works: dict[Path, Work] = field(default_factory=dict)
    """By the run that is under way."""
    _looked: float = 0.0
    _failed: int = 0

    def waiting(self) -> list[Job]:
        """Jobs to begin; new trials as long as there are places and time."""
        if self.is_over():
            return []
        while self.count("waiting", "running") < self.slots and self._begin():
            pass
        return super().waiting()

    def unwanted(self, job: Job) -> bool:
        """A run of a trial that was given up, or all when the time is spent."""
        work = self.works.get(job.run)
        return self.is_over() or work is None or work.is_pruned

    def ended(self, job: Job, code: int | None, problem: str = "") -> float:
        """A run is over: the trial goes on with the next seed, or is told to the study."""
        work = self.works[job.run]
        if work.is_pruned:
            self._leave(job.run)
            return 0.0
        if self.is_over() and read_state(job).status == "waiting":  # we have stopped it
            if code is None:
                _let_save(job.run)
            self.stopped(job)
            return 0.0
        wait = super().ended(job, code, problem)
        self.look(now=True)
        entry = self.entries[job.run]
        if entry.status in ("completed", "diverged", "failed") and not work.is_pruned:
            self._settle(work, entry)
        return wait

    def look(self, now: bool = False) -> None:
        """Report new evaluations to the study, and give up what does not keep up."""
        if not now and time.monotonic() - self._looked < _LOOK:
            return
        self._looked = time.monotonic()
        for run, work in list(self.works.items()):
            if not work.is_pruned:
                self._report(run, work)

    def close(self) -> None:
        """Let others take up what is left."""
        for work in self.works.values():
            work.lock.release()

    def _begin(self) -> bool:
        """Take up a trial that nobody works on, or ask for a new one; False if there is none."""
        found = self._left_behind() or self._new()
        if found is None:
            return False
        self._go_on(found)
        return True

    def _left_behind(self) -> Work | None:
        running = optuna().trial.TrialState.RUNNING
        mine = {work.number for work in self.works.values()}
        for frozen in self.study.get_trials(deepcopy=False, states=(running,)):
            here = frozen.user_attrs.get(_ORIGIN) == self.origin
            if here and frozen.number not in mine and (lock := _claim(self._folder(frozen.number))):
                trial = optuna().trial.Trial(self.study, frozen._trial_id)
                work = self._work(trial, lock)
                work.reported = max(frozen.intermediate_values, default=-1)
                self.told_trial(work, "is taken up again")
                return work
        return None

    def _new(self) -> Work | None:
        if self.limit is not None and len(begun(self.study)) >= self.limit:
            return None
        trial = self.study.ask(distributions(self.search.space))
        lock = _claim(self._folder(trial.number))
        if lock is None:
            raise ConfigError(
                f"{self._folder(trial.number)} is in use, but not by this study: name another "
                "--out."
            )
        trial.set_user_attr(_ORIGIN, self.origin)
        work = self._work(trial, lock)
        words = ", ".join(f"{name} {value}" for name, value in work.settings.items())
        self.told_trial(work, f"begins with {words}")
        return work

    def _work(self, trial: Any, lock: Lock) -> Work:
        settings = self.search.settings_of(trial.params)
        return Work(trial.number, trial, settings, self._folder(trial.number), lock)

    def _folder(self, number: int) -> Path:
        return self.search.folder / f"{number:04d}"

    def _go_on(self, work: Work) -> None:
        """The run of the next seed as a job; a seed that is done already is passed over."""
        setting = self.search.setting
        overrides = {**setting.overrides, **work.settings}
        own = Setting(setting.task, overrides, preset=setting.preset, method=setting.method)
        command = train_command(own, work.seed, work.run, self.threads)
        job = Job(work.run, command, self.search.steps, self.threads)
        entry = Entry(job, read_state(job).status)
        self.works[job.run], self.entries[job.run] = work, entry
        if entry.status != "waiting":
            self._report(job.run, work)
            self._settle(work, entry)

    def _settle(self, work: Work, entry: Entry) -> None:
        """What comes after a run that has come to its end."""
        states = optuna().trial.TrialState
        run = entry.job.run
        score = result_so_far(run).get("eval_return_mean")
        if entry.status == "completed" and isinstance(score, int | float):
            del self.works[run], self.entries[run]
            work.scores.append(float(score))
            if len(work.scores) < self.search.seeds:
                self._go_on(work)
                return
            value = sum(work.scores) / len(work.scores)
            self.study.tell(work.number, value)
            work.lock.release()
            self.told_trial(work, f"score {value:.5g}")
            self.scored()
            return
        if entry.status == "diverged":
            problem = f"diverged at step {read_state(entry.job).step:,}"
            self._tell(work, states.PRUNED, problem)
        else:
            problem = entry.problem or "no evaluation after the first update"
            self._tell(work, states.FAIL, problem)
        self._leave(run)
        self.told_trial(work, problem)
        if entry.status != "diverged":
            self._count_failure(problem)

    def _count_failure(self, problem: str) -> None:
        """Refuse to go on where nothing works."""
        self._failed += 1
        states = optuna().trial.TrialState
        good = self.study.get_trials(deepcopy=False, states=(states.COMPLETE, states.PRUNED))
        if self._failed >= _HOPELESS and not good:
            raise ConfigError(f"{self._failed} trials have failed and no other is there: {problem}")

    def _tell(self, work: Work, state: Any, problem: str) -> None:
        work.trial.set_user_attr(_PROBLEM, problem)
        self.study.tell(work.number, state=state)

    def _leave(self, run: Path) -> None:
        self.works.pop(run).lock.release()
        del self.entries[run]

    def _report(self, run: Path, work: Work) -> None:
        lines = lines_so_far(run)
        since, done = learned_since(lines), len(work.scores)
        for step, value in zip(*points(lines, "eval", "return_mean"), strict=True):
            # Seeds follow each other, and so do their steps: all trials are measured alike.
            place = done * self.search.steps + step
            if since is None or step < since or place <= work.reported or value != value:
                continue
            work.trial.report((sum(work.scores) + value) / (done + 1), place)
            work.reported = place
            if step < self.search.steps and work.trial.should_prune():
                problem = f"given up at step {step:,} of seed {work.seed}: {value:.5g}"
                self._tell(work, optuna().trial.TrialState.PRUNED, problem)
                work.is_pruned = True
                self.told_trial(work, problem)
                return


def _claim(folder: Path) -> Lock | None:
    """The right to work on a trial; None if another process has it."""
    folder.mkdir(parents=True, exist_ok=True)
    try:
        return Lock(folder / ".lock")
    except RunInUseError:
        return None


def _let_save(run: Path) -> None:
    """A run whose worker was taken away saves by itself."""
    deadline = time.monotonic() + _PATIENCE
    while is_in_use(run) and time.monotonic() < deadline:
        time.sleep(_LOOK / 4)
