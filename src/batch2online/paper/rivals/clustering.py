"""Online k-means: MacQueen, consistent k-clustering, and weights over solutions."""

from __future__ import annotations

from typing import Self

import numpy as np
from numpy.typing import ArrayLike
from scipy.spatial.distance import cdist, pdist
from sklearn.base import BaseEstimator
from sklearn.cluster import KMeans

from batch2online._types import FloatArray, Seed
from batch2online.evaluate.peers.refits import reservoir_replacements


class MacQueen(BaseEstimator):  # type: ignore[misc]
    r"""MacQueen's k-means: the nearest center moves to the mean of all rows it was ever nearest to.

    .. math:: n_c \leftarrow n_c + 1, \qquad c \leftarrow c + (x_t - c) / n_c

    The first k distinct rows are the first centers. MacQueen (5th Berkeley Symposium, 1967).

    Parameters
    ----------
    n_clusters : int
        The number of centers k.

    Examples
    --------
    >>> MacQueen(2).partial_fit([[0.0], [10.0], [2.0], [11.0]]).cluster_centers_.tolist()
    [[1.0], [10.5]]
    """

    def __init__(self, n_clusters: int = 8) -> None:
        self.n_clusters = n_clusters

    def partial_fit(self, X: ArrayLike, y: ArrayLike | None = None) -> Self:
        rows = np.asarray(X, dtype=np.float64)
        if not hasattr(self, "cluster_centers_"):
            self.cluster_centers_, self.counts_ = np.empty((0, rows.shape[1])), np.empty(0)
        for row in rows:
            self._learn(row)
        return self

    def _learn(self, row: FloatArray) -> None:
        squared = np.square(self.cluster_centers_ - row).sum(axis=1)
        if len(squared) < self.n_clusters and not (squared == 0).any():
            self.cluster_centers_ = np.concatenate([self.cluster_centers_, row[None]])
            self.counts_ = np.append(self.counts_, 1.0)
            return
        nearest = int(squared.argmin())
        self.counts_[nearest] += 1
        self.cluster_centers_[nearest] += (row - self.cluster_centers_[nearest]) / self.counts_[nearest]


class Consistent(BaseEstimator):  # type: ignore[misc]
    r"""Consistent k-clustering: cluster again only when a sketch of the stream has changed enough.

    Meyerson's sketch opens a row as a facility with probability

    .. math:: \min\big(1, k \log_2(t)\, D^2(x_t, F) / \varphi\big)

    and otherwise adds it to the weight of the nearest one. The guess :math:`\varphi` of the cost doubles when the
    sketch has grown too large. The weighted facilities are clustered again when one has opened or one's weight has
    doubled. Lattanzi & Vassilvitskii (ICML 2017): :math:`O(k^2 \log^4 n)` changes for a constant approximation.

    Parameters
    ----------
    n_clusters : int
        The number of centers k.
    size : int
        The sketch may hold ``size * k * log2(t)`` facilities.
    random_state : None, int or generator
        For the facilities and the batch algorithm.

    Notes
    -----
    In practical form: one sketch where the reference keeps :math:`O(\log n)` to bound failures, k-means++ and Lloyd's
    steps as the batch algorithm. Decisions are row by row, the clustering is done at the end of a chunk.

    Examples
    --------
    >>> rows = [[0.0], [10.0], [0.0], [10.0], [0.0], [10.0]]
    >>> np.sort(Consistent(2, random_state=0).partial_fit(rows).cluster_centers_, axis=0).tolist()
    [[0.0], [10.0]]
    """

    def __init__(self, n_clusters: int = 8, size: int = 4, random_state: Seed = None) -> None:
        self.n_clusters = n_clusters
        self.size = size
        self.random_state = random_state

    def partial_fit(self, X: ArrayLike, y: ArrayLike | None = None) -> Self:
        rows = np.asarray(X, dtype=np.float64)
        if not hasattr(self, "n_seen_"):
            self._rng, self.n_seen_ = np.random.default_rng(self.random_state), 0
            self._guess, self._clustered_weights = 0.0, np.empty(0)
            self.facilities_, self.weights_ = np.empty((0, rows.shape[1])), np.empty(0)
        for row in rows:
            self.n_seen_ += 1
            self._place(row, 1.0)
            if len(self.facilities_) > self._limit():
                self._start_again()
        if self._has_changed_enough():
            self._cluster()
        return self

    def _limit(self) -> float:
        return float(self.size * self.n_clusters * np.log2(self.n_seen_ + 1) + 1)

    def _place(self, row: FloatArray, weight: float) -> None:
        squared = np.square(self.facilities_ - row).sum(axis=1)
        nearest = int(squared.argmin()) if len(squared) else -1
        distance = squared[nearest] if len(squared) else np.inf
        chance = weight * distance * self.n_clusters * np.log2(self.n_seen_ + 1)
        if distance > 0 and (self._guess == 0 or self._rng.random() * self._guess < chance):
            self.facilities_ = np.concatenate([self.facilities_, row[None]])
            self.weights_ = np.append(self.weights_, weight)
        else:
            self.weights_[nearest] += weight

    def _start_again(self) -> None:
        """Double the guess and pass the facilities, with their weights, through a new sketch."""
        rows, weights = self.facilities_, self.weights_
        while len(self.facilities_) > self._limit():
            self._guess = 2 * self._guess if self._guess else float(np.square(pdist(rows)).min())
            self.facilities_, self.weights_ = rows[:0], weights[:0]
            for row, weight in zip(rows, weights, strict=True):
                self._place(row, weight)
        self._clustered_weights = np.empty(0)

    def _has_changed_enough(self) -> bool:
        old = self._clustered_weights
        return len(old) != len(self.weights_) or bool((self.weights_ >= 2 * old).any())

    def _cluster(self) -> None:
        k, self._clustered_weights = self.n_clusters, self.weights_.copy()
        if len(self.facilities_) <= k:
            self.cluster_centers_ = self.facilities_[np.arange(k) % len(self.facilities_)]
            return
        seed = int(self._rng.integers(2**31))
        batch = KMeans(k, n_init=3, random_state=seed).fit(self.facilities_, sample_weight=self.weights_)
        self.cluster_centers_ = batch.cluster_centers_


