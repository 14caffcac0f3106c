"""Algorithms 3 and 7: (k, z)-clustering online, on a two-stage coreset of all rows so far."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from scipy.spatial.distance import cdist

from batch2online import theory
from batch2online._types import FloatArray, IntArray
from batch2online.reference.sampling import WeightedSet, gathered, keep_all
from batch2online.reference.transformation import OnlineRun, batch_to_online

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
    rng : numpy.random.Generator
        Where all draws come from.
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
    errata : bool, default True
        Repair the slips named above.

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
        return weights * self.rng.uniform(1, 1 + self.epsilon, size=len(weights)) / self.divisor


def alternate(rng: np.random.Generator, points: FloatArray, weights: FloatArray, k: int, z: float) -> FloatArray:
    """Return the offline algorithm: D^z seeding, then assignments and centers in turn; the best of a few starts."""
    runs = [_alternated(rng, points, weights, k, z) for _ in range(_RESTARTS)]
    costs = [weights @ cdist(points, centers).min(axis=1) ** z for centers in runs]
    return runs[int(np.argmin(costs))]


def _alternated(rng: np.random.Generator, points: FloatArray, weights: FloatArray, k: int, z: float) -> FloatArray:
    """One start; centers move to means weighted by |x - c|^(z - 2): Lloyd's steps for z = 2, Weiszfeld's for z = 1.

    Beyond z = 2 that would overshoot, for ever to and fro: there a center moves 1 / (z - 1) of the way, Newton's step.
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
) -> OnlineRun:
    """Algorithm 3. Models are centers (k, d).

    Errata, beside those of the coreset: step 1 has no data, its centers are at the origin. While fewer than k distinct
    rows have come, centers repeat.

    Parameters
    ----------
    rng : numpy.random.Generator
        Where all draws come from.
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
    steps : iterable of int, or None
        Which of the steps 1 to n to take; None for all.
    errata : bool, default True
        Repair the slips named above.

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
        rng, solved_on_coreset, loss, X, initial=np.zeros((k, X.shape[1])), steps=steps, errata=errata
    )
