"""Sums of expansions, of all rows together or of each class by itself: classes can be made to weigh the same."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import reduce
from operator import add

import numpy as np

from batch2online._types import FloatArray, IntArray
from batch2online.core.registry import storable
from batch2online.losses.base import Local, PredictorLoss
from batch2online.statistics.expansion import Expanded, Expansion
from batch2online.theory import sizes


@storable
@dataclass(frozen=True)
class SumsByClass:
    """Expansions in one part; where classes are balanced, in one for each of them, with the ``masses`` of their rows.

    Weights of balanced classes are :math:`W / (K W_c)`: those of ``class_weight="balanced"`` in scikit-learn. They
    change with every row, so they are applied when the sums are asked for.
    """

    parts: tuple[Expansion, ...]
    masses: FloatArray
    is_balanced: bool

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
