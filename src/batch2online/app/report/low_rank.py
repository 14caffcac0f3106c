"""The section of a low-rank approximation."""

from __future__ import annotations

import numpy as np

from batch2online._types import FloatArray
from batch2online.app.report.charts import Axis, Chart, Series
from batch2online.app.report.context import ReportContext
from batch2online.app.report.elements import Part, Section, note
from batch2online.app.report.model_figures import dominance_warning, matrix_table, moments, note_of_columns


def sections(context: ReportContext) -> list[Section]:
    """Return the components and their explained variance, in decreasing order."""
    model, coreset, names = context.model, context.model.coreset_, context.names
    order = np.argsort(-model.explained_variance_ratio_, kind="stable")
    ratios = model.explained_variance_ratio_[order]
    labels = [f"{j + 1}: {ratio:.1%}" for j, ratio in enumerate(ratios)]
    lead = f"{len(labels)} components explain {ratios.sum():.1%} of the sum of squares of all rows."
    sizes = moments(coreset)[1]
    if not model.center:
        sizes = np.sqrt(np.average(coreset.points**2, axis=0, weights=coreset.weights))
    parts: list[Part] = [
        note(dominance_warning(sizes, names), "warning"),
        explained_variance_chart(ratios),
        note(f"Components, one per column: blue is positive, orange negative.{note_of_columns(len(names))}"),
        matrix_table(labels, names, model.components_[order]),
    ]
    return [Section("Components", lead, parts)]


def explained_variance_chart(ratios: FloatArray) -> Chart:
    """Draw the explained variance ratio of each component, and its cumulative sum."""
    places = list(range(1, len(ratios) + 1))
    series = [
        Series("each component", places, (100 * ratios).tolist(), "bars"),
        Series("all up to it", places, (100 * np.cumsum(ratios)).tolist(), "both", "second"),
    ]
    x, y = Axis("component", 0.4, len(ratios) + 0.6, is_whole=True), Axis("explained", 0.0, 105.0, unit="%")
    note = "Explained by each component, and by all up to it."
    return Chart("Explained variance ratio of each component", x, y, series, note, wide=True, height=220)
