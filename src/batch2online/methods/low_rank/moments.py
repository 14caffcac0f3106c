"""Second moments of rows, around their mean or zero: spectra, ridge leverage scores, and costs of subspaces."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Annotated, Any, ClassVar

import numpy as np
from scipy.linalg import eigh, lapack

from batch2online._types import FloatArray
from batch2online.methods.least_squares.moments import RIDGE
from batch2online.numerics.distances import squared_lengths
from batch2online.numerics.triangular import gram_factor, qr_factor, whitened
from batch2online.rows import Rows, all_ones
from batch2online.schema import shape, storable

CANCELLATION = 1e-6
"""Residuals below this share of the total are computed from differences instead of squares."""


@dataclass(frozen=True)
class SecondMoments:
    """Moments around the mean (or zero): a Gram matrix or, where that would be too inaccurate, its factor."""

    gram: Any  # array or None
    factor: Any  # array or None
    mean: FloatArray
    weight: float

    def residual(self, components: FloatArray) -> float:
        """Return the squared distance of all rows to the span of the components."""
        if self.gram is not None:
            total = float(self.gram.trace())
            rest = total - float(np.einsum("ij,ij->", components @ self.gram, components))
            if rest > CANCELLATION * total:
                return rest
        return float(np.square(self._left_over(components)).sum())

    def _left_over(self, components: FloatArray) -> FloatArray:
        factor = self.factor
        if factor is None:
            assert self.gram is not None
            values, vectors = np.linalg.eigh(self.gram)
            factor = np.sqrt(np.maximum(values, 0.0))[:, None] * vectors.T
        return np.asarray(factor - factor @ components.T @ components)

    def along(self, components: FloatArray) -> FloatArray:
        """Return the squared length of all rows along each component."""
        if self.gram is not None:
            return np.asarray(np.einsum("ij,ij->i", components @ self.gram, components))
        return np.asarray(np.square(self.factor @ components.T).sum(axis=0))

    @property
    def total(self) -> float:
        if self.factor is not None:
            return float(np.square(self.factor).sum())
        assert self.gram is not None
        return float(self.gram.trace())


def second_moments(moments: RidgeMoments) -> SecondMoments:
    """Return the moments around the mean if there is a constant column, around zero otherwise."""
    zeros = np.zeros(moments.width)
    if moments.rows == 0:
        return SecondMoments(np.zeros((moments.width, moments.width)), None, zeros, 0.0)
    gram, factor = moments.scatter
    mean = zeros if moments.shift is None or moments.center is None else moments.shift + moments.center
    return SecondMoments(gram, factor, mean, moments.weight)


_SMALL = 64
"""Number of columns up to which the whole spectrum is faster than its leading part."""

_LARGE = 150
"""Number of columns from which on the Lanczos method is tried first, for small ranks."""

_MOST_RANK = 0.1
_SLACK = 1e-9
_MOST_STEPS = 10
"""Maximum number of restarts of the Lanczos method."""


@storable
@dataclass(frozen=True)
class Spectrum:
    """Leading eigenvalues and eigenvectors of a Gram matrix in units of ``scale`` squared, and the sum of the rest."""

    values: Annotated[FloatArray, shape("k")]  # descending
    vectors: Annotated[FloatArray, shape("p", "k")]
    rest: float
    scale: float

    @property
    def total(self) -> float:
        return float(self.values.sum()) + self.rest


def leading(gram: FloatArray | None, factor: FloatArray | None, rank: int) -> Spectrum:
    """Return the leading part of a spectrum, from a Gram matrix or, to full accuracy, from its triangular factor."""
    if gram is not None:
        p = len(gram)
        k = min(rank, p)
        if p <= _SMALL:
            values, vectors = (part[..., p - k :] for part in np.linalg.eigh(gram))
        else:
            known = _by_lanczos(gram, k) if p >= _LARGE and k <= _MOST_RANK * p else None
            values, vectors = known or eigh(gram, subset_by_index=[p - k, p - 1], check_finite=False)
        values = np.maximum(values[::-1], 0.0)
        return Spectrum(values, vectors[:, ::-1].copy(), max(0.0, float(gram.trace() - values.sum())), 1.0)
    assert factor is not None
    scale = 2.0 ** float(np.frexp(np.abs(factor).max(initial=0.0))[1])
    _, sigma, right = np.linalg.svd(factor / scale)
    squares = sigma**2
    return Spectrum(squares[:rank], right[:rank].T.copy(), float(squares[rank:].sum()), scale)


def _by_lanczos(gram: FloatArray, k: int) -> tuple[FloatArray, FloatArray] | None:
    """Return the leading eigenvalues, ascending, and their vectors; None if they may not be the leading ones.

    The method can miss one that is (nearly) repeated. No other is larger than the least of them if the rest of the
    matrix stays below it, which a Cholesky factor proves.
    """
    from scipy.sparse.linalg import ArpackError, eigsh

    start = np.cos(np.arange(1.0, len(gram) + 1))  # fixed, and unlike any direction of data
    try:
        values, vectors = eigsh(gram, k, which="LA", v0=start, maxiter=_MOST_STEPS)
    except ArpackError:
        return None
    bound = (1 + _SLACK) * float(values[0])
    below = (vectors * values) @ vectors.T - gram
    below[np.diag_indices_from(below)] += bound
    return (values, vectors) if bound > 0 and lapack.dpotrf(below, overwrite_a=1)[1] == 0 else None


def leading_of_few(z: FloatArray, rank: int) -> Spectrum:
    """Return the leading spectrum of rows that are fewer than their columns, from their inner products."""
    n = len(z)
    k = min(rank, n)
    inner = z @ z.T
    values, vectors = eigh(inner, subset_by_index=[n - k, n - 1], check_finite=False)
    values = np.maximum(values[::-1], 0.0)
    directions = z.T @ vectors[:, ::-1]
    lengths = np.sqrt(np.einsum("ij,ij->j", directions, directions))
    directions /= np.where(lengths > 0, lengths, 1.0)
    return Spectrum(values, directions, max(0.0, float(inner.trace() - values.sum())), 1.0)


WELL_CONDITIONED = 1e-6
"""Least ratio of lambda to the largest eigenvalue for which a Gram matrix is kept."""

LOSS_OF_DIGITS = 1e7
"""Ratio of the trace to the lambda of the last check beyond which the factor replaces the Gram matrix."""

_EXTREME = 2.0**400
_ROUNDING = 1e-12
_FEW_ROWS = 0.8
"""Ratio of rows to columns below which a spectrum is cheaper from the inner products of rows."""


@storable
@dataclass(frozen=True)
class RidgeReference:
    """Upper bounds of ridge leverage scores from the last check, valid as rows are added.

    (G + lam I)^-1 <= I / lam - V diag(1 / lam - 1 / (values + lam)) V' for the leading eigenvectors V. With an
    intercept the score of a row is at most its score among the rows of the check, around their mean.
    """

    rows: int
    limit: float  # largest trace that keeps the digits
    scale: float
    ridge: float
    directions: Annotated[FloatArray, shape("p", "r")]
    reductions: Annotated[FloatArray, shape("r")]
    center: Annotated[FloatArray, shape("d")] | None = None  # the mean less the shift, with an intercept
    weight: float = 0.0


@storable
@dataclass(frozen=True)
class RidgeMoments:
    """Second moments of the rows ``m = a`` or ``[1 | a - shift]``, and their ridge leverage scores of a rank."""

    has_cheap_bounds: ClassVar[bool] = True
    has_coarse_bounds: ClassVar[bool] = True
    width: int
    intercept: bool
    rank: int
    rows: int
    weight: float
    gram: Annotated[FloatArray, shape("p", "p")] | None
    factor: Annotated[FloatArray, shape("p", "p")] | None
    reference: RidgeReference | None
    of_few: Spectrum | None = None  # from the rows themselves
    shift: Annotated[FloatArray, shape("d")] | None = None  # with an intercept, once there are rows

    @classmethod
    def empty(cls, width: int, rank: int, intercept: bool) -> RidgeMoments:
        return cls(width, intercept, rank, 0, 0.0, None, None, None)

    @classmethod
    def of(cls, rows: Rows, rank: int, intercept: bool) -> RidgeMoments:
        """Return the moments of these rows alone, without bounds: to fit to, not to add to."""
        empty = cls.empty(rows.points.shape[1], rank, intercept)
        with np.errstate(over="ignore", invalid="ignore", under="ignore"):
            return empty.begun(rows)

    # -- adding -----------------------------------------------------------------------------------

    def grown(self, rows: Rows) -> RidgeMoments:
        """Return the moments with these rows."""
        with np.errstate(over="ignore", invalid="ignore", under="ignore"):
            return self.begun(rows).checked() if self.reference is None else self._grown(rows)

    def add(self, rows: Rows) -> tuple[RidgeMoments, FloatArray]:
        """Return the moments with these rows, and upper bounds of their scores now and later."""
        new = self.grown(rows)
        return new, new.coarse_bounds(rows)

    def coarse_bounds(self, rows: Rows) -> FloatArray:
        """Return upper bounds of scores by the lengths of rows alone; :meth:`bounds` are closer."""
        with np.errstate(over="ignore", invalid="ignore", under="ignore"):
            z = self._centered(rows, self.reference.center if self.reference else None)
            return self._length_bounds(z, rows, rows.lengths if z is rows.points else None)

    @property
    def usual_coarse_bound(self) -> float:
        """Mean of the coarse bounds of the rows so far."""
        reference = self.reference
        if reference is None or reference.ridge == 0 or self.gram is None:
            return 0.0
        return (self._total() / reference.ridge + self.intercept) / self.rows

    def merged(self, other: RidgeMoments) -> RidgeMoments:
        """Return the moments of the rows of both."""
        if self.rows == 0 or other.rows == 0:
            return self if other.rows == 0 else other
        total, weight = self.rows + other.rows, self.weight + other.weight
        with np.errstate(over="ignore", invalid="ignore", under="ignore"):
            other = other.shifted_to(self.shift)
            if self.gram is not None and other.gram is not None:
                joined = replace(self, gram=self.gram + other.gram, rows=total, weight=weight, of_few=None)
                if joined.is_well_conditioned():
                    return joined.checked()
            factor = qr_factor(self.triangle, other.triangle)
            return replace(self, gram=None, factor=factor, rows=total, weight=weight, of_few=None).checked()

    def scaled(self, factor: float) -> RidgeMoments:
        """Return the moments for weights multiplied by a power of 4, without rounding."""
        gram = None if self.gram is None else self.gram * factor
        triangle = None if self.factor is None else self.factor * factor**0.5
        reference = self.reference
        if reference is not None:
            reference = replace(reference, weight=reference.weight * factor)
        if reference is not None and gram is None:
            reference = replace(reference, scale=reference.scale * factor**0.5)
        elif reference is not None:
            ridge, reductions = reference.ridge * factor, reference.reductions / factor
            reference = replace(reference, limit=reference.limit * factor, ridge=ridge, reductions=reductions)
        return replace(self, weight=self.weight * factor, gram=gram, factor=triangle, reference=reference, of_few=None)

    def settled(self) -> RidgeMoments:
        """Return the moments with bounds from a check now: a refresh needs the spectrum anyway."""
        if self.reference is None or self.reference.rows == self.rows:
            return self
        return self.checked()

    sharpened = settled

    def begun(self, rows: Rows) -> RidgeMoments:
        start = replace(self, shift=_middle(rows)) if self.intercept else self
        z = start.coordinates(rows)
        plain = replace(start, gram=z.T @ z, rows=len(z), weight=_weight(rows)).knowing(rows)
        if plain.is_well_conditioned():
            return plain
        return replace(plain, gram=None, factor=qr_factor(z), of_few=None)

    def shifted_to(self, shift: FloatArray | None) -> RidgeMoments:
        """Return the moments of ``[1 | a - shift]`` for another shift: ``a - new = (a - old) + (old - new)``."""
        if self.shift is None or shift is None or np.array_equal(self.shift, shift):
            return self
        factor = self.triangle.copy()
        factor[:, 1:] += factor[:, :1] * (self.shift - shift)
        gram = None if self.gram is None else factor.T @ factor
        new = replace(self, gram=gram, factor=factor if gram is None else None, shift=shift)
        new.__dict__["triangle"] = factor  # at full accuracy
        return new

    def of_all(self, rows: Rows) -> RidgeMoments:
        """Return the moments with bounds from a check now, given all rows."""
        with np.errstate(over="ignore", invalid="ignore", under="ignore"):
            return self.knowing(rows).checked()

    def knowing(self, rows: Rows) -> RidgeMoments:
        """Return the moments with the spectrum computed from all rows, if these are few."""
        if self.gram is None or not self.rank < len(rows) < _FEW_ROWS * len(self.gram) or not self._is_moderate():
            return self
        return replace(self, of_few=leading_of_few(self._centered(rows, self.center), self.rank))

    def _grown(self, rows: Rows) -> RidgeMoments:
        assert self.reference is not None
        z = self.coordinates(rows)
        total, weight = self.rows + len(z), self.weight + _weight(rows)
        is_due = total >= 2 * self.reference.rows or self.reference.ridge == 0  # only zeros so far
        if self.gram is not None:
            gram = self.gram + z.T @ z
            if self._size_of(gram) <= self.reference.limit:
                grown = replace(self, gram=gram, rows=total, weight=weight, of_few=None)
                return grown.checked() if is_due else grown
        factor = qr_factor(self.triangle, z)
        grown = replace(self, gram=None, factor=factor, rows=total, weight=weight, of_few=None)
        return grown.checked() if is_due or self.gram is not None else grown

    def is_well_conditioned(self) -> bool:
        if not self._is_moderate():
            return False
        assert self.gram is not None
        offset = self._size_of(self.gram) - self._total() if self.intercept else 0.0  # what the mean takes away
        return bool(self.ridge >= WELL_CONDITIONED * max(self.spectrum.values[0], offset))

    def _is_moderate(self) -> bool:
        """Return whether no square is near overflow or underflow."""
        assert self.gram is not None
        return bool(1 / _EXTREME < self._size_of(self.gram) < _EXTREME)

    def _size_of(self, gram: FloatArray) -> float:
        """Return the sum of squares in a Gram matrix, the constant column left out."""
        return float(gram[1:, 1:].trace() if self.intercept else gram.trace())

    def _total(self) -> float:
        """Return the sum of squares of all rows, around their mean with an intercept."""
        assert self.gram is not None
        total = self._size_of(self.gram)
        return total if self.center is None else total - float(self.gram[0, 1:] @ self.center)

    def checked(self) -> RidgeMoments:
        """Return the moments with new bounds; with the factor if the Gram matrix is too inaccurate."""
        if self.gram is not None and not self.is_well_conditioned():
            return replace(self, gram=None, factor=self.triangle, of_few=None).checked()
        spectrum, ridge = self.spectrum, self.ridge
        reductions = 1 / ridge - 1 / (spectrum.values + ridge) if ridge > 0 else np.zeros_like(spectrum.values)
        limit, center = LOSS_OF_DIGITS * ridge, self.center if self.intercept else None
        reference = RidgeReference(
            self.rows, limit, spectrum.scale, ridge, spectrum.vectors, reductions, center, self.weight
        )
        new = replace(self, reference=reference)
        new.__dict__["spectrum"] = spectrum  # known, and costly
        return new

    # -- coordinates, spectra and scores -----------------------------------------------------------

    def coordinates(self, rows: Rows) -> FloatArray:
        """Return the (n, p) array of the rows m, each scaled by the square root of its weight."""
        z = rows.points
        if self.intercept:
            assert self.shift is not None
            z = np.concatenate([np.ones((len(rows), 1)), z - self.shift], axis=1)
        return _weighted(z, rows.weights)

    def _centered(self, rows: Rows, center: FloatArray | None) -> FloatArray:
        """Return the rows a less ``shift + center``, or as they are, each scaled by the square root of its weight."""
        z = rows.points if center is None or self.shift is None else rows.points - self.shift - center
        return _weighted(z, rows.weights)

    @cached_property
    def center(self) -> FloatArray | None:
        """Mean of the rows less the shift; None without an intercept."""
        if not self.intercept:
            return None
        known = self.factor if self.gram is None else self.gram
        assert known is not None
        return np.asarray(known[0, 1:] / known[0, 0])

    @cached_property
    def scatter(self) -> tuple[FloatArray | None, FloatArray | None]:
        """The Gram matrix of the rows, around their mean with an intercept, or its triangular factor."""
        if self.center is None:
            return self.gram, self.factor
        if self.gram is None:  # below the row of the constant stands the factor of the centred rows
            assert self.factor is not None
            return None, self.factor[1:, 1:]
        return self.gram[1:, 1:] - np.outer(self.gram[0, 1:], self.center), None

    @cached_property
    def triangle(self) -> FloatArray:
        """Upper triangular R with R'R the Gram matrix of m."""
        if self.factor is not None:
            return self.factor
        assert self.gram is not None
        return gram_factor(self.gram)

    @cached_property
    def spectrum(self) -> Spectrum:
        """The spectrum of :attr:`scatter`, to the rank of the score."""
        return leading(*self.scatter, self.rank) if self.of_few is None else self.of_few

    @property
    def ridge(self) -> float:
        """Lambda in units of the spectrum's scale squared."""
        return max(self.spectrum.rest / self.rank, RIDGE * self.spectrum.total)

    def scores(self, rows: Rows) -> FloatArray:
        """Return ridge leverage scores of rows that are among those added."""
        if self.rows == 0:
            return np.zeros(len(rows))
        if self.spectrum.total == 0:
            return self._of_constant(rows, self.weight)
        gram, factor = self.scatter
        if gram is not None:
            root = gram_factor(gram + self.ridge * np.eye(len(gram)))
            white = (whitened(self._centered(piece, self.center), root) for piece in rows.pieces())
        else:
            assert factor is not None
            _, sigma, right = np.linalg.svd(factor / self.spectrum.scale)
            turned = right.T / np.sqrt(sigma**2 + self.ridge)
            white = (self._centered(piece, self.center) / self.spectrum.scale @ turned for piece in rows.pieces())
        own = np.concatenate([squared_lengths(piece) for piece in white])
        return np.asarray(np.minimum(1.0, own + self._of_constant(rows, self.weight)))

    def bounds(self, rows: Rows) -> FloatArray:
        """Return upper bounds of the scores of rows among those added, in O(p k) a row."""
        reference = self.reference
        assert reference is not None
        directions = np.ascontiguousarray(reference.directions.T) / reference.scale
        bounds = []
        for piece in rows.pieces():
            z = self._centered(piece, reference.center)
            along = directions @ z.T
            along *= along
            bounds.append(self._length_bounds(z, piece) - reference.reductions @ along)
        return np.concatenate(bounds)

    def _length_bounds(self, z: FloatArray, rows: Rows, lengths: FloatArray | None = None) -> FloatArray:
        """Return bounds by the squared lengths of z, the rows less the mean at the check."""
        reference = self.reference
        assert reference is not None
        if reference.ridge == 0:
            return self._of_constant(rows, reference.weight)
        if lengths is None or reference.scale != 1:
            lengths = squared_lengths(z / reference.scale if reference.scale != 1 else z)
        return lengths * ((1 + _ROUNDING) / reference.ridge) + self._of_constant(rows, reference.weight)

    def _of_constant(self, rows: Rows, weight: float) -> FloatArray:
        """Return the part of the constant column in scores: the share of each row in a weight."""
        return rows.weights / weight if self.intercept else np.zeros(len(rows))


def _middle(rows: Rows) -> FloatArray:
    """Return the median of each column, the lower one of two: a value of the column, equivariant under shifts."""
    half = (len(rows) - 1) // 2
    return np.array(np.partition(rows.points, half, axis=0)[half])


def _weighted(z: FloatArray, weights: FloatArray) -> FloatArray:
    return z if all_ones(weights) else z * np.sqrt(weights)[:, None]


def _weight(rows: Rows) -> float:
    return float(len(rows)) if all_ones(rows.weights) else float(rows.weights.sum())
