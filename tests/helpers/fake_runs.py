"""Run directories and commands that take no time: what an engine sees of a training run."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from resel.experiments.engines import Ledger
from resel.experiments.plan import Job

_SCRIPT = """
import json, os, pathlib, signal, sys, time
run, steps = pathlib.Path(sys.argv[1]), int(sys.argv[2])
run.mkdir(parents=True, exist_ok=True)
(run / "config.json").write_text("{}")
with (run / "calls").open("a") as file:
    file.write(f"{os.environ.get('CUDA_VISIBLE_DEVICES')} {time.monotonic()}\\n")
calls = len((run / "calls").read_text().split("\\n")) - 1
def end(status, code):
    (run / "result.json").write_text(json.dumps({"status": status, "steps": steps}))
    with (run / "ends").open("a") as file:
        file.write(f"{time.monotonic()}\\n")
    sys.exit(code)
"""


SAVES_WHEN_ASKED = (
    "signal.signal(signal.SIGTERM, lambda *a: end('interrupted', 143))\n"
    "(run / 'ready').touch(); time.sleep(60)"
)


class Choosy(Ledger):
    """Does not want a run any more as soon as that is ready."""

    def unwanted(self, job: Job) -> bool:
        return (job.run / "ready").exists()


def fake_job(folder: Path, name: str, does: str = "end('completed', 0)", **more: Any) -> Job:
    """A job whose command runs `does`, which knows run, calls (1, 2, ...) and end(status, code)."""
    run = folder / name
    command = (sys.executable, "-S", "-c", _SCRIPT + does, str(run), "100")
    return Job(run, command, 100, **more)


def write_run(
    run: Path,
    lines: list[dict[str, Any]],
    status: str | None = "completed",
    steps: int = 100,
    version: str | None = None,
    agents: tuple[str, ...] = (),
    **result: Any,
) -> None:
    """A run directory as far as the outcomes read it; its agents are names without weights."""
    run.mkdir(parents=True)
    (run / "config.json").write_text("{}")
    (run / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    if status is not None:
        ended = {"status": status, "steps": steps, **result}
        (run / "result.json").write_text(json.dumps(ended))
    for agent in agents:
        (run / "agents" / agent).mkdir(parents=True)
        (run / "agents" / agent / "manifest.json").write_text(f"{run.name} {agent}")
    if version is not None:
        (run / "environment.json").write_text(json.dumps({"versions": {"resel": version}}))
