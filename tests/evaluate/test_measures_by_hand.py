"""What the evaluation promises, by hand and by brute force: hindsight, losses, sensitivity to a row, intervals."""

from __future__ import annotations

import math
from itertools import product

import numpy as np
import pytest
from scipy import stats
from scipy.linalg import subspace_angles
from sklearn.cluster import KMeans
from sklearn.decomposition import TruncatedSVD

from batch2online import coresets
from batch2online.evaluate import average_sensitivity, losses, prequential
from batch2online.evaluate.result import Outcome, Result
from batch2online.paper import sensitivity
from batch2online.rows import Rows

RNG = np.random.default_rng


# -- losses and hindsight ------------------------------------------------------------------------------------


def test_hindsight_of_regression_has_an_intercept():
    X, y = RNG(0).normal(size=(60, 3)) + 5.0, RNG(1).normal(size=(60, 2)) + 100.0
    best = losses.loss_of("squared").hindsight(X, y).sum()
    around = X - X.mean(axis=0)
    coefficients = np.linalg.lstsq(around, y - y.mean(axis=0), rcond=None)[0]
    expected = np.square(y - y.mean(axis=0) - around @ coefficients).sum()
    assert best == pytest.approx(expected)
    each = losses.loss_of("absolute").losses(np.zeros((60, 2)), X, y)
    np.testing.assert_allclose(each, np.linalg.norm(y, axis=1))


@pytest.mark.parametrize("z", [1.0, 1.5, 2.0, 3.0])
def test_losses_of_centers_for_every_power(z):
    X, centers = RNG(2).normal(size=(40, 2)), RNG(3).normal(size=(3, 2))
    loss = losses.ClusteringLoss(z, n_clusters=2)
    expected = np.linalg.norm(X[:, None] - centers, axis=2).min(axis=1) ** z
    np.testing.assert_allclose(loss.losses(centers, X, None), expected)
    # two far groups: the best two centers are found by looking at each group alone
    groups = np.concatenate([X, X + 1e3])
    alone = losses.ClusteringLoss(z, n_clusters=1).hindsight(X, None).sum()
    assert loss.hindsight(groups, None).sum() == pytest.approx(2 * alone, rel=1e-3)


@pytest.mark.parametrize("center", [False, True])
@pytest.mark.parametrize("squared", [False, True])
def test_hindsight_of_subspaces_is_that_of_singular_values(center, squared):
    X = RNG(4).normal(size=(50, 4)) * [5, 3, 1, 1] + 7.0
    loss = losses.LowRankLoss(2, center, squared)
    around = X - X.mean(axis=0) * center
    right = np.linalg.svd(around, full_matrices=False)[2][:2]
    apart = np.square(around - around @ right.T @ right).sum(axis=1)
    np.testing.assert_allclose(loss.hindsight(X, None), apart if squared else np.sqrt(apart), rtol=1e-6)


@pytest.mark.parametrize("squared", [False, True])
def test_before_the_first_subspace_the_loss_is_the_distance_to_the_mean_so_far(squared):
    X, loss = np.array([[0.0, 0.0], [3.0, 4.0], [7.5, 10.0]]), losses.LowRankLoss(1, squared=squared)
    each, _ = loss.without_model(loss.warm_up(), X, None)
    assert each == pytest.approx([0.0, 25.0, 100.0] if squared else [0.0, 5.0, 10.0])


def test_components_that_are_not_orthonormal_are_made_so():
    X, skewed = RNG(5).normal(size=(20, 3)), np.array([[2.0, 0.0, 0.0], [3.0, 1.0, 0.0]])
    np.testing.assert_allclose(losses.LowRankLoss(2).losses((skewed,), X, None), X[:, 2] ** 2, atol=1e-12)


def test_ratios_by_hand():
    def ratio(loss, optimum):
        return Outcome("m", 0, loss, optimum, 0, 0.0, 1.0).ratio

    assert ratio(3.0, 2.0) == 1.5
    assert ratio(0.0, 0.0) == 1.0
    assert ratio(1.0, 0.0) == math.inf


def test_a_summary_has_means_over_seeds_and_the_largest_memory():
    runs = tuple(Outcome("m", s, 2.0 + s, 2.0, s, 0.5 * s, 1.0, m) for s, m in enumerate((70, 90, 80)))
    (line,) = Result(runs, (), {}).summary()
    assert (line["loss"], line["ratio"], line["regret"], line["changes"], line["churn"]) == (3.0, 1.5, 1.0, 1.0, 0.5)
    assert (line["seeds"], line["peak_memory"]) == (3, 90)


class Counter:
    """A learner that changes its prediction at given row counts."""

    def __init__(self, at=()):
        self.at, self.n = at, 0

    def partial_fit(self, X, y):
        self.n += len(X)
        return self

    def predict(self, X):
        return np.full(len(X), float(sum(self.n > count for count in self.at)))


