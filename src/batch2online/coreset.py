"""The coreset as a pure function of scores and points.

With uniforms U, V that belong to the point (``randomness``), a score s, and a constant c:

    q = min(1, c * s)                     inclusion probability
    kept  <=>  U <= q                     Poisson sampling
    1/q rounded at random to a power of 1 + epsilon, by V: with lo <= 1/q < hi = (1 + epsilon) * lo,
    weight = hi  if  V < (1/q - lo) / (hi - lo)  else  lo

The rounding is the weight perturbation of the paper's Algorithm 2 made stateless. It is exactly
unbiased, E[weight; kept] = 1, and as q falls a weight only grows and a dropped point never returns.
Because hi - lo = epsilon * lo, the weight is hi iff 1 + epsilon * V < (1 + epsilon)^f, where f is the
fractional part of log(1/q) / log(1 + epsilon). So the exponent is one floor of a monotone function of q,
and monotone in floating point as well.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields
from functools import cached_property

import numpy as np

from batch2online._types import BoolArray, FloatArray, IntArray
from batch2online.distances import squared_lengths
from batch2online.storage import storable

_ONES = np.broadcast_to(np.float64(1.0), (2**40,))  # one number, seen many times

PIECE_ENTRIES = 250_000
"""Numbers in a piece of rows that a cache holds: two megabytes."""


def probabilities(scores: FloatArray, constant: float) -> FloatArray:
    """Inclusion probabilities ``q = min(1, c * s)``."""
    return np.minimum(1.0, constant * scores)


def kept(inclusion_uniforms: FloatArray, q: FloatArray) -> BoolArray:
    """Which points the coreset holds: ``U <= q`` (and never one of score zero)."""
    return inclusion_uniforms <= q


def exponents(q: FloatArray, rounding_uniforms: FloatArray, epsilon: float) -> IntArray:
    """Integer exponents e such that the weight of a kept point is ``(1 + epsilon) ** e``.

    >>> exponents(np.array([1.0, 0.5, 0.5]), np.array([0.5, 0.1, 0.9]), epsilon=0.1).tolist()
    [0, 8, 7]
    """
    above = -np.log(q) - np.log1p(epsilon * rounding_uniforms)
    return np.asarray(1 + np.floor(above / np.log1p(epsilon)), dtype=np.int64)


def weights_of(exponent: IntArray, epsilon: float) -> FloatArray:
    """Weights from their integer exponents: exactly 1 where the exponent is 0."""
    return np.asarray((1.0 + epsilon) ** exponent, dtype=np.float64)


def ones(n: int) -> FloatArray:
    """Weights of rows that all count once, without the memory."""
    return _ONES[:n]


def all_ones(weights: FloatArray) -> bool:
    """Whether all rows count once; known at sight for :func:`ones`."""
    return weights.strides == (0,) or bool((weights == 1.0).all())


@storable
@dataclass(frozen=True)
class Rows:
    """Rows and all that belongs to them: ``targets`` always has two dimensions, maybe no columns."""

    points: FloatArray
    targets: FloatArray
    weights: FloatArray
    ids: IntArray

    def __len__(self) -> int:
        return len(self.points)

    def __getitem__(self, index: slice | BoolArray | IntArray) -> Rows:
        return Rows(self.points[index], self.targets[index], self.weights[index], self.ids[index])

    @cached_property
    def lengths(self) -> FloatArray:
        """Squared lengths of the points, computed once."""
        return squared_lengths(self.points)

    def pieces(self) -> Iterator[Rows]:
        """The same rows, in pieces that a cache holds; at least one, if an empty one."""
        step = max(1, PIECE_ENTRIES // max(1, self.points.shape[1]))
        return (self[start : start + step] for start in range(0, max(1, len(self)), step))

    @classmethod
    def empty(cls, width: int, n_targets: int) -> Rows:
        return cls(np.empty((0, width)), np.empty((0, n_targets)), np.empty(0), np.empty(0, dtype=np.int64))

    @classmethod
    def concatenate(cls, parts: list[Rows]) -> Rows:
        """All rows of the parts, in their order; a single part is passed through."""
        if len(parts) == 1:
            return parts[0]
        columns = ([getattr(part, field.name) for part in parts] for field in fields(cls))
        return cls(*(np.concatenate(arrays) for arrays in columns))


@dataclass(frozen=True, eq=False)
class Coreset:
    """A weighted subset of the rows seen: immutable, sorted by id.

    Attributes
    ----------
    points : (m, d) array
    targets : (m,) or (m, n_targets) array, or None for problems without targets
    weights : (m,) array, sampling weight times ``sample_weight``
    ids : (m,) array of the points' ids
    """

    points: FloatArray
    targets: FloatArray | None
    weights: FloatArray
    ids: IntArray

    def __post_init__(self) -> None:
        for array in (self.points, self.targets, self.weights, self.ids):
            if array is not None:
                array.flags.writeable = False

    def __len__(self) -> int:
        return len(self.ids)

    def __eq__(self, other: object) -> bool:
        """Two coresets are the same when they hold the same points with the same weights."""
        if not isinstance(other, Coreset):
            return NotImplemented
        return np.array_equal(self.ids, other.ids) and np.array_equal(self.weights, other.weights)

    __hash__ = None  # type: ignore[assignment]  # arrays have no cheap hash

    def __repr__(self) -> str:
        return f"Coreset({len(self)} points of {self.points.shape[1]} columns, total weight {self.weights.sum():g})"
