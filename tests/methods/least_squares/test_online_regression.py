"""OnlineRegression as scikit-learn and its users meet it."""

import pickle

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import GridSearchCV

from batch2online import OnlineRegression
from batch2online.checks import state
from batch2online.refresh import Adaptive, EveryStep, Geometric, OnChange

WIDTH = 3
FIRST_MODEL = 3 * (WIDTH + 1)


def stream(n=400, n_targets=None, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, WIDTH)) * [1.0, 10.0, 0.1] + [0.0, 5.0, -2.0]
    k = n_targets or 1
    y = X @ rng.normal(size=(WIDTH, k)) + rng.normal(size=k) + rng.standard_t(3, size=(n, k))
    return X, y[:, 0] if n_targets is None else y


def least_squares(X, y, intercept=True):
    design = np.column_stack([np.ones(len(X)), X]) if intercept else X
    solution = np.linalg.lstsq(design, y, rcond=None)[0]
    return (solution[1:].T, solution[0]) if intercept else (solution.T, 0.0)


# -- parameters, copies, composition ------------------------------------------------------------------


def test_parameters_set_later_are_those_used():
    X, y = stream()
    later = OnlineRegression(random_state=0).set_params(epsilon=0.3, solve="exact", refresh=Geometric(2.0))
    at_once = OnlineRegression(epsilon=0.3, solve="exact", refresh=Geometric(2.0), random_state=0)
    assert state(later.fit(X, y)) == state(at_once.fit(X, y))


def test_grid_search_tries_every_epsilon():
    X, y = stream()
    search = GridSearchCV(OnlineRegression(random_state=0), {"epsilon": [0.01, 0.1, 0.9]}, cv=3).fit(X, y)
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()
    assert search.best_estimator_.epsilon == search.best_params_["epsilon"]
    assert search.best_estimator_.n_seen_ == len(X)


# -- shapes and kinds of input ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("n_targets", "coef", "intercept", "prediction"),
    [(None, (WIDTH,), (), (400,)), (1, (1, WIDTH), (1,), (400, 1)), (3, (3, WIDTH), (3,), (400, 3))],
)
def test_shapes_follow_those_of_the_targets(n_targets, coef, intercept, prediction):
    X, y = stream(n_targets=n_targets)
    model = OnlineRegression(random_state=0).partial_fit(X, y)
    assert model.coef_.shape == coef
    assert np.shape(model.intercept_) == intercept
    assert model.predict(X).shape == prediction
    assert np.shape(model.predict_one(X[0])) == prediction[1:]
    assert model.coreset_.targets.shape[1:] == prediction[1:]


@pytest.mark.parametrize("intercept", [True, False])
def test_exact_models_of_several_targets_are_those_of_each(intercept):
    X, y = stream(n_targets=3)
    together = OnlineRegression(solve="exact", fit_intercept=intercept, random_state=0).fit(X, y)
    for column in range(3):
        alone = clone(together).fit(X, y[:, column])
        assert together.coef_[column] == pytest.approx(alone.coef_, rel=1e-9)
        assert together.intercept_[column] == pytest.approx(alone.intercept_, rel=1e-9)


# -- one row at a time --------------------------------------------------------------------------------


@pytest.mark.parametrize("n_targets", [None, 2])
def test_predict_one_is_predict_of_one_row(n_targets):
    X, y = stream(100, n_targets)
    model = OnlineRegression(random_state=0).fit(X, y)
    for row in X:
        assert np.array_equal(model.predict_one(row), model.predict(row[None])[0])


# -- weights ------------------------------------------------------------------------------------------


# -- the models ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize(("n", "settings"), [(100, {"coreset_size": 10_000}), (5000, {"solve": "exact"})])
def test_fit_is_least_squares_where_nothing_is_lost(n, settings, intercept):
    X, y = stream(n)
    model = OnlineRegression(fit_intercept=intercept, random_state=0, **settings).fit(X, y)
    coef, constant = least_squares(X, y, intercept)
    assert model.coef_ == pytest.approx(coef, rel=1e-9)
    assert model.intercept_ == pytest.approx(constant, rel=1e-9)
    assert model.regret_.optimum == pytest.approx(np.square(y - X @ coef - constant).sum(), rel=1e-9)


def test_the_model_is_the_mean_of_the_targets_until_the_problem_can_be_posed():
    X, y = stream()
    model = OnlineRegression(refresh=Geometric(2.0), random_state=0)
    model.partial_fit(X[: FIRST_MODEL - 1], y[: FIRST_MODEL - 1])
    assert not model.has_model_
    assert not model.coef_.any()
    assert model.predict(X) == pytest.approx(np.full(len(X), y[: FIRST_MODEL - 1].mean()), rel=1e-12)
    assert model.predict_one(X[0]) == model.intercept_ == model.predict(X)[0]
    model.learn_one(X[FIRST_MODEL - 1], y[FIRST_MODEL - 1])
    coef, constant = least_squares(X[:FIRST_MODEL], y[:FIRST_MODEL])
    assert model.predict(X) == pytest.approx(X @ coef + constant)
    assert model.n_changes_ == 0


