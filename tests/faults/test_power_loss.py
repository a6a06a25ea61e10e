"""Killed or without power at any moment of a save: the newest or the previous checkpoint loads."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from resel.config import Config
from resel.runs import Run

MODES = ("lost", "hollow", "kept", "mixed")


def _states_after(
    events: list[Any], disk: Any, going: Any, tmp_path: Path, pristine: Path, stride: int = 1
) -> list[tuple[int, str, int]]:
    """For power cuts after each event: the step that is left."""
    found = []
    rng = random.Random(1)
    model = disk(pristine)
    for number in range(len(events) + 1):
        if number:
            kind, path, more = events[number - 1]
            moved = [
                pristine / p.relative_to(going.path) if isinstance(p, Path) else p
                for p in (path, more)
            ]
            model.apply((kind, *moved))
        if number % stride and number != len(events):
            continue
        for mode in MODES:
            left = tmp_path / "left"
            shutil.rmtree(left, ignore_errors=True)
            model.leave(left, mode, rng)
            found.append((number, mode, going.step_left_in(left)))
    return found


@pytest.mark.parametrize("stride", [9, pytest.param(1, marks=pytest.mark.slow)])
def test_power_loss(
    going: Any, record: Any, disk: Any, replace_tree: Any, tmp_path: Path, stride: int, tally: Any
) -> None:
    replace_tree(going.path, tmp_path / "pristine")
    events = record(going.save)
    kinds = [kind for kind, _, _ in events]
    assert kinds.count("fsync") > 10 and kinds.count("rename") >= 2
    found = _states_after(events, disk, going, tmp_path, tmp_path / "pristine", stride)
    assert {step for _, _, step in found} == {60, 80}
    for mode in ("lost", "hollow", "kept"):
        steps = [step for _, m, step in found if m == mode]
        assert steps == sorted(steps), "once the new one is there, it stays"
        assert steps[0] == 60 and steps[-1] == 80, "what was saved is saved for good"
    tally("power loss at some point of a save (replayed), a checkpoint loads", len(found))


@pytest.mark.slow
def test_power_loss_when_old_checkpoints_and_segments_leave(
    going: Any, record: Any, disk: Any, replace_tree: Any, tmp_path: Path, tally: Any
) -> None:
    """The third and fourth save also remove: nothing that is still needed may go first."""
    for _ in range(3):
        replace_tree(going.path, tmp_path / "pristine")
        before = going.run.trainer.step - 20
        events = record(going.save)
        found = _states_after(events, disk, going, tmp_path, tmp_path / "pristine", stride=3)
        assert {step for _, _, step in found} == {before, before + 20}
        tally("power loss at some point of a save (replayed), a checkpoint loads", len(found))
        going.advance(20)
    assert any(kind == "unlink" and ".bin" in path.name for kind, path, _ in events)


def test_power_loss_at_the_first_save(
    small_config: Config, record: Any, disk: Any, replace_tree: Any, tmp_path: Path
) -> None:
    """The folders themselves must be on the disk, too."""
    (tmp_path / "here").mkdir()
    replace_tree(tmp_path / "here", tmp_path / "pristine")
    runs: list[Run] = []

    def begin() -> None:
        runs.append(Run(small_config, tmp_path / "here/deep/run"))
        runs[0].trainer.train(60)
        runs[0]._write_checkpoint()

    events = record(begin)
    runs[0].close()
    model = disk(tmp_path / "pristine")
    for kind, path, more in events:
        if path.is_relative_to(tmp_path / "here") and path.name != "metrics.jsonl":
            moved = [
                tmp_path / "pristine" / p.relative_to(tmp_path / "here")
                if isinstance(p, Path)
                else p
                for p in (path, more)
            ]
            model.apply((kind, *moved))
    model.leave(tmp_path / "left", "lost", random.Random(1))
    left = Run(small_config, tmp_path / "left/deep/run", "auto")
    assert left.resumed_at == 60
    left.close()


@pytest.mark.parametrize("stride", [13, pytest.param(1, marks=pytest.mark.slow)])
def test_kill_9_at_every_call_of_a_save(
    going: Any,
    record: Any,
    killed_at: Callable[..., bool],
    replace_tree: Any,
    tmp_path: Path,
    stride: int,
    tally: Any,
) -> None:
    replace_tree(going.path, tmp_path / "pristine")
    number, found = 1, []
    while killed_at(going.save, number):
        replace_tree(going.path, tmp_path / "left")
        found.append(going.step_left_in(tmp_path / "left"))
        replace_tree(tmp_path / "pristine", going.path)
        number += stride
    assert number > 20
    assert set(found) <= {60, 80} and found == sorted(found)
    assert 80 in found or stride > 1
    replace_tree(going.path, tmp_path / "left")  # the last child was not killed any more
    assert going.step_left_in(tmp_path / "left") == 80
    tally("kill -9 at some call of a save, a checkpoint loads", len(found))


def test_a_killed_save_is_made_again(
    going: Any,
    small_config: Config,
    killed_at: Callable[..., bool],
    replace_tree: Any,
    tmp_path: Path,
) -> None:
    """Orphaned segments and half a checkpoint are put in order by the next resume and save."""
    assert killed_at(going.save, 12)
    left = tmp_path / "left"
    replace_tree(going.path, left)
    (left / "checkpoints/step-000000080").mkdir()  # as if it had lost its content
    with pytest.warns(UserWarning, match="Trying the one before"):
        run = Run(small_config, left, "auto")
    assert run.resumed_at == 60
    run.trainer.train(20)
    run._write_checkpoint()
    run.close()
    assert going.step_left_in(left) == 80
    names = sorted(p.name for p in (left / "checkpoints").iterdir())
    assert names == ["step-000000060", "step-000000080", "unreadable-step-000000080"]
    assert not list(left.rglob(".tmp-*"))
