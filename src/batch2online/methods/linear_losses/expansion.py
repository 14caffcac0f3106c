r"""Taylor expansions of the losses of rows, of single ones and summed over all.

The expansion of a row at the predictor e, with first derivative g and second derivative h there, is
:math:`T(\theta) = l + g (\eta - e) + h (\eta - e)^2 / 2`, :math:`\eta = z \cdot \theta`. The last term is left out
where the sum of its matrices would be large. A sum of expansions is a constant, a linear form and a quadratic form.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Annotated, NamedTuple

import numpy as np

from batch2online._types import FloatArray, IntArray
from batch2online.methods.linear_losses.grams import curvature_sum
from batch2online.methods.losses import Local, PredictorLoss, Scale
from batch2online.schema import shape, storable
from batch2online.theory import sizes


class ExpandedRows(NamedTuple):
    """Rows z (n, p), their targets and weights, and the predictors (n, K) and scales at which losses are expanded."""

    design: FloatArray
    y: FloatArray
    weights: FloatArray
    eta: FloatArray
    scale: Scale


@dataclass(frozen=True)
class Expanded:
    """Expansions of the losses of all rows, summed, and of the rows of the coreset, one by one.

    The sum is ``constant + sum(linear * theta) + theta' matrix theta / 2``; without a matrix expansions are linear.
    ``local`` are values and derivatives of the rows of the coreset.
    """

    constant: float
    linear: FloatArray
    matrix: FloatArray
    loss: PredictorLoss
    rows: ExpandedRows
    local: Local

    def of_all(self, theta: FloatArray) -> tuple[float, FloatArray]:
        """Return the sum over all rows at parameters (K, p), and its gradient."""
        value = self.constant + float(np.vdot(self.linear, theta))
        if not self.matrix.size:
            return value, self.linear
        bent = (self.matrix @ theta.reshape(-1)).reshape(theta.shape)
        return value + float(np.vdot(theta, bent)) / 2, np.asarray(self.linear + bent)

    def of_rows(self, eta: FloatArray, piece: slice = slice(None)) -> tuple[FloatArray, FloatArray]:
        """Return values (n,) and first derivatives (n, K) of the rows of a piece at predictors (n, K)."""
        values, slope = self.local[0][piece], self.local[1][piece]
        anchor = self.rows.eta[piece]
        moved = eta - anchor
        if not self.matrix.size:
            return values + (moved * slope).sum(axis=1), slope
        bent = self.loss.hessian_product(anchor, self.local[2][piece], moved)
        return values + (moved * (slope + bent / 2)).sum(axis=1), slope + bent

    @cached_property
    def beyond(self) -> FloatArray:
        """The matrix of all rows less that of the coreset's, (K p, K p)."""
        rows = self.rows
        return self.matrix - curvature_sum(self.loss, rows.design, rows.weights, rows.eta, self.local[2])


