"""A training run with a directory: start or continue, save as it goes, leave a result."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Literal

import torch

from resel.config import Config
from resel.errors import DamagedFileError, DivergedError, EnvironmentFault, RunDirectoryError
from resel.runs import (
    Bundle,
    MetricsLog,
    RunDirectory,
    describe_machine,
    read_bundle,
    read_metrics,
    write_bundle,
)
from resel.training.guard import ROLLBACKS, is_good
from resel.training.progress import Callback, TrainProgress, describe_groups
from resel.training.saving import check_spaces, save_agent, spaces_of
from resel.training.stages import task_stages
from resel.training.trainer import Trainer

Resume = Literal["never", "auto"]
Status = Literal["completed", "interrupted", "diverged", "failed"]


class Run:
    """One `resel train`: a trainer and the directory it writes to."""

    def __init__(self, config: Config, path: Path, resume: Resume = "never", wandb: bool = False):
        self._open = ExitStack()
        try:
            # Before the directory, so that what cannot start leaves nothing behind.
            stages, evaluation = task_stages(config)
            for stage in (*stages, evaluation):
                self._open.callback(stage.close)
            self._stage = stages[0]
            self.trainer = Trainer(config, stages, evaluation)
            self.directory, continues = _open_directory(config, path, resume)
            self._open.callback(self.directory.close)
            self.log = self._open.enter_context(MetricsLog(self.directory, wandb=wandb))
            self.trainer.log = self.log
            self.resumed_at = self._continue() if continues else None
        except BaseException:
            self._open.close()
            raise
        self.config = config
        self._fault: str | None = None
        self._best = max((mean for _, mean, _ in self.trainer.evaluations), default=None)
        self._evaluated = len(self.trainer.evaluations)
        machine = describe_machine(config.training.threads, str(self.trainer.learner.device))
        self.directory.write_environment(
            {**machine, "parameter_groups": describe_groups(self.trainer.learner)}
        )

    def _continue(self) -> int | None:
        """Load the newest checkpoint that is good; None if there is none yet."""
        checkpoints = self.directory.checkpoints()
        for path in reversed(checkpoints):
            try:
                bundle = read_bundle(path, "checkpoint")
                if "spaces" in bundle.documents:
                    check_spaces(self._stage, bundle.documents["spaces"], "the environment now")
                exact = self.trainer.restore(bundle)
            except DamagedFileError as error:
                warnings.warn(f"{error} Trying the one before.", stacklevel=2)
                continue
            self.log.truncate_to(bundle.documents["metrics"]["position"])
            self.directory.drop_checkpoints_after(self.trainer.step)
            if not exact:
                warnings.warn(
                    "The environment did not repeat an unfinished episode, which was dropped: "
                    "the run goes on, but not exactly as it would have.",
                    stacklevel=2,
                )
            return self.trainer.step
        if checkpoints:
            raise DamagedFileError(
                f"No checkpoint in {self.directory.path} can be read, so the run cannot be "
                "continued; nothing was changed. Start anew in another --run-dir."
            )
        self.log.truncate_to(0)
        return None

    def train(self, callbacks: Sequence[Callback] = ()) -> dict[str, Any]:
        """Train to the configured step and return the result that is also written to disk."""
        status: Status = "failed"
        try:
            done = self._train_and_evaluate(callbacks)
            self._save()
            status = "completed" if done else "interrupted"
        except EnvironmentFault as fault:
            self._fault = str(fault)
            self._save()  # what the fault interrupted was undone, so the run can go on from here
            raise
        except DivergedError as error:
            status = "diverged"
            self._give_up(str(error))
            raise
        except KeyboardInterrupt:  # a second one: what was saved last stays the place to go on from
            status = "interrupted"
            raise
        finally:
            result = self._result(status)
            self.directory.write_result(result)
        return result

    def _train_and_evaluate(self, callbacks: Sequence[Callback]) -> bool:
        """Train to the configured step, going back where that is allowed; False if stopped."""
        while True:
            try:
                left = self.config.training.steps - self.trainer.step
                done = left <= 0 or self.trainer.train(left, [self._save_when_due, *callbacks])
                if done:
                    self._final_evaluation()
                return done
            except DivergedError as error:
                if self.config.training.on_divergence != "rollback":
                    raise
                self._roll_back(error)

    def _roll_back(self, error: DivergedError) -> None:
        """Go back to the last good checkpoint, or raise the error."""
        used = self.trainer.guard.rollbacks
        if used == ROLLBACKS:
            raise DivergedError(f"{error} The run had gone back {used} times before.") from error
        last = self.trainer.evaluations[-1][0] if self.trainer.evaluations else -1
        evaluated_at = last if self.config.training.eval_every else None
        for path in reversed(self.directory.checkpoints()):
            try:
                bundle = read_bundle(path, "checkpoint")
                if is_good(bundle, evaluated_at):
                    self._return_to(bundle, str(error))
                    return
            except DamagedFileError as damage:
                warnings.warn(f"{damage} Trying the one before.", stacklevel=2)
        raise DivergedError(f"{error} There is no good checkpoint to go back to.") from error

    def _return_to(self, bundle: Bundle, reason: str) -> None:
        """Go on from a checkpoint; of what came after it only the events stay on record."""
        diverged_at = self.trainer.step
        self.trainer.roll_back(bundle)
        written = read_metrics(self.directory.metrics_path)
        self.log.truncate_to(bundle.documents["metrics"]["position"])
        self.directory.drop_checkpoints_after(self.trainer.step)
        for line in written[len(read_metrics(self.directory.metrics_path)) :]:
            if line.pop("kind") == "event":
                self.log.write("event", line.pop("step"), line)
        self._best = max((mean for _, mean, _ in self.trainer.evaluations), default=None)
        self._evaluated = len(self.trainer.evaluations)
        count = self.trainer.guard.rollbacks
        self.log.write(
            "event",
            self.trainer.step,
            {
                "event": "rolled back",
                "message": reason,
                "diverged_at": diverged_at,
                "rollbacks": count,
            },
        )
        warnings.warn(
            f"{reason} The run goes back to step {self.trainer.step} (roll-back {count} of "
            f"{ROLLBACKS}).",
            stacklevel=2,
        )
        self._save()  # or a run that is killed now would forget that it has gone back

    def _give_up(self, reason: str) -> None:
        """Leave a run that has diverged readable: the reason, and the agent if it can act."""
        self._fault = reason
        self.log.write("event", self.trainer.step, {"event": "diverged", "message": reason})
        learner = self.trainer.learner
        if all(bool(torch.isfinite(weight).all()) for weight in learner.weights().values()):
            save_agent(self.directory.last_agent_path, learner, self._stage)

    def close(self) -> None:
        """Release simulators, log and lock."""
        self._open.close()

    def _final_evaluation(self) -> None:
        evaluations = self.trainer.evaluations
        if not evaluations or evaluations[-1][0] < self.trainer.step:
            self.trainer.evaluate()
        self._save_best()

    def _save_when_due(self, progress: TrainProgress) -> None:
        if len(self.trainer.evaluations) > self._evaluated:
            self._save_best()
        every = self.config.training.checkpoint_every
        before = progress.step - self.config.training.num_envs
        if every and progress.step // every > before // every:
            self.trainer.check()  # what has diverged is not saved
            self._save()

    def _save_best(self) -> None:
        self._evaluated = len(self.trainer.evaluations)
        mean = self.trainer.evaluations[-1][1]
        if self._best is None or mean >= self._best:
            self._best = mean
            save_agent(self.directory.best_agent_path, self.trainer.learner, self._stage)

    def _save(self) -> None:
        """Checkpoint and last agent; the previous checkpoint is kept as well."""
        tensors, documents = self.trainer.checkpoint()
        documents["spaces"] = spaces_of(self._stage)
        documents["metrics"] = {"position": self.log.position()}
        write_bundle(
            self.directory.checkpoint_path(self.trainer.step), "checkpoint", tensors, documents
        )
        save_agent(self.directory.last_agent_path, self.trainer.learner, self._stage)
        self.directory.prune_checkpoints(keep=2)

    def _result(self, status: Status) -> dict[str, Any]:
        mean, deviation = self.trainer.final_figure()
        return {
            "task": self.config.task,
            "encoder": self.config.network.encoder,
            "steps": self.trainer.step,
            "seed": self.config.training.seed,
            "status": status,
            "eval_return_mean": mean,
            "eval_return_std": deviation,
            "success_rate": self.trainer.success_rate,
            "updates": self.trainer.learner.updates,
            "env_restarts": self.trainer.restarts.used,
            "skipped_updates": self.trainer.guard.skipped,
            "rollbacks": self.trainer.guard.rollbacks,
            "fault": self._fault,
            "wall_seconds": self.trainer.seconds,
        }


def _open_directory(config: Config, path: Path, resume: Resume) -> tuple[RunDirectory, bool]:
    """The run directory, and whether it held a run to go on with."""
    if resume == "auto" and (path / "config.json").exists():
        directory = RunDirectory.open(path)
        try:
            _check_same(Config.from_json(directory.read_config()), config, path)
        except BaseException:
            directory.close()
            raise
        return directory, True
    return RunDirectory.create(path, config.to_json()), False


_MAY_DIFFER = {"steps", "eval_every", "eval_episodes", "checkpoint_every", "log_every", "threads"}
_MAY_DIFFER |= {"env_workers", "env_timeout", "env_restarts", "on_divergence"}


def _check_same(saved: Config, wanted: Config, path: Path) -> None:
    """A run is continued with its own settings; only its length and reporting may change."""
    before, now = saved.flat() | {"task": saved.task}, wanted.flat() | {"task": wanted.task}
    changed = [n for n in now if before[n] != now[n] and n not in _MAY_DIFFER]
    if changed:
        listed = ", ".join(f"{n}: {before[n]!r} there, {now[n]!r} asked" for n in changed)
        raise RunDirectoryError(
            f"{path} holds a run with other settings ({listed}). Use those, or another --run-dir."
        )
