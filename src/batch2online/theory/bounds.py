"""Average sensitivity, regret and inconsistency: the paper's bounds and ours, every constant explicit.

Proofs of ours are in ``docs/proofs.md``. Bounds on the loss are for rows in random order and losses between 0 and L.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import Enum
from itertools import pairwise

SensitivityBound = Callable[[int], float]
"""A bound of an average sensitivity: a function of the number of rows."""


# -- average sensitivity of our coresets -----------------------------------------------------------------


class DependsOn(Enum):
    """What a new model depends on, and so what it reacts to when a single row is left out."""

    CORESET = "the coreset alone"
    CURRENT_MODEL = "the coreset and the current model, which depends on the order of rows"
    ALL_ROWS = "statistics of all rows"


@dataclass(frozen=True)
class Guarantee:
    """Guarantee of a policy for rows in random order and losses in [0, 1], or clipped at 1.

    Attributes
    ----------
    factor : float
        Factor of the hindsight optimum, which is that of losses that are not clipped.
    additive : float
        Additive term of the bound of the expected prequential loss, in units of the bound of the losses.
    models : float
        Maximum number of models (in expectation for :class:`OnChange`).
    kept : float
        The part of ``additive`` due to models that are kept. It grows in proportion to the bound of the losses
        or, where losses are clipped there, to the mean loss of the best model if that is larger.
    """

    factor: float
    additive: float
    models: float
    kept: float = 0.0


def reaction(epsilon: float) -> float:
    """K = 2 + 1/epsilon, how strongly a point's place in the coreset reacts to its inclusion probability.

    If that probability changes from q to q', then with probability at most ``K |q - q'|`` the point enters the coreset,
    leaves it, or gets another weight there.

    >>> reaction(0.1)
    12.0
    """
    return 2 + 1 / epsilon


def leverage_sensitivity(n: int, constant: float, total: float, epsilon: float) -> float:
    """(c S / n)(1 + K): leverage scores, which sum to S; uniform sampling with S = 1.

    >>> round(leverage_sensitivity(1_000_000, constant=50, total=10, epsilon=0.1), 6)
    0.0065
    """
    return min(1.0, constant * total / n * (1 + reaction(epsilon)))


def ridge_leverage_sensitivity(n: int, constant: float, rank: int, epsilon: float, *, intercept: bool = False) -> float:
    """(c S / n)(1 + (2k + 3) K) with S = 2k, or 2k + 1 with an intercept: ridge leverage scores of rank k."""
    return min(1.0, constant * (2 * rank + intercept) / n * (1 + (2 * rank + 3) * reaction(epsilon)))


def clustering_sensitivity(n: int, constant: float, n_clusters: int, epsilon: float) -> float:
    """(k / n) + (c / n)(1 + K): clustering scores, which sum to one, around seeds that are a race."""
    return min(1.0, n_clusters / n + constant / n * (1 + reaction(epsilon)))


def general_sensitivity(n: int, constant: float, total: float, largest_total: float, epsilon: float) -> float:
    """(c S / n)(1 + S_max K): true sensitivities of any loss, which sum to S, and to S_max at most for any rows."""
    return min(1.0, constant * total / n * (1 + largest_total * reaction(epsilon)))


def running_minimum_sensitivity(n: int, constant: float, total: float, epsilon: float, checks: float) -> float:
    """((1 + 2K) c S + 2 S J) / n: leverage scores, each row by its least ``c(t) * score`` over J checks (Lemma 12).

    The order of rows matters: a row that is left out leaves a hole in its place.
    """
    return min(1.0, total * ((1 + 2 * reaction(epsilon)) * constant + 2 * checks) / n)


def ridge_running_minimum_sensitivity(
    n: int, constant: float, rank: int, epsilon: float, checks: float, *, intercept: bool = False
) -> float:
    """((1 + r K) c S + 8 S J) / n, r = (4/3)((k + 1) S / k + 8/5): the same for ridge leverage scores of rank k."""
    total = 2 * rank + intercept
    rise = 4 / 3 * ((rank + 1) * total / rank + 8 / 5)
    return min(1.0, total * ((1 + rise * reaction(epsilon)) * constant + 8 * checks) / n)


def exact_stability(n: int, columns: int) -> float:
    """6 p / n: mean increase of the loss of a row that is left out, in units of L, for exact least squares.

    Lemma 6. It takes the place of an average sensitivity in Theorems 2 and 5.

    >>> exact_stability(1_000, columns=5)
    0.03
    """
    return min(1.0, 6 * columns / n)


# -- regret --------------------------------------------------------------------------------------------


def every_step_regret(sensitivity: SensitivityBound, n: int, loss_bound: float = 1.0) -> float:
    """Theorem 4.1 with its constants: L (1 + 2 sum_{t < n} beta(t)), for a new model at every row."""
    return loss_bound * (1 + 2 * math.fsum(sensitivity(t) for t in range(1, n)))


def refresh_times(n: int, start: int, growth: float, rows: int = 1) -> Iterator[int]:
    """Iterate over the row counts below n at which ``Geometric`` solves: ``start``, then times ``growth``, rounded up.

    ``growth=1`` solves at the multiples of ``rows`` after ``start``, as ``Every`` does.

    >>> list(refresh_times(100, start=10, growth=2.0)), list(refresh_times(100, start=10, growth=1.0, rows=25))
    ([10, 20, 40, 80], [10, 25, 50, 75])
    """
    at = start
    while at < n:
        yield at
        at = max(at + 1, math.ceil(growth * at)) if growth > 1 else (at // rows + 1) * rows


def geometric_regret(
    sensitivity: SensitivityBound, n: int, start: int, growth: float, loss_bound: float = 1.0, rows: int = 1
) -> float:
    """L (s_0 + sum_{t = s_0}^{n - 1} beta(s(t) + 1)), s(t) the last refresh up to t: what ``Geometric`` may lose.

    ``growth=1`` refreshes at every row, or at the multiples of ``rows``.

    >>> round(geometric_regret(lambda n: 1 / n, n=100, start=10, growth=2.0), 2)
    13.08
    """
    times = [*refresh_times(n, start, growth, rows), n]
    lost = math.fsum((stop - at) * sensitivity(at + 1) for at, stop in pairwise(times))
    return loss_bound * (min(start, n) + lost)


def warm_start_regret(
    sensitivity: SensitivityBound, n: int, start: int, growth: float, loss_bound: float = 1.0, rows: int = 1
) -> float:
    """L (s_0 + sum_t min(1, sum_{j: s_j <= s(t)} 2 s_j beta(s_j) / s(t))): what a solver that starts from the current
    model may lose, at the times of ``Geometric``.

    Such a model depends on the order of rows, so the sensitivity of every refresh so far counts at each row.

    >>> round(warm_start_regret(lambda n: 3 / n, n=1_000, start=100, growth=3.0), 1)
    138.0
    """
    times = [*refresh_times(n, start, growth, rows), n]
    total, remembered = float(min(start, n)), 0.0
    for at, stop in pairwise(times):
        remembered += 2 * at * sensitivity(at)
        total += (stop - at) * min(1.0, remembered / at)
    return loss_bound * total


REGULARITY = 2.0
"""What Theorem 5 calls rho Gamma: models that cost rows seen nearly the same cost others so, up to this factor."""


LAG = 2.0
"""Bound H of Lemma 11: by so much running minima raise the variance of a coreset whose constant grows like a root."""


def coreset_excess(constant: float, columns: int, epsilon: float, regularity: float = REGULARITY) -> float:
    """(1 + e^2 / (4 + 4e)) H (4 rho + 8 sqrt(rho d)) / c: excess loss of least squares on a coreset (Theorem 8).

    Relative to the optimum, for rows that the model has not seen.

    >>> round(coreset_excess(478, columns=10, epsilon=0.1), 3)
    0.184
    """
    rounding = 1 + epsilon**2 / (4 * (1 + epsilon))
    return rounding * LAG * (4 * regularity + 8 * math.sqrt(regularity * columns)) / constant


def kept_model(slack: float, regularity: float = REGULARITY) -> float:
    """(1 + 1/eta) rho Gamma: bounds the excess cost of a kept model on future rows, relative to that on rows seen."""
    return (1 + 1 / slack) * regularity


def allowed_regret(n: int, start: int, growth: float, allowed: float, slack: float, loss_bound: float = 1.0) -> float:
    """(1 + 1/eta) rho Gamma L kappa p sum_j (s_{j+1} - s_j) / s_j: what ``Adaptive`` may lose by keeping models.

    ``allowed`` is kappa times the degrees of freedom p, ``slack`` is eta. L may be the mean loss of a row.

    >>> round(allowed_regret(1_000_000, start=100, growth=1.1, allowed=20, slack=1.0) / (4 * 20), 2)
    9.67
    """
    times = [*refresh_times(n, start, growth), n]
    lost = math.fsum((stop - at) * min(1.0, allowed / at) for at, stop in pairwise(times))
    return loss_bound * kept_model(slack) * lost


# -- inconsistency -------------------------------------------------------------------------------------


def geometric_models(n: int, start: int, growth: float, rows: int = 1) -> int:
    """Return the models that ``Geometric`` makes in n rows: at most 1 + log_growth(n / s_0).

    >>> geometric_models(1_000_000, start=100, growth=1.2)
    51
    """
    return sum(1 for _ in refresh_times(n + 1, start, growth, rows))


def on_change_inconsistency(sensitivity: SensitivityBound, n: int, start: int = 1) -> float:
    """Return the expected changes of ``OnChange`` after row ``start``: the sum of beta, c S (1 + K) ln(n / start)."""
    return math.fsum(sensitivity(t) for t in range(start + 1, n + 1))


# -- the paper's rates, hidden constants one -------------------------------------------------------------


def regression_regret(d: int, epsilon: float, n: int, *, errata: bool = True) -> float:
    """Theorem 8.1: epsilon^-2 d ln n ln(d n / epsilon), for the regret and for the inconsistency.

    With errata a factor 1/epsilon more, which Lemma 5.2 has and sections 6, 7 and 8 drop.
    """
    return d * math.log(n) * math.log(d * n / epsilon) / epsilon ** (3 if errata else 2)


def low_rank_regret(k: int, epsilon: float, n: int, *, errata: bool = True) -> float:
    """Theorem 7.2: epsilon^-2 k ln n ln(k n / epsilon), for the regret and for the inconsistency; errata as above."""
    return k * math.log(n) * math.log(k * n / epsilon) / epsilon ** (3 if errata else 2)


def clustering_regret(k: int, z: float, epsilon: float, n: int, *, errata: bool = True) -> float:
    """Theorem 6.1: (N_1 + N_2) ln n with the logarithms of N_1 and N_2 taken at k n / epsilon; errata as above.

    N_1 = (168 z)^(10 z) epsilon^(-5 z - 15) k^5 ln(k n / epsilon), N_2 = epsilon^(-2 z - 2) k ln k ln(k n / epsilon),
    with ln 2 for the ln k of a single cluster, which is zero as printed.
    """
    logarithm = math.log(k * n / epsilon)
    first = (168 * z) ** (10 * z) * epsilon ** (-5 * z - 15) * k**5 * logarithm
    second = epsilon ** (-2 * z - 2) * k * math.log(max(k, 2)) * logarithm
    return float((first + second) * math.log(n)) / (epsilon if errata else 1.0)