def test_a_coreset_may_turn_out_empty():
    X, y = stream(300)
    seeds = range(20)
    models = [OnlineRegression(coreset_size=1, random_state=seed).partial_fit(X, y) for seed in seeds]
    assert min(len(model.coreset_) for model in models) == 0
    assert all(np.isfinite(model.predict(X)).all() for model in models)


def columns_deficient(X, kind):
    extra = {
        "twice": X[:, 0],
        "multiple": 1e6 * X[:, 0],
        "constant": np.full(len(X), 3.0),
        "zero": np.zeros(len(X)),
        "sum": X[:, 0] + X[:, 1],
    }
    return np.column_stack([X, extra[kind]])


@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("kind", ["twice", "multiple", "constant", "zero", "sum"])
def test_dependent_columns_share_by_least_norm_in_unit_columns(kind, intercept):
    X, y = stream(80)
    X = columns_deficient(X, kind)
    model = OnlineRegression(fit_intercept=intercept, coreset_size=10_000, random_state=0).fit(X, y)
    mean, center = (X.mean(axis=0), y.mean()) if intercept else (0.0, 0.0)
    norms = np.linalg.norm(X - mean, axis=0)
    unit = (X - mean) / np.where(norms > 0, norms, 1.0)
    expected = np.linalg.lstsq(unit, y - center, rcond=1e-10)[0] / np.where(norms > 0, norms, 1.0)
    assert model.coef_ == pytest.approx(expected, rel=1e-6, abs=1e-12)
    assert model.predict(X) == pytest.approx((X - mean) @ expected + center, rel=1e-6)


@pytest.mark.parametrize("intercept", [True, False])
def test_fewer_rows_than_columns_are_interpolated(intercept):
    X = np.random.default_rng(0).normal(size=(8, 20))
    y = np.arange(8.0)
    assert OnlineRegression(fit_intercept=intercept).fit(X, y).predict(X) == pytest.approx(y, abs=1e-9)


# -- loss, regret, changes ----------------------------------------------------------------------------


@pytest.mark.parametrize("n_targets", [None, 2])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("policy", [None, Geometric(1.5), OnChange()])
def test_regret_is_that_of_predicting_each_row_before_learning_it(policy, weighted, n_targets):
    X, y = stream(200, n_targets)
    weights = np.random.default_rng(1).uniform(0.5, 2, size=len(X)) if weighted else np.ones(len(X))
    model = OnlineRegression(refresh=policy, coreset_size=100, random_state=0)
    model.partial_fit(X[:1], y[:1], weights[:1])
    errors = [0.0]  # nothing is known before the first row
    for t in range(1, len(X)):
        errors.append(np.linalg.norm(np.atleast_1d(model.predict_one(X[t]) - y[t])))
        model.partial_fit(X[t : t + 1], y[t : t + 1], weights[t : t + 1])
    hindsight = LinearRegression().fit(X, y, weights)
    optimum = weights @ np.square(hindsight.predict(X) - y).reshape(len(X), -1).sum(axis=1)
    regret = model.regret_
    assert regret.rows == len(X)
    assert regret.loss == pytest.approx(weights @ np.square(errors), rel=1e-9)
    assert regret.secondary_loss == pytest.approx(weights @ errors, rel=1e-9)
    assert regret.optimum == pytest.approx(optimum, rel=1e-9)
    assert regret.ratio == pytest.approx(regret.loss / optimum, rel=1e-9)
    assert regret.regret(0.1) == pytest.approx(regret.loss - 1.1 * optimum, rel=1e-9)


@pytest.mark.parametrize("policy", [Geometric(1.3), Adaptive(floor=0.02, few_rows=0), EveryStep(), OnChange()])
def test_every_change_is_logged_with_its_time_size_and_exact_costs(policy):
    X, y = stream(150)
    model = OnlineRegression(refresh=policy, coreset_size=60, random_state=0)
    model.partial_fit(X[:FIRST_MODEL], y[:FIRST_MODEL])
    seen = []
    for t in range(FIRST_MODEL, len(X)):
        before, count = model.predict(X), model.n_changes_
        model.learn_one(X[t], y[t])
        after = model.predict(X)
        assert model.n_changes_ == count + (not np.array_equal(before, after))
        if model.n_changes_ > count:
            rows, event = slice(t + 1), model.changes_[-1]
            seen.append(event)
            assert event.at == t + 1
            assert f"{t + 1:,} rows" in event.reason
            assert event.magnitude == pytest.approx(np.sqrt(np.mean((after - before)[rows] ** 2)), rel=1e-7)
            assert event.cost_before == pytest.approx(np.square(before - y)[rows].sum(), rel=1e-9)
            assert event.cost_after == pytest.approx(np.square(after - y)[rows].sum(), rel=1e-9)
    assert seen
    assert model.changes_ == seen


