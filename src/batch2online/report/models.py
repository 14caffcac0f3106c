"""What a model looks like: coefficients, components or centers."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.patches import Rectangle
from matplotlib.ticker import FuncFormatter, MaxNLocator

from batch2online._types import FloatArray
from batch2online.report.svg import ACCENT, MUTED, SECOND, drawing, plain, svg_of

MOST_BARS = 25
MOST_COLUMNS = 32


def coefficients_figure(names: list[str], coefficients: FloatArray, spreads: FloatArray) -> str:
    """Coefficients times the spread of their inputs: what each input moves in the prediction."""
    effects = coefficients * spreads
    order = np.argsort(-np.abs(effects), kind="stable")[:MOST_BARS][::-1]
    with drawing(5.2, max(1.6, 0.7 + 0.24 * len(order))) as (figure, axes):
        colours = [ACCENT if effects[j] >= 0 else SECOND for j in order]
        axes.barh([plain(names[j]) for j in order], effects[order], color=colours, height=0.62)
        axes.axvline(0, color=MUTED, linewidth=0.8)
        axes.grid(visible=False, axis="y")
        axes.xaxis.set_major_locator(MaxNLocator(5))
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:.3g}"))
        axes.set_xlabel("coefficient times the spread of its input")
        axes.margins(y=0.01)
        return svg_of(figure, "coefficients", "Coefficients, each times the spread of its input")


def matrix_figure(labels: list[str], names: list[str], values: FloatArray, label: str) -> str:
    """Rows of numbers as cells: colour for the sign, strength for the size; the columns that differ most."""
    strongest = np.sort(np.argsort(-np.abs(values).max(axis=0), kind="stable")[:MOST_COLUMNS])
    shown = values[:, strongest] / (np.abs(values).max() or 1.0)
    with drawing(10.6, 1.5 + 0.3 * len(values)) as (figure, axes):
        for (i, j), value in np.ndenumerate(shown):
            colour = ACCENT if value >= 0 else SECOND
            axes.add_patch(_cell(i, j, colour, min(1.0, abs(float(value)))))
        axes.set_xlim(-0.5, len(strongest) - 0.5)
        axes.set_ylim(len(values) - 0.5, -0.5)
        turn = 90 if len(strongest) > 8 else 0
        axes.set_xticks(range(len(strongest)), [plain(names[j], 18) for j in strongest], rotation=turn, fontsize=9)
        axes.set_yticks(range(len(values)), labels)
        axes.grid(visible=False)
        for side in axes.spines.values():
            side.set_visible(False)
        return svg_of(figure, "model", label)


def shares_figure(shares: FloatArray) -> str:
    """Share of the variance that each component explains."""
    with drawing(10.6, 2.2) as (figure, axes):
        axes.bar(np.arange(1, len(shares) + 1), 100 * shares, color=ACCENT, width=0.62)
        axes.grid(visible=False, axis="x")
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:.3g} %"))
        axes.set_xlabel("component")
        axes.set_ylabel("explained")
        return svg_of(figure, "shares", "Share of the sum of squares that each component explains")


def spread(coreset: Any) -> tuple[FloatArray, FloatArray]:
    """Mean and standard deviation of each column, by the weights of the coreset."""
    mean = np.average(coreset.points, axis=0, weights=coreset.weights)
    return mean, np.sqrt(np.average((coreset.points - mean) ** 2, axis=0, weights=coreset.weights))


def note_of_columns(n_columns: int, note: str) -> str:
    """Return a caption, which says so where not all columns are drawn."""
    shown = f" The {MOST_COLUMNS} strongest of {n_columns:,} columns are drawn."
    return note + (shown if n_columns > MOST_COLUMNS else "")


def _cell(row: int, column: int, colour: str, strength: float) -> Any:
    return Rectangle((column - 0.46, row - 0.44), 0.92, 0.88, color=colour, alpha=max(0.04, strength), linewidth=0)
