"""Algorithm 5: linear regression online, on a leverage score sketch of all rows so far."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from batch2online import theory
from batch2online._types import FloatArray
from batch2online.reference.sampling import perturbed_roots
from batch2online.reference.transformation import OnlineRun, batch_to_online


def leverage_scores(A: FloatArray) -> FloatArray:
    """Definition 8.3: the squared norms of the rows of U in the singular value decomposition A = U S V^T.

    >>> leverage_scores(np.array([[1.0], [1.0], [2.0]])).round(3).tolist()
    [0.167, 0.167, 0.667]
    """
    U, sigma, _ = np.linalg.svd(A, full_matrices=False)
    rank = int((sigma > sigma.max(initial=0.0) * max(A.shape) * np.finfo(float).eps).sum())
    return np.asarray(np.square(U[:, :rank]).sum(axis=1))


def regression_sketch(
    rng: np.random.Generator, A: FloatArray, b: FloatArray, m: int, epsilon: float, *, errata: bool = True
) -> tuple[FloatArray, FloatArray]:
    """Lines 5 to 9 of Algorithm 5: m rows of [A | b] drawn by leverage, times w. Returns S A (m, d) and S b (m,).

    Errata: leverage is that of the rows of [A | b], since an embedding of A alone does not bound the loss of the
    solution with high probability; the perturbation as in ``perturbed_roots``; up to m rows are kept as they are.
    """
    if errata and len(A) <= m:
        return A, b
    tau = leverage_scores(np.column_stack([A, b]) if errata else A)
    p = tau / tau.sum()
    i = rng.choice(len(A), size=m, p=p)
    w = perturbed_roots(rng, 1 / (m * p[i]), epsilon, errata)
    return w[:, None] * A[i], w * b[i]


def online_regression(
    rng: np.random.Generator,
    A: Any,
    b: Any,
    epsilon: float,
    *,
    m: int | None = None,
    steps: Iterable[int] | None = None,
    errata: bool = True,
) -> OnlineRun:
    """Algorithm 5. Models are coefficients (d,); a constant column of A gives an intercept.

    Errata, beside those of the sketch: step 1 has no data, its model is zero; losses are squared, since those are
    what the sketch keeps.

    Parameters
    ----------
    rng : numpy.random.Generator
        Where all draws come from.
    A : (n, d) array
        The rows a_t.
    b : (n,) array
        The targets b_t.
    epsilon : float in (0, 1)
        Accuracy.
    m : int or None
        Rows of the sketch; None for ``theory.regression_size``.
    steps : iterable of int, or None
        Which of the steps 1 to n to take; None for all.
    errata : bool, default True
        Repair the slips named above.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> A = rng.normal(size=(60, 2))
    >>> models, losses = online_regression(rng, A, A @ [1.0, -2.0], 0.1, m=20, steps=[1, 10, 60])
    >>> models[-1].round(6).tolist(), losses.round(6).tolist()[1:]
    ([1.0, -2.0], [0.0, 0.0])
    """
    A, b = np.asarray(A, dtype=np.float64), np.asarray(b, dtype=np.float64)
    size = theory.regression_size(A.shape[1], epsilon, len(A)) if m is None else m

    def solved_on_sketch(rng: np.random.Generator, rows: FloatArray) -> FloatArray:
        SA, Sb = regression_sketch(rng, rows[:, :-1], rows[:, -1], size, epsilon, errata=errata)
        return np.asarray(np.linalg.lstsq(SA, Sb, rcond=None)[0])

    def loss(x: FloatArray, row: FloatArray) -> float:
        residual = abs(float(row[:-1] @ x - row[-1]))
        return residual**2 if errata else residual

    rows = np.column_stack([A, b])
    return batch_to_online(rng, solved_on_sketch, loss, rows, initial=np.zeros(A.shape[1]), steps=steps, errata=errata)
