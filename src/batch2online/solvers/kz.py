"""Weighted (k,z)-clustering: the batch algorithm that runs on a coreset.

Minimises the sum of ``w_i min_c |x_i - c|^z``. Several starts are worked on at once, one matrix product a step:
greedy D^z seeding (k-means++ for z = 2), Lloyd's steps for z = 2 and Weiszfeld-type steps otherwise, then swaps of
a center for a point (Lattanzi & Sohler, ICML 2019), each judged after a few steps. Points of many columns are
searched in a random projection, and only the best solution is refined in full. All random choices are a pure
function of the seed.

scikit-learn's ``KMeans`` would do the steps for z = 2, but adds its partial sums in the order in which threads
finish: two equal runs could differ in the last bits, and with them everything that follows.
"""

from __future__ import annotations

import math

import numpy as np

from batch2online import randomness
from batch2online._types import FloatArray, IntArray
from batch2online.distances import nearest, nearest_squared, power

STARTS = 8
_SWAPS = 6
_CANDIDATES = 24
_FAILURES = 2
_SHORT, _LONG = 5, 100
_GAIN = 1e-4
_SETTLED = 1e-6
_SKETCH = 48
_SOFTENING = 1e-12


def cost(points: FloatArray, weights: FloatArray, centers: FloatArray, z: float) -> float:
    """The weighted sum of distances to the nearest center, to the power z."""
    return float(weights @ power(nearest_squared(points, centers), z))


def solve(
    points: FloatArray,
    weights: FloatArray,
    k: int,
    z: float,
    seed: int,
    current: FloatArray | None = None,
    starts: int = STARTS,
) -> FloatArray:
    """Centers (k, d) of low cost, no cluster empty; points repeat where fewer than k are distinct.

    >>> points = np.array([[0.0], [1.0], [10.0], [11.0]])
    >>> np.sort(solve(points, np.ones(4), k=2, z=2.0, seed=0), axis=0).tolist()
    [[0.5], [10.5]]
    """
    distinct = _first_distinct(points, k + 1)
    if len(distinct) <= k:
        return np.asarray(distinct[np.arange(k) % len(distinct)])
    origin = points.mean(axis=0)
    points = points - origin
    known = None if current is None else current - origin
    found = _Search(points, weights, z, seed).run(k, starts, known)
    options = found[None] if known is None else np.stack([found, known])
    centers, costs = refined(points, weights, options, z, _LONG)
    return np.asarray(centers[costs.argmin()] + origin)


def _first_distinct(points: FloatArray, most: int) -> FloatArray:
    """Up to ``most`` distinct points, the first ones first."""
    if len(points) > 4 * most:
        head = _first_distinct(points[: 4 * most], most)
        if len(head) == most:
            return head
    _, first = np.unique(points, axis=0, return_index=True)
    return points[np.sort(first)[:most]]


class _Search:
    """Restarts and swaps, on the points or on a sketch of them."""

    def __init__(self, points: FloatArray, weights: FloatArray, z: float, seed: int) -> None:
        self.full, self.weights, self.z, self.seed = points, weights, z, seed
        self.projection = _projection(points.shape[1], seed)
        self.points = points if self.projection is None else points @ self.projection
        self.draws = 0

    def run(self, k: int, starts: int, current: FloatArray | None) -> FloatArray:
        options = self._seeded(k, starts)
        if current is not None:
            low = current if self.projection is None else current @ self.projection
            options = np.concatenate([low[None], options])
        options, costs = refined(self.points, self.weights, options, self.z, 2 * _SHORT)
        best = costs.argmin()
        centers = self._swapped(options[best], float(costs[best]))
        return centers if self.projection is None else self._lifted(centers)

    def _lifted(self, centers: FloatArray) -> FloatArray:
        """Means, in all columns, of the clusters found in the sketch."""
        labels, _ = nearest(self.points, centers)
        members = self.weights * (labels == np.arange(len(centers))[:, None])
        mass = members.sum(axis=1, keepdims=True)
        return np.asarray(members @ self.full / np.where(mass > 0, mass, 1.0))

    def _uniforms(self, count: int) -> FloatArray:
        self.draws += count
        return randomness.uniforms(self.seed, randomness.SOLVER, range(self.draws - count, self.draws))

    def _drawn(self, mass: FloatArray, count: int) -> IntArray:
        """For each row of ``mass`` (r, n), indices (r, count) of points drawn in proportion to it."""
        cumulated = np.cumsum(mass, axis=1)
        targets = self._uniforms(len(mass) * count).reshape(len(mass), count) * cumulated[:, -1:]
        found = [np.searchsorted(row, target, side="right") for row, target in zip(cumulated, targets, strict=True)]
        return np.asarray(np.minimum(np.stack(found), mass.shape[1] - 1))

    def _seeded(self, k: int, starts: int) -> FloatArray:
        """Greedy D^z seeding of several starts: of a few candidates the one that lowers the cost most is taken."""
        trials = 2 + int(math.log(k))
        first = self._drawn(np.broadcast_to(self.weights, (starts, len(self.weights))), 1)
        chosen = [self.points[first[:, 0]]]
        losses = power(_all_squared(self.points, chosen[0]), self.z)
        for _ in range(1, k):
            drawn = self._drawn(losses * self.weights, trials)
            candidates = power(_all_squared(self.points, self.points[drawn.ravel()]), self.z)
            candidates = np.minimum(candidates.reshape(starts, trials, -1), losses[:, None])
            best = (candidates @ self.weights).argmin(axis=1)
            losses = candidates[np.arange(starts), best]
            chosen.append(self.points[drawn[np.arange(starts), best]])
        return np.stack(chosen, axis=1)

    def _swapped(self, centers: FloatArray, least: float) -> FloatArray:
        """Exchange a center for a point as long as that helps."""
        failures = 0
        while failures < _FAILURES:
            options, costs = refined(self.points, self.weights, self._swaps(centers), self.z, _SHORT)
            best = costs.argmin()
            if costs[best] < least * (1 - _GAIN):
                centers, least, failures = options[best], float(costs[best]), 0
            else:
                failures += 1
        return centers

    def _swaps(self, centers: FloatArray) -> FloatArray:
        """The most promising exchanges, by their cost before any further step."""
        k = len(centers)
        losses = power(_all_squared(self.points, centers), self.z)
        labels = losses.argmin(axis=0)
        first = losses.min(axis=0)
        second = np.partition(losses, 1, axis=0)[1] if k > 1 else np.full_like(first, np.inf)
        drawn = self._drawn((first * self.weights)[None], _CANDIDATES)[0]
        candidates = power(_all_squared(self.points, self.points[drawn]), self.z)
        kept = np.minimum(candidates, first)
        lost = np.minimum(candidates, second) - kept
        members = np.where(labels[:, None] == np.arange(k), self.weights[:, None], 0.0)
        costs = (kept @ self.weights)[:, None] + lost @ members
        removed = costs.argmin(axis=1)
        order = np.argsort(costs.min(axis=1), kind="stable")[:_SWAPS]
        options = np.repeat(centers[None], len(order), axis=0)
        options[np.arange(len(order)), removed[order]] = self.points[drawn[order]]
        return options


