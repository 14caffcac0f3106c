"""Tables of models, and what their sections share: effects, matrices, bins, moments."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from batch2online._types import BoolArray, FloatArray, IntArray
from batch2online.app.report.elements import Bar, Cell, Shade, Table

MAX_COLUMNS = 32
N_BINS = 10


def equal_weight_bins(weights: FloatArray) -> IntArray:
    """Return the bin of each of the sorted rows, out of ten bins of equal weight."""
    ends = np.cumsum(weights)
    return np.asarray(np.minimum(N_BINS * (ends - weights / 2) / ends[-1], N_BINS - 1), dtype=np.int64)


def binned_means(
    values: FloatArray, outcomes: FloatArray | BoolArray, weights: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return the means of values and of their outcomes in ten bins of equal weight, by increasing values."""
    order = np.argsort(values, kind="stable")
    bins = equal_weight_bins(weights[order])
    total = np.bincount(bins, weights[order], N_BINS)
    kept = total > 0
    sums = [np.bincount(bins, weights[order] * each[order], N_BINS)[kept] for each in (values, outcomes)]
    return sums[0] / total[kept], sums[1] / total[kept]


def bar_table(
    heads: Sequence[str],
    names: Sequence[str],
    effects: FloatArray,
    columns: Sequence[Sequence[str]] = (),
    errors: FloatArray | None = None,
    first: Sequence[str] = (),
    wide: bool = True,
) -> Table:
    """Return a table of features by decreasing effect, each with a bar and the half-width of its interval.

    Parameters
    ----------
    heads : sequence of str
        Names of the columns: of the features, of the bars, and of ``columns``.
    names : sequence of str
        The features.
    effects : array of shape (d,)
        Lengths of the bars.
    columns : sequence of sequences of str
        Further cells of each feature.
    errors : array of shape (d,), optional
        Half-widths of the intervals of the effects.
    first : sequence of str
        A row before the others, without a bar.
    wide : bool
        Whether the table has the whole width of the page.
    """
    halves = np.zeros(len(effects)) if errors is None else np.where(np.isfinite(errors), errors, 0.0)
    most = float((np.abs(effects) + halves).max(initial=0.0)) or 1.0
    is_signed = bool((effects - halves < 0).any())
    rows: list[list[Cell]] = [[first[0], "", *first[1:]]] if first else []
    for j in np.argsort(-np.abs(effects), kind="stable"):
        bar = Bar(float(effects[j]), most, float(halves[j]), is_signed)
        rows.append([names[j], bar, *(column[j] for column in columns)])
    return Table(heads, rows, tall=True, wide=wide)


def matrix_table(labels: Sequence[str], names: Sequence[str], values: FloatArray) -> Table:
    """Return a matrix as a table with one feature per row, shaded by value; of many features the strongest."""
    strongest = np.sort(np.argsort(-np.abs(values).max(axis=0), kind="stable")[:MAX_COLUMNS])
    most = float(np.abs(values).max()) or 1.0
    rows = [[names[j], *(Shade(float(value), most) for value in values[:, j])] for j in strongest]
    return Table(["feature", *labels], rows)


def moments(coreset: Any) -> tuple[FloatArray, FloatArray]:
    """Return the weighted mean and standard deviation of each column of a coreset."""
    mean = np.average(coreset.points, axis=0, weights=coreset.weights)
    return mean, np.sqrt(np.average((coreset.points - mean) ** 2, axis=0, weights=coreset.weights))


def note_of_columns(n_columns: int) -> str:
    """Return a sentence if not all features are listed."""
    return f" The {MAX_COLUMNS} strongest of {n_columns:,} features are listed." if n_columns > MAX_COLUMNS else ""


def dominance_warning(deviations: FloatArray, names: Sequence[str]) -> str:
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
