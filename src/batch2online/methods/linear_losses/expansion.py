r"""Taylor expansions of the losses of rows, of single ones and summed over all.

The expansion of a row at the predictor e, with first derivative g and second derivative h there, is
:math:`T(\theta) = l + g (\eta - e) + h (\eta - e)^2 / 2`, :math:`\eta = z \cdot \theta`. *Taylor order 1* leaves out
the last term; order 2 is there where its matrix is small. A sum of expansions is a constant, a linear form and a
quadratic form.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Annotated, NamedTuple

import numpy as np

from batch2online._types import FloatArray, IntArray
from batch2online.methods.linear_losses.grams import curvature_sum
from batch2online.methods.losses import Local, PredictorLoss, Scale
from batch2online.schema import at_least, finite, require, require_equal, shape, storable
from batch2online.theory import sizes


class ExpandedRows(NamedTuple):
    """Rows z (n, p), their targets and weights, and the predictors (n, K) and scales at which losses are expanded."""

    design: FloatArray
    y: FloatArray
    weights: FloatArray
    eta: FloatArray
    scale: Scale

    def some(self, few: slice | IntArray) -> ExpandedRows:
        """Return some of the rows."""
        scale = self.scale if isinstance(self.scale, float) else self.scale[few]
        return ExpandedRows(self.design[few], self.y[few], self.weights[few], self.eta[few], scale)


@dataclass(frozen=True)
class RowExpansions:
    """Expansions of the losses of single rows, where their values and derivatives are ``local``."""

    loss: PredictorLoss
    rows: ExpandedRows
    local: Local
    order: int

    def value_and_gradient(self, eta: FloatArray, piece: slice = slice(None)) -> tuple[FloatArray, FloatArray]:
        """Return values (n,) and first derivatives (n, K) of the rows of a piece at predictors (n, K)."""
        values, slope = self.local[0][piece], self.local[1][piece]
        anchor = self.rows.eta[piece]
        moved = eta - anchor
        if self.order == 1:
            return values + (moved * slope).sum(axis=1), slope
        bent = self.loss.hessian_product(anchor, self.local[2][piece], moved)
        return values + (moved * (slope + bent / 2)).sum(axis=1), slope + bent

    @cached_property
    def curvature(self) -> FloatArray:
        """The sum of the second derivatives, (K p, K p)."""
        return curvature_sum(self.loss, self.rows.design, self.rows.weights, self.rows.eta, self.local[2])


class Quadratic(NamedTuple):
    """The function ``constant + sum(linear * theta) + theta' matrix theta / 2``; ``matrix`` is empty for zero."""

    constant: float
    linear: FloatArray
    matrix: FloatArray

    def value_and_gradient(self, theta: FloatArray) -> tuple[float, FloatArray]:
        """Return the value, and the gradient (K, p)."""
        value = self.constant + float(np.vdot(self.linear, theta))
        if not self.matrix.size:
            return value, self.linear
        bent = (self.matrix @ theta.reshape(-1)).reshape(theta.shape)
        return value + float(np.vdot(theta, bent)) / 2, np.asarray(self.linear + bent)


class Expanded(NamedTuple):
    """Expansions of one Taylor order: the sum over all rows, and those of the rows of the coreset."""

    all_rows: Quadratic
    coreset: RowExpansions


