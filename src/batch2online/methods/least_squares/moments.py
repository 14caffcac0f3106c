"""Coordinates ``z = (m - shift) T`` in which rows are well conditioned, and the regularisation as it looks there."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Annotated

import numpy as np

from batch2online._types import FloatArray, IntArray
from batch2online.methods.least_squares.score_bounds import DEPENDENT, Condition, Reference
from batch2online.numerics.distances import squared_lengths
from batch2online.numerics.triangular import (
    column_norms,
    decoupled_factor,
    definite_factor,
    gram_factor,
    inverse,
    qr_factor,
    whitened,
)
from batch2online.rows import Rows, all_ones
from batch2online.schema import Count, finite, require, require_equal, semidefinite, shape, storable

MU = 1e-24
"""Relative regularisation of every column: far below any signal, far above the rounding of QR."""

_LEAST = 2.0**-1000
"""A column of a smaller norm is as good as zero: numbers near the end of the range have no inverse."""


@dataclass(frozen=True)
class WhiteCoordinates:
    """New coordinates, and the Gram matrix in them of the rows for which they were made."""

    transform: FloatArray  # T, upper triangular
    untransform: FloatArray  # its inverse
    gram: FloatArray


def white_coordinates(
    factor: FloatArray, spreads: FloatArray, transform: FloatArray | None, untransform: FloatArray | None
) -> WhiteCoordinates:
    """Coordinates in which the rows of ``factor``, given in the present ones, have Gram matrix one.

    ``spreads`` are the norms of the columns of m around their means. A column that depends on earlier ones to the last
    digits keeps its own scale, and later columns are not turned against what is left of it: that is noise, and it would
    spread to them.
    """
    lengths = column_norms(factor)
    scale = np.where(lengths > _LEAST, 2.0 ** np.frexp(lengths)[1].astype(np.float64), 1.0)  # exact
    unit = factor / scale
    penalty = np.sqrt(MU) * spreads
    if transform is not None:
        penalty = column_norms(penalty[:, None] * transform)
    regular, white = decoupled_factor(unit, np.maximum(DEPENDENT * penalty / scale, _LEAST))
    new = regular * scale if untransform is None else (regular * scale) @ untransform
    return WhiteCoordinates(inverse(new), new, white.T @ white)


def regularised(gram: FloatArray, transform: FloatArray, untransform: FloatArray, intercept: bool) -> FloatArray:
    """Return the Gram matrix of z plus MU times the squared spreads of m, seen in the same coordinates."""
    largest = np.abs(untransform).max(axis=0)
    unit = untransform / largest
    image = gram @ unit
    squares = np.einsum("ij,ij->j", unit, image)
    if intercept and squares[0] > 0:
        squares[1:] -= (unit[:, 0] @ image[:, 1:]) ** 2 / squares[0]
    penalty = (largest * np.sqrt(np.maximum(squares, 0.0)))[:, None] * transform
    return np.asarray(gram + MU * (penalty.T @ penalty))


_FIRST_ROWS = 1000


@dataclass(frozen=True)
class Columns:
    """How many columns of each kind there are, and what is subtracted from them."""

    width: Count
    n_targets: Count
    intercept: bool
    shift: Annotated[FloatArray, shape("p"), finite]

    @property
    def n_inputs(self) -> int:
        """Columns of [1 | a]: the targets come after them."""
        return self.width + self.intercept

    @cached_property
    def inner(self) -> slice:
        """Where a stands in [1 | a | b]."""
        return slice(int(self.intercept), self.intercept + self.width)

    @cached_property
    def outer(self) -> IntArray:
        """Where 1 and b stand in [1 | a | b]."""
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
        """Return the Gram matrix of rows m that are given in two parts."""
        inner, outer = self.inner, self.outer
        gram = np.empty((len(self.shift), len(self.shift)))
        gram[inner, inner] = points.T @ points
        for position, column in zip(outer, others, strict=True):  # faster than one narrow product
            gram[position, inner] = gram[inner, position] = column @ points
            gram[position, outer] = others @ column
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
        """Norms of the columns of [1 | a | b] around their means, from a triangular factor of the rows.

        What is below the row of the constant belongs to the rows less their mean.
        """
        if not self.intercept:
            return column_norms(triangle)
        return np.concatenate([np.abs(triangle[0, :1]), column_norms(triangle[1:, 1:])])


WELL_CONDITIONED = 1e-8
"""Least eigenvalue of the correlations at which coordinates are kept: condition number 1e4 of the rows."""

AMPLIFICATION = 1e5
"""How far T may amplify rounding before a block is rather absorbed by QR in the original coordinates."""

_EXTREME = 2.0**400


@storable
@dataclass(frozen=True)
class Moments(Columns):
    """The moments of all rows added so far. Immutable: adding returns a new object."""

    rows: Count
    transform: Annotated[FloatArray, shape("p", "p"), finite] | None  # T, upper triangular
    untransform: Annotated[FloatArray, shape("p", "p"), finite] | None  # its inverse
    gram: Annotated[FloatArray, shape("p", "p"), finite, semidefinite]  # of z
    reference: Reference | None

    def validate(self) -> None:
        p = self.width + self.n_targets + self.intercept
        require_equal("columns", len(self.shift), p)
        require((self.transform is None) == (self.untransform is None), "transform: found one without its inverse")
        for matrix in (self.transform, self.untransform):
            is_upper = matrix is None or (matrix.diagonal().all() and not np.tril(matrix, -1).any())
            require(is_upper, "transform: found one that is not upper triangular, or not invertible")
        known = 0 if self.reference is None else self.reference.rows
        is_right = known <= self.rows and (known == 0) == (self.rows == 0)
        require(is_right, f"reference: found one of {known} rows, expected one of at most {self.rows}")
        require(self.reference is None or len(self.reference.own) == p, f"reference: expected {p} columns")

    @classmethod
    def empty(cls, width: int, n_targets: int, intercept: bool) -> Moments:
        p = width + n_targets + intercept
        return cls(width, n_targets, intercept, np.zeros(p), 0, None, None, np.zeros((p, p)), None)

    @cached_property
    def is_plain(self) -> bool:
        return self.transform is None and not self.shift.any()

    # -- adding ---------------------------------------------------------------------------------

    def add(self, rows: Rows) -> Moments:
        """Return the moments with these rows added."""
        if len(rows) == 0:
            return self
        with np.errstate(over="ignore", invalid="ignore", under="ignore"):
            if self.reference is None:
                return self._first(rows)._checked()
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
            return new._checked() if new.rows >= 2 * self.reference.rows else new

    def sharpened(self) -> Moments:
        """Return the same with closer bounds, where rows have come since the last check."""
        return self if self.reference is None or self.reference.rows == self.rows else self._checked()

    @classmethod
    def of(cls, rows: Rows, intercept: bool) -> Moments:
        """Return the moments of these rows alone, to be solved, not added to."""
        empty = cls.empty(rows.points.shape[1], rows.targets.shape[1], intercept)
        with np.errstate(over="ignore", invalid="ignore", under="ignore"):
            return empty._first(rows) if len(rows) else empty

    def merged(self, other: Moments) -> Moments:
        """Return the moments of the rows of both: the other's factor is a set of rows like any other."""
        if other.rows == 0:
            return self
        if self.rows == 0:
            return other
        with np.errstate(over="ignore", invalid="ignore", under="ignore"):
            rows = other.shifted_factor
            if self.intercept:
                rows = rows + rows[:, :1] * (other.shift - self.shift)
            return self._based_on(qr_factor(self.shifted_factor, rows), self.rows + other.rows)._checked()

    def scaled(self, factor: float) -> Moments:
        """Return the moments of the same rows with weights multiplied by a power of 4: no digit changes."""
        reference = None if self.reference is None else self.reference.scaled(factor)
        return replace(self, gram=self.gram * factor, reference=reference)

    def _first(self, rows: Rows) -> Moments:
        """Return the cheapest coordinates in which the first rows are well conditioned."""
        for shifted in (False, True):
            start = replace(self, shift=self.representative(rows)) if shifted else self
            tried = replace(start, gram=start._gram_of(rows), rows=self.rows + len(rows))
            if tried._is_well_conditioned():
                return tried
        return start._based_on(qr_factor(start.design(rows)), self.rows + len(rows))

    def _absorb(self, rows: Rows) -> Moments:
        """Add rows by QR of the factor in the original coordinates, then choose the coordinates anew.

        In whitened ones a row that breaks the guards has huge entries, and what is left of columns that depend on
        others would be rounded relative to these.
        """
        return self._based_on(qr_factor(self.shifted_factor, self.design(rows)), self.rows + len(rows))._checked()

    def _based_on(self, factor: FloatArray, total: int) -> Moments:
        """Return the cheapest coordinates for rows ``m - shift`` with this factor: as they are, or whitened."""
        plain = replace(
            self,
            transform=None,
            untransform=None,
            gram=factor.T @ factor,
            rows=total,
            reference=None,
        )
        return plain if plain._is_well_conditioned() else plain._whitened(factor)

    def _whitened(self, factor: FloatArray) -> Moments:
        """Return the same in coordinates in which the rows of ``factor`` (in the present ones) have Gram matrix one."""
        triangle = factor if self.untransform is None else factor @ self.untransform
        new = white_coordinates(factor, self.spreads(triangle), self.transform, self.untransform)
        return replace(self, transform=new.transform, untransform=new.untransform, gram=new.gram)

    def _is_amplified(self, m: FloatArray, grown: FloatArray) -> bool:
        """Whether the terms of ``m T`` cancel so far that digits are lost."""
        assert self.reference is not None
        assert self.transform is not None
        own = self.reference.own
        terms = np.sqrt(np.einsum("ij,ij->j", m, m)) @ np.abs(self.transform)
        lengths = np.sqrt(grown.diagonal())
        return not (terms[own] <= AMPLIFICATION * lengths[own]).all()

    def _with(self, gram: FloatArray, rows: int) -> Moments:
        """Return the same coordinates with another Gram matrix: a copy that keeps what is cached of them."""
        new = object.__new__(Moments)
        vars(new).update(vars(self), gram=gram, rows=rows)
        for cached in ("coordinate_factor", "shifted_factor", "regular_factor"):
            vars(new).pop(cached, None)
        return new

    # -- conditioning ---------------------------------------------------------------------------

    def _is_well_conditioned(self) -> bool:
        diagonal = self.gram.diagonal()
        positive = diagonal[diagonal > 0]
        if not np.isfinite(diagonal).all() or (positive > _EXTREME).any() or (positive < 1 / _EXTREME).any():
            return False
        factor, condition = definite_factor(self.gram)
        if factor is not None and self.transform is None:
            self.__dict__["coordinate_factor"] = factor  # it will be asked for
        return condition >= WELL_CONDITIONED

    def _checked(self) -> Moments:
        """With a new reference, in other coordinates where the present ones have become poor."""
        gram = self.regularised()
        condition = Condition.of(gram)
        if self.reference is not None:
            if condition.least < WELL_CONDITIONED:
                return replace(self, reference=None)._whitened(gram_factor(self.gram))._checked()
            simpler = self._simpler()
            if simpler is not None:
                return simpler._checked()
        own = self.gram.diagonal() > DEPENDENT**2 * (gram - self.gram).diagonal()
        return replace(self, reference=condition.reference(self.rows, own))

    def _simpler(self) -> Moments | None:
        """Return the same in the rows' own coordinates, with the shift or without, where these have become good enough.

        ``None`` where there are none, or where the present ones are as simple.
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
            if tried._is_well_conditioned():
                return tried
        return None

    # -- coordinates ----------------------------------------------------------------------------

    def coordinates(self, rows: Rows) -> FloatArray:
        """Return the (n, p) array z of these rows, each scaled by the square root of its weight."""
        m = self.design(rows)
        return m if self.transform is None else m @ self.transform

    def _gram_of(self, rows: Rows) -> FloatArray:
        gram = np.zeros_like(self.gram)
        for piece in rows.pieces():
            if self.is_plain:
                gram += self.plain_gram(*self.plain_columns(piece))
            else:
                z = self.coordinates(piece)
                gram += z.T @ z
        return gram

    # -- what is asked of moments ---------------------------------------------------------------

    def regularised(self) -> FloatArray:
        """Return the Gram matrix of z plus MU times the squared spreads of m, seen in the same coordinates."""
        if self.transform is None or self.untransform is None:
            return self.gram
        return regularised(self.gram, self.transform, self.untransform, self.intercept)

    @cached_property
    def coordinate_factor(self) -> FloatArray:
        """Upper triangular R for all rows z, with the regularisation: R'R is :meth:`regularised`."""
        return gram_factor(self.regularised())

    @cached_property
    def shifted_factor(self) -> FloatArray:
        """Upper triangular R whose rows stand for all rows ``m - shift``: R'R is their Gram matrix."""
        return self.coordinate_factor if self.untransform is None else gram_factor(self.gram) @ self.untransform

    @cached_property
    def regular_factor(self) -> FloatArray:
        """The same with the regularisation: it can be solved, whatever columns depend on each other."""
        return self.coordinate_factor if self.untransform is None else self.coordinate_factor @ self.untransform

    def scores(self, rows: Rows, *, with_targets: bool = True) -> FloatArray:
        """Leverage scores of rows that are among those added."""
        if self.reference is None:
            return np.zeros(len(rows))
        last = len(self.shift) if with_targets else self.n_inputs
        factor = self.coordinate_factor[:last, :last]
        white = (whitened(self.coordinates(piece)[:, :last], factor) for piece in rows.pieces())
        return np.asarray(np.minimum(1.0, np.concatenate([squared_lengths(piece) for piece in white])))

    def bounds(self, rows: Rows) -> FloatArray:
        """Upper bounds of the scores of rows that are among those added: their scores at the last check."""
        reference = self.reference
        assert reference is not None
        if not self.is_plain:
            return np.concatenate([reference.bounds(self.coordinates(piece)) for piece in rows.pieces()])
        columns = (self.plain_columns(piece) for piece in rows.pieces())
        return np.concatenate([reference.plain_bounds(*piece, self.inner, self.outer) for piece in columns])

    def coarse_bounds(self, rows: Rows) -> FloatArray:
        """Upper bounds of the scores of rows that are among those added, in O(p) a row, see :class:`Reference`."""
        reference = self.reference
        assert reference is not None
        if not self.is_plain:
            return np.concatenate([reference.coarse_bounds(self.coordinates(piece)) for piece in rows.pieces()])
        has_ones = self.intercept and all_ones(rows.weights)
        columns = (self.plain_columns(piece) for piece in rows.pieces())
        bounds = (reference.plain_coarse_bounds(*piece, self.inner, self.outer, has_ones) for piece in columns)
        return np.concatenate(list(bounds))
