"""Newton's equations of many classes, solved by conjugate gradients: their matrix is never formed.

A product with the Hessian of K classes and p columns takes two passes over the rows, where the matrix would take K p.
The blocks of the single classes are the preconditioner.
"""

from __future__ import annotations

import numpy as np
from scipy.sparse.linalg import LinearOperator, cg

from batch2online._types import FloatArray
from batch2online.linalg.triangular import inverse_root
from batch2online.losses.base import weighted_gram
from batch2online.solvers.objective import Objective, Point, predictors

_MOST = 200
"""Products at most: a step that is not exact is a step all the same."""


class Curvature:
    """The Hessian of an objective at a point, whose quadratic form has no matrix."""

    def __init__(self, objective: Objective, point: Point) -> None:
        self.objective, self.shape = objective, point.theta.shape
        self._bent = objective.loss.bending(point.eta, objective.y, objective.width)
        curves = zip(objective.weights * point.bend.T, objective.ridge, strict=True)
        self._inverses = np.array([_inverse(objective.design, *each) for each in curves])

    def solution(self, right: FloatArray, accuracy: float) -> FloatArray:
        """Return ``Hessian^-1 right`` (K, p), up to a residual of this share of the right-hand side."""
        size = right.size
        product = LinearOperator((size, size), matvec=self._product, dtype=np.float64)
        inverse = LinearOperator((size, size), matvec=self._approximate, dtype=np.float64)
        found, _ = cg(product, right.reshape(-1), rtol=accuracy, maxiter=_MOST, M=inverse)
        return np.asarray(found.reshape(self.shape))

    def _product(self, flat: FloatArray) -> FloatArray:
        direction, own = flat.reshape(self.shape), self.objective
        bent = self._bent(predictors(own.design, direction))
        return np.asarray((own.weights * bent.T) @ own.design + own.ridge * direction).reshape(-1)

    def _approximate(self, flat: FloatArray) -> FloatArray:
        return np.asarray(self._inverses @ flat.reshape(*self.shape, 1)).reshape(-1)


def _inverse(design: FloatArray, curve: FloatArray, ridge: FloatArray) -> FloatArray:
    """Return the inverse of one class's block of the Hessian."""
    root = inverse_root(weighted_gram(design, curve) + np.diag(ridge))
    return np.asarray(root @ root.T)
