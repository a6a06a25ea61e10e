"""What `learn` says when it begins: how long it may take."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

from resel.data import Moment
from resel.methods import World
from resel.training import (
    Callback,
    ProgressLine,
    Trainer,
    Workload,
    batch_steps,
    compiled_beside,
    compiling_note,
    duration,
)

LOGGER = logging.getLogger("resel")
_USUAL_LENGTH = 200
"""Steps of an episode whose end is not known."""


def speaker(progress_bar: bool) -> Callable[[str], None]:
    """Where `learn` says things: on the screen beside its line, else in the log "resel"."""
    return partial(print, flush=True) if progress_bar else LOGGER.info


@contextmanager
def announced(trainer: Trainer, total: int, progress_bar: bool) -> Iterator[list[Callback]]:
    """Say how long it may take; a live line with `progress_bar`, else a line of the log "resel".

    Kernels that were never compiled here are, beside the warm-up if there is one. It is measured
    only where somebody reads it.
    """
    say, note = speaker(progress_bar), compiling_note(trainer)
    with compiled_beside(trainer) as wait:
        if progress_bar or LOGGER.isEnabledFor(logging.INFO):
            if note is not None:
                say(note)
            say(forecast(trainer, total, timed=not wait))
        if progress_bar:
            begins = trainer.config.training.warmup_steps
            with ProgressLine(trainer.step, total, learning_from=begins) as line:
                yield [*wait, line]
        else:
            yield wait


def forecast(trainer: Trainer, total: int, timed: bool = True) -> str:
    """One sentence: updates to come, and if `timed` the time for them, by a few made-up ones."""
    config, learner = trainer.config, trainer.learner
    start = max(trainer.step, config.training.warmup_steps - 1)
    updates = learner.schedule.due(Moment(start, total, start, total)) if total > start else 0
    steps = f"{total - trainer.step:,} steps in {config.task or 'the environment'}"
    if updates <= 0:
        return f"{steps}: no update before the warm-up of {config.training.warmup_steps:,} ends."
    if not timed:
        return f"{steps}: {updates:,} updates, and what the environment takes."
    length = World.of(trainer.env, config.training.max_episode_steps).horizon or _USUAL_LENGTH
    length = min(length, batch_steps(config))
    episodes = 2 * -(-batch_steps(config) // length)
    workload = Workload.build(config, learner.dims, length, episodes, learner.device)
    workload.cycle()  # compiles kernels where that was never done
    seconds = workload.seconds_per_update()
    return (
        f"{steps}: about {duration(updates * seconds)} for {updates:,} updates "
        f"({seconds:.2g} s each on {learner.device}), and what the environment takes."
    )
