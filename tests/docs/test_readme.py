"""The table of the README is what docs/results holds, and the page stays short."""

from __future__ import annotations

import csv
import json
from pathlib import Path

from doc_pages import DOCS, ROOT

from resel.analysis.published import POPGYM_STEPS, read_popgym
from resel.methods import own_methods

TEXT = (ROOT / "README.md").read_text(encoding="utf-8")
_COUNTS = {5: "five", 6: "six", 7: "seven"}


def _rows(name: str) -> list[dict[str, str]]:
    with Path(ROOT / "docs" / "results" / name).open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def _line(start: str) -> str:
    (line,) = [line for line in TEXT.splitlines() if line.startswith(start)]
    return line


def _span(numbers: list[int]) -> str:
    return " to ".join(map(str, sorted({min(numbers), max(numbers)})))


def test_the_pendulums_steps_and_minutes_are_those_of_the_results() -> None:
    rows = [
        row
        for row in _rows("solve/before-after.csv")
        if (row["checkout"], row["task"]) == ("this", "Pendulum-V-v0")
    ]
    line = _line("| [`Pendulum-V-v0`]")
    steps = sorted(int(row["steps"]) for row in rows)
    minutes = sorted(float(row["processor_minutes"]) for row in rows)
    assert f"{steps[0]:,} to {steps[-1]:,}" in line
    assert f"{minutes[0]:.1f} to {minutes[-1]:.1f} minutes" in line
    solved = sum(row["solved"] == "True" for row in rows)
    assert f"-200 held, {solved} of {len(rows)} seeds" in line
    assert {float(row["threshold"]) for row in rows} == {-200.0}
    others = _rows("solve/pendulum-v-recurrent-ppo.csv")
    last = ", ".join(f"{float(row['last_return']):.0f}" for row in others)
    line = _line("| | RecurrentPPO of")
    assert f"| {int(others[0]['steps']):,} | {last}, {len(others)} seeds |" in line
    assert not any(row["solved"] == "True" for row in others)
    taken = [round(float(row["processor_minutes"])) for row in others]
    assert f"{_span(taken)} minutes" in line


def _pendulum() -> dict[str, dict[str, str]]:
    """The methods on the pendulum whose angle is hidden, as many steps as RESeL."""
    rows = _rows("methods/table.csv")
    return {row["method"]: row for row in rows if row["panel"] == "Pendulum-V-v0"}


def test_the_pendulums_returns_are_those_of_the_results() -> None:
    found, line = _pendulum(), _line("| [all methods]")
    names = ("MF-RNN", "PPO-GRU", "A2C-GRU")
    assert ", ".join(names) in line
    assert ", ".join(f"{float(found[n]['mean']):.0f}" for n in names) in line
    assert ", ".join(f"{float(found[n]['cpu_minutes']):.1f}" for n in names) in line
    without = [
        round(float(found[method.title]["mean"]))
        for method in own_methods()
        if method.title in found and method.encoder is None and method.name != "vrm"
    ]
    assert f"{max(without)} to {min(without)}" in _line(f"| | {_COUNTS[len(without)]} without")
    assert {found[n]["runs"] for n in names} == {"2"} and "2 seeds" in line


def test_who_reads_rewards_is_as_in_the_results() -> None:
    found, others = _pendulum(), ("VRM", "GPIDE-ESS", "SAC-Transformer")
    for line, names in (
        (_line("| [with rewards to read]"), ("RESeL, reading rewards",)),
        (_line("| | VRM, GPIDE-ESS"), others),
    ):
        rows = [found[name] for name in names]
        assert ", ".join(f"{float(row['steps_to_threshold']):,.0f}" for row in rows) in line
        minutes = ", ".join(f"{float(row['cpu_minutes_to_threshold']):.1f}" for row in rows)
        assert f"{minutes} minutes" in line
        assert {float(row["threshold"]) for row in rows} == {-200.0}


_NOVEL = ("Pendulum-P-v0", "CartPole-P-v0", "MountainCarContinuous-P-v0")


def test_the_tasks_without_velocities_are_those_of_the_results() -> None:
    rows, seeds = _rows("novel/table.csv"), _rows("novel/seeds.csv")
    found = {row["task"]: row for row in rows}
    line = _line("| [`Pendulum-P-v0`, `CartPole-P-v0`")
    means = [float(found[task]["last_mean"]) for task in _NOVEL]
    last = ", ".join(f"{float(f'{mean:.3g}'):g}" for mean in means)
    assert f"**{last}**, {found[_NOVEL[0]]['runs']} seeds" in line
    assert {f"{int(float(row['steps'])):,}" for row in rows} == {"20,000"} and "| 20,000 |" in line
    assert {row["runs"] for row in rows} == {"5"}
    minutes = [round(float(row["cpu_seconds"]) / 60) for row in seeds]
    assert f"{_span(minutes)} minutes" in line


