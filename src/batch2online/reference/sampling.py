"""Algorithm 2: a coreset by sensitivity sampling."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from batch2online._types import FloatArray, IntArray


class WeightedSet(NamedTuple):
    """The pair (S, w) of the paper: positions in X, each once and in order, and their weights."""

    indices: IntArray
    weights: FloatArray


def coreset(
    rng: np.random.Generator,
    X: Any,
    sensitivities: Callable[[Any], FloatArray] | FloatArray,
    m: int,
    epsilon: float,
    *,
    errata: bool = True,
) -> WeightedSet:
    """Algorithm 2: m draws with probability p in proportion to sensitivity, each adding 1/p~ to a weight.

    p~ is uniform in [p, (1 + epsilon/2) p]. Errata: the printed loop returns after its first draw and adds 1/p~ where
    1/(m p~) is meant; the perturbation multiplies every expected weight by 2 ln(1 + epsilon/2) / epsilon, which is
    divided out; up to m rows are kept as they are.

    Parameters
    ----------
    rng : numpy.random.Generator
        Where all draws come from.
    X : (n, d) array
        The rows.
    sensitivities : (n,) array or callable
        Sensitivities of the rows, or the function of X that gives them.
    m : int
        Number of draws.
    epsilon : float
        Width of the perturbation.
    errata : bool, default True
        Repair the slips named above.

    Examples
    --------
    >>> X = np.arange(1000.0)[:, None]
    >>> indices, weights = coreset(np.random.default_rng(0), X, np.ones(1000), m=200, epsilon=0.1)
    >>> 150 < len(indices) < 200, bool(990 < weights.sum() < 1010)
    (True, True)
    >>> len(coreset(np.random.default_rng(0), X, np.ones(1000), m=200, epsilon=0.1, errata=False).indices)
    1
    """
    if errata and len(X) <= m:
        return keep_all(len(X))
    sigma = np.asarray(sensitivities(X) if callable(sensitivities) else sensitivities)
    p = sigma / sigma.sum()
    weight = np.zeros(len(X))
    for _ in range(m):
        x = rng.choice(len(X), p=p)
        p_tilde = rng.uniform(p[x], (1 + epsilon / 2) * p[x])
        weight[x] += 1 / p_tilde
        if not errata:
            break
    if errata:
        weight *= (epsilon / 2) / math.log1p(epsilon / 2) / m
    return gathered(weight)


def gathered(weight: FloatArray) -> WeightedSet:
    """Return the rows of positive weight."""
    indices = np.flatnonzero(weight)
    return WeightedSet(indices, weight[indices])


def keep_all(n: int) -> WeightedSet:
    """All rows, with weight one: what sampling with replacement cannot improve on while rows are few."""
    return WeightedSet(np.arange(n), np.ones(n))


def perturbed_roots(rng: np.random.Generator, inverse: FloatArray, epsilon: float, errata: bool) -> FloatArray:
    """Return the factors w of sketched rows, from ``inverse`` = 1 / (m p), lines 7 and 8 of Algorithms 4 and 5.

    As printed w is uniform in [1, 1 + epsilon] / sqrt(m p), which is up to (1 + epsilon)^2 on the squared costs that
    the sketch must keep. Errata: the square is perturbed, by [1, 1 + epsilon] / (1 + epsilon/2), of mean one.
    """
    if errata:
        return np.sqrt(inverse * rng.uniform(1, 1 + epsilon, size=len(inverse)) / (1 + epsilon / 2))
    return np.sqrt(inverse) * rng.uniform(1, 1 + epsilon, size=len(inverse))
