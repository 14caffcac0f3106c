"""Which rows a coreset holds and what they weigh, as pure functions of scores and of words that belong to rows.

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

import numpy as np

from batch2online._types import BoolArray, FloatArray, IntArray


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
