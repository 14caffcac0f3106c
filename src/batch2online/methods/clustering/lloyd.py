"""Lloyd's algorithm (z = 2) and Weiszfeld's (z = 1) for weighted points, from several starts at once."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cached_property, reduce
from typing import Any, NamedTuple

import numpy as np

from batch2online._types import BoolArray, FloatArray, IntArray
from batch2online.numerics.distances import Sums, power, scratch

CONVERGED, NEARLY_CONVERGED = 1e-5, 1e-4
_LOOKAHEAD = 5
_FEW_COLUMNS = 96
_FEWEST_ROWS, _CACHED_ENTRIES = 256, 100_000
_GATHERING = 32
"""To copy a row takes as long as its distances to about so many centers."""
_SOFTENING = 1e-12
_CANCELLATION = 1e-6
"""Squared distances below this share of the squared length are computed from differences."""


class Influence(NamedTuple):
    """Sums over points that determine a step of centers; sums over several sets of points add up.

    Points times their influence (r, k, d), the influence itself (r, k, 1), and the weight of points at their center.
    """

    of_points: FloatArray
    mass: FloatArray
    held: FloatArray

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


class WeightedPoints:
    """Points (n, d) and their weights, prepared for products with many centers.

    ``(|c|^2 - 2 c.x) / 2`` is least at the nearest center, and with the length of x it gives the squared distance. For
    few columns it is one product, of ``[c, |c|^2 / 2]`` and ``[-x, 1]``.
    """

    def __init__(self, points: Any, weights: Any) -> None:
        self.points, self.weights = points, weights
        self.lengths = np.vecdot(points, points)

    @cached_property
    def minus_and_one(self) -> Any:
        """[-x, 1] of points of few columns."""
        return None if self.points.shape[1] > _FEW_COLUMNS else np.hstack([-self.points, self._ones()])

    @cached_property
    def moments(self) -> Any:
        """[x, 1] times the weight, of points of few columns."""
        if self.points.shape[1] > _FEW_COLUMNS:
            return None
        return np.hstack([self.points, self._ones()]) * self.weights[:, None]

    def _ones(self) -> Any:
        return np.ones((len(self.points), 1), dtype=self.points.dtype)

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
    """Centers, their cost and labels, and the labels and distances before the first step."""

    centers: FloatArray
    cost: float
    labels: IntArray
    first_labels: IntArray
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
    first = clusters.labels, clusters.upper.copy()
    found = clusters.settled(centers, steps, gain)
    return None if found is None else Means(*found, clusters.labels, *first)


class _Clusters:
    """Labels of points, bounds of their distances, and sums of clusters, updated step by step."""

    def __init__(self, points: WeightedPoints, centers: FloatArray, sums: Sums | None) -> None:
        self.points = points
        self.labels, self.upper, self.lower = two_nearest(points.points, points.lengths, centers)
        sums, are_others = (_sums(points, self.labels, len(centers)), False) if sums is None else (sums, True)
        self.sums, self.masses, self.total = sums.of_points.copy(), sums.masses.copy(), sums.squares
        self.cost, self.largest = sums.least_cost(), self.masses.copy()
        self.may_move = _MOST_MOVED * float(self.masses.sum()) if are_others else np.inf

    def settled(self, start: FloatArray, steps: int, gain: float) -> tuple[FloatArray, float] | None:
        centers, cost, gained = start, self.cost, np.inf
        for _ in range(steps):
            if not self._is_sound(cost) or gained <= cost * gain:
                break
            new = self._means()
            moved = np.sqrt(np.square(new - centers).sum(axis=1))
            self.upper += moved[self.labels]
            self.lower -= moved.max()
            gained = self._relabelled(new) + float(self.masses @ np.square(self._means() - new).sum(axis=1))
            centers, cost = new, cost - gained
        return (self._means(), cost) if self._is_sound(cost) else None

    def _is_sound(self, cost: float) -> bool:
        """Return whether no cluster is empty, and sums after many changes are more than rounding."""
        if np.bincount(self.labels, minlength=len(self.masses)).min() == 0:
            return False
        is_substantial = bool((self.masses > CANCELLATION * self.largest).all())
        self.largest = np.maximum(self.largest, self.masses)
        return is_substantial and cost >= CANCELLATION * self.total and self.may_move >= 0

    def _means(self) -> FloatArray:
        return np.asarray(self.sums / self.masses[:, None])

    def _relabelled(self, centers: FloatArray) -> float:
        """Assign points whose bounds have crossed to the nearest center; return the gain."""
        doubtful = np.flatnonzero(self.upper > self.lower)
        n, k = len(self.labels), len(centers)
        if len(doubtful) > n * k / (k + _GATHERING):
            doubtful = np.arange(n)
        rows = self.points.points if len(doubtful) == n else self.points.points[doubtful]
        labels, self.upper[doubtful], self.lower[doubtful] = two_nearest(rows, self.points.lengths[doubtful], centers)
        has_moved = np.flatnonzero(labels != self.labels[doubtful])
        movers, columns = doubtful[has_moved], np.arange(len(has_moved))
        changes = np.zeros((len(centers), len(movers)))
        changes[labels[has_moved], columns] = self.points.weights[movers]
        changes[self.labels[movers], columns] = -self.points.weights[movers]
        self.sums += changes @ rows[has_moved]
        self.masses += changes.sum(axis=1)
        self.may_move -= float(self.points.weights[movers].sum())
        away = np.square(rows[has_moved] - centers[self.labels[movers]]).sum(axis=1) - np.square(self.upper[movers])
        self.labels = self.labels.copy()
        self.labels[movers] = labels[has_moved]
        return float(self.points.weights[movers] @ np.maximum(away, 0.0))


def _sums(points: WeightedPoints, labels: IntArray, k: int) -> Sums:
    shares = np.zeros((k, len(labels)))
    shares[labels, np.arange(len(labels))] = points.weights
    return Sums(shares @ points.points, shares.sum(axis=1), float(points.weights @ points.lengths))


def two_nearest(rows: FloatArray, lengths: FloatArray, centers: FloatArray) -> tuple[IntArray, FloatArray, FloatArray]:
    """Return the nearest center of each row, the distance to it, and that to the second nearest."""
    labels, both = np.empty(len(rows), dtype=np.int64), np.empty((2, len(rows)))
    doubled, norms = -2 * centers, np.square(centers).sum(axis=1)[:, None]
    step = max(_FEWEST_ROWS, _CACHED_ENTRIES // len(centers))
    for start in range(0, len(rows), step):
        piece = slice(start, start + step)
        squared = doubled @ rows[piece].T
        squared += norms
        first = squared.min(axis=0, out=both[0, piece])
        own = labels[piece] = (squared == first).argmax(axis=0)
        squared[own, np.arange(len(own))] = np.inf
        squared.min(axis=0, out=both[1, piece])
    both += lengths
    first, second = np.sqrt(np.maximum(both, 0.0, out=both), out=both)
    return labels, first, second
