"""Average sensitivity: three ways of measuring it that must agree, and the bounds of the theory."""

import numpy as np
import pytest
from sklearn.cluster import KMeans
from sklearn.linear_model import LinearRegression
from sklearn.tree import DecisionTreeRegressor

from batch2online import OnlineLowRank, OnlineRegression, coresets, datasets
from batch2online.evaluate import average_sensitivity, sensitivity_decay
from batch2online.paper.sensitivity import _outcomes_of, total_variation
from batch2online.sampling import exponents

X, Y = datasets.load_regression("diabetes")
EPSILON = 0.5
K = 2 + 1 / EPSILON


def leverage(size=6):
    return coresets.Leverage(epsilon=EPSILON, coreset_size=size)


# -- exact ----------------------------------------------------------------------------------------------


def test_total_variation_of_products_by_hand():
    first = [{"a": 0.5, "b": 0.5}, {"a": 1.0}]
    second = [{"a": 0.5, "b": 0.5}, {"a": 0.75, "c": 0.25}]
    assert total_variation(first, second) == 0.25
    assert total_variation(first, first) == 0.0


@pytest.mark.parametrize("q", [1.0, 0.9, 0.3, 0.01])
def test_outcomes_are_those_of_the_rounding(q):
    grid = (np.arange(100_000) + 0.5) / 100_000
    exponent, counts = np.unique(exponents(np.full(100_000, q), grid, EPSILON), return_counts=True)
    expected = {e: q * c / 100_000 for e, c in zip(exponent.tolist(), counts.tolist(), strict=True)}
    found = {e: p for e, p in _outcomes_of(q, EPSILON).items() if e is not None and p > 0}
    assert found == pytest.approx(expected, abs=2e-5)
    assert sum(_outcomes_of(q, EPSILON).values()) == pytest.approx(1.0)


@pytest.mark.parametrize("n", [5, 7, 9])
def test_the_bound_for_leverage_scores_holds_exactly(n):
    """beta <= (c S / n)(1 + K) with c S the expected size; here S = 3 columns, constant and target counted."""
    rows = np.random.default_rng(n).normal(size=(n, 1))
    exact = average_sensitivity(leverage(0.5 + 0.5), rows, rows[:, 0] ** 2, method="exact").mean
    assert 0 < exact <= 1.0 / n * (1 + K)


def test_enumeration_says_what_it_is_for():
    with pytest.raises(ValueError, match="up to 9 rows"):
        average_sensitivity(leverage(), X, Y, method="exact")
    with pytest.raises(TypeError, match="empty coresets"):
        average_sensitivity(LinearRegression(), X[:5], Y[:5], method="exact")


# -- coupled --------------------------------------------------------------------------------------------


def test_plain_algorithms_react_to_every_row():
    assert average_sensitivity(LinearRegression(), X, Y, trials=30).low > 0.85
    assert average_sensitivity(KMeans(3, n_init=1), X[:100], trials=30).low > 0.85
    constant = average_sensitivity(lambda X, y, seed: np.zeros(3), X, trials=30)
    assert (constant.mean, constant.low) == (0.0, 0.0)
    assert 0 < average_sensitivity(DecisionTreeRegressor(max_depth=1), X, Y, trials=30).mean <= 1


def test_the_probability_of_a_function_that_is_known():
    """A function that notices only rows beyond a quantile: one in ten. False alarms: 1e-6."""

    def noticed(X, y, seed):
        return X[X[:, 0] > threshold].sum(keepdims=True)

    threshold = np.quantile(X[:, 0], 0.9)
    share = (X[:, 0] > threshold).mean()
    estimate = average_sensitivity(noticed, X, trials=500, confidence=1 - 1e-6)
    assert estimate.low <= share <= estimate.high
    assert estimate.high - estimate.low < 0.2


@pytest.mark.parametrize(
    "online",
    [
        OnlineRegression(solve="coreset", epsilon=0.5, coreset_size=20),
        OnlineLowRank(2, solve="coreset", epsilon=0.5, coreset_size=8),
    ],
)
@pytest.mark.few(1)
@pytest.mark.slow
def test_a_model_reacts_no_more_often_than_its_coreset(online):
    """Deletions and seeds are the same, so this holds for each single trial."""
    targets = Y if online._needs_targets else None
    construction = (
        coresets.Leverage(epsilon=0.5, coreset_size=20, intercept=True)
        if online._needs_targets
        else coresets.RidgeLeverage(2, epsilon=0.5, coreset_size=8)
    )
    model = average_sensitivity(online, X, targets, trials=60)
    coreset = average_sensitivity(construction, X, targets, trials=60)
    assert 0 < model.mean <= coreset.mean < 1


@pytest.mark.full
def test_the_bound_of_the_theory_holds_on_real_rows_and_a_defect_is_caught():
    """Planted defect: a coreset whose randomness belongs to the place of a row, not to the row. False alarms: 1e-6."""
    size = 4
    bound = size / len(X) * (1 + K)
    coupled = average_sensitivity(leverage(size), X, Y, trials=300, confidence=1 - 2e-6)
    assert coupled.low <= bound < 0.1

    def by_place(X, y, seed):
        return (
            leverage(size).__class__(epsilon=EPSILON, coreset_size=size, random_state=seed).add(X, y).coreset().points
        )

    assert average_sensitivity(by_place, X, Y, trials=300, confidence=1 - 2e-6).low > bound


# -- classifier -----------------------------------------------------------------------------------------


@pytest.mark.slow
def test_the_lower_bound_is_below_and_finds_what_is_there():
    """False alarms: 1e-6. A draw of 1 or 0 by the row that matters half the time: TV is 1/2 for it, 0 for others."""

    def noisy(X, y, seed):
        rng = np.random.default_rng(seed)
        return np.array([float(len(X) == 40) * (rng.random() < 0.5)])

    estimate = average_sensitivity(noisy, X[:40], method="classifier", trials=400, confidence=1 - 2e-6)
    assert 0.2 < estimate.low <= 0.5
    assert (estimate.high, estimate.kind) == (1.0, "lower")


@pytest.mark.slow
def test_nothing_is_found_where_nothing_is():
    """False alarms: 1e-6."""

    def blind(X, y, seed):
        return np.random.default_rng(seed).normal(size=3)

    assert average_sensitivity(blind, X[:40], method="classifier", trials=400, confidence=1 - 2e-6).low == 0.0


def test_unknown_methods_and_too_few_rows_are_refused():
    with pytest.raises(ValueError, match="method must be"):
        average_sensitivity(KMeans(3), X, method="guess")
    with pytest.raises(ValueError, match="at least two rows"):
        average_sensitivity(KMeans(1), X[:1])


# -- intervals and decay --------------------------------------------------------------------------------


def test_decay_is_found_with_its_slope():
    """The five smallest rows alone matter: P(change) = 5 / n. False alarms: 1e-6."""
    first_five = lambda X, y, seed: np.sort(X, axis=0)[:5]  # noqa: E731
    decay = sensitivity_decay(
        first_five, np.arange(160.0)[:, None], sizes=[20, 40, 80, 160], trials=400, confidence=1 - 1e-6
    )
    assert decay.low <= -1 <= decay.high
    assert decay.high < -0.3
    flat = sensitivity_decay(LinearRegression(), X, Y, sizes=[50, 100, 200], trials=20)
    assert flat.low <= 0 <= flat.high
