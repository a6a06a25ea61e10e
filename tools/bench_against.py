"""Measure this checkout and another one in turn, and tell how their figures compare.

python tools/bench_against.py OTHER_CHECKOUT update --size tiny --task Pendulum-V-v0

What follows the checkout is given to `resel bench` of both, with --json. Each round starts a
process of the one and then of the other, so that a slow moment of the machine meets both.
Figures are medians over the rounds (--rounds N before the checkout, 3 if not given), and ratios
those of this checkout over the other.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
Figures = dict[str, float]


def measure(checkout: Path, words: Sequence[str]) -> Figures:
    """The figures of one `resel bench` of a checkout."""
    own = {**os.environ, "PYTHONPATH": str(checkout / "src")}
    command = [sys.executable, "-m", "resel", "bench", *words, "--json"]
    told = subprocess.run(command, env=own, stdout=subprocess.PIPE, text=True, check=True)
    found = json.loads(told.stdout)
    return {name: value for name, value in found.items() if isinstance(value, float)}


def compare(other: Path, words: Sequence[str], rounds: int) -> list[tuple[str, float, float]]:
    """Each figure that both have: the other's median, and ours."""
    pairs = [(measure(other, words), measure(ROOT, words)) for _ in range(rounds)]
    shared = [name for name in pairs[0][0] if all(name in one for pair in pairs for one in pair)]
    return [
        (
            name,
            statistics.median(theirs[name] for theirs, _ in pairs),
            statistics.median(ours[name] for _, ours in pairs),
        )
        for name in shared
    ]


def main(words: Sequence[str]) -> int:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("checkout", type=Path)
    parser.add_argument("bench", nargs=argparse.REMAINDER, help="a part of `resel bench`, flags")
    given = parser.parse_args(words)
    if not (given.checkout / "src" / "resel").is_dir():
        parser.error(f"{given.checkout} is no checkout of resel: it has no src/resel.")
    if not given.bench:
        parser.error("name a part of `resel bench` behind the checkout.")
    if given.rounds < 1:
        parser.error(f"--rounds {given.rounds}: one round at least.")
    try:
        found = compare(given.checkout, given.bench, given.rounds)
    except subprocess.CalledProcessError as error:
        parser.error(f"`resel bench` failed (exit code {error.returncode}): what it said is above.")
    if not found:
        parser.error(f"`resel bench {given.bench[0]}` has no figures that both checkouts give.")
    print(f"{'':28}{'other':>10}{'this':>10}{'ratio':>8}")
    for name, theirs, ours in found:
        ratio = f"{ours / theirs:8.3f}" if theirs else f"{'-':>8}"
        print(f"{name:28}{theirs:10.4g}{ours:10.4g}{ratio}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
