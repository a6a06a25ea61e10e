"""Signals that end a training in good order."""

from __future__ import annotations

import signal
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from resel.training.trainer import Trainer


@contextmanager
def stopped_by(trainer: Trainer, signals: Sequence[int]) -> Iterator[list[int]]:
    """These signals end the training after the current step; a second one ends it at once.

    Yields those that have come, and puts the handlers back that were there before.
    """
    caught: list[int] = []

    def handle(number: int, frame: object) -> None:
        caught.append(number)
        trainer.request_stop()
        signal.signal(number, signal.default_int_handler)

    before = {number: signal.signal(number, handle) for number in signals}
    try:
        yield caught
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
