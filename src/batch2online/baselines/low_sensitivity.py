"""Clustering of low average sensitivity, kept consistent by moving its random choices as little as their law allows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self

import numpy as np
from scipy.spatial.distance import cdist
from sklearn.base import BaseEstimator
from sklearn.cluster import KMeans

from batch2online._types import FloatArray, IntArray
from batch2online.baselines.peer import LOSS, Peer


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
        self, n_clusters: int = 8, size: int = 200, epsilon: float = 0.1, z: float = 2.0, random_state: Any = None
    ) -> None:
        self.n_clusters = n_clusters
        self.size = size
        self.epsilon = epsilon
        self.z = z
        self.random_state = random_state

    def partial_fit(self, X: Any, y: Any = None) -> Self:
        rows = np.asarray(X, dtype=np.float64)
        if not hasattr(self, "n_seen_"):
            self._rng, self.n_seen_, self._rows = np.random.default_rng(self.random_state), 0, rows[:0]
            self._solver_seed = int(self._rng.integers(2**31))
            self.seeds_, self.chances_ = np.empty(0, dtype=np.int64), np.empty(0)
            self.chosen_, self.weights_ = np.empty(0, dtype=np.int64), np.empty(0)
        old, self._rows = self.n_seen_, np.concatenate([self._rows, rows])
        self.n_seen_ += len(rows)
        self.seeds_ = self._transported_seeds(old)
        before, self.chances_ = np.append(self.chances_, np.zeros(len(rows))), self._chances()
        if self._transport_draws(before):
            self._solve()
        return self

    def _transported_seeds(self, old: int) -> IntArray:
        """Each seed by the law of D^z-sampling of all rows, given those before it; kept as long as these are kept."""
        seeds: list[int] = []
        nearest = np.full(self.n_seen_, 1.0)
        for stage in range(self.n_clusters):
            mass = nearest if nearest.any() else np.ones(self.n_seen_)
            seeds.append(self._next_seed(seeds, mass, old, stage))
            distance = cdist(self._rows, self._rows[seeds[-1:]])[:, 0] ** self.z
            nearest = distance if stage == 0 else np.minimum(nearest, distance)
        return np.array(seeds)

    def _next_seed(self, seeds: list[int], mass: FloatArray, old: int, stage: int) -> int:
        law = mass / mass.sum()
        if not old or seeds != self.seeds_[:stage].tolist() or not mass[:old].any():
            return int(self._rng.choice(self.n_seen_, p=law))
        before = np.append(mass[:old] / mass[:old].sum(), np.zeros(self.n_seen_ - old))
        return self._transported_row(int(self.seeds_[stage]), before, law)

    def _transported_row(self, row: int, before: FloatArray, law: FloatArray) -> int:
        draw = lambda: int(self._rng.choice(len(law), p=law))  # noqa: E731
        return int(transported(row, lambda r: before[r], lambda r: law[r], draw, self._rng))

    def _chances(self) -> FloatArray:
        """Return the probabilities of a draw of the coreset."""
        distances = cdist(self._rows, self._rows[self.seeds_])
        nearest, cost = distances.argmin(axis=1), distances.min(axis=1) ** self.z
        scores = cost / (cost.sum() or 1.0) + 1 / np.bincount(nearest, minlength=self.n_clusters)[nearest]
        return np.asarray(scores / scores.sum())

    def _transport_draws(self, before: FloatArray) -> bool:
        """Move every draw and its weight from the law before to that of now; return whether one has changed."""
        rows, weights = self.chosen_.copy(), self.weights_.copy()
        if not len(rows):
            self.chosen_ = self._rng.choice(self.n_seen_, size=self.size, p=self.chances_)
            self.weights_ = np.array([self._weight(int(row)) for row in self.chosen_])
            return True
        for slot in range(self.size):
            self.chosen_[slot] = row = self._transported_row(rows[slot], before, self.chances_)
            if row != rows[slot]:
                self.weights_[slot] = self._weight(row)
            elif self.chances_[row] != before[row]:
                self.weights_[slot] = self._transported_weight(weights[slot], before[row], row)
        return not (np.array_equal(rows, self.chosen_) and np.array_equal(weights, self.weights_))

    def _weight(self, row: int) -> float:
        return float(self._rng.uniform(1, 1 + self.epsilon) / (self.size * self.chances_[row]))

    def _transported_weight(self, weight: float, chance_before: float, row: int) -> float:
        before, after = (self._density(1 / (self.size * chance)) for chance in (chance_before, self.chances_[row]))
        return float(transported(weight, before, after, lambda: self._weight(row), self._rng))

    def _density(self, low: float) -> Callable[[float], float]:
        """Return the density of the uniform law on [low, (1 + epsilon) low]."""
        return lambda w: 1 / (self.epsilon * low) if low <= w <= (1 + self.epsilon) * low else 0.0

    def _solve(self) -> None:
        chosen, slot = np.unique(self.chosen_, return_inverse=True)
        points, weights = self._rows[chosen], np.bincount(slot, self.weights_)
        distinct = np.unique(points, axis=0)
        if len(distinct) <= self.n_clusters:
            self.cluster_centers_ = distinct[np.arange(self.n_clusters) % len(distinct)]
            return
        batch = KMeans(self.n_clusters, n_init=3, random_state=self._solver_seed)
        self.cluster_centers_ = batch.fit(points, sample_weight=weights).cluster_centers_


def transported(
    value: Any,
    before: Callable[[Any], float],
    after: Callable[[Any], float],
    draw: Callable[[], Any],
    rng: np.random.Generator,
) -> Any:
    """Return a draw from the distribution ``after``, given one from ``before``, unchanged as often as possible.

    It is kept with probability min(1, after / before); otherwise draws from ``after`` are taken or refused until one
    falls into what ``after`` has more than ``before``. So it changes with the total variation distance of the two.
    """
    if rng.random() * before(value) <= after(value):
        return value
    while True:
        other = draw()
        if rng.random() * after(other) > before(other):
            return other


PEERS = (
    Peer(
        "clustering of low sensitivity", {"clustering": lambda settings: LowSensitivity(settings.k)}, frozenset({LOSS})
    ),
)
