"""The paper's figure (section 9), with the panels it left out: PNG, SVG and the numbers as CSV."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from batch2online.evaluate.plots import COLOURS, draw_curve, pyplot
from batch2online.reference.experiment import EPSILONS, OURS, PAPER, Line, paper_experiment

QUICK_ROWS, FULL_ROWS = 300, 1500
_WIDTHS = (1.2, 2.2, 3.4)
_STYLES: dict[str, Any] = {OURS: "-", PAPER: (0, (4, 2))}


@dataclass(frozen=True)
class PaperFigure:
    """The files written, and the last point of each line as a table."""

    png: Path
    svg: Path
    csv: Path
    table: list[dict[str, Any]]


def paper_figure(
    folder: str | Path = ".",
    *,
    quick: bool = True,
    rows: int | None = None,
    seeds: int | Iterable[int] = 5,
    epsilons: Sequence[float] = EPSILONS,
    jobs: int = -1,
    progress: bool = False,
) -> PaperFigure:
    """Run the paper's experiment and draw it; needs matplotlib.

    Loss relative to the best model in hindsight (k-means++ with restarts on all rows; least squares; singular
    vectors), for three accuracies, with the paper's algorithms and with ours; the number of model changes
    below. Means over seeds, one standard deviation shaded.

    Parameters
    ----------
    folder : path
        Where ``paper_figure.png``, ``.svg`` and ``.csv`` are written.
    quick : bool
        300 rows a stream instead of 1,500: the paper's algorithms take quadratic time.
    rows : int or None
        Another number of rows.
    seeds : int or iterable of int
        How many streams, or their seeds.
    epsilons : sequence of float
        Accuracies.
    jobs : int
        Processes; -1 is one for each core.
    progress : bool
        Show a bar on standard error.
    """
    pyplot()  # fail before the work if it cannot be drawn
    count = rows or (QUICK_ROWS if quick else FULL_ROWS)
    chosen = range(seeds) if isinstance(seeds, int) else seeds
    lines = paper_experiment(count, chosen, epsilons, jobs, progress)
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    png, svg, table = (folder / f"paper_figure.{suffix}" for suffix in ("png", "svg", "csv"))
    _draw(lines, [png, svg])
    _write(lines, table)
    return PaperFigure(png, svg, table, [_last(line) for line in lines])


def _draw(lines: list[Line], files: list[Path]) -> None:
    plt = pyplot()
    titles = list(dict.fromkeys(line.panel.problem.title for line in lines if line.panel.data == "synthetic"))
    with plt.rc_context({"font.size": 9, "axes.spines.top": False, "axes.spines.right": False, "svg.hashsalt": "b2o"}):
        figure, axes = plt.subplots(
            3, len(titles), figsize=(3.1 * len(titles), 7.4), sharex="col", layout="constrained"
        )
        for column, title in enumerate(titles):
            own = [line for line in lines if line.panel.problem.title == title]
            synthetic = [line for line in own if line.panel.data == "synthetic"]
            real = [line for line in own if line.panel.data != "synthetic"]
            _ratios(axes[0, column], synthetic, f"{title}\nsynthetic")
            _ratios(axes[1, column], real, real[0].panel.data)
            _changes(axes[2, column], real, f"{real[0].panel.data}, changes")
        _label(axes)
        handles = _handles(plt, lines)
        figure.legend(handles=handles, loc="outside lower center", ncols=len(handles), frameon=False)
        for file in files:
            figure.savefig(file, dpi=200)
        plt.close(figure)


def _ratios(axes: Any, lines: list[Line], title: str) -> None:
    _curves(axes, lines, "ratio", title)
    axes.axhline(1.0, color="0.4", linewidth=0.8, zorder=0)
    ends = [line.summary("ratio")[0][-1] for line in lines]
    axes.set_ylim(0.9, 1 + 3 * max(0.1, max(ends) - 1))


def _changes(axes: Any, lines: list[Line], title: str) -> None:
    _curves(axes, lines, "changes", title)
    axes.set_yscale("log")


def _curves(axes: Any, lines: list[Line], quantity: str, title: str) -> None:
    looks = _looks(lines)
    for line in reversed(lines):
        draw_curve(
            axes, line.curves[0].at, *line.summary(quantity), linestyle=_STYLES[line.algorithm], **looks[line.epsilon]
        )
    axes.set_title(title, fontsize=9)
    axes.margins(x=0)


def _looks(lines: list[Line]) -> dict[float, dict[str, Any]]:
    """Return a colour for each accuracy; the finer, the wider, so that lines that coincide can be seen."""
    epsilons = dict.fromkeys(line.epsilon for line in lines)
    looks = [{"color": colour, "linewidth": width} for colour, width in zip(COLOURS, _WIDTHS * 3, strict=False)]
    return dict(zip(epsilons, looks, strict=False))


def _label(axes: Any) -> None:
    for row, label in enumerate(["loss / hindsight", "loss / hindsight", "model changes"]):
        axes[row, 0].set_ylabel(label)
    for each in axes[-1]:
        each.set_xlabel("rows")


def _handles(plt: Any, lines: list[Line]) -> list[Any]:
    line_of = plt.Line2D
    handles = [line_of([], [], label=rf"$\epsilon = {epsilon:g}$", **look) for epsilon, look in _looks(lines).items()]
    return handles + [line_of([], [], color="0.3", linestyle=style, label=name) for name, style in _STYLES.items()]


def _write(lines: list[Line], path: Path) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, _last(lines[0]).keys())
        writer.writeheader()
        for line in lines:
            writer.writerows(_point(line, i) for i in range(len(line.curves[0].at)))


def _last(line: Line) -> dict[str, Any]:
    return _point(line, -1)


def _point(line: Line, i: int) -> dict[str, Any]:
    point = {
        "data": line.panel.data,
        "problem": line.panel.problem.title,
        "algorithm": line.algorithm,
        "epsilon": line.epsilon,
        "rows": int(line.curves[0].at[i]),
    }
    for quantity in ("ratio", "regret", "changes"):
        mean, deviation = line.summary(quantity)
        point |= {quantity: float(mean[i]), f"{quantity}_std": float(deviation[i])}
    return point
