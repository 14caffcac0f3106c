"""The section of a low rank approximation, and why it changed."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from batch2online.app.report import elements, models
from batch2online.app.report.context import ReportContext
from batch2online.app.report.text import why as reason


def why(context: ReportContext, event: Any) -> str:
    """Return the reason of a change, and how far the subspace turned."""
    turned = f"{math.degrees(event.magnitude):.3g} degrees"
    return f"{reason(event)}; the subspace turned by {turned}"


def section(context: ReportContext) -> str:
    """Return the directions, the strongest first, and how much of the rows each explains."""
    model = context.model
    order = np.argsort(-model.explained_variance_ratio_, kind="stable")
    shares, found = model.explained_variance_ratio_[order], model.components_[order]
    labels = [f"{j + 1}: {share:.1%}" for j, share in enumerate(shares)]
    lead = f"{len(labels)} components, which explain {shares.sum():.1%} of the sum of squares of all rows."
    cells = models.matrix_figure(labels, context.names, found, "Components, one a row")
    note = models.note_of_columns(len(context.names), "Blue is positive, orange negative; strongest component first.")
    most = float(np.abs(found).max())
    alarm = models.drowning(_spreads(model), context.names)
    return elements.section(
        "Components",
        lead,
        *([elements.warning(alarm)] if alarm else []),
        elements.figure(models.shares_figure(shares), "Share of each component, and of all up to it.", wide=True),
        elements.figure(cells, note, wide=True),
        elements.scale(f"{-most:.1f}", f"{most:.1f}"),
    )


def _spreads(model: Any) -> Any:
    """Root mean square of each column, around its mean if centred: what the components compete for."""
    coreset = model.coreset_
    if model.center:
        return models.spread(coreset)[1]
    return np.sqrt(np.average(coreset.points**2, axis=0, weights=coreset.weights))
