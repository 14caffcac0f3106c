"""When refits pay: what they gain is measured on rows that neither model has seen."""

from __future__ import annotations

import math

import numpy as np
import pytest
from sklearn.linear_model import LinearRegression
from sklearn.tree import DecisionTreeRegressor

from batch2online import BatchToOnline, load
from batch2online.refresh import Geometric, Measured
from batch2online.refresh.measured import RefitBenefit, RunningMoments

TREE = DecisionTreeRegressor(min_samples_leaf=5, random_state=0)


def waves(n, seed=0):
    """Rows of which trees learn more the more there are."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-3, 3, size=(n, 2))
    return X, np.sin(3 * X[:, 0]) + np.cos(2 * X[:, 1]) + 0.1 * rng.normal(size=n)


def small(**settings):
    """Return a tree in a memory that holds about 1,000 rows."""
    return BatchToOnline(TREE, **{"memory": 24 * 8 * 1_000, "random_state": 1} | settings)


def learn(model, X, y, chunk):
    for start in range(0, len(X), chunk):
        model.partial_fit(X[start : start + chunk], y[start : start + chunk])
    return model


# -- sums ------------------------------------------------------------------------------------------------


def test_sums_are_those_of_all_rows():
    rng = np.random.default_rng(0)
    values, weights = rng.normal(size=50), rng.uniform(1, 2, size=50)
    sums = RunningMoments().plus(values[:20], weights[:20]).plus(values[20:], weights[20:])
    assert sums.mean == pytest.approx(np.average(values, weights=weights))
    spread = np.average(np.square(values - sums.mean), weights=weights)
    assert sums.variance == pytest.approx(spread / 50)
    assert math.isnan(RunningMoments().mean)


def test_a_gain_foretells_the_next_one_by_reciprocal_rows():
    benefit = RefitBenefit(at=200, size=200.0, former="old", former_size=100.0)
    losses = np.full(10, 2.0)
    benefit = benefit.with_trial(losses + 0.1, losses, np.ones(10))
    assert benefit.gain() == pytest.approx(0.05)
    assert benefit.expected_benefit(400) == pytest.approx(0.05 * (1 / 200 - 1 / 400) / (1 / 100 - 1 / 200))
    assert benefit.expected_benefit(200) == 0
    alike = RefitBenefit(at=400, size=200.0, former="old", former_size=199.0).with_trial(
        losses + 0.1, losses, np.ones(10)
    )
    assert alike.expected_benefit(200) == pytest.approx(0.05)
    assert math.isnan(RefitBenefit(at=200, size=200.0).expected_benefit(400))


def test_doubt_counts_standard_errors():
    losses, gains = np.full(100, 2.0), np.tile([0.0, 0.2], 50)
    benefit = RefitBenefit(200, 200.0, "old", 100.0).with_trial(losses + gains, losses, np.ones(100))
    assert benefit.gain(2.0) - benefit.gain() == pytest.approx(2 * gains.std() / 10 / 2.0)


def test_surprise_is_a_difference_in_standard_errors():
    rng = np.random.default_rng(1)
    first, recent = rng.exponential(size=400), 2 * rng.exponential(size=100)
    benefit = RefitBenefit(10, 10.0).with_rows(first, np.ones(400)).after_check().with_rows(recent, np.ones(100))
    by_hand = (recent.mean() - first.mean()) / math.sqrt(first.var() / 400 + recent.var() / 100)
    assert benefit.loss_increase_z() == pytest.approx(by_hand)
    assert benefit.loss_increase() == pytest.approx((recent.mean() - first.mean()) / first.mean())
    assert benefit.after_check().loss_increase_z() == 0
    calm = RefitBenefit(10, 10.0).with_rows(np.ones(5), np.ones(5)).after_check()
    assert calm.with_rows(np.ones(5), np.ones(5)).loss_increase_z() == 0
    assert calm.with_rows(np.full(5, 2.0), np.ones(5)).loss_increase_z() == math.inf


# -- the policy ------------------------------------------------------------------------------------------


class Known:
    size = 50.0

    def __init__(self, at, gain=0.0, surprise=0.0, excess=0.0):
        self.at, self._gain, self._surprise, self._excess = at, gain, surprise, excess

    def expected_benefit(self, size, n_standard_errors=0.0):
        return self._gain

    def loss_increase_z(self):
        return self._surprise

    def loss_increase(self):
        return self._excess


@pytest.mark.parametrize(
    ("known", "rows", "reason"),
    [
        (Known(1_000, gain=0.1), 1_999, None),
        (Known(1_000, gain=0.1), 2_000, "scheduled"),
        (Known(1_000, gain=math.nan), 2_000, "scheduled"),
        (Known(1_000, gain=0.001), 2_000, None),
        (Known(1_000, gain=0.001, surprise=0.9, excess=0.5), 2_000, "scheduled"),
        (Known(1_000, gain=0.001, surprise=0.4, excess=0.5), 2_000, None),
        (Known(1_000, gain=0.001), 4_000, "scheduled"),
        (Known(1_000, gain=0.1, surprise=5.0, excess=0.1), 1_100, "loss_increase"),
        (Known(1_000, gain=0.1, surprise=5.0, excess=0.001), 1_100, None),
        (Known(1_000, gain=0.1, surprise=3.0, excess=0.1), 1_100, None),
        (Known(1_000, gain=0.1, surprise=0.9, excess=0.6), 1_100, "loss_increase"),
        (Known(1_000, gain=0.1, surprise=0.4, excess=0.6), 1_100, None),
    ],
)
def test_a_check_refits_where_that_pays(known, rows, reason):
    assert Measured(growth=2.0).trigger(known, rows, 50) == reason


def test_no_refit_to_more_rows_is_skipped():
    assert Measured().trigger(Known(1_000, gain=0.0), 1_415, 60) is None
    assert Measured().trigger(Known(1_000, gain=0.0), 1_415, 61) == "scheduled"
    assert Measured().trigger(Known(1_000, gain=0.0), 1_414, 61) is None


def scheduled(policy, n):
    """Return the row counts up to n at which a policy refits if the loss never rises."""
    at, found = policy.start, [policy.start]
    while (at := policy.next_check(at)) <= n:
        if policy.trigger(Known(found[-1], gain=0.1), at, 100):
            found.append(at)
    return found


def test_refits_come_more_often_while_rows_are_few():
    early, late = [33, 63, 125, 250, 500], [708, 1000, 1415, 2000, 2829, 4000, 5657, 8000, 12000, 18000, 27000, 40500]
    assert scheduled(Measured(start=33), 50_000) == [*early, *late]
    assert scheduled(Measured(growth=2.0, start=33), 9_000) == [*early, 1_000, 2_000, 4_000, 8_000]
    assert scheduled(Measured(growth=1.26, start=700), 9_000) == [
        700,
        794,
        1000,
        1260,
        1588,
        2000,
        2520,
        3175,
        4000,
        5040,
        6350,
        8000,
    ]
    assert scheduled(Measured(start=1_000).in_time(), 24_000) == [*range(1_000, 21_001, 1_000), 23_000]


@pytest.mark.parametrize("growth", [1.1, 1.26, 1.5, 1.9, 3.0, 10.0])
@pytest.mark.parametrize("start", [1, 20, 37, 1_000, 1_234, 50_001])
def test_rows_grow_between_refits_by_the_growth_at_most(growth, start):
    refits = np.array(scheduled(Measured(growth=growth, start=start, max_growth=100.0), 10**6), dtype=float)
    before, after = refits[:-1], refits[1:]
    assert (after <= np.where(before < 500, min(2.0, growth**2), growth) * before + 1).all()
    assert start >= 1_000 or 1_000 in refits


@pytest.mark.parametrize("growth", [1.01, 1.05])
def test_a_small_growth_refits_at_whole_thousands(growth):
    refits = np.array(scheduled(Measured(growth=growth, start=1_000), 10**5))
    assert (refits[1:] == 1_000 * np.ceil(np.maximum(growth * refits[:-1], refits[:-1] + 1) / 1_000)).all()


def test_a_refit_out_of_turn_postpones_one_that_comes_right_after_it():
    policy = Measured(start=1_000)
    assert policy.trigger(Known(1_684, gain=0.1), 2_000, 100) == "scheduled"
    assert policy.trigger(Known(1_900, gain=0.1), 2_000, 100) is None
    assert policy.trigger(Known(1_900, gain=0.1), 2_829, 100) == "scheduled"


def test_where_old_rows_fade_looks_are_due_after_so_many():
    assert Measured().trigger(Known(1_000, gain=0.1), 1_100, 50, max_step=100) == "scheduled"
    assert Measured().trigger(Known(1_000, gain=0.0), 1_100, 50, max_step=100) is None


def refits_of(model):
    return [event.at for event in model.changes_]


@pytest.mark.parametrize("is_shuffled", [True, False])
def test_rows_in_time_are_refitted_at_every_thousand(is_shuffled):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(8_000, 2))
    y = X[:, 0] * np.linspace(0, 20, 8_000) + 0.1 * rng.normal(size=8_000)
    order = rng.permutation(8_000) if is_shuffled else np.arange(8_000)
    model = BatchToOnline(DecisionTreeRegressor(max_depth=3), random_state=0).partial_fit(X[order], y[order])
    late = [at for at in refits_of(model) if at >= 3_000]
    assert late == ([4_000, 5_657, 8_000] if is_shuffled else [*range(3_000, 8_001, 1_000)])
    other = BatchToOnline(DecisionTreeRegressor(max_depth=3), random_state=0)
    for start in range(0, 8_000, 333):
        other.partial_fit(X[order][start : start + 333], y[order][start : start + 333])
    assert refits_of(other) == refits_of(model)
    assert np.array_equal(other.predict(X), model.predict(X))


@pytest.mark.parametrize("settings", [{"growth": 1.0}, {"checks_per_growth": 0}, {"floor": -1.0}, {"max_growth": 1.4}])
def test_bad_settings_are_refused(settings):
    with pytest.raises(ValueError, match=f"{next(iter(settings))} must be"):
        Measured(**settings)


@pytest.mark.slow
def test_a_calm_stream_is_refitted_less_often_than_at_doublings_once_refits_see_no_more_rows():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60_000, 2))
    y = X @ [1.0, 2.0] + rng.normal(size=60_000)
    measured, doubled = (
        [BatchToOnline(LinearRegression(), refresh=policy, random_state=seed).partial_fit(X, y) for seed in range(3)]
        for policy in (None, Geometric(2.0))
    )
    late = [[sum(event.at > 5_000 for event in model.changes_) for model in made] for made in (measured, doubled)]
    assert sum(late[0]) <= sum(late[1]) - 2
    assert measured[0].regret_.loss < 1.005 * doubled[0].regret_.loss


def test_rows_that_cost_more_are_answered_at_the_next_look():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(6_000, 2))
    y = X @ [1.0, 2.0] + 0.1 * rng.normal(size=6_000)
    y[4_200:] += 3 * X[4_200:, 0]
    model = BatchToOnline(LinearRegression(), coreset_size=500, random_state=0).partial_fit(X, y)
    answers = [event for event in model.changes_ if event.kind == "loss_increase"]
    assert answers[0].at < 4_200 * 2 ** (1 / 3) + 1
    assert "cost more" in answers[0].reason


# -- rows that are kept ------------------------------------------------------------------------------------


@pytest.mark.parametrize("chunk", [311, 1_000])
def test_chunks_do_not_matter_once_memory_is_full(chunk):
    X, y = waves(5_000)
    whole, pieces = learn(small(), X, y, 5_000), learn(small(), X, y, chunk)
    assert len(whole.coreset_) < 1_500
    assert whole.coreset_ == pieces.coreset_
    assert whole.changes_ == pieces.changes_
    assert whole.regret_ == pieces.regret_


@pytest.mark.parametrize("at", [700, 3_000])
def test_checkpoints_in_the_middle_of_a_trial_continue_as_the_original(at, tmp_path):
    X, y = waves(5_000)
    half = learn(small(), X[:at], y[:at], at)
    half.save(tmp_path / "model")
    twin = load(tmp_path / "model", trusted=True)
    assert (twin._stream.current.refresh.benefit.former is None) == (
        half._stream.current.refresh.benefit.former is None
    )
    whole, continued = learn(small(), X, y, 5_000), learn(twin, X[at:], y[at:], 5_000)
    assert whole.coreset_ == continued.coreset_
    assert whole.changes_ == continued.changes_


def test_shards_merge_in_either_order():
    X, y = waves(6_000)
    left, right = small().partial_fit(X[:4_000], y[:4_000]), small(first_id=4_000).partial_fit(X[4_000:], y[4_000:])
    other = small(first_id=4_000).partial_fit(X[4_000:], y[4_000:]).merge(left)
    assert left.merge(right).coreset_ == other.coreset_


def test_forgetting_leaves_the_rows_that_the_others_alone_give():
    X, y = waves(3_000)
    kept = small(keep_history=True).partial_fit(X, y).forget(np.arange(1_000))
    alone = small(keep_history=True, first_id=1_000).fit(X[1_000:], y[1_000:])
    assert kept.coreset_ == alone.coreset_
