r"""Sums over rows of the quadratic expansions of their losses: what anchored coresets know of all rows exactly.

The expansion of a row at the predictor e, with slope g and second derivative h there, is
:math:`T(\theta) = l + g (\eta - e) + h (\eta - e)^2 / 2`, :math:`\eta = z \cdot \theta`. *Order 1* leaves out the last
term. A sum of expansions is a constant, a linear form and a quadratic one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, NamedTuple

import numpy as np

from batch2online._types import FloatArray
from batch2online.methods.linear_losses.losses.base import Local, PredictorLoss, Width, weighted_gram
from batch2online.schema import finite, require, shape, storable


class Quadratic(NamedTuple):
    """``constant + sum(linear * theta) + theta' matrix theta / 2``; no matrix where it is zero."""

    constant: float
    linear: FloatArray
    matrix: FloatArray | None

    def value(self, theta: FloatArray) -> float:
        flat, total = theta.reshape(-1), self.constant + float((self.linear * theta).sum())
        return total if self.matrix is None else total + float(flat @ self.matrix @ flat) / 2

    def gradient(self, theta: FloatArray) -> FloatArray:
        if self.matrix is None:
            return self.linear
        return np.asarray(self.linear + (self.matrix @ theta.reshape(-1)).reshape(theta.shape))


class Expanded(NamedTuple):
    """Rows z (n, p), their targets and weights, and where their losses are expanded: predictors (n, K) and widths."""

    design: FloatArray
    y: FloatArray
    weights: FloatArray
    eta: FloatArray
    width: Width


@storable
@dataclass(frozen=True)
class Expansion:
    """Sums of expansions of order 1 and of order 2: constants (2,), linear forms (2, K, p), a matrix (K p, K p).

    The matrix has no entries where order 2 is not kept.
    """

    constants: Annotated[FloatArray, shape(2), finite]
    linear: Annotated[FloatArray, shape(2, "k", "p"), finite]
    matrix: Annotated[FloatArray, shape("size", "size"), finite]

    def validate(self) -> None:
        size = self.linear[0].size
        require(len(self.matrix) in (0, size), f"matrix: found {len(self.matrix)} rows, expected {size} or none")

    @classmethod
    def empty(cls, n_outputs: int, n_columns: int, with_matrix: bool) -> Expansion:
        size = n_outputs * n_columns if with_matrix else 0
        return cls(np.zeros(2), np.zeros((2, n_outputs, n_columns)), np.zeros((size, size)))

    @classmethod
    def of(cls, loss: PredictorLoss, rows: Expanded, matrix: bool = True, local: Local | None = None) -> Expansion:
        """Return the sums over these rows; ``local`` is what the loss is there, where that is known already."""
        design, y, weights, eta, width = rows
        values, slope, bend = loss.expanded(eta, y, width) if local is None else local
        k = eta.shape[1]
        bent = bend * eta if k == 1 else loss.expanded_bent(eta, y, width, eta)
        forms = np.empty((2 * k, len(eta)))
        np.multiply(weights, slope.T, out=forms[:k])
        np.subtract(forms[:k], weights * bent.T, out=forms[k:])
        first = weights @ values - np.vdot(forms[:k], eta.T)
        constants = np.array([first, first + np.vdot(forms[:k] - forms[k:], eta.T) / 2])
        if not matrix:
            square = np.zeros((0, 0))
        elif k == 1 and not bend.any():
            square = np.zeros((design.shape[1], design.shape[1]))
        elif k == 1:
            square = weighted_gram(design, weights * bend[:, 0])
        else:
            square = loss.hessian(design, weights if loss.has_width else weights * width, eta, y, width)
        return cls(constants, (forms @ design).reshape(2, k, design.shape[1]), square)

    @property
    def n_orders(self) -> int:
        """Orders that are at hand: 0, 1 and, with the matrix, 2."""
        return 3 if self.matrix.size else 2

    def without_matrix(self) -> Expansion:
        return Expansion(self.constants, self.linear, np.zeros((0, 0)))

    def scaled(self, factor: float) -> Expansion:
        """Return the sums over the same rows with weights multiplied by this."""
        return Expansion(self.constants * factor, self.linear * factor, self.matrix * factor)

    def __add__(self, other: Expansion) -> Expansion:
        """Return the sums over both; of order 2 where both have it."""
        matrix = self.matrix + other.matrix if self.n_orders == other.n_orders else np.zeros((0, 0))
        return Expansion(self.constants + other.constants, self.linear + other.linear, matrix)

    def __sub__(self, other: Expansion) -> Expansion:
        return Expansion(self.constants - other.constants, self.linear - other.linear, self.matrix - other.matrix)

    def quadratic(self, order: int) -> Quadratic:
        """Return the sum of expansions of order 1 or 2 as a function of the parameters."""
        return Quadratic(float(self.constants[order - 1]), self.linear[order - 1], self.matrix if order == 2 else None)

    def translated(self, by: float) -> Expansion:
        """Return the same sums of one predictor that is smaller by so much: the constant is the first parameter."""
        if not by:
            return self
        constants, linear = self.constants + by * self.linear[:, 0, 0], self.linear.copy()
        if self.matrix.size:
            constants[1] += by * by * self.matrix[0, 0] / 2
            linear[1, 0] += by * self.matrix[0]
        return Expansion(constants, linear, self.matrix)

    def moved(self, outputs: FloatArray, columns: FloatArray) -> Expansion:
        """Return the same sums of other parameters.

        ``outputs`` (K, K') turns new predictors into former ones, ``columns`` (p, p) former rows z into new ones.
        """
        linear = np.asarray(outputs.T @ self.linear @ columns.T)
        if not self.matrix.size:
            return Expansion(self.constants, linear, self.matrix)
        both = np.kron(outputs.T, columns)
        return Expansion(self.constants, linear, both @ self.matrix @ both.T)
