"""Clustering of low average sensitivity, kept consistent by moving its random choices as little as their law allows."""

from __future__ import annotations

from typing import Self

import numpy as np
from numpy.typing import ArrayLike
from scipy.spatial.distance import cdist
from sklearn.base import BaseEstimator
from sklearn.cluster import KMeans

from batch2online._types import FloatArray, IntArray, Seed
from batch2online.paper.transport import Transport


class LowSensitivity(BaseEstimator):  # type: ignore[misc]
    r"""Online k-means on a coreset whose draws are transported from each law to the next.

    Seeds are drawn by D^z-sampling, then ``size`` rows in proportion to

    .. math:: \sigma(x) = D^z(x) / \textstyle\sum_y D^z(y) + 1 / n_{c(x)},

    each with a weight drawn uniformly from [1, 1 + epsilon] / (size p(x)). When rows arrive, each draw is kept with the
    largest probability that is consistent with the distribution over all rows so far, and otherwise drawn again from
    the difference. The centers are a k-means solution of the weighted rows, solved again when one of these has changed.

    Yoshida & Ito (NeurIPS 2022): any approximation algorithm gets low average sensitivity by running on such a coreset,
    and in random order few changes, :math:`\mathrm{poly}(d, k, 2^z, 1/\epsilon) \log n`.

    Parameters
    ----------
    n_clusters : int
        The number of centers k.
    size : int
        Rows of the coreset, drawn with replacement.
    epsilon : float
        Width of the perturbation of weights.
    z : float
        Power of the distance in the scores.
    random_state : None, int or generator
        For all draws and the batch algorithm.

    Notes
    -----
    In practical form: the reference's coreset has a size of theory, here it is a parameter; the batch algorithm is
    scikit-learn's, for squared distances, with one seed for all solves. All rows are kept, and a chunk is one step, of
    a cost in proportion to the rows so far.

    Examples
    --------
    >>> rows = np.repeat([[0.0], [10.0]], 50, axis=0)
    >>> np.sort(LowSensitivity(2, random_state=0).partial_fit(rows).cluster_centers_, axis=0).tolist()
    [[0.0], [10.0]]
    """

    def __init__(
        self,
        n_clusters: int = 8,
        size: int = 200,
        epsilon: float = 0.1,
        z: float = 2.0,
        random_state: Seed = None,
    ) -> None:
        self.n_clusters = n_clusters
        self.size = size
        self.epsilon = epsilon
        self.z = z
        self.random_state = random_state

    def partial_fit(self, X: ArrayLike, y: ArrayLike | None = None) -> Self:
        rows = np.asarray(X, dtype=np.float64)
        if not hasattr(self, "n_seen_"):
            rng = np.random.default_rng(self.random_state)
            self._solver_seed, self._draws = int(rng.integers(2**31)), Transport(rng)
            self.n_seen_, self._rows = 0, rows[:0]
            self.chosen_, self.weights_ = np.empty(0, dtype=np.int64), np.empty(0)
        before = self.chosen_, self.weights_
        self._rows = np.concatenate([self._rows, rows])
        self.n_seen_ += len(rows)
        self._draws.again()
        self.seeds_ = self._drawn_seeds()
        self.chances_ = self._chances()
        self.chosen_ = self._draws.choice(self.n_seen_, size=self.size, p=self.chances_)
        low = 1 / (self.size * self.chances_[self.chosen_])
        self.weights_ = self._draws.uniform(low, (1 + self.epsilon) * low)
        if not all(map(np.array_equal, before, (self.chosen_, self.weights_))):
            self._solve()
        return self

    def _drawn_seeds(self) -> IntArray:
        """Each seed in proportion to its power distance from those before it."""
        seeds: list[int] = []
        nearest = np.ones(self.n_seen_)
        for stage in range(self.n_clusters):
            mass = nearest if nearest.any() else np.ones(self.n_seen_)
            seeds.append(self._draws.choice(self.n_seen_, p=mass / mass.sum()))
            distance = cdist(self._rows, self._rows[seeds[-1:]])[:, 0] ** self.z
            nearest = distance if stage == 0 else np.minimum(nearest, distance)
        return np.array(seeds)

    def _chances(self) -> FloatArray:
        """Return the probabilities of a draw of the coreset."""
        distances = cdist(self._rows, self._rows[self.seeds_])
        nearest, cost = distances.argmin(axis=1), distances.min(axis=1) ** self.z
        scores = cost / (cost.sum() or 1.0) + 1 / np.bincount(nearest, minlength=self.n_clusters)[nearest]
        return np.asarray(scores / scores.sum())

    def _solve(self) -> None:
        chosen, slot = np.unique(self.chosen_, return_inverse=True)
        points, weights = self._rows[chosen], np.bincount(slot, self.weights_)
        distinct = np.unique(points, axis=0)
        if len(distinct) <= self.n_clusters:
            self.cluster_centers_ = distinct[np.arange(self.n_clusters) % len(distinct)]
            return
        batch = KMeans(self.n_clusters, n_init=3, random_state=self._solver_seed)
        self.cluster_centers_ = batch.fit(points, sample_weight=weights).cluster_centers_
