"""Solve for the leading subspace from second moments, of a weighted coreset or of all rows."""

from __future__ import annotations

import numpy as np

from batch2online._types import FloatArray
from batch2online.methods.low_rank.moments import RidgeMoments, Spectrum
from batch2online.rows import Rows
from batch2online.sketches.base import Coreset


def coreset_moments(coreset: Coreset, rank: int, intercept: bool) -> RidgeMoments:
    """Return the moments of a weighted coreset, a pure function of it."""
    rows = Rows(coreset.points, np.empty((len(coreset), 0)), coreset.weights, coreset.ids)
    if len(rows) == 0:  # all rows so far are zero
        return RidgeMoments.empty(coreset.points.shape[1], rank, intercept)
    return RidgeMoments.of(rows, rank, intercept)


def leading_spectrum(moments: RidgeMoments, rank: int) -> Spectrum:
    """Return the leading spectrum of the rows in ``moments``, centred if there is a constant column."""
    if moments.rows == 0:
        return Spectrum(np.zeros(rank), np.eye(moments.width, rank), 0.0, 1.0)
    return moments.spectrum


def leading_subspace(moments: RidgeMoments, rank: int) -> FloatArray:
    """Return an orthonormal basis (rank, d) by descending variance, the largest entry of each component positive."""
    components = leading_spectrum(moments, rank).vectors.T
    largest = np.abs(components).argmax(axis=1)
    signs = np.where(components[np.arange(len(components)), largest] < 0, -1.0, 1.0)
    return np.asarray(components * signs[:, None])
