"""How far a model has moved: measures of change between two models of one problem."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.linalg import subspace_angles
from scipy.spatial.distance import cdist

from batch2online._types import FloatArray, IntArray


def changed(old: Any, new: Any) -> bool:
    """Whether two models, given as an array or a tuple of arrays, differ in any number.

    >>> changed(np.zeros(3), np.zeros(3)), changed(np.zeros(3), np.array([0.0, 0.0, 1e-300]))
    (False, True)
    """
    if isinstance(old, tuple):
        return len(old) != len(new) or any(map(changed, old, new))
    are_numbers = np.asarray(old).dtype.kind == "f"
    return not np.array_equal(old, new, equal_nan=are_numbers)


def nearest(centers: FloatArray, points: FloatArray) -> IntArray:
    """Return the label of each point: the number of its nearest center."""
    return np.asarray(cdist(points, centers, "sqeuclidean").argmin(axis=1), dtype=np.int64)


def label_churn(old: FloatArray, new: FloatArray, points: FloatArray) -> float:
    """Share of the points whose label differs under two sets of centers, as a user of the labels sees it.

    Centers that are the same but renumbered count in full.

    >>> centers = np.array([[0.0], [1.0]])
    >>> label_churn(centers, centers[::-1], np.array([[0.1], [0.9]]))
    1.0
    """
    return float((nearest(old, points) != nearest(new, points)).mean())


def subspace_angle(old: FloatArray, new: FloatArray) -> float:
    """Largest angle in radians between the row spaces of two bases, each (k, d).

    >>> round(subspace_angle(np.array([[1.0, 0.0]]), np.array([[1.0, 1.0]])), 4)
    0.7854
    """
    return float(subspace_angles(old.T, new.T)[0])


def prediction_change(old: FloatArray, new: FloatArray) -> float:
    """Root mean square difference of two models' predictions on the same probe rows.

    >>> prediction_change(np.array([1.0, 2.0]), np.array([1.0, 4.0])) ** 2
    2.0000000000000004
    """
    return float(np.sqrt(np.square(np.asarray(new) - np.asarray(old)).mean()))