@storable
@dataclass(frozen=True)
class Expansion:
    """Sums of expansions of both Taylor orders, in one part or, where classes are balanced, in one for each class.

    Weights of balanced classes are :math:`W / (K W_c)`, as for ``class_weight="balanced"`` in scikit-learn. They change
    with every row, so they are applied in :meth:`total`.

    Attributes
    ----------
    constants, linear : (2, c) and (2, c, K, p) arrays
        Constants and linear forms of both orders.
    matrix : (c, K p, K p) array
        Empty if order 2 is not kept.
    masses : (c,) array
        Weights of the rows of balanced classes; empty if classes are not balanced.
    is_balanced : bool
        Whether there is a part for each class.
    """

    constants: Annotated[FloatArray, shape(2, "c"), finite]
    linear: Annotated[FloatArray, shape(2, "c", "k", "p"), finite]
    matrix: Annotated[FloatArray, shape("c", "size", "size"), finite]
    masses: Annotated[FloatArray, shape("m"), finite, at_least(0)]
    is_balanced: bool

    def validate(self) -> None:
        _, n, k, p = self.linear.shape
        require(self.is_balanced or n == 1, f"constants: found {n}, expected one, or one for each balanced class")
        require_equal("masses", len(self.masses), n if self.is_balanced else 0)
        require(self.matrix.shape[1] in (0, k * p), f"matrix: found {self.matrix.shape}, expected {k * p} or no rows")

    @classmethod
    def empty(cls, n_outputs: int, n_columns: int, n_classes: int, is_balanced: bool) -> Expansion:
        """Return the sums over no rows."""
        n = n_classes if is_balanced else 1
        size = n_outputs * n_columns if sizes.keeps_matrix(n_outputs, n_columns, n) else 0
        linear, masses = np.zeros((2, n, n_outputs, n_columns)), np.zeros(n if is_balanced else 0)
        return cls(np.zeros((2, n)), linear, np.zeros((n, size, size)), masses, is_balanced)

    @property
    def orders(self) -> tuple[int, ...]:
        """Available Taylor orders, from the highest on."""
        return (2, 1) if self.matrix.shape[1] else (1,)

    @property
    def factors(self) -> FloatArray:
        """Weight of each class; that of a class without rows is the largest one."""
        known = self.masses > 0
        own = self.masses.sum() / (len(self.masses) * np.where(known, self.masses, 1.0))
        return np.asarray(np.where(known, own, own.max(where=known, initial=1.0)))

    def balanced(self, weights: FloatArray, y: FloatArray) -> FloatArray:
        """Return the weights of rows times those of their classes."""
        return weights * self.factors[y.astype(np.int64)] if self.is_balanced else weights

    def holding(self, weights: FloatArray, y: FloatArray) -> Expansion:
        """Return the sums whose masses include these rows, which are not expanded yet."""
        if not self.is_balanced:
            return self
        return replace(self, masses=self.masses + np.bincount(y.astype(np.int64), weights, len(self.masses)))

    def including(self, loss: PredictorLoss, rows: ExpandedRows, local: Local) -> Expansion:
        """Return the sums with these rows, given values and derivatives of their losses."""
        constants, linear, matrix = self.constants.copy(), self.linear.copy(), self.matrix.copy()
        for part, few in self._parts(rows.y):
            (design, _, weights, eta, _), (values, gradient, hessian) = rows.some(few), [each[few] for each in local]
            bent = loss.hessian_product(eta, hessian, eta)
            forms = weights * np.stack([gradient.T, (gradient - bent).T])
            constants[0, part] += weights @ values - np.vdot(forms[0], eta.T)
            constants[1, part] += weights @ values - np.vdot(forms[0] + forms[1], eta.T) / 2
            linear[:, part] += forms @ design
            if 2 in self.orders:
                matrix[part] += curvature_sum(loss, design, weights, eta, hessian)
        new = replace(self, constants=constants, linear=linear, matrix=matrix)
        return new.holding(rows.weights, rows.y)

    def _parts(self, y: FloatArray) -> list[tuple[int, slice | IntArray]]:
        """Return the parts that rows belong to, and which rows these are."""
        if not self.is_balanced:
            return [(0, slice(None))]
        return [(part, np.flatnonzero(y == part)) for part in np.unique(y).astype(np.int64).tolist()]

    def total(self, order: int) -> Quadratic:
        """Return the sum over all rows of expansions of this order, times the weights of their classes."""
        factors = self.factors if self.is_balanced else np.ones(1)
        linear = np.tensordot(factors, self.linear[order - 1], 1)
        matrix = self.matrix if order == 2 else self.matrix[:, :0, :0]
        matrix = np.tensordot(factors, matrix, 1) if self.is_balanced else matrix[0]
        return Quadratic(float(factors @ self.constants[order - 1]), linear, matrix)

    def translated(self, by: float) -> Expansion:
        """Return the sums for a single predictor reduced by this amount: the constant is the first parameter."""
        if not by:
            return self
        constants, linear = self.constants + by * self.linear[:, :, 0, 0], self.linear.copy()
        if 2 in self.orders:
            constants[1] += by * by * self.matrix[:, 0, 0] / 2
            linear[1, :, 0] += by * self.matrix[:, 0]
        return replace(self, constants=constants, linear=linear)

    def moved(self, outputs: FloatArray, columns: FloatArray) -> Expansion:
        """Return the sums in terms of other parameters.

        ``outputs`` (K, K') turns new predictors into former ones, ``columns`` (p, p) former rows z into new ones.
        """
        linear, matrix = np.asarray(outputs.T @ self.linear @ columns.T), self.matrix
        if 2 in self.orders:
            both = np.kron(outputs.T, columns)
            matrix = np.asarray(both @ matrix @ both.T)
        return replace(self, linear=linear, matrix=matrix)

    def of_classes(self, outputs: FloatArray, places: IntArray, n_classes: int) -> Expansion:
        """Return the sums in terms of more classes, among which the current ones have these positions."""
        k, p = outputs.shape[1], self.linear.shape[3]
        new, own = Expansion.empty(k, p, n_classes, self.is_balanced), self
        if 2 not in new.orders:
            own = replace(self, matrix=self.matrix[:, :0, :0])
        own = own.moved(outputs, np.eye(p))
        parts = places if self.is_balanced else np.array([0])
        new.constants[:, parts], new.linear[:, parts] = own.constants, own.linear
        if 2 in new.orders:
            new.matrix[parts] = own.matrix
        if self.is_balanced:
            new.masses[parts] = own.masses
        return new

    def scaled(self, factor: float) -> Expansion:
        """Return the sums for weights multiplied by a factor."""
        constants, linear, masses = self.constants * factor, self.linear * factor, self.masses * factor
        return Expansion(constants, linear, self.matrix * factor, masses, self.is_balanced)

    def __add__(self, other: Expansion) -> Expansion:
        """Return the sums over both, of the same classes in the same order."""
        constants, linear = self.constants + other.constants, self.linear + other.linear
        matrix, masses = self.matrix + other.matrix, self.masses + other.masses
        return Expansion(constants, linear, matrix, masses, self.is_balanced)
