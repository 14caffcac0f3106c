"""The section of a low-rank approximation."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from batch2online.app.report import elements, model_figures
from batch2online.app.report.context import ReportContext
from batch2online.app.report.formatting import reason


def describe(context: ReportContext, event: Any) -> str:
    """Return the reason of a change, and the angle between the subspaces."""
    return f"{reason(event)}; the subspace rotated by {math.degrees(event.magnitude):.3g} degrees"


def section(context: ReportContext) -> str:
    """Return the components and their explained variance, in decreasing order."""
    model, coreset = context.model, context.model.coreset_
    order = np.argsort(-model.explained_variance_ratio_, kind="stable")
    ratios, components = model.explained_variance_ratio_[order], model.components_[order]
    labels = [f"{j + 1}: {ratio:.1%}" for j, ratio in enumerate(ratios)]
    lead = f"{len(labels)} components explain {ratios.sum():.1%} of the sum of squares of all rows."
    sizes = model_figures.moments(coreset)[1]
    if not model.center:
        sizes = np.sqrt(np.average(coreset.points**2, axis=0, weights=coreset.weights))
    note = "Components, one per column: blue is positive, orange negative."
    drawn = elements.figure(
        model_figures.explained_variance_chart(ratios), "Explained by each component, and by all up to it."
    )
    cells = model_figures.matrix_table(labels, context.names, components)
    return elements.section(
        "Components",
        lead,
        elements.warning(model_figures.dominance_warning(sizes, context.names)),
        drawn,
        elements.note(note + model_figures.note_of_columns(len(context.names))),
        cells,
    )
