"""The picture of an amplification: every rollout step, the first ones, and the running mean."""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import Any

from resel.analysis import plots
from resel.analysis.amplification import Amplification, Variation

_ZOOM = 75
_WIDEST, _THINNEST = 3.2, 1.0
_DECADES_WITH_MORE_TICKS = 2


def draw(amplification: Amplification, path: Path, doubt: str | None = None) -> None:
    """Three panels (two where episodes are short): zoom, all steps, running mean and bound.

    A doubt about the numbers, theirs or the given one, is written above them.
    """
    steps = len(amplification.variations[0].mean)
    widths = _line_widths(len(amplification.variations))
    spans = [_ZOOM, steps] if steps > _ZOOM else [steps]
    figure, panels = plots.panels(len(spans) + 1, width=4.4, height=4.0)
    for axes, span in zip(panels, spans, strict=False):
        for index, variation in enumerate(amplification.variations):
            _curve(axes, variation, span, color=f"C{index}", linewidth=widths[index])
        axes.set_title(f"first {span} steps" if span < steps else "all steps", fontsize=10)
        axes.set_ylabel(f"variation: L2 distance of {amplification.distance}")
    for index, variation in enumerate(amplification.variations):
        panels[-1].plot(variation.running_mean, color=f"C{index}", linewidth=widths[index])
        panels[-1].plot(variation.bound, color=f"C{index}", linewidth=1.2, linestyle="--")
    panels[-1].set_title("mean so far; dashed: Proposition 2, effective", fontsize=10)
    for axes in panels:
        axes.set_xlabel("rollout step")
        if any(v.converged > 0 for v in amplification.variations):
            _log_scale(axes)
    plots.legend(figure, panels, columns=5 if len(panels) == 3 else 3, least=1, fontsize=9)
    figure.suptitle(_caption(amplification, doubt, width=58 * len(panels)), fontsize=11)
    plots.save(figure, path)


def _caption(amplification: Amplification, doubt: str | None, width: int) -> str:
    caption = (
        f"One policy update of {amplification.task}, {amplification.encoder}, step "
        f"{amplification.step:,}: mean over {len(amplification.lengths)} episodes ± standard error"
    )
    return "\n".join([caption, *textwrap.wrap(doubt or amplification.doubt or "", width)])


def _curve(axes: Any, variation: Variation, span: int, **style: Any) -> None:
    mean, error = variation.mean[:span], variation.standard_error[:span]
    label = f"LR_CE {variation.rates.context_encoder:.2g}, LR_other {variation.rates.other:.2g}"
    edges = plots.around(mean, error)
    plots.curve(axes, range(len(mean)), mean, edges, label=label, **style)


def _line_widths(count: int) -> list[float]:
    """Each line is thinner than those below it, so that none hides another where they meet."""
    shrink = (_WIDEST - _THINNEST) / max(count - 1, 1)
    return [_WIDEST - shrink * index for index in range(count)]


def _log_scale(axes: Any) -> None:
    """Plain numbers at the decades; where these are few, at 2 and 5 as well."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    axes.set_yscale("log")
    low, high = axes.get_ylim()
    few = high < low * 10**_DECADES_WITH_MORE_TICKS
    axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0) if few else (1.0,)))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.yaxis.set_minor_formatter(NullFormatter())
