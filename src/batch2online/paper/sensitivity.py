"""Average sensitivity: how much the output of an algorithm changes when one row is deleted.

The algorithm is run with a row and without it, its randomness shared. How that is done depends on what it offers:

==================  ============================================================================================
a coreset           an empty one of :mod:`batch2online.coresets`; its output is the coreset
an online learner   ``fit`` and ``forget``: the model of all rows, then of all but one; randomness belongs to the row
an estimator        ``fit``: fitted twice with the same ``random_state``
a function          ``(X, y, seed)`` or ``(X, seed)`` to an array; called twice with the same seed
==================  ============================================================================================
"""

from __future__ import annotations

import copy
import inspect
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.stats import beta, norm
from sklearn.ensemble import ExtraTreesClassifier
from threadpoolctl import threadpool_limits

from batch2online._types import FloatArray, IntArray
from batch2online.evaluate.adapters import fresh
from batch2online.evaluate.loop import probe_of
from batch2online.refresh import Geometric
from batch2online.sampling import probabilities
from batch2online.validation import check_rows

_NEVER = 2**62

_READ = ("cluster_centers_", "components_", "coef_", "predict")
"""Attributes by which models are compared, the first that an estimator has."""


def with_and_without(algorithm: Any, X: FloatArray, y: Any, row: int, seed: int) -> tuple[FloatArray, FloatArray]:
    """Return the outputs on all rows and on all but one, each as a flat array."""
    if not (hasattr(algorithm, "forget") or is_coreset(algorithm)):
        return output(algorithm, X, y, seed), output(algorithm, *without(X, y, row), seed)
    learner, probe = fitted(algorithm, X, y, seed), probe_of(X)
    before = described(learner, probe)
    return before, described(learner.forget([row]), probe)


def output(algorithm: Any, X: FloatArray, y: Any, seed: int) -> FloatArray:
    """Return the output on these rows as a flat array."""
    if callable(algorithm) and not hasattr(algorithm, "fit"):
        return np.ravel(_called(algorithm, X, y, seed))
    return described(fitted(algorithm, X, y, seed), probe_of(X))


def _called(function: Callable[..., Any], X: FloatArray, y: Any, seed: int) -> Any:
    takes_targets = len(inspect.signature(function).parameters) > 2
    return function(X, y, seed) if takes_targets else function(X, seed)


def without(X: FloatArray, y: Any, row: int) -> tuple[FloatArray, Any]:
    keep = np.arange(len(X)) != row
    return X[keep], None if y is None else y[keep]


def is_coreset(algorithm: Any) -> bool:
    return hasattr(algorithm, "coreset") and hasattr(algorithm, "add")


def fitted(algorithm: Any, X: FloatArray, y: Any, seed: int) -> Any:
    """Return a fresh copy with this seed that has seen the rows, and can forget them if its kind can."""
    if is_coreset(algorithm):
        twin = copy.deepcopy(algorithm)
        twin.seed, twin.keep_history = seed, True
        return twin.add(X, y)
    twin = fresh(algorithm, seed)
    if "keep_history" in twin.get_params():  # fit ends with a refit, so no refresh check before it is needed
        twin.set_params(keep_history=True, refresh=Geometric(start=_NEVER))
    return twin.fit(X) if y is None else twin.fit(X, y)


def described(fitted: Any, probe: FloatArray) -> FloatArray:
    """Return the fitted parameters as a flat array, invariant to the numbering of clusters and the rotation of a basis.

    A coreset: ids and weights. Centers: in lexicographic order. A subspace: its projection. A linear model: its
    coefficients. Anything else: predictions on probe rows.
    """
    if is_coreset(fitted):
        coreset = fitted.coreset()
        return np.concatenate([coreset.ids, coreset.weights])
    if hasattr(fitted, "cluster_centers_"):
        centers = fitted.cluster_centers_
        return np.ravel(centers[np.lexsort(centers.T[::-1])])
    if hasattr(fitted, "components_"):
        return np.ravel(fitted.components_.T @ fitted.components_)
    if hasattr(fitted, "coef_"):
        return np.append(fitted.coef_, getattr(fitted, "intercept_", 0.0))
    if hasattr(fitted, "predict"):
        return np.ravel(fitted.predict(probe)).astype(np.float64)
    raise TypeError(
        f"{type(fitted).__name__} has none of {', '.join(_READ)}, by which models are compared: pass a function of "
        "(X, y, seed) or (X, seed) that returns an array."
    )


