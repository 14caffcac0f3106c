r"""Sums over rows of the Taylor expansions of their losses, of all rows or by class.

The expansion of a row at the predictor e, with first derivative g and second derivative h there, is
:math:`T(\theta) = l + g (\eta - e) + h (\eta - e)^2 / 2`, :math:`\eta = z \cdot \theta`. *Taylor order 1* leaves out
the last term. A sum of expansions is a constant, a linear form and a quadratic form.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property, reduce
from operator import add
from typing import Annotated, NamedTuple

import numpy as np

from batch2online._types import FloatArray, IntArray
from batch2online.methods.linear_losses.losses.base import Local, PredictorLoss, Scale, weighted_gram
from batch2online.schema import at_least, finite, require, require_equal, shape, storable
from batch2online.theory import sizes


class Quadratic(NamedTuple):
    """The function ``constant + sum(linear * theta) + theta' matrix theta / 2``; ``matrix`` is None for zero."""

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


class ExpandedRows(NamedTuple):
    """Rows z (n, p), their targets and weights, and the predictors (n, K) and scales at which losses are expanded."""

    design: FloatArray
    y: FloatArray
    weights: FloatArray
    eta: FloatArray
    scale: Scale


@dataclass(frozen=True)
class RowExpansions:
    """Expansions of the losses of single rows, where their values and derivatives are ``local``."""

    loss: PredictorLoss
    rows: ExpandedRows
    local: Local

    @classmethod
    def of(cls, loss: PredictorLoss, rows: ExpandedRows) -> RowExpansions:
        """Return the expansions of these rows."""
        return cls(loss, rows, loss.expanded(rows.eta, rows.y, rows.scale))

    def value(self, eta: FloatArray, order: int) -> FloatArray:
        """Return the values (n,) of expansions of Taylor order 1 or 2 at predictors (n, K)."""
        moved, gradient = eta - self.rows.eta, self.local[1]
        slope = gradient if order == 1 else gradient + self.bent(moved) / 2
        return np.asarray(
            self.local[0] + (moved[:, 0] * slope[:, 0] if eta.shape[1] == 1 else (moved * slope).sum(axis=1))
        )

    def gradient(self, eta: FloatArray, order: int) -> FloatArray:
        """Return their first derivatives (n, K)."""
        return self.local[1] if order == 1 else self.local[1] + self.bent(eta - self.rows.eta)

    def bent(self, moved: FloatArray) -> FloatArray:
        """Return the second derivatives times a change of the predictors (n, K)."""
        rows = self.rows
        if moved.shape[1] == 1:
            return np.asarray(self.local[2] * moved)
        return self.loss.expanded_hessian_product(rows.eta, rows.y, rows.scale, moved)

    @cached_property
    def curvature(self) -> FloatArray:
        """The sum of the second derivatives, (K p, K p)."""
        return Expansion.hessian_of(self.loss, self.rows, self.local[2])

    def __getitem__(self, piece: slice) -> RowExpansions:
        design, y, weights, eta, scale = self.rows
        scale = scale if isinstance(scale, float) else scale[piece]
        few = ExpandedRows(design[piece], y[piece], weights[piece], eta[piece], scale)
        values, gradient, hessian = self.local
        return RowExpansions(self.loss, few, (values[piece], gradient[piece], hessian[piece]))


