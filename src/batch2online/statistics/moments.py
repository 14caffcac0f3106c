"""Second moments of rows ``m = [1 | a | b]``, kept in coordinates where they are well conditioned.

A plain Gram matrix loses half of the digits: leverage scores from it are wrong from condition number
1e8 on. A triangular factor updated by QR does not, at five to eight times the cost. Here the data choose,
by the condition number of the rows with columns of norm one:

- *plain* (up to 1e4): the Gram matrix of the rows as they come, the cost of ``X.T @ X``; or *shifted*: values near
  the mean of the first rows are subtracted (only next to a constant column, where scores stay the same);
- *whitened* (up to about 1e5): the Gram matrix of ``z = (m - shift) T``, with T the inverse of an earlier factor.

Bounds on what rounding can do are carried along in O(p) or O(p^2) a block. A block that would break them (one row
a billion times the others, a column that wakes up, rows that leave the directions for which T was made, or any
rows of a higher condition number) is absorbed by QR of a factor in the original coordinates, which is backward
stable, and the coordinates are chosen anew. All of it is the same mathematical quantity, the moments of m, and
every score and cost is a function of those; only the rounding depends on the path.

No rank is ever decided: scores use ``G + MU * D`` (in the coordinates of m), where D holds the sum of squares
of each column, around its mean if there is a constant column. That is antitone, and invariant under scaling and
shifting of columns. Columns that are zero (or constant) so far stay decoupled.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from batch2online._types import FloatArray
from batch2online.core.registry import storable
from batch2online.core.rows import Rows, all_ones
from batch2online.linalg.distances import squared_lengths
from batch2online.linalg.triangular import definite_factor, gram_factor, qr_factor, whitened
from batch2online.statistics.columns import Columns
from batch2online.statistics.reference import DEPENDENT, Condition, Reference
from batch2online.statistics.whitening import regularised, white_coordinates

WELL_CONDITIONED = 1e-8
"""Least eigenvalue of the correlations at which coordinates are kept: condition number 1e4 of the rows."""

AMPLIFICATION = 1e5
"""How far T may amplify rounding before a block is rather absorbed by QR in the original coordinates."""

_EXTREME = 2.0**400


@storable
@dataclass(frozen=True)
class Moments(Columns):
    """The moments of all rows added so far. Immutable: adding returns a new object."""

    rows: int
    transform: FloatArray | None  # T, upper triangular
    untransform: FloatArray | None  # its inverse
    gram: FloatArray  # of z
    reference: Reference | None

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
