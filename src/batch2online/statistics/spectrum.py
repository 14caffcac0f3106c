"""The leading part of the spectrum of a Gram matrix: from the matrix, from its factor, or from few rows."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import eigh, lapack

from batch2online._types import FloatArray
from batch2online.core.registry import storable

_SMALL = 64
"""Columns up to which the whole spectrum is faster than its leading part."""

_LARGE = 150
"""Columns from which on the Lanczos method is tried first, for a rank that is small beside them."""

_MOST_RANK = 0.1
_SLACK = 1e-9
_MOST_STEPS = 10
"""Restarts after which it is not worth to go on."""


@storable
@dataclass(frozen=True)
class Spectrum:
    """Eigenvalues of a Gram matrix in units of ``scale`` squared: the leading ones, and the sum of all others."""

    values: FloatArray  # (k,) descending
    vectors: FloatArray  # (p, k)
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
    """Return the leading eigenvalues, ascending, and their vectors, if it is certain that these are the leading ones.

    The method may miss one that is repeated, or nearly so. No other is larger than the least of them if what is left of
    the matrix stays below it, which a Cholesky factor proves.
    """
    from scipy.sparse.linalg import ArpackError, eigsh

    start = np.cos(np.arange(1.0, len(gram) + 1))  # fixed, and in no direction that data would have
    try:
        values, vectors = eigsh(gram, k, which="LA", v0=start, maxiter=_MOST_STEPS)
    except ArpackError:
        return None
    bound = (1 + _SLACK) * float(values[0])
    below = (vectors * values) @ vectors.T - gram
    below[np.diag_indices_from(below)] += bound
    return (values, vectors) if bound > 0 and lapack.dpotrf(below, overwrite_a=1)[1] == 0 else None


def leading_of_few(z: FloatArray, rank: int) -> Spectrum:
    """Return the same of the Gram matrix of rows that are fewer than their columns, from their inner products."""
    n = len(z)
    k = min(rank, n)
    inner = z @ z.T
    values, vectors = eigh(inner, subset_by_index=[n - k, n - 1], check_finite=False)
    values = np.maximum(values[::-1], 0.0)
    directions = z.T @ vectors[:, ::-1]
    lengths = np.sqrt(np.einsum("ij,ij->j", directions, directions))
    directions /= np.where(lengths > 0, lengths, 1.0)
    return Spectrum(values, directions, max(0.0, float(inner.trace() - values.sum())), 1.0)
