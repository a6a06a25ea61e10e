"""Measure this checkout and another one in turn, and tell how their figures compare.

python tools/bench_against.py OTHER_CHECKOUT update --size tiny --task Pendulum-V-v0
python tools/bench_against.py OTHER_CHECKOUT solve --tasks Pendulum-V-v0 TMaze-v0

What follows the checkout is given to `resel bench` of both, with --json. Each round starts a
process of the one and then of the other, so that a slow moment of the machine meets both.
Figures are medians over the rounds (--rounds N before the checkout, 3 if not given), and ratios
those of this checkout over the other.

`solve` takes hours: there a round is a seed (from --first-seed on), and each task is tried by the
one and then by the other. Attempts are paired by task, method and seed, and told as they end.
With --runs FOLDER each checkout keeps its runs in a folder of its own there, and the same command
takes them up again. --csv FILE (in front, too) writes what is told, for solve a line an attempt.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import statistics
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
Figures = dict[str, float]


Attempt = dict[str, Any]
Pair = tuple[Attempt, Attempt]
_VARIED = ("method", "updates_per_step", "num_envs", "eval_parallel")
"""What attempts at one task with one seed may differ in; an older checkout lacks some."""
_TAKEN = ("steps", "minutes", "processor_minutes")


def told_by(checkout: Path, words: Sequence[str]) -> dict[str, Any]:
    """What one `resel bench` of a checkout says."""
    source = checkout / "src"
    own = {**os.environ, "PYTHONPATH": str(source)}
    # Checkouts from before there was a `python -m resel` have one room below.
    module = "resel" if (source / "resel" / "__main__.py").exists() else "resel.cli"
    command = [sys.executable, "-m", module, "bench", *words, "--json"]
    told = subprocess.run(command, env=own, stdout=subprocess.PIPE, text=True, check=True)
    found: dict[str, Any] = json.loads(told.stdout)
    return found


def measure(checkout: Path, words: Sequence[str]) -> Figures:
    """The figures of one `resel bench` of a checkout."""
    found = told_by(checkout, words)
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


def solve_in_turn(other: Path, words: Sequence[str], rounds: int) -> Iterator[Pair]:
    """Attempts of both that belong together, the other's first, as soon as both have ended."""
    parser = argparse.ArgumentParser(prog="solve", allow_abbrev=False)
    parser.add_argument("--tasks", nargs="+", required=True)
    parser.add_argument("--first-seed", type=int, default=1)
    parser.add_argument("--runs", type=Path)
    parser.add_argument("--repetitions", type=int)
    given, rest = parser.parse_known_args(words)
    if given.repetitions is not None:
        parser.error("a round is a seed: leave --repetitions out, and give --rounds N in front.")
    for seed in range(given.first_seed, given.first_seed + rounds):
        for task in given.tasks:
            sides = []
            for checkout, name in ((other, "other"), (ROOT, "this")):
                own = ["--tasks", task, "--first-seed", str(seed), "--repetitions", "1", *rest]
                own += ["--runs", str(given.runs / name)] if given.runs is not None else []
                sides.append(_attempts_of(checkout, own))
            theirs, ours = sides
            yield from ((theirs[key], ours[key]) for key in ours if key in theirs)


def _attempts_of(checkout: Path, words: Sequence[str]) -> dict[tuple[Any, ...], Attempt]:
    """Attempts by what they differ in; none if they failed, which an older checkout does whole."""
    try:
        found = told_by(checkout, ["solve", *words])["attempts"]
    except subprocess.CalledProcessError as error:
        said = f"`resel bench solve {' '.join(words)}` of {checkout} failed"
        print(f"{said} (exit code {error.returncode}): left out.", file=sys.stderr, flush=True)
        return {}
    return {tuple(attempt.get(name) for name in _VARIED): attempt for attempt in found}


def show_pairs(pairs: Iterator[Pair]) -> list[dict[str, Any]]:
    """A paragraph for each pair, and one for each method on a task; all attempts, by side."""
    together: dict[str, list[Pair]] = {}
    rows = []
    for theirs, ours in pairs:
        title = _title(ours)
        together.setdefault(title, []).append((theirs, ours))
        rows += [{"checkout": "other", **theirs}, {"checkout": "this", **ours}]
        _show_sides(f"{title}, seed {ours['seed']}", [theirs], [ours])
    for title, found in together.items():
        both = [theirs for theirs, _ in found], [ours for _, ours in found]
        _show_sides(f"{title}: medians of {len(found)}, unsolved ones with all they took", *both)
    return rows


def _title(attempt: Attempt) -> str:
    """Task and method, and what was tried in turn."""
    method, *varied = _VARIED
    more = [f"{name} {attempt[name]:g}" for name in varied if attempt.get(name) is not None]
    return ", ".join([attempt["task"], attempt[method], *more])


def _show_sides(title: str, theirs: Sequence[Attempt], ours: Sequence[Attempt]) -> None:
    solved = [f"{sum(one['solved'] for one in side)} of {len(side)}" for side in (theirs, ours)]
    print(f"{title}\n{'solved':28}{solved[0]:>10}{solved[1]:>10}", flush=True)
    for name in _TAKEN:
        medians = [statistics.median(float(one[name]) for one in side) for side in (theirs, ours)]
        _show(name, *medians)


def _show(name: str, theirs: float, ours: float) -> None:
    ratio = f"{ours / theirs:8.3f}" if theirs else f"{'-':>8}"
    figures = [f"{one:,.0f}" if one >= 10_000 else f"{one:.4g}" for one in (theirs, ours)]
    print(f"{name:28}{figures[0]:>10}{figures[1]:>10}{ratio}", flush=True)


def main(words: Sequence[str]) -> int:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--csv", type=Path)
    parser.add_argument("checkout", type=Path)
    parser.add_argument("bench", nargs=argparse.REMAINDER, help="a part of `resel bench`, flags")
    given = parser.parse_args(words)
    if not (given.checkout / "src" / "resel").is_dir():
        parser.error(f"{given.checkout} is no checkout of resel: it has no src/resel.")
    if not given.bench:
        parser.error("name a part of `resel bench` behind the checkout.")
    if given.rounds < 1:
        parser.error(f"--rounds {given.rounds}: one round at least.")
    part, *flags = given.bench
    print(f"{'':28}{'other':>10}{'this':>10}{'ratio':>8}", flush=True)
    if part == "solve":
        rows = show_pairs(solve_in_turn(given.checkout, flags, given.rounds))
    else:
        try:
            found = compare(given.checkout, given.bench, given.rounds)
        except subprocess.CalledProcessError as error:
            code = error.returncode
            parser.error(f"`resel bench` failed (exit code {code}): what it said is above.")
        for figures in found:
            _show(*figures)
        rows = [dict(zip(("figure", "other", "this"), figures, strict=True)) for figures in found]
    if not rows:
        parser.error(f"`resel bench {part}` has no figures that both checkouts give.")
    if given.csv is not None:
        _write(given.csv, rows)
    return 0


def _write(path: Path, rows: Sequence[dict[str, Any]]) -> None:
    columns = dict.fromkeys(name for row in rows for name in row)
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(columns))
        writer.writeheader()
        writer.writerows(rows)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
