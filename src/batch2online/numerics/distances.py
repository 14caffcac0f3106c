"""Nearest centers: one matrix product, exact where that would cancel."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from batch2online._types import BoolArray, FloatArray, IntArray
from batch2online.numerics.scratch import scratch

_FAR = 1e4
_CANCELLATION = 1e-6
"""Squared distances below this share of the squared length are computed from differences."""
_TINY = np.finfo(np.float64).tiny
_WIDE = 32
_PIECE_ENTRIES, _LEAST_ROWS = 100_000, 250


def squared_distances(points: FloatArray, centers: FloatArray) -> FloatArray:
    """Squared distances (k, n) by differences: exact where points and centers nearly coincide."""
    squared = np.empty((len(centers), len(points)))
    for piece in _pieces(points, 1):
        some = points[piece]
        room = scratch.room("differences", some.shape)
        for center, to in zip(centers, squared, strict=True):
            to[piece] = _sums_of_squares(np.subtract(some, center, out=room))
    return squared


def _sums_of_squares(rows: FloatArray) -> FloatArray:
    """Row by row, so that one does not depend on the others; narrow rows are overwritten."""
    return np.asarray(np.vecdot(rows, rows) if rows.shape[1] >= _WIDE else np.square(rows, out=rows).sum(axis=1))


def nearest(points: FloatArray, centers: FloatArray) -> tuple[IntArray, FloatArray]:
    """Return the nearest of the centers (k, d) for each of the points (n, d), and the squared distance to it.

    Of equally near centers it is the first.

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
    """Which of the centers is the nearest (k, n), exactly one for each point, and the squared distances to it.

    Points come with their squared lengths.
    """
    is_nearest, squared = np.empty((len(centers), len(points)), dtype=np.bool_), np.empty(len(points))
    prepared = _prepared(centers)
    for piece in _pieces(points, len(centers)):
        prepared.find_nearest(points[piece], squared[piece], is_nearest[:, piece], lengths[piece])
    return is_nearest, squared


def nearest_squared(points: FloatArray, centers: FloatArray, lengths: FloatArray | None = None) -> FloatArray:
    """Squared distances to the nearest center, without saying which it is; squared lengths of points may be known."""
    prepared, squared = _prepared(centers), np.empty(len(points))
    for piece in _pieces(points, len(centers)):
        prepared.measure(points[piece], squared[piece], None if lengths is None else lengths[piece])
    return squared


class Sums(NamedTuple):
    """Of weighted points in k clusters: sums (k, d) and masses (k,) of the clusters, and the sum of squared lengths.

    Where there are several sets of clusters, sums are (r, k, d) and masses (r, k).
    """

    of_points: FloatArray
    masses: FloatArray
    squares: float

    def plus(self, other: Sums) -> Sums:
        """Return the sums of both."""
        return Sums(self.of_points + other.of_points, self.masses + other.masses, self.squares + other.squares)

    def of_each(self) -> list[Sums]:
        """Return the sums of each of several sets."""
        return [Sums(*own, self.squares) for own in zip(self.of_points, self.masses, strict=True)]

    def cost(self, centers: FloatArray) -> float:
        """Return the sum of squared distances of all points to the center (k, d) of their cluster."""
        return float(self.squares + self.masses @ np.vecdot(centers, centers) - 2 * np.vdot(self.of_points, centers))

    def least_cost(self) -> float:
        """Return the same for the means of the clusters."""
        return float(self.squares - (np.square(self.of_points).sum(axis=1) / np.maximum(self.masses, _TINY)).sum())


def sums_of_clusters(
    points: FloatArray, weights: FloatArray | None, centers: FloatArray, origin: FloatArray | None = None
) -> Sums:
    """Return the sums of the clusters of several sets of centers (r, k, d), by one pass.

    All points count once where no weights are given. Centers and sums are relative to the origin where one is given:
    sums of squares of points that are far from zero would be mostly rounding.

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
    """Points relative to an origin, good until they are asked for again."""
    return points if origin is None else np.subtract(points, origin, out=scratch.room("near zero", points.shape))


def squared_lengths(points: FloatArray) -> FloatArray:
    """Squared lengths (n,) of points (n, d): a sum of products for each of wide ones, of narrow ones all at once."""
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
    """Distances to the power z from squared distances."""
    if z == 2:
        return squared
    return np.sqrt(squared) if z == 1 else np.asarray(squared ** (z / 2))


def _pieces(points: FloatArray, k: int) -> Iterator[slice]:
    """Points in pieces whose intermediate results stay in the cache."""
    rows = max(_LEAST_ROWS, _PIECE_ENTRIES // max(k, min(points.shape[1], _WIDE)))
    return (slice(start, min(start + rows, len(points))) for start in range(0, len(points), rows))


def _prepared(centers: FloatArray) -> _Centers:
    return _prepared_from(centers.tobytes(), centers.shape)


@lru_cache(maxsize=8)
def _prepared_from(content: bytes, shape: tuple[int, ...]) -> _Centers:
    """Models and seeds stay the same for many blocks."""
    return _Centers(np.frombuffer(content).reshape(shape))


class _Centers:
    """Centers (k, d), ready for products with points."""

    def __init__(self, centers: FloatArray) -> None:
        self.given, self.origin = centers, _origin(centers)
        self.centers = centers if self.origin is None else centers - self.origin
        self.halves = np.einsum("ij,ij->i", self.centers, self.centers)[:, None] / 2

    def measure(
        self, points: FloatArray, squared: FloatArray, lengths: FloatArray | None = None
    ) -> tuple[FloatArray, FloatArray, IntArray, FloatArray]:
        """Fill in squared distances to the nearest center.

        Also gives (|c|^2 - 2 c.x) / 2 of all pairs, its least, which points this was too coarse for, and all squared
        distances of these.
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
        """Fill in squared distances to the nearest center, and which one that is, the first of equally near ones."""
        halves, least, close, exact = self.measure(points, squared, lengths)
        _mark_least(halves, least, is_nearest)
        if close.size:
            is_nearest[:, close] = exact.argmin(axis=0) == np.arange(len(halves))[:, None]

    def assign(self, points: FloatArray, is_nearest: BoolArray, sets: int) -> BoolArray:
        """Mark the nearest of each of several sets of centers for each point, as closely as one product tells."""
        _, halves = self._halves(points)
        for own, marks in zip(np.split(halves, sets), np.split(is_nearest, sets), strict=True):
            _mark_least(own, _least(own), marks)
        return is_nearest

    def _halves(self, points: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the points near zero, and (|c|^2 - 2 c.x) / 2 of all pairs."""
        near_zero = points if self.origin is None else points - self.origin
        halves = np.matmul(self.centers, near_zero.T, out=scratch.room("halves", (len(self.centers), len(points))))
        return near_zero, np.subtract(self.halves, halves, out=halves)


def _least(halves: FloatArray) -> FloatArray:
    return np.asarray(halves.min(axis=0, out=scratch.room("least", halves.shape[1:])))


def _mark_least(halves: FloatArray, least: FloatArray, is_nearest: BoolArray) -> None:
    """Mark exactly one center for each point: the first of the nearest."""
    np.equal(halves, least, out=is_nearest)
    if np.count_nonzero(is_nearest) > least.size:
        is_nearest[...] = is_nearest.argmax(axis=0) == np.arange(len(halves))[:, None]


def _origin(centers: FloatArray) -> FloatArray | None:
    """Where to put the origin: at the middle of the centers, if they are far from zero and near each other."""
    middle = centers.mean(axis=0)
    spread = np.square(centers - middle).sum(axis=1).max()
    return middle if middle @ middle > _FAR * spread else None