def test_changes_and_sums_are_those_seen_from_outside():
    X, y = RNG(6).normal(size=(50, 2)), RNG(7).normal(size=50)
    result = prequential(
        {"m": lambda: Counter((20, 31))}, X, y, loss="squared", order="given", seeds=1, chunk=5, warmup=10
    )
    run, curve = result.rows[0], result.curves[0]
    predicted = np.repeat([0.0, 1.0, 2.0], [25, 10, 15])
    each = np.square(y - predicted)
    assert run.changes == 2
    assert run.churn == pytest.approx(2.0)
    assert run.loss == pytest.approx(each[10:].sum())
    assert run.optimum == pytest.approx(losses.Squared().hindsight(X, y)[10:].sum())
    for at, total, optimum in zip(curve.at, curve.loss, curve.optimum, strict=True):
        assert total == pytest.approx(each[10:at].sum())
        assert optimum == pytest.approx(losses.Squared().hindsight(X, y)[10:at].sum())


def test_measures_of_change_by_hand():
    old, new = np.linalg.qr(RNG(8).normal(size=(5, 2)))[0].T, np.linalg.qr(RNG(9).normal(size=(5, 2)))[0].T
    assert losses.subspace_angle(old, new) == pytest.approx(subspace_angles(old.T, new.T).max())
    points = np.array([[0.0], [1.0], [2.0], [9.0]])
    assert losses.label_churn(np.array([[0.0], [9.0]]), np.array([[0.0], [2.5]]), points) == 0.25


# -- with and without a row ------------------------------------------------------------------------------------


@pytest.mark.parametrize("row", [0, 3, 7])
def test_exactly_the_row_asked_for_is_left_out(row):
    X, y = np.arange(8.0)[:, None], np.arange(8.0) * 10
    kept, targets = sensitivity.without(X, y, row)
    assert kept[:, 0].tolist() == [i for i in range(8) if i != row]
    assert targets.tolist() == [10.0 * i for i in range(8) if i != row]
    before, after = sensitivity.with_and_without(lambda X, y, seed: np.append(X[:, 0], seed), X, y, row, 5)
    assert before.tolist() == [*range(8), 5]
    assert after.tolist() == [*(i for i in range(8) if i != row), 5]


@pytest.mark.parametrize(("reaction", "is_change"), [(1e-12, False), (1e-8, True), (1e-6, True), (1e-3, True)])
def test_reactions_above_rounding_are_changes(reaction, is_change):
    X = RNG(10).normal(size=(20, 2))
    found = average_sensitivity(lambda X, seed: np.array([1.0, 3.0 + reaction * len(X)]), X, trials=20)
    assert found.mean == float(is_change)


def test_outputs_are_compared_relative_to_their_largest_entry():
    old = np.array([0.0, 100.0])
    assert not sensitivity.differ(old, old + np.array([0.9e-4, 0.0]), tolerance=1e-6)
    assert sensitivity.differ(old, old + np.array([1.1e-4, 0.0]), tolerance=1e-6)
    assert sensitivity.differ(old, old[:1], tolerance=1.0)


def test_numbering_basis_and_order_are_no_changes_but_weights_are():
    X = RNG(11).normal(size=(60, 3)) * [4, 2, 1]
    clusters = KMeans(3, n_init=1, random_state=0).fit(X)
    first = sensitivity.described(clusters, X)
    clusters.cluster_centers_ = clusters.cluster_centers_[[2, 0, 1]]
    assert np.array_equal(sensitivity.described(clusters, X), first)
    subspace = TruncatedSVD(2).fit(X)
    first = sensitivity.described(subspace, X)
    subspace.components_ = np.array([[0.6, 0.8], [-0.8, 0.6]]) @ subspace.components_
    np.testing.assert_allclose(sensitivity.described(subspace, X), first, atol=1e-12)
    one, other = (coresets.Uniform(coreset_size=10**4, random_state=0) for _ in range(2))
    one.add(X), other.add(X, weights=np.full(60, 2.0))
    assert not np.array_equal(sensitivity.described(one, X), sensitivity.described(other, X))


# -- exact, by a second enumeration ----------------------------------------------------------------------------------


def coreset_law(construction, X, ids):
    """All coresets as sets of (id, exponent), with their probabilities."""
    fitted = type(construction)(epsilon=construction.epsilon, coreset_size=construction.coreset_size, random_state=0)
    fitted = fitted.add(X).sketch
    scores = fitted.statistics.scores(Rows(X, np.empty((len(X), 0)), np.ones(len(X)), np.arange(len(X))))
    options = []
    for i, score in zip(ids, scores, strict=True):
        q, base = min(1.0, fitted.constant * score), 1 + construction.epsilon
        low = math.floor(math.log(1 / q) / math.log(base) + 1e-12)
        up = (1 / q - base**low) / (base ** (low + 1) - base**low)
        options.append([(None, 1 - q), ((i, low), q * (1 - up)), ((i, low + 1), q * up)])
    law = {}
    for choice in product(*options):
        key = frozenset(value for value, _ in choice if value is not None)
        law[key] = law.get(key, 0.0) + math.prod(chance for _, chance in choice)
    return law


