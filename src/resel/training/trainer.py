"""The loop of all methods: act, store, learn, and now and then evaluate and log."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from resel.config import Config
from resel.data import Batch, Moment, ReplayBuffer
from resel.envs import AnyEnv, Restarts
from resel.errors import ConfigError, DivergedError, EnvironmentFault
from resel.methods import Learner, build_learner, check_episodes, check_learned, remedy
from resel.networks import Dimensions
from resel.optim import READ_EVERY
from resel.randomness import numpy_state, numpy_stream, restore_numpy
from resel.training.actor import Actor
from resel.training.clock import Clock
from resel.training.collector import Collector
from resel.training.device import choose_device
from resel.training.divergence import DivergenceMonitor
from resel.training.env_factory import task_envs
from resel.training.evaluation import Evaluation
from resel.training.evaluator import Evaluator
from resel.training.exploration import Exploration
from resel.training.privileged import privileged_size
from resel.training.progress import Callback, TrainProgress, awaits_evaluation
from resel.training.score import Ending, ending_by, is_held, may_be_held, reached
from resel.training.train_log import Mark, TrainLog
from resel.training.trials import Trials
from resel.training.validation import check_parts, check_tensors, damaged_if_wrong, whole

Tensors = Mapping[str, Mapping[str, Tensor]]
Documents = Mapping[str, Any]
LoadBuffer = Callable[[Mapping[str, Any], ReplayBuffer], None]
"""Fills the buffer with the episodes of an index."""


class Stateful(Protocol):
    """The one way in which parts of a run are saved; `restore` takes both back."""

    def state(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """Tensors, and a document of plain data."""


class Trainer:
    """Owns the loop and its counters; the parts own their data."""

    def __init__(
        self,
        config: Config,
        envs: Sequence[AnyEnv],
        evaluation_env: AnyEnv | None = None,
        privileged: int | None = None,
    ) -> None:
        """`privileged` is how many numbers a saved agent's critic reads beside the history."""
        self.config, self._envs = config, list(envs)
        for env in (*envs, *([evaluation_env] if evaluation_env else [])):
            check_episodes(config, env)
        settings, seed = config.training, config.training.seed
        observation, action = envs[0].observation, envs[0].action
        dims = Dimensions.of(observation, action)
        self.learner: Learner = build_learner(
            config,
            dims._replace(privileged=privileged_size(config, envs[0], privileged)),
            choose_device(settings.device),
        )
        self.log = TrainLog()
        self.step, self.episodes, self.finished_steps = 0, 0, 0
        self.clock = Clock()
        self.restarts = Restarts(settings.env_restarts, self._event)
        self._exploration = exploration = Exploration.of(settings, envs)
        actor = exploration.actor(self.learner) if exploration is not None else None
        actor = actor or Actor(self.learner, explores=True)
        on_step = self.learner.note if self.learner.on_policy else None
        adaptation = self.learner.adaptation
        self.collector = Collector(
            envs,
            actor,
            seed,
            self.restarts,
            exploration,
            on_step,
            Trials(adaptation.training, len(envs), self.learner, lambda: self.buffer)
            if adaptation is not None
            else None,
            self.learner.drop,
        )
        self.buffer = ReplayBuffer(
            settings.buffer_steps,
            observation.stored_size,
            action.stored_size,
            self.collector.columns,
            observation.dtype,
        )
        self.evaluator = Evaluator(
            self.learner, evaluation_env, settings, self.restarts, self.log, self.clock
        )
        goes_back = settings.on_divergence == "rollback"
        self.monitor = DivergenceMonitor(goes_back, self._event, partial(remedy, self.learner))
        self._schedule = self.learner.schedule
        self._sampling = numpy_stream(seed, "sampling")
        self._stop = False
        self._ended_by: Ending | None = None
        self._total, self._callbacks = 0, tuple[Callback, ...]()

    @property
    def actor(self) -> Actor:
        """What is evaluated and asked for actions."""
        return self.evaluator.actor

    @property
    def env(self) -> AnyEnv:
        """The first environment, which tells the spaces."""
        return self._envs[0]

    def set_steps(self, steps: int) -> None:
        """Write down how many steps the training is to take in all; rates may depend on it."""
        self.config = self.learner.config = self.config.replace(steps=steps)

    def request_stop(self) -> None:
        """End `train` after the current step."""
        self._stop = True

    @property
    def stopping(self) -> bool:
        """Whether the end was asked for."""
        return self._stop

    def train(self, steps: int, callbacks: Sequence[Callback] = ()) -> bool:
        """Take `steps` further environment steps, or fewer if there is an `ending` before.

        False if it was interrupted.
        """
        self.check_settings()
        self._total, self._callbacks = self.step + steps, tuple(callbacks)
        self.clock.start()
        self._stop, self._ended_by = False, None
        try:
            self._take_steps()
            done = self.step >= self._total or self.ending is not None
            if done:
                self.check()
        except (DivergedError, EnvironmentFault):
            self.evaluator.settle()
            raise
        finally:
            self.evaluator.rest()
            self._callbacks = ()
        return done

    def _take_steps(self) -> None:
        mark = Mark(time.monotonic(), self.step, self.learner.updates)
        try:
            while self.step < self._total and not (self._stop or self.ending):
                before = self.step
                self._advance()
                self.clock.tick()
                if self._crossed(before, self.config.training.log_every):
                    mark = self.log.timing(mark, self.step, self.learner.updates, self.clock)
                progress = self._progress(self._total)
                for callback in self._callbacks:
                    if callback(progress) is False:
                        self._ended_by = self._ended_by or ending_by(callback)
            self.evaluator.finish()
            self.clock.tick()
        except EnvironmentFault:
            if not self._stop:  # whoever stops us may have ended the environments as well
                raise

    def check_settings(self, anew: bool = False) -> None:
        """Refuse settings, or environments, that suffice to act but not to learn.

        Whoever learns `anew` is also told of settings that would change nothing; older runs that
        have such ones go on.
        """
        for env in self._envs:  # first: no setting helps where it is not told what it learns from
            self.learner.check_told(env.told)
        if why := self.learner.cannot_learn():
            raise ConfigError(why)
        begins = anew and not (self.step or self.learner.updates)
        if begins and (why := self.learner.unheeded()):
            raise ConfigError(why)
        for env in self._envs:
            check_learned(self.learner, env)

    @property
    def ending(self) -> Ending | None:
        """Why no further step is wanted: a callback has said so, or `stop_return` is reached."""
        wanted = self.config.training.stop_return
        if wanted is not None and is_held(wanted, self.evaluator.history):
            return self._ended_by or reached(wanted)
        return self._ended_by

    def _progress(self, total: int) -> TrainProgress:
        history = self.evaluator.history
        return TrainProgress(
            self.step,
            total,
            self.learner.updates,
            self.episodes,
            self.log.last_return,
            history[-1][1] if history else None,
            self.log.metrics,
            self._schedule.due(Moment(self.step, total, self.finished_steps, total)),
        )

    def _advance(self) -> None:
        """One step of every environment and the updates that are due then."""
        settings = self.config.training
        before, finished_before = self.step, self.finished_steps
        if self.evaluator.due:
            self._evaluate_when_due()
        else:
            self.evaluator.collect()
        if self._exploration is not None:
            self._exploration.at(before / settings.steps)
        ended = self.collector.step(random=before < settings.warmup_steps)
        for trajectory in ended:
            self.buffer.add(trajectory)
            self.learner.observe(trajectory)
            self.episodes += 1
            self.finished_steps += len(trajectory)
            self.log.add_return(float(trajectory.rewards.sum(dtype=np.float64)))
        self.step += len(self._envs)
        if self._crossed(before, settings.log_every):
            self.log.begin_line(self.step, self.learner.updates_to_log)
        if self.step >= settings.warmup_steps and (len(self.buffer) or self.learner.on_policy):
            finished = finished_before, self.finished_steps
            moment = Moment(before, self.step, *finished, ended=tuple(ended))
            for _ in range(self._schedule.due(moment)):
                self._update()
        self.evaluator.due = self._crossed(before, settings.eval_every)
        if self.evaluator.due:
            self._evaluate_when_due()

    def _evaluate_when_due(self) -> None:
        self.evaluator.finish()
        history, wanted = self.evaluator.history, self.config.training.stop_return
        awaited = (
            self.step >= self._total
            or (wanted is not None and may_be_held(wanted, history))
            or any(awaits_evaluation(callback, history) for callback in self._callbacks)
        )
        self.evaluator.begin(self.step, awaited=awaited)

    def sample(self) -> Batch:
        """A random batch, drawn as the method does it and laid out as its policy likes it."""
        return self.learner.draw(self.buffer, self._sampling)

    def _scale_rates(self) -> None:
        final = self.config.training.lr_final_scale
        if final != 1:
            self.learner.scale_rates(annealed(self.step, self.config.training.steps, final))

    def _update(self) -> None:
        self._scale_rates()
        batch = self.sample()
        wanted = self.log.wants_metrics
        metrics = self.learner.update(batch, want_metrics=wanted)
        rates = self.learner.steer_rate(batch)
        self.monitor.remember(self.learner.updates, batch.origins, self.episodes)
        complete = wanted and self.log.add_metrics(
            {**metrics, **rates}, batch, self.buffer, self.episodes
        )
        if complete or self.learner.updates % READ_EVERY == 0:
            self.check()

    def check(self) -> None:
        """Record numerical faults of the updates so far; raises if training has diverged."""
        self._judge()
        self.monitor.act(self.step)

    def is_diverging(self) -> bool:
        """Whether the next `check` will raise.

        Whoever asks changes nothing: what was found is recorded at the steps where it always is.
        """
        self._judge()
        return self.monitor.has_verdict

    def _judge(self) -> None:
        self.monitor.judge(self.learner.steps.read(), self.buffer, self.episodes)

    def evaluate(self, episodes: int | None = None) -> Evaluation | None:
        """Measure the deterministic policy; None without an environment to do it in."""
        return self.evaluator.evaluate(self.step, episodes)

    def _crossed(self, before: int, every: int) -> bool:
        return every > 0 and self.step // every > before // every

    def _event(self, event: Mapping[str, float | str]) -> None:
        self.log.event(self.step, event)

    def close(self) -> None:
        """Release the simulators."""
        self.evaluator.rest()
        self.collector.close()
        if self.evaluator.env is not None:
            self.evaluator.env.close()

    def checkpoint(self) -> tuple[dict[str, dict[str, Tensor]], dict[str, Any]]:
        """Tensors and documents from which `restore` continues, but for the buffer's episodes."""
        self._judge()
        tensors: dict[str, dict[str, Tensor]] = {"weights": self.learner.weights()}
        documents: dict[str, Any] = {"config": self.config.to_json()}
        parts: dict[str, Stateful] = {
            "learner": self.learner,
            "collector": self.collector,
            "monitor": self.monitor,
            "evaluator": self.evaluator,
            "log": self.log,
        }
        for name, part in parts.items():
            held, documents[name] = part.state()
            if held:
                tensors[name] = held
        tensors["buffer"] = {n: torch.from_numpy(a) for n, a in self.buffer.state().items()}
        documents["loop"] = {
            "step": self.step,
            "episodes": self.episodes,
            "finished_steps": self.finished_steps,
            "env_restarts": self.restarts.used,
            "sampling": numpy_state(self._sampling),
        }
        documents["clock"] = self.clock.state()
        return tensors, documents

    def restore(self, tensors: Tensors, documents: Documents, load_buffer: LoadBuffer) -> bool:
        """Continue from a checkpoint; False if an unfinished episode had to be dropped."""
        if self.learner.dims.privileged:  # says it better than the columns of the buffer do
            self.check_settings()
        with damaged_if_wrong():
            index = {name: t.numpy() for name, t in tensors["buffer"].items()}
            self.buffer.check_columns(index)  # first: it says best what another task is about
            check_tensors(tensors["weights"], self.learner.weights(), "the checkpoint")
            check_parts(tensors["collector"], self.collector.state()[0])
            loop = documents["loop"]
            self.clock.restore(documents["clock"])
            step, episodes = whole(loop, "step"), whole(loop, "episodes")
            finished_steps = whole(loop, "finished_steps")
            # Before the environments, which may have to be made anew to play their episodes again.
            self.restarts.used = whole(loop, "env_restarts")
            self.log.restore({}, documents["log"])
            self.evaluator.restore(tensors["evaluator"], documents["evaluator"])
            restore_numpy(self._sampling, loop["sampling"])
            load_buffer(index, self.buffer)
            self.learner.load_weights(tensors["weights"])
            self.learner.restore(tensors["learner"], documents["learner"])
            self.monitor.restore({}, documents["monitor"])
            exact = self.collector.restore(tensors["collector"], documents["collector"])
        self.step, self.episodes, self.finished_steps = step, episodes, finished_steps
        self._scale_rates()
        return exact

    def roll_back(self, restore: Callable[[Trainer], bool]) -> bool:
        """Go back to what `restore` restores and draw other batches; what was counted stays.

        False if an unfinished episode had to be dropped.
        """
        clock, restarts = self.clock.state(), self.restarts.used
        skipped, rollbacks = self.monitor.skipped, self.monitor.rollbacks + 1
        exact = restore(self)
        self.clock.restore(clock)
        self.restarts.used = restarts
        self.monitor.skipped, self.monitor.rollbacks = skipped, rollbacks
        self._sampling = numpy_stream(self.config.training.seed, f"sampling-{rollbacks}")
        return exact


def annealed(step: int, steps: int, final: float) -> float:
    """1 in the first half of so many steps, then in a straight line to `final`, which remains."""
    share = min(1.0, max(0.0, 2 * step / steps - 1))
    return 1 + share * (final - 1)


@contextmanager
def task_trainer(config: Config) -> Iterator[Trainer]:
    """A trainer of a config that names its task, and its environments as long as it is needed."""
    envs, evaluation = task_envs(config)
    with ExitStack() as opened:
        for env in (*envs, evaluation):
            opened.callback(env.close)
        yield Trainer(config, envs, evaluation)
