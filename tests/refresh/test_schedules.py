"""What the engine and the refresh policies promise: times, thresholds and their law, losses, merging, forgetting."""

from __future__ import annotations

import math

import numpy as np
import pytest

from batch2online import OnlineClustering, OnlineLowRank, OnlineRegression
from batch2online.refresh import Adaptive, Every, EveryStep, Geometric, OnChange
from batch2online.results import ChangeEvent, Regret

RNG = np.random.default_rng


# -- times -------------------------------------------------------------------------------------------------


def times(policy, most):
    """Row counts of refreshes up to ``most``, by the formula: s, ceil(growth s), ..., at least one row later."""
    if isinstance(policy, Every):
        return [policy.start, *(at for at in range(policy.rows, most + 1, policy.rows) if at > policy.start)]
    found = [policy.start]
    while found[-1] <= most:
        found.append(max(found[-1] + 1, math.ceil(policy.growth * found[-1])))
    return found[:-1]


POLICIES = [
    Geometric(1.1, start=7),
    Geometric(2.0, start=1),
    Geometric(1.37, start=50),
    EveryStep(start=3),
    Every(70, start=70),
    Every(64, start=5),
    OnChange(start=5),
]


@pytest.mark.parametrize("policy", POLICIES, ids=repr)
def test_refreshes_come_at_the_counts_of_the_formula(policy):
    expected, at = times(policy, 2_000), policy.start
    for count in expected:
        assert at == count
        at = policy.next_check(at)


@pytest.mark.parametrize("policy", POLICIES, ids=repr)
def test_the_refresh_after_any_count_is_the_next_of_the_formula(policy):
    """A refresh due exactly at n has been done: the next one counts."""
    expected = np.array(times(policy, 5_000))
    for n in range(2_000):
        assert policy.first_check_after(n) == expected[expected > n][0]


@pytest.mark.parametrize(("rows", "first"), [(1_000, 1_000), (10, 40), (33, 33), (1, 33)])
def test_every_so_many_rows_begins_at_the_first_multiple_that_is_enough(rows, first):
    assert Every(rows).starting_at(33).start == first
    assert Every(rows, start=7).starting_at(33).start == 7


@pytest.mark.parametrize("rows", [0, -1, 1.5, True, "100"])
def test_every_takes_a_number_of_rows(rows):
    with pytest.raises(ValueError, match="rows must be a positive integer"):
        Every(rows)


@pytest.mark.parametrize("chunk", [1, 100, 250, 700])
def test_every_refits_at_its_multiples_however_rows_are_cut(chunk):
    X = RNG(0).normal(size=(700, 2))
    y = X @ [1.0, 2.0] + RNG(1).normal(size=700)
    model = OnlineRegression(refresh=Every(100), random_state=0)
    for start in range(0, 700, chunk):
        model.partial_fit(X[start : start + chunk], y[start : start + chunk])
    assert [event.at for event in model.changes_] == [200, 300, 400, 500, 600, 700]
    assert model.n_changes_ == 6


