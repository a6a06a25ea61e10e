"""Runs of the command that are killed, and whether they end as one that never was."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import torch
from command import start

from resel.config import Config
from resel.data import ReplayBuffer
from resel.runs import ReplayLog, RunDirectory, read_bundle, read_metrics

MANIFEST = "step-" + "[0-9]" * 9 + "/manifest.json"


def begin(command: list[str], run: Path, steps: int) -> subprocess.Popen[str]:
    return start(*command, "--run-dir", str(run), "--resume", "auto", "--steps", str(steps))


def finish(command: list[str], run: Path, steps: int) -> str:
    """What the command says that takes the run to these steps."""
    process = begin(command, run, steps)
    said, told = process.communicate(timeout=600)
    assert process.returncode == 0, told
    return said


def saved_step(run: Path) -> int:
    """Step of the newest complete checkpoint, 0 before the first."""
    found = (run / "checkpoints").glob(MANIFEST)
    return max((int(path.parent.name.removeprefix("step-")) for path in found), default=0)


def lines(run: Path) -> list[dict[str, Any]]:
    return [line for line in read_metrics(run / "metrics.jsonl") if line["kind"] != "timing"]


def everything(run: Path) -> tuple[dict[str, torch.Tensor], dict[str, Any], ReplayBuffer]:
    """All tensors of the newest checkpoint, its documents but for the clock, and the buffer."""
    directory = RunDirectory.open(run, read_only=True)
    bundle = read_bundle(directory.checkpoints()[-1], "checkpoint")
    config = Config.from_json(directory.read_config())
    tensors = {
        f"{group}.{name}": tensor
        for group, parts in bundle.tensors.items()
        for name, tensor in parts.items()
    }
    sizes = (
        tensors["collector.episode.0.last"].numel(),
        tensors["collector.episode.0.actions"].shape[1],
    )
    told = {
        name.rpartition(".")[2]: tensor.numel()
        for name, tensor in bundle.tensors["collector"].items()
        if name.startswith("episode.0.told.")
    }
    buffer = ReplayBuffer(config.training.buffer_steps, *sizes, told)
    index = {name: tensor.numpy() for name, tensor in bundle.tensors["buffer"].items()}
    ReplayLog(directory.replay_path).load(bundle.documents["segments"], index, buffer)
    kept = {name: bundle.documents[name] for name in ("learner", "collector", "loop")}
    return tensors, kept, buffer


def _bytes(tensor: torch.Tensor) -> bytes:
    return tensor.contiguous().numpy().tobytes()  # NaN equals NaN


def check_equal(killed: Path, whole: Path) -> None:
    assert lines(killed) == lines(whole)
    (tensors, documents, buffer), (expected, wanted, other) = map(everything, (killed, whole))
    assert tensors.keys() == expected.keys()
    different = [name for name in expected if _bytes(tensors[name]) != _bytes(expected[name])]
    assert not different
    assert documents == wanted
    assert list(buffer) == list(other)
    for piece in buffer:  # and not the whole arrays: what was never filled may hold anything
        for one, two in zip(buffer.blocks(piece), other.blocks(piece), strict=True):
            assert np.array_equal(one, two)
