"""Solve least squares from second moments, of a weighted coreset or of all rows."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.linalg import lapack

from batch2online._types import FloatArray
from batch2online.methods.least_squares.moments import Moments
from batch2online.numerics.triangular import column_norms
from batch2online.rows import Rows
from batch2online.sketches.base import Coreset

TOLERANCE = 1e-6
"""Directions with a singular value of at most this share of the largest one are dropped, see :func:`least_squares`."""

_MARGIN = 10.0
"""Factor by which an estimate of the condition number can be too optimistic."""


class LinearSolution(NamedTuple):
    """Coefficients (n_targets, d) and intercepts (n_targets,)."""

    coefficients: FloatArray
    intercepts: FloatArray


def coreset_moments(coreset: Coreset, intercept: bool) -> Moments:
    """Return the moments of a weighted coreset, a pure function of it."""
    assert coreset.targets is not None
    targets = coreset.targets if coreset.targets.ndim == 2 else coreset.targets[:, None]
    rows = Rows(coreset.points, targets, coreset.weights, coreset.ids)
    return Moments.of(rows, intercept)


def least_squares(moments: Moments) -> LinearSolution:
    """Return the minimiser of the squared loss over the rows in ``moments``, without nearly constant directions.

    Columns are centred (next to an intercept) and scaled to norm one. Directions whose singular value is at most
    ``TOLERANCE`` times the largest one are dropped, as ``LinearRegression(tol=1e-6)`` does on standardised columns:
    rows hardly vary along them, so that noise alone would decide their coefficients, and the first row that does vary
    would be predicted anywhere. Of several minimisers it returns the one of least norm in scaled columns.
    """
    inputs, i = moments.n_inputs, int(moments.intercept)
    factor = moments.regular_factor
    centred = factor[i:inputs, i:inputs]  # below the row of the constant stands the factor of the centred rows
    scale = column_norms(centred)
    divisor = np.where(scale > 0, scale, 1.0)
    solution = truncated_solution(centred / divisor, factor[i:inputs, inputs:]) / divisor[:, None]
    coefficients = solution.T.copy()
    shift = moments.shift
    intercepts = np.zeros(moments.n_targets)
    if moments.intercept and factor[0, 0] > 0:
        means = factor[0] / factor[0, 0] + shift
        intercepts = means[inputs:] - coefficients @ means[i:inputs]
    return LinearSolution(coefficients, intercepts)


def truncated_solution(factor: FloatArray, right: FloatArray) -> FloatArray:
    """Return the least-squares solution for a triangular factor of unit columns, without directions to drop."""
    condition, _ = lapack.dtrcon(factor)
    if condition > _MARGIN * len(factor) * TOLERANCE:  # in the 1-norm: at most p times that of singular values
        solution, _ = lapack.dtrtrs(factor, right)
        return np.asarray(solution)
    return np.asarray(np.linalg.lstsq(factor, right, rcond=TOLERANCE)[0])
