"""Second moments of the rows ``m = [1 | a | b]``, kept in coordinates in which rounding is harmless.

Rows are summed as ``z = (m - shift) T``: as they are while their columns are well conditioned, else relative to a value
of each column (``shift``), else whitened by an upper triangular ``T``. :class:`ScoreBounds` holds upper bounds of
leverage scores, computed at a check of the condition, which stay valid as rows are added.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Annotated, NamedTuple

import numpy as np
from scipy.linalg import lapack

from batch2online._types import BoolArray, FloatArray, IntArray
from batch2online.numerics.distances import scratch, squared_lengths
from batch2online.numerics.triangular import (
    NARROW,
    column_norms,
    correlations,
    decoupled_factor,
    definite_factor,
    gram_factor,
    inverse,
    qr_factor,
    triangular_product,
    whitened,
)
from batch2online.rows import PIECE_ENTRIES, Rows, all_ones
from batch2online.schema import shape, storable

RIDGE = 1e-24
"""Relative regularisation of every column: far below any signal, far above the rounding of QR."""

LOSS_OF_DIGITS = 1e9
"""Growth of a column since the last check, over the least eigenvalue then, beyond which QR steps in."""

DEPENDENT = 30.0
"""A column whose part of its own is at most this many times the regularisation all but depends on earlier columns."""

WELL_CONDITIONED = 1e-8
"""Least eigenvalue of the correlations at which coordinates are kept: condition number 1e4 of the rows."""

AMPLIFICATION = 1e5
"""How far T may amplify rounding before a block is rather absorbed by QR in the original coordinates."""

_EXTREME = 2.0**400

_MIN_NORM = 2.0**-1000
"""A column of a smaller norm counts as zero: numbers near the end of the range have no inverse."""

_FIRST_ROWS = 1000


@storable
@dataclass(frozen=True)
class ScoreBounds:
    """Upper bounds of leverage scores from the last check of the condition, valid as rows are added.

    The bound of a score is ``|z directions|^2``, which is the score among the rows of the check. A diagonal matrix
    above this quadratic form gives coarser bounds with fewer operations.

    Attributes
    ----------
    rows : int
        Rows seen at the check.
    limits : (p,) array
        While the diagonal of the Gram matrix is at most this, it has lost no digits that matter.
    directions : (p, p) array
        The inverse of a triangular factor of the Gram matrix.
    own : (p,) array
        True for a column with a substantial part that no combination of the columns before it explains. False where
        that part is no more than rounding.
    """

    rows: int
    limits: Annotated[FloatArray, shape("p")]
    directions: Annotated[FloatArray, shape("p", "p")]
    own: Annotated[BoolArray, shape("p")]

    def scaled(self, factor: float) -> ScoreBounds:
        """Return the bounds for weights multiplied by a power of 4."""
        return replace(self, limits=self.limits * factor, directions=self.directions / factor**0.5)

    def bounds(self, z: FloatArray) -> FloatArray:
        """Return upper bounds of the scores of rows with coordinates z (n, p)."""
        return squared_lengths(z @ self.directions)

    def plain_bounds(self, points: FloatArray, others: FloatArray, inner: slice, outer: IntArray) -> FloatArray:
        """Return the bounds of rows given in two parts, the columns ``inner`` and (transposed) ``outer`` of z."""
        directions = self.directions
        if not self.is_wide_triangle:
            white = points @ directions[inner]
            white += others.T @ directions[outer]
            return squared_lengths(white)
        white = triangular_product(points, directions[inner, inner])
        for root, constants in zip(others[: inner.start], directions[:, inner], strict=False):
            white += constants if (root == 1.0).all() else root[:, None] * constants  # an outer product takes longer
        bound = squared_lengths(white)
        for column in directions.T[outer]:
            along = column[outer] @ others
            if column[inner].any():
                along += points @ column[inner]
            bound += along * along
        return bound

    @cached_property
    def is_wide_triangle(self) -> bool:
        """Whether directions are an upper triangle, of so many columns that this saves time."""
        return len(self.directions) > NARROW and not np.tril(self.directions, -1).any()

    @cached_property
    def coarse_scales(self) -> FloatArray:
        """Weights c with ``sum_j c_j z_j^2`` at least the form without its last direction: sums of absolute values.

        They are taken in units where columns have norm one, in which the sum of all of them is least.
        """
        norms, others = self.norms, self.directions[:, :-1]
        per_norm = np.divide(1.0, norms, out=np.zeros_like(norms), where=norms > 0)
        return np.asarray(np.abs(others @ others.T) @ norms * per_norm)

    @cached_property
    def usual_coarse_bound(self) -> float:
        """Mean of the coarse bounds of all rows at the check."""
        unit = inverse(self.directions * self.norms[:, None])
        largest = np.square(unit).sum() / len(unit)  # squared norm of the longest column: correlations have unit trace
        return (float(self.coarse_scales @ np.square(self.norms) * largest) + 1.0) / max(1, self.rows)

    @cached_property
    def norms(self) -> FloatArray:
        """Norms of the columns of all rows at the check."""
        return np.asarray(np.sqrt(self.limits / self.limits.max(initial=1e-300)))

    def coarse_bounds(self, z: FloatArray) -> FloatArray:
        """Return upper bounds of the scores of rows with coordinates z (n, p), in O(p) a row.

        The last direction, that of the targets, is used as it is.
        """
        bound = np.multiply(z, z, out=scratch.room("squares", z.shape)) @ self.coarse_scales
        along = z @ self.directions[:, -1]
        along *= along
        bound += along
        return np.asarray(bound)

    def plain_coarse_bounds(
        self, points: FloatArray, others: FloatArray, inner: slice, outer: IntArray, has_ones: bool
    ) -> FloatArray:
        """Return the coarse bounds of rows given in two parts, the columns ``inner`` and (transposed) ``outer`` of z.

        ``has_ones``: the first of the others is a column of ones.
        """
        scales, direction = self.coarse_scales, self.directions[:, -1]
        bound = np.multiply(points, points, out=scratch.room("squares", points.shape)) @ scales[inner]
        along = points @ direction[inner]
        if has_ones:
            bound += scales[outer[0]]
            along += direction[outer[0]]
            others, outer = others[1:], outer[1:]
        for place, values in zip(outer, others, strict=True):
            if scales[place]:  # zero for the last target
                bound += values * values * scales[place]
            along += values * direction[place]
        along *= along
        bound += along
        return np.asarray(bound)


@dataclass(frozen=True)
class Condition:
    """How far columns are from depending on each other, in units where each has norm one."""

    norms: FloatArray
    inverse_factor: FloatArray  # of the correlations, (p, p)

    @classmethod
    def of(cls, gram: FloatArray) -> Condition:
        correlation, norms = correlations(gram)
        factor, info = lapack.dpotrf(correlation, clean=1)
        if info == 0:
            return cls(norms, inverse(factor))
        values, vectors = np.linalg.eigh(correlation)
        return cls(norms, vectors / np.sqrt(np.maximum(values, np.finfo(np.float64).tiny)))

    @cached_property
    def least(self) -> float:
        """Lower bound of the least eigenvalue: one for orthogonal columns, zero for dependent ones."""
        return float(1 / np.abs(self.inverse_factor @ self.inverse_factor.T).sum(axis=0).max())

    def score_bounds(self, rows: int, own: BoolArray) -> ScoreBounds:
        """Return bounds that hold for all rows after these."""
        norms = self.norms
        per_norm = np.divide(1.0, norms, out=np.zeros_like(norms), where=norms > 0)
        return ScoreBounds(rows, LOSS_OF_DIGITS * self.least * norms**2, per_norm[:, None] * self.inverse_factor, own)


class CentredFactor(NamedTuple):
    """A factor of the rows around their means: ``[inputs | targets]``, and below it ``[0 | rest]``.

    ``means`` are those of [1 | a | b]; None without an intercept.
    """

    means: FloatArray | None
    inputs: FloatArray
    targets: FloatArray
    rest: FloatArray


@storable
@dataclass(frozen=True)
class Moments:
    """Second moments of all rows added so far, from which least squares and leverage scores are computed.

    Attributes
    ----------
    width, n_targets, intercept : int, int, bool
        Columns of a and of b, and whether there is a constant column.
    shift : (p,) array
        What is subtracted from the columns of m.
    rows : int
        Number of rows.
    transform, untransform : (p, p) arrays or None
        T, upper triangular, and its inverse; None for the identity.
    gram : (p, p) array
        Gram matrix of the rows z.
    reference : ScoreBounds or None
        Bounds from the last check of the condition; None while there are no rows.
    """

    width: int
    n_targets: int
    intercept: bool
    shift: Annotated[FloatArray, shape("p")]
    rows: int
    transform: Annotated[FloatArray, shape("p", "p")] | None
    untransform: Annotated[FloatArray, shape("p", "p")] | None
    gram: Annotated[FloatArray, shape("p", "p")]
    reference: ScoreBounds | None

    @classmethod
    def empty(cls, width: int, n_targets: int, intercept: bool) -> Moments:
        p = width + n_targets + intercept
        return cls(width, n_targets, intercept, np.zeros(p), 0, None, None, np.zeros((p, p)), None)

    @cached_property
    def is_plain(self) -> bool:
        return self.transform is None and not self.shift.any()

    # -- columns --------------------------------------------------------------------------------

    @property
    def n_inputs(self) -> int:
        """Number of columns of [1 | a], which come before the targets."""
        return self.width + self.intercept

    @cached_property
    def inner(self) -> slice:
        """Positions of a in [1 | a | b]."""
        return slice(int(self.intercept), self.intercept + self.width)

    @cached_property
    def outer(self) -> IntArray:
        """Positions of 1 and b in [1 | a | b]."""
        return np.array([*range(self.intercept), *range(self.n_inputs, len(self.shift))], dtype=np.int64)

    def design(self, rows: Rows) -> FloatArray:
        """Return the rows ``m - shift``, each scaled by the square root of its weight."""
        i, d = self.intercept, self.width
        z = np.empty((len(rows), len(self.shift)))
        z[:, :i] = 1.0
        z[:, i : i + d] = rows.points
        z[:, i + d :] = rows.targets
        if self.shift.any():
            z -= self.shift
        if not all_ones(rows.weights):
            z *= np.sqrt(rows.weights)[:, None]
        return z

    def plain_columns(self, rows: Rows) -> tuple[FloatArray, FloatArray]:
        """Return the rows m without shift in two parts: a (n, d), not copied as it is wide, and [1 | b] transposed."""
        others = np.empty((self.intercept + self.n_targets, len(rows)))
        others[: self.intercept] = 1.0
        others[self.intercept :] = rows.targets.T
        if all_ones(rows.weights):
            return rows.points, others
        root = np.sqrt(rows.weights)
        return rows.points * root[:, None], others * root

    def plain_gram(self, points: FloatArray, others: FloatArray) -> FloatArray:
        """Return the Gram matrix of rows m given in these two parts."""
        inner, outer = self.inner, self.outer
        gram = np.empty((len(self.shift), len(self.shift)))
        gram[inner, inner] = points.T @ points
        for position, column, products in zip(outer, others, others @ points, strict=True):
            gram[position, inner] = gram[inner, position] = products
            gram[position, outer] = others @ column  # faster than one narrow product
        return gram

    def representative(self, rows: Rows) -> FloatArray:
        """Return a shift: for each column the value nearest to the mean of the first rows.

        Being a value of the column, it turns a constant column into exact zeros.
        """
        if not self.intercept:
            return np.zeros(len(self.shift))
        values = np.concatenate([rows.points[:_FIRST_ROWS], rows.targets[:_FIRST_ROWS]], axis=1)
        nearest = np.abs(values - values.mean(axis=0)).argmin(axis=0)
        return np.concatenate([[0.0], values[nearest, np.arange(values.shape[1])]])

    def spreads(self, triangle: FloatArray) -> FloatArray:
        """Return the norms of the columns of [1 | a | b] around their means, from a triangular factor of the rows.

        Below the row of the constant stands the factor of the centred rows.
        """
        if not self.intercept:
            return column_norms(triangle)
        return np.concatenate([np.abs(triangle[0, :1]), column_norms(triangle[1:, 1:])])

    # -- adding ---------------------------------------------------------------------------------

    def add(self, rows: Rows) -> Moments:
        """Return the moments with these rows added."""
        if len(rows) == 0:
            return self
        with np.errstate(over="ignore", invalid="ignore", under="ignore"):
            if self.reference is None:
                return self.begun(rows).checked()
            if self.is_plain:
                grown = self.gram + self.plain_gram(*self.plain_columns(rows))
                is_amplified = False
            else:
                m = self.design(rows)
                z = m if self.transform is None else m @ self.transform
                grown = self.gram + z.T @ z
                is_amplified = self.transform is not None and self._is_amplified(m, grown)
            if is_amplified or not (grown.diagonal() <= self.reference.limits).all():
                return self._absorb(rows)
            new = self._with(grown, self.rows + len(rows))
            return new.checked() if new.rows >= 2 * self.reference.rows else new

    def sharpened(self) -> Moments:
        """Return the moments with bounds from a check now, if rows were added since the last one."""
        return self if self.reference is None or self.reference.rows == self.rows else self.checked()

    @classmethod
    def of(cls, rows: Rows, intercept: bool) -> Moments:
        """Return the moments of these rows alone, without bounds: to fit to, not to add to."""
        empty = cls.empty(rows.points.shape[1], rows.targets.shape[1], intercept)
        with np.errstate(over="ignore", invalid="ignore", under="ignore"):
            return empty.begun(rows) if len(rows) else empty

    def merged(self, other: Moments) -> Moments:
        """Return the moments of the rows of both; the factor of the other is added like rows."""
        if other.rows == 0:
            return self
        if self.rows == 0:
            return other
        with np.errstate(over="ignore", invalid="ignore", under="ignore"):
            rows = other.shifted_factor
            if self.intercept:
                rows = rows + rows[:, :1] * (other.shift - self.shift)
            return self.based_on(qr_factor(self.shifted_factor, rows), self.rows + other.rows).checked()

    def scaled(self, factor: float) -> Moments:
        """Return the moments for weights multiplied by a power of 4, without rounding."""
        reference = None if self.reference is None else self.reference.scaled(factor)
        return replace(self, gram=self.gram * factor, reference=reference)

    def begun(self, rows: Rows) -> Moments:
        """Return the moments of the first rows in the cheapest coordinates in which they are well conditioned."""
        for shifted in (False, True):
            start = replace(self, shift=self.representative(rows)) if shifted else self
            tried = replace(start, gram=start.gram_of(rows), rows=self.rows + len(rows))
            if tried.is_well_conditioned():
                return tried
        return start.based_on(qr_factor(start.design(rows)), self.rows + len(rows))

    def _absorb(self, rows: Rows) -> Moments:
        """Add rows by QR of the factor in the original coordinates, then choose new coordinates.

        In whitened ones a row beyond the limits has huge entries, and the own parts of columns that depend on others
        would be rounded relative to these.
        """
        return self.based_on(qr_factor(self.shifted_factor, self.design(rows)), self.rows + len(rows)).checked()

    def based_on(self, factor: FloatArray, total: int) -> Moments:
        """Return the moments of rows ``m - shift`` with this factor, as they are or whitened."""
        plain = replace(self, transform=None, untransform=None, rows=total, reference=None)
        if np.count_nonzero(factor.any(axis=1)) < np.count_nonzero(factor.any(axis=0)):  # fewer rows than columns
            return plain.in_white_coordinates(factor)
        plain = replace(plain, gram=factor.T @ factor)
        return plain if plain.is_well_conditioned() else plain.in_white_coordinates(factor)

    def in_white_coordinates(self, factor: FloatArray) -> Moments:
        """Return the moments in coordinates in which the rows of ``factor`` have Gram matrix one."""
        triangle = factor if self.untransform is None else factor @ self.untransform
        new = white_coordinates(factor, self.spreads(triangle), self.transform, self.untransform)
        return replace(self, transform=new.transform, untransform=new.untransform, gram=new.gram)

    def _is_amplified(self, m: FloatArray, grown: FloatArray) -> bool:
        """Return whether the terms of ``m T`` cancel so far that digits are lost."""
        assert self.reference is not None
        assert self.transform is not None
        own = self.reference.own
        terms = np.sqrt(np.einsum("ij,ij->j", m, m)) @ np.abs(self.transform)
        lengths = np.sqrt(grown.diagonal())
        return not (terms[own] <= AMPLIFICATION * lengths[own]).all()

    def _with(self, gram: FloatArray, rows: int) -> Moments:
        """Return a copy with another Gram matrix in the same coordinates, which keeps what is cached of these."""
        new = object.__new__(Moments)
        vars(new).update(vars(self), gram=gram, rows=rows)
        for cached in ("regularised", "coordinate_factor", "shifted_factor", "regular_factor", "centred_factor"):
            vars(new).pop(cached, None)
        return new

    # -- conditioning ---------------------------------------------------------------------------

    def is_well_conditioned(self) -> bool:
        diagonal = self.gram.diagonal()
        positive = diagonal[diagonal > 0]
        if not np.isfinite(diagonal).all() or (positive > _EXTREME).any() or (positive < 1 / _EXTREME).any():
            return False
        factor, condition = definite_factor(self.gram)
        if factor is not None and self.transform is None:
            self.__dict__["coordinate_factor"] = factor  # it will be needed
        return condition >= WELL_CONDITIONED

    def checked(self) -> Moments:
        """Return the moments with new bounds, in other coordinates if the current ones are poorly conditioned."""
        gram = self.regularised
        condition = Condition.of(gram)
        if self.reference is not None:
            if condition.least < WELL_CONDITIONED:
                return replace(self, reference=None).in_white_coordinates(gram_factor(self.gram)).checked()
            simpler = self._simpler()
            if simpler is not None:
                return simpler.checked()
        own = self.gram.diagonal() > DEPENDENT**2 * (gram - self.gram).diagonal()
        new = object.__new__(Moments)  # which keeps what is cached: the Gram matrix is the same
        vars(new).update(vars(self), reference=condition.score_bounds(self.rows, own))
        return new

    def _simpler(self) -> Moments | None:
        """Return the moments without T, with the shift or without, if these coordinates are well conditioned now.

        None if they are not, or if the current ones are as simple.
        """
        for shifted in (False, True) if not self.is_plain else ():
            if shifted and self.transform is None:
                return None
            factor, shift = self.shifted_factor, self.shift
            if not shifted:
                factor = factor + factor[:, :1] * shift if self.intercept else factor
                shift = np.zeros_like(shift)
            tried = replace(
                self,
                transform=None,
                untransform=None,
                shift=shift,
                gram=factor.T @ factor,
                reference=None,
            )
            if tried.is_well_conditioned():
                return tried
        return None

    # -- coordinates ----------------------------------------------------------------------------

    def coordinates(self, rows: Rows) -> FloatArray:
        """Return the coordinates z (n, p) of these rows, each scaled by the square root of its weight."""
        m = self.design(rows)
        return m if self.transform is None else m @ self.transform

    def gram_of(self, rows: Rows) -> FloatArray:
        gram = np.zeros_like(self.gram)
        for piece in rows.pieces():
            if self.is_plain:
                gram += self.plain_gram(*self.plain_columns(piece))
            else:
                z = self.coordinates(piece)
                gram += z.T @ z
        return gram

    # -- factors and scores ----------------------------------------------------------------------

    @cached_property
    def regularised(self) -> FloatArray:
        """The Gram matrix of z plus RIDGE times the squared spreads of m, in the same coordinates."""
        if self.transform is None or self.untransform is None:
            return self.gram
        return regularised(self.gram, self.transform, self.untransform, self.intercept)

    @cached_property
    def coordinate_factor(self) -> FloatArray:
        """Upper triangular R for all rows z, with the regularisation: R'R is :attr:`regularised`."""
        return gram_factor(self.regularised)

    @cached_property
    def shifted_factor(self) -> FloatArray:
        """Upper triangular R of all rows ``m - shift``: R'R is their Gram matrix."""
        return self.coordinate_factor if self.untransform is None else gram_factor(self.gram) @ self.untransform

    @cached_property
    def regular_factor(self) -> FloatArray:
        """The same with the regularisation: invertible, whatever columns depend on each other."""
        return self.coordinate_factor if self.untransform is None else self.coordinate_factor @ self.untransform

    @cached_property
    def centred_factor(self) -> CentredFactor:
        """Triangular factors of the rows around their means, with the regularisation.

        Below the row of the constant stands the factor of the centred rows.
        """
        factor, i, inputs = self.regular_factor, int(self.intercept), self.n_inputs
        means = factor[0] / factor[0, 0] + self.shift if self.intercept and factor[0, 0] > 0 else None
        return CentredFactor(means, factor[i:inputs, i:inputs], factor[i:inputs, inputs:], factor[inputs:, inputs:])

    @property
    def input_spreads(self) -> FloatArray:
        """Norms of the columns of a around their means."""
        return self.spreads(self.regular_factor)[self.inner]

    @property
    def whole(self) -> Moments:
        """The moments themselves, as those of few rows have."""
        return self

    def scores(self, rows: Rows, *, with_targets: bool = True) -> FloatArray:
        """Return leverage scores of rows that are among those added."""
        if self.reference is None:
            return np.zeros(len(rows))
        last = len(self.shift) if with_targets else self.n_inputs
        factor = self.coordinate_factor[:last, :last]
        scores = _of_pieces(rows, lambda piece: squared_lengths(whitened(self.coordinates(piece)[:, :last], factor)))
        return np.asarray(np.minimum(1.0, scores))

    def bounds(self, rows: Rows) -> FloatArray:
        """Return upper bounds of the scores of rows among those added: their scores at the last check."""
        return _of_pieces(rows, self._bounds)

    def _bounds(self, rows: Rows) -> FloatArray:
        assert self.reference is not None
        if not self.is_plain:
            return self.reference.bounds(self.coordinates(rows))
        points, others = self.plain_columns(rows)
        return self.reference.plain_bounds(points, others, self.inner, self.outer)

    def coarse_bounds(self, rows: Rows) -> FloatArray:
        """Return coarser upper bounds in O(p) a row, see :class:`ScoreBounds`."""
        return _of_pieces(rows, self._coarse_bounds)

    def _coarse_bounds(self, rows: Rows) -> FloatArray:
        assert self.reference is not None
        if not self.is_plain:
            return self.reference.coarse_bounds(self.coordinates(rows))
        points, others = self.plain_columns(rows)
        has_ones = self.intercept and all_ones(rows.weights)
        return self.reference.plain_coarse_bounds(points, others, self.inner, self.outer, has_ones)


