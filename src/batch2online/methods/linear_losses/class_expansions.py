"""Sums of expansions, of all rows together or of each class by itself: classes can be made to weigh the same."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import reduce
from operator import add
from typing import Annotated

import numpy as np

from batch2online._types import FloatArray, IntArray
from batch2online.methods.linear_losses.expansion import Expanded, Expansion
from batch2online.methods.linear_losses.losses.base import Local, PredictorLoss
from batch2online.schema import at_least, finite, require, require_equal, shape, storable
from batch2online.theory import sizes


@storable
@dataclass(frozen=True)
class SumsByClass:
    """Expansions in one part; where classes are balanced, in one for each of them, with the ``masses`` of their rows.

    Weights of balanced classes are :math:`W / (K W_c)`: those of ``class_weight="balanced"`` in scikit-learn. They
    change with every row, so they are applied when the sums are asked for.
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
    def empty(cls, n_outputs: int, n_columns: int, n_classes: int, is_balanced: bool) -> SumsByClass:
        n = n_classes if is_balanced else 1
        part = Expansion.empty(n_outputs, n_columns, sizes.keeps_matrix(n_outputs, n_columns, n))
        return cls((part,) * n, np.zeros(n if is_balanced else 0), is_balanced)

    @property
    def n_orders(self) -> int:
        """Orders that are at hand, see :class:`Expansion`."""
        return self.parts[0].n_orders

    @property
    def factors(self) -> FloatArray:
        """What multiplies the weights of each class's rows; that of a class without rows is the largest one."""
        known = self.masses > 0
        own = self.masses.sum() / (len(self.masses) * np.where(known, self.masses, 1.0))
        return np.asarray(np.where(known, own, own.max(where=known, initial=1.0)))

    def balanced(self, weights: FloatArray, y: FloatArray) -> FloatArray:
        """Return the weights of rows of these classes, times those of their classes."""
        return weights * self.factors[y.astype(np.int64)] if self.is_balanced else weights

    def including(self, loss: PredictorLoss, rows: Expanded, local: Local) -> SumsByClass:
        """Return the sums with these rows, given what the loss is there."""
        matrix = self.n_orders == 3
        if not self.is_balanced:
            return replace(self, parts=(self.parts[0] + Expansion.of(loss, rows, matrix, local),))
        parts = list(self.parts)
        masses = np.bincount(rows.y.astype(np.int64), rows.weights, minlength=len(parts))
        for c in np.flatnonzero(masses).tolist():
            few = np.flatnonzero(rows.y == c)
            own = Expanded(rows.design[few], rows.y[few], rows.weights[few], rows.eta[few], rows.width)
            parts[c] = parts[c] + Expansion.of(loss, own, matrix, (local[0][few], local[1][few], local[2][few]))
        return replace(self, parts=tuple(parts), masses=self.masses + masses)

    def total(self) -> Expansion:
        """Return the sums of all rows, times the weights of their classes."""
        if not self.is_balanced:
            return self.parts[0]
        return reduce(add, (part.scaled(float(f)) for part, f in zip(self.parts, self.factors, strict=True)))

    def translated(self, by: float) -> SumsByClass:
        """Return the same sums of a predictor that is smaller by so much, see :meth:`Expansion.translated`."""
        return replace(self, parts=tuple(part.translated(by) for part in self.parts))

    def moved(self, outputs: FloatArray, columns: FloatArray) -> SumsByClass:
        """Return the same sums of other parameters, see :meth:`Expansion.moved`."""
        return replace(self, parts=tuple(part.moved(outputs, columns) for part in self.parts))

    def of_classes(self, outputs: FloatArray, places: IntArray, n_classes: int) -> SumsByClass:
        """Return the same in terms of more classes, among which the present ones have these places."""
        k, p = outputs.shape[1], self.parts[0].linear.shape[2]
        new = SumsByClass.empty(k, p, n_classes, self.is_balanced)
        parts, masses, own = list(new.parts), new.masses.copy(), self.moved(outputs, np.eye(p)).parts
        for at, part in zip(places.tolist() if self.is_balanced else [0], own, strict=True):
            parts[at] = part if new.n_orders == part.n_orders else part.without_matrix()
        if self.is_balanced:
            masses[places] = self.masses
        return SumsByClass(tuple(parts), masses, self.is_balanced)

    def scaled(self, factor: float) -> SumsByClass:
        """Return the sums over the same rows with weights multiplied by this."""
        return replace(self, parts=tuple(part.scaled(factor) for part in self.parts), masses=self.masses * factor)

    def __add__(self, other: SumsByClass) -> SumsByClass:
        """Return the sums over both, of the same classes in the same order."""
        parts = tuple(mine + theirs for mine, theirs in zip(self.parts, other.parts, strict=True))
        return SumsByClass(parts, self.masses + other.masses, self.is_balanced)


