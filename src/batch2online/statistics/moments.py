"""Second moments of rows ``m = [1 | a | b]``, kept in coordinates where they are well conditioned.

A plain Gram matrix loses half of the digits: leverage scores from it are wrong from condition number
1e8 on. A triangular factor updated by QR does not, at five to eight times the cost. Here the data choose,
by the condition number of the rows with columns of norm one:

- *plain* (up to 1e3): the Gram matrix of the rows as they come, the cost of ``X.T @ X``; or *shifted*: values near
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

from batch2online._types import BoolArray, FloatArray, IntArray
from batch2online.core.registry import storable
from batch2online.core.rows import Rows, all_ones
from batch2online.linalg.distances import squared_lengths
from batch2online.linalg.scratch import scratch
from batch2online.linalg.triangular import (
    column_norms,
    correlations,
    decoupled_factor,
    definite_factor,
    gram_factor,
    inverse,
    qr_factor,
    whitened,
)

MU = 1e-24
"""Relative regularisation of every column: far below any signal, far above the rounding of QR."""

WELL_CONDITIONED = 1e-6
"""Least eigenvalue of the correlations at which coordinates are kept: condition number 1e3 of the rows."""

LOSS_OF_DIGITS = 1e7
"""Growth of a column since the last check, over the least eigenvalue then, beyond which QR steps in."""

TIGHT = 0.25
"""Eigenvalues of the correlations below this get a direction of their own in the cheap score bound."""

AMPLIFICATION = 1e5
"""How far T may amplify rounding before a block is rather absorbed by QR in the original coordinates."""

_EXTREME = 2.0**400
_FIRST_ROWS = 1000
_DEPENDENT = 30.0
"""A column whose part of its own is at most this many times the regularisation is all but dependent."""


@storable
@dataclass(frozen=True)
class Reference:
    """What was known at the last check of the condition: bounds that stay valid as rows are added.

    With correlations C = U diag(lam) U' in units where columns have norm one, and v = z in these units,
    v' C^-1 v <= sum_{j <= r} (1/lam_j - 1/lam_{r+1}) (u_j' v)^2 + |v|^2 / lam_{r+1}.
    """

    rows: int
    limits: FloatArray  # (p,) largest diagonal of the Gram matrix that keeps the digits
    scales: FloatArray  # (p,) weights of z_j^2 in the bound
    directions: FloatArray  # (p, r) the directions of small eigenvalues
    own: BoolArray  # (p,) columns that do not all but depend on earlier ones


@storable
@dataclass(frozen=True)
class Moments:
    """The moments of all rows added so far. Immutable: adding returns a new object."""

    width: int
    n_targets: int
    intercept: bool
    rows: int
    shift: FloatArray
    transform: FloatArray | None  # T, upper triangular
    untransform: FloatArray | None  # its inverse
    gram: FloatArray  # of z
    reference: Reference | None

    @classmethod
    def empty(cls, width: int, n_targets: int, intercept: bool) -> Moments:
        p = width + n_targets + intercept
        return cls(width, n_targets, intercept, 0, np.zeros(p), None, None, np.zeros((p, p)), None)

    @property
    def n_inputs(self) -> int:
        """Columns of [1 | a]: the targets come after them."""
        return self.width + self.intercept

    @cached_property
    def is_plain(self) -> bool:
        return self.transform is None and not self.shift.any()

    # -- adding ---------------------------------------------------------------------------------

    def add(self, rows: Rows) -> Moments:
        """The moments with these rows added."""
        return self.add_with_bounds(rows)[0]

    def add_with_bounds(self, rows: Rows) -> tuple[Moments, FloatArray]:
        """The moments with these rows added, and upper bounds of the rows' scores now and ever after.

        The bounds cost O(p) a row, see :class:`Reference`.
        """
        if len(rows) == 0:
            return self, np.empty(0)
        with np.errstate(over="ignore", invalid="ignore", under="ignore"):
            if self.reference is None:
                new = self._first(rows)._checked()
                return new, new.bounds(rows)
            if self.is_plain:
                columns = self._plain_columns(rows)
                grown = self.gram + self._plain_gram(*columns)
            else:
                m = self._design(rows)
                z = m if self.transform is None else m @ self.transform
                grown = self.gram + z.T @ z
                if self._is_amplified(m, grown):
                    new = self._based_on(qr_factor(self.shifted_factor, m), self.rows + len(rows))._checked()
                    return new, new.bounds(rows)
            if not (grown.diagonal() <= self.reference.limits).all():
                new = self._absorb(self.coordinates(rows), len(rows))
                return new, new.bounds(rows)
            new = self._with(grown, self.rows + len(rows))
            if new.rows >= 2 * self.reference.rows:
                new = new._checked()
            return new, self._plain_bounds(*columns) if self.is_plain else self._bounds_of(z)

    def sharpened(self) -> Moments:
        """The same with closer bounds, where rows have come since the last check."""
        return self if self.reference is None or self.reference.rows == self.rows else self._checked()

    @classmethod
    def of(cls, rows: Rows, intercept: bool) -> Moments:
        """The moments of these rows alone, to be solved, not added to."""
        empty = cls.empty(rows.points.shape[1], rows.targets.shape[1], intercept)
        with np.errstate(over="ignore", invalid="ignore", under="ignore"):
            return empty._first(rows) if len(rows) else empty

    def merged(self, other: Moments) -> Moments:
        """The moments of the rows of both: the other's factor is a set of rows like any other."""
        if other.rows == 0:
            return self
        if self.rows == 0:
            return other
        with np.errstate(over="ignore", invalid="ignore", under="ignore"):
            rows = other.shifted_factor
            if self.intercept:
                rows = rows + rows[:, :1] * (other.shift - self.shift)
            return self._based_on(qr_factor(self.shifted_factor, rows), self.rows + other.rows)._checked()

    def _first(self, rows: Rows) -> Moments:
        """The cheapest coordinates in which the first rows are well conditioned."""
        for shifted in (False, True):
            start = replace(self, shift=self._representative(rows)) if shifted else self
            tried = replace(start, gram=start._gram_of(rows), rows=self.rows + len(rows))
            if tried._is_well_conditioned():
                return tried
        return start._based_on(qr_factor(start._design(rows)), self.rows + len(rows))

    def _absorb(self, z: FloatArray, count: int) -> Moments:
        """Add rows given in the present coordinates by QR, then whiten these if the result asks for it."""
        factor = qr_factor(gram_factor(self.gram), z)
        kept = replace(self, gram=factor.T @ factor, rows=self.rows + count, reference=None)
        return kept._checked() if kept._is_well_conditioned() else kept._whitened(factor)._checked()

    def _based_on(self, factor: FloatArray, total: int) -> Moments:
        """The cheapest coordinates for rows ``m - shift`` with this factor: as they are, or whitened."""
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
        """New coordinates in which the rows of ``factor`` (in the present ones) have Gram matrix one.

        A column that depends on earlier ones to the last digits keeps its own scale, and later columns are not
        turned against what is left of it: that is noise, and it would spread to them.
        """
        lengths = column_norms(factor)
        scale = np.where(lengths > 0, 2.0 ** np.frexp(lengths)[1].astype(np.float64), 1.0)  # exact
        unit = factor / scale
        triangle = factor if self.untransform is None else factor @ self.untransform
        penalty = np.sqrt(MU) * self._spreads(triangle)
        if self.transform is not None:
            penalty = column_norms(penalty[:, None] * self.transform)
        regular, white = decoupled_factor(unit, _DEPENDENT * penalty / scale)
        untransform = regular * scale if self.untransform is None else (regular * scale) @ self.untransform
        return replace(
            self,
            transform=inverse(untransform),
            untransform=untransform,
            gram=white.T @ white,
        )

    def _is_amplified(self, m: FloatArray, grown: FloatArray) -> bool:
        """Whether the terms of ``m T`` cancel so far that digits are lost."""
        if self.transform is None:
            return False
        assert self.reference is not None
        own = self.reference.own
        terms = np.sqrt(np.einsum("ij,ij->j", m, m)) @ np.abs(self.transform)
        lengths = np.sqrt(grown.diagonal())
        return not (terms[own] <= AMPLIFICATION * lengths[own]).all()

    def _spreads(self, triangle: FloatArray) -> FloatArray:
        """Norms of the columns of [1 | a | b], around their means: what is below the constant's row."""
        if not self.intercept:
            return column_norms(triangle)
        return np.concatenate([np.abs(triangle[0, :1]), column_norms(triangle[1:, 1:])])

    def _representative(self, rows: Rows) -> FloatArray:
        """For each column the value nearest to the mean of the first rows: a constant column becomes exactly zero."""
        if not self.intercept:
            return np.zeros(len(self.shift))
        values = np.concatenate([rows.points[:_FIRST_ROWS], rows.targets[:_FIRST_ROWS]], axis=1)
        nearest = np.abs(values - values.mean(axis=0)).argmin(axis=0)
        return np.concatenate([[0.0], values[nearest, np.arange(values.shape[1])]])

    def _with(self, gram: FloatArray, rows: int) -> Moments:
        """The same coordinates with another Gram matrix: a copy that keeps what is cached of them."""
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
        correlation, norms = correlations(gram)
        values, vectors = np.linalg.eigh(correlation)
        if self.reference is not None:
            if values[0] < WELL_CONDITIONED:
                return replace(self, reference=None)._whitened(gram_factor(self.gram))._checked()
            if self.transform is not None:
                simpler = self._based_on(self.shifted_factor, self.rows)
                if simpler.transform is None:
                    return simpler._checked()
        few = int((values < TIGHT).sum())
        floor = values[min(few, len(values) - 1)]
        per_norm = np.divide(1.0, norms, out=np.zeros_like(norms), where=norms > 0)
        reference = Reference(
            rows=self.rows,
            limits=LOSS_OF_DIGITS * values[0] * norms**2,
            scales=per_norm**2 / floor,
            directions=per_norm[:, None] * vectors[:, :few] * np.sqrt(1 / values[:few] - 1 / floor),
            own=self.gram.diagonal() > _DEPENDENT**2 * (gram - self.gram).diagonal(),
        )
        return replace(self, reference=reference)

    # -- coordinates ----------------------------------------------------------------------------

    def coordinates(self, rows: Rows) -> FloatArray:
        """The (n, p) array z of these rows, each scaled by the square root of its weight."""
        m = self._design(rows)
        return m if self.transform is None else m @ self.transform

    def _design(self, rows: Rows) -> FloatArray:
        """The rows ``m - shift``, each scaled by the square root of its weight."""
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

    def _plain_columns(self, rows: Rows) -> tuple[FloatArray, FloatArray]:
        """The columns a (n, d), and [1 | b] transposed, of plain rows: no copy of what is wide."""
        others = np.empty((self.intercept + self.n_targets, len(rows)))
        others[: self.intercept] = 1.0
        others[self.intercept :] = rows.targets.T
        if all_ones(rows.weights):
            return rows.points, others
        root = np.sqrt(rows.weights)
        return rows.points * root[:, None], others * root

    def _plain_gram(self, points: FloatArray, others: FloatArray) -> FloatArray:
        inner, outer = self._inner, self._outer
        gram = np.empty((len(self.shift), len(self.shift)))
        gram[inner, inner] = points.T @ points
        for position, column in zip(outer, others, strict=True):  # faster than one narrow product
            gram[position, inner] = gram[inner, position] = column @ points
            gram[position, outer] = others @ column
        return gram

    def _plain_bounds(self, points: FloatArray, others: FloatArray) -> FloatArray:
        assert self.reference is not None
        scales, directions, inner, outer = self.reference.scales, self.reference.directions, self._inner, self._outer
        bound = np.multiply(points, points, out=scratch.room("squares", points.shape)) @ scales[inner]
        bound += scales[outer] @ (others * others)
        for direction in directions.T:
            along = points @ direction[inner]
            along += direction[outer] @ others
            along *= along
            bound += along
        return np.asarray(bound)

    @cached_property
    def _inner(self) -> slice:
        """Where a stands in [1 | a | b]."""
        return slice(int(self.intercept), self.intercept + self.width)

    @cached_property
    def _outer(self) -> IntArray:
        """Where 1 and b stand in [1 | a | b]."""
        return np.array([*range(self.intercept), *range(self.n_inputs, len(self.shift))], dtype=np.int64)

    def _gram_of(self, rows: Rows) -> FloatArray:
        gram = np.zeros_like(self.gram)
        for piece in rows.pieces():
            if self.is_plain:
                gram += self._plain_gram(*self._plain_columns(piece))
            else:
                z = self.coordinates(piece)
                gram += z.T @ z
        return gram

    # -- what is asked of moments ---------------------------------------------------------------

    def regularised(self) -> FloatArray:
        """The Gram matrix of z plus MU times the squared spreads of m, seen in the same coordinates."""
        if self.transform is None or self.untransform is None:
            return self.gram
        largest = np.abs(self.untransform).max(axis=0)
        unit = self.untransform / largest
        image = self.gram @ unit
        squares = np.einsum("ij,ij->j", unit, image)
        if self.intercept and squares[0] > 0:
            squares[1:] -= (unit[:, 0] @ image[:, 1:]) ** 2 / squares[0]
        penalty = (largest * np.sqrt(np.maximum(squares, 0.0)))[:, None] * self.transform
        return np.asarray(self.gram + MU * (penalty.T @ penalty))

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
        """Upper bounds of the scores of rows that are among those added, in O(p) a row."""
        if self.is_plain:
            bounds = [self._plain_bounds(*self._plain_columns(piece)) for piece in rows.pieces()]
        else:
            bounds = [self._bounds_of(self.coordinates(piece)) for piece in rows.pieces()]
        return np.concatenate(bounds)

    def _bounds_of(self, z: FloatArray) -> FloatArray:
        assert self.reference is not None
        along = z @ self.reference.directions
        return np.asarray((z * z) @ self.reference.scales + np.einsum("ij,ij->i", along, along))