def _of_pieces(rows: Rows, values_of: Callable[[Rows], FloatArray]) -> FloatArray:
    """Return values of rows, a piece of them at a time."""
    if rows.points.size <= PIECE_ENTRIES:
        return values_of(rows)
    return np.concatenate([values_of(piece) for piece in rows.pieces()])


@dataclass(frozen=True)
class WhiteCoordinates:
    """Whitening coordinates, and the Gram matrix in them of the rows for which they were made."""

    transform: FloatArray  # T, upper triangular
    untransform: FloatArray  # its inverse
    gram: FloatArray


def white_coordinates(
    factor: FloatArray, spreads: FloatArray, transform: FloatArray | None, untransform: FloatArray | None
) -> WhiteCoordinates:
    """Return coordinates in which the rows of ``factor``, given in the current ones, have Gram matrix one.

    ``spreads`` are the norms of the columns of m around their means. A column that depends on earlier ones up to
    rounding keeps its own scale, and later columns are not orthogonalised against the rest of it: that is noise, and it
    would spread to them.
    """
    lengths = column_norms(factor)
    scale = np.where(lengths > _MIN_NORM, 2.0 ** np.frexp(lengths)[1].astype(np.float64), 1.0)  # exact
    unit = factor / scale
    penalty = np.sqrt(RIDGE) * spreads
    if transform is not None:
        penalty = column_norms(penalty[:, None] * transform)
    regular, white = decoupled_factor(unit, np.maximum(DEPENDENT * penalty / scale, _MIN_NORM))
    new = regular * scale if untransform is None else (regular * scale) @ untransform
    return WhiteCoordinates(inverse(new), new, white.T @ white)


def regularised(gram: FloatArray, transform: FloatArray, untransform: FloatArray, intercept: bool) -> FloatArray:
    """Return the Gram matrix of z plus RIDGE times the squared spreads of m, in the same coordinates."""
    largest = np.abs(untransform).max(axis=0)
    unit = untransform / largest
    image = gram @ unit
    squares = np.einsum("ij,ij->j", unit, image)
    if intercept and squares[0] > 0:
        squares[1:] -= (unit[:, 0] @ image[:, 1:]) ** 2 / squares[0]
    penalty = (largest * np.sqrt(np.maximum(squares, 0.0)))[:, None] * transform
    return np.asarray(gram + RIDGE * (penalty.T @ penalty))
