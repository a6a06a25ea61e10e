"""The evaluations of a run: when each is played, and where its result goes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from resel.config import TrainingConfig
from resel.envs import AnyEnv, Restarts, warn_user
from resel.errors import DivergedError, EnvironmentFault
from resel.methods import Learner
from resel.training.actor import Actor
from resel.training.beside import CannotStartError, EvaluationWorker, Judge, Snapshot
from resel.training.clock import Clock
from resel.training.evaluation import Evaluation, evaluate, evaluation_seeds
from resel.training.score import final_evaluations, learning_since
from resel.training.train_log import TrainLog
from resel.training.validation import check_parts, check_tensors, flag, maybe, whole

_SNAPSHOT = "snapshot."


class FinalScore(NamedTuple):
    """What a run has come to."""

    mean: float | None
    std: float | None
    evaluations: int
    """How many it is the mean of."""


class Evaluator:
    """Owns the evaluations of a run and the environment they are made in, if there is one.

    With `eval_parallel` one may be under way beside learning. What is logged meanwhile waits for
    it, and a checkpoint holds what it is of: the log and the results are as without.
    """

    def __init__(
        self,
        learner: Learner,
        env: AnyEnv | None,
        settings: TrainingConfig,
        restarts: Restarts,
        log: TrainLog,
        clock: Clock,
    ) -> None:
        self.env = env
        self.actor = Actor(learner)
        """What is evaluated and asked for actions."""
        self.history: list[tuple[int, float, float]] = []
        """Step, mean return and its standard deviation of each."""
        self.learning_since: int | None = None
        """The step of the first evaluation after an update."""
        self.success_rate: float | None = None
        self.due = settings.eval_every > 0
        self.on_result: Callable[[Snapshot], None] | None = None
        """Called with what was evaluated once its result is in the history."""
        self._learner, self._settings, self._restarts = learner, settings, restarts
        self._log, self._clock = log, clock
        self._pending: Snapshot | None = None
        self._diverged: DivergedError | None = None
        self._worker: EvaluationWorker | None = None
        self._stays_here = not settings.eval_parallel

    def evaluate(self, step: int, episodes: int | None = None) -> Evaluation | None:
        """Measure the deterministic policy here; None without an environment to do it in."""
        self.finish()
        if self.env is None:
            self.due = False
            return None
        seeds = evaluation_seeds(self._settings.seed, episodes or self._settings.eval_episodes)
        while True:
            try:
                result = evaluate(self.actor, self.env, seeds)
                break
            except EnvironmentFault as fault:
                self._restarts.recover(self.env, fault)
        self._take_in(Snapshot(step, self._learner.updates, self._learner.weights()), result)
        return result

    def begin(self, step: int, *, awaited: bool) -> None:
        """Make the evaluation that is due, beside what follows unless it is awaited.

        The one before must have been finished.
        """
        if awaited or self.env is None or self._worker_for(self.env) is None:
            self.evaluate(step)
            return
        self.due = False
        self._pending = Snapshot.of(self._learner, step)
        self._log.hold()
        self.collect()

    def collect(self) -> None:
        """Take in the result of the evaluation under way, if it is there.

        That it has diverged is told by `finish`, at a step that does not depend on the clock.
        """
        if self._pending is not None and self._diverged is None:
            try:
                self._resolve(self._pending, wait=False)
            except DivergedError as error:
                self._diverged = error

    def finish(self) -> None:
        """Wait for the evaluation under way and take in its result."""
        if self._pending is None:
            return
        try:
            if self._diverged is not None:
                raise self._diverged
            self._resolve(self._pending, wait=True)
        except DivergedError:
            self._drop()
            raise

    def settle(self) -> None:
        """The same where something else has failed: what cannot be finished is left as it is."""
        if self._diverged is not None or (self._worker is not None and self._worker.busy):
            try:
                self.finish()
            except EnvironmentFault:
                return

    def rest(self) -> None:
        """End the process; the next evaluation starts another."""
        if self._worker is not None:
            self._worker.close()
        self._worker, self._stays_here = None, not self._settings.eval_parallel

    def _resolve(self, pending: Snapshot, wait: bool) -> None:
        """Take in what the evaluation gave, if it is there or is to be waited for."""
        seeds = evaluation_seeds(self._settings.seed, self._settings.eval_episodes)
        record = partial(self._log.insert, "event", pending.step)
        while self.env is not None:
            worker = self._worker_for(self.env)
            try:
                if worker is None:
                    device = self._learner.device
                    judge = Judge(self._learner.config, self._learner.dims, device, lambda: None)
                    result = judge.evaluate(pending.weights, self.env, seeds)
                else:
                    if not worker.busy:
                        worker.begin(pending.weights, seeds)
                    if not wait and not worker.has_finished():
                        return
                    result, seconds = worker.result()
                    self._clock.add_cpu(seconds)
                self._drop(release=False)
                self._take_in(pending, result)
                return
            except CannotStartError as error:
                self._stay_here(error)
            except EnvironmentFault as fault:
                self._restarts.recover(worker or self.env, fault, record)
        self._drop()  # nobody can play it any more

    def _worker_for(self, env: AnyEnv) -> EvaluationWorker | None:
        """The process to evaluate in; None where it is done here."""
        if self._worker is None and not self._stays_here:
            try:
                self._worker = EvaluationWorker(self._learner, env, self._settings.env_timeout)
            except CannotStartError as error:
                self._stay_here(error)
        return self._worker

    def _stay_here(self, reason: CannotStartError) -> None:
        self.rest()
        self._stays_here = True
        warn_user(f"Learning waits for evaluations, in spite of eval_parallel. {reason}")

    def _drop(self, release: bool = True) -> None:
        self._pending = self._diverged = None
        if release:
            self._log.release()

    def _take_in(self, of: Snapshot, result: Evaluation) -> None:
        self.due = False
        self.history.append((of.step, result.return_mean, result.return_std))
        if self.learning_since is None and of.updates:
            self.learning_since = of.step
        self.success_rate = result.success_rate
        values: dict[str, float] = {
            "return_mean": result.return_mean,
            "return_std": result.return_std,
            "length_mean": result.length_mean,
            "updates": of.updates,
            **result.inner_means,
        }
        if result.success_rate is not None:
            values["success_rate"] = result.success_rate
        if result.adaptation_steps is not None:
            values["adaptation_steps"] = result.adaptation_steps
        self._log.insert("eval", of.step, values)
        self._log.release()
        if self.on_result is not None:
            self.on_result(of)

    def final_score(self) -> FinalScore:
        """Mean over the last evaluations, and the mean deviation inside them."""
        last = final_evaluations(self.history, self.learning_since)
        if not last:
            return FinalScore(None, None, 0)
        mean, std = np.mean([e[1:] for e in last], axis=0)
        return FinalScore(float(mean), float(std), len(last))

    def state(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """All evaluations, whether one is due, and what the one under way is of."""
        history = np.array(self.history, np.float64).reshape(-1, 3)
        tensors, pending = {"evaluations": torch.from_numpy(history)}, {}
        if self._pending is not None:
            tensors |= {_SNAPSHOT + name: w for name, w in self._pending.weights.items()}
            pending = {"step": self._pending.step, "updates": self._pending.updates}
        return tensors, {
            "success_rate": self.success_rate,
            "due": self.due,
            "learning_since": self.learning_since,
            **({"pending": pending} if pending else {}),
        }

    def restore(self, tensors: Mapping[str, Tensor], document: Mapping[str, Any]) -> None:
        """Take over what `state` gave; an evaluation that was under way begins again."""
        plain = {name: t for name, t in tensors.items() if not name.startswith(_SNAPSHOT)}
        check_parts(plain, {"evaluations": torch.zeros(0, 3, dtype=torch.float64)})
        success_rate, due = maybe(document, "success_rate"), flag(document, "due")
        pending = None
        if "pending" in document:
            own = {n.removeprefix(_SNAPSHOT): t for n, t in tensors.items() if n not in plain}
            check_tensors(own, self._learner.weights(), "the checkpoint's evaluation")
            counts = whole(document["pending"], "step"), whole(document["pending"], "updates")
            pending = Snapshot(*counts, own)
        self.history = [(int(s), m, d) for s, m, d in plain["evaluations"].tolist()]
        if "learning_since" not in document:  # an older checkpoint
            self.learning_since = learning_since((step, None) for step, _, _ in self.history)
        elif document["learning_since"] is None:
            self.learning_since = None
        else:
            self.learning_since = whole(document, "learning_since")
        self.success_rate, self.due = success_rate, due
        self.rest()
        self._pending, self._diverged = pending, None