# -- merging and forgetting ---------------------------------------------------------------------------


class AnotherRegression(OnlineRegression):
    pass


X_OTHER, Y_OTHER = stream(100, seed=1)
GOOD = {"random_state": 0, "first_id": 1000}


@pytest.mark.parametrize(
    ("other", "error", "message"),
    [
        (OnlineRegression(**GOOD, fit_intercept=False).fit(X_OTHER, Y_OTHER), ValueError, "intercept"),
        (OnlineRegression(**GOOD, score_targets=False).fit(X_OTHER, Y_OTHER), ValueError, "score_targets"),
        (OnlineRegression(**GOOD, keep_history=True).fit(X_OTHER, Y_OTHER), ValueError, "history"),
        (OnlineRegression(**GOOD, solve="coreset").fit(X_OTHER, Y_OTHER), ValueError, "solve"),
        (OnlineRegression(**GOOD, refresh=Geometric()).fit(X_OTHER, Y_OTHER), ValueError, "refresh"),
        (OnlineRegression(random_state=0, first_id=99).fit(X_OTHER, Y_OTHER), ValueError, "disjoint.* 99 to 99"),
        (OnlineRegression(**GOOD).fit(pd.DataFrame(X_OTHER).add_prefix("c"), Y_OTHER), ValueError, "columns"),
        (OnlineRegression(**GOOD).fit(X_OTHER, Y_OTHER[:, None]), ValueError, "targets|y "),
        (AnotherRegression(**GOOD).fit(X_OTHER, Y_OTHER), TypeError, "AnotherRegression"),
        (LinearRegression().fit(X_OTHER, Y_OTHER), TypeError, "LinearRegression"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_regressions_of_other_settings_are_not_merged(other, error, message):
    model = OnlineRegression(random_state=0).partial_fit(*stream(100))
    before, theirs = state(model), pickle.dumps(other)
    with pytest.raises(error, match=message):
        model.merge(other)
    assert state(model) == before
    assert pickle.dumps(other) == theirs


def test_the_loss_after_forgetting_is_that_of_the_other_rows_alone():
    X, y = stream(300)
    settings = {"refresh": Geometric(2.0), "random_state": 0}
    model = OnlineRegression(keep_history=True, **settings).partial_fit(X, y).forget([0, 100, 299])
    others = OnlineRegression(**settings).partial_fit(*(np.delete(part, [0, 100, 299], axis=0) for part in (X, y)))
    assert model.regret_.loss == pytest.approx(others.regret_.loss, rel=1e-9)
    assert model.regret_.secondary_loss == pytest.approx(others.regret_.secondary_loss, rel=1e-9)


# -- failures -----------------------------------------------------------------------------------------


# -- after forgetting ----------------------------------------------------------------------------------


def stream_of(n, sign=1.0):
    rows = np.random.default_rng(0).normal(size=(n, 4))
    return rows, sign * (rows @ [1.0, 2.0, 3.0, 4.0] + 1.0)


def test_the_schedule_after_forgetting_is_that_of_the_rows_left():
    model = OnlineRegression(random_state=0, keep_history=True).partial_fit(*stream_of(20_000)).forget(range(19_990))
    model.partial_fit(*stream_of(5000, sign=-1.0))
    np.testing.assert_allclose(model.coef_, [-1.0, -2.0, -3.0, -4.0], atol=0.2)


def test_the_schedule_after_merging_is_that_of_one_stream():
    X, y = stream_of(3000)
    parts = [
        OnlineRegression(random_state=0, first_id=a).partial_fit(X[a:b], y[a:b]) for a, b in ((0, 1000), (1000, 2500))
    ]
    merged = parts[0].merge(parts[1])
    whole = OnlineRegression(random_state=0).partial_fit(X[:2500], y[:2500])
    assert merged._stream.current.refresh.next_check == whole._stream.current.refresh.next_check


def test_the_magnitude_of_a_change_does_not_depend_on_the_unit_of_weights():
    rng = np.random.default_rng(1)
    X, y = stream_of(500)
    y = y + rng.normal(size=500)
    settings = {"random_state": 0, "solve": "exact", "refresh": Geometric(2.0)}
    light, heavy = (
        [event.magnitude for event in OnlineRegression(**settings).partial_fit(X, y, np.full(500, weight)).changes_]
        for weight in (1.0, 100.0)
    )
    np.testing.assert_allclose(light, heavy, rtol=1e-6)
