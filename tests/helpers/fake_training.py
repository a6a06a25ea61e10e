"""Trials without training: commands that write the files of a run by a rule."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

_SCRIPT = """
import fcntl, json, pathlib, signal, sys, time
run, steps, settings, seed, rule = pathlib.Path(sys.argv[1]), *map(json.loads, sys.argv[2:])
lock = (run / ".lock").open("w")
fcntl.flock(lock, fcntl.LOCK_EX)
(run / "config.json").write_text("{}")
with (run / "calls").open("a") as file:
    file.write(json.dumps(settings) + "\\n")
calls = len((run / "calls").read_text().splitlines())
def write(status, score, at):
    found = {"status": status, "steps": at, "eval_return_mean": score}
    (run / "result.json").write_text(json.dumps(found))
def stop(*signal):
    write("interrupted", None, 0)
    sys.exit(143)
signal.signal(signal.SIGTERM, stop)
def evaluate(step, value):
    with (run / "metrics.jsonl").open("a") as file:
        line = {"step": step, "kind": "eval", "return_mean": value, "updates": step}
        file.write(json.dumps(line) + "\\n")
def end(score, status="completed", code=0):
    write(status, score, steps)
    sys.exit(code)
exec(rule)
for step in range(steps // 4, steps + 1, steps // 4):
    evaluate(step, score)
end(score)
"""


def fake_command(rule: str) -> Any:
    """In the place of `train_command`: `rule` sets `score`, or does something else instead.

    It knows settings, seed, calls (1, 2, ...), evaluate(step, value) and end(score, status, code).
    """

    def command(setting: Any, seed: int, run: Path, threads: int) -> tuple[str, ...]:
        steps = setting.overrides["steps"]
        data = (steps, dict(setting.overrides), seed, rule)
        return (sys.executable, "-S", "-c", _SCRIPT, str(run), *map(json.dumps, data))

    return command


def main(rule: str, argv: list[str]) -> int:
    """The command with such trials, for a process of its own."""
    from resel.cli import main as resel_main
    from resel.tuning import _trials

    _trials.train_command = fake_command(rule)
    return resel_main(argv)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))
