r"""Nearly collinear columns in losses that are minimised by Newton steps: directions to drop, as least squares does.

Rows z are centred (next to a constant) and their columns scaled to norm one. A direction v of unit length has the
squared singular value :math:`s^2 = v' (Z' W Z + \Lambda / h) v`, where Λ is the penalty of squares and h the mean
second derivative of the losses: a penalty counts like rows of its own. Models have no component along directions with s
at most ``TOLERANCE`` times the largest singular value of the rows.
"""

from __future__ import annotations

import numpy as np

from batch2online._types import FloatArray
from batch2online.methods.least_squares.solver import TOLERANCE
from batch2online.methods.linear_losses.expansion_state import Sample
from batch2online.methods.linear_losses.losses.base import weighted_gram
from batch2online.numerics.triangular import column_norms, definite_factor, qr_factor

_WELL_CONDITIONED = 1e-8
"""Reciprocal condition number of the correlations above which no direction is dropped."""


def projection(sample: Sample, strength: float) -> FloatArray | None:
    """Return the matrix A (p, p) that takes the directions to drop out of parameters: ``theta @ A.T``.

    What they add to predictions on average goes to the constant. ``strength`` multiplies the penalty of squares. None
    where there is nothing to drop.
    """
    rows, i = sample.anchored, int(sample.frame.intercept)
    gram, penalties = weighted_gram(rows.design, rows.weights), sample.frame.penalties()[i:]
    if _are_independent(gram, np.zeros(len(penalties)), i):
        return None
    roots = np.sqrt(strength / _mean_curvature(sample) * penalties)
    if _are_independent(gram, roots, i):
        return None
    factor = qr_factor(rows.design * np.sqrt(rows.weights)[:, None])
    dropped = _dropped(factor[i:, i:], roots)
    if dropped is None:
        return None
    matrix = np.eye(i + len(dropped))
    matrix[i:, i:] -= dropped
    matrix[:i, i:] = factor[:i, i:] / factor[0, 0] @ dropped
    return matrix


def _dropped(centred: FloatArray, roots: FloatArray) -> FloatArray | None:
    """Return the projection (d, d) onto the directions to drop, given a factor of the rows and roots of penalties."""
    norms = column_norms(centred)
    live = np.flatnonzero(norms)
    unit = centred[:, live] / norms[live]
    stacked = np.concatenate([unit, np.diag(roots[live] / norms[live])])
    values, turned = np.linalg.svd(stacked, full_matrices=False)[1:]
    is_small = values <= TOLERANCE * float(np.linalg.norm(unit, 2)) if live.size else np.zeros(0, dtype=np.bool_)
    if not is_small.any():
        return None
    result, directions = np.zeros_like(centred), turned[is_small]
    result[np.ix_(live, live)] = (directions / norms[live]).T @ (directions * norms[live])
    return result


def _are_independent(gram: FloatArray, roots: FloatArray, i: int) -> bool:
    """Whether columns with this Gram matrix are far from collinear, next to these roots of their penalties."""
    centred = gram[i:, i:]
    if i:
        centred = centred - np.outer(gram[0, 1:], gram[0, 1:]) / gram[0, 0]
    if not (centred.diagonal() >= 0).all():  # nothing but rounding is left of a column
        return False
    return definite_factor(centred + np.diag(roots * roots))[1] > _WELL_CONDITIONED


def _mean_curvature(sample: Sample) -> float:
    """Return the mean second derivative of the losses under the best model without columns."""
    rows, loss = sample.anchored, sample.loss
    constant = loss.constant(rows.y, rows.weights, len(sample.classes)) * sample.frame.intercept
    eta = np.tile(constant, (len(rows.y), 1))
    width = loss.width_of(eta, rows.y, rows.weights) if loss.has_width else 1.0
    curvature = float(np.average(loss.bend(eta, rows.y, width).mean(axis=1), weights=rows.weights))
    return curvature if 0 < curvature < np.inf else 1.0
