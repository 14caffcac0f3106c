"""Weighted (k,z)-clustering: the batch algorithm that runs on a coreset.

Minimises the sum of ``w_i min_c |x_i - c|^z``: Lloyd's steps for z = 2 and Weiszfeld-type steps otherwise, from what a
search (:mod:`batch2online.solvers.search`) has found. All random choices are a pure function of the seed.

scikit-learn's ``KMeans`` would do the steps for z = 2. Here one code serves every z, and works on several starts in one
product.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from batch2online._types import FloatArray, IntArray
from batch2online.core.rows import all_ones
from batch2online.linalg.distances import Sums, nearest_squared, power, sums_of_clusters
from batch2online.solvers.bounded_lloyd import CANCELLATION, means_after
from batch2online.solvers.lloyd import NEARLY_SETTLED, SETTLED, WeightedPoints, refined
from batch2online.solvers.search import Search

STARTS = 8
_WITH_SUMS, _LONG = 10, 50
_SOME = 64


class Clusters(NamedTuple):
    """Centers (k, d), and what is known of them.

    The clusters of the points; what current centers and these cost, for all that the points stand for; the clusters of
    the points under current centers; how evenly points share the cost, 1 if they share it equally.
    """

    centers: FloatArray
    labels: IntArray | None = None
    costs: tuple[float, float] | None = None
    current_labels: IntArray | None = None
    evenness: float = 1.0


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
) -> Clusters:
    """Return what :func:`solve` does, and what is known besides.

    Where the points are a coreset, ``sums_of`` may give the sums of all that they stand for, in the clusters of several
    sets of centers (r, k, d), for z = 2; centers and sums are relative to an origin, its second argument. These then
    decide between what the search has found and the current centers, and begin the steps to their means; the result may
    cost the points more than the current centers.
    """
    distinct = _first_distinct(points, k + 1)
    if len(distinct) <= k:
        return Clusters(np.asarray(distinct[np.arange(k) % len(distinct)]))
    origin = np.median(points[:: -(-len(points) // _SOME)], axis=0)  # near most points, whatever the others are
    near_zero = WeightedPoints(points - origin, weights)
    options = Search(near_zero, k, z, seed).run(starts, None if current is None else current - origin)
    if z != 2:
        settled, costs = refined(near_zero, options, z, _LONG)
        return Clusters(np.asarray(settled[costs.argmin()] + origin))
    sums = sums_of_clusters(near_zero.points, weights, options) if sums_of is None else sums_of(options, origin)
    found = _decided(near_zero, options, sums.of_each(), current is not None, are_others=sums_of is not None)
    return found._replace(centers=np.asarray(found.centers + origin))


def _decided(
    points: WeightedPoints, options: FloatArray, sums: list[Sums], has_current: bool, are_others: bool = False
) -> Clusters:
    """Return what becomes of the option whose clusters cost least, by their sums; current centers are the first.

    Where these sums are mostly rounding, or say little after some steps, plain steps on the points decide.
    """
    least = [own.least_cost() for own in sums]
    best = int(np.argmin(least))
    found = None
    if min(least) >= CANCELLATION * sums[0].squares:
        steps, gain = _WITH_SUMS if are_others else _LONG, NEARLY_SETTLED if has_current else SETTLED
        found = means_after(points, options[best], steps, sums[best] if are_others else None, gain)
    if found is None:
        settled, costs = refined(points, options, 2.0, _LONG)
        return Clusters(settled[costs.argmin()])
    if not has_current:
        return Clusters(found.centers, found.labels)
    own, evenness = None if best else found.first_labels, _evenness(points.weights, found.first_distances)
    return Clusters(found.centers, found.labels, (sums[0].cost(options[0]), found.cost), own, evenness)


def _evenness(weights: FloatArray, distances: FloatArray) -> float:
    """Return the squared sum of squared distances over their number and the sum of their squares, all by weight."""
    largest = float(distances.max())
    shares = np.square(distances / (largest or 1.0))  # powers may be too large
    squares = float(weights @ np.square(shares))
    return float(weights @ shares) ** 2 / (squares * float(weights.sum())) if squares else 1.0


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
