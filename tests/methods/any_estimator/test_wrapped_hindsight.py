"""Hindsight of wrapped models: the optimum is that of the rows that were scored, and of no others."""

import numpy as np
import pytest
from sklearn.linear_model import LinearRegression
from sklearn.neighbors import KNeighborsRegressor
from sklearn.tree import DecisionTreeRegressor

from batch2online import BatchToOnline, refresh

N, FIRST = 400, 100
RNG = np.random.default_rng(0)
X = RNG.normal(size=(N, 2))
Y = X[:, 0] + 0.1 * RNG.normal(size=N)
X[:FIRST, 1] += 1e3  # rows before the first model lie elsewhere, and nothing predicts them
Y[:FIRST] += 1e3 * RNG.normal(size=FIRST)
WEIGHTS = RNG.integers(1, 4, size=N).astype(float)
ESTIMATORS = [DecisionTreeRegressor(random_state=0), KNeighborsRegressor(1), LinearRegression()]


def squares(model, points, targets):
    return np.square(model.predict(points) - targets.ravel())


@pytest.mark.parametrize("keep", [True, False], ids=["history", "coreset"])
@pytest.mark.parametrize("estimator", ESTIMATORS, ids=lambda each: type(each).__name__)
def test_rows_before_the_first_model_are_in_both_sums_or_in_none(estimator, keep, tmp_path):
    settings = {"refresh": refresh.Geometric(1.1, start=FIRST), "keep_history": keep, "random_state": 0}
    settings["resample"] = isinstance(estimator, KNeighborsRegressor)
    own = BatchToOnline(estimator, loss=squares, **settings).partial_fit(X, Y, WEIGHTS)
    named = BatchToOnline(estimator, loss="squared", **settings).partial_fit(X, Y, WEIGHTS)
    mean = np.concatenate([[Y[0]], (np.cumsum(WEIGHTS * Y) / np.cumsum(WEIGHTS))[: FIRST - 1]])
    before, regret = WEIGHTS[:FIRST] @ np.square(Y[:FIRST] - mean), own.regret_
    assert (regret.rows, named.regret_.rows) == (N - FIRST, N)
    assert regret.weight == WEIGHTS[FIRST:].sum()
    assert named.regret_.loss - regret.loss == pytest.approx(before, rel=1e-9)
    if regret.out_of_sample:  # each half of the rows is predicted from the other
        assert regret.optimum < 1e4 < 1e6 < named.regret_.optimum
    else:
        fits = [LinearRegression().fit(X, Y, WEIGHTS), own.model_]
        costs = [WEIGHTS * squares(each, X, Y) for each in fits]
        assert regret.optimum == pytest.approx(min(each[FIRST:].sum() for each in costs), rel=1e-6)
        assert named.regret_.optimum == pytest.approx(min(map(sum, costs)), rel=1e-6)
    assert regret.out_of_sample != isinstance(estimator, LinearRegression)
    own.save(tmp_path / "model.b2o")
    again = BatchToOnline.restore(tmp_path / "model.b2o", estimator=estimator, loss=squares)
    assert again.regret_.optimum == pytest.approx(regret.optimum)
