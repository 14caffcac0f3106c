"""Average sensitivity: how much an algorithm reacts to one row."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.stats import beta, norm
from threadpoolctl import threadpool_limits

from batch2online._types import FloatArray, IntArray
from batch2online.evaluate.deletion import differ, with_and_without
from batch2online.evaluate.exact_sensitivity import exact_sensitivity
from batch2online.evaluate.told_apart import accuracy_with_and_without
from batch2online.validation import check_rows

_ROUNDING = 1e-9


@dataclass(frozen=True)
class SensitivityEstimate:
    """An average sensitivity, or a bound of it, with its confidence interval.

    Attributes
    ----------
    mean, low, high : the estimate and its interval
    kind : "exact", "upper" (the interval is that of an upper bound) or "lower" (of a lower bound; ``high`` is 1)
    n, trials : rows, and runs that were compared
    """

    mean: float
    low: float
    high: float
    kind: str
    n: int
    trials: int


def average_sensitivity(
    algorithm: Any,
    X: Any,
    y: Any = None,
    *,
    method: str = "coupled",
    trials: int = 200,
    tolerance: float = _ROUNDING,
    confidence: float = 0.95,
    random_state: int = 0,
) -> SensitivityEstimate:
    r"""How much the output of an algorithm depends on a single row.

    .. math:: \beta(n) = \frac1n \sum_i \mathrm{TV}\big(A(X), A(X \setminus i)\big)

    Parameters
    ----------
    algorithm : estimator, coreset construction or function
        Anything with ``fit``; an empty construction of :mod:`batch2online.coresets`; or a function of
        ``(X, y, seed)`` or ``(X, seed)`` that returns an array. With ``forget`` (this package) randomness belongs to
        the row and stays with it.
    X : (n, d) array
        The rows.
    y : (n,) array, optional
        The targets.
    method : {"coupled", "exact", "classifier"}
        "coupled": the probability that the output changes when a random row is deleted and the seed is kept, an
        upper bound for any algorithm. "exact": by enumeration, for coresets of up to nine rows that draw rows
        independently. "classifier": a lower bound for any randomised algorithm, by how well outputs with and without a
        row can be told apart.
    trials : int
        Pairs of runs.
    tolerance : float
        Outputs this close, relative to their largest entry, count as equal in "coupled".
    confidence : float
        Level of the interval (Clopper and Pearson's).
    random_state : int
        Seed of the deletions and of the algorithm.

    Examples
    --------
    >>> from sklearn.linear_model import LinearRegression
    >>> from batch2online import coresets, datasets
    >>> X, y = datasets.load_regression("diabetes")
    >>> average_sensitivity(LinearRegression(), X, y, trials=50).mean
    1.0
    >>> average_sensitivity(coresets.Leverage(epsilon=0.5, coreset_size=10), X, y, trials=50).mean < 0.3
    True
    """
    X = check_rows(X)
    y = None if y is None else np.asarray(y, dtype=np.float64)
    if len(X) < 2:
        raise ValueError("Sensitivity to a row needs at least two rows.")
    if method == "exact":
        exact = exact_sensitivity(algorithm, X, y)
        return SensitivityEstimate(exact, exact, exact, "exact", len(X), 0)
    rng = np.random.default_rng(random_state)
    if method == "classifier":
        with threadpool_limits(1):
            correct, asked = accuracy_with_and_without(algorithm, X, y, trials, rng)
        low, _ = binomial_interval(correct, asked, confidence)
        return SensitivityEstimate(
            max(0.0, 2 * correct / asked - 1), max(0.0, 2 * low - 1), 1.0, "lower", len(X), asked
        )
    if method != "coupled":
        raise ValueError(f'method must be "coupled", "exact" or "classifier", got {method!r}.')
    with threadpool_limits(1):
        changed = sum(_changes(algorithm, X, y, tolerance, rng) for _ in range(trials))
    return SensitivityEstimate(
        changed / trials, *binomial_interval(changed, trials, confidence), "upper", len(X), trials
    )


def _changes(algorithm: Any, X: FloatArray, y: Any, tolerance: float, rng: np.random.Generator) -> bool:
    row, seed = int(rng.integers(len(X))), int(rng.integers(2**31))
    return differ(*with_and_without(algorithm, X, y, row, seed), tolerance)


def binomial_interval(successes: int, trials: int, confidence: float) -> tuple[float, float]:
    """Clopper and Pearson's interval for a probability.

    >>> [round(end, 4) for end in binomial_interval(0, 100, 0.95)]
    [0.0, 0.0362]
    """
    tail = (1 - confidence) / 2
    low = float(beta.ppf(tail, successes, trials - successes + 1)) if successes else 0.0
    high = float(beta.isf(tail, successes + 1, trials - successes)) if successes < trials else 1.0
    return low, high


@dataclass(frozen=True)
class Decay:
    """How average sensitivity falls with the number of rows: ``beta(n)`` about ``n ** slope``.

    Attributes
    ----------
    sizes : numbers of rows
    estimates : one :class:`SensitivityEstimate` for each
    slope, low, high : the slope of log beta over log n and its confidence interval; -1 is the slope of the theory
    """

    sizes: IntArray
    estimates: tuple[SensitivityEstimate, ...]
    slope: float
    low: float
    high: float


def sensitivity_decay(
    algorithm: Any,
    X: Any,
    y: Any = None,
    *,
    sizes: Sequence[int],
    confidence: float = 0.95,
    random_state: int = 0,
    **options: Any,
) -> Decay:
    """Fit the decay of :func:`average_sensitivity` (coupled) over random subsets of these sizes.

    A line through log of the estimates, weighted by their binomial precision; the interval is normal.
    Further options are those of :func:`average_sensitivity`.
    """
    X, rng = check_rows(X), np.random.default_rng(random_state)
    estimates = []
    for size in sizes:
        rows = rng.choice(len(X), size=size, replace=False)
        targets = None if y is None else np.asarray(y)[rows]
        seed = int(rng.integers(2**31))
        estimates.append(average_sensitivity(algorithm, X[rows], targets, random_state=seed, **options))
    slope, error = weighted_slope(np.log(sizes), *_logarithms(estimates))
    width = float(norm.isf((1 - confidence) / 2)) * error
    return Decay(np.array(sizes), tuple(estimates), slope, slope - width, slope + width)


def _logarithms(estimates: list[SensitivityEstimate]) -> tuple[FloatArray, FloatArray]:
    """Logarithms of the estimates and their precisions, half a success and half a failure added."""
    trials = np.array([e.trials for e in estimates], dtype=np.float64)
    shares = (np.array([e.mean for e in estimates]) * trials + 0.5) / (trials + 1)
    return np.log(shares), trials * shares / (1 - shares)


def weighted_slope(x: FloatArray, y: FloatArray, precision: FloatArray) -> tuple[float, float]:
    """Slope of the weighted least-squares line and its standard error, for known precisions of y.

    >>> weighted_slope(np.array([0.0, 1.0, 2.0]), np.array([5.0, 4.0, 3.0]), np.ones(3))[0]
    -1.0
    """
    centred = x - np.average(x, weights=precision)
    information = float((precision * np.square(centred)).sum())
    return float((precision * centred * y).sum()) / information, 1 / math.sqrt(information)
