"""Dense factorisations by direct LAPACK calls; factors are upper triangular R, with R'R the Gram matrix.

SciPy's general wrappers cost more than the factorisation of a 20 x 20 matrix does.
"""

from __future__ import annotations

import numpy as np
from scipy.linalg import blas, lapack

from batch2online._types import FloatArray

_PIECE = 1_024
"""Number of rows whose products are in memory at a time."""

NARROW = 64
"""Number of columns up to which a general product is as fast as one with a triangle, and faster than a solve."""


_ROUNDING = 1e-3
"""Entries below this share of a threshold do not decide whether a column depends on others."""


def correlations(gram: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return a Gram matrix with columns scaled to norm one, and the norms; a zero column is decoupled."""
    norms = np.sqrt(gram.diagonal())
    divisor = np.where(norms > 0, norms, 1.0)
    correlation = gram / divisor / divisor[:, None]
    correlation[norms == 0, norms == 0] = 1.0
    return correlation, norms


def gram_factor(gram: FloatArray) -> FloatArray:
    """Return R with ``R'R = gram``, by Cholesky, or by eigenvalues if columns depend on each other."""
    correlation, norms = correlations(gram)
    factor, info = lapack.dpotrf(correlation, clean=1)
    if info != 0:
        values, vectors = np.linalg.eigh(correlation)
        factor = qr_factor(np.sqrt(np.maximum(values, 0.0))[:, None] * vectors.T)
    return np.asarray(factor * norms)


def definite_factor(gram: FloatArray) -> tuple[FloatArray | None, float]:
    """Return R with ``R'R = gram`` by Cholesky alone, and the reciprocal condition number of the correlations.

    The latter is an estimate. If Cholesky breaks down, since columns depend on each other up to rounding, return None
    and 0.
    """
    correlation, norms = correlations(gram)
    factor, info = lapack.dpotrf(correlation, clean=1)
    if info != 0:
        return None, 0.0
    norm = float(np.abs(correlation).sum(axis=0).max())
    return factor * norms, float(lapack.dpocon(factor, norm)[0])


def inverse(factor: FloatArray) -> FloatArray:
    """Return the inverse of an upper triangular factor; zero rows and columns become decoupled units."""
    dead = factor.diagonal() == 0
    if dead.any():
        factor = factor + np.diag(dead.astype(np.float64))
    result, _ = lapack.dtrtri(factor)
    return np.ascontiguousarray(np.triu(result))


def inverse_root(gram: FloatArray, ridge: float = 1e-9) -> FloatArray:
    """Return upper W with ``W W' = gram^-1``, after a ridge of this share of each diagonal entry."""
    correlation, norms = correlations(gram)
    values = correlation + ridge * np.eye(len(gram))
    factor, info = lapack.dpotrf(values, clean=1)
    if info != 0:  # rounding has made it indefinite by more than the ridge
        factor = gram_factor(values + np.sqrt(ridge) * np.eye(len(gram)))
    return np.asarray(inverse(factor) / np.where(norms > 0, norms, 1.0)[:, None])


def squared_lengths(rows: FloatArray, root: FloatArray) -> FloatArray:
    """Return squared lengths of ``rows @ root``, a piece of rows at a time."""
    result = np.empty(len(rows))
    for piece in (slice(start, start + _PIECE) for start in range(0, len(rows), _PIECE)):
        own = rows[piece] @ root
        result[piece] = np.vecdot(own, own)
    return result


def triangular_product(rows: FloatArray, triangle: FloatArray) -> FloatArray:
    """Return ``rows @ triangle`` for an upper triangle, in two thirds of the time of a general product if wide."""
    if len(triangle) <= NARROW or not len(rows):
        return rows @ triangle
    return np.asarray(blas.dtrmm(1.0, triangle.T, rows.T, lower=1).T)


def whitened(rows: FloatArray, factor: FloatArray) -> FloatArray:
    """Return ``rows @ inverse(factor)``, by a triangular solve for fewer rows than columns."""
    if len(factor) <= NARROW or len(rows) >= len(factor):
        return triangular_product(rows, inverse(factor))
    dead = factor.diagonal() == 0
    if dead.any():
        factor = factor + np.diag(dead.astype(np.float64))
    return np.asarray(blas.dtrsm(1.0, np.asfortranarray(factor), rows.T, trans_a=1).T)


def qr_factor(*stacked: FloatArray) -> FloatArray:
    """Return the p x p factor R of the rows of all arguments, by Householder reflections."""
    matrix = np.concatenate(stacked)
    matrix = matrix[matrix.any(axis=1)]  # factors of few rows are mostly zeros
    n, p = matrix.shape
    factor = np.zeros((p, p))
    if n:
        work, _ = lapack.dgeqrf_lwork(*matrix.shape)
        reflectors, *_ = lapack.dgeqrf(matrix, lwork=int(work))
        factor[:n] = np.triu(reflectors[:p])
    return factor


def decoupled_factor(matrix: FloatArray, thresholds: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return upper R and Z with ``matrix = Z R``, Z orthonormal except for columns that nearly depend on earlier ones.

    A column whose own part is at most its threshold has a unit diagonal and a zero row in R: that part stays in Z, and
    no later column is orthogonalised against it. Gram-Schmidt, done twice. Rows far below all thresholds are rounding
    and left out. After as many directions as rows, the other columns depend on these.
    """
    matrix = matrix[(np.abs(matrix) > _ROUNDING * thresholds).any(axis=1)]
    (rows, p), n = matrix.shape, 0
    basis, found, factor = np.empty(matrix.shape, order="F"), np.zeros_like(matrix), np.eye(p)
    live = np.empty(p, dtype=np.int64)  # the columns that the n directions of the basis come from
    for j in range(p):
        if n == rows:
            factor[live[:n], j:] = basis[:, :n].T @ matrix[:, j:]
            break
        own, known = matrix[:, j], basis[:, :n]
        along = known.T @ own
        own = own - known @ along
        again = known.T @ own
        own = own - known @ again
        factor[live[:n], j] = along + again
        length = float(np.sqrt(own @ own))
        if length > thresholds[j]:
            own, factor[j, j] = own / length, length
            basis[:, n], live[n], n = own, j, n + 1
        found[:, j] = own
    return factor, found


def column_norms(matrix: FloatArray) -> FloatArray:
    """Return Euclidean norms of the columns, safe from overflow and underflow of the squares."""
    largest = np.abs(matrix).max(axis=0, initial=0.0)
    divisor = np.where(largest > 0, largest, 1.0)
    return np.asarray(largest * np.sqrt(((matrix / divisor) ** 2).sum(axis=0)))
