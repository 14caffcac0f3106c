"""Sums over rows of products of columns, weighted by second derivatives."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from batch2online._types import FloatArray
from batch2online.methods.losses import Logistic, PredictorLoss

_GRAM_ROWS, _GRAM_PRODUCTS = 1_024, 600_000
"""Least number of rows of a piece, and size of one matrix product: BLAS is fastest for small ones."""

_ENTRIES = 32_000
"""Number of entries of a piece of rows."""


def curvature_sum(
    loss: PredictorLoss, design: FloatArray, weights: FloatArray, eta: FloatArray, hessian: FloatArray
) -> FloatArray:
    """Return the sum over rows of ``weight * x x'`` times the second derivatives of the loss, (K p, K p)."""
    (n, p), k = design.shape, eta.shape[1]
    if k == 1:
        return weighted_gram(design, weights * hessian[:, 0])
    assert isinstance(loss, Logistic)
    found, total = loss.probabilities(eta), np.zeros((k * p, k * p))
    for piece in pieces(n, k * p):
        rooted = design[piece] * np.sqrt(weights[piece, None])
        by_class = (found[piece, :, None] * rooted[:, None, :]).reshape(-1, k * p)
        total -= by_class.T @ by_class  # of one array: BLAS computes half of it
        own = (rooted.T @ by_class).reshape(p, k, p)
        for j in range(k):
            total[j * p : (j + 1) * p, j * p : (j + 1) * p] += own[:, j]
    return total


def pieces(n: int, columns: int) -> Iterator[slice]:
    """Return slices of n rows of so many columns that take little memory."""
    step = max(1, _ENTRIES // columns)
    return (slice(start, start + step) for start in range(0, n, step))


def weighted_gram(design: FloatArray, weights: FloatArray) -> FloatArray:
    """Return the sum over rows of ``weight * x x'``, (p, p), a piece of rows at a time."""
    n, p = design.shape
    step = max(_GRAM_ROWS, _GRAM_PRODUCTS // (p * p))
    if n <= step:
        return _weighted_gram(design, weights)
    total = np.zeros((p, p))
    for start in range(0, n, step):
        total += _weighted_gram(design[start : start + step], weights[start : start + step])
    return total


def _weighted_gram(design: FloatArray, weights: FloatArray) -> FloatArray:
    if weights.min(initial=0.0) < 0:
        return np.asarray((design * weights[:, None]).T @ design)
    scaled = design * np.sqrt(weights)[:, None]
    return np.asarray(scaled.T @ scaled)  # half the products of two different factors
