"""What a model looks like: coefficients, components or centers."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.patches import Rectangle
from matplotlib.ticker import FuncFormatter, MaxNLocator

from batch2online._types import FloatArray
from batch2online.app.report.figures import ACCENT, INK, MUTED, SECOND, drawing, plain, svg_of

MOST_BARS = 25
MOST_COLUMNS = 32


def coefficients_figure(names: list[str], effects: FloatArray, errors: FloatArray | None) -> str:
    """Coefficients times the spread of their inputs: what each input moves in the prediction, with its interval."""
    order = np.argsort(-np.abs(effects), kind="stable")[:MOST_BARS][::-1]
    with drawing(5.2, max(1.6, 0.7 + 0.24 * len(order))) as (figure, axes):
        colours = [ACCENT if effects[j] >= 0 else SECOND for j in order]
        axes.barh([plain(names[j]) for j in order], effects[order], color=colours, height=0.62)
        if errors is not None:
            places, widths = range(len(order)), np.where(np.isfinite(errors), errors, 0.0)[order]
            axes.errorbar(effects[order], places, xerr=widths, fmt="none", ecolor=INK, elinewidth=1.2, capsize=2.5)
        _measure(axes, "coefficient times the spread of its input")
        return svg_of(figure, "coefficients", "Coefficients, each times the spread of its input")


def importance_figure(names: list[str], worth: FloatArray) -> str:
    """Draw what each input is worth to a model, strongest first."""
    order = np.argsort(-worth, kind="stable")[:MOST_BARS][::-1]
    with drawing(5.2, max(1.6, 0.7 + 0.24 * len(order))) as (figure, axes):
        axes.barh([plain(names[j]) for j in order], worth[order], color=ACCENT, height=0.62)
        _measure(axes, "rise of the mean loss")
        return svg_of(figure, "importance", "Rise of the mean loss when an input is shuffled")


def response_figure(name: str, values: FloatArray, means: FloatArray, what: str) -> str:
    """Draw the mean answer of a model along one input."""
    with drawing(5.2, 2.6) as (figure, axes):
        axes.plot(values, means, color=ACCENT, marker="o", markersize=3)
        axes.set_xlabel(plain(name))
        axes.set_ylabel(plain(what))
        return svg_of(figure, "response", f"Mean answer along {name}")


def matrix_figure(labels: list[str], names: list[str], values: FloatArray, label: str) -> str:
    """Rows of numbers as cells: colour for the sign, strength for the size; the columns that differ most."""
    strongest = np.sort(np.argsort(-np.abs(values).max(axis=0), kind="stable")[:MOST_COLUMNS])
    shown, most = values[:, strongest], float(np.abs(values).max()) or 1.0
    with drawing(10.6, 1.5 + 0.36 * len(values)) as (figure, axes):
        for (i, j), value in np.ndenumerate(shown):
            colour, strength = ACCENT if value >= 0 else SECOND, abs(float(value)) / most
            axes.add_patch(
                Rectangle((j - 0.46, i - 0.44), 0.92, 0.88, color=colour, alpha=max(0.04, 0.85 * strength), linewidth=0)
            )
            size = 8.5 if len(strongest) <= MOST_COLUMNS // 2 else 6.0
            axes.text(j, i, f"{value:z.1f}", ha="center", va="center", fontsize=size, color=INK)
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
    """Share of the variance that each component explains, and that of all up to it."""
    places = np.arange(1, len(shares) + 1)
    with drawing(10.6, 2.6) as (figure, axes):
        axes.bar(places, 100 * shares, color=ACCENT, width=0.62)
        axes.plot(places, 100 * np.cumsum(shares), "o-", color=SECOND, markersize=4, linewidth=1.2)
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


def drowning(spreads: FloatArray, names: list[str]) -> str:
    """Return a sentence that names the few columns which hold nearly all of the variance, where there are such.

    >>> drowning(np.array([1000.0, 1.0, 2.0, 3.0]), ["price", "a", "b", "c"]).partition(".")[0]
    'price holds 100 % of the variance: the 3 other columns hardly count'
    """
    variances = np.square(spreads)
    total = float(variances.sum())
    order = np.argsort(-variances, kind="stable")
    held = np.cumsum(variances[order]) / (total or 1.0)
    count = int(np.searchsorted(held, 0.95)) + 1
    if len(names) < 3 or not total or count > max(1, len(names) // 4):
        return ""
    listed = " and ".join(names[j] for j in order[:count]) if count < 4 else f"{count} columns"
    verb = "holds" if count == 1 else "hold"
    return (
        f"{listed} {verb} {held[count - 1]:.0%} of the variance: the {len(names) - count} other columns hardly count. "
        "Give all columns the same scale (--standardize) unless this is meant."
    ).replace("%", " %")


def _measure(axes: Any, label: str) -> None:
    """Draw the axis along which bars are measured."""
    axes.axvline(0, color=MUTED, linewidth=0.8)
    axes.grid(visible=False, axis="y")
    axes.xaxis.set_major_locator(MaxNLocator(5))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:.3g}"))
    axes.set_xlabel(label)
    axes.margins(y=0.01)
