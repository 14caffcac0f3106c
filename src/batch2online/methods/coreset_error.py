"""Measured error of a coreset: the largest relative error of the cost, over all models of a problem."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from batch2online._types import FloatArray
from batch2online.methods.clustering.coreset_error import errors
from batch2online.numerics.triangular import column_norms
from batch2online.sketches.base import Coreset
from batch2online.validation import check_rows, check_targets, check_weights

PROBLEMS = ("clustering", "regression", "low_rank")

_STRIDE = 10_000
_NEGLIGIBLE = 1e-10
"""Singular values below this share of the largest are rounding: no row has a part in their directions."""

_FLOOR, _TURNS, _CONVERGED = 1e-12, 60, 1e-13


def error(
    coreset: Coreset,
    rows: Any,
    targets: Any = None,
    *,
    problem: str = "clustering",
    k: int = 5,
    intercept: bool = False,
    weights: Any = None,
    **settings: Any,
) -> float:
    r"""Return the largest relative error :math:`|cost(coreset) / cost(rows) - 1|` over the models of a problem.

    ============== ===================================================================================================
    "clustering"   Over many sets of k centers (Definition 5.1), a lower bound: see :func:`errors`.
    "regression"   Over all linear models of the targets, and all combinations of columns: the rows ``[1 | a | b]`` are
                   a subspace embedding (Definition 8.2) with this error. Exact, by singular values.
    "low_rank"     Over all subspaces of dimension k: the coreset preserves projection costs (Definition 7.1) with this
                   error. Exact, by the roots of a sum of eigenvalues.
    ============== ===================================================================================================

    Parameters
    ----------
    coreset : Coreset
        The coreset to evaluate.
    rows, targets : array-like of shape (n, d), and (n,) or (n, n_targets)
        All rows that the coreset represents; targets for regression.
    problem : {"clustering", "regression", "low_rank"}
        What models are.
    k : int
        Number of centers, or the rank.
    intercept : bool
        For regression, count a constant column. For low rank, take distances to subspaces through the mean, that of
        the coreset for costs on the coreset.
    weights : array-like of shape (n,), optional
        Weights of the rows.
    **settings
        For clustering: those of :func:`errors`.

    Examples
    --------
    >>> from batch2online.coresets import Clustering, Leverage
    >>> X = np.random.default_rng(0).normal(size=(20_000, 3))
    >>> small, large = (Leverage(coreset_size=size, random_state=0).add(X, X[:, 0]).coreset() for size in (50, 5_000))
    >>> error(large, X, X[:, 0], problem="regression") < 0.1 < error(small, X, X[:, 0], problem="regression")
    True
    >>> small, large = (Clustering(3, coreset_size=size, random_state=0).add(X).coreset() for size in (30, 3_000))
    >>> error(large, X, k=3) < 0.15 < error(small, X, k=3)
    True
    """
    if problem not in PROBLEMS:
        raise ValueError(f"problem must be one of {', '.join(map(repr, PROBLEMS))}, got {problem!r}.")
    if problem == "clustering":
        found = errors(coreset, rows, k=k, weights=weights, **settings)
        return max(float(np.abs(values).max(initial=0.0)) for values in found.values())
    if settings:
        raise TypeError(f"{', '.join(settings)}: for clustering alone.")
    points, values = check_rows(rows), check_targets(targets, len(rows))
    if values.shape[1] != (0 if coreset.targets is None else np.reshape(coreset.targets, (len(coreset), -1)).shape[1]):
        raise ValueError("targets must be those of the coreset: pass them for both or for neither.")
    own = coreset.targets if problem == "regression" else None
    every = _design(points, values if problem == "regression" else None, check_weights(weights, points, values))
    kept = _design(coreset.points, own, coreset.weights)
    if problem == "regression":
        return embedding_error(*(part if intercept else part[:, 1:] for part in (every, kept)))
    return projection_error(*(_scatter(part, intercept) for part in (every, kept)), rank=k)


def _design(points: FloatArray, targets: FloatArray | None, weights: FloatArray) -> FloatArray:
    """Return the rows ``[1 | a | b]`` times the root of their weights."""
    values = np.empty((len(points), 0)) if targets is None else targets.reshape(len(points), -1)
    return np.asarray(np.column_stack([np.ones(len(points)), points, values]) * np.sqrt(weights)[:, None])


def embedding_error(rows: FloatArray, kept: FloatArray) -> float:
    """Return the least e such that ``|kept x|^2`` is within ``1 +- e`` of ``|rows x|^2`` for all x.

    >>> embedding_error(np.eye(2), np.diag([1.0, 2.0]))
    3.0
    """
    norms = column_norms(rows)
    is_zero = norms == 0
    factor: Any = np.empty((0, rows.shape[1]))
    for piece in _pieces(rows):
        factor = np.linalg.qr(np.concatenate([factor, piece / np.where(is_zero, 1.0, norms)]), mode="r")
    _, sizes, directions = np.linalg.svd(factor, full_matrices=False)
    live = sizes > _NEGLIGIBLE * sizes.max(initial=0.0)
    white = kept / np.where(is_zero, 1.0, norms) @ (directions[live].T / sizes[live])
    shares = np.zeros(np.count_nonzero(live))
    found = np.square(np.linalg.svd(white, compute_uv=False))
    shares[: len(found)] = found
    return float(np.abs(shares - 1).max(initial=0.0))


def projection_error(gram: FloatArray, kept: FloatArray, *, rank: int) -> float:
    """Return the least e such that ``tr(N kept)`` is within ``1 +- e`` of ``tr(N gram)``, N a projection off rank k.

    >>> round(projection_error(np.diag([9.0, 2.0, 1.0]), np.diag([9.0, 1.0, 1.0]), rank=1), 6)  # 1 - 2/3
    0.333333
    """
    if rank >= len(gram) or not np.trace(gram):
        return 0.0
    floor = _FLOOR * np.trace(gram) / len(gram) * np.eye(len(gram))  # directions that no row has a part in
    return max(_largest_ratio(sign * (kept + floor), gram + floor, rank) - sign for sign in (1, -1))


def _largest_ratio(above: FloatArray, below: FloatArray, rank: int) -> float:
    """Return the largest ``tr(N above) / tr(N below)`` over projections N of rank d - k, by Dinkelbach's iteration.

    It is the root r of the sum of the d - k largest eigenvalues of ``above - r below``, which falls with r.
    """
    ratio = -np.inf
    for turn in range(_TURNS):
        matrix = above if turn == 0 else above - ratio * below
        leading = np.linalg.eigh(matrix)[1][:, rank:]
        new = float(np.einsum("ij,ij->", leading, above @ leading) / np.einsum("ij,ij->", leading, below @ leading))
        if new <= ratio + _CONVERGED * abs(new):
            break
        ratio = new
    return ratio


def _scatter(design: FloatArray, centered: bool) -> FloatArray:
    """Return second moments of the rows, around their mean if ``centered``."""
    gram: Any = sum(piece.T @ piece for piece in _pieces(design))
    if not centered or not gram[0, 0]:
        return np.asarray(gram[1:, 1:])
    return np.asarray(gram[1:, 1:] - np.outer(gram[0, 1:], gram[0, 1:]) / gram[0, 0])


def _pieces(rows: FloatArray) -> Iterator[FloatArray]:
    return (rows[start : start + _STRIDE] for start in range(0, max(1, len(rows)), _STRIDE))
