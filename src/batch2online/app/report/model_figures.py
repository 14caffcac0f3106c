"""Figures of models: coefficients, components, centers, importance."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.patches import Rectangle
from matplotlib.ticker import FuncFormatter, MaxNLocator

from batch2online._types import FloatArray, IntArray
from batch2online.app.report.figures import ACCENT, INK, MUTED, SECOND, drawing, plain, svg_of

MAX_BARS = 25
MAX_COLUMNS = 32
N_BINS = 10


def equal_weight_bins(weights: FloatArray) -> IntArray:
    """Return the bin of each of the sorted rows, out of ten bins of equal weight."""
    ends = np.cumsum(weights)
    return np.asarray(np.minimum(N_BINS * (ends - weights / 2) / ends[-1], N_BINS - 1), dtype=np.int64)


def coefficients_figure(names: list[str], effects: FloatArray, errors: FloatArray | None) -> str:
    """Draw coefficients times the standard deviations of their features, with confidence intervals."""
    order = np.argsort(-np.abs(effects), kind="stable")[:MAX_BARS][::-1]
    with drawing(5.2, max(1.6, 0.7 + 0.24 * len(order))) as (figure, axes):
        colours = [ACCENT if effects[j] >= 0 else SECOND for j in order]
        axes.barh([plain(names[j]) for j in order], effects[order], color=colours, height=0.62)
        if errors is not None:
            places, widths = range(len(order)), np.where(np.isfinite(errors), errors, 0.0)[order]
            axes.errorbar(effects[order], places, xerr=widths, fmt="none", ecolor=INK, elinewidth=1.2, capsize=2.5)
        _value_axis(axes, "coefficient times standard deviation")
        return svg_of(figure, "coefficients", "Coefficients times the standard deviations of their features")


def importance_figure(names: list[str], importance: FloatArray) -> str:
    """Draw the importance of features in decreasing order."""
    order = np.argsort(-importance, kind="stable")[:MAX_BARS][::-1]
    with drawing(5.2, max(1.6, 0.7 + 0.24 * len(order))) as (figure, axes):
        axes.barh([plain(names[j]) for j in order], importance[order], color=ACCENT, height=0.62)
        _value_axis(axes, "increase of the mean loss")
        return svg_of(figure, "importance", "Increase of the mean loss if a feature is shuffled")


def response_figure(name: str, values: FloatArray, means: FloatArray, what: str) -> str:
    """Draw the mean prediction over the values of one feature."""
    with drawing(5.2, 2.6) as (figure, axes):
        axes.plot(values, means, color=ACCENT, marker="o", markersize=3)
        axes.set_xlabel(plain(name))
        axes.set_ylabel(plain(what))
        return svg_of(figure, "response", f"Mean prediction over {name}")


def matrix_figure(labels: list[str], names: list[str], values: FloatArray, label: str) -> str:
    """Draw a matrix as coloured cells, of many columns those with the largest values."""
    strongest = np.sort(np.argsort(-np.abs(values).max(axis=0), kind="stable")[:MAX_COLUMNS])
    shown, most = values[:, strongest], float(np.abs(values).max()) or 1.0
    with drawing(10.6, 1.5 + 0.36 * len(values)) as (figure, axes):
        for (i, j), value in np.ndenumerate(shown):
            colour, strength = ACCENT if value >= 0 else SECOND, abs(float(value)) / most
            axes.add_patch(
                Rectangle((j - 0.46, i - 0.44), 0.92, 0.88, color=colour, alpha=max(0.04, 0.85 * strength), linewidth=0)
            )
            size = 8.5 if len(strongest) <= MAX_COLUMNS // 2 else 6.0
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


def explained_variance_figure(ratios: FloatArray) -> str:
    """Draw the explained variance ratio of each component, and its cumulative sum."""
    places = np.arange(1, len(ratios) + 1)
    with drawing(10.6, 2.6) as (figure, axes):
        axes.bar(places, 100 * ratios, color=ACCENT, width=0.62)
        axes.plot(places, 100 * np.cumsum(ratios), "o-", color=SECOND, markersize=4, linewidth=1.2)
        axes.grid(visible=False, axis="x")
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:.3g} %"))
        axes.set_xlabel("component")
        axes.set_ylabel("explained")
        return svg_of(figure, "shares", "Explained variance ratio of each component")


def moments(coreset: Any) -> tuple[FloatArray, FloatArray]:
    """Return the weighted mean and standard deviation of each column of a coreset."""
    mean = np.average(coreset.points, axis=0, weights=coreset.weights)
    return mean, np.sqrt(np.average((coreset.points - mean) ** 2, axis=0, weights=coreset.weights))


def note_of_columns(n_columns: int, note: str) -> str:
    """Return a caption that says so if not all columns are drawn."""
    return note + (f" The {MAX_COLUMNS} largest of {n_columns:,} columns are drawn." if n_columns > MAX_COLUMNS else "")


def note_of_bars(n_features: int) -> str:
    """Return a sentence if not all coefficients are drawn."""
    return f" The {MAX_BARS} largest are drawn." if n_features > MAX_BARS else ""


def dominance_warning(deviations: FloatArray, names: list[str]) -> str:
    """Return a warning if a few columns have nearly all of the variance, else an empty string.

    >>> dominance_warning(np.array([1000.0, 1.0, 2.0, 3.0]), ["price", "a", "b", "c"]).partition(".")[0]
    'price has 100 % of the variance: the 3 other columns have little effect'
    """
    variances = np.square(deviations)
    total = float(variances.sum())
    order = np.argsort(-variances, kind="stable")
    held = np.cumsum(variances[order]) / (total or 1.0)
    count = int(np.searchsorted(held, 0.95)) + 1
    if len(names) < 3 or not total or count > max(1, len(names) // 4):
        return ""
    listed = " and ".join(names[j] for j in order[:count]) if count < 4 else f"{count} columns"
    share = f"{'has' if count == 1 else 'have'} {held[count - 1]:.0%}".replace("%", " %")
    return (
        f"{listed} {share} of the variance: the {len(names) - count} other columns have little effect. "
        "Standardize the columns (--standardize) unless this is intended."
    )


def _value_axis(axes: Any, label: str) -> None:
    """Format the value axis of horizontal bars."""
    axes.axvline(0, color=MUTED, linewidth=0.8)
    axes.grid(visible=False, axis="y")
    axes.xaxis.set_major_locator(MaxNLocator(5))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:.3g}"))
    axes.set_xlabel(label)
    axes.margins(y=0.01)
