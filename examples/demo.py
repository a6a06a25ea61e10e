"""What `make demo` runs: an agent learns to remember, and shows it.

In TMaze the agent sees which way to turn at the first step only, walks twenty steps down a
corridor that looks the same everywhere, and must then turn the right way. Without memory no policy
gets it right more than half of the time.
"""

import sys
from pathlib import Path

from resel.cli import main
from resel.runs import RunDirectory, read_metrics

FOLDER = Path("demo-output")
RUN = FOLDER / "run"


def command(*words: object) -> None:
    """Run one `resel` command and stop the demo if it fails."""
    print("\n$ resel", *words, flush=True)
    code = main([str(word) for word in words])
    if code:
        sys.exit(code)


if __name__ == "__main__":
    command("train", "TMaze-v0", "--steps", "12000", "--run-dir", RUN, "--resume", "auto")
    command("plot", RUN, "--out", FOLDER / "learning-curve.png")
    command("watch", RUN, "--out", FOLDER / "agent.gif", "--episodes", "4")
    run = RunDirectory.open(RUN, read_only=True)
    evaluations = [line for line in read_metrics(run.metrics_path) if line["kind"] == "eval"]
    first, last = evaluations[0], evaluations[-1]
    print(
        f"\nReturn before training {first['return_mean']:.2f}, after {last['step']:,} steps "
        f"{last['return_mean']:.2f}; right turns {first['success_rate']:.0%} before, "
        f"{last['success_rate']:.0%} after.\n"
        f"Learning curve: {FOLDER / 'learning-curve.png'}\n"
        f"Film: {FOLDER / 'agent.gif'}\n"
        f"Run directory: {RUN} (try: .venv/bin/resel eval {RUN})"
    )
