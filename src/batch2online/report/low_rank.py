"""The section of a low rank approximation."""

from __future__ import annotations

from typing import Any

from batch2online.report import elements, models


def components(model: Any, names: list[str]) -> str:
    """Return the directions, and how much of the rows each explains."""
    labels = [f"{j + 1}" for j in range(len(model.components_))]
    shares = model.explained_variance_ratio_
    lead = f"{len(labels)} components, which explain {shares.sum():.1%} of the sum of squares of all rows."
    cells = models.matrix_figure(labels, names, model.components_, "Components, one a row")
    note = models.note_of_columns(len(names), "Blue is positive, orange negative.")
    figures = (elements.figure(models.shares_figure(shares), wide=True), elements.figure(cells, note, wide=True))
    return elements.section("Components", lead, *figures)
