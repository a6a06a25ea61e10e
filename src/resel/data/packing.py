"""Trajectories of different lengths laid end to end in a row, instead of padded side by side.

A trajectory of L steps takes L + 1 slots: o_0 .. o_L. `is_first` marks the first of them, so that
nothing recurrent looks across; `mask` is off at o_L, which only serves the target, and on what
padding is left at the end of the shorter rows.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor

from resel.data.buffer import EpisodeSlice, ReplayBuffer
from resel.data.trajectory import Trajectory


@dataclass(frozen=True)
class Batch:
    """A batch on one or more packed sequences."""

    observation: Tensor  # (rows, length, O), as stored: uint8 where it holds images of uint8
    action: Tensor  # (rows, length, A), as stored: zero where not valid
    reward: Tensor  # (rows, length)
    terminated: Tensor  # (rows, length), 1 where the world ended after this step
    is_first: Tensor  # (rows, length) bool
    mask: Tensor  # (rows, length) bool
    steps: int
    """Valid steps."""
    padding: int
    """Places that hold nothing."""
    extras: Mapping[str, Tensor] = field(default_factory=dict)
    """Named columns beside these, each (rows, length, size)."""
    origins: tuple[int, ...] = ()
    """Where in the buffer each piece begins."""
    state: tuple[Tensor, ...] = ()
    """The memory that rows begin with, where they go on with an episode; nothing means zeros."""

    def to(self, device: torch.device) -> Batch:
        """The batch on another device."""
        if device.type == "cpu":
            return self
        moved: dict[str, Any] = {
            name: value.to(device, non_blocking=True)
            for name, value in vars(self).items()
            if isinstance(value, Tensor)
        }
        moved["extras"] = {
            name: column.to(device, non_blocking=True) for name, column in self.extras.items()
        }
        moved["state"] = tuple(part.to(device, non_blocking=True) for part in self.state)
        return dataclasses.replace(self, **moved)

    def rows(self, index: Tensor) -> Batch:
        """Some of its rows."""
        chosen: dict[str, Any] = {
            name: value[index] for name, value in vars(self).items() if isinstance(value, Tensor)
        }
        chosen["extras"] = {name: column[index] for name, column in self.extras.items()}
        chosen["state"] = tuple(part[index] for part in self.state)
        return dataclasses.replace(
            self, **chosen, steps=int(chosen["mask"].sum()), padding=0, origins=()
        )


def assign_rows(sizes: Sequence[int], rows: int) -> list[list[int]]:
    """Which pieces go into which row: the longest first, each to the emptiest row."""
    if rows <= 1:
        return [list(range(len(sizes)))]
    filled = [0] * rows
    layout: list[list[int]] = [[] for _ in range(rows)]
    for index in sorted(range(len(sizes)), key=lambda i: -sizes[i]):
        row = filled.index(min(filled))
        layout[row].append(index)
        filled[row] += sizes[index]
    return [row for row in layout if row]


def pack(
    buffer: ReplayBuffer,
    pieces: Sequence[EpisodeSlice],
    rows: int | Sequence[Sequence[int]] = 1,
) -> Batch:
    """Copy pieces of stored episodes onto `rows` packed sequences, or onto those that it lists."""
    sizes = [piece.length + 1 for piece in pieces]
    layout = assign_rows(sizes, rows) if isinstance(rows, int) else rows
    length = max(sum(pieces[i].length + 1 for i in row) for row in layout)
    shape = (len(layout), length)
    held = buffer.observations
    observation = np.zeros((*shape, held.shape[1]), held.dtype)
    action = np.zeros((*shape, buffer.actions.shape[1]), np.float32)
    reward = np.zeros(shape, np.float32)
    terminated = np.zeros(shape, np.float32)
    is_first = np.ones(shape, np.bool_)  # padding is all starts: it carries nothing
    mask = np.zeros(shape, np.bool_)
    extras = {
        name: np.zeros((*shape, column.shape[1]), np.float32)
        for name, column in buffer.columns.items()
    }
    steps = 0
    for r, row in enumerate(layout):
        at = 0
        for i in row:
            piece = pieces[i]
            end = at + piece.length
            source = slice(piece.begin, piece.begin + piece.length + 1)
            observation[r, at : end + 1] = held[source]
            action[r, at:end] = buffer.actions[source][:-1]
            reward[r, at:end] = buffer.rewards[source][:-1]
            terminated[r, end - 1] = piece.terminated
            is_first[r, at + 1 : end + 1] = False
            mask[r, at + piece.lead : end] = True
            for name, column in buffer.columns.items():
                extras[name][r, at : end + 1] = column[source]
            steps += piece.length - piece.lead
            at = end + 1
    return Batch(
        torch.from_numpy(observation),
        torch.from_numpy(action),
        torch.from_numpy(reward),
        torch.from_numpy(terminated),
        torch.from_numpy(is_first),
        torch.from_numpy(mask),
        steps=steps,
        padding=is_first.size - sum(piece.length + 1 for piece in pieces),
        extras={name: torch.from_numpy(column) for name, column in extras.items()},
        origins=tuple(piece.begin for piece in pieces),
    )


def pack_episodes(trajectories: Sequence[Trajectory], rows: int = 1) -> Batch:
    """Whole episodes that are not in a buffer, on `rows` packed sequences."""
    first = trajectories[0]
    buffer = ReplayBuffer(
        sum(len(t) + 1 for t in trajectories),
        first.observations.shape[1],
        first.actions.shape[1],
        {name: column.shape[1] for name, column in first.extras.items()},
        first.observations.dtype,
    )
    for trajectory in trajectories:
        buffer.add(trajectory)
    return pack(buffer, list(buffer), rows)