class WeightedSolutions(BaseEstimator):  # type: ignore[misc]
    r"""Online k-means by multiplicative weights over candidate solutions.

    Each row is answered by a set of centers drawn with probability proportional to
    :math:`\exp(-\eta_t \cdot \text{its loss so far})`. Cohen-Addad, Guedj, Kanade & Rom (AISTATS 2021) run this over
    all k-sets of a grid refined around a coreset, with :math:`(1+\epsilon)`-approximate regret in any order.

    Parameters
    ----------
    n_clusters : int
        The number of centers k.
    candidates : int
        New solutions each time the number of rows has doubled.
    size : int
        Rows of the uniform sample from which they are computed.
    random_state : None, int or generator
        For the sample, the solutions and the draws.

    Notes
    -----
    In practical form: the reference's candidates number :math:`(\log n / \epsilon)^{O(kd)}`; here they are k-means
    solutions of a uniform sample. The past loss of a new one is estimated on the sample. The rate is
    :math:`\sqrt{8 \ln N / t}` over the largest loss of a row. One draw a chunk.

    Examples
    --------
    >>> rows = np.repeat([[0.0], [10.0]], 50, axis=0)
    >>> np.sort(WeightedSolutions(2, random_state=0).partial_fit(rows).cluster_centers_, axis=0).tolist()
    [[0.0], [10.0]]
    """

    def __init__(
        self,
        n_clusters: int = 8,
        candidates: int = 4,
        size: int = 1000,
        random_state: Seed = None,
    ) -> None:
        self.n_clusters = n_clusters
        self.candidates = candidates
        self.size = size
        self.random_state = random_state

    def partial_fit(self, X: ArrayLike, y: ArrayLike | None = None) -> Self:
        rows = np.asarray(X, dtype=np.float64)
        if not hasattr(self, "n_seen_"):
            self._rng, self.n_seen_, self._next, self._largest = np.random.default_rng(self.random_state), 0, 0, 0.0
            self._sample = np.empty((0, rows.shape[1]))
            self.solutions_, self.losses_ = np.empty((0, self.n_clusters, rows.shape[1])), np.empty(0)
        self._charge(rows)
        self._sample = reservoir_replacements(self._sample, rows, self.n_seen_, self.size, self._rng)
        self.n_seen_ += len(rows)
        if self.n_seen_ >= self._next and len(np.unique(self._sample, axis=0)) >= self.n_clusters:
            self._propose()
            self._next = 2 * self.n_seen_
        if len(self.solutions_):
            self._draw()
        return self

    def _charge(self, rows: FloatArray) -> None:
        """Add the loss of the rows to each solution."""
        for number, centers in enumerate(self.solutions_):
            squared = cdist(rows, centers, "sqeuclidean").min(axis=1)
            self.losses_[number] += squared.sum()
            self._largest = max(self._largest, float(squared.max()))

    def _propose(self) -> None:
        seeds = self._rng.integers(2**31, size=self.candidates)
        solved = [KMeans(self.n_clusters, n_init=1, random_state=int(seed)).fit(self._sample) for seed in seeds]
        self.solutions_ = np.concatenate([self.solutions_, [batch.cluster_centers_ for batch in solved]])
        estimates = [batch.inertia_ * self.n_seen_ / len(self._sample) for batch in solved]
        self.losses_ = np.append(self.losses_, estimates)

    def _draw(self) -> None:
        rate = np.sqrt(8 * np.log(len(self.losses_) + 1) / self.n_seen_) / (self._largest or 1.0)
        chances = np.exp(-rate * (self.losses_ - self.losses_.min()))
        chosen = self._rng.choice(len(chances), p=chances / chances.sum())
        self.cluster_centers_ = self.solutions_[chosen]