def test_every_in_shards_is_cut_at_the_same_rows():
    """Where old rows lose weight checks come every quarter of a half-life, and again at each multiple."""
    policy = Every(1_000, start=1_000)
    X = RNG(0).normal(size=(2_500, 2))
    y = X @ [1.0, 2.0] + RNG(1).normal(size=2_500)
    whole = OnlineRegression(refresh=policy, half_life=1_600, random_state=0).partial_fit(X, y)
    checks, n = [1_000], 2_500
    while checks[-1] < n:
        checks.append(min(checks[-1] + 400, (checks[-1] // 1_000 + 1) * 1_000))
    assert [event.at for event in whole.changes_] == [at for at in checks[1:] if at <= n]


# -- looks ---------------------------------------------------------------------------------------------------


def regression_stream(n=400, weighted=False):
    rng = RNG(1)
    X = rng.normal(size=(n, 2))
    y = X @ [1.0, -2.0] + 3.0 + rng.normal(size=n)
    y[n // 2 :] += X[n // 2 :, 0] * 2
    return X, y, rng.uniform(0.2, 3, size=n) if weighted else np.ones(n)


def least_squares(X, y, w):
    rows = np.column_stack([np.ones(len(X)), X])
    theta = np.linalg.lstsq(rows * np.sqrt(w)[:, None], y * np.sqrt(w), rcond=None)[0]
    return theta, lambda X, y: np.square(theta[0] + X @ theta[1:] - y)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("kappa", [0.5, 4.0])
def test_an_adaptive_run_written_out(weighted, kappa):
    """Exact models, by least squares on all rows at each check; kept while the cost is within the tolerance."""
    X, y, w = regression_stream(weighted=weighted)
    policy = Adaptive(kappa=kappa, growth=1.2, start=9, few_rows=0)
    online = OnlineRegression(refresh=policy, solve="exact", random_state=6).partial_fit(X, y, sample_weight=w)
    tolerance = lambda at: policy.cost_tolerance(6, at, 3 * np.square(w[:at]).sum() / w[:at].sum() ** 2)  # noqa: E731
    theta, loss_of = least_squares(X[:9], y[:9], w[:9])
    checks, models = times(policy, 400)[1:], [(9, loss_of)]
    changes = []
    for at in checks:
        new, new_loss = least_squares(X[:at], y[:at], w[:at])
        before, after = (w[:at] @ each(X[:at], y[:at]) for each in (loss_of, new_loss))
        if before > tolerance(at) * after:
            theta, loss_of = new, new_loss
            models.append((at, loss_of))
            changes.append((at, before, after, tolerance(at) - 1))
    assert [event.at for event in online.changes_] == [at for at, *_ in changes]
    for event, (_, before, after, allowed) in zip(online.changes_, changes, strict=True):
        np.testing.assert_allclose([event.cost_before, event.cost_after], [before, after], rtol=1e-6)
        assert event.tolerance == pytest.approx(allowed)
        assert event.excess == pytest.approx(before / after - 1)
    np.testing.assert_allclose(np.append(online.intercept_, online.coef_), theta, rtol=1e-6)
    each, unsquared = np.empty(400), np.empty(400)
    for (start, loss), (stop, _) in zip(models, [*models[1:], (400, None)], strict=True):
        each[start:stop] = loss(X[start:stop], y[start:stop])
    unsquared[9:] = np.sqrt(each[9:])
    later = OnlineRegression(refresh=policy, solve="exact", random_state=6).partial_fit(
        X[:9], y[:9], sample_weight=w[:9]
    )
    gained = online.regret_.loss - later.regret_.loss
    np.testing.assert_allclose(gained, w[9:] @ each[9:], rtol=1e-6)
    gained = online.regret_.secondary_loss - later.regret_.secondary_loss
    np.testing.assert_allclose(gained, w[9:] @ unsquared[9:], rtol=1e-6)


@pytest.mark.slow
def test_only_a_change_of_the_coreset_makes_a_new_model_and_a_change_of_weights_is_one():
    """At every row: solved again if and only if ids or weights of the coreset differ from those of the row before."""
    X, y, _ = regression_stream(300)
    online = OnlineRegression(refresh=OnChange(start=9), solve="coreset", coreset_size=20, random_state=0)
    expected, last, model = [], None, None
    for at in range(1, 301):
        online.partial_fit(X[at - 1 : at], y[at - 1 : at])
        if at < 9:
            continue
        coreset = online.coreset_
        now = (coreset.ids.tolist(), coreset.weights.tolist())
        root = np.sqrt(coreset.weights)
        rows = np.column_stack([np.ones(len(coreset)), coreset.points])
        if now != last:
            model = np.linalg.lstsq(rows * root[:, None], coreset.targets * root, rcond=None)[0]
            if last is not None:
                expected.append(at)
        last = now
        np.testing.assert_allclose(np.append(online.intercept_, online.coef_), model, rtol=1e-6, atol=1e-9)
    assert [event.at for event in online.changes_] == expected
    assert 20 < len(expected) < 291


def test_a_model_that_stays_the_same_is_no_change():
    X = np.repeat([[0.0, 0.0], [5.0, 5.0]], 100, axis=0)[RNG(0).permutation(200)]
    online = OnlineClustering(2, refresh=EveryStep(), random_state=0).partial_fit(X)
    assert online.n_changes_ <= 2
    y = np.full(60, 3.0)
    constant = OnlineRegression(refresh=EveryStep(), solve="exact", random_state=0)
    constant.partial_fit(np.zeros((60, 1)), y)
    assert constant.n_changes_ == 0


# -- merging and forgetting --------------------------------------------------------------------------------------


def learners(first_id=0, **settings):
    settings = {"random_state": 0, "first_id": first_id} | settings
    policy = Geometric(1.5, start=20)
    yield lambda X, y: OnlineRegression(refresh=policy, keep_history=True, **settings).partial_fit(X, y)
    yield lambda X, y: OnlineLowRank(1, refresh=policy, keep_history=True, **settings).partial_fit(X)
    yield lambda X, y: OnlineClustering(2, refresh=policy, **settings).partial_fit(X)


def test_merged_losses_and_counts_are_sums_and_the_next_look_is_that_of_one_stream():
    X, y, _ = regression_stream(300)
    for make, make_later in zip(learners(), learners(first_id=100), strict=True):
        one, other, whole = make(X[:100], y[:100]), make_later(X[100:], y[100:]), make(X, y)
        loss, unsquared = (
            one.regret_.loss + other.regret_.loss,
            one.regret_.secondary_loss + other.regret_.secondary_loss,
        )
        one.merge(other)
        assert one.n_seen_ == 300
        assert one.regret_.loss == pytest.approx(loss)
        assert one.regret_.secondary_loss == pytest.approx(unsquared)
        assert one.changes_[-1].rows == 200
        assert one._stream.current.refresh.next_check == whole._stream.current.refresh.next_check


def model_of(learner):
    for name in ("cluster_centers_", "components_", "coef_"):
        if hasattr(learner, name):
            return getattr(learner, name)
    raise AssertionError


@pytest.mark.slow
def test_nothing_of_a_forgotten_row_is_left_in_model_changes_or_regret():
    """Two streams that differ in one row, which both forget: everything is the same afterwards."""
    X, y, _ = regression_stream(300)
    for row in (0, 19, 20, 150, 299):
        altered, targets = X.copy(), y.copy()
        altered[row], targets[row] = [40.0, -30.0], -500.0
        for make in learners():
            one, other = make(X, y).forget([row]), make(altered, targets).forget([row])
            assert np.array_equal(model_of(one), model_of(other))
            assert one.changes_ == other.changes_
            assert (one.regret_.loss, one.regret_.optimum) == (other.regret_.loss, other.regret_.optimum)
            assert one.coreset_ == other.coreset_


def test_the_order_of_merging_leaves_nothing_in_the_model():
    """Both ways to merge two shards give the same model, up to rounding of sums."""
    X, y, _ = regression_stream(300)
    for make, make_later in zip(learners(), learners(first_id=100), strict=True):
        one, other = (
            (make(X[:100], y[:100]), make_later(X[100:], y[100:])),
            (
                make(X[:100], y[:100]),
                make_later(X[100:], y[100:]),
            ),
        )
        forwards, backwards = one[0].merge(one[1]), other[1].merge(other[0])
        np.testing.assert_allclose(model_of(forwards), model_of(backwards), rtol=1e-9)
        assert forwards.coreset_ == backwards.coreset_


def test_after_an_early_row_is_forgotten_looks_come_at_counts_of_the_rows_that_are_left():
    """Exact models do not depend on ids: all is that of the other rows alone, learned as a stream."""
    X, y, w = regression_stream(300, weighted=True)
    for policy in (Geometric(1.5, start=20), Adaptive(growth=1.3, floor=0.05, start=20)):
        settings = {"refresh": policy, "solve": "exact", "random_state": 0}
        forgetful = (
            OnlineRegression(keep_history=True, **settings).partial_fit(X, y, sample_weight=w).forget([0, 7, 30])
        )
        keep = np.setdiff1d(np.arange(300), [0, 7, 30])
        plain = OnlineRegression(**settings).partial_fit(X[keep], y[keep], sample_weight=w[keep])
        scheduled = [event for event in forgetful.changes_ if event.kind == "scheduled"]
        assert [event.at for event in scheduled] == [event.at for event in plain.changes_]
        assert len(scheduled) >= 3
        np.testing.assert_allclose(forgetful.regret_.loss, plain.regret_.loss, rtol=1e-9)
        np.testing.assert_allclose(forgetful.regret_.optimum, plain.regret_.optimum, rtol=1e-9)


def test_an_adaptive_clustering_changes_only_for_more_than_was_allowed():
    """Costs are known on the coreset alone, so every check that is not skipped fits; most of them keep the model."""
    rng = RNG(2)
    X = np.concatenate([rng.normal(size=(600, 2)), rng.normal(size=(300, 2)) + 8.0])[rng.permutation(900)]
    policy = Adaptive(kappa=4.0, start=10, few_rows=0)
    online = OnlineClustering(3, refresh=policy, random_state=0).partial_fit(X)
    assert 1 <= online.n_changes_ < len(times(policy, 900)) / 2
    for event in online.changes_:
        assert event.excess > event.tolerance


def test_what_adaptive_allows_counts_rows_by_their_weights():
    """``kappa p / n`` with p = d + 1 and n the squared sum of weights over the sum of squares, times 1/2 to 1."""
    X, y, _ = regression_stream(400)
    w = RNG(3).lognormal(sigma=1.5, size=400)
    policy = Adaptive(kappa=0.5, start=9)
    online = OnlineRegression(refresh=policy, solve="exact", random_state=6).partial_fit(X, y, sample_weight=w)
    assert online.n_changes_ >= 3
    for event in online.changes_:
        own = w[: event.at]
        most = 0.5 * 3 * np.square(own).sum() / own.sum() ** 2
        assert most / 2 <= event.tolerance <= most
        assert event.excess > event.tolerance


def test_a_change_brings_the_looks_close_again():
    """After idle solves the next look is far; after a change it is one step of the growth away."""
    rng = RNG(4)
    X = np.concatenate([rng.normal(size=(1_200, 2)), rng.normal(size=(1_200, 2)) + 20.0])
    policy = Adaptive(growth=1.2, start=30)
    online = OnlineClustering(3, refresh=policy, random_state=0)
    was_idle = 0
    for at in range(2_400):
        before = online._stream.current.refresh.n_kept if at else 0
        changes = online.n_changes_ if at else 0
        online.partial_fit(X[at : at + 1])
        if online.n_changes_ > changes:
            was_idle += before > 0
            assert online._stream.current.refresh.next_check == policy.next_check(at + 1, 0)
    assert was_idle


def test_learning_again_looks_at_the_same_counts_as_learning():
    """With the last row forgotten, changes and loss are those of the rows before it, up to the final solution."""
    X, y, _ = regression_stream(300)
    for make in learners():
        shorter, longer = make(X[:299], y[:299]), make(X, y).forget([299])
        scheduled = [event for event in longer.changes_ if event.kind == "scheduled"]
        assert scheduled == list(shorter.changes_)
        assert longer.regret_.loss == shorter.regret_.loss


# -- small formulas ------------------------------------------------------------------------------------------------


def test_regret_by_hand():
    regret = Regret(loss=12.0, optimum=10.0, rows=5, secondary_loss=3.0)
    assert regret.ratio == 1.2
    assert regret.regret() == 2.0
    assert regret.regret(0.1) == pytest.approx(1.0)
    assert Regret(0.0, 0.0, 1, 0.0).ratio == 1.0
    assert math.isnan(Regret(1.0, 0.0, 1, 0.0).ratio)
    assert Regret(1e-9, 1e-12, 1, 0.0, resolution=1e-8).ratio == 1.0
    assert math.isnan(Regret(1e-3, 1e-12, 1, 0.0, resolution=1e-8).ratio)


def test_the_excess_of_a_change_by_hand():
    assert ChangeEvent(10, "scheduled", 1.0, cost_before=3.0, cost_after=2.0).excess == 0.5
    assert ChangeEvent(10, "scheduled", 1.0, cost_before=3.0, cost_after=0.0).excess == math.inf
    assert ChangeEvent(10, "scheduled", 1.0, cost_before=0.0, cost_after=0.0).excess == 0.0


def test_checks_at_every_row_join_few_parts():
    """Rows of earlier checks are chosen from a few at a time: a check at every row takes time linear in the rows."""
    rng = RNG(3)
    X = rng.normal(size=(400, 2))
    online = OnlineRegression(solve="coreset", coreset_size=20, refresh=OnChange(), random_state=0)
    online.partial_fit(X, X.sum(axis=1) + rng.normal(size=400))
    sketch = online._stream.view().sketch
    assert len(sketch._fresh) < 16
    assert len(sketch.kept()) < 100
