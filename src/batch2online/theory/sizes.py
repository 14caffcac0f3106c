"""Sizes of coresets: those of the paper, and those that are enough in measurements."""

from __future__ import annotations

import math

FAILURE = 0.01
"""Probability delta with which a coreset may miss its accuracy, in the sizes below."""

HORIZON = 10**9
"""Rows up to which "theory" sizes hold in expectation: delta = epsilon / n, where a miss costs n at most."""


AUDIT = 20.0
"""Constant of a coreset for audits alone: rows per column, half the rows per component."""


def leverage_constant(dimension: int, epsilon: float, delta: float = FAILURE) -> float:
    """Return the constant c of ``q = min(1, c * score)`` that is enough in measurements.

    c = 4 ln(2 d / delta) + 2 / epsilon, with d the columns of a regression or the rank of an approximation: at least
    98 % of runs within 1 + epsilon of the optimum for epsilon from 0.01 to 0.3, heavy tails included
    (``tests/theory/test_sizes.py``). The expected size is at most c times the sum of the scores, d or twice the rank.

    >>> round(leverage_constant(22, 0.02))
    134
    """
    return 4 * math.log(2 * dimension / delta) + 2 / epsilon


ADAPTIVE_EPSILON = 0.1
"""Accuracy at which ``epsilon="auto"`` begins, and its grid of weights."""


def adaptive_constant(dimension: int, rows: float, epsilon: float = ADAPTIVE_EPSILON, delta: float = FAILURE) -> float:
    """Return the constant after so many rows with ``epsilon="auto"``: 4 ln(2 d / delta) + max(2 / epsilon, sqrt(rows)).

    It begins at :func:`leverage_constant`, never falls, and grows more slowly than the rows.

    >>> round(adaptive_constant(11, 100)), round(adaptive_constant(11, 200_000))
    (51, 478)
    """
    return leverage_constant(dimension, epsilon, delta) + max(0.0, math.sqrt(rows) - 2 / epsilon)


def adaptive_clustering_size(k: int, rows: float, epsilon: float = ADAPTIVE_EPSILON) -> float:
    """Return the size of a clustering coreset after so many rows: (1 + k) max(10 / epsilon, sqrt(rows)).

    >>> round(adaptive_clustering_size(5, 100)), round(adaptive_clustering_size(5, 200_000))
    (600, 2683)
    """
    return (1 + k) * max(10 / epsilon, math.sqrt(rows))


def adaptive_epsilon(rows: float, scale: float = 2.0, epsilon: float = ADAPTIVE_EPSILON) -> float:
    """Return the accuracy after so many rows with ``epsilon="auto"``: min(epsilon, scale / sqrt(rows)).

    ``scale`` is 2 for regression and low rank, 10 for clustering, as in the sizes above.

    >>> adaptive_epsilon(100), adaptive_epsilon(1_000_000)
    (0.1, 0.002)
    """
    return min(epsilon, scale / math.sqrt(max(rows, 1.0)))


def leverage_constant_theory(dimension: int, epsilon: float, delta: float = FAILURE) -> float:
    """Return the constant of the paper's Theorem 8.4 (Woodruff 2014): epsilon^-2 ln(d / delta)."""
    return math.log(dimension / delta) / epsilon**2


def sampling_constant(coreset_size: float | str | None, total_score: float, dimension: int, epsilon: float) -> float:
    """Return the constant c for a requested expected size: an integer, "theory", or None for the measured one.

    "theory" takes delta = epsilon / n with n = 10^9 rows: the theorems need accuracy in expectation. "audit" is 20 for
    any epsilon: for coresets to which no model is fitted.

    The size is divided by a bound of the total score that does not depend on data, never by the total itself: scores
    times c must not rise as rows are added.
    """
    if total_score == math.inf:
        return 1.0
    if coreset_size is None:
        return leverage_constant(dimension, epsilon)
    if coreset_size == "audit":
        return AUDIT
    if coreset_size == "theory":
        return leverage_constant_theory(dimension, epsilon, epsilon / HORIZON)
    if isinstance(coreset_size, str | bool) or not coreset_size >= 1:
        raise ValueError(f'coreset_size must be a positive number, "theory" or None, got {coreset_size!r}.')
    return coreset_size / total_score