def differ(old: FloatArray, new: FloatArray, tolerance: float) -> bool:
    """Whether two outputs differ by more than a share of their largest entry."""
    if old.shape != new.shape:
        return True
    return bool(np.abs(new - old).max(initial=0.0) > tolerance * np.abs(old).max(initial=0.0))


_MOST_ROWS = 9
_DROPPED: Any = None


def exact_sensitivity(coreset: Any, X: FloatArray, y: Any) -> float:
    """Mean over rows of the total variation between the coresets with and without the row."""
    if not is_coreset(coreset) or not hasattr(coreset, "scores_of_all"):
        raise TypeError("Exact average sensitivity is for empty coresets of batch2online.coresets.")
    if len(X) > _MOST_ROWS:
        raise ValueError(f"Enumeration is for up to {_MOST_ROWS} rows, got {len(X)}: use method='coupled'.")
    complete = outcomes(coreset, X, y)
    deletions = [outcomes(coreset, *without(X, y, row)) for row in range(len(X))]
    for row, others in enumerate(deletions):
        others.insert(row, {_DROPPED: 1.0})
    return float(np.mean([total_variation(complete, others) for others in deletions]))


def outcomes(coreset: Any, X: FloatArray, y: Any) -> list[dict[Any, float]]:
    """For each row the probabilities of being dropped (None) and of each exponent of its weight."""
    twin = fitted(coreset, X, y, seed=0)
    q = probabilities(twin.scores_of_all(), twin.sketch.constant)
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


_PAIRS = 40
"""Outputs of each kind for one deleted row: half to learn from, half to be judged by."""


def accuracy_with_and_without(
    algorithm: Any, X: FloatArray, y: Any, trials: int, rng: np.random.Generator
) -> tuple[int, int]:
    """Return how many new outputs were classified correctly, and their number, over random deletions."""
    n_rows = max(1, trials // _PAIRS)
    deleted = rng.choice(len(X), size=min(n_rows, len(X)), replace=False)
    results = [_correctly_classified(algorithm, X, y, int(row), rng) for row in deleted]
    return sum(results), len(results) * _PAIRS


def _correctly_classified(algorithm: Any, X: FloatArray, y: Any, row: int, rng: np.random.Generator) -> int:
    labels = np.arange(2 * _PAIRS) % 2
    rows = ((X, y), without(X, y, row))
    outputs = _padded([output(algorithm, *rows[label], int(rng.integers(2**31))) for label in labels])
    classifier = ExtraTreesClassifier(100, random_state=int(rng.integers(2**31)))
    classifier.fit(outputs[:_PAIRS], labels[:_PAIRS])
    return int((classifier.predict(outputs[_PAIRS:]) == labels[_PAIRS:]).sum())


def _padded(outputs: list[FloatArray]) -> FloatArray:
    """Return outputs of different lengths (coresets) as one array, padded with a value that no output contains."""
    table = np.full((len(outputs), max(len(each) for each in outputs)), -1.0)
    for line, each in zip(table, outputs, strict=True):
        line[: len(each)] = each
    return table


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
    algorithm : estimator, coreset or function
        Anything with ``fit``, compared by the first that it has of ``cluster_centers_``, ``components_``, ``coef_`` and
        ``predict``; an empty one of :mod:`batch2online.coresets`; or a function of
        ``(X, y, seed)`` or ``(X, seed)`` that returns an array. With ``forget`` (this package) randomness belongs to
        the row and stays with it.
    X : (n, d) array
        The rows.
    y : (n,) array, optional
        The targets.
    method : {"coupled", "exact", "classifier"}
        "coupled": the probability that the output changes when a random row is deleted and the seed is kept, an
        upper bound for any algorithm. "exact": by enumeration, for coresets of up to nine rows that draw rows
        independently. "classifier": a lower bound for any randomised algorithm, by how well a classifier distinguishes
        outputs with and without a row.
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
