"""The random threshold of ``Adaptive``: its law, and what follows from it for decisions.

Tests of Kolmogorov and Smirnov and of correlation, at a false-alarm rate of 1e-6 each; the same tests convict planted
defects.
"""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from batch2online.refresh import Adaptive, EveryStep, Geometric, OnChange

FALSE_ALARM = 1e-6
LOOKS = range(1, 4_001)


def thresholds(tolerance, seed=0):
    policy = Adaptive(floor=tolerance)
    return np.array([policy.cost_tolerance(seed, at) for at in LOOKS])


def is_log_uniform(values, tolerance):
    """Whether logarithms of what is allowed look uniform between those of tolerance / 2 and tolerance."""
    return stats.kstest(np.log2(2 * (values - 1) / tolerance), "uniform").pvalue > FALSE_ALARM


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
    assert Adaptive().compares_costs
    for policy in (EveryStep(), OnChange(), Geometric()):
        assert not policy.compares_costs
        assert policy.cost_tolerance(0, 10) == 0.0
