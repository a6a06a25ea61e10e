"""Algorithm 1: act, store, learn, and now and then evaluate, log and save."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple, Protocol, Self

import numpy as np
import torch
from torch import Tensor

from resel.config import Config
from resel.data import Batch, Moment, ReplayBuffer
from resel.envs import AnyEnv, Restarts
from resel.errors import ConfigError, EnvironmentFault
from resel.methods import Learner, build_learner
from resel.networks import Dimensions
from resel.optim import READ_EVERY
from resel.randomness import numpy_state, numpy_stream, restore_numpy
from resel.training.actor import Actor
from resel.training.collector import Collector
from resel.training.divergence import DivergenceMonitor
from resel.training.evaluation import Evaluation, evaluate, evaluation_seeds
from resel.training.progress import Callback, TrainProgress
from resel.training.score import final_evaluations
from resel.training.validation import (
    check_parts,
    check_tensors,
    damaged_if_wrong,
    flag,
    maybe,
    whole,
)

Tensors = Mapping[str, Mapping[str, Tensor]]
Documents = Mapping[str, Any]
LoadBuffer = Callable[[Mapping[str, Any], ReplayBuffer], None]
"""Fills the buffer with the episodes of an index."""


class MetricsWriter(Protocol):
    """Takes what is measured."""

    def write(self, kind: str, step: int, values: Mapping[str, float | str]) -> None:
        """One line."""


class FinalScore(NamedTuple):
    """What a run has come to."""

    mean: float | None
    deviation: float | None
    evaluations: int
    """How many it is the mean of."""


def choose_device(name: str) -> torch.device:
    """`auto` takes a GPU where there is one."""
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    if name.startswith("cuda") and not torch.cuda.is_available():
        raise ConfigError(
            f"device {name}: torch finds no GPU here. Use cpu (--device cpu) or auto."
        )
    return torch.device(name)


@dataclass
class _Returns:
    """Returns of training episodes: the last, and the mean of those since a line of the log.

    While none has ended since that line, the mean stays as it was there.
    """

    last: float | None = None
    total: float = 0.0
    count: int = 0
    logged: bool = False

    def add(self, value: float) -> None:
        if self.logged:
            self.total, self.count, self.logged = 0.0, 0, False
        self.last = value
        self.total += value
        self.count += 1

    def state(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def restored(cls, document: Mapping[str, Any]) -> Self:
        return cls(
            maybe(document, "last"),
            float(document["total"]),
            whole(document, "count"),
            flag(document, "logged"),
        )


class Trainer:
    """Owns the loop and its counters; the parts own their data."""

    def __init__(
        self,
        config: Config,
        envs: Sequence[AnyEnv],
        evaluation_env: AnyEnv | None = None,
    ) -> None:
        self.config, self._envs = config, list(envs)
        self.log: MetricsWriter | None = None
        self.evaluation_env = evaluation_env
        observation, action = envs[0].observation, envs[0].action
        self.learner: Learner = build_learner(
            config,
            Dimensions(observation.size, action.size, action.discrete),
            choose_device(config.training.device),
        )
        seed = config.training.seed
        self.actor = Actor(self.learner)
        self.buffer = ReplayBuffer(
            config.training.buffer_steps, observation.size, action.stored_size
        )
        self.step = 0
        self._early_events: list[Mapping[str, float | str]] = []
        self.restarts = Restarts(config.training.env_restarts, self._write_event)
        self.collector = Collector(envs, self.actor, seed, self.restarts)
        self.monitor = DivergenceMonitor(
            config.training.on_divergence == "rollback", self._write_event
        )
        self._sampling = numpy_stream(seed, "sampling")
        self.episodes, self.finished_steps = 0, 0
        self._schedule = self.learner.schedule
        self.evaluations: list[tuple[int, float, float]] = []  # step, mean, deviation
        self.success_rate: float | None = None
        self.seconds = 0.0
        self._returns = _Returns()
        self._train_metrics: dict[str, float] = {}
        self._updates_to_log = 0
        self._log_at = 0
        self._evaluation_due = config.training.eval_every > 0
        self._stop = False

    def request_stop(self) -> None:
        """End `train` after the current step."""
        self._stop = True

    @property
    def stopping(self) -> bool:
        """Whether the end was asked for."""
        return self._stop

    def train(self, steps: int, callbacks: Sequence[Callback] = ()) -> bool:
        """Take `steps` further environment steps; False if it was stopped before."""
        total = self.step + steps
        started, already = time.monotonic(), self.seconds
        mark = (started, self.step, self.learner.updates)
        self._stop = False
        while self.step < total and not self._stop:
            before = self.step
            try:
                self._advance()
            except EnvironmentFault:
                if self._stop:  # whoever stops us may have ended the environments as well
                    break
                raise
            self.seconds = already + time.monotonic() - started
            if self._crossed(before, self.config.training.log_every):
                mark = self._log_timing(mark)
            progress = TrainProgress(
                self.step,
                total,
                self.learner.updates,
                self.episodes,
                self._returns.last,
                self.evaluations[-1][1] if self.evaluations else None,
            )
            for callback in callbacks:
                if callback(progress) is False:
                    self._stop = True
        if self.step >= total:
            self.check()
        return self.step >= total

    def _advance(self) -> None:
        """One step of every environment and as many updates."""
        settings = self.config.training
        before, finished_before = self.step, self.finished_steps
        if self._evaluation_due:
            self.evaluate()
        for trajectory in self.collector.step(random=before < settings.warmup_steps):
            self.buffer.add(trajectory)
            self.learner.normalizer.update(trajectory.observations)
            self.episodes += 1
            self.finished_steps += len(trajectory)
            self._returns.add(float(trajectory.rewards.sum(dtype=np.float64)))
        self.step += len(self._envs)
        if self._crossed(before, settings.log_every):
            self._updates_to_log = self.learner.updates_to_log
            self._log_at = self.step
        if self.step >= settings.warmup_steps and len(self.buffer):
            finished = self.finished_steps
            for _ in range(
                self._schedule.due(Moment(before, self.step, finished_before, finished))
            ):
                self._update()
        self._evaluation_due = self._crossed(before, settings.eval_every)
        if self._evaluation_due:
            self.evaluate()

    def sample(self) -> Batch:
        """A random batch, drawn as the method does it and laid out as its policy likes it."""
        learner = self.learner
        return learner.sampler.draw(self.buffer, self._sampling, learner.policy.suitable_rows)

    def _update(self) -> None:
        batch = self.sample()
        wanted = self._updates_to_log > 0
        metrics = self.learner.update(batch, want_metrics=wanted)
        self.monitor.remember(self.learner.updates, batch.origins, self.episodes)
        if wanted:
            self._train_metrics |= {name: float(value) for name, value in metrics.items()}
            self._updates_to_log -= 1
            if self._updates_to_log == 0:
                self._log_train(batch)
        if (wanted and self._updates_to_log == 0) or self.learner.updates % READ_EVERY == 0:
            self.check()

    def check(self) -> None:
        """Record numerical faults of the updates so far; raises if training has diverged."""
        self._judge()
        self.monitor.act(self.step)

    def _judge(self) -> None:
        self.monitor.judge(self.learner.steps.read(), self.buffer, self.episodes)

    def _log_train(self, batch: Batch) -> None:
        values, self._train_metrics = self._train_metrics, {}
        values["padding_share"] = batch.padding / batch.is_first.numel()
        values["batch_steps"] = batch.steps
        values["buffer_steps"] = self.buffer.steps
        if self._returns.count:
            values["episode_return"] = self._returns.total / self._returns.count
            self._returns.logged = True
        values["episodes"] = self.episodes
        self._write("train", self._log_at, values)

    def _log_timing(self, mark: tuple[float, int, int]) -> tuple[float, int, int]:
        now = (time.monotonic(), self.step, self.learner.updates)
        elapsed = max(now[0] - mark[0], 1e-9)
        self._write(
            "timing",
            self.step,
            {
                "updates_per_second": (now[2] - mark[2]) / elapsed,
                "steps_per_second": (now[1] - mark[1]) / elapsed,
                "seconds": self.seconds,
            },
        )
        return now

    def evaluate(self, episodes: int | None = None) -> Evaluation | None:
        """Measure the deterministic policy; None without an environment to do it in."""
        env = self.evaluation_env
        if env is None:
            self._evaluation_due = False
            return None
        settings = self.config.training
        seeds = evaluation_seeds(settings.seed, episodes or settings.eval_episodes)
        while True:
            try:
                result = evaluate(self.actor, env, seeds)
                break
            except EnvironmentFault as fault:
                self.restarts.recover(env, fault)
        self._evaluation_due = False
        self.evaluations.append((self.step, result.return_mean, result.return_std))
        self.success_rate = result.success_rate
        values: dict[str, float] = {
            "return_mean": result.return_mean,
            "return_std": result.return_std,
            "length_mean": result.length_mean,
        }
        if result.success_rate is not None:
            values["success_rate"] = result.success_rate
        self._write("eval", self.step, values)
        return result

    def final_score(self) -> FinalScore:
        """Mean over the last evaluations, and the mean deviation inside them."""
        last = final_evaluations(self.evaluations)
        if not last:
            return FinalScore(None, None, 0)
        mean, deviation = np.mean([e[1:] for e in last], axis=0)
        return FinalScore(float(mean), float(deviation), len(last))

    def _crossed(self, before: int, every: int) -> bool:
        return every > 0 and self.step // every > before // every

    def _write(self, kind: str, step: int, values: Mapping[str, float | str]) -> None:
        if self.log is not None:
            self.log.write(kind, step, values)

    def _write_event(self, event: Mapping[str, float | str]) -> None:
        if self.log is None:
            self._early_events.append(event)
        self._write("event", self.step, event)

    def write_early_events(self) -> None:
        """Write the events of the time before there was a log."""
        for event in self._early_events:
            self._write("event", self.step, event)
        self._early_events.clear()

    def close(self) -> None:
        """Release the simulators."""
        self.collector.close()
        if self.evaluation_env is not None:
            self.evaluation_env.close()

    def checkpoint(self) -> tuple[dict[str, dict[str, Tensor]], dict[str, Any]]:
        """Tensors and documents from which `restore` continues, but for the buffer's episodes."""
        self._judge()
        learner_tensors, learner_document = self.learner.state()
        collector_tensors, collector_document = self.collector.state()
        evaluations = np.array(self.evaluations, np.float64).reshape(-1, 3)
        return {
            "weights": self.learner.weights(),
            "learner": learner_tensors,
            "collector": collector_tensors,
            "buffer": {name: torch.from_numpy(a) for name, a in self.buffer.state().items()},
            "loop": {"evaluations": torch.from_numpy(evaluations)},
        }, {
            "config": self.config.to_json(),
            "learner": learner_document,
            "collector": collector_document,
            "guard": self.monitor.state(),
            "loop": {
                "step": self.step,
                "episodes": self.episodes,
                "finished_steps": self.finished_steps,
                "returns": self._returns.state(),
                "success_rate": self.success_rate,
                "evaluation_due": self._evaluation_due,
                "env_restarts": self.restarts.used,
                "updates_to_log": self._updates_to_log,
                "log_at": self._log_at,
                "train_metrics": {  # JSON has no NaN
                    k: v if math.isfinite(v) else str(v) for k, v in self._train_metrics.items()
                },
                "sampling": numpy_state(self._sampling),
            },
            "clock": {"seconds": self.seconds},
        }

    def restore(self, tensors: Tensors, documents: Documents, load_buffer: LoadBuffer) -> bool:
        """Continue from a checkpoint; False if an unfinished episode had to be dropped."""
        with damaged_if_wrong():
            check_tensors(tensors["weights"], self.learner.weights(), "the checkpoint")
            check_parts(tensors["collector"], self.collector.state()[0])
            check_parts(tensors["loop"], {"evaluations": torch.zeros(0, 3, dtype=torch.float64)})
            loop, clock = documents["loop"], documents["clock"]
            step, episodes = whole(loop, "step"), whole(loop, "episodes")
            finished_steps = whole(loop, "finished_steps")
            updates_to_log, log_at = whole(loop, "updates_to_log"), whole(loop, "log_at")
            returns, success_rate = (
                _Returns.restored(loop["returns"]),
                maybe(loop, "success_rate"),
            )
            evaluation_due = flag(loop, "evaluation_due")
            # Before the environments, which may have to be made anew to play their episodes again.
            self.restarts.used = whole(loop, "env_restarts")
            train_metrics = {str(k): float(v) for k, v in loop["train_metrics"].items()}
            seconds = float(clock["seconds"])
            restore_numpy(self._sampling, loop["sampling"])
            index = {name: t.numpy() for name, t in tensors["buffer"].items()}
            load_buffer(index, self.buffer)
            self.learner.load_weights(tensors["weights"])
            self.learner.restore(tensors["learner"], documents["learner"])
            self.monitor.restore(documents["guard"])
            exact = self.collector.restore(tensors["collector"], documents["collector"])
        self.step, self.episodes, self.finished_steps = step, episodes, finished_steps
        self._updates_to_log, self._log_at = updates_to_log, log_at
        self._returns, self.success_rate = returns, success_rate
        self._train_metrics, self.seconds = train_metrics, seconds
        self._evaluation_due = evaluation_due
        rows = tensors["loop"]["evaluations"].tolist()
        self.evaluations = [(int(at), mean, deviation) for at, mean, deviation in rows]
        return exact

    def roll_back(self, restore: Callable[[Trainer], bool]) -> bool:
        """Go back to what `restore` restores and draw other batches; what was counted stays.

        False if an unfinished episode had to be dropped.
        """
        seconds, restarts = self.seconds, self.restarts.used
        skipped, rollbacks = self.monitor.skipped, self.monitor.rollbacks + 1
        exact = restore(self)
        self.seconds, self.restarts.used = seconds, restarts
        self.monitor.skipped, self.monitor.rollbacks = skipped, rollbacks
        self._sampling = numpy_stream(self.config.training.seed, f"sampling-{rollbacks}")
        return exact
