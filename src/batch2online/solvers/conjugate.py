"""Newton's equations of many classes, solved by conjugate gradients: their matrix is never formed.

A product with the Hessian of K classes and p columns takes two passes over the rows, where the matrix would take K p.
The blocks of the single classes are the preconditioner.
"""

from __future__ import annotations

import numpy as np
from scipy.sparse.linalg import LinearOperator, cg

from batch2online._types import FloatArray
from batch2online.linalg.triangular import inverse_root
from batch2online.losses.base import pieces, weighted_gram
from batch2online.solvers.objective import Objective, Point, predictors

_MOST = 200
"""Products at most: a step that is not exact is a step all the same."""


class Curvature:
    """The Hessian of an objective at a point, whose quadratic form has no matrix."""

    def __init__(self, objective: Objective, point: Point) -> None:
        self.objective, self.shape = objective, point.theta.shape
        loss, y, width, eta = objective.loss, objective.y, objective.width, point.eta
        self._bent = [(piece, loss.bending(eta[piece], y[piece], width)) for piece in pieces(*eta.shape)]
        self._inverses = np.array([_inverse(*each) for each in zip(self._blocks(eta), objective.ridge, strict=True)])

    def _blocks(self, eta: FloatArray) -> FloatArray:
        """Return the blocks (K, p, p) of the single classes, without the penalty."""
        own, (k, p) = self.objective, self.shape
        total = np.zeros((k, p, p))
        for piece in pieces(*eta.shape):
            curves = own.weights[piece] * own.loss.bend(eta[piece], own.y[piece], own.width).T
            _add_grams(total, own.design[piece], curves)
        return total

    def solution(self, right: FloatArray, accuracy: float) -> FloatArray:
        """Return ``Hessian^-1 right`` (K, p), up to a residual of this share of the right-hand side."""
        size = right.size
        product = LinearOperator((size, size), matvec=self._product, dtype=np.float64)
        inverse = LinearOperator((size, size), matvec=self._approximate, dtype=np.float64)
        found, _ = cg(product, right.reshape(-1), rtol=accuracy, maxiter=_MOST, M=inverse)
        return self.objective.within(found.reshape(self.shape))

    def _product(self, flat: FloatArray) -> FloatArray:
        own = self.objective
        direction = own.within(flat.reshape(self.shape))
        total = own.ridge * direction
        for piece, bent in self._bent:
            design = own.design[piece]
            total += (own.weights[piece] * bent(predictors(design, direction)).T) @ design
        return np.asarray(total if own.kept is None else total @ own.kept).reshape(-1)

    def _approximate(self, flat: FloatArray) -> FloatArray:
        return np.asarray(self._inverses @ flat.reshape(*self.shape, 1)).reshape(-1)


def _add_grams(total: FloatArray, design: FloatArray, curves: FloatArray) -> None:
    """Add the Gram matrices of rows weighted by each of the curves (K, n), by few products whatever K and p are."""
    k, p, _ = total.shape
    if k <= p:
        for j in range(k):
            total[j] += weighted_gram(design, curves[j])
        return
    for column in range(p):
        total[:, column] += (curves * design[:, column]) @ design


def _inverse(block: FloatArray, ridge: FloatArray) -> FloatArray:
    """Return the inverse of one class's block of the Hessian."""
    root = inverse_root(block + np.diag(ridge))
    return np.asarray(root @ root.T)