def test_what_recurrent_ppo_takes_is_as_in_the_results() -> None:
    files = ("pendulum-p-cartpole-p", "mountaincar-p-resel", "mountaincar-p-recurrent-ppo")
    rows = [row for name in files for row in _rows(f"novel/solve-{name}.csv")]
    for method, start in (
        ("resel", "| [until -170, 450, 90"),
        ("recurrent-ppo", "| | RecurrentPPO |"),
    ):
        line, cells = _line(start), []
        for task in _NOVEL:
            tried = [row for row in rows if (row["task"], row["method"]) == (task, method)]
            assert [row["seed"] for row in tried] == ["1", "2"]
            solved = sum(row["solved"] == "True" for row in tried)
            floor = "> " if solved < 2 else ""
            steps = sum(int(row["steps"]) for row in tried) / 2
            minutes = sum(float(row["processor_minutes"]) for row in tried) / 2
            cells.append((f"{floor}{steps:,.0f}", str(solved), f"{floor}{minutes:.1f}"))
        steps_of, solved_of, minutes_of = (", ".join(each) for each in zip(*cells, strict=True))
        assert f"| {steps_of} |" in line and f"{solved_of} of 2" in line
        assert f"{minutes_of} minutes" in line
    assert sorted({float(row["threshold"]) for row in rows}) == [-170, 90, 450]


def test_the_cards_are_those_of_the_results() -> None:
    found = [row for row in _rows("solve/before-after.csv") if row["checkout"] == "this"]
    rows = [row for row in found if row["task"] == "popgym-RepeatPreviousEasy-v0"]
    line = _line("| [POPGym's")
    (steps,) = {int(row["steps"]) for row in rows}
    assert f"{steps:,} | **1 held, {len(rows)} of {len(rows)} seeds" in line
    assert {(row["solved"], row["threshold"]) for row in rows} == {("True", "0.99")}
    assert float(min(row["last_return"] for row in rows)) > 0.99
    seconds = [round(60 * float(row["processor_minutes"])) for row in rows]
    assert f"{_span(seconds)} seconds" in line
    known = read_popgym()["popgym-RepeatPreviousEasy-v0"]
    assert known.best_mmer == 1 and f"{POPGYM_STEPS:,} | 1 |" in _line("| | POPGym's best")


def test_how_many_published_numbers_are_reached_is_as_in_the_results() -> None:
    known = read_popgym()
    best: dict[str, float] = {}
    for row in _rows("popgym/table.csv"):
        if row["task"] in known and "Easy" in row["task"]:
            best[row["task"]] = max(best.get(row["task"], -9.0), float(row["mmer_mean"]))
    reached = sum(found >= known[task].gru_mmer - 0.02 for task, found in best.items())
    line = _line("| [its 8 easy tasks]")
    assert f"reached on {reached} of {len(best)} |" in line


def test_the_delays_are_those_of_the_results() -> None:
    rows = {r["task"]: r for r in _rows("popgym/table.csv") if r["encoder"].endswith("taps")}
    line, others = _line("| [`RepeatPreviousMedium`"), _line("| | the best published agents")
    tasks = [f"popgym-RepeatPrevious{level}-v0" for level in ("Medium", "Hard")]
    taps = ", ".join(f"`{rows[task]['encoder'].split()[1]}`" for task in tasks)
    assert taps.replace("`", "") in line.replace("conv_kernel=", "").replace("`", "")
    scores = [(float(rows[t]["mmer_mean"]), float(rows[t]["last_mean"])) for t in tasks]
    assert all(round(score, 3) == 1 for pair in scores for score in pair) and "**1, 1**" in line
    assert {rows[task]["runs"] for task in tasks} == {"1"} and "1 seed " in line
    assert {float(rows[task]["steps"]) for task in tasks} == {50_000} and "| 50,000 |" in line
    minutes = []
    for task in tasks:
        for run in (DOCS / "results" / "popgym" / "runs").glob(f"{task}-mamba-seed1-*"):
            config = json.loads((run / "config.json").read_text())
            if f"mamba, {config['encoder_settings']['conv_kernel']} taps" == rows[task]["encoder"]:
                seconds = json.loads((run / "result.json").read_text())["cpu_seconds"]
                minutes.append(f"{seconds / 60:.0f}")
    assert f"| {', '.join(minutes)} minutes |" in line
    best = ", ".join(f"{read_popgym()[task].best_mmer:g}" for task in tasks)
    assert f"{POPGYM_STEPS:,} | {best} |" in others


def test_acrobot_is_that_of_the_results() -> None:
    rows, line = _rows("any-environment/evaluations.csv"), _line("| [Acrobot")
    means = sorted(round(float(row["return_mean"])) for row in rows)
    assert f"{means[-1]} to {means[0]}, {len(rows)} seeds" in line and {
        row["episodes"] for row in rows
    } == {"20"}
    assert f"{_span([round(float(row['processor_minutes'])) for row in rows])} minutes" in line


def test_minigrids_success_is_that_of_the_results() -> None:
    *_, last = _rows("minigrid/preset.csv")
    line = _line("| [`MiniGrid-MemoryS7-v0`]")
    assert f"{int(last['step']):,} | **{float(last['success_rate']):.0%}".replace("%", " %") in line


def test_the_t_mazes_success_is_that_of_the_results() -> None:
    ends = {(row["group"], row["seed"]): row["end_of_training"] for row in _rows("tmaze/table.csv")}
    solved = sum(float(end) == 1 for end in ends.values())
    assert f"100 %, {solved} of {len(ends)} seeds" in _line("| [`TMaze-v0`]")


def test_the_methods_are_counted() -> None:
    for page in (ROOT / "README.md", DOCS / "index.md"):
        assert f"[{len(own_methods())} methods]" in page.read_text(encoding="utf-8"), page


def test_it_fits_on_two_screens() -> None:
    assert len(TEXT.splitlines()) <= 110
