r"""Second moments for low-rank approximation, and the ridge leverage scores they give.

The score of a row m is :math:`m^T (G + \lambda I)^{-1} m` with :math:`\lambda = |M - M_k|_F^2 / k`. Digits are lost
only relative to lambda, so a plain Gram matrix is enough as long as lambda is not tiny next to the largest
eigenvalue. Otherwise (rows of rank k, a huge mean, one row a billion times the others) a triangular
factor R with R'R = G is kept instead, updated by QR. The switch happens at a block, before anything is
lost, and never back.

Lambda comes from the eigenvalues after the k-th, and is at least MU times their total: both only grow as
rows are added, so scores never rise. No rank is decided, and fewer rows than k are no special case.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar

import numpy as np

from batch2online._types import FloatArray
from batch2online.core.registry import storable
from batch2online.core.rows import Rows, all_ones
from batch2online.linalg.distances import squared_lengths
from batch2online.linalg.triangular import gram_factor, qr_factor, whitened
from batch2online.statistics.spectrum import Spectrum, leading, leading_of_few
from batch2online.statistics.whitening import MU

WELL_CONDITIONED = 1e-6
"""Lambda over the largest eigenvalue, at least, for a plain Gram matrix."""

LOSS_OF_DIGITS = 1e7
"""Trace over the lambda of the last check beyond which the factor takes over."""

_EXTREME = 2.0**400
_ROUNDING = 1e-12
_FEW_ROWS = 0.8
"""Rows to columns below which a spectrum is cheaper from the inner products of rows."""


@storable
@dataclass(frozen=True)
class RidgeReference:
    """What was known at the last check; its bounds stay valid as rows are added.

    (G + lam I)^-1 <= I / lam - V diag(1 / lam - 1 / (values + lam)) V' for the leading eigenvectors V.
    """

    rows: int
    limit: float  # largest trace that keeps the digits
    scale: float
    ridge: float
    directions: FloatArray
    reductions: FloatArray


@storable
@dataclass(frozen=True)
class RidgeMoments:
    """Moments of rows ``m = a`` or ``[1 | a]``. Immutable: adding returns a new object."""

    has_cheap_bounds: ClassVar[bool] = True
    width: int
    intercept: bool
    rank: int
    rows: int
    weight: float
    gram: FloatArray | None
    factor: FloatArray | None
    reference: RidgeReference | None
    of_few: Spectrum | None = None  # from the rows themselves

    @classmethod
    def empty(cls, width: int, rank: int, intercept: bool) -> RidgeMoments:
        return cls(width, intercept, rank, 0, 0.0, None, None, None)

    @classmethod
    def of(cls, rows: Rows, rank: int, intercept: bool) -> RidgeMoments:
        """Return the moments of these rows alone, to be solved, not added to."""
        empty = cls.empty(rows.points.shape[1], rank, intercept)
        with np.errstate(over="ignore", invalid="ignore", under="ignore"):
            return empty._first(empty.coordinates(rows), _weight(rows))

    # -- adding -----------------------------------------------------------------------------------

    def grown(self, rows: Rows) -> RidgeMoments:
        """Return the moments with these rows."""
        z = self.coordinates(rows)
        with np.errstate(over="ignore", invalid="ignore", under="ignore"):
            weight = _weight(rows)
            return self._first(z, weight)._checked() if self.reference is None else self._grown(z, weight)

    def add(self, rows: Rows) -> tuple[RidgeMoments, FloatArray]:
        """Return the moments with these rows, and upper bounds of the rows' scores now and ever after."""
        new = self.grown(rows)
        return new, new.coarse_bounds(rows)

    def coarse_bounds(self, rows: Rows) -> FloatArray:
        """Return upper bounds by the lengths of rows alone; :meth:`bounds` are closer."""
        z = self.coordinates(rows)
        with np.errstate(over="ignore", invalid="ignore", under="ignore"):
            return self._length_bounds(z, rows.lengths if z is rows.points else None)

    @property
    def usual_coarse_bound(self) -> float:
        """Mean of the coarse bounds of the rows so far."""
        reference = self.reference
        if reference is None or reference.ridge == 0 or self.gram is None:
            return 0.0
        return float(self.gram.trace()) / reference.ridge / self.rows

    def merged(self, other: RidgeMoments) -> RidgeMoments:
        """Return the moments of the rows of both."""
        if self.rows == 0 or other.rows == 0:
            return self if other.rows == 0 else other
        total, weight = self.rows + other.rows, self.weight + other.weight
        with np.errstate(over="ignore", invalid="ignore", under="ignore"):
            if self.gram is not None and other.gram is not None:
                joined = replace(self, gram=self.gram + other.gram, rows=total, weight=weight, of_few=None)
                if joined._is_well_conditioned():
                    return joined._checked()
            factor = qr_factor(self.triangle, other.triangle)
            return replace(self, gram=None, factor=factor, rows=total, weight=weight, of_few=None)._checked()

    def scaled(self, factor: float) -> RidgeMoments:
        """Return the moments of the same rows with weights multiplied by a power of 4: no digit changes."""
        gram = None if self.gram is None else self.gram * factor
        triangle = None if self.factor is None else self.factor * factor**0.5
        reference = self.reference
        if reference is not None and gram is None:
            reference = replace(reference, scale=reference.scale * factor**0.5)
        elif reference is not None:
            ridge, reductions = reference.ridge * factor, reference.reductions / factor
            reference = replace(reference, limit=reference.limit * factor, ridge=ridge, reductions=reductions)
        return replace(self, weight=self.weight * factor, gram=gram, factor=triangle, reference=reference, of_few=None)

    def settled(self) -> RidgeMoments:
        """With bounds that are up to date: the spectrum that they take is wanted at a refresh anyway."""
        if self.reference is None or self.reference.rows == self.rows:
            return self
        return self._checked()

    sharpened = settled

    def _first(self, z: FloatArray, weight: float) -> RidgeMoments:
        plain = replace(self, gram=z.T @ z, rows=len(z), weight=weight)._knowing(z)
        if plain._is_well_conditioned():
            return plain
        return replace(plain, gram=None, factor=qr_factor(z), of_few=None)

    def of_all(self, rows: Rows) -> RidgeMoments:
        """Return the same, given all rows, with bounds that are up to date."""
        with np.errstate(over="ignore", invalid="ignore", under="ignore"):
            return self._knowing(self.coordinates(rows))._checked()

    def _knowing(self, z: FloatArray) -> RidgeMoments:
        """Return the same of all rows z, with their spectrum if they are few: then it is cheaper from them."""
        if self.gram is None or not self.rank < len(z) < _FEW_ROWS * z.shape[1] or not self._is_moderate():
            return self
        return replace(self, of_few=leading_of_few(z, self.rank))

    def _grown(self, z: FloatArray, weight: float) -> RidgeMoments:
        assert self.reference is not None
        total, weight = self.rows + len(z), self.weight + weight
        is_due = total >= 2 * self.reference.rows or self.reference.ridge == 0  # only zeros so far
        if self.gram is not None:
            gram = self.gram + z.T @ z
            if gram.trace() <= self.reference.limit:
                grown = replace(self, gram=gram, rows=total, weight=weight, of_few=None)
                return grown._checked() if is_due else grown
        factor = qr_factor(self.triangle, z)
        grown = replace(self, gram=None, factor=factor, rows=total, weight=weight, of_few=None)
        return grown._checked() if is_due or self.gram is not None else grown

    def _is_well_conditioned(self) -> bool:
        return self._is_moderate() and bool(self.ridge >= WELL_CONDITIONED * self.spectrum.values[0])

    def _is_moderate(self) -> bool:
        """Whether no square is near overflow or underflow."""
        assert self.gram is not None
        return bool(1 / _EXTREME < self.gram.trace() < _EXTREME)

    def _checked(self) -> RidgeMoments:
        """With a new reference; by the factor where the Gram matrix has become too coarse."""
        if self.gram is not None and not self._is_well_conditioned():
            return replace(self, gram=None, factor=self.triangle, of_few=None)._checked()
        spectrum, ridge = self.spectrum, self.ridge
        reductions = 1 / ridge - 1 / (spectrum.values + ridge) if ridge > 0 else np.zeros_like(spectrum.values)
        reference = RidgeReference(
            self.rows, LOSS_OF_DIGITS * ridge, spectrum.scale, ridge, spectrum.vectors, reductions
        )
        new = replace(self, reference=reference)
        new.__dict__["spectrum"] = spectrum  # already known, and costly
        return new

    # -- what is asked of moments -----------------------------------------------------------------

    def coordinates(self, rows: Rows) -> FloatArray:
        """Return the (n, p) array of the rows m, each scaled by the square root of its weight."""
        z = rows.points
        if self.intercept:
            z = np.concatenate([np.ones((len(rows), 1)), z], axis=1)
        return z if all_ones(rows.weights) else z * np.sqrt(rows.weights)[:, None]

    @cached_property
    def triangle(self) -> FloatArray:
        """Upper triangular R with R'R the Gram matrix of m."""
        if self.factor is not None:
            return self.factor
        assert self.gram is not None
        return gram_factor(self.gram)

    @cached_property
    def spectrum(self) -> Spectrum:
        """The spectrum of the Gram matrix of m, to the rank of the score."""
        return leading(self.gram, self.factor, self.rank) if self.of_few is None else self.of_few

    @property
    def ridge(self) -> float:
        """Lambda in units of the spectrum's scale squared."""
        return max(self.spectrum.rest / self.rank, MU * self.spectrum.total)

    def scores(self, rows: Rows) -> FloatArray:
        """Ridge leverage scores of rows that are among those added."""
        if self.rows == 0 or self.spectrum.total == 0:
            return np.zeros(len(rows))
        if self.gram is not None:
            factor = gram_factor(self.gram + self.ridge * np.eye(len(self.gram)))
            white = (whitened(self.coordinates(piece), factor) for piece in rows.pieces())
        else:
            assert self.factor is not None
            _, sigma, right = np.linalg.svd(self.factor / self.spectrum.scale)
            turned = right.T / np.sqrt(sigma**2 + self.ridge)
            white = (self.coordinates(piece) / self.spectrum.scale @ turned for piece in rows.pieces())
        return np.asarray(np.minimum(1.0, np.concatenate([squared_lengths(piece) for piece in white])))

    def bounds(self, rows: Rows) -> FloatArray:
        """Upper bounds of the scores of rows that are among those added, in O(p k) a row."""
        reference = self.reference
        assert reference is not None
        directions = np.ascontiguousarray(reference.directions.T) / reference.scale
        bounds = []
        for piece in rows.pieces():
            z = self.coordinates(piece)
            along = directions @ z.T
            along *= along
            bounds.append(self._length_bounds(z) - reference.reductions @ along)
        return np.concatenate(bounds)

    def _length_bounds(self, z: FloatArray, lengths: FloatArray | None = None) -> FloatArray:
        """Return bounds by the squared lengths of rows z, which may be known."""
        reference = self.reference
        assert reference is not None
        if reference.ridge == 0:
            return np.zeros(len(z))
        if lengths is None or reference.scale != 1:
            lengths = squared_lengths(z / reference.scale if reference.scale != 1 else z)
        return lengths * ((1 + _ROUNDING) / reference.ridge)


def _weight(rows: Rows) -> float:
    return float(len(rows)) if all_ones(rows.weights) else float(rows.weights.sum())
