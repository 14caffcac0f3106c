"""Lloyd's algorithm (z = 2) and Weiszfeld's (z = 1) for weighted points, from several starts at once."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from functools import cached_property, reduce
from typing import Any, NamedTuple

import numpy as np

from batch2online._types import BoolArray, FloatArray, IntArray, RealArray
from batch2online.numerics.distances import Sums, power, scratch

CONVERGED, NEARLY_CONVERGED = 1e-5, 1e-4
_LOOKAHEAD = 5
_FEW_COLUMNS = 96
_FEWEST_ROWS, _CACHED_ENTRIES = 256, 100_000
_FEW_CENTERS = 64
_GATHERING = 32
"""To copy a row takes as long as its distances to about so many centers."""
_SOFTENING = 1e-12
_CANCELLATION = 1e-6
"""Squared distances below this share of the squared length are computed from differences."""
_VANISHING, _TINY = 1e-280, 1e-300
_SINGLE = 2.0**-23
_ACCURACY = 1e-3
"""Largest relative error of squared distances that are taken from products in single precision."""


class Influence(NamedTuple):
    """Sums over points that determine a step of centers; sums over several sets of points add up.

    Points times their influence (r, k, d), the influence itself (r, k, 1), and the weight of points at their center.
    """

    of_points: RealArray
    mass: RealArray
    held: RealArray

    def plus(self, other: Influence) -> Influence:
        """Return the sums of both."""
        return Influence(self.of_points + other.of_points, self.mass + other.mass, self.held + other.held)

    def moved(self, centers: FloatArray, z: float) -> FloatArray:
        """Return the centers after the step; centers without points stay."""
        pull = self.of_points - self.mass * centers
        steps = pull / np.where(self.mass > 0, self.mass, 1.0) / max(1.0, z - 1)
        if z == 1:
            force = np.linalg.norm(pull, axis=2, keepdims=True)
            steps *= np.clip(1 - self.held / np.where(force > 0, force, 1.0), 0.0, 1.0)
        return np.asarray(centers + steps)


class Nearest(NamedTuple):
    """Index of the nearest center of each point, the distance to it, and that to the second nearest."""

    labels: IntArray
    first: FloatArray
    second: FloatArray


class WeightedPoints:
    """Points (n, d) and their weights, prepared for products with many centers.

    ``(|c|^2 - 2 c.x) / 2`` is least at the nearest center, and with the length of x it gives the squared distance. For
    few columns it is one product, of ``[c, |c|^2 / 2]`` and ``[-x, 1]``.
    """

    def __init__(self, points: Any, weights: Any) -> None:
        self.points, self.weights = points, weights
        self.lengths = np.vecdot(points, points)
        self._known: dict[bytes, Nearest] = {}

    @cached_property
    def minus_and_one(self) -> RealArray | None:
        """[-x, 1] of points of few columns."""
        return None if self.points.shape[1] > _FEW_COLUMNS else np.hstack([-self.points, self._ones()])

    @cached_property
    def moments(self) -> RealArray | None:
        """[x, 1] times the weight, of points of few columns."""
        if self.points.shape[1] > _FEW_COLUMNS:
            return None
        return np.asarray(np.hstack([self.points, self._ones()]) * self.weights[:, None])

    def _ones(self) -> RealArray:
        return np.ones((len(self.points), 1), dtype=self.points.dtype)

    @cached_property
    def scale(self) -> float:
        """The largest length of the points, or their largest value if squares underflow; it has an inverse."""
        longest = float(self.lengths.max())
        if longest > _VANISHING:
            return math.sqrt(longest)
        return max(float(self.points.max()), -float(self.points.min()), _TINY)

    @cached_property
    def singles(self) -> RealArray:
        """The points divided by their scale, in single precision."""
        return self.in_singles(self.points)

    def in_singles(self, points: RealArray) -> RealArray:
        """Return points divided by the scale of these points, in single precision."""
        return np.multiply(points, 1 / self.scale, out=np.empty(points.shape, dtype=np.float32), casting="same_kind")

    @cached_property
    def _single_lengths(self) -> RealArray:
        return np.asarray(np.vecdot(self.singles, self.singles))

    def two_nearest(self, centers: FloatArray, where: IntArray | None = None) -> Nearest:
        """Return :meth:`two_nearest_of_each` of one set of centers (k, d); that of all points is cached."""
        if where is not None:
            return self.two_nearest_of_each(centers[None], where)[0]
        key = centers.tobytes()
        if key not in self._known:
            self._known = {key: self.two_nearest_of_each(centers[None])[0]}
        return self._known[key]

    def two_nearest_of_each(self, sets: FloatArray, where: IntArray | None = None) -> list[Nearest]:
        r"""Return the two nearest centers of each point, or of some, in each of r sets (r, k, d).

        Wide points take one product in single precision. A squared distance :math:`|x - c|^2` is then within
        :math:`d u (|x|^2 + |c|^2)`, u the unit in the last place. Points of which this is more than a small share of
        the least distance, or of which the nearest center could be another one, are computed in double precision.
        """
        if self.points.shape[1] <= _FEW_COLUMNS:
            return two_nearest(_at(self.points, where), _at(self.lengths, where), sets)
        low, lengths = self.in_singles(sets), _at(self._single_lengths, where)
        rounding, found = (self.points.shape[1] + 16) * _SINGLE, []
        for own, centers, near in zip(sets, low, two_nearest(_at(self.singles, where), lengths, low), strict=True):
            error = rounding * (lengths + np.vecdot(centers, centers)[near.labels])
            first, second = np.square(near.first), np.square(near.second)
            unsure = np.flatnonzero((error > _ACCURACY * first) | (second - first < 2 * error))
            near = Nearest(near.labels, *(each.astype(np.float64) * self.scale for each in near[1:]))
            if unsure.size:
                doubtful = unsure if where is None else where[unsure]
                (exact,) = two_nearest(self.points[doubtful], self.lengths[doubtful], own[None])
                for values, exact_values in zip(near, exact, strict=True):
                    values[unsure] = exact_values
            found.append(near)
        return found

    def halves(self, centers: FloatArray) -> FloatArray:
        """Return (|c|^2 - 2 c.x) / 2 of all points and centers (m, d), in a scratch array."""
        lengths = np.vecdot(centers, centers)[:, None] / 2
        room = scratch.room("halves of solver", (len(centers), len(self.points)), self.points.dtype)
        if self.minus_and_one is not None:
            return np.asarray(np.matmul(np.hstack([centers, lengths]), self.minus_and_one.T, out=room))
        halves = np.matmul(centers, self.points.T, out=room)
        return np.asarray(np.subtract(lengths, halves, out=halves))

    def squared(self, centers: FloatArray) -> FloatArray:
        """Return squared distances (m, n) of all points to centers (m, d)."""
        squared = self.halves(centers) * 2
        squared += self.lengths
        return np.asarray(np.maximum(squared, 0.0, out=squared))

    def assigned(self, centers: FloatArray) -> tuple[FloatArray, BoolArray]:
        """Return squared distances (r, n) to the nearest of r sets of centers (r, k, d), and membership (r, k, n).

        Membership is in a scratch array.
        """
        r, k, d = centers.shape
        halves = self.halves(centers.reshape(r * k, d)).reshape(r, k, -1)
        least = halves.min(axis=1)
        members = np.equal(halves, least[:, None], out=scratch.room("members", halves.shape, np.bool_))
        if np.count_nonzero(members) > least.size:  # ties go to the first center
            members = halves.argmin(axis=1)[:, None] == np.arange(k)[:, None]
        least *= 2
        least += self.lengths
        self._correct(least, members, centers)
        return np.asarray(np.maximum(least, 0.0, out=least)), members

    def _correct(self, squared: FloatArray, members: BoolArray, centers: FloatArray) -> None:
        """Replace squared distances (r, n) to the nearest centers by those from differences, where products cancel."""
        if squared.dtype != np.float64:  # single precision: in the search, where distances only rank
            return
        for own, own_members, own_centers in zip(squared, members, centers, strict=True):
            close = np.flatnonzero(own <= _CANCELLATION * self.lengths)
            if close.size:
                differences = self.points[close] - own_centers[own_members[:, close].argmax(axis=0)]
                own[close] = np.vecdot(differences, differences)

    def stepped(self, centers: FloatArray, z: float, squared: FloatArray, members: BoolArray) -> FloatArray:
        r"""Return each center moved to the mean of its points, weighted by :math:`w |x - c|^{z-2}`.

        Lloyd's step for z = 2. For z < 2 it lowers an upper bound of the cost (Weiszfeld); distances are softened, and
        for z = 1 a point at its center holds it back by no more than its own weight (Vardi & Zhang, PNAS 2000). For
        z > 2 the mean overshoots, and the step is divided by z - 1: Newton's step in one dimension, and shorter than it
        in others.
        """
        if z == 2 and self.moments is not None:
            return self._means(centers, squared, members)
        moved = self.influence(centers, z, squared, members).moved(centers, z)
        return self._filled(moved, np.logical_not(members.any(axis=2)), squared)

    def influence(self, centers: FloatArray, z: float, squared: FloatArray, members: BoolArray) -> Influence:
        """Return the sums of the points for a step from centers (r, k, d)."""
        r, k, d = centers.shape
        influence, held = self.weights, np.zeros((r, k, 1), dtype=self.points.dtype)
        if z != 2:
            floor = _SOFTENING * squared.mean(axis=1, keepdims=True) + np.finfo(squared.dtype).tiny
            influence = self.weights * np.maximum(squared, floor) ** (z / 2 - 1)
            if z == 1:
                is_center = squared <= floor
                influence = np.where(is_center, 0.0, influence).astype(influence.dtype)
                held = ((members & is_center[:, None]) @ self.weights)[..., None]
            influence = influence[:, None]
        shares = members * influence
        sums = (shares.reshape(r * k, -1) @ self.points).reshape(r, k, d)
        return Influence(sums, shares.sum(axis=2)[..., None], held)

    def _means(self, centers: FloatArray, squared: FloatArray, members: BoolArray) -> FloatArray:
        """Return the means of clusters of few columns, by one product."""
        r, k, d = centers.shape
        shares = scratch.room("shares", (r * k, len(self.points)), self.points.dtype)
        np.copyto(shares, members.reshape(shares.shape))
        sums = (shares @ self.moments).reshape(r, k, d + 1)
        mass = sums[..., d:]
        return self._filled(
            np.where(mass > 0, sums[..., :d] / np.where(mass > 0, mass, 1.0), centers), mass[..., 0] <= 0, squared
        )

    def _filled(self, centers: FloatArray, empty: BoolArray, squared: FloatArray) -> FloatArray:
        """Return the centers, those of empty clusters on the points that cost most."""
        for start in np.flatnonzero(empty.any(axis=1)):
            places = np.argsort(-squared[start] * self.weights, kind="stable")[: int(empty[start].sum())]
            centers[start][empty[start]] = self.points[places]
        return centers


def refined(
    points: WeightedPoints, centers: FloatArray, z: float, steps: int, gain: float = CONVERGED
) -> tuple[FloatArray, FloatArray]:
    """Return the best centers (r, k, d) of up to ``steps`` steps from each of r starts, and their costs (r,).

    Stop when a step gains less than the share ``gain``.
    """
    best, least = centers, np.full(len(centers), np.inf)
    for _ in range(steps + 1):
        squared, members = points.assigned(centers)
        costs = power(squared, z) @ points.weights
        better, gained = costs < least, np.any(costs < least * (1 - gain))
        best, least = np.where(better[:, None, None], centers, best), np.where(better, costs, least)
        if not gained:
            break
        centers = points.stepped(centers, z, squared, members)
    return best, least


def refined_by_parts(
    parts: Callable[[], Iterable[WeightedPoints]], centers: FloatArray, z: float, steps: int, gain: float
) -> FloatArray:
    """Return the best centers (k, d) of up to ``steps`` steps, for points in parts, which each step iterates over.

    Stop when a step gains less than the share ``gain``.
    """
    best, least = centers, np.inf
    for _ in range(steps + 1):
        cost, influences = 0.0, []
        for points in parts():
            squared, members = points.assigned(centers[None])
            cost += float(power(squared[0], z) @ points.weights)
            influences.append(points.influence(centers[None], z, squared, members))
        if cost < least:
            best = centers
        if not cost < least * (1 - gain):
            break
        centers, least = reduce(Influence.plus, influences).moved(centers[None], z)[0], cost
    return best


def raced(
    points: WeightedPoints, centers: FloatArray, z: float, steps: int, least: float = np.inf, halving: bool = False
) -> tuple[FloatArray, float]:
    """Return the best centers (k, d) of up to ``steps`` steps from any of r starts (r, k, d), and their cost.

    A start is dropped when it would not get below the best one and ``least`` even if each of the next few steps gained
    as much as its last, and when a step has gained next to nothing. With ``halving``, the worse half of the starts is
    dropped after each step.
    """
    best, least_of_all, before = centers[0], np.inf, np.full(len(centers), np.inf)
    for left in range(steps, -1, -1):
        squared, members = points.assigned(centers)
        costs = power(squared, z) @ points.weights
        first = costs.argmin()
        if costs[first] < least_of_all:
            best, least_of_all = centers[first], float(costs[first])
        is_in_view = costs - min(left, _LOOKAHEAD) * (before - costs) < min(least, least_of_all) if left else np.False_
        running = np.flatnonzero(is_in_view & (costs < before * (1 - NEARLY_CONVERGED)))
        if halving and before[0] < np.inf:
            running = np.sort(running[np.argsort(costs[running], kind="stable")[: -(-len(centers) // 2)]])
        if not running.size:
            break
        if running.size < len(centers):
            centers, squared, members, costs = centers[running], squared[running], members[running], costs[running]
        centers, before = points.stepped(centers, z, squared, members), costs
    return best, least_of_all


CANCELLATION = 1e-6
_MOST_MOVED = 0.25
"""Share of the mass that may change clusters if the sums are not those of the points: the sums of a cluster that nearly
all points have left would be noise."""


class Means(NamedTuple):
    """Centers, their cost and labels, and the distances before the first step."""

    centers: FloatArray
    cost: float
    labels: IntArray
    first_distances: FloatArray


def means_after(
    points: WeightedPoints, centers: FloatArray, steps: int, sums: Sums | None = None, gain: float = CONVERGED
) -> Means | None:
    """Return centers (k, d) after steps of Lloyd's algorithm, until a step gains less than the share ``gain``.

    Bounds of distances skip most points (Hamerly). ``sums`` are those of all rows that the points represent, in the
    clusters of ``centers``; by default those of the points. Return None if a cluster becomes empty, if masses or the
    cost are too small a part of the sums that they come from, or if too much mass changes clusters for sums that are
    not those of the points.
    """
    clusters = _Clusters(points, centers, sums)
    first_distances = clusters.upper
    found = clusters.settled(centers, steps, gain)
    return None if found is None else Means(*found, clusters.labels, first_distances)


class _Clusters:
    """Labels of points, bounds of their distances, and sums of clusters, updated step by step."""

    def __init__(self, points: WeightedPoints, centers: FloatArray, sums: Sums | None) -> None:
        self.points = points
        self.labels, self.upper, self.lower = points.two_nearest(centers)
        sums, are_others = (_sums(points, self.labels, len(centers)), False) if sums is None else (sums, True)
        self.sums = sums._replace(of_points=sums.of_points.copy(), masses=sums.masses.copy())
        self.largest = sums.masses
        self.may_move = _MOST_MOVED * float(sums.masses.sum()) if are_others else np.inf

    def settled(self, centers: FloatArray, steps: int, gain: float) -> tuple[FloatArray, float] | None:
        cost, gained = self._cost(), np.inf
        for _ in range(steps):
            if cost is None or gained <= cost * gain:
                break
            new = self.sums.means()
            moved = np.sqrt(np.square(new - centers).sum(axis=1))
            self.upper = self.upper * (1 + _ACCURACY) + moved[self.labels]
            self.lower = self.lower * (1 - _ACCURACY) - moved.max()
            self._relabel(new)
            before, centers, cost = cost, new, self._cost()
            gained = np.inf if cost is None else before - cost
        return None if cost is None else (self.sums.means(), cost)

    def _cost(self) -> float | None:
        """Return the cost of the means; None if a cluster is empty, or if sums after many changes are rounding."""
        masses = self.sums.masses
        is_substantial = bool((masses > CANCELLATION * self.largest).all()) and self.may_move >= 0
        self.largest = np.maximum(self.largest, masses)
        if not is_substantial or np.bincount(self.labels, minlength=len(masses)).min() == 0:
            return None
        cost = self.sums.least_cost()
        return cost if cost >= CANCELLATION * self.sums.squares else None

    def _relabel(self, centers: FloatArray) -> None:
        """Assign points whose bounds have crossed to the nearest center, and move them from sum to sum."""
        doubtful = np.flatnonzero(self.upper > self.lower)
        n, k = len(self.labels), len(centers)
        if len(doubtful) > n * k / (k + _GATHERING):
            doubtful = np.arange(n)
        where = None if len(doubtful) == n else doubtful
        labels, self.upper[doubtful], self.lower[doubtful] = self.points.two_nearest(centers, where)
        has_moved = np.flatnonzero(labels != self.labels[doubtful])
        movers, columns = doubtful[has_moved], np.arange(len(has_moved))
        weights, changes = self.points.weights[movers], np.zeros((k, len(movers)))
        changes[labels[has_moved], columns] = weights
        changes[self.labels[movers], columns] = -weights
        self.sums.of_points[...] += changes @ self.points.points[movers]
        self.sums.masses[...] += changes.sum(axis=1)
        self.may_move -= float(weights.sum())
        self.labels = self.labels.copy()
        self.labels[movers] = labels[has_moved]


def _sums(points: WeightedPoints, labels: IntArray, k: int) -> Sums:
    shares = np.zeros((k, len(labels)))
    shares[labels, np.arange(len(labels))] = points.weights
    return Sums(shares @ points.points, shares.sum(axis=1), float(points.weights @ points.lengths))


def two_nearest(rows: RealArray, lengths: RealArray, sets: RealArray) -> list[Nearest]:
    """Return the two nearest centers of each row in each of r sets (r, k, d), from one product."""
    (r, k, d), n = sets.shape, len(rows)
    labels, both = np.empty((r, n), dtype=np.int64), np.empty((2, r, n), dtype=rows.dtype)
    doubled, norms = -2 * sets.reshape(r * k, d), np.vecdot(sets, sets).reshape(r * k, 1)
    step = max(_FEWEST_ROWS, _CACHED_ENTRIES // k)
    for start in range(0, n, step):
        piece = slice(start, min(start + step, n))
        squared = _products(doubled, rows[piece])
        squared += norms
        for own, own_labels, first, second in zip(squared.reshape(r, k, -1), labels, *both, strict=True):
            own_labels[piece] = _take_least(own, first[piece])
            own.min(axis=0, out=second[piece])
    both += lengths
    first, second = np.sqrt(np.maximum(both, 0.0, out=both), out=both)
    return [Nearest(*own) for own in zip(labels, first, second, strict=True)]


def _products(centers: RealArray, rows: RealArray) -> RealArray:
    """Return the products of all centers and rows (m, n), in a scratch array."""
    room = scratch.room("products", (len(centers), len(rows)), rows.dtype)
    if rows.dtype == np.float32 and len(centers) <= _FEW_CENTERS:  # BLAS takes a third less time this way round
        np.copyto(room, (rows @ centers.T).T)
        return np.asarray(room)
    return np.asarray(np.matmul(centers, rows.T, out=room))


def _take_least(values: RealArray, least: RealArray) -> IntArray:
    """Fill in the least of each column (k, n), make it infinite and return its index, the first of equal ones."""
    values.min(axis=0, out=least)
    is_least = np.equal(values, least, out=scratch.room("is least", values.shape, np.bool_))
    if np.count_nonzero(is_least) > least.size:
        index = is_least.argmax(axis=0)
    else:  # a product takes a fraction of the time of argmax
        marks = scratch.room("marks of least", values.shape, np.float32)
        np.copyto(marks, is_least)
        index = (np.arange(len(values), dtype=np.float32) @ marks).astype(np.int64)
    values[index, np.arange(least.size)] = np.inf
    return np.asarray(index)


def _at(values: RealArray, where: IntArray | None) -> RealArray:
    return values if where is None else values[where]