_FAR = 1000.0
"""Logits so far below the others have a probability that is zero in floating point."""

_FEW = 8
"""Classes up to which it is faster to compare with each than to search."""

Classes = tuple[float, ...]
"""Codes of classes, in the order in which they came."""


def with_new(classes: Classes, targets: FloatArray) -> Classes:
    """Return the classes with those that these targets add, in the order of their first rows."""
    found, first = np.unique(targets, return_index=True)
    known = set(classes)
    return classes + tuple(
        code for _, code in sorted(zip(first.tolist(), found.tolist(), strict=True)) if code not in known
    )


def positions(classes: Classes, targets: FloatArray) -> FloatArray:
    """Return the positions of the targets' classes; -1 for those that are not known."""
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
    """Return the matrix (K, K') that turns predictors of the new classes into those of the old ones.

    Two classes, or one, have a single predictor, the logit of the second class: the difference of theirs. Where no
    second class was known, the first other one takes its place.
    """
    n_new = 1 if len(new) <= 2 else len(new)
    if len(old) > 2:
        return _selection(old, new)
    second = old[1] if len(old) == 2 else next((code for code in new if code not in old), None)
    if n_new == 1:
        return np.array([[1.0 if second is None or new.index(second) == 1 else -1.0]])
    matrix = np.zeros((1, n_new))
    if second is not None:
        matrix[0, new.index(second)] = 1.0
        if old:
            matrix[0, new.index(old[0])] = -1.0
    return matrix


def _selection(old: Classes, new: Classes) -> FloatArray:
    place = {code: position for position, code in enumerate(new)}
    matrix = np.zeros((len(old), len(new)))
    matrix[np.arange(len(old)), [place[code] for code in old]] = 1.0
    return matrix


def recoded(eta: FloatArray, matrix: FloatArray) -> FloatArray:
    """Return predictors (n, K') of the new classes that stand for those of the old ones; others have no chance."""
    source, factor = _sources(matrix)
    new = eta[:, source] * factor
    is_unknown = ~matrix.any(axis=0)
    if is_unknown.any() and not is_unknown.all():
        new[:, is_unknown] = new[:, ~is_unknown].max(axis=1, keepdims=True) - _FAR
    return np.asarray(new)


def parameters(theta: FloatArray, matrix: FloatArray, rows: int) -> FloatArray:
    """Return parameters (K', p) of a model of the new classes: those not known before come once in so many rows."""
    source, factor = _sources(matrix)
    new = theta[source] * factor[:, None]
    new[~matrix.any(axis=0), 0] -= np.log(rows + 1.0)
    return np.asarray(new)


def _sources(matrix: FloatArray) -> tuple[IntArray, FloatArray]:
    """Return the pseudo-inverse of a matrix whose rows do not overlap: where each column comes from, times what."""
    source = np.abs(matrix).argmax(axis=0)
    lengths = np.square(matrix).sum(axis=1)
    return source, matrix[source, np.arange(matrix.shape[1])] / np.where(lengths > 0, lengths, 1.0)[source]
