"""Nearest centers: one matrix product, exact where that would cancel."""

from __future__ import annotations

import numpy as np

from batch2online._types import FloatArray, IntArray

_FAR = 1e4
_CANCELLATION = 1e-6
"""Squared distances below this share of the squared length are computed from differences."""


def squared_distances(points: FloatArray, centers: FloatArray) -> FloatArray:
    """Squared distances (k, n) by differences: exact where points and centers nearly coincide."""
    return np.stack([np.square(points - center).sum(axis=1) for center in centers])


def nearest(points: FloatArray, centers: FloatArray) -> tuple[IntArray, FloatArray]:
    """The nearest of the centers (k, d) for each of the points (n, d), and the squared distance to it.

    Of equally near centers it is the first.

    >>> labels, squared = nearest(np.array([[0.0], [2.0], [9.0]]), np.array([[1.0], [8.0]]))
    >>> labels.tolist(), squared.tolist()
    ([0, 0, 1], [1.0, 1.0, 1.0])
    """
    halves, least, squared, close = _halves(points, centers)
    labels = np.zeros(len(squared), dtype=np.int64)
    for j in range(len(centers) - 1, 0, -1):
        np.putmask(labels, halves[j] == least, j)
    np.putmask(labels, halves[0] == least, 0)
    if close.size:
        exact = squared_distances(points[close], centers)
        labels[close], squared[close] = exact.argmin(axis=0), exact.min(axis=0)
    return labels, squared


def nearest_squared(points: FloatArray, centers: FloatArray) -> FloatArray:
    """Squared distances to the nearest center, without saying which it is."""
    _, _, squared, close = _halves(points, centers)
    if close.size:
        squared[close] = squared_distances(points[close], centers).min(axis=0)
    return squared


def power(squared: FloatArray, z: float) -> FloatArray:
    """Distances to the power z from squared distances."""
    if z == 2:
        return squared
    return np.sqrt(squared) if z == 1 else np.asarray(squared ** (z / 2))


def _halves(points: FloatArray, centers: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray, IntArray]:
    """(|c|^2 - 2 c.x) / 2 for all pairs (k, n), its least, squared distances, and where these are too coarse."""
    origin = _origin(centers)
    if origin is not None:
        points, centers = points - origin, centers - origin
    halves = centers @ points.T
    np.subtract(np.einsum("ij,ij->i", centers, centers)[:, None] / 2, halves, out=halves)
    least = halves.min(axis=0)
    lengths = np.einsum("ij,ij->i", points, points)
    squared = 2 * least
    squared += lengths
    return halves, least, squared, np.flatnonzero(squared <= _CANCELLATION * lengths)


def _origin(centers: FloatArray) -> FloatArray | None:
    """Where to put the origin: at the middle of the centers, if they are far from zero and near each other."""
    middle = centers.mean(axis=0)
    spread = np.square(centers - middle).sum(axis=1).max()
    return middle if middle @ middle > _FAR * spread else None
