"""Algorithm 4: low-rank approximation online, on a ridge leverage score sketch of all rows so far.

The paper's columns a_t are rows here, as everywhere in this package.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from batch2online import theory
from batch2online._types import FloatArray
from batch2online.reference.sampling import perturbed_roots
from batch2online.reference.transformation import OnlineRun, batch_to_online


def ridge_leverage_scores(A: FloatArray, k: int) -> FloatArray:
    """Return the scores of section 7: ``a_i^T (A^T A + (|A - A_k|_F^2 / k) I)^+ a_i``.

    >>> ridge_leverage_scores(np.array([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]]), k=1).round(3).tolist()
    [0.333, 0.333, 0.5]
    """
    sigma = np.linalg.svd(A, compute_uv=False)
    ridge = np.square(sigma[k:]).sum() / k
    inverse = np.linalg.pinv(A.T @ A + ridge * np.eye(A.shape[1]), hermitian=True)
    return np.asarray(np.einsum("ij,jk,ik->i", A, inverse, A))


def low_rank_sketch(
    rng: np.random.Generator, A: FloatArray, k: int, m: int, epsilon: float, *, errata: bool = True
) -> FloatArray:
    """Lines 4 to 8 of Algorithm 4: m rows of A drawn by ridge leverage, times w. Returns C (m, d).

    Errata: as printed w holds ``1/sqrt(t p_i)``, with t - 1 rows so far, where ``1/sqrt(m p_i)`` gives C the norm of A;
    the perturbation as in ``perturbed_roots``; up to m rows are kept as they are.
    """
    if errata and len(A) <= m:
        return A
    tau = ridge_leverage_scores(A, k)
    p = tau / tau.sum()
    i = rng.choice(len(A), size=m, p=p)
    t = len(A) + 1
    w = perturbed_roots(rng, 1 / ((m if errata else t) * p[i]), epsilon, errata)
    return np.asarray(w[:, None] * A[i])


def online_low_rank(
    rng: np.random.Generator,
    A: Any,
    k: int,
    epsilon: float,
    *,
    m: int | None = None,
    steps: Iterable[int] | None = None,
    errata: bool = True,
) -> OnlineRun:
    """Algorithm 4. Models are orthonormal bases Z (d, k).

    Errata, beside those of the sketch: step 1 has no data, its model is the first k axes; losses are squared, since
    those are what the sketch keeps. (Z_t is solved on C_{t-1}; the printed C_t does not exist yet.)

    Parameters
    ----------
    rng : numpy.random.Generator
        Where all draws come from.
    A : (n, d) array
        The rows a_t.
    k : int
        Rank.
    epsilon : float in (0, 1)
        Accuracy.
    m : int or None
        Rows of the sketch; None for ``theory.low_rank_size``.
    steps : iterable of int, or None
        Which of the steps 1 to n to take; None for all.
    errata : bool, default True
        Repair the slips named above.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> A = rng.normal(size=(60, 1)) * [3.0, 4.0]
    >>> models, losses = online_low_rank(rng, A, 1, 0.1, m=20, steps=[1, 10, 60])
    >>> abs(models[-1]).round(6).tolist(), losses.round(6).tolist()[1:]
    ([[0.6], [0.8]], [0.0, 0.0])
    """
    A = np.asarray(A, dtype=np.float64)
    size = theory.low_rank_size(k, epsilon, len(A)) if m is None else m

    def solved_on_sketch(rng: np.random.Generator, rows: FloatArray) -> FloatArray:
        C = low_rank_sketch(rng, rows, k, size, epsilon, errata=errata)
        return np.asarray(np.linalg.svd(C, full_matrices=True)[2][:k].T)

    def loss(Z: FloatArray, a: FloatArray) -> float:
        residual = float(np.linalg.norm(a - Z @ (Z.T @ a)))
        return residual**2 if errata else residual

    return batch_to_online(rng, solved_on_sketch, loss, A, initial=np.eye(A.shape[1], k), steps=steps, errata=errata)
