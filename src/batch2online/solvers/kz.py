"""Weighted (k,z)-clustering: the batch algorithm that runs on a coreset.

Minimises the sum of ``w_i min_c |x_i - c|^z``. Several starts are worked on at once, one matrix product a step:
greedy D^z seeding (k-means++ for z = 2), Lloyd's steps for z = 2 and Weiszfeld-type steps otherwise, then swaps of
a center for a point (Lattanzi & Sohler, ICML 2019), each judged after a few steps. Starts and swaps drop out when they
can hardly win any more. The search is in single precision, and in their main directions where points have many columns;
its result is refined in full. All random choices are a pure function of the seed.

scikit-learn's ``KMeans`` would do the steps for z = 2. Here one code serves every z, and works on several starts in one
product.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from batch2online._types import FloatArray, IntArray
from batch2online.core import randomness
from batch2online.core.rows import all_ones
from batch2online.linalg.distances import Sums, nearest, nearest_squared, power, squared_lengths
from batch2online.solvers.bounded_lloyd import means_after
from batch2online.solvers.lloyd import WeightedPoints, raced, refined

STARTS = 8
_SWAPS = 4
_CANDIDATES = 24
_FAILURES = 2
_SHORT, _WITH_SUMS, _LONG = 5, 10, 50
_GAIN = 3e-4
_SKETCH, _SKETCHED_ROWS = 32, 1_000
_FAR = 10.0
_FEW_STARTS = 3


def losses(points: FloatArray, centers: FloatArray, z: float) -> FloatArray:
    """Distances to the nearest center, to the power z."""
    return power(nearest_squared(points, centers), z)


def cost(points: FloatArray, weights: FloatArray, centers: FloatArray, z: float) -> float:
    """Return the weighted sum of these losses."""
    each = losses(points, centers, z)
    return float(each.sum() if all_ones(weights) else weights @ each)


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

    Where ``current`` centers are given, the result costs no more than these.

    >>> points = np.array([[0.0], [1.0], [10.0], [11.0]])
    >>> np.sort(solve(points, np.ones(4), k=2, z=2.0, seed=0), axis=0).tolist()
    [[0.5], [10.5]]
    """
    return solved(points, weights, k, z, seed, current, starts)[0]


def solved(
    points: FloatArray,
    weights: FloatArray,
    k: int,
    z: float,
    seed: int,
    current: FloatArray | None = None,
    starts: int = STARTS,
    sums_of: Callable[[FloatArray], Sums] | None = None,
) -> tuple[FloatArray, IntArray | None]:
    """Return what :func:`solve` does, and the clusters of the points if known.

    Where the points are a coreset, ``sums_of`` may give the sums of all that they stand for, in the clusters of several
    sets of centers (r, k, d), for z = 2. These then decide between what the search has found and the current centers,
    and begin the steps to their means; the result may cost the points more than the current centers.
    """
    distinct = _first_distinct(points, k + 1)
    if len(distinct) <= k:
        return np.asarray(distinct[np.arange(k) % len(distinct)]), None
    origin = _origin(points)
    shift = np.zeros(points.shape[1]) if origin is None else origin
    near_zero = WeightedPoints(points if origin is None else points - shift, weights)
    known = None if current is None else current - shift
    options = _Search(near_zero, z, seed).run(k, starts, known)
    if sums_of is not None:
        given = near_zero if origin is None else WeightedPoints(points, weights)
        pairs = zip(options + shift, sums_of(options + shift).of_each(), strict=True)
        found = (_settled(given, option, z, sums) for option, sums in pairs)
        return min(found, key=_cost)[::2]
    centers, _, labels = min((_settled(near_zero, option, z) for option in options), key=_cost)
    return np.asarray(centers + shift), labels


def _cost(found: tuple[FloatArray, float, IntArray | None]) -> float:
    return found[1]


