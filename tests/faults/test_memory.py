"""Memory: refused before anything is made, and flat once the ring is full."""

from __future__ import annotations

import re
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from resel.cli import main
from resel.config import Config
from resel.data import ReplayBuffer, Trajectory
from resel.runs import ReplayLog, Run, preflight
from resel.training import divergence


def test_a_buffer_that_does_not_fit_is_refused(
    tiny_flags: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(preflight, "available_memory", lambda: 2**20)
    flags = [*tiny_flags, "--buffer-steps", "1e6", "--steps", "1e6", "--run-dir", "run"]
    assert main(["train", "TMaze-v0", *flags]) == 2
    told = capsys.readouterr().err
    assert "replay buffer would take" in told and "only 1.0 MiB" in told
    assert "--buffer-steps" in told and told.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_what_a_short_run_cannot_fill_does_not_count(
    tiny_flags: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(preflight, "available_memory", lambda: 2**20)
    flags = [*tiny_flags, "--buffer-steps", "1e6", "--steps", "5", "--warmup-steps", "3"]
    flags += ["--run-dir", "run"]
    assert main(["train", "TMaze-v0", *flags]) == 0
    told = re.search(r"Replay buffer: up to (\S+) KiB of memory\.", capsys.readouterr().out)
    assert told is not None and 0 < float(told[1]) < 10


def resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


def soak(steps: int, tmp_path: Path, laps: float = 2.2) -> None:
    """A buffer of Humanoid's size is filled, wrapped twice, and saved on the way."""
    sizes = (376, 17)
    started = resident()
    plan = ReplayBuffer.planned_bytes(steps, *sizes)
    buffer, log = ReplayBuffer(steps, *sizes), ReplayLog(tmp_path / "replay")
    rng = np.random.default_rng(1)
    base = rng.standard_normal((1001, 376)).astype(np.float32)
    newest: list[tuple[int, int]] = []  # a reference: number and length of each episode
    filled: list[int] = []
    number = done = 0
    save_at = 0
    while done < laps * steps:
        length = int(rng.integers(200, 1001))
        values = np.float32(number)
        buffer.add(
            Trajectory(
                base[: length + 1] + values,
                np.full((length, 17), values),
                np.arange(length, dtype=np.float32) + values,
                number % 2 == 0,
            )
        )
        newest.append((number, length))
        number, done = number + 1, done + length
        if done >= save_at:
            log.save(buffer)
            log.remove_unneeded([])
            save_at = done + steps // 20
            if done > 1.05 * steps:
                filled.append(resident())
    assert max(filled) - started <= 1.05 * plan + 2**25
    assert max(filled) - min(filled) < 0.01 * plan + 2**24  # flat
    held = newest[-len(buffer) :]
    assert sum(length for _, length in held) == buffer.steps > 0.9 * steps
    for piece, (which, length) in zip(buffer, held, strict=True):
        assert (piece.length, piece.terminated) == (length, which % 2 == 0)
        observations, actions, rewards = buffer.blocks(piece)
        assert actions[0, 0] == actions[-1, -1] == which
        assert rewards[-1] == np.float32(length - 1) + np.float32(which)
        np.testing.assert_array_equal(observations[-1], base[length] + np.float32(which))
    again = ReplayBuffer(steps, *sizes)
    ReplayLog(tmp_path / "replay").load(log.save(buffer), buffer.state(), again)
    assert list(again) == list(buffer)
    assert resident() - started <= 2.1 * plan + 2**25  # two buffers: the data was not held twice
    disk = sum(f.stat().st_size for f in (tmp_path / "replay").iterdir())
    assert disk < 1.02 * plan + 2 * 2**26


@pytest.mark.parametrize(
    "steps", [pytest.param(20_000), pytest.param(300_000, marks=pytest.mark.slow)]
)
def test_memory_is_flat_after_the_ring_is_full(steps: int, tmp_path: Path) -> None:
    soak(steps, tmp_path)


def bytes_in(folder: Path) -> dict[str, int]:
    """By name of the file, those of its numbers and of its episodes."""
    found: dict[str, int] = {}
    for path in folder.rglob("*"):
        if path.is_file():
            found[path.name] = max(found.get(path.name, 0), path.stat().st_size)
    return found


def test_checkpoints_are_no_larger_late_in_a_run(
    tiny: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(divergence, "WINDOW", 5)  # or it would still fill
    few = {"buffer_steps": 60, "checkpoint_every": 150, "updates_per_step": 0.02}
    config = Config.build("toy/Box-v0", tiny, few)
    sizes, folders = [], []
    for steps in (750, 1500):  # in both, more episodes than their best mean is taken of
        with closing(Run(config.replace(steps=steps), tmp_path / str(steps))) as run:
            run.train()
            newest = run.directory.checkpoints()[-1]
            sizes.append(sum(bytes_in(newest).values()))
            folders.append(run.directory.replay_path)
            assert len(run.directory.checkpoints()) <= 2
    episodes, later = (sum(bytes_in(folder).values()) for folder in folders)
    assert sizes[1] < sizes[0] + 500, "counters with more digits"
    assert later < 3 * episodes and len(list(folders[1].iterdir())) <= 4
