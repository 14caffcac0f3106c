"""Distances to the nearest centers: one matrix product, exact where that would cancel.

Intermediate results go to arrays that are reused (``scratch``): new memory costs more than the arithmetic.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from functools import lru_cache
from math import prod
from typing import Any, NamedTuple

import numpy as np

from batch2online._types import BoolArray, FloatArray, IntArray

_FAR = 1e4
_CANCELLATION = 1e-6
"""Squared distances below this share of the squared length are computed from differences."""
_TINY = np.finfo(np.float64).tiny
_WIDE = 32
_PIECE_ENTRIES, _LEAST_ROWS, _FEW_ENTRIES = 100_000, 250, 200_000
_MIN_SCRATCH, _MAX_SCRATCH, _MAX_VIEWS = 2**17, 2**22, 256

Shape = tuple[int, ...]


class Scratch(threading.local):
    """Reusable arrays by name, one set per thread; an array is valid until its name is requested again."""

    def __init__(self) -> None:
        self.rooms: dict[tuple[str, Any], Any] = {}
        self.views: dict[tuple[str, Shape, Any], Any] = {}

    def room(self, name: str, shape: Shape, dtype: Any = np.float64) -> Any:
        """Return an uninitialised array of this shape."""
        view = self.views.get((name, shape, dtype))
        return self._new_view(name, shape, dtype) if view is None else view

    def _new_view(self, name: str, shape: Shape, dtype: Any) -> Any:
        size, room = prod(shape), self.rooms.get((name, dtype))
        if size > _MAX_SCRATCH:  # too large to keep
            return np.empty(shape, dtype=dtype)
        if room is None or room.size < size or len(self.views) >= _MAX_VIEWS:
            self.views.clear()
        if room is None or room.size < size:
            room = self.rooms[name, dtype] = np.empty(max(size, _MIN_SCRATCH), dtype=dtype)
        view = self.views[name, shape, dtype] = room[:size].reshape(shape)
        return view


scratch = Scratch()


def squared_distances(points: FloatArray, centers: FloatArray) -> FloatArray:
    """Return squared distances (k, n) by differences: exact where points and centers nearly coincide."""
    if points.size * len(centers) <= _FEW_ENTRIES:  # one call, where calls take longer than the arithmetic
        return _sums_of_squares(points - centers[:, None])
    squared = np.empty((len(centers), len(points)))
    for piece in _pieces(points, 1):
        some = points[piece]
        room = scratch.room("differences", some.shape)
        for center, to in zip(centers, squared, strict=True):
            to[piece] = _sums_of_squares(np.subtract(some, center, out=room))
    return squared


def _sums_of_squares(rows: FloatArray) -> FloatArray:
    """Return the sum of squares of each row, independent of the other rows; narrow rows are overwritten."""
    return np.asarray(np.vecdot(rows, rows) if rows.shape[-1] >= _WIDE else np.square(rows, out=rows).sum(axis=-1))


def nearest(points: FloatArray, centers: FloatArray) -> tuple[IntArray, FloatArray]:
    """Return the index of the nearest center (k, d) for each of the points (n, d), and the squared distance to it.

    Ties go to the first center.

    >>> labels, squared = nearest(np.array([[0.0], [2.0], [9.0]]), np.array([[1.0], [8.0]]))
    >>> labels.tolist(), squared.tolist()
    ([0, 0, 1], [1.0, 1.0, 1.0])
    """
    labels, squared = np.empty(len(points), dtype=np.int64), np.empty(len(points))
    prepared, numbers = _prepared(centers), np.arange(len(centers), dtype=np.float32)
    for piece in _pieces(points, len(centers)):
        is_nearest = scratch.room("nearest", (len(centers), piece.stop - piece.start), np.bool_)
        prepared.find_nearest(points[piece], squared[piece], is_nearest)
        members = scratch.room("members", is_nearest.shape, np.float32)
        np.copyto(members, is_nearest)
        labels[piece] = numbers @ members
    return labels, squared


def membership(points: FloatArray, lengths: FloatArray, centers: FloatArray) -> tuple[BoolArray, FloatArray]:
    """Return a one-hot matrix (k, n) of the nearest center of each point, and the squared distances to it.

    ``lengths`` are the squared lengths of the points.
    """
    is_nearest, squared = np.empty((len(centers), len(points)), dtype=np.bool_), np.empty(len(points))
    prepared = _prepared(centers)
    for piece in _pieces(points, len(centers)):
        prepared.find_nearest(points[piece], squared[piece], is_nearest[:, piece], lengths[piece])
    return is_nearest, squared


def nearest_squared(points: FloatArray, centers: FloatArray, lengths: FloatArray | None = None) -> FloatArray:
    """Return squared distances to the nearest center; pass the squared lengths of the points if they are known."""
    prepared, squared = _prepared(centers), np.empty(len(points))
    for piece in _pieces(points, len(centers)):
        prepared.measure(points[piece], squared[piece], None if lengths is None else lengths[piece])
    return squared


class Sums(NamedTuple):
    """Sums of weighted points by cluster: of points (k, d), of weights (k,), and of squared lengths of all points.

    With r sets of clusters, sums of points are (r, k, d) and masses (r, k).
    """

    of_points: FloatArray
    masses: FloatArray
    squares: float

    def plus(self, other: Sums) -> Sums:
        """Return the sums of both."""
        return Sums(self.of_points + other.of_points, self.masses + other.masses, self.squares + other.squares)

    def of_each(self) -> list[Sums]:
        """Return the sums of each set."""
        return [Sums(*own, self.squares) for own in zip(self.of_points, self.masses, strict=True)]

    def cost(self, centers: FloatArray) -> float:
        """Return the sum of squared distances of all points to the centers (k, d) of their clusters."""
        return float(self.squares + self.masses @ np.vecdot(centers, centers) - 2 * np.vdot(self.of_points, centers))

    def means(self) -> FloatArray:
        """Return the means (k, d) of clusters that are not empty."""
        return np.asarray(self.of_points / self.masses[:, None])

    def least_cost(self) -> float:
        """Return the cost of the means of the clusters, the least there is."""
        return float(self.squares - (np.square(self.of_points).sum(axis=1) / np.maximum(self.masses, _TINY)).sum())


def sums_of_clusters(
    points: FloatArray, weights: FloatArray | None, centers: FloatArray, origin: FloatArray | None = None
) -> Sums:
    """Return the sums of the clusters of r sets of centers (r, k, d), in one pass over the points.

    Without weights all points count once. Centers and sums are relative to ``origin`` if it is given: sums of squares
    of points far from zero would be mostly rounding.

    >>> sums = sums_of_clusters(np.array([[0.0], [2.0], [9.0]]), None, np.array([[[1.0], [8.0]]]))
    >>> sums.of_points.tolist(), sums.masses.tolist(), sums.squares
    ([[[2.0], [9.0]]], [[2.0, 1.0]], 85.0)
    """
    r, k, d = centers.shape
    of_points, masses, squares = np.zeros((r * k, d)), np.zeros(r * k), 0.0
    prepared = _prepared(centers.reshape(r * k, d))
    for piece in _pieces(points, r * k):
        some, shape = _less(points[piece], origin), (r * k, piece.stop - piece.start)
        is_nearest = prepared.assign(some, scratch.room("nearest", shape, np.bool_), sets=r)
        shares = scratch.room("shares of sums", shape)
        np.copyto(shares, is_nearest) if weights is None else np.multiply(is_nearest, weights[piece], out=shares)
        of_points += shares @ some
        masses += shares.sum(axis=1)
        flat = some.reshape(-1)
        squares += float(flat @ flat if weights is None else weights[piece] @ np.vecdot(some, some))
    return Sums(of_points.reshape(r, k, d), masses.reshape(r, k), squares)


def _less(points: FloatArray, origin: FloatArray | None) -> FloatArray:
    """Return points relative to an origin, in a scratch array."""
    return points if origin is None else np.subtract(points, origin, out=scratch.room("near zero", points.shape))


def squared_lengths(points: FloatArray) -> FloatArray:
    """Return the squared lengths (n,) of points (n, d)."""
    lengths = np.empty(len(points))
    for piece in _pieces(points, 1):
        _lengths(points[piece], out=lengths[piece])
    return lengths


def _lengths(points: FloatArray, out: FloatArray) -> FloatArray:
    if points.shape[1] >= _WIDE:
        return np.asarray(np.vecdot(points, points, out=out))
    squares = np.square(points, out=scratch.room("squares", points.shape))
    return np.asarray(np.matmul(squares, np.ones(points.shape[1]), out=out))


def power(squared: FloatArray, z: float) -> FloatArray:
    """Return distances to the power z, given squared distances."""
    if z == 2:
        return squared
    return np.sqrt(squared) if z == 1 else np.asarray(squared ** (z / 2))


def _pieces(points: FloatArray, k: int) -> Iterator[slice]:
    """Return slices of points whose intermediate results fit into the cache."""
    rows = max(_LEAST_ROWS, _PIECE_ENTRIES // max(k, min(points.shape[1], _WIDE)))
    return (slice(start, min(start + rows, len(points))) for start in range(0, len(points), rows))


def _prepared(centers: FloatArray) -> _Centers:
    return _prepared_from(centers.tobytes(), centers.shape)


@lru_cache(maxsize=8)
def _prepared_from(content: bytes, shape: tuple[int, ...]) -> _Centers:
    """Return prepared centers, cached: models and seeds stay the same for many blocks."""
    return _Centers(np.frombuffer(content).reshape(shape))


class _Centers:
    """Centers (k, d), prepared for products with points."""

    def __init__(self, centers: FloatArray) -> None:
        self.given, self.origin = centers, _origin(centers)
        self.centers = centers if self.origin is None else centers - self.origin
        self.halves = np.einsum("ij,ij->i", self.centers, self.centers)[:, None] / 2

    def measure(
        self, points: FloatArray, squared: FloatArray, lengths: FloatArray | None = None
    ) -> tuple[FloatArray, FloatArray, IntArray, FloatArray]:
        """Fill in squared distances to the nearest center.

        Return (|c|^2 - 2 c.x) / 2 of all pairs, its minimum per point, the points for which products cancel, and all
        squared distances of these by differences.
        """
        near_zero, halves = self._halves(points)
        least, room = _least(halves), scratch.room("lengths", squared.shape)
        if lengths is None or self.origin is not None:
            lengths = _lengths(near_zero, out=room)
        np.add(least, least, out=squared)
        squared += lengths
        too_small = np.multiply(lengths, _CANCELLATION, out=room)
        close = np.flatnonzero(np.less_equal(squared, too_small, out=scratch.room("close", squared.shape, np.bool_)))
        exact = squared_distances(points[close], self.given) if close.size else np.empty((len(self.given), 0))
        if close.size:
            squared[close] = exact.min(axis=0)
        return halves, least, close, exact

    def find_nearest(
        self, points: FloatArray, squared: FloatArray, is_nearest: BoolArray, lengths: FloatArray | None = None
    ) -> None:
        """Fill in squared distances to the nearest center and its one-hot mark; ties go to the first center."""
        halves, least, close, exact = self.measure(points, squared, lengths)
        _mark_least(halves, least, is_nearest)
        if close.size:
            is_nearest[:, close] = exact.argmin(axis=0) == np.arange(len(halves))[:, None]

    def assign(self, points: FloatArray, is_nearest: BoolArray, sets: int) -> BoolArray:
        """Mark the nearest center of each set for each point, up to the rounding of one product."""
        _, halves = self._halves(points)
        for own, marks in zip(np.split(halves, sets), np.split(is_nearest, sets), strict=True):
            _mark_least(own, _least(own), marks)
        return is_nearest

    def _halves(self, points: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the shifted points, and (|c|^2 - 2 c.x) / 2 of all pairs."""
        near_zero = points if self.origin is None else points - self.origin
        halves = np.matmul(self.centers, near_zero.T, out=scratch.room("halves", (len(self.centers), len(points))))
        return near_zero, np.subtract(self.halves, halves, out=halves)


def _least(halves: FloatArray) -> FloatArray:
    return np.asarray(halves.min(axis=0, out=scratch.room("least", halves.shape[1:])))


def _mark_least(halves: FloatArray, least: FloatArray, is_nearest: BoolArray) -> None:
    """Mark exactly one center per point: the first of the nearest."""
    np.equal(halves, least, out=is_nearest)
    if np.count_nonzero(is_nearest) > least.size:
        is_nearest[...] = is_nearest.argmax(axis=0) == np.arange(len(halves))[:, None]


def _origin(centers: FloatArray) -> FloatArray | None:
    """Return the mean of the centers if they are far from zero and near each other, else None."""
    middle = centers.mean(axis=0)
    spread = np.square(centers - middle).sum(axis=1).max()
    return middle if middle @ middle > _FAR * spread else None
