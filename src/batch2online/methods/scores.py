"""Scores as pure functions of all rows at once, which every incremental computation must equal."""

from __future__ import annotations

import numpy as np

from batch2online._types import FloatArray, IntArray
from batch2online.methods.clustering.race import exponentials, race_keys
from batch2online.methods.least_squares.moments import RIDGE
from batch2online.numerics.distances import nearest, power, squared_distances
from batch2online.numerics.triangular import column_norms, inverse, qr_factor

_LEWIS_TURNS, _LEWIS_ACCURACY = 60, 1e-6


def leverage(rows: FloatArray, *, intercept: bool = False) -> FloatArray:
    r"""Return leverage scores :math:`\tau_i = m_i^T (M^T M + \mu D)^{-1} m_i` of all rows of M (n, p).

    D holds the sum of squares of each column. With ``intercept`` the first column is the constant one (times the
    root of the rows' weights) and D is taken around the means. By Householder QR of M with its columns scaled to
    norm one; a column that is zero (or constant) drops out.

    >>> leverage(np.array([[1.0], [1.0], [2.0]])).round(3).tolist()
    [0.167, 0.167, 0.667]
    """
    spreads = column_norms(rows)
    if intercept:
        rows = np.column_stack([rows[:, :1], _shifted(rows[:, 1:], rows[:, :1])])
        spreads[1:] = column_norms(qr_factor(rows)[1:, 1:])
    norms = column_norms(rows)
    live = norms > 0
    if not live.any():
        return np.zeros(len(rows))
    unit = rows[:, live] / norms[live]
    factor = qr_factor(unit, np.sqrt(RIDGE) * np.diag(spreads[live] / norms[live]))
    return np.asarray(np.square(unit @ inverse(factor)).sum(axis=1))


def _shifted(columns: FloatArray, constant: FloatArray) -> FloatArray:
    """Return columns less the multiple of the constant that is nearest to their mean: leverage is the same.

    Where rows have different weights, the division returns equal values with different last digits.
    """
    values = columns / constant
    nearest = np.abs(values - values.mean(axis=0)).argmin(axis=0)
    differences = values - values[nearest, np.arange(values.shape[1])]
    if constant.min() != constant.max():
        differences[np.abs(differences) <= 4 * np.finfo(np.float64).eps * np.abs(values)] = 0.0
    return np.asarray(differences * constant)


def ridge_leverage(rows: FloatArray, rank: int, *, intercept: bool = False) -> FloatArray:
    r"""Return ridge leverage scores :math:`m_i^T (M^T M + \lambda I)^{-1} m_i`, :math:`\lambda = |M - M_k|_F^2 / k`.

    By the singular values of M, with the floor of lambda that keeps rows of rank k from being a special case. With
    ``intercept`` the first column is the constant one (times the root of the rows' weights). It has no penalty: the
    score is a row's share of the weight plus the score of the other columns less their mean.

    >>> ridge_leverage(np.array([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]]), rank=1).round(3).tolist()
    [0.333, 0.333, 0.5]
    >>> ridge_leverage(np.array([[1.0, 8.0], [1.0, 8.0], [1.0, 9.0]]), rank=1, intercept=True).round(3).tolist()
    [0.5, 0.5, 1.0]
    """
    if intercept:
        constant = rows[:, :1]
        shares = np.square(constant[:, 0]) / np.square(constant).sum()
        others = _shifted(rows[:, 1:], constant)
        means = np.einsum("ij,ij->j", constant, others) / np.square(constant).sum()
        return np.asarray(shares + ridge_leverage(others - constant * means, rank))
    scale = float(np.abs(rows).max(initial=0.0))
    if scale == 0:
        return np.zeros(len(rows))
    left, sigma, _ = np.linalg.svd(rows / scale, full_matrices=False)
    squares = sigma**2
    ridge = max(squares[rank:].sum() / rank, RIDGE * squares.sum())
    return np.asarray(np.square(left) @ (squares / (squares + ridge)))


def lewis(rows: FloatArray, p: float) -> FloatArray:
    r"""Return Lewis weights, the w with :math:`w_i^{2/p} = a_i^T (A^T W^{1-2/p} A)^{-1} a_i`, for 0 < p < 4.

    For p up to 2 they bound the share that a row can have in :math:`|Ax|_p^p`; they sum to the rank of A, and are the
    leverage scores for p = 2. By the fixed-point iteration of Cohen & Peng (STOC 2015), which shrinks the logarithmic
    error by \|p/2 - 1\| at each turn.

    >>> lewis(np.array([[1.0], [1.0], [2.0]]), p=1).round(3).tolist()
    [0.25, 0.25, 0.5]
    """
    if not 0 < p < 4:
        raise ValueError(f"p must be between 0 and 4, got {p!r}.")
    live = np.abs(rows).max(axis=1, initial=0.0) > 0
    weights = np.zeros(len(rows))
    weights[live] = _lewis_of_nonzero(rows[live], p)
    return weights


def _lewis_of_nonzero(rows: FloatArray, p: float) -> FloatArray:
    weights, least = np.ones(len(rows)), _least_weight(p)
    for _ in range(_LEWIS_TURNS):
        scaled = leverage(rows * (weights ** (0.5 - 1 / p))[:, None])
        new = np.maximum((scaled * weights ** (2 / p - 1)) ** (p / 2), least)
        settled = np.abs(new - weights).max(initial=0.0) <= _LEWIS_ACCURACY * new.max(initial=0.0)
        weights = new
        if settled:
            break
    return weights


def _least_weight(p: float) -> float:
    """Return a lower bound of weights: none of 1e30 such rows would be kept, and its powers are representable."""
    return float(10.0 ** max(-30.0, -150.0 / max(abs(2 / p - 1), 1e-9)))


def clustering_seeds(
    points: FloatArray, k: int, z: float, seed: int, weights: FloatArray | None = None, ids: IntArray | None = None
) -> IntArray:
    """Return positions of the D^z seeds of all points: stage by stage, the point of least ``E / (w D^z)``.

    Fewer than k if fewer points are distinct. The incremental race must equal it.

    >>> clustering_seeds(np.array([[0.0], [0.0], [1.0]]), k=3, z=2.0, seed=1).tolist()
    [0, 2]
    """
    n = len(points)
    weights = np.ones(n) if weights is None else weights
    ids = np.arange(n) if ids is None else ids
    chosen: list[int] = []
    squared = np.full(n, np.inf)
    for stage in range(k):
        losses = power(squared, z) if stage else np.ones(n)
        keys = race_keys(exponentials(seed, ids, np.full(n, stage)), weights, losses)
        if not np.isfinite(keys).any():
            break
        chosen.append(int(keys.argmin()))
        np.minimum(squared, squared_distances(points, points[chosen[-1:]])[0], out=squared)
    return np.array(chosen, dtype=np.int64)


def clustering(
    points: FloatArray, seeds: FloatArray, k: int, z: float, weights: FloatArray | None = None
) -> FloatArray:
    r"""Return sensitivity scores :math:`w (|x - c|^z / cost + 1 / W_c) / (1 + k)` for seeds c, which sum to 1 at most.

    >>> clustering(np.array([[0.0], [2.0], [9.0]]), np.array([[0.0], [9.0]]), k=2, z=2.0).round(3).tolist()
    [0.167, 0.5, 0.333]
    """
    weights = np.ones(len(points)) if weights is None else weights
    labels, squared = nearest(points, seeds)
    losses = weights * power(squared, z)
    cost, masses = losses.sum(), np.bincount(labels, weights, len(seeds))
    return np.asarray((losses / (cost or 1.0) + weights / masses[labels]) / (1 + k))