def anchored_size(parameters: int, outputs: int = 1) -> int:
    """Return the size of an anchored coreset for a model of so many parameters, the smallest that was enough.

    Each row is kept with its ``outputs`` predictors: with many classes there are fewer rows, so that all of these take
    half a gigabyte at most.

    >>> anchored_size(25), anchored_size(500), anchored_size(17 * 3_200, outputs=3_200)
    (2000, 5000, 20971)
    """
    return max(2000, min(10 * parameters, 2**26 // outputs))


def keeps_matrix(outputs: int, columns: int, parts: int = 1) -> bool:
    """Return whether an anchored coreset keeps expansions of Taylor order 2, at ``(outputs * columns)^2`` per row.

    There are ``parts`` of them, one per class if classes are balanced.
    """
    parameters = outputs * columns
    return parameters <= (1024 if outputs == 1 else 256) and (parts == 1 or parts * parameters**2 <= 2**18)


def regression_size(d: int, epsilon: float, n: int, delta: float | None = None) -> int:
    """Rows m of the sketch in Algorithm 5: epsilon^-2 d ln(d / delta), hidden constants one; None is epsilon / n.

    >>> regression_size(5, 0.1, 1000)
    5410
    """
    return math.ceil(d * _log(d, epsilon, n, delta) / epsilon**2)


def low_rank_size(k: int, epsilon: float, n: int, delta: float | None = None) -> int:
    """Rows m of the sketch in Algorithm 4: epsilon^-2 k ln(k / delta), constants one; delta None is epsilon / n."""
    return math.ceil(k * _log(k, epsilon, n, delta) / epsilon**2)


def clustering_sizes(k: int, z: float, epsilon: float, n: int, delta: float | None = None) -> tuple[int, int]:
    """N_1 and N_2 of Algorithm 7, hidden constants one; delta None is epsilon / n.

    N_1 = (168 z)^(10 z) epsilon^(-5 z - 15) k^5 ln(k / delta), N_2 = epsilon^(-2 z - 2) k ln k ln(k / (epsilon delta)).

    >>> len(str(clustering_sizes(3, 2.0, 0.1, 1000)[0]))
    79
    """
    logarithm = _log(k, epsilon, n, delta)
    first = (168 * z) ** (10 * z) * epsilon ** (-5 * z - 15) * k**5 * logarithm
    second = epsilon ** (-2 * z - 2) * k * math.log(max(k, 2)) * (logarithm - math.log(epsilon))
    return math.ceil(first), math.ceil(second)


def _log(k: int, epsilon: float, n: int, delta: float | None) -> float:
    """Return ln(k / delta)."""
    return math.log(k * n / epsilon if delta is None else k / delta)


def clustering_size(k: int, epsilon: float) -> int:
    """Return the size of a clustering coreset that is enough in measurements: ``10 (1 + k) / epsilon``.

    Solutions on it are then within 1 + epsilon of those of the same solver on all rows, as measured by
    ``tests/theory/test_sizes.py``. Each cluster of the seeds is worth at least 10 / epsilon points. A center that is
    the mean of m of its points costs 1 + 1/m times as much as the mean of all, so that a tenth of epsilon is lost on
    the centers of a good solution; the rest is for telling good solutions from others.

    >>> clustering_size(5, 0.02)
    3000
    """
    return math.ceil(10 * (1 + k) / epsilon)


def clustering_size_theory(k: int, z: float, epsilon: float, delta: float = FAILURE) -> float:
    """Return a size from which a clustering coreset is within epsilon for all centers, hidden constants one.

    For k-means that of Bansal et al. (2024), epsilon^-2 k min(sqrt(k), epsilon^-2), and ln(1 / delta) / epsilon^2 more;
    their logarithms are left out. For other z it is N_1 of the paper's Algorithm 7, which no data set has.

    >>> round(clustering_size_theory(5, 2.0, 0.1)), f"{clustering_size_theory(3, 1.0, 0.1):.0e}"
    (1579, '2e+45')
    """
    if z == 2:
        return (k * min(math.sqrt(k), epsilon**-2) - math.log(delta)) / epsilon**2
    return float(clustering_sizes(k, z, epsilon, 1, delta)[0])