def _settled(
    points: WeightedPoints, centers: FloatArray, z: float, sums: Sums | None = None
) -> tuple[FloatArray, float, IntArray | None]:
    """Return centers after further steps, their cost, and their clusters if these are known."""
    if z == 2:
        labels = nearest(points.points, centers)[0]
        found = means_after(points, labels, len(centers), _LONG if sums is None else _WITH_SUMS, sums)
        if found is not None:
            return found
    options, costs = refined(points, centers[None], z, _LONG)
    return options[0], float(costs[0]), None


def _first_distinct(points: FloatArray, most: int) -> FloatArray:
    """Up to ``most`` distinct points, the first ones first."""
    if len(points) > 4 * most:
        head = _first_distinct(points[: 4 * most], most)
        if len(head) == most:
            return head
    chosen: list[int] = []
    others = np.ones(len(points), dtype=bool)
    while len(chosen) < most and others.any():
        chosen.append(int(others.argmax()))
        others &= (points != points[chosen[-1]]).any(axis=1)
    return points[chosen]


def _origin(points: FloatArray) -> FloatArray | None:
    """Return the mean of some of the points, if they are so far from zero that products would cancel."""
    some = points[:: -(-len(points) // _SKETCHED_ROWS)]
    mean = some.mean(axis=0)
    length = float(mean @ mean)
    spread = float(squared_lengths(some).mean()) - length
    return np.asarray(mean) if length > _FAR * spread else None


class _Search:
    """Restarts and swaps, in single precision and few columns."""

    def __init__(self, full: WeightedPoints, z: float, seed: int) -> None:
        self.full, self.z, self.seed, self.draws = full, z, seed, 0
        self.projection = _projection(full.points, seed)
        few = self._projected(full.points)
        self.scale = float(max(few.max(), -few.min())) or 1.0
        weights = full.weights / full.weights.max()
        self.low = WeightedPoints((few / self.scale).astype(np.float32), weights.astype(np.float32))

    def _projected(self, points: FloatArray) -> FloatArray:
        return points if self.projection is None else points @ self.projection

    def _lowered(self, points: FloatArray) -> FloatArray:
        return np.asarray((self._projected(points) / self.scale).astype(np.float32))

    def run(self, k: int, starts: int, current: FloatArray | None) -> FloatArray:
        """Return sets of centers (r, k, d) to go on from: the current ones, and what is better if anything is.

        Next to current ones, themselves once searched for, starts are few.
        """
        if current is None:
            best, least = raced(self.low, self._seeded(k, starts), self.z, 3 * _SHORT)
            return self._finished(self._swapped(best, least, _FAILURES))[None]
        own, least_of_own = raced(self.low, self._lowered(current)[None], self.z, 3 * _SHORT)
        others = self._seeded(k, min(starts, _FEW_STARTS))
        best, least = raced(self.low, others, self.z, 3 * _SHORT, least_of_own)
        if least_of_own <= least:
            best, least = own, least_of_own
        found = self._swapped(best, least, 1)
        return np.stack([current] if found is own else [current, self._finished(found)])

    def _finished(self, centers: FloatArray) -> FloatArray:
        return self.raised(refined(self.low, centers[None], self.z, _LONG)[0][0])

    def raised(self, centers: FloatArray) -> FloatArray:
        """Return centers in all columns: means of the clusters found."""
        if self.projection is None:
            return centers.astype(np.float64) * self.scale
        _, members = self.low.assigned(centers[None])
        shares = members[0] * self.full.weights
        mass = shares.sum(axis=1, keepdims=True)
        return np.asarray(shares @ self.full.points / np.where(mass > 0, mass, 1.0))

    def _uniforms(self, count: int) -> FloatArray:
        self.draws += count
        return randomness.uniforms(self.seed, randomness.SOLVER, range(self.draws - count, self.draws))

    def _drawn(self, mass: FloatArray, count: int) -> IntArray:
        """For each row of ``mass`` (r, n), indices (r, count) of points drawn in proportion to it."""
        cumulated = np.cumsum(mass, axis=1, dtype=np.float64)
        targets = self._uniforms(len(mass) * count).reshape(len(mass), count) * cumulated[:, -1:]
        found = [np.searchsorted(row, target, side="right") for row, target in zip(cumulated, targets, strict=True)]
        return np.asarray(np.minimum(np.stack(found), mass.shape[1] - 1))

    def _losses(self, centers: FloatArray) -> FloatArray:
        return power(self.low.squared(centers), self.z)

    def _seeded(self, k: int, starts: int) -> FloatArray:
        """Greedy D^z seeding of several starts: of a few candidates the one that lowers the cost most is taken."""
        points, weights = self.low.points, self.low.weights
        trials, every = 2 + int(math.log(k)), np.arange(starts)
        chosen = [points[self._drawn(np.broadcast_to(weights, (starts, len(weights))), 1)[:, 0]]]
        losses = self._losses(chosen[0])
        for _ in range(1, k):
            drawn = self._drawn(losses * weights, trials)
            candidates = self._losses(points[drawn.ravel()]).reshape(starts, trials, -1)
            candidates = np.minimum(candidates, losses[:, None], out=candidates)
            best = (candidates @ weights).argmin(axis=1)
            losses = candidates[every, best]
            chosen.append(points[drawn[every, best]])
        return np.stack(chosen, axis=1)

    def _swapped(self, centers: FloatArray, least: float, patience: int) -> FloatArray:
        """Exchange a center for a point, until that has not helped a number of times."""
        failures = 0
        while failures < patience:
            best, cost = raced(self.low, self._swaps(centers), self.z, _SHORT, least * (1 - _GAIN))
            if cost < least * (1 - _GAIN):
                centers, least, failures = best, cost, 0
            else:
                failures += 1
        return centers

    def _swaps(self, centers: FloatArray) -> FloatArray:
        """Return the most promising exchanges, by their cost before any further step."""
        points, weights, k = self.low.points, self.low.weights, len(centers)
        losses = self._losses(centers)
        first = losses.min(axis=0)
        own = losses == first
        if np.count_nonzero(own) > len(first):
            own = losses.argmin(axis=0) == np.arange(k)[:, None]
        losses[own] = np.inf
        second = losses.min(axis=0)
        drawn = self._drawn((first * weights)[None], _CANDIDATES)[0]
        candidates = self._losses(points[drawn])
        kept = np.minimum(candidates, first)
        lost = np.minimum(candidates, second) - kept
        costs = (kept @ weights)[:, None] + lost @ (own * weights).T
        removed = costs.argmin(axis=1)
        order = np.argsort(costs.min(axis=1), kind="stable")[:_SWAPS]
        options = np.repeat(centers[None], len(order), axis=0)
        options[np.arange(len(order)), removed[order]] = points[drawn[order]]
        return options


def _projection(points: FloatArray, seed: int) -> FloatArray | None:
    """Return an orthonormal basis (d, few) of the main directions of some of the points, where there are many columns.

    Leading directions keep the costs of k-means (Cohen et al., STOC 2015); two rounds of subspace iteration from a
    random start are enough to find nearly all of what they hold.
    """
    columns = points.shape[1]
    if columns <= 2 * _SKETCH:
        return None
    some = points[:: -(-len(points) // _SKETCHED_ROWS)]
    centered = some - some.mean(axis=0)
    centered /= max(centered.max(), -centered.min()) or 1.0
    some = centered.astype(np.float32)
    basis = randomness.uniforms(seed, randomness.PROJECTION, range(columns * _SKETCH)).reshape(columns, _SKETCH) - 0.5
    for _ in range(2):
        basis = np.linalg.qr(some.T @ (some @ basis.astype(np.float32)))[0]
    return np.asarray(basis, dtype=np.float64)
