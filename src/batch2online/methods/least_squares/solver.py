"""Solve least squares and ridge regression from second moments, of a weighted coreset or of all rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy.linalg import lapack

from batch2online._types import FloatArray
from batch2online.methods.least_squares.few_rows import FewRows
from batch2online.methods.least_squares.moments import Moments
from batch2online.numerics.triangular import column_norms
from batch2online.rows import Rows
from batch2online.sketches.base import Coreset

TOLERANCE = 1e-6
"""Directions with a singular value of at most this share of the largest one are dropped, see :func:`least_squares`."""

_MARGIN = 10.0
"""Factor by which an estimate of the condition number can be too optimistic."""


_PENALTIES = 2.0 ** np.arange(-12, 9)
"""Penalties that ridge regression chooses from, in multiples of the number of columns."""


_NOISE = 1e-9
"""Rows of a factor of unit columns that are smaller than this are rounding, which any penalty of ridge shrinks to 0."""


_LAPACK_BLOCK = 64
"""Columns that LAPACK applies reflections to at a time, for which it needs work space."""


class LinearSolution(NamedTuple):
    """Coefficients (n_targets, d) and intercepts (n_targets,)."""

    coefficients: FloatArray
    intercepts: FloatArray


def coreset_moments(coreset: Coreset, intercept: bool) -> Moments:
    """Return the moments of a weighted coreset, a pure function of it."""
    assert coreset.targets is not None
    targets = coreset.targets if coreset.targets.ndim == 2 else coreset.targets[:, None]
    rows = Rows(coreset.points, targets, coreset.weights, coreset.ids)
    return Moments.of(rows, intercept)


def least_share(some: Moments, every: Moments) -> float:
    r"""Return the least ratio :math:`|A_s x|^2 / |A x|^2` of inputs that are weighted rows to those of all rows.

    Directions that least squares drops do not count.

    >>> rng = np.random.default_rng(0)
    >>> rows = Rows(rng.normal(size=(50, 2)), np.zeros((50, 1)), np.ones(50), np.arange(50))
    >>> half = Moments.of(Rows(rows.points, rows.targets, rows.weights / 2, rows.ids), intercept=True)
    >>> round(least_share(half, Moments.of(rows, intercept=True)), 6)
    0.5
    """
    inputs, own = every.n_inputs, some.shifted_factor
    if every.intercept:
        own = own + own[:, :1] * (some.shift - every.shift)
    factor = every.shifted_factor[:inputs, :inputs]
    scale = column_norms(factor)
    divisor = np.where(scale > 0, scale, 1.0)
    _, values, turned = np.linalg.svd(factor / divisor)
    live = values > TOLERANCE * values[0]
    if not live.any():
        return 1.0
    whitening = turned[live].T / values[live] / divisor[:, None]
    return float(np.linalg.svd(own[:, :inputs] @ whitening, compute_uv=False)[-1] ** 2)


def least_squares(moments: Moments) -> LinearSolution:
    """Return the minimiser of the squared loss over the rows in ``moments``, without nearly constant directions.

    Columns are centred (next to an intercept) and scaled to norm one. Directions whose singular value is at most
    ``TOLERANCE`` times the largest one are dropped, as ``LinearRegression(tol=1e-6)`` does on standardised columns:
    rows hardly vary along them, so that noise alone would decide their coefficients, and the first row that does vary
    would be predicted anywhere. Of several minimisers it returns the one of least norm in scaled columns.
    """
    return _in_scaled_columns(moments, lambda unit, right, rest: truncated_solution(unit, right))


def ridge(moments: Moments | FewRows, n_rows: float) -> LinearSolution:
    r"""Return the ridge regression of few rows, with the penalty that they make likeliest.

    Columns are centred (next to an intercept) and scaled to variance one, so that the solution moves with the columns
    and the targets. The penalty :math:`\lambda |\beta|^2` is a normal prior for the coefficients: their variance is
    that of the noise over :math:`\lambda`. At :math:`\lambda = d`, the number of columns, signal and noise have the
    same variance, whatever d. The logarithm of :math:`\lambda / d` has a standard normal prior. The posterior mode
    of :math:`\lambda` on a grid, for the marginal likelihood of the targets, takes a strong signal almost as it is and
    leaves little of a weak one. ``n_rows`` is the effective number of rows.
    """

    def solve(unit: FloatArray, right: FloatArray, rest: FloatArray) -> FloatArray:
        return shrunk_solution(unit, right, rest, n_rows, n_rows - moments.intercept)

    return _in_scaled_columns(moments, solve)


def _in_scaled_columns(
    moments: Moments | FewRows, solve: Callable[[FloatArray, FloatArray, FloatArray], FloatArray]
) -> LinearSolution:
    """Return the solution that ``solve`` gives for columns that are centred and scaled to norm one.

    It receives a factor (k, d) of theirs, triangular but for few rows, the targets in its coordinates (k, n_targets),
    and a factor of what the columns leave of the targets.
    """
    means, centred, right, rest = moments.centred_factor
    scale = column_norms(centred)
    divisor = np.where(scale > 0, scale, 1.0)
    solution = solve(centred / divisor, right, rest)
    coefficients = (solution / divisor[:, None]).T.copy()
    if means is None:
        return LinearSolution(coefficients, np.zeros(moments.n_targets))
    inputs, targets = means[1 : moments.n_inputs], means[moments.n_inputs :]
    return LinearSolution(coefficients, targets - coefficients @ inputs)


def truncated_solution(factor: FloatArray, right: FloatArray) -> FloatArray:
    """Return the least-squares solution for a triangular factor of unit columns, without directions to drop."""
    condition, _ = lapack.dtrcon(factor)
    if condition > _MARGIN * len(factor) * TOLERANCE:  # in the 1-norm: at most p times that of singular values
        solution, _ = lapack.dtrtrs(factor, right)
        return np.asarray(solution)
    return np.asarray(np.linalg.lstsq(factor, right, rcond=TOLERANCE)[0])


def shrunk_solution(
    factor: FloatArray, right: FloatArray, rest: FloatArray, n_rows: float, freedom: float
) -> FloatArray:
    """Return the solution of :func:`ridge` for a factor of unit columns.

    ``freedom`` is the number of rows less one for an intercept. With the inner products K of the rows of the factor,
    the share ``penalty * y' (K + penalty)^-1 y`` of targets y of length one is not explained, and the complexity is
    ``log det (K + penalty) - log det penalty``. Both follow from a tridiagonal form of K, for any penalty in linear
    time. Penalties are far above the rounding of K.
    """
    lengths = column_norms(np.concatenate([right, rest]))
    live = lengths > 0
    strong = np.abs(factor).max(axis=1, initial=0.0) > _NOISE  # fewer rows than columns leave the others next to zero
    few = factor[strong]
    if not len(few):
        return np.zeros((factor.shape[1], right.shape[1]))
    form = Tridiagonal.of(few @ few.T)
    along, rest = form.rotated(right[strong]), np.concatenate([rest, right[~strong]])
    unit, rest_shares = along[:, live] / lengths[live], np.square(rest[:, live] / lengths[live]).sum(axis=0)
    n_columns = max(1, int(np.count_nonzero(factor.any(axis=0))))
    penalties = np.asarray(_PENALTIES * (n_columns / n_rows))
    solutions, log_determinants = form.solved(unit, penalties)
    shares = rest_shares + penalties[:, None] * np.einsum("ij,kij->kj", unit, solutions)
    complexity = unit.shape[1] * (log_determinants - len(few) * np.log(penalties))
    misfits = np.log(shares).sum(axis=1)
    best = int(np.argmin(freedom * misfits + complexity + np.square(np.log(_PENALTIES))))
    solution = form.solved(along, penalties[best : best + 1])[0][0]
    return np.asarray(few.T @ form.rotated_back(solution))


class Tridiagonal(NamedTuple):
    """``K = Q T Q'`` with a tridiagonal T, in a fifth of the time of eigenvectors."""

    reflectors: FloatArray  # of Q, which leaves the first coordinate as it is
    scales: FloatArray
    diagonal: FloatArray
    beside: FloatArray

    @classmethod
    def of(cls, matrix: FloatArray) -> Tridiagonal:
        """Return the form of a symmetric matrix."""
        n = len(matrix)
        if n == 1:
            return cls(np.empty((0, 0)), np.empty(0), matrix[0], np.empty(0))
        work, _ = lapack.dsytrd_lwork(n, lower=1)
        packed, diagonal, beside, scales, _ = lapack.dsytrd(matrix, lower=1, lwork=int(work))
        return cls(np.asfortranarray(packed[1:, :-1]), scales, diagonal, beside)

    def rotated(self, columns: FloatArray) -> FloatArray:
        """Return ``Q' columns``."""
        return self._reflected(columns, "T")

    def rotated_back(self, columns: FloatArray) -> FloatArray:
        """Return ``Q columns``."""
        return self._reflected(columns, "N")

    def _reflected(self, columns: FloatArray, transposed: str) -> FloatArray:
        if not len(self.scales):
            return columns
        work = _LAPACK_BLOCK * max(1, columns.shape[1])
        rest, *_ = lapack.dormqr("L", transposed, self.reflectors, self.scales, columns[1:], lwork=work)
        return np.concatenate([columns[:1], rest])

    def solved(self, columns: FloatArray, penalties: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return ``(T + penalty)^-1 columns`` and the logarithm of the determinant of ``T + penalty`` for each penalty.

        The systems of all penalties are the blocks of a single one.
        """
        many, n = len(penalties), len(self.diagonal)
        diagonal = np.add.outer(penalties, self.diagonal)
        if n == 1:
            return columns / diagonal[..., None], np.log(diagonal[:, 0])
        beside = np.tile(np.append(self.beside, 0.0), many)[:-1]
        pivots, _, solutions, _ = lapack.dptsv(diagonal.reshape(-1), beside, np.tile(columns, (many, 1)))
        return solutions.reshape(many, n, -1), np.log(pivots).reshape(many, n).sum(axis=1)