@pytest.mark.parametrize("construction", [coresets.Leverage, coresets.Uniform])
@pytest.mark.parametrize("n", [3, 5])
def test_exact_sensitivity_is_that_of_a_second_enumeration(construction, n):
    X = np.array([[1.0, 0.2], [0.3, 2.0], [5.0, -1.0], [0.1, 0.1], [2.0, 2.0]])[:n]
    algorithm = construction(epsilon=0.3, coreset_size=2, random_state=0)
    whole, total = coreset_law(algorithm, X, range(n)), 0.0
    for row in range(n):
        ids = [i for i in range(n) if i != row]
        fewer = coreset_law(algorithm, X[ids], ids)
        total += sum(abs(whole.get(key, 0.0) - fewer.get(key, 0.0)) for key in whole.keys() | fewer.keys()) / 2
    assert average_sensitivity(algorithm, X, method="exact").mean == pytest.approx(total / n, rel=1e-9)


# -- intervals ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("successes", "trials"), [(0, 10), (3, 10), (10, 10), (60, 200)])
@pytest.mark.parametrize("confidence", [0.5, 0.95])
def test_ends_of_the_interval_are_where_the_tails_are_what_is_left(successes, trials, confidence):
    low, high = sensitivity.binomial_interval(successes, trials, confidence)
    if successes:
        assert stats.binom.sf(successes - 1, trials, low) == pytest.approx((1 - confidence) / 2)
    if successes < trials:
        assert stats.binom.cdf(successes, trials, high) == pytest.approx((1 - confidence) / 2)
    assert (low == 0.0) == (successes == 0)
    assert (high == 1.0) == (successes == trials)


@pytest.mark.parametrize(("correct", "asked"), [(20, 40), (33, 40), (40, 40), (10, 40)])
def test_the_lower_bound_is_twice_the_accuracy_less_one(correct, asked, monkeypatch):
    monkeypatch.setattr(sensitivity, "accuracy_with_and_without", lambda *_: (correct, asked))
    found = average_sensitivity(lambda X, seed: X, RNG(0).normal(size=(9, 2)), method="classifier", confidence=0.9)
    low, _ = sensitivity.binomial_interval(correct, asked, 0.9)
    assert found.mean == max(0.0, 2 * correct / asked - 1)
    assert found.low == max(0.0, 2 * low - 1)
    assert found.high == 1.0


@pytest.mark.slow
def test_noise_cannot_be_told_apart():
    """Accuracy of 200 fair guesses: above 150 in fewer than one of 10^12 runs."""

    def noise(X, seed):
        return RNG(seed).normal(size=4)

    correct, asked = sensitivity.accuracy_with_and_without(noise, RNG(0).normal(size=(20, 2)), None, 200, RNG(1))
    assert asked == 200
    assert correct <= 150


def test_precisions_of_logarithms_are_those_of_the_delta_method():
    """Against the spread of the logarithm of 20,000 binomial shares: within a tenth, far beyond chance."""
    for p in (0.1, 0.5, 0.9):
        counts = RNG(12).binomial(400, p, size=20_000)
        estimate = sensitivity.SensitivityEstimate(p, 0.0, 1.0, "upper", 10, 400)
        logarithm, precision = sensitivity._logarithms([estimate])
        shares = (counts + 0.5) / 401
        assert precision[0] == pytest.approx(1 / np.log(shares).var(), rel=0.1)
        assert logarithm[0] == pytest.approx(np.log((400 * p + 0.5) / 401))
    none = sensitivity.SensitivityEstimate(0.0, 0.0, 0.1, "upper", 10, 400)
    assert np.isfinite(sensitivity._logarithms([none])[0]).all()


def test_the_weighted_slope_and_its_error_are_those_of_weighted_least_squares():
    x, precision = np.array([0.0, 1.0, 3.0, 7.0]), np.array([1.0, 9.0, 4.0, 25.0])
    y = np.array([1.0, 0.2, -3.0, -6.5])
    design = np.column_stack([np.ones(4), x])
    inner = np.linalg.inv(design.T @ (design * precision[:, None]))
    slope, error = sensitivity.weighted_slope(x, y, precision)
    assert slope == pytest.approx((inner @ design.T @ (precision * y))[1])
    assert error == pytest.approx(math.sqrt(inner[1, 1]))
