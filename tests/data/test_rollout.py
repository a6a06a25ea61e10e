"""Rollouts: what a row holds when episodes end, go on and begin in it."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from resel.data import Batch, Rollout, Taken

ROWS, LENGTH = 2, 4


def play(rollout: Rollout, first_step: int, steps: int, ends: dict[tuple[int, int], str]) -> None:
    """Steps whose numbers tell where they are from: 100 x row + step."""
    begins = {(row, step + 1) for row, step in ends}
    for step in range(first_step, first_step + steps):
        number = np.asarray([100.0 * row + step for row in range(ROWS)], np.float32)
        how = [ends.get((row, step)) for row in range(ROWS)]
        rollout.add(
            Taken(
                number[:, None],
                -number[:, None],
                number / 10,
                np.asarray([kind == "terminated" for kind in how]),
                np.asarray([kind in ("truncated", "failed") for kind in how]),
                number[:, None] + 0.5,
                np.asarray([step == 0 or (row, step) in begins for row in range(ROWS)]),
                np.asarray([kind != "failed" for kind in how]),
                (torch.full((ROWS, 3), float(step)),),
            )
        )


def empty() -> Rollout:
    return Rollout(ROWS, LENGTH, 1, 1, [torch.zeros(ROWS, 3)])


def row(batch: Batch, index: int) -> dict[str, Any]:
    """What stands in a row, as lists; padding left out."""
    used = int((~batch.is_first[index] | batch.mask[index]).sum())
    return {
        "observation": batch.observation[index, :used, 0].tolist(),
        "mask": batch.mask[index, :used].tolist(),
        "first": batch.is_first[index, :used].tolist(),
        "terminated": batch.terminated[index, :used].tolist(),
        "truncated": batch.extras["truncated"][index, :used, 0].tolist(),
    }


def test_a_row_without_an_end() -> None:
    rollout = empty()
    assert not rollout.full
    play(rollout, 0, LENGTH, {})
    assert rollout.full
    batch = rollout.batch()
    assert batch.steps == 8 and batch.padding == 0
    assert row(batch, 1)["observation"] == [100, 101, 102, 103, 103.5]
    assert row(batch, 1)["mask"] == [True] * 4 + [False]
    assert row(batch, 1)["first"] == [True] + [False] * 4
    assert batch.action[0, :, 0].tolist() == [-0.0, -1, -2, -3, 0]
    assert torch.equal(batch.state[0], torch.zeros(ROWS, 3))


def test_episodes_that_end_have_their_last_observation_behind_them() -> None:
    rollout = empty()
    play(rollout, 0, LENGTH, {(0, 1): "terminated", (0, 2): "truncated"})
    batch = rollout.batch()
    first = row(batch, 0)
    assert first["observation"] == [0, 1, 1.5, 2, 2.5, 3, 3.5]
    assert first["mask"] == [True, True, False, True, False, True, False]
    assert first["first"] == [True, False, False, True, False, True, False]
    assert first["terminated"] == [0, 1, 0, 0, 0, 0, 0]
    assert first["truncated"] == [0, 0, 0, 1, 0, 0, 0]
    assert batch.padding == 2 and batch.steps == 8
    assert batch.is_first[1, 5:].all() and not batch.mask[1, 5:].any()  # the shorter row's end


def test_the_next_rollout_begins_with_the_step_before() -> None:
    rollout = empty()
    play(rollout, 0, LENGTH, {(1, 3): "terminated"})
    play(rollout, LENGTH, LENGTH, {(1, 3): "terminated"})
    batch = rollout.batch()
    assert row(batch, 0)["observation"] == [3, 4, 5, 6, 7, 7.5]
    assert row(batch, 0)["mask"] == [False] + [True] * 4 + [False]
    assert row(batch, 1)["observation"] == [103, 103.5, 104, 105, 106, 107, 107.5]
    assert row(batch, 1)["mask"] == [False, False] + [True] * 4 + [False]
    assert row(batch, 1)["first"][2]  # a new episode
    assert torch.equal(batch.state[0], torch.full((ROWS, 3), 3.0))
    assert rollout.counted("reward")[0].tolist() == [np.float32(x) for x in (0.4, 0.5, 0.6, 0.7)]


def test_a_step_that_did_not_happen_teaches_nothing() -> None:
    rollout = empty()
    play(rollout, 0, LENGTH, {(0, 2): "failed"})
    assert row(rollout.batch(), 0)["mask"] == [True, True, False, False, True, False]


def test_an_episode_that_is_not_gone_on_with_is_cut() -> None:
    rollout = empty()
    rollout.cut(np.asarray([True, True]))  # there is nothing yet
    play(rollout, 0, 2, {(1, 1): "terminated"})
    rollout.cut(np.asarray([True, True]))
    play(rollout, 2, 1, {(0, 1): "cut", (1, 1): "terminated"})
    rollout.cut(np.asarray([False, True]))
    play(rollout, 3, 1, {(1, 2): "cut"})
    one, other = (row(rollout.batch(), index) for index in range(ROWS))
    assert one["observation"] == [0, 1, 1.5, 2, 3, 3.5]  # its own last observation lies behind it
    assert one["truncated"] == [0, 1, 0, 0, 0, 0] and one["first"][3]
    assert other["observation"] == [100, 101, 101.5, 102, 102.5, 103, 103.5]
    assert other["terminated"] == [0, 1, 0, 0, 0, 0, 0]
    assert other["truncated"] == [0, 0, 0, 1, 0, 0, 0]


def test_saved_in_the_middle() -> None:
    rollout, again = empty(), empty()
    play(rollout, 0, 6, {(0, 1): "truncated"})
    again.restore({name: tensor.clone() for name, tensor in rollout.state().items()})
    for one in (rollout, again):
        play(one, 6, 2, {(1, 6): "terminated"})
    for mine, theirs in zip(
        vars(rollout.batch()).values(), vars(again.batch()).values(), strict=True
    ):
        if isinstance(mine, torch.Tensor):
            assert torch.equal(mine, theirs)


def test_rows() -> None:
    rollout = empty()
    play(rollout, 0, LENGTH, {(0, 1): "failed"})
    part = rollout.batch().rows(torch.tensor([0]))
    assert part.steps == 3 and part.mask.shape[0] == 1 and len(part.state[0]) == 1
    assert part.extras["truncated"].shape[0] == 1