def refined(
    points: FloatArray, weights: FloatArray, centers: FloatArray, z: float, steps: int
) -> tuple[FloatArray, FloatArray]:
    """The best centers (r, k, d) met on up to ``steps`` steps from each of r starts, and their costs (r,)."""
    best, least = centers, np.full(len(centers), np.inf)
    for _ in range(steps + 1):
        squared, members = _assigned(points, centers)
        losses = power(squared, z) * weights
        costs = losses.sum(axis=1)
        better = costs < least
        gained = np.any(costs < least * (1 - _SETTLED))
        best, least = np.where(better[:, None, None], centers, best), np.where(better, costs, least)
        if not gained:
            break
        centers = _stepped(points, weights, centers, z, squared, members, losses)
    return best, least


def _stepped(
    points: FloatArray,
    weights: FloatArray,
    centers: FloatArray,
    z: float,
    squared: FloatArray,
    members: FloatArray,
    losses: FloatArray,
) -> FloatArray:
    r"""Each center moved to the mean of its points, weighted by :math:`w |x - c|^{z-2}`.

    Lloyd's step for z = 2. For z < 2 it lowers an upper bound of the cost (Weiszfeld); distances are softened so that
    a point at its center does not hold it for ever. For z > 2 the mean overshoots, and the step is divided by z - 1:
    Newton's step in one dimension, and shorter than it in others.
    """
    r, k, d = centers.shape
    influence = np.broadcast_to(weights, squared.shape)
    if z != 2:
        floor = _SOFTENING * squared.mean(axis=1, keepdims=True) + np.finfo(float).tiny
        influence = weights * np.maximum(squared, floor) ** (z / 2 - 1)
    members = members * influence[:, None]
    mass = members.sum(axis=2)[..., None]
    means = (members.reshape(r * k, -1) @ points).reshape(r, k, d) / np.where(mass > 0, mass, 1.0)
    moved = centers + (means - centers) / max(1.0, z - 1)
    for start in np.flatnonzero((mass == 0).any(axis=(1, 2))):
        _fill(moved[start], mass[start, :, 0] == 0, points, losses[start])
    return moved


def _fill(centers: FloatArray, empty: FloatArray, points: FloatArray, losses: FloatArray) -> None:
    """Put the centers of empty clusters on the points that cost most."""
    places = np.argsort(-losses, kind="stable")[: int(empty.sum())]
    centers[empty] = points[places]


def _assigned(points: FloatArray, centers: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Squared distances (r, n) to the nearest center of each start, and membership (r, k, n)."""
    r, k, d = centers.shape
    squared = _all_squared(points, centers.reshape(r * k, d)).reshape(r, k, -1)
    least = squared.min(axis=1)
    members = squared == least[:, None]
    if np.count_nonzero(members) > least.size:  # equally near centers: the first one counts
        members = squared.argmin(axis=1)[:, None] == np.arange(k)[:, None]
    return least, members


def _all_squared(points: FloatArray, centers: FloatArray) -> FloatArray:
    """Squared distances (k, n) by one product; points are around zero already."""
    squared = centers @ points.T
    squared *= -2
    squared += np.einsum("ij,ij->i", centers, centers)[:, None]
    squared += np.einsum("ij,ij->i", points, points)
    return np.maximum(squared, 0.0, out=squared)


def _projection(columns: int, seed: int) -> FloatArray | None:
    """A random orthonormal basis of fewer columns (scaled to keep lengths), where there are many."""
    if columns <= 2 * _SKETCH:
        return None
    u = randomness.uniforms(seed, randomness.PROJECTION, range(2 * columns * _SKETCH)).reshape(2, columns, _SKETCH)
    gaussian = np.sqrt(-2 * np.log(u[0])) * np.cos(2 * np.pi * u[1])
    return np.asarray(np.linalg.qr(gaussian)[0] * math.sqrt(columns / _SKETCH))
