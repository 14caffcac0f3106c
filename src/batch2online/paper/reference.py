"""The paper as printed: Algorithms 1 to 7, each a short function that reads beside its pseudo-code.

==========================  ===========================================================================
``batch_to_online``         Algorithm 1, the general conversion: run the batch algorithm at every step
``coreset``                 Algorithm 2, sensitivity sampling with perturbed weights
``online_clustering``       Algorithm 3 (6 is its copy in the appendix), (k, z)-clustering
``online_low_rank``         Algorithm 4, low-rank approximation, on ``low_rank_sketch``
``online_regression``       Algorithm 5, linear regression, on ``regression_sketch``
``clustering_coreset``      Algorithm 7, the two-stage coreset of Huang and Vishnoi
==========================  ===========================================================================

They draw with replacement, perturb weights uniformly and draw anew at each step, so their time is quadratic in the
number of rows. They are oracles for tests and the baseline of the paper's experiment; the rest of the package does
the same in one pass. The paper's columns a_t are rows here, as everywhere in this package.

Four parameters mean the same in all functions. ``rng`` is the ``numpy.random.Generator`` of all draws.
``errata=True`` corrects the errata that each docstring lists and ``docs/theory.md`` explains; ``errata=False`` follows
the printed text to the letter wherever it can be run at all. Online algorithms return ``(models, losses)``, one of each
for every step t in ``steps``, None for all of 1 to n: the model of step t is computed from rows 1 to t - 1 and scored
on row t. ``consistent=True`` gives the algorithm that Theorems 6.1, 7.2 and 8.1 say exists: each step has the same
distribution as without it, but its draws are transported from those of the step before
(:class:`~batch2online.paper.transport.Transport`), and the model changes only if one of them changes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import numpy as np
from scipy.spatial.distance import cdist

from batch2online import theory
from batch2online._types import FloatArray, IntArray
from batch2online.paper.transport import Transport

__all__ = [
    "OnlineRun",
    "WeightedSet",
    "alternate",
    "batch_to_online",
    "clustering_coreset",
    "coreset",
    "dz_sampling",
    "leverage_scores",
    "low_rank_sketch",
    "online_clustering",
    "online_low_rank",
    "online_regression",
    "regression_sketch",
    "ridge_leverage_scores",
]


class WeightedSet(NamedTuple):
    """The pair (S, w) of the paper: positions in X, each once and in order, and their weights."""

    indices: IntArray
    weights: FloatArray


def coreset(
    rng: np.random.Generator,
    X: Any,
    sensitivities: Callable[[Any], FloatArray] | FloatArray,
    m: int,
    epsilon: float,
    *,
    errata: bool = True,
) -> WeightedSet:
    """Algorithm 2: m draws with probability p in proportion to sensitivity, each adding 1/p~ to a weight.

    p~ is uniform in [p, (1 + epsilon/2) p]. Errata: the printed loop returns after its first draw and adds 1/p~ where
    1/(m p~) is meant; the perturbation multiplies every expected weight by 2 ln(1 + epsilon/2) / epsilon, which is
    divided out; up to m rows are kept as they are.

    Parameters
    ----------
    X : (n, d) array
        The rows.
    sensitivities : (n,) array or callable
        Sensitivities of the rows, or the function of X that gives them.
    m : int
        Number of draws.
    epsilon : float
        Width of the perturbation.
    rng, errata
        See the module.

    Examples
    --------
    >>> X = np.arange(1000.0)[:, None]
    >>> indices, weights = coreset(np.random.default_rng(0), X, np.ones(1000), m=200, epsilon=0.1)
    >>> 150 < len(indices) < 200, bool(990 < weights.sum() < 1010)
    (True, True)
    >>> len(coreset(np.random.default_rng(0), X, np.ones(1000), m=200, epsilon=0.1, errata=False).indices)
    1
    """
    if errata and len(X) <= m:
        return keep_all(len(X))
    sigma = np.asarray(sensitivities(X) if callable(sensitivities) else sensitivities)
    p = sigma / sigma.sum()
    weight = np.zeros(len(X))
    for _ in range(m):
        x = rng.choice(len(X), p=p)
        p_tilde = rng.uniform(p[x], (1 + epsilon / 2) * p[x])
        weight[x] += 1 / p_tilde
        if not errata:
            break
    if errata:
        weight *= (epsilon / 2) / math.log1p(epsilon / 2) / m
    return gathered(weight)


def gathered(weight: FloatArray) -> WeightedSet:
    """Return the rows of positive weight."""
    indices = np.flatnonzero(weight)
    return WeightedSet(indices, weight[indices])


def keep_all(n: int) -> WeightedSet:
    """All rows, with weight one: what sampling with replacement cannot improve on while rows are few."""
    return WeightedSet(np.arange(n), np.ones(n))


def perturbed_roots(rng: np.random.Generator, inverse: FloatArray, epsilon: float, errata: bool) -> FloatArray:
    """Return the factors w of sketched rows, from ``inverse`` = 1 / (m p), lines 7 and 8 of Algorithms 4 and 5.

    As printed w is uniform in [1, 1 + epsilon] / sqrt(m p), which is up to (1 + epsilon)^2 on the squared costs that
    the sketch must keep. Errata: the square is perturbed, by [1, 1 + epsilon] / (1 + epsilon/2), of mean one.
    """
    if errata:
        return np.sqrt(rng.uniform(inverse, (1 + epsilon) * inverse) / (1 + epsilon / 2))
    roots = np.sqrt(inverse)
    return rng.uniform(roots, (1 + epsilon) * roots)


class OnlineRun(NamedTuple):
    """The current model of each step of an online algorithm, and the loss of the row of that step under it."""

    models: list[Any]
    losses: FloatArray


def batch_to_online(
    rng: np.random.Generator,
    algorithm: Callable[[np.random.Generator, Any], Any],
    loss: Callable[[Any, Any], float],
    X: Any,
    *,
    initial: Any = None,
    steps: Iterable[int] | None = None,
    errata: bool = True,
    consistent: bool = False,
) -> OnlineRun:
    """Algorithm 1: theta_t = A(X_{t-1}), then x_t comes and costs l(theta_t, x_t).

    Parameters
    ----------
    algorithm : callable ``(rng, rows) -> theta``
        The batch algorithm.
    loss : callable ``(theta, row) -> float``
        What a row costs under a model.
    X : sequence
        Rows in the order in which they come.
    initial : object
        The model of step 1, which has no data (errata only; as printed, the algorithm is run on no rows).
    rng, steps, errata, consistent
        See the module.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> mean = lambda rng, rows: rows.mean()
    >>> models, losses = batch_to_online(rng, mean, lambda m, x: (x - m) ** 2, np.array([1.0, 3.0, 5.0]), initial=0.0)
    >>> losses.tolist()
    [1.0, 4.0, 9.0]
    """
    models, losses = [], []
    transport = Transport(rng) if consistent else None
    draws: Any = transport or rng
    for t in range(1, len(X) + 1) if steps is None else steps:
        if transport:
            transport.again()
        theta = initial if errata and t == 1 else algorithm(draws, X[: t - 1])
        models.append(theta)
        losses.append(float(loss(theta, X[t - 1])))
    return OnlineRun(models, np.array(losses))


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
    consistent: bool = False,
) -> OnlineRun:
    """Algorithm 5. Models are coefficients (d,); a constant column of A gives an intercept.

    Errata, beside those of the sketch: step 1 has no data, its model is zero; losses are squared, since those are
    what the sketch keeps.

    Parameters
    ----------
    A : (n, d) array
        The rows a_t.
    b : (n,) array
        The targets b_t.
    epsilon : float in (0, 1)
        Accuracy.
    m : int or None
        Rows of the sketch; None for ``theory.regression_size``.
    rng, steps, errata, consistent
        See the module.

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
    return batch_to_online(
        rng,
        solved_on_sketch,
        loss,
        rows,
        initial=np.zeros(A.shape[1]),
        steps=steps,
        errata=errata,
        consistent=consistent,
    )


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
    consistent: bool = False,
) -> OnlineRun:
    """Algorithm 4. Models are orthonormal bases Z (d, k).

    Errata, beside those of the sketch: step 1 has no data, its model is the first k axes; losses are squared, since
    those are what the sketch keeps. (Z_t is solved on C_{t-1}; the printed C_t does not exist yet.)

    Parameters
    ----------
    A : (n, d) array
        The rows a_t.
    k : int
        Rank.
    epsilon : float in (0, 1)
        Accuracy.
    m : int or None
        Rows of the sketch; None for ``theory.low_rank_size``.
    rng, steps, errata, consistent
        See the module.

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
        return np.asarray(np.linalg.svd(C, full_matrices=min(C.shape) < k)[2][:k].T)

    def loss(Z: FloatArray, a: FloatArray) -> float:
        residual = float(np.linalg.norm(a - Z @ (Z.T @ a)))
        return residual**2 if errata else residual

    return batch_to_online(
        rng, solved_on_sketch, loss, A, initial=np.eye(A.shape[1], k), steps=steps, errata=errata, consistent=consistent
    )


Solver = Callable[[np.random.Generator, FloatArray, FloatArray, int, float], FloatArray]

_RESTARTS, _ROUNDS = 5, 30


def dz_sampling(
    rng: np.random.Generator, X: FloatArray, k: int, z: float, weights: FloatArray | None = None
) -> IntArray:
    """Positions of k rows of X, each drawn in proportion to its weighted z-th power distance from those before.

    Where fewer than k rows are distinct the paper leaves 0/0: there a row is drawn once more.
    """
    weight = np.ones(len(X)) if weights is None else weights
    chosen = [rng.choice(len(X), p=weight / weight.sum())]
    distance = np.linalg.norm(X - X[chosen[0]], axis=1)
    while len(chosen) < k:
        mass = weight * distance**z if distance.any() else weight
        chosen.append(rng.choice(len(X), p=mass / mass.sum()))
        distance = np.minimum(distance, np.linalg.norm(X - X[chosen[-1]], axis=1))
    return np.array(chosen)


def clustering_coreset(
    rng: np.random.Generator,
    X: Any,
    k: int,
    epsilon: float,
    *,
    z: float = 2.0,
    sizes: tuple[int, int] | None = None,
    constant: float = 100.0,
    errata: bool = True,
) -> WeightedSet:
    """Algorithm 7: N_1 rows drawn by distance from seeds C*, N_2 of those drawn again, and C* itself.

    Errata: weights of the second draw carry u; where less than nothing is left of a cluster for its seed, the weights
    of the cluster are scaled down to its mass, since solvers need weights that are not negative; perturbations have
    mean one; up to N_2 + k rows are kept as they are.

    Parameters
    ----------
    X : (n, d) array
        The rows.
    k : int
        Number of clusters.
    epsilon : float
        Accuracy; divided by ``constant``, it is the width of the perturbation.
    z : float, default 2
        Power of the distance.
    sizes : pair of int, or None
        N_1 and N_2; None for ``theory.clustering_sizes``, which no computer holds.
    constant : float, default 100
        The "large constant" of line 1, which leaves it open. The mass of a cluster is taken 1 + 10 epsilon / constant
        times, line 13: the constant must be large for that to be close to one.
    rng, errata
        See the module.

    Examples
    --------
    >>> X = np.random.default_rng(0).normal(size=(5000, 2))
    >>> indices, weights = clustering_coreset(np.random.default_rng(1), X, 3, 0.1, sizes=(600, 200))
    >>> 100 < len(indices) <= 203, bool(4500 < weights.sum() < 5500)
    (True, True)
    """
    X = np.asarray(X, dtype=np.float64)
    epsilon = epsilon / constant  # line 1
    n_first, n_second = theory.clustering_sizes(k, z, epsilon, len(X)) if sizes is None else sizes
    if errata and len(X) <= n_second + k:
        return keep_all(len(X))
    perturb = _Perturbation(rng, epsilon, errata)
    seeds = dz_sampling(rng, X, k, z)  # line 2
    distances = cdist(X, X[seeds])
    nearest, loss = distances.argmin(axis=1), distances.min(axis=1) ** z  # line 3
    sizes_of = np.bincount(nearest, minlength=k)
    sigma1 = 2 ** (2 * z + 2) * epsilon**2 * (loss / (loss.sum() or 1.0) + 1 / sizes_of[nearest])  # line 4
    d1 = rng.choice(len(X), size=n_first, p=sigma1 / sigma1.sum())  # line 5
    u = perturb(sigma1.sum() / (n_first * sigma1[d1]))  # lines 6 and 7
    d2, w = _second_draw(rng, u * loss[d1], n_second)  # lines 9 to 12
    w = perturb(w * u[d2] if errata else w)
    mass = (1 + 10 * epsilon) * np.bincount(nearest[d1], u, minlength=k)
    if errata:
        w = _within(w, nearest[d1[d2]], mass)
    of_seeds = mass - np.bincount(nearest[d1[d2]], w, minlength=k)  # line 13
    weight = np.zeros(len(X))
    np.add.at(weight, d1[d2], w)
    np.add.at(weight, seeds, np.maximum(of_seeds, 0.0) if errata else of_seeds)
    return gathered(weight)


def _second_draw(rng: np.random.Generator, cost: FloatArray, size: int) -> tuple[IntArray, FloatArray]:
    """Positions in D^1 drawn by their share sigma_2 of the cost, and 1 / (|D^2| sigma_2); none where nothing costs."""
    if not cost.any():
        return np.empty(0, dtype=np.int64), np.empty(0)
    sigma2 = cost / cost.sum()
    drawn = rng.choice(len(cost), size=size, p=sigma2)
    return drawn, 1 / (size * sigma2[drawn])


def _within(weights: FloatArray, cluster: IntArray, mass: Any) -> FloatArray:
    """Weights scaled down in clusters where they exceed the mass."""
    total = np.bincount(cluster, weights, minlength=len(mass))[cluster]
    return np.asarray(weights * np.minimum(1.0, mass[cluster] / total))


class _Perturbation:
    """Uniform factors in [1, 1 + epsilon]; of mean one with errata."""

    def __init__(self, rng: np.random.Generator, epsilon: float, errata: bool) -> None:
        self.rng, self.epsilon = rng, epsilon
        self.divisor = 1 + epsilon / 2 if errata else 1.0

    def __call__(self, weights: FloatArray) -> FloatArray:
        return self.rng.uniform(weights, (1 + self.epsilon) * weights) / self.divisor


def alternate(rng: np.random.Generator, points: FloatArray, weights: FloatArray, k: int, z: float) -> FloatArray:
    """Return the offline algorithm: D^z seeding, then assignments and centers in turn; the best of a few starts."""
    runs = [_alternated(rng, points, weights, k, z) for _ in range(_RESTARTS)]
    costs = [weights @ cdist(points, centers).min(axis=1) ** z for centers in runs]
    return runs[int(np.argmin(costs))]


def _alternated(rng: np.random.Generator, points: FloatArray, weights: FloatArray, k: int, z: float) -> FloatArray:
    """One start; centers move to means weighted by |x - c|^(z - 2): Lloyd's steps for z = 2, Weiszfeld's for z = 1.

    Beyond z = 2 that would overshoot and oscillate: a center moves 1 / (z - 1) of the way, Newton's step.
    """
    centers = points[dz_sampling(rng, points, k, z, weights)]
    for _ in range(_ROUNDS):
        distances = cdist(points, centers)
        nearest, least = distances.argmin(axis=1), distances.min(axis=1)
        mass = weights * np.maximum(least, 1e-12 * (1 + least.max())) ** (z - 2)
        shares = (nearest == np.arange(k)[:, None]) * mass
        totals = shares.sum(axis=1, keepdims=True)
        means = np.where(totals > 0, shares @ points / np.where(totals > 0, totals, 1.0), centers)
        moved = means if z <= 2 else centers + (means - centers) / (z - 1)
        if np.array_equal(moved, centers):
            break
        centers = moved
    return centers


def online_clustering(
    rng: np.random.Generator,
    X: Any,
    k: int,
    epsilon: float,
    *,
    z: float = 2.0,
    sizes: tuple[int, int] | None = None,
    constant: float = 100.0,
    solver: Solver = alternate,
    steps: Iterable[int] | None = None,
    errata: bool = True,
    consistent: bool = False,
) -> OnlineRun:
    """Algorithm 3. Models are centers (k, d).

    Errata, beside those of the coreset: step 1 has no data, its centers are at the origin. While fewer than k distinct
    rows have come, centers repeat.

    Parameters
    ----------
    X : (n, d) array
        The rows.
    k : int
        Number of clusters.
    epsilon : float in (0, 1)
        Accuracy; a third of it goes to the coreset.
    z : float, default 2
        Power of the distance.
    sizes : pair of int, or None
        N_1 and N_2 of the coreset; None for ``theory.clustering_sizes``.
    constant : float, default 100
        The constant of line 1 of the coreset.
    solver : callable ``(rng, points, weights, k, z) -> centers``
        The offline algorithm.
    rng, steps, errata, consistent
        See the module.

    Examples
    --------
    >>> X = np.random.default_rng(0).permutation(np.repeat([[0.0], [9.0]], 30, axis=0))
    >>> models, losses = online_clustering(np.random.default_rng(1), X, 2, 0.3, sizes=(40, 20), steps=[1, 50])
    >>> sorted(models[-1].ravel().tolist())
    [0.0, 9.0]
    """
    X = np.asarray(X, dtype=np.float64)
    share = epsilon / 3
    both = theory.clustering_sizes(k, z, share / constant, len(X)) if sizes is None else sizes

    def solved_on_coreset(rng: np.random.Generator, rows: FloatArray) -> FloatArray:
        indices, weights = clustering_coreset(rng, rows, k, share, z=z, sizes=both, constant=constant, errata=errata)
        return solver(rng, rows[indices], weights, k, z)

    def loss(centers: FloatArray, x: FloatArray) -> float:
        return float(np.linalg.norm(x - centers, axis=1).min() ** z)

    return batch_to_online(
        rng,
        solved_on_coreset,
        loss,
        X,
        initial=np.zeros((k, X.shape[1])),
        steps=steps,
        errata=errata,
        consistent=consistent,
    )
