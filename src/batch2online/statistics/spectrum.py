"""The leading part of the spectrum of a Gram matrix: from the matrix, from its factor, or from few rows."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import eigh

from batch2online._types import FloatArray
from batch2online.core.registry import storable

_SMALL = 64
"""Columns up to which the whole spectrum is faster than its leading part."""


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
            values, vectors = eigh(gram, subset_by_index=[p - k, p - 1], check_finite=False)
        values = np.maximum(values[::-1], 0.0)
        return Spectrum(values, vectors[:, ::-1].copy(), max(0.0, float(gram.trace() - values.sum())), 1.0)
    assert factor is not None
    scale = 2.0 ** float(np.frexp(np.abs(factor).max(initial=0.0))[1])
    _, sigma, right = np.linalg.svd(factor / scale)
    squares = sigma**2
    return Spectrum(squares[:rank], right[:rank].T.copy(), float(squares[rank:].sum()), scale)


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
