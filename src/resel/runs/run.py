"""A training run with a directory: start or continue, save as it goes, leave a result."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any, Literal

import torch

from resel.config import Config
from resel.envs import check_spaces, spaces_of
from resel.errors import (
    DamagedFileError,
    DivergedError,
    EnvironmentFault,
    ReselError,
    RunDirectoryError,
    StorageError,
)
from resel.runs.agents import origin_of, save_agent, source_changed
from resel.runs.bundle import Bundle, read_bundle, write_bundle
from resel.runs.directory import (
    RunDirectory,
    refuse_existing_run,
    with_version,
    without_version,
)
from resel.runs.due import CheckpointsDue, is_of_steps, was_due_by_steps
from resel.runs.machine import describe_machine, differences, numeric_machine
from resel.runs.metrics import MetricsLog, each_metric
from resel.runs.outlook import notes, updates_planned
from resel.runs.own_config import differing_settings
from resel.runs.preflight import ENDED, Resume, check_memory, check_past, existing_directory
from resel.runs.replay_log import ReplayLog, restore_trainer
from resel.runs.retry import RetryWrites
from resel.runs.starts import starts_with_this
from resel.runs.warm_start import warm_start
from resel.training import (
    ROLLBACKS,
    Callback,
    Snapshot,
    Trainer,
    TrainProgress,
    damaged_if_wrong,
    describe_groups,
    is_good,
    task_trainer,
    whole,
)

Status = Literal["completed", "stopped early", "interrupted", "diverged", "failed"]


class Run:
    """One `resel train`: a trainer and the directory it writes to."""

    def __init__(
        self,
        config: Config,
        path: Path,
        resume: Resume = "never",
        wandb: bool = False,
        force: bool = False,
        trainer: Trainer | None = None,
    ) -> None:
        """A `trainer` that is given stays the caller's, who made it for this config."""
        self.config = config
        self._open = ExitStack()
        try:
            settings = config.training
            # At once, so that a run in use is told before simulators are started.
            held = existing_directory(config, path) if resume == "auto" else None
            if held is not None:
                self._open.callback(held.close)
            else:
                refuse_existing_run(path.absolute())
            # Before a new directory, so that what cannot start leaves nothing behind.
            self.trainer = trainer or self._open.enter_context(task_trainer(config))
            self._env = self.trainer.env
            self.trainer.check_settings(anew=held is None)
            if held is None and trainer is None:
                updates_planned(config, self.trainer.learner.schedule)
            self.warm_start = None if trainer or held else warm_start(self.trainer)
            self.notes = [] if held else notes(settings, self.trainer.learner, self._env)
            """What whoever begins the run should know."""
            self.buffer_bytes = check_memory(settings, self._env)
            self._retry = RetryWrites(
                settings.disk_tries, settings.disk_wait, lambda: self.trainer.stopping
            )
            device = str(self.trainer.learner.device)
            self._machine = numeric_machine(device)
            self.inexact: list[str] = []
            self.directory = held or RunDirectory.create(path, config.to_json())
            self._open.callback(self.directory.close)
            self._is_new, self.is_void = held is None, False
            """Whether it failed before its first step, so that nothing of it is kept."""
            self._open.callback(lambda: self.directory.remove() if self.is_void else None)
            self._replay = ReplayLog(self.directory.replay_path)
            # Nothing on the disk is touched before it is clear that the run can go on.
            position = self._continue(force) if held else None
            self.resumed_at = None if position is None else self.trainer.step
            self._reached = 0
            self.begins_again = held is not None and position is None
            if self.begins_again and trainer is None:
                self.warm_start = warm_start(self.trainer)
            self.set_aside = self.directory.set_start_aside() if self.begins_again else None
            """Where what an earlier start has left was moved to, if it had left anything."""
            log = MetricsLog(self.directory, wandb=wandb, patience=self._retry)
            self.log = self.trainer.log.writer = self._open.enter_context(log)
            self._open.callback(setattr, self.trainer.log, "writer", None)
            self._open.callback(self.trainer.log.show_held)
            self._open.callback(setattr, self.trainer.evaluator, "on_result", None)
            self.trainer.evaluator.on_result = self._save_best
            if held:
                self._forget_after(position or 0)
            self.trainer.log.write_early_events(self.trainer.step)
        except BaseException:
            self._open.close()
            raise
        self._fault: str | None = None
        self._best = max((mean for _, mean, _ in self.trainer.evaluator.history), default=None)
        self._due = CheckpointsDue(settings, self.trainer.learner.updates)
        self.directory.write_environment(
            {
                **describe_machine(device),
                "parameter_groups": describe_groups(self.trainer.learner),
                "starts": starts_with_this(self.directory),
            }
        )

    def _continue(self, force: bool) -> int | None:
        """Load the newest checkpoint that is good; its place in the metrics, None without one."""
        checkpoints = self.directory.checkpoints()
        for path in reversed(checkpoints):
            try:
                bundle = _read_checkpoint(path)
                position, lost = self._check_origin(bundle, force)
                with damaged_if_wrong():
                    there = whole(bundle.documents["loop"], "step")
                check_past(self.directory.path, there, self.trainer.step)
                exact = restore_trainer(self.trainer, bundle, self._replay)
            except DamagedFileError as error:
                warnings.warn(f"{error} Trying the one before.", stacklevel=2)
                continue
            self.inexact = lost
            if not exact:
                self.inexact.append(self.trainer.collector.why_not_repeated)
                warnings.warn(
                    f"The run goes on, but not exactly as it would have: {self.inexact[-1]}.",
                    stacklevel=2,
                )
            return position
        if checkpoints:
            raise DamagedFileError(
                f"No checkpoint in {self.directory.path} can be read, so the run cannot be "
                "continued; nothing was changed. Begin another run, in another folder."
            )
        if (self.directory.read_result() or {}).get("status") == "completed":
            raise RunDirectoryError(
                f"The run in {self.directory.path} has ended, and its checkpoints are not there: "
                "it cannot go on. Nothing was changed. Begin another run, in another folder."
            )
        return None

    def _check_origin(self, bundle: Bundle, force: bool) -> tuple[int, list[str]]:
        """The place in the metrics, and why the run is no longer exact; refuses other machines."""
        with damaged_if_wrong():
            record = bundle.documents["run"]
            check_spaces(self._env, bundle.documents["spaces"], "the environment now")
            position, inexact = whole(record, "metrics_position"), [*map(str, record["inexact"])]
            changed = differences(dict(record["machine"]), self._machine)
            source = source_changed(record, self.config.task)
            saved = Config.from_json(without_version(bundle.documents["config"]))
            if differing_settings(saved, self.config):
                raise DamagedFileError("The checkpoint belongs to a run with other settings.")
        if changed and not force:
            raise RunDirectoryError(
                f"The run in {self.directory.path} cannot go on exactly here, because the machine "
                f"differs ({'; '.join(changed)}). Continue it where it began, or add --force to "
                "go on inexactly, which the result will say. Nothing was changed."
            )
        if source is not None:  # mending an environment is no reason to stop
            warnings.warn(f"Since the checkpoint {source}: the run goes on in it.", stacklevel=2)
            changed.append(source)
        return position, inexact + [reason for reason in changed if reason not in inexact]

    @property
    def going_on(self) -> str | None:
        """Where the run goes on, in words; None for one that begins."""
        if self.resumed_at is None:
            return None
        words = [f"Going on from step {self.resumed_at:,}."]
        first, last = self.resumed_at + 1, self._reached
        if last >= first:
            words.append(
                f"It had come to step {last:,} at least, but that is its last checkpoint: steps "
                f"{first:,} to {last:,} are taken again."
            )
        if self.inexact:
            words.append("This run is not exact: see result.json.")
        return " ".join(words)

    def _forget_after(self, position: int) -> None:
        """Bring the disk to the step the run goes on from, and note what is not exact in that."""
        with suppress(ReselError):  # what cannot be read is cut off
            result = self.directory.read_result() or {}
            lines = each_metric(self.directory.metrics_path, after=position)
            seen = max((int(line["step"]) for line in lines), default=0)
            self._reached = max(seen, int(result.get("steps", 0)))
        self.log.truncate_to(position)
        self.directory.set_aside_after(self.trainer.step)
        self._replay.remove_unneeded(self.directory.checkpoints())
        if self.config.to_json() != self.directory.read_config():
            self.directory.write_config(self.config.to_json())
        if self.inexact:
            reasons = "; ".join(self.inexact)
            self.trainer.log.write(
                "resume", self.trainer.step, {"exact": False, "reasons": reasons}
            )

    def train(self, callbacks: Sequence[Callback] = ()) -> dict[str, Any]:
        """Train to the configured step and return the result that is also written to disk."""
        status: Status = "failed"
        try:
            done = self._train_and_evaluate(callbacks)
            self._save()
            taken = self.trainer.step >= self.config.training.steps
            status = "interrupted" if not done else "completed" if taken else "stopped early"
        except EnvironmentFault as fault:
            self._fault = str(fault)
            self.is_void = self._is_new and self.trainer.step == 0
            if not self.is_void:  # what the fault interrupted was undone, so it can go on from here
                self._save()
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
            if not self.is_void:
                self._write_result(result, ended_well=status in (*ENDED, "interrupted"))
        return result

    def _write_result(self, result: dict[str, Any], ended_well: bool) -> None:
        if ended_well:
            self._retry(lambda: self.directory.write_result(result))
            return
        try:
            self.directory.write_result(result)
        except StorageError as error:  # what ended the run is more important
            warnings.warn(str(error), stacklevel=2)

    def _train_and_evaluate(self, callbacks: Sequence[Callback]) -> bool:
        """Train to the configured step, going back where that is allowed; False if interrupted."""
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
        used = self.trainer.monitor.rollbacks
        if used == ROLLBACKS:
            raise DivergedError(f"{error} The run had gone back {used} times before.") from error
        last = self.trainer.evaluator.history[-1][0] if self.trainer.evaluator.history else -1
        evaluated_at = last if self.config.training.eval_every else None
        for path in reversed(self.directory.checkpoints()):
            try:
                bundle = _read_checkpoint(path)
                if not is_of_steps(bundle.documents.get("run")):
                    continue
                if is_good(bundle.tensors, bundle.documents, evaluated_at):
                    self._return_to(bundle, str(error))
                    return
            except DamagedFileError as damage:
                warnings.warn(f"{damage} Trying the one before.", stacklevel=2)
        raise DivergedError(f"{error} There is no good checkpoint to go back to.") from error

    def _return_to(self, bundle: Bundle, reason: str) -> None:
        """Go on from a checkpoint; of what came after it only the events stay on record."""
        diverged_at = self.trainer.step
        self.trainer.roll_back(lambda trainer: restore_trainer(trainer, bundle, self._replay))
        position = bundle.documents["run"]["metrics_position"]
        later = each_metric(self.directory.metrics_path, after=position)
        events = [line for line in later if line.pop("kind") == "event"]
        self.log.truncate_to(position)
        self.directory.drop_checkpoints_after(self.trainer.step)
        for line in events:
            self.trainer.log.write("event", line.pop("step"), line)
        self._best = max((mean for _, mean, _ in self.trainer.evaluator.history), default=None)
        count = self.trainer.monitor.rollbacks
        self.trainer.log.write(
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
        # Or a run that is killed now would forget that it has gone back.
        self._save(may_go_back_to=True)

    def _give_up(self, reason: str) -> None:
        """Leave a run that has diverged readable: the reason, and the agent if it can act."""
        self._fault = reason
        event = {"event": "diverged", "message": reason}
        self.trainer.log.write("event", self.trainer.step, event)
        learner = self.trainer.learner
        if all(bool(torch.isfinite(weight).all()) for weight in learner.weights().values()):
            save_agent(self.directory.last_agent_path, learner, self._env, self.trainer.step)

    @property
    def horizon(self) -> int | None:
        """Steps of the longest episode that the environment declares."""
        return self._env.horizon

    def close(self) -> None:
        """Release simulators, log and lock."""
        self._open.close()

    def _final_evaluation(self) -> None:
        evaluations, learner = self.trainer.evaluator.history, self.trainer.learner
        if not evaluations or evaluations[-1][0] < self.trainer.step:
            self.trainer.evaluate()
        else:
            self._save_best(Snapshot(self.trainer.step, learner.updates, learner.weights()))

    def _save_when_due(self, progress: TrainProgress) -> None:
        if self._due.by_steps(progress.step):
            self.trainer.check()  # what has diverged is not saved
            self._save()
        elif self._due.by_time(progress.updates) and not self.trainer.is_diverging():
            self._save()

    def _save_best(self, evaluated: Snapshot) -> None:
        mean = self.trainer.evaluator.history[-1][1]
        if self._best is None or mean >= self._best:
            self._best = mean
            best, learner = self.directory.best_agent_path, self.trainer.learner
            self._retry(
                lambda: save_agent(best, learner, self._env, evaluated.step, snapshot=evaluated)
            )

    def _save(self, may_go_back_to: bool = False) -> None:
        """Checkpoint and last agent; the previous checkpoint is kept as well."""
        self._retry(lambda: self._write_checkpoint(may_go_back_to))
        self._retry(self._write_last_agent)
        self._due.saved(self.trainer.learner.updates)

    def _write_last_agent(self) -> None:
        last = self.directory.last_agent_path
        self.directory.make_way(last)
        save_agent(last, self.trainer.learner, self._env, self.trainer.step)

    def _write_checkpoint(self, may_go_back_to: bool = False) -> None:
        path = self.directory.checkpoint_path(self.trainer.step)
        tensors, documents = self.trainer.checkpoint()
        documents["config"] = with_version(documents["config"])
        documents["segments"] = self._replay.save(self.trainer.buffer)
        documents["spaces"] = spaces_of(self._env)
        documents["run"] = {
            "metrics_position": self.log.position(),
            "machine": self._machine,
            "inexact": self.inexact,
            "by_steps": may_go_back_to or self._due.by_steps(self.trainer.step),
            **origin_of(self.config),
        }
        self.directory.make_way(path)
        write_bundle(path, "checkpoint", tensors, documents)
        goes_back = self.config.training.on_divergence == "rollback"
        regular = [p for p in self.directory.checkpoints() if goes_back and was_due_by_steps(p)]
        self.directory.prune_checkpoints(keep=2, also=regular[-2:])
        self._replay.remove_unneeded(self.directory.checkpoints())

    def _result(self, status: Status) -> dict[str, Any]:
        final, ending = self.trainer.evaluator.final_score(), self.trainer.ending
        return {
            "task": self.config.task,
            "method": self.config.method,
            "encoder": self.config.encoder,
            "steps": self.trainer.step,
            "seed": self.config.training.seed,
            "status": status,
            "stopped_because": ending.reason if ending and status == "stopped early" else None,
            "eval_return_mean": final.mean,
            "eval_return_std": final.std,
            "final_evaluations": final.evaluations,
            "success_rate": self.trainer.evaluator.success_rate,
            "mmer": self.trainer.log.mmer,
            "held_return": ending.held_return if ending else None,
            "updates": self.trainer.learner.updates,
            "env_restarts": self.trainer.restarts.used,
            "skipped_updates": self.trainer.monitor.skipped,
            "rollbacks": self.trainer.monitor.rollbacks,
            "fault": self._fault,
            "wall_seconds": self.trainer.clock.seconds,
            "cpu_seconds": self.trainer.clock.cpu_seconds,
            "exact": not self.inexact,
            "inexact_because": self.inexact,
        }


def _read_checkpoint(path: Path) -> Bundle:
    try:
        return read_bundle(path, "checkpoint")
    except RunDirectoryError as error:  # something else is in its place
        raise DamagedFileError(str(error)) from error
