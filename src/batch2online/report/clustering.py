"""The section of a clustering."""

from __future__ import annotations

from typing import Any

import numpy as np

from batch2online.report import elements, models


def centers(model: Any, names: list[str]) -> str:
    """Where the centers lie, and the share of rows nearest to each."""
    coreset, found = model.coreset_, model.cluster_centers_
    labels = np.argmin([((coreset.points - center) ** 2).sum(axis=1) for center in found], axis=0)
    sizes = np.bincount(labels, weights=coreset.weights, minlength=len(found))
    mean, spreads = models.spread(coreset)
    scaled = (found - mean) / np.where(spreads > 0, spreads, 1.0)
    ticks = [f"{j}: {sizes[j] / sizes.sum():.0%}" for j in range(len(found))]
    cells = models.matrix_figure(ticks, names, scaled, "Centers, one a row")
    lead = f"{len(found)} centers with the share of rows nearest to each, as spreads away from the mean of all rows."
    note = models.note_of_columns(len(names), "Blue is above the mean, orange below.")
    return elements.section("Centers", lead, elements.figure(cells, note, wide=True))
