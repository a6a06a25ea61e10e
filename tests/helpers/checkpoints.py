"""A trainer's checkpoint on disk, buffer included, as a run writes it."""

from __future__ import annotations

from pathlib import Path

from resel.runs import Bundle, ReplayLog, read_bundle, write_bundle
from resel.training import Trainer


def save_checkpoint(trainer: Trainer, path: Path) -> Bundle:
    """Write it, with the buffer's segments in the folder above, and read it back."""
    tensors, documents = trainer.checkpoint()
    documents["segments"] = ReplayLog(path.parent).save(trainer.buffer)
    write_bundle(path, "checkpoint", tensors, documents)
    return read_bundle(path, "checkpoint")
