"""Average sensitivity of a coreset by enumeration of all coresets.

Rows are kept independently: a row is dropped, or kept with one of two weights. The distribution of the coreset is a
product over rows, and its total variation from the one without a row is a finite sum.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from batch2online._types import FloatArray
from batch2online.evaluate.deletion import fitted, is_construction, without
from batch2online.sampling import probabilities

_MOST_ROWS = 9
_DROPPED: Any = None


def exact_sensitivity(construction: Any, X: FloatArray, y: Any) -> float:
    """Mean over rows of the total variation between the coresets with and without the row."""
    if not is_construction(construction) or not hasattr(construction, "scores_of_all"):
        raise TypeError("Exact average sensitivity is for empty constructions of batch2online.coresets.")
    if len(X) > _MOST_ROWS:
        raise ValueError(f"Enumeration is for up to {_MOST_ROWS} rows, got {len(X)}: use method='coupled'.")
    complete = outcomes(construction, X, y)
    deletions = [outcomes(construction, *without(X, y, row)) for row in range(len(X))]
    for row, others in enumerate(deletions):
        others.insert(row, {_DROPPED: 1.0})
    return float(np.mean([total_variation(complete, others) for others in deletions]))


def outcomes(construction: Any, X: FloatArray, y: Any) -> list[dict[Any, float]]:
    """For each row the probabilities of being dropped (None) and of each exponent of its weight."""
    twin = fitted(construction, X, y, seed=0).caught_up()
    q = probabilities(twin.scores_of_all(), twin.constant)
    return [_outcomes_of(float(each), twin.epsilon) for each in q]


def _outcomes_of(q: float, epsilon: float) -> dict[Any, float]:
    """1/q is rounded to lo = (1 + epsilon)^j or hi = lo (1 + epsilon), at random and without bias."""
    if q == 0:
        return {_DROPPED: 1.0}
    exponent = int(np.floor(-np.log(q) / np.log1p(epsilon)))
    low = (1 + epsilon) ** exponent
    chance = min(1.0, max(0.0, (1 / q - low) / (epsilon * low)))
    return {_DROPPED: 1 - q, exponent: q * (1 - chance), exponent + 1: q * chance}


def total_variation(first: list[dict[Any, float]], second: list[dict[Any, float]]) -> float:
    """Between two products of finite distributions.

    >>> total_variation([{0: 0.5, 1: 0.5}], [{0: 1.0}])
    0.5
    """
    p, q = np.ones(1), np.ones(1)
    for one, other in zip(first, second, strict=True):
        support = [*one, *(value for value in other if value not in one)]
        p, q = (
            np.multiply.outer(joint, [distribution.get(value, 0.0) for value in support]).ravel()
            for joint, distribution in ((p, one), (q, other))
        )
    return float(np.abs(p - q).sum() / 2)
