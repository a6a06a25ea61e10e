"""What a command says and writes, for tests of the command."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch

from resel.cli import main
from resel.runs import read_bundle, read_metrics, write_bundle

SMALL = ["--steps", "6e1", "--eval-every", "20", "--checkpoint-every", "2_0", "--threads", "1"]
"""Flags of a run that takes no time."""


def read(path: Path) -> dict[str, Any]:
    """A JSON file."""
    return json.loads(path.read_text())


def lines(run: Path) -> list[dict[str, Any]]:
    """The metrics of a run, but for what the clock told."""
    return [ln for ln in read_metrics(run / "metrics.jsonl") if ln["kind"] != "timing"]


def same_run(a: Path, b: Path) -> bool:
    """Whether two runs have the same metrics and the same weights."""
    one, other = (read_bundle(p / "agents/last", "agent").tensors["weights"] for p in (a, b))
    return lines(a) == lines(b) and all(torch.equal(one[k], other[k]) for k in one)


def refused(capsys: Any, *argv: str, code: int = 2, alone: bool = False) -> str:
    """The message of a command that ends in an error: one paragraph and no other complaint, and
    nothing at all besides if it is `alone`."""
    capsys.readouterr()
    assert main(list(argv)) == code
    told = capsys.readouterr()
    assert told.err.startswith("Error: ") and told.err.endswith("\n")
    assert told.err.count("\n") == 1 and "Traceback" not in told.err
    assert not (alone and told.out)
    return str(told.err)


def pretend_machine(run: Path, **changes: Any) -> None:
    """As if the newest checkpoint had been saved on another machine."""
    path = max((run / "checkpoints").glob("step-*"))
    bundle = read_bundle(path, "checkpoint")
    record = bundle.documents["run"]
    machine = {**record["machine"], **changes}
    documents = {**bundle.documents, "run": {**record, "machine": machine}}
    write_bundle(path, "checkpoint", bundle.tensors, documents)