@storable
@dataclass(frozen=True)
class Expansion:
    """Sums of expansions of Taylor orders 1 and 2: constants (2,), linear forms (2, K, p), a matrix (K p, K p).

    The matrix is empty if order 2 is not kept.
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
    def of(cls, loss: PredictorLoss, rows: ExpandedRows, matrix: bool = True, local: Local | None = None) -> Expansion:
        """Return the sums over these rows; ``local`` holds values and derivatives of the loss if they are known."""
        design, y, weights, eta, scale = rows
        values, gradient, hessian = loss.expanded(eta, y, scale) if local is None else local
        k = eta.shape[1]
        bent = hessian * eta if k == 1 else loss.expanded_hessian_product(eta, y, scale, eta)
        forms = np.empty((2 * k, len(eta)))
        np.multiply(weights, gradient.T, out=forms[:k])
        np.subtract(forms[:k], weights * bent.T, out=forms[k:])
        first = weights @ values - np.vdot(forms[:k], eta.T)
        constants = np.array([first, first + np.vdot(forms[:k] - forms[k:], eta.T) / 2])
        square = cls.hessian_of(loss, rows, hessian) if matrix else np.zeros((0, 0))
        return cls(constants, (forms @ design).reshape(2, k, design.shape[1]), square)

    @staticmethod
    def hessian_of(loss: PredictorLoss, rows: ExpandedRows, hessian: FloatArray) -> FloatArray:
        """Return the sum over these rows of their second derivatives (K p, K p); ``hessian`` holds their diagonals."""
        design, y, weights, eta, scale = rows
        if eta.shape[1] > 1:
            return loss.hessian_sum(design, weights if loss.has_scale else weights * scale, eta, y, scale)
        if not hessian.any():
            return np.zeros((design.shape[1], design.shape[1]))
        return weighted_gram(design, weights * hessian[:, 0])

    @property
    def n_orders(self) -> int:
        """Number of available Taylor orders: 0, 1 and, with the matrix, 2."""
        return 3 if self.matrix.size else 2

    def scaled(self, factor: float) -> Expansion:
        """Return the sums for weights multiplied by a factor."""
        return Expansion(self.constants * factor, self.linear * factor, self.matrix * factor)

    def __add__(self, other: Expansion) -> Expansion:
        """Return the sums over both; of order 2 if both have it."""
        matrix = self.matrix + other.matrix if self.n_orders == other.n_orders else np.zeros((0, 0))
        return Expansion(self.constants + other.constants, self.linear + other.linear, matrix)

    def quadratic(self, order: int) -> Quadratic:
        """Return the sum of expansions of Taylor order 1 or 2 as a function of the parameters."""
        return Quadratic(float(self.constants[order - 1]), self.linear[order - 1], self.matrix if order == 2 else None)

    def translated(self, by: float) -> Expansion:
        """Return the sums for a single predictor reduced by this amount: the constant is the first parameter."""
        if not by:
            return self
        constants, linear = self.constants + by * self.linear[:, 0, 0], self.linear.copy()
        if self.matrix.size:
            constants[1] += by * by * self.matrix[0, 0] / 2
            linear[1, 0] += by * self.matrix[0]
        return Expansion(constants, linear, self.matrix)

    def moved(self, outputs: FloatArray, columns: FloatArray) -> Expansion:
        """Return the sums in terms of other parameters.

        ``outputs`` (K, K') turns new predictors into former ones, ``columns`` (p, p) former rows z into new ones.
        """
        linear = np.asarray(outputs.T @ self.linear @ columns.T)
        if not self.matrix.size:
            return Expansion(self.constants, linear, self.matrix)
        both = np.kron(outputs.T, columns)
        return Expansion(self.constants, linear, both @ self.matrix @ both.T)


@storable
@dataclass(frozen=True)
class ClassExpansions:
    """Sums of expansions in one part or, where classes are balanced, one per class with the ``masses`` of their rows.

    Weights of balanced classes are :math:`W / (K W_c)`, as for ``class_weight="balanced"`` in scikit-learn. They change
    with every row, so they are applied in :meth:`total`.
    """

    parts: tuple[Expansion, ...]
    masses: Annotated[FloatArray, shape("c"), finite, at_least(0)]
    is_balanced: bool

    def validate(self) -> None:
        n = len(self.parts)
        require(n == 1 or (n and self.is_balanced), f"parts: found {n}, expected one, or one for each balanced class")
        require_equal("masses", len(self.masses), n if self.is_balanced else 0)
        shapes = {(part.linear.shape, part.matrix.shape) for part in self.parts}
        require_equal("shapes of parts", len(shapes), 1)

    @classmethod
    def empty(cls, n_outputs: int, n_columns: int, n_classes: int, is_balanced: bool) -> ClassExpansions:
        n = n_classes if is_balanced else 1
        part = Expansion.empty(n_outputs, n_columns, sizes.keeps_matrix(n_outputs, n_columns, n))
        return cls((part,) * n, np.zeros(n if is_balanced else 0), is_balanced)

    @property
    def n_orders(self) -> int:
        """Number of available Taylor orders, see :class:`Expansion`."""
        return self.parts[0].n_orders

    @property
    def factors(self) -> FloatArray:
        """Weight of each class; that of a class without rows is the largest one."""
        known = self.masses > 0
        own = self.masses.sum() / (len(self.masses) * np.where(known, self.masses, 1.0))
        return np.asarray(np.where(known, own, own.max(where=known, initial=1.0)))

    def balanced(self, weights: FloatArray, y: FloatArray) -> FloatArray:
        """Return the weights of rows times those of their classes."""
        return weights * self.factors[y.astype(np.int64)] if self.is_balanced else weights

    def holding(self, weights: FloatArray, y: FloatArray) -> ClassExpansions:
        """Return the sums whose masses include these rows, which are not expanded yet."""
        return replace(self, masses=self.masses + self._masses(weights, y)) if self.is_balanced else self

    def _masses(self, weights: FloatArray, y: FloatArray) -> FloatArray:
        return np.asarray(np.bincount(y.astype(np.int64), weights, minlength=len(self.parts)), dtype=np.float64)

    def including(self, loss: PredictorLoss, rows: ExpandedRows, local: Local) -> ClassExpansions:
        """Return the sums with these rows, given values and derivatives of their losses."""
        matrix = self.n_orders == 3
        if not self.is_balanced:
            return replace(self, parts=(self.parts[0] + Expansion.of(loss, rows, matrix, local),))
        parts = list(self.parts)
        masses = self._masses(rows.weights, rows.y)
        for c in np.flatnonzero(masses).tolist():
            few = np.flatnonzero(rows.y == c)
            own = ExpandedRows(rows.design[few], rows.y[few], rows.weights[few], rows.eta[few], rows.scale)
            parts[c] = parts[c] + Expansion.of(loss, own, matrix, (local[0][few], local[1][few], local[2][few]))
        return replace(self, parts=tuple(parts), masses=self.masses + masses)

    def total(self) -> Expansion:
        """Return the sums over all rows, times the weights of their classes."""
        if not self.is_balanced:
            return self.parts[0]
        return reduce(add, (part.scaled(float(f)) for part, f in zip(self.parts, self.factors, strict=True)))

    def translated(self, by: float) -> ClassExpansions:
        """Return the sums for a predictor reduced by this amount, see :meth:`Expansion.translated`."""
        return replace(self, parts=tuple(part.translated(by) for part in self.parts))

    def moved(self, outputs: FloatArray, columns: FloatArray) -> ClassExpansions:
        """Return the sums in terms of other parameters, see :meth:`Expansion.moved`."""
        return replace(self, parts=tuple(part.moved(outputs, columns) for part in self.parts))

    def of_classes(self, outputs: FloatArray, places: IntArray, n_classes: int) -> ClassExpansions:
        """Return the sums in terms of more classes, among which the current ones have these positions."""
        k, p = outputs.shape[1], self.parts[0].linear.shape[2]
        new = ClassExpansions.empty(k, p, n_classes, self.is_balanced)
        parts, masses, own = list(new.parts), new.masses.copy(), self.moved(outputs, np.eye(p)).parts
        for at, part in zip(places.tolist() if self.is_balanced else [0], own, strict=True):
            parts[at] = part if new.n_orders == part.n_orders else replace(part, matrix=np.zeros((0, 0)))
        if self.is_balanced:
            masses[places] = self.masses
        return ClassExpansions(tuple(parts), masses, self.is_balanced)

    def scaled(self, factor: float) -> ClassExpansions:
        """Return the sums for weights multiplied by a factor."""
        return replace(self, parts=tuple(part.scaled(factor) for part in self.parts), masses=self.masses * factor)

    def __add__(self, other: ClassExpansions) -> ClassExpansions:
        """Return the sums over both, of the same classes in the same order."""
        parts = tuple(mine + theirs for mine, theirs in zip(self.parts, other.parts, strict=True))
        return ClassExpansions(parts, self.masses + other.masses, self.is_balanced)


_FAR = 1000.0
"""A logit this far below the others has a probability of zero in floating point."""

_FEW = 8
"""Number of classes up to which it is faster to compare with each than to search."""

Classes = tuple[float, ...]
"""Codes of classes, in order of appearance."""


def with_new(classes: Classes, targets: FloatArray) -> Classes:
    """Return the classes extended by those of these targets, in order of appearance."""
    found, first = np.unique(targets, return_index=True)
    known = set(classes)
    return classes + tuple(
        code for _, code in sorted(zip(first.tolist(), found.tolist(), strict=True)) if code not in known
    )


def positions(classes: Classes, targets: FloatArray) -> FloatArray:
    """Return the positions of the classes of targets; -1 for unknown ones."""
    if len(classes) == 2:
        return _positions_of_two(classes, targets)
    found = np.full(len(targets), -1.0)
    if len(classes) <= _FEW:
        for position, code in enumerate(classes):
            np.copyto(found, float(position), where=targets == code)
        return found
    codes = np.array(classes)
    order = np.argsort(codes)
    place = order[np.searchsorted(codes[order], targets).clip(max=len(codes) - 1)]
    return np.where(codes[place] == targets, place, found)


def _positions_of_two(classes: Classes, targets: FloatArray) -> FloatArray:
    is_second = targets == classes[1]
    is_known = is_second | (targets == classes[0])
    found: FloatArray = is_second.astype(np.float64)
    if not is_known.all():
        found[~is_known] = -1.0
    return found


def outputs(old: Classes, new: Classes) -> FloatArray:
    """Return the matrix (K, K') that maps predictors of the new classes to those of the old ones.

    Two classes, or one, have a single predictor, the logit of the second class: the difference of theirs. If no
    second class was known, the first other one takes its place.
    """
    n_new = 1 if len(new) <= 2 else len(new)
    if len(old) > 2:
        matrix, place = np.zeros((len(old), len(new))), {code: position for position, code in enumerate(new)}
        matrix[np.arange(len(old)), [place[code] for code in old]] = 1.0
        return matrix
    second = old[1] if len(old) == 2 else next((code for code in new if code not in old), None)
    if n_new == 1:
        return np.array([[1.0 if second is None or new.index(second) == 1 else -1.0]])
    matrix = np.zeros((1, n_new))
    if second is not None:
        matrix[0, new.index(second)] = 1.0
        if old:
            matrix[0, new.index(old[0])] = -1.0
    return matrix


def recoded(eta: FloatArray, matrix: FloatArray) -> FloatArray:
    """Return predictors (n, K') of the new classes for those of the old ones; added classes have probability zero."""
    source, factor = _sources(matrix)
    new = eta[:, source] * factor
    is_unknown = ~matrix.any(axis=0)
    if is_unknown.any() and not is_unknown.all():
        new[:, is_unknown] = new[:, ~is_unknown].max(axis=1, keepdims=True) - _FAR
    return np.asarray(new)


def parameters(theta: FloatArray, matrix: FloatArray, rows: int) -> FloatArray:
    """Return parameters (K', p) for the new classes; an added class has one row in ``rows``."""
    source, factor = _sources(matrix)
    new = theta[source] * factor[:, None]
    new[~matrix.any(axis=0), 0] -= np.log(rows + 1.0)
    return np.asarray(new)


def _sources(matrix: FloatArray) -> tuple[IntArray, FloatArray]:
    """Return the pseudo-inverse of a matrix whose rows do not overlap: source and factor of each column."""
    source = np.abs(matrix).argmax(axis=0)
    lengths = np.square(matrix).sum(axis=1)
    return source, matrix[source, np.arange(matrix.shape[1])] / np.where(lengths > 0, lengths, 1.0)[source]
