"""The largest mean return of 100 consecutive episodes, and that it survives a checkpoint."""

from __future__ import annotations

import json

import numpy as np
import pytest

from resel.errors import DamagedFileError
from resel.training.train_log import TrainLog

RETURNS = [*np.random.default_rng(1).normal(size=150), *[5.0] * 60, *[-5.0] * 90]


def test_mmer_is_the_best_hundred_in_a_row() -> None:
    log = TrainLog()
    for count, value in enumerate(RETURNS, start=1):
        log.add_return(float(value))
        if count < 100:
            assert log.mmer is None
        else:
            means = [np.mean(RETURNS[i : i + 100]) for i in range(count - 99)]
            assert log.mmer == pytest.approx(max(means))


@pytest.mark.parametrize("at", [40, 100, 230])
def test_mmer_goes_on_exactly(at: int) -> None:
    whole, first, second = TrainLog(), TrainLog(), TrainLog()
    for value in RETURNS:
        whole.add_return(float(value))
    for value in RETURNS[:at]:
        first.add_return(float(value))
    second.restore({}, json.loads(json.dumps(first.state()[1])))
    for value in RETURNS[at:]:
        second.add_return(float(value))
    assert second.state() == whole.state() and second.mmer == whole.mmer


def test_older_checkpoints_begin_to_count() -> None:
    log = TrainLog()
    log.add_return(1.0)
    document = log.state()[1]
    del document["mmer"], document["recent"]
    log.restore({}, document)
    for _ in range(99):
        log.add_return(2.0)
    assert log.mmer is None
    log.add_return(2.0)
    assert log.mmer == 2.0


def test_absurd_returns_are_refused() -> None:
    log = TrainLog()
    with pytest.raises(DamagedFileError, match="101 returns"):
        log.restore({}, {**log.state()[1], "recent": [0.0] * 101})