@storable
@dataclass(frozen=True)
class Expansion:
    """Sums of the expansions of all rows, in one part or, where classes are balanced, in one for each class.

    Weights of balanced classes are :math:`W / (K W_c)`, as for ``class_weight="balanced"`` in scikit-learn. They change
    with every row, so they are applied in :meth:`total`.

    Attributes
    ----------
    constants, linear : (c,) and (c, K, p) arrays
        Constants and linear forms.
    matrix : (c, K p, K p) array
        Empty if expansions are linear.
    masses : (c,) array
        Weights of the rows of balanced classes; empty if classes are not balanced.
    """

    constants: Annotated[FloatArray, shape("c")]
    linear: Annotated[FloatArray, shape("c", "k", "p")]
    matrix: Annotated[FloatArray, shape("c", "size", "size")]
    masses: Annotated[FloatArray, shape("m")]

    @classmethod
    def empty(cls, n_outputs: int, n_columns: int, n_classes: int, is_balanced: bool) -> Expansion:
        """Return the sums over no rows."""
        n = n_classes if is_balanced else 1
        size = n_outputs * n_columns if sizes.keeps_matrix(n_outputs, n_columns, n) else 0
        linear, masses = np.zeros((n, n_outputs, n_columns)), np.zeros(n if is_balanced else 0)
        return cls(np.zeros(n), linear, np.zeros((n, size, size)), masses)

    @property
    def factors(self) -> FloatArray:
        """Weight of each balanced class; that of a class without rows is the largest one."""
        known = self.masses > 0
        own = self.masses.sum() / (len(self.masses) * np.where(known, self.masses, 1.0))
        return np.asarray(np.where(known, own, own.max(where=known, initial=1.0)))

    def balanced(self, weights: FloatArray, y: FloatArray) -> FloatArray:
        """Return the weights of rows times those of their classes."""
        return weights * self.factors[y.astype(np.int64)] if self.masses.size else weights

    def holding(self, weights: FloatArray, y: FloatArray) -> Expansion:
        """Return the sums whose masses include these rows, which are not expanded yet."""
        if not self.masses.size:
            return self
        return replace(self, masses=self.masses + np.bincount(y.astype(np.int64), weights, len(self.masses)))

    def including(self, rows: ExpandedRows, loss: PredictorLoss, local: Local) -> Expansion:
        """Return the sums with these rows, given values and derivatives of their losses."""
        constants, linear, matrix = self.constants.copy(), self.linear.copy(), self.matrix.copy()
        parts = np.unique(rows.y).astype(np.int64).tolist() if self.masses.size else [0]
        for part in parts:
            few = np.flatnonzero(rows.y == part) if self.masses.size else slice(None)
            values, gradient, hessian = (each[few] for each in local)
            design, weights, eta = rows.design[few], rows.weights[few], rows.eta[few]
            form = weights * gradient.T
            constants[part] += weights @ values - np.vdot(form, eta.T)
            if matrix.size:
                bent = weights * loss.hessian_product(eta, hessian, eta).T
                constants[part] += np.vdot(bent, eta.T) / 2
                form = form - bent
                matrix[part] += curvature_sum(loss, design, weights, eta, hessian)
            linear[part] += form @ design
        return Expansion(constants, linear, matrix, self.masses).holding(rows.weights, rows.y)

    def total(self) -> tuple[float, FloatArray, FloatArray]:
        """Return constant, linear form and matrix of all rows, times the weights of their classes."""
        if not self.masses.size:
            return float(self.constants[0]), self.linear[0], self.matrix[0]
        factors = self.factors
        linear, matrix = (np.tensordot(factors, each, 1) for each in (self.linear, self.matrix))
        return float(factors @ self.constants), linear, matrix

    def moved(self, outputs: FloatArray, columns: FloatArray) -> Expansion:
        """Return the sums in terms of other parameters.

        ``outputs`` (K, K') turns new predictors into former ones, ``columns`` (p, p) former rows z into new ones.
        """
        linear, matrix = np.asarray(outputs.T @ self.linear @ columns.T), self.matrix
        if matrix.shape[1]:
            both = np.kron(outputs.T, columns)
            matrix = np.asarray(both @ matrix @ both.T)
        return replace(self, linear=linear, matrix=matrix)

    def translated(self, by: float) -> Expansion:
        """Return the sums for a single predictor reduced by this amount: the constant is the first parameter."""
        if not by:
            return self
        constants, linear = self.constants + by * self.linear[:, 0, 0], self.linear.copy()
        if self.matrix.size:
            constants += by * by * self.matrix[:, 0, 0] / 2
            linear[:, 0] += by * self.matrix[:, 0]
        return replace(self, constants=constants, linear=linear)

    def of_classes(self, outputs: FloatArray, places: IntArray, n_classes: int) -> Expansion:
        """Return the sums in terms of more classes, among which the current ones have these positions."""
        is_balanced = self.masses.size or not len(self.constants)
        new = Expansion.empty(outputs.shape[1], self.linear.shape[2], n_classes, bool(is_balanced))
        own = self if new.matrix.shape[1] else replace(self, matrix=self.matrix[:, :0, :0])
        own = own.moved(outputs, np.eye(self.linear.shape[2]))
        parts = places if is_balanced else [0]
        for field in fields(self)[: 4 if is_balanced else 3]:
            getattr(new, field.name)[parts] = getattr(own, field.name)
        return new

    def scaled(self, factor: float) -> Expansion:
        """Return the sums for weights multiplied by a factor."""
        return Expansion(*(getattr(self, field.name) * factor for field in fields(self)))

    def __add__(self, other: Expansion) -> Expansion:
        """Return the sums over both, of the same classes in the same order."""
        return Expansion(*(getattr(self, field.name) + getattr(other, field.name) for field in fields(self)))
