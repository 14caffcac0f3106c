"""Scores from scratch: pure functions of all rows at once, what every incremental path must equal."""

from __future__ import annotations

import numpy as np

from batch2online._types import FloatArray
from batch2online.moments import MU
from batch2online.triangular import column_norms, inverse, qr_factor


def leverage(rows: FloatArray) -> FloatArray:
    r"""Leverage scores :math:`\tau_i = m_i^T (M^T M + \mu\,\mathrm{diag}(M^T M))^{-1} m_i` of all rows of M (n, p).

    By Householder QR of M with columns scaled to norm one; a zero column drops out.

    >>> leverage(np.array([[1.0], [1.0], [2.0]])).round(3).tolist()
    [0.167, 0.167, 0.667]
    """
    norms = column_norms(rows)
    live = norms > 0
    unit = rows[:, live] / norms[live]
    factor = qr_factor(unit, np.sqrt(MU) * np.eye(unit.shape[1]))
    return np.asarray(np.square(unit @ inverse(factor)).sum(axis=1))


def ridge_leverage(rows: FloatArray, rank: int) -> FloatArray:
    r"""Ridge leverage scores :math:`m_i^T (M^T M + \lambda I)^{-1} m_i`, :math:`\lambda = |M - M_k|_F^2 / k`, of M.

    By the singular values of M, with the floor of lambda that keeps rows of rank k from being a special case.

    >>> ridge_leverage(np.array([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]]), rank=1).round(3).tolist()
    [0.333, 0.333, 0.5]
    """
    scale = float(np.abs(rows).max(initial=0.0))
    if scale == 0:
        return np.zeros(len(rows))
    left, sigma, _ = np.linalg.svd(rows / scale, full_matrices=False)
    squares = sigma**2
    ridge = max(squares[rank:].sum() / rank, MU * squares.sum())
    return np.asarray(np.square(left) @ (squares / (squares + ridge)))
