"""Pictures: the same figure gives the same files."""

from __future__ import annotations

from pathlib import Path

from resel.analysis import plots


def test_the_same_figure_gives_the_same_files(tmp_path: Path) -> None:
    folders = [tmp_path / name for name in "ab"]
    for folder in folders:
        folder.mkdir()
        figure, axes = plots.panels(3, columns=2)
        for ax in axes:
            plots.curve(ax, [0, 1], [1.0, 2.0], plots.around([1.0, 2.0], [0.5, 0.25]), label="a")
            ax.plot([0, 1], [0.0, 0.0], label="b")
        plots.legend(figure, axes)
        assert plots.save_both(figure, folder, "x") == ["x.png", "x.svg"]
        plots.save(figure, folder / "x.pdf")
    for name in ("x.png", "x.svg", "x.pdf"):
        assert (folders[0] / name).read_bytes() == (folders[1] / name).read_bytes()
    assert plots.around([1.0, 2.0], [0.5, 0.25]) == ([0.5, 1.75], [1.5, 2.25])


def test_a_legend_is_no_wider_than_its_picture() -> None:
    for words, columns in (("short", 4), ("a line with a name of many words", 2)):
        figure, axes = plots.panels(1)
        for number in range(7):
            axes[0].plot([0, 1], label=f"{words} {number}")
        plots.legend(figure, axes)
        (legend,) = figure.legends
        assert legend.get_window_extent().width <= figure.bbox.width
        assert legend._ncols <= columns and len(legend.get_texts()) == 7
