"""Second moments of rows ``m = [1 | a | b]``, kept in coordinates where they are well conditioned.

A plain Gram matrix loses half of the digits: leverage scores from it are wrong from condition number
1e8 on. A factor updated by QR does not, at five to eight times the cost. Here the Gram matrix is kept
of ``z = (m - shift) T`` with an upper triangular T chosen by the data:

- *plain*: no shift and no T, for rows that are well conditioned as they come: the cost of ``X.T @ X``;
- *shifted*: values near the mean of the first rows are subtracted (only next to a constant column,
  where that leaves leverage scores unchanged);
- *whitened*: T is the inverse of an earlier triangular factor of the data.

A bound on the condition number is carried along in O(p) a block. A block that would break it (one row
a billion times the others, a column that wakes up) is absorbed by QR instead, and the coordinates
are whitened anew where needed. All of it is the same mathematical quantity, the moments of m, and every
score and cost is a function of those; only the rounding depends on the path.

No rank is ever decided: scores use ``G + MU * diag(G)`` (in the coordinates of m), which is antitone and
invariant under column scaling. Columns that are zero so far stay decoupled.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from batch2online._types import FloatArray
from batch2online.coreset import Rows
from batch2online.storage import storable
from batch2online.triangular import cholesky, column_norms, inverse, qr_factor

MU = 1e-24
"""Relative regularisation of every column: far below any signal, far above the rounding of QR."""

WELL_CONDITIONED = 1e-3
"""Least eigenvalue of the correlations at which coordinates are kept."""

LOSS_OF_DIGITS = 1e5
"""Growth of a column since the last check, over the least eigenvalue then, beyond which QR steps in."""

TIGHT = 0.25
"""Eigenvalues of the correlations below this get a direction of their own in the cheap score bound."""

_EXTREME = 2.0**400


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
    whitening: FloatArray  # (p, p) inverse triangular factor


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

    @property
    def is_plain(self) -> bool:
        return self.transform is None and not self.shift.any()

    # -- adding ---------------------------------------------------------------------------------

    def add(self, rows: Rows) -> Moments:
        """The moments with these rows added."""
        if len(rows) == 0:
            return self
        with np.errstate(over="ignore", invalid="ignore", under="ignore"):
            if self.reference is None:
                return self._first(rows)
            grown = self.gram + self._block_gram(rows)
            if not (grown.diagonal() <= self.reference.limits).all():
                return self._absorb(self.coordinates(rows), len(rows))
            new = replace(self, gram=grown, rows=self.rows + len(rows))
            return new._checked() if new.rows >= 2 * self.reference.rows else new

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
            return self._absorb(rows if self.transform is None else rows @ self.transform, other.rows)

    def _first(self, rows: Rows) -> Moments:
        """The cheapest coordinates in which the first rows are well conditioned."""
        total = self.rows + len(rows)
        shift = self._representative(rows)
        for candidate in (np.zeros_like(shift), shift) if shift.any() else (shift,):
            start = replace(self, shift=candidate, rows=total)
            tried = replace(start, gram=start._block_gram(rows))
            if tried._is_well_conditioned():
                return tried._checked()
        start = replace(self, shift=shift)
        return start._absorb(start.coordinates(rows), len(rows))

    def _absorb(self, z: FloatArray, count: int) -> Moments:
        """Add rows given in the present coordinates by QR, then whiten if the result asks for it."""
        start = self._scaled_for(z)
        if start.transform is not None and self.transform is None:
            z = z @ start.transform
        factor = qr_factor(start._factor(), z)
        kept = replace(start, gram=factor.T @ factor, rows=self.rows + count)
        return kept._checked() if kept._is_well_conditioned() else kept._whitened(factor)

    def _scaled_for(self, z: FloatArray) -> Moments:
        """With extreme magnitudes the first whitening starts from powers of two, which are exact."""
        if self.transform is not None:
            return self
        largest = np.maximum(np.abs(z).max(axis=0, initial=0.0), np.sqrt(self.gram.diagonal()))
        extreme = (largest > 0) & ((largest > _EXTREME) | (largest < 1 / _EXTREME))
        if not extreme.any():
            return self
        scale = np.where(extreme, 2.0 ** -np.frexp(largest)[1].astype(np.float64), 1.0)
        return replace(
            self, transform=np.diag(scale), untransform=np.diag(1 / scale), gram=self.gram * scale * scale[:, None]
        )

    def _whitened(self, factor: FloatArray) -> Moments:
        """New coordinates in which the rows of ``factor`` (in the present ones) have Gram matrix one."""
        p = len(factor)
        transform = np.eye(p) if self.transform is None else self.transform
        untransform = np.eye(p) if self.untransform is None else self.untransform
        scale = column_norms(factor @ untransform)
        regular = qr_factor(factor, np.sqrt(MU) * scale[:, None] * transform)
        dead = np.flatnonzero(regular.diagonal() == 0)
        regular[dead, dead] = 1.0
        new = regular @ untransform
        white = factor @ inverse(regular)
        return replace(self, transform=inverse(new), untransform=new, gram=white.T @ white)._checked(whiten=False)

    def _representative(self, rows: Rows) -> FloatArray:
        """For each column the value nearest to its mean: a constant column becomes exactly zero."""
        if not self.intercept:
            return np.zeros(len(self.shift))
        values = np.concatenate([rows.points, rows.targets], axis=1)
        nearest = np.abs(values - values.mean(axis=0)).argmin(axis=0)
        return np.concatenate([[0.0], values[nearest, np.arange(values.shape[1])]])

    # -- conditioning ---------------------------------------------------------------------------

    def _is_well_conditioned(self) -> bool:
        diagonal = self.gram.diagonal()
        positive = diagonal[diagonal > 0]
        if not np.isfinite(diagonal).all() or (positive > _EXTREME).any() or (positive < 1 / _EXTREME).any():
            return False
        return bool(self._correlation_eigenvalues(self.gram)[0][0] >= WELL_CONDITIONED)

    @staticmethod
    def _correlation_eigenvalues(gram: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Eigenvalues and vectors of the correlations (a zero column counts as one by itself), and norms."""
        norms = np.sqrt(gram.diagonal())
        divisor = np.where(norms > 0, norms, 1.0)
        correlation = gram / divisor / divisor[:, None]
        correlation[norms == 0, norms == 0] = 1.0
        values, vectors = np.linalg.eigh(correlation)
        return values, vectors, norms

    def _checked(self, whiten: bool = True) -> Moments:
        """With a new reference, in whitened coordinates where the present ones are poor."""
        gram = self.regularised()
        values, vectors, norms = self._correlation_eigenvalues(gram)
        if whiten and values[0] < WELL_CONDITIONED:
            return self._whitened(self._factor())
        few = int((values < TIGHT).sum())
        floor = values[min(few, len(values) - 1)]
        per_norm = np.divide(1.0, norms, out=np.zeros_like(norms), where=norms > 0)
        reference = Reference(
            rows=self.rows,
            limits=LOSS_OF_DIGITS * values[0] * norms**2,
            scales=per_norm**2 / floor,
            directions=per_norm[:, None] * vectors[:, :few] * np.sqrt(1 / values[:few] - 1 / floor),
            whitening=inverse(self._factor()),
        )
        return replace(self, reference=reference)

    # -- coordinates ----------------------------------------------------------------------------

    def coordinates(self, rows: Rows) -> FloatArray:
        """The (n, p) array z of these rows, each scaled by the square root of its weight."""
        i, d = self.intercept, self.width
        z = np.empty((len(rows), len(self.shift)))
        z[:, :i] = 1.0
        z[:, i : i + d] = rows.points
        z[:, i + d :] = rows.targets
        if self.shift.any():
            z -= self.shift
        if not _unweighted(rows):
            z *= np.sqrt(rows.weights)[:, None]
        return z if self.transform is None else z @ self.transform

    def _block_gram(self, rows: Rows) -> FloatArray:
        if not self.is_plain:
            z = self.coordinates(rows)
            return z.T @ z
        points, others = rows.points, rows.targets
        if self.intercept:
            others = np.concatenate([np.ones((len(rows), 1)), rows.targets], axis=1)
        if not _unweighted(rows):
            root = np.sqrt(rows.weights)[:, None]
            points, others = points * root, others * root
        return self._assembled(points.T @ points, points.T @ others, others.T @ others)

    def _assembled(self, points: FloatArray, mixed: FloatArray, others: FloatArray) -> FloatArray:
        """One symmetric matrix in the column order [1 | a | b]."""
        i, d = int(self.intercept), self.width
        gram = np.empty((len(self.shift), len(self.shift)))
        outer = np.r_[0:i, i + d : len(gram)]
        gram[i : i + d, i : i + d] = points
        gram[i : i + d, outer] = mixed
        gram[outer, i : i + d] = mixed.T
        gram[np.ix_(outer, outer)] = others
        return gram

    # -- what is asked of moments ---------------------------------------------------------------

    def regularised(self) -> FloatArray:
        """The Gram matrix of z plus MU times the diagonal of that of m, seen in the same coordinates."""
        if self.transform is None or self.untransform is None:
            return self.gram
        largest = np.abs(self.untransform).max(axis=0)
        unit = self.untransform / largest
        norms = largest * np.sqrt(np.maximum(np.einsum("ij,ij->j", unit, self.gram @ unit), 0.0))
        penalty = norms[:, None] * self.transform
        return self.gram + MU * (penalty.T @ penalty)

    def _factor(self) -> FloatArray:
        """Upper triangular factor of the regularised Gram matrix of z."""
        factor = cholesky(self.regularised())
        if factor is None:
            raise ArithmeticError("the moments lost positive definiteness")
        return factor

    @cached_property
    def shifted_factor(self) -> FloatArray:
        """Upper triangular R whose rows stand for all rows ``m - shift``: R'R is their Gram matrix."""
        factor = self._factor()
        return factor if self.untransform is None else factor @ self.untransform

    def scores(self, rows: Rows, *, with_targets: bool = True) -> FloatArray:
        """Leverage scores of rows that are among those added."""
        if self.reference is None:
            return np.zeros(len(rows))
        return self._norms(rows, inverse(self._factor()), with_targets)

    def refined_bounds(self, rows: Rows, *, with_targets: bool = True) -> FloatArray:
        """Upper bounds of the scores now and ever after, at the cost of the scores themselves."""
        assert self.reference is not None
        return self._norms(rows, self.reference.whitening, with_targets)

    def _norms(self, rows: Rows, whitening: FloatArray, with_targets: bool) -> FloatArray:
        last = len(whitening) if with_targets else self.n_inputs
        white = self.coordinates(rows) @ whitening[:, :last]
        return np.minimum(1.0, np.einsum("ij,ij->i", white, white))

    def bounds(self, rows: Rows) -> FloatArray:
        """Upper bounds of the scores now and ever after in O(p) a row, see :class:`Reference`."""
        assert self.reference is not None
        scales, directions = self.reference.scales, self.reference.directions
        if not self.is_plain:
            z = self.coordinates(rows)
            bound = (z * z) @ scales
            return bound + np.square(z @ directions).sum(axis=1) if directions.size else bound
        i, d = int(self.intercept), self.width
        points, targets = rows.points, rows.targets
        bound = (points * points) @ scales[i : i + d]
        bound += (targets * targets) @ scales[i + d :]
        bound += scales[:i].sum()
        if directions.size:
            along = points @ directions[i : i + d] + targets @ directions[i + d :] + directions[:i].sum(axis=0)
            bound += np.square(along).sum(axis=1)
        return bound if _unweighted(rows) else bound * rows.weights


def _unweighted(rows: Rows) -> bool:
    return bool((rows.weights == 1.0).all())
