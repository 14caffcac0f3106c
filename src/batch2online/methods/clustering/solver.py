"""Solve (k, z)-clustering of weighted points: a search from several starts, then steps of Lloyd's algorithm.

The search works on several starts at once, one matrix product a step: greedy D^z seeding (k-means++ for z = 2), a few
steps each, then swaps of a center for a point (Lattanzi & Sohler, ICML 2019), each judged after a few steps. Starts and
swaps are dropped when they can hardly win any more. The search is in single precision, and in the leading directions of
points with many columns.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

from batch2online import sampling
from batch2online._types import FloatArray, IntArray, RealArray
from batch2online.methods.clustering.judge import Judge
from batch2online.methods.clustering.lloyd import (
    CANCELLATION,
    CONVERGED,
    NEARLY_CONVERGED,
    WeightedPoints,
    means_after,
    raced,
    refined,
)
from batch2online.numerics.distances import Sums, nearest_squared, power, sums_of_clusters
from batch2online.rows import all_ones

_SWAPS = 4
_CANDIDATES = 24
_FAILURES = 2
_SHORT, _LONG = 5, 50
_GAIN = 3e-4
_SKETCH, _SPARE, _SKETCHED_ROWS = 32, 8, 500
_FEW_STARTS, _CROWDED = 3, 8
"""New starts of a search; one where there are at most so many points for each center: more would find little."""
_START_CENTERS, _START_POINTS = 20, 200
"""Centers of all new starts beside current centers, and points for each center up to which there are any."""
_JUDGED, _JUDGED_PER_CENTER = 4_000, 100
"""Points, and points a center, among which candidates are searched and judged."""
_SAMPLE_PAGE = 3


class Search:
    """Search by restarts and swaps, in single precision and few columns."""

    def __init__(self, full: WeightedPoints, k: int, z: float, seed: int) -> None:
        self.full, self.k, self.z, self.seed, self.draws = full, k, z, seed, 0
        self.projection = _projection(full.singles, seed, k)
        weights = full.weights / full.weights.max()
        self.low = WeightedPoints(self._projected(full.singles), weights.astype(np.float32))

    def _projected(self, singles: RealArray) -> RealArray:
        return singles if self.projection is None else singles @ self.projection

    def _lowered(self, points: FloatArray) -> FloatArray:
        return np.asarray(self._projected(self.full.in_singles(points)))

    def run(self, starts: int, current: FloatArray | None) -> FloatArray:
        """Return sets of centers (r, k, d) to continue from: the current ones, and better ones if any are found.

        Next to current centers, which come from a search themselves, there are few starts.
        """
        if current is None:
            best, least = raced(self.low, self._seeded(starts), self.z, 3 * _SHORT)
            return self._finished(self._swapped(best, least, _FAILURES))[None]
        own, least_of_own = raced(self.low, self._lowered(current)[None], self.z, 3 * _SHORT)
        others = self._seeded(min(starts, _FEW_STARTS if len(self.low.points) > _CROWDED * self.k else 1))
        best, least = raced(self.low, others, self.z, 3 * _SHORT, least_of_own)
        if least_of_own * (1 - NEARLY_CONVERGED) <= least:  # rounding must not decide between equal ones
            best, least = own, least_of_own
        found = self._swapped(best, least, 1)
        return np.stack([current] if found is own else [current, self._finished(found)])

    def candidates(self, current: FloatArray) -> FloatArray:
        """Return sets of centers (r, k, d): refined from the current ones; after 1, 2, 4, ... swaps; from new starts.

        The more centers there are, the better swaps are next to new starts, of which there are fewer; and the more
        points the current centers come from, the less new starts find that swaps do not.
        """
        own, least = raced(self.low, self._lowered(current)[None], self.z, 3 * _SHORT)
        swapped = [centers for centers, _ in self._swaps_that_gain(own, least, 1)]
        found = [own, *(swapped[2**i - 1] for i in range(len(swapped).bit_length())), *swapped[-1:]]
        starts = min(STARTS, _START_CENTERS // self.k) if len(self.low.points) <= _START_POINTS * self.k else 0
        if starts:
            new, least = raced(self.low, self._seeded(starts), self.z, 3 * _SHORT)
            found.append(self._swapped(new, least, 1))
        return self.raised(refined(self.low, np.stack(found), self.z, _SHORT, NEARLY_CONVERGED)[0])

    def _finished(self, centers: FloatArray) -> FloatArray:
        return np.asarray(self.raised(refined(self.low, centers[None], self.z, _LONG, NEARLY_CONVERGED)[0])[0])

    def raised(self, sets: FloatArray) -> FloatArray:
        """Return sets of centers (r, k, d) in all columns: the means of the clusters, in single precision too."""
        if self.projection is not None:
            r, k, _ = sets.shape
            shares = (self.low.assigned(sets)[1] * self.low.weights).reshape(r * k, -1)
            masses = shares.sum(axis=1, keepdims=True)
            sets = np.reshape(shares @ self.full.singles / np.where(masses > 0, masses, 1.0), (r, k, -1))
        return np.asarray(sets.astype(np.float64) * self.full.scale)

    def _uniforms(self, count: int) -> FloatArray:
        self.draws += count
        return sampling.uniforms(self.seed, sampling.SOLVER, range(self.draws - count, self.draws))

    def _drawn(self, mass: FloatArray, count: int) -> IntArray:
        """Return indices (r, count) of points drawn in proportion to each row of ``mass`` (r, n)."""
        cumulated = np.cumsum(mass, axis=1, dtype=np.float64)
        targets = self._uniforms(len(mass) * count).reshape(len(mass), count) * cumulated[:, -1:]
        found = [np.searchsorted(row, target, side="right") for row, target in zip(cumulated, targets, strict=True)]
        return np.asarray(np.minimum(np.stack(found), mass.shape[1] - 1))

    def _losses(self, centers: FloatArray) -> FloatArray:
        return power(self.low.squared(centers), self.z)

    def _seeded(self, starts: int) -> FloatArray:
        """Return several starts by greedy D^z seeding: of a few candidates the one that lowers the cost most."""
        points, weights = self.low.points, self.low.weights
        trials, every = 2 + int(math.log(self.k)), np.arange(starts)
        chosen = [points[self._drawn(np.broadcast_to(weights, (starts, len(weights))), 1)[:, 0]]]
        losses = self._losses(chosen[0])
        for _ in range(1, self.k):
            drawn = self._drawn(losses * weights, trials)
            candidates = self._losses(points[drawn.ravel()]).reshape(starts, trials, -1)
            candidates = np.minimum(candidates, losses[:, None], out=candidates)
            best = (candidates @ weights).argmin(axis=1)
            losses = candidates[every, best]
            chosen.append(points[drawn[every, best]])
        return np.stack(chosen, axis=1)

    def _swapped(self, centers: FloatArray, least: float, patience: int) -> FloatArray:
        """Return the centers after swaps of a center for a point, until ``patience`` of them in a row have failed."""
        for better, _ in self._swaps_that_gain(centers, least, patience):
            centers = better
        return centers

    def _swaps_that_gain(self, centers: FloatArray, least: float, patience: int) -> Iterator[tuple[FloatArray, float]]:
        """Iterate over the centers after each swap that lowers the cost, and their costs."""
        failures = 0
        while failures < patience:
            best, cost = raced(self.low, self._swaps(centers), self.z, _SHORT, least * (1 - _GAIN), halving=True)
            if cost < least * (1 - _GAIN):
                centers, least, failures = best, cost, 0
                yield best, cost
            else:
                failures += 1

    def _swaps(self, centers: FloatArray) -> FloatArray:
        """Return the most promising swaps, by their cost before any further step."""
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


def _projection(points: RealArray, seed: int, k: int) -> RealArray | None:
    """Return an orthonormal basis (d, few) of the leading directions of some of the points, None for few columns.

    k centers differ in k - 1 directions, and leading ones keep the costs of k-means (Cohen et al., STOC 2015); two
    rounds of subspace iteration from a random start find nearly all of their variance.
    """
    columns, few = points.shape[1], min(_SKETCH, _SPARE + k)
    if columns <= 2 * _SKETCH:
        return None
    some = points[:: -(-len(points) // _SKETCHED_ROWS)]
    some = some - some.mean(axis=0)
    basis = sampling.uniforms(seed, sampling.PROJECTION, range(columns * few)).reshape(columns, few) - 0.5
    for _ in range(2):
        basis = np.linalg.qr(some.T @ (some @ basis.astype(np.float32)))[0]
    return basis


STARTS = 8
_WITH_SUMS, _LONG = 10, 50
_SOME = 64


class Clusters(NamedTuple):
    """Centers (k, d) and by-products of the solver.

    Labels of the points; costs of the current centers and of these on all rows that the points represent; labels of the
    points under the current centers; the effective-sample-size ratio of the losses, 1 if all points cost the same.
    """

    centers: FloatArray
    labels: IntArray | None = None
    costs: tuple[float, float] | None = None
    current_labels: IntArray | None = None
    ess_ratio: float = 1.0


def losses(points: FloatArray, centers: FloatArray, z: float) -> FloatArray:
    """Return distances to the nearest center, to the power z."""
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
    """Return centers (k, d) of low cost, no cluster empty; points repeat if fewer than k are distinct.

    If ``current`` centers are given, the result costs no more than these.

    >>> points = np.array([[0.0], [1.0], [10.0], [11.0]])
    >>> np.sort(solve(points, np.ones(4), k=2, z=2.0, seed=0), axis=0).tolist()
    [[0.5], [10.5]]
    """
    return solved(points, weights, k, z, seed, current, starts).centers


def solved(
    points: FloatArray,
    weights: FloatArray,
    k: int,
    z: float,
    seed: int,
    current: FloatArray | None = None,
    starts: int = STARTS,
    sums_of: Callable[[FloatArray, FloatArray], Sums] | None = None,
    judge: Judge | None = None,
) -> Clusters:
    """Return the centers of :func:`solve` with labels and costs.

    If the points are a coreset, ``sums_of`` can return the sums of all rows in the clusters of several sets of centers
    (r, k, d), for z = 2; centers and sums are relative to an origin, its second argument. These sums then decide
    between the result of the search and the current centers, and start the steps to their means; the result may cost
    the points more than the current centers. A ``judge`` decides out of sample instead, and weighs changes of labels.
    """
    distinct = first_distinct(points, k + 1)
    if len(distinct) <= k:
        return Clusters(np.asarray(distinct[np.arange(k) % len(distinct)]))
    origin = np.median(points[:: -(-len(points) // _SOME)], axis=0)  # near most points, whatever the outliers
    near_zero = WeightedPoints(points - origin, weights)
    options = _options(near_zero, k, z, seed, None if current is None else current - origin, starts, judge)
    if z != 2:
        options = options if judge is None else options[-1:]
        settled, costs = refined(near_zero, options, z, _LONG)
        equal = costs <= costs.min() * (1 + CONVERGED)  # rounding must not decide between them
        return Clusters(np.asarray(settled[equal.argmax()] + origin))
    sums = sums_of_clusters(near_zero.points, weights, options) if sums_of is None else sums_of(options, origin)
    found = _decided(
        near_zero, options, sums.of_each(), current is not None, sums_of is not None, is_judged=judge is not None
    )
    return found._replace(centers=np.asarray(found.centers + origin))


def _options(
    points: WeightedPoints,
    k: int,
    z: float,
    seed: int,
    current: FloatArray | None,
    starts: int,
    judge: Judge | None,
) -> FloatArray:
    """Return sets of centers (r, k, d) to continue from: the current ones, and others if these are better."""
    if current is None or judge is None:
        return Search(points, k, z, seed).run(starts, current)
    some, labels = _sampled(points, current, z, seed, max(_JUDGED, _JUDGED_PER_CENTER * k))
    candidates = Search(some, k, z, seed).candidates(current)
    best = judge.choice(some, labels, candidates, z)
    if best == 0:
        return current[None]
    return np.stack([current, candidates[best]])


def _sampled(
    points: WeightedPoints, current: FloatArray, z: float, seed: int, size: int
) -> tuple[WeightedPoints, IntArray]:
    """Return about ``size`` points at most, by their sensitivity under the current centers, and their labels.

    All are returned if they are few.
    """
    labels, distances, _ = points.two_nearest(current)
    if len(points.points) <= 1.5 * size:
        return points, labels
    losses, masses = points.weights * power(np.square(distances), z), np.bincount(labels, points.weights, len(current))
    scores = losses / (losses.sum() or 1.0) + points.weights / (len(current) * masses)[labels]
    q = np.minimum(1.0, size / 2 * scores)
    draws = sampling.uniforms_of(sampling.words(seed, sampling.SOLVER, range(len(q)), _SAMPLE_PAGE))
    kept = np.flatnonzero(draws < q)
    return WeightedPoints(points.points[kept], points.weights[kept] / q[kept]), labels[kept]


def _decided(
    points: WeightedPoints,
    options: FloatArray,
    sums: list[Sums],
    has_current: bool,
    are_others: bool = False,
    is_judged: bool = False,
) -> Clusters:
    """Return the centers refined from the option whose clusters cost least; current centers are the first option.

    Where a judge has chosen, they are refined from the last option.
    If sums of all rows are unusable after some steps, the points decide; plain steps do if sums are mostly rounding.
    """
    least = [own.least_cost() for own in sums]
    best = len(options) - 1 if is_judged else int(np.argmin(least))
    gain = NEARLY_CONVERGED if has_current else CONVERGED
    if min(least) >= CANCELLATION * sums[0].squares:
        found = means_after(
            points, options[best], _WITH_SUMS if are_others else _LONG, sums[best] if are_others else None, gain
        )
        if found is not None and has_current:
            own, ess_ratio = points.two_nearest(options[0]).labels, _ess_ratio(points.weights, found.first_distances)
            return Clusters(found.centers, found.labels, (sums[0].cost(options[0]), found.cost), own, ess_ratio)
        if found is None and are_others:
            found = means_after(points, options[best], _LONG, None, gain)
        if found is not None:
            return Clusters(found.centers, found.labels)
    settled, costs = refined(points, options[-1:] if is_judged else options, 2.0, _LONG)
    return Clusters(settled[costs.argmin()])


def _ess_ratio(weights: FloatArray, distances: FloatArray) -> float:
    """Return the effective-sample-size ratio of squared distances: squared mean over mean square, by weight."""
    largest = float(distances.max())
    shares = np.square(distances / (largest or 1.0))  # powers may be too large
    squares = float(weights @ np.square(shares))
    return float(weights @ shares) ** 2 / (squares * float(weights.sum())) if squares else 1.0


def first_distinct(points: FloatArray, most: int) -> FloatArray:
    """Return up to ``most`` distinct points, the first ones first."""
    if len(points) > 4 * most:
        head = first_distinct(points[: 4 * most], most)
        if len(head) == most:
            return head
    chosen: list[int] = []
    others = np.ones(len(points), dtype=bool)
    while len(chosen) < most and others.any():
        chosen.append(int(others.argmax()))
        others &= (points != points[chosen[-1]]).any(axis=1)
    return points[chosen]
