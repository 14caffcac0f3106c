"""What checks cost: how often rows are predicted, seconds and rows of fits."""

from __future__ import annotations

import copy

import numpy as np
import pytest
from sklearn.linear_model import LinearRegression, Ridge
from sklearn.tree import DecisionTreeRegressor

from batch2online import BatchToOnline, OnlineRegression, coresets, load
from batch2online.estimator import timings_from
from batch2online.methods.any_estimator.problem import EstimatorProblem
from batch2online.refresh import Geometric
from batch2online.results import FitTiming, Timings
from wrapped_cases import N, assert_same, data, learn, learned, new, weighted_mean


def test_a_check_predicts_the_coreset_once_for_each_model():
    X, y = data("regression")
    calls = []

    def loss(model, points, targets):
        calls.append(len(points))
        return np.square(targets - model.predict(points))

    model = BatchToOnline(Ridge(), loss=loss, refresh=Geometric(2.0, start=50), random_state=0)
    model.partial_fit(X[:99], y[:99])
    calls.clear()
    model.partial_fit(X[99:100], y[99:100])
    assert calls == [50, 100, 100]  # the buffered rows, then all rows under the old model and under the new one


def test_scores_of_all_rows_are_computed_once_a_check():
    X, y = data("regression")
    calls = []

    def score(points, weights, targets):
        calls.append(len(points))
        return weights * np.abs(targets)

    coreset = coresets.Sensitivity(score, coreset_size=60)
    model = BatchToOnline(Ridge(), coreset=coreset, refresh=Geometric(2.0, start=50), random_state=0)
    model.partial_fit(X[:200], y[:200])
    assert calls == [50, 100, 200]
    assert (
        model.coreset_ == coresets.Sensitivity(score, coreset_size=60, random_state=0).add(X[:200], y[:200]).coreset()
    )


def test_rows_of_an_interrupted_call_are_not_taken_for_those_that_get_their_ids(monkeypatch):
    """The interrupted call had measured the model on rows with the ids that the next rows get."""
    X, y = data("regression")
    model, undisturbed = (BatchToOnline(Ridge(), refresh=Geometric(2.0, start=50), random_state=0) for _ in range(2))
    for each in (model, undisturbed):
        each.partial_fit(X[:90], y[:90])
    whole = EstimatorProblem.difference

    def interrupted(self, *given):
        whole(self, *given)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(EstimatorProblem, "difference", interrupted)
        with pytest.raises(KeyboardInterrupt):
            model.partial_fit(X[100:120], 5 * y[100:120])
    for each in (model, undisturbed):
        each.partial_fit(X[200:220], y[200:220])
    assert model.changes_[-1].at == 100
    assert model.changes_[-1].cost_before == undisturbed.changes_[-1].cost_before


def test_what_is_remembered_changes_nothing():
    model = copy.deepcopy(learned("Ridge"))
    assert_same(model, learned("Ridge"), "Ridge")


# -- timings ---------------------------------------------------------------------------------------------


def test_changes_hold_the_rows_and_seconds_of_their_fits():
    model = learned("Ridge")
    assert [event.n_fit_rows for event in model.changes_[:2]] == [event.at for event in model.changes_[:2]]
    assert all(event.seconds > 0 for event in model.changes_)
    costs = model.timings_
    assert [solve.at for solve in costs.models[1:]] == [event.at for event in model.changes_]
    assert costs.solves == len(costs.models)
    assert costs.rows == sum(solve.rows for solve in costs.models)
    assert costs.seconds == pytest.approx(sum(solve.seconds for solve in costs.models))


def test_fits_that_keep_the_model_are_counted():
    X, y = data("regression")
    model = OnlineRegression(random_state=0).partial_fit(X, y)
    assert model.timings_.solves >= len(model.timings_.models) == model.n_changes_ + 1
    assert model.timings_.models[-1].rows == model.changes_[-1].at


def test_seconds_take_no_part_in_comparisons_nor_in_the_state():
    one, other = learned("Ridge"), learn(new("Ridge"), "Ridge", N)
    assert one.changes_ == other.changes_
    assert all(event.seconds is None for event in one._stream.current.changes)
    assert "timings" not in one.stream.state.stored_fields()


def test_costs_are_kept_in_files(tmp_path):
    model = learned("Ridge")
    model.save(tmp_path / "model")
    twin = load(tmp_path / "model")
    assert twin.timings_ == model.timings_
    assert [event.seconds for event in twin.changes_] == [event.seconds for event in model.changes_]


@pytest.mark.parametrize("stored", [3, (1, 2, 3.0), (1, 2, -1.0, []), (1, 2, 3.0, [(1, 2)]), (1, "a", 3.0, [])])
def test_forged_timings_are_refused(stored):
    with pytest.raises(ValueError, match=r"timings: found"):
        timings_from(stored)
    assert timings_from(None) == Timings()


def test_seconds_are_estimated_by_a_power_of_the_rows():
    cubic = Timings(models=tuple(FitTiming(n, n, 1e-9 * n**3) for n in (100, 200, 400)))
    assert cubic.expected(1_000) == pytest.approx(1.0)
    assert Timings(models=(FitTiming(10, 100, 0.5),)).expected(200) == pytest.approx(1.0)
    falling = Timings(models=(FitTiming(10, 100, 0.5), FitTiming(20, 200, 0.1)))
    assert falling.expected(400) == pytest.approx(0.2)
    assert Timings().expected(100) == 0
    linear = Timings(models=(FitTiming(100, 100, 1.0), FitTiming(200, 200, 2.0)))
    assert linear.of_refits(300, times=3) == pytest.approx(1 + 2 + 3)


@pytest.mark.slow
def test_the_report_shows_the_seconds_of_fits(tmp_path):
    learned("Ridge").report(tmp_path / "report.html")
    text = (tmp_path / "report.html").read_text()
    assert "Fit times" in text
    assert "refits on all rows" in text


def test_a_function_has_costs_too():
    X, _ = data("rows")
    model = BatchToOnline(weighted_mean, loss=lambda theta, points: np.abs(points - theta).sum(axis=1), random_state=0)
    assert model.fit(X).timings_.solves > 3


# -- hindsight -------------------------------------------------------------------------------------------


def test_a_flexible_model_is_compared_with_hindsight_on_rows_that_it_was_not_fitted_to():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1_000, 3))
    y = X[:, 0] + rng.normal(size=1_000)
    model = BatchToOnline(DecisionTreeRegressor(), random_state=0).partial_fit(X, y)
    own, regret = np.square(y - DecisionTreeRegressor().fit(X, y).predict(X)).sum(), model.regret_
    assert own == 0
    assert regret.out_of_sample
    halves = rng.permutation(1_000).reshape(2, 500)
    fair = sum(
        np.square(y[there] - DecisionTreeRegressor(random_state=0).fit(X[here], y[here]).predict(X[there])).sum()
        for here, there in (halves, halves[::-1])
    )
    assert 0.8 < regret.optimum / fair < 1.25
    assert 0.8 < regret.ratio < 1.5
    assert "out of sample" in str(model.headline())
    line = BatchToOnline(LinearRegression(), random_state=0).partial_fit(X, y)
    assert not line.regret_.out_of_sample
    least = np.square(y - LinearRegression().fit(X, y).predict(X)).sum()
    assert line.regret_.optimum == pytest.approx(least)
