"""The random threshold of ``Lazy``: its law, and what follows from it for decisions.

Tests of Kolmogorov and Smirnov and of correlation, at a false-alarm rate of 1e-6 each; the same tests convict planted
defects.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from batch2online.refresh import Adaptive, Budget, EveryStep, Geometric, Lazy, OnChange

FALSE_ALARM = 1e-6
LOOKS = range(1, 4_001)


def thresholds(tolerance, seed=0):
    return np.array([Lazy(tolerance=tolerance).cost_tolerance(seed, at) for at in LOOKS])


def is_log_uniform(values, tolerance):
    """Whether logarithms look uniform between those of 1 + tolerance / 2 and 1 + tolerance."""
    low, high = math.log1p(tolerance / 2), math.log1p(tolerance)
    return stats.kstest((np.log(values) - low) / (high - low), "uniform").pvalue > FALSE_ALARM


@pytest.mark.parametrize("tolerance", [0.003, 0.05, 10.0])
@pytest.mark.parametrize("seed", [0, 12345])
def test_the_threshold_is_log_uniform(tolerance, seed):
    values = thresholds(tolerance, seed)
    assert values.min() >= 1 + tolerance / 2
    assert values.max() <= 1 + tolerance
    assert is_log_uniform(values, tolerance)


@pytest.mark.parametrize(
    "planted",
    [
        lambda u: 6 + 5 * u,  # uniform, not its logarithm
        lambda u: 6 ** (1 - u / 2) * 11 ** (u / 2),  # half of the range
        lambda u: 1 ** (1 - u) * 11**u,  # from one on
        lambda u: np.full_like(u, 8.0),  # fixed
    ],
)
def test_the_test_convicts_other_laws(planted):
    assert not is_log_uniform(planted(np.random.default_rng(0).random(len(LOOKS))), 10.0)


def test_thresholds_of_different_looks_and_seeds_are_independent():
    one, other = thresholds(10.0, seed=0), thresholds(10.0, seed=1)
    for first, second in ((one[:-1], one[1:]), (one[:-2], one[2:]), (one, other)):
        assert stats.spearmanr(first, second).pvalue > FALSE_ALARM
    assert len(np.unique(one)) == len(LOOKS)
    assert not np.array_equal(one, other)


def test_a_threshold_belongs_to_its_look():
    """A pure function of the seed and the row count, so that a run can be resumed and repeated."""
    assert thresholds(0.05).tolist() == thresholds(0.05).tolist()


def test_which_policies_compare_costs():
    assert Lazy().compares_costs
    assert Adaptive().compares_costs
    for policy in (EveryStep(), OnChange(), Geometric(), Budget(3, 100)):
        assert not policy.compares_costs
        assert policy.cost_tolerance(0, 10) == 0.0


@pytest.mark.parametrize("share", [0.01, 0.2, 0.45, 0.9])
def test_a_row_decides_with_a_chance_of_at_most_twice_its_share_over_w(share):
    """The step of Theorem 4: deleting a share y of a cost moves its logarithm by -ln(1 - y).

    Of all thresholds, those between the two ratios of costs decide otherwise; worst where the ratios lie in the range.
    """
    tolerance = 0.5
    w = math.log((1 + tolerance) / (1 + tolerance / 2))
    ratio = 1 + tolerance
    flips = (thresholds(tolerance) < ratio) & (thresholds(tolerance) >= ratio * (1 - share))
    exact = min(1.0, -math.log1p(-share) / w)
    assert exact <= 2 * share / w + 1e-12
    assert stats.binomtest(int(flips.sum()), len(LOOKS), exact).pvalue > FALSE_ALARM
