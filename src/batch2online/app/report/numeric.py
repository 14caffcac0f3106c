"""The columns of a coreset that hold numbers, whatever kind of rows it holds."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from batch2online.frames.cells import GAP
from batch2online.sketches.base import Coreset


def numeric_coreset(model: Any) -> tuple[Coreset, list[int]]:
    """Return the coreset with its columns of numbers alone, gaps filled by their mean, and the places of these."""
    given = getattr(model._view().problem, "given_rows", None)
    if given is None or given.table is None:
        return model.coreset_, list(range(model.n_features_in_))
    coreset, places = model._view().construction.coreset(), given.table.numbers
    points = coreset.points[:, places]
    gaps = points == GAP
    weights = np.where(gaps, 0.0, coreset.weights[:, None])
    means = (np.where(gaps, 0.0, points) * weights).sum(axis=0) / np.maximum(weights.sum(axis=0), 1e-300)
    return replace(coreset, points=np.where(gaps, means, points)), places
