"""The figures of one run, and in words what never changed."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from resel.analysis.plots import EVALUATED, around
from resel.analysis.runs import RunRecord
from resel.reports.cells import Html, number
from resel.reports.elements import paragraph
from resel.reports.figures import Figure, Line, file_name
from resel.reports.page import Part

SHARE = "share of episodes (0 to 1)"
SHARE_RANGE = (-0.04, 1.04)
_GRADIENTS = "gradient_norm/"
_EPISODE_RETURN = "episode_return"
_RATES = ("updates_per_second", "steps_per_second")
_KNOWN: tuple[tuple[str, str, tuple[str, ...], str], ...] = (
    ("critic-loss", "Critic loss", ("critic_loss",), "loss"),
    ("policy-loss", "Policy loss", ("policy_loss",), "loss"),
    ("q-values", "Q values of the batch", ("q_mean", "target_mean"), "scaled reward"),
    ("entropy", "Entropy of the policy", ("entropy",), "nats"),
    ("alpha", "Temperature", ("alpha",), "reward per nat"),
    (
        "context",
        "Context of the policy",
        ("context_norm", "context_std", "context_deviation"),  # the last as it was called once
        "length; deviation",
    ),
)
"""File name, title, recorded numbers and axis title of the figures every run has."""
_TITLES = {"mmer": "Best mean return of 100 training episodes"}
_UNITS = {
    "mmer": "return",
    "episodes": "episodes",
    "batch_steps": "steps",
    "buffer_steps": "steps",
    "padding_share": "share (0 to 1)",
}


def drawn(figures: Iterable[Figure], otherwise: str = "") -> list[Part]:
    """The figures, and a line of text for those that would show a level line."""
    known = [figure for figure in figures if any(line.x for line in figure.lines)]
    moving = tuple(figure for figure in known if figure.constants is None)
    level = [figure for figure in known if figure.constants is not None]
    parts: list[Part] = [moving] if moving else []
    if level:
        parts.append(paragraph(f"Constant: {'; '.join(map(_in_words, level))}.", "note"))
    return parts or ([paragraph(otherwise)] if otherwise else [])


def _in_words(figure: Figure) -> str:
    values = figure.constants or []
    if len(values) == 1:
        return f"{figure.title.lower()} {number(values[0][1])}"
    named = ", ".join(f"{line.label} {number(value)}" for line, value in values)
    return f"{figure.title.lower()} ({named})"


def evaluation_parts(run: RunRecord) -> list[Part]:
    """How well the policy did, from its first evaluation to its last."""
    note = (
        f"Mean over {run.config.training.eval_episodes} episodes; shaded: one standard deviation "
        "over these to either side."
    )
    if run.adaptation_steps is not None:
        note += (
            f" Before these it adapted to their tasks, in {run.adaptation_steps:,} steps the last "
            "time, which are no steps of training."
        )
    evaluated = Figure("return", "Evaluation return", EVALUATED, _return_line(run), note, fit=True)
    exploring = Figure(
        "episode-return",
        "Return while training",
        "return (exploring policy)",
        _lines(run, "train", [_EPISODE_RETURN]),
        "Mean of the training episodes since the point before.",
        fit=True,
    )
    success = Figure(
        "success",
        "Success rate",
        SHARE,
        _lines(run, "eval", ["success_rate"]),
        y_range=SHARE_RANGE,
    )
    length = Figure(
        "length", "Episode length", "length (steps)", _lines(run, "eval", ["length_mean"])
    )
    parts = drawn((success, exploring, length))
    if not evaluated.lines[0].x:  # its return is drawn even if it is level
        return [paragraph("There was none yet."), *parts]
    if parts and not isinstance(parts[0], Html):
        return [(evaluated, *parts[0]), *parts[1:]]
    return [(evaluated,), *parts]


def _return_line(run: RunRecord) -> list[Line]:
    steps, means = run.points("eval", "return_mean")
    _, stds = run.points("eval", "return_std")
    edges = around(means, stds) if len(stds) == len(means) else (None, None)
    return [Line(run.label, steps, means, *edges)]


def learning_parts(run: RunRecord) -> list[Part]:
    """Losses, values, temperature, gradients."""
    keys = run.keys("train")
    gradients = [key for key in keys if key.startswith(_GRADIENTS)]
    figures = []
    for name, title, known, unit in _KNOWN:
        here = [key for key in known if key in keys]
        if here:
            figures.append(Figure(name, title, unit, _lines(run, "train", here)))
    if gradients:
        figures.append(
            Figure(
                "gradient-norms",
                "Gradient norms",
                "norm (log scale)",
                _lines(run, "train", gradients, lambda key: key.removeprefix(_GRADIENTS)),
                log_y=True,
            )
        )
    return drawn(figures, "Learning had not begun.")


def data_parts(run: RunRecord) -> list[Part]:
    """Whatever else was recorded, each number in a figure of its own; speed."""
    shown = {key for _, _, known, _ in _KNOWN for key in known} | {_EPISODE_RETURN}
    figures = [
        Figure(
            file_name(key),
            _TITLES.get(key, key.replace("_", " ").capitalize()),
            _UNITS.get(key, key),
            _lines(run, "train", [key]),
        )
        for key in run.keys("train")
        if key not in shown and not key.startswith(_GRADIENTS)
    ]
    return drawn([*figures, _speed(run)], "Nothing was recorded.")


def _speed(run: RunRecord) -> Figure:
    begun = _learning_since(run)
    rates = {key: _after(begun, *run.points("timing", key)) for key in _RATES}
    if rates[_RATES[0]] == rates[_RATES[1]]:  # an update a step: one line would hide the other
        named = {"updates and steps": rates[_RATES[0]]}
    else:
        named = {key.removesuffix("_per_second"): points for key, points in rates.items()}
    note = f"From step {begun:,} on, once learning had begun." if begun else ""
    lines = [Line(key, *points, group=index) for index, (key, points) in enumerate(named.items())]
    return Figure("speed", f"Speed: {' and '.join(named)}", "per second", lines, note)


def _learning_since(run: RunRecord) -> int:
    """The record after the one in which learning began, whose speed is half the warm-up's."""
    steps, rates = run.points("timing", _RATES[0])
    learned = [step for step, rate in zip(steps, rates, strict=True) if rate > 0]
    return learned[:2][-1] if learned else 0


def _after(begun: int, steps: list[int], values: list[float]) -> tuple[list[int], list[float]]:
    kept = [(step, value) for step, value in zip(steps, values, strict=True) if step >= begun]
    return [step for step, _ in kept], [value for _, value in kept]


def _lines(
    run: RunRecord, kind: str, keys: list[str], name: Callable[[str], str] = str
) -> list[Line]:
    """A line for each number; a number that is alone is what the figure is about, so it is named
    after the run."""
    labels = [run.label] if len(keys) == 1 else [name(key) for key in keys]
    return [
        Line(label, *run.points(kind, key), group=index)
        for index, (label, key) in enumerate(zip(labels, keys, strict=True))
    ]
