"""Changes of wrapped models on weighted rows: a row of weight three counts as three."""

import numpy as np
import pytest
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

from batch2online import BatchToOnline, refresh

N, BEFORE = 300, 150
RNG = np.random.default_rng(0)
X = RNG.normal(size=(N, 2))
Y = X @ [1.0, 2.0] + RNG.normal(size=N)
WEIGHTS = np.where(X[:, 0] > 1, 9.0, 1.0)  # rows of one side, which other changes than the rest concern


@pytest.mark.parametrize("estimator", [DecisionTreeRegressor(max_depth=3), DecisionTreeClassifier(max_depth=3)])
def test_changed_predictions_and_costs_are_weighted(estimator):
    is_classes = isinstance(estimator, DecisionTreeClassifier)
    y = Y > 0 if is_classes else Y
    model = BatchToOnline(estimator, refresh=refresh.Geometric(2.0, start=BEFORE), random_state=0)
    old = model.partial_fit(X[:BEFORE], y[:BEFORE], WEIGHTS[:BEFORE]).predict(X)
    new = model.partial_fit(X[BEFORE:], y[BEFORE:], WEIGHTS[BEFORE:]).predict(X)
    (event,) = model.changes_
    assert event.at == N
    if is_classes:
        moved, found = old != new, event.churn
    else:
        moved, found = np.square(old - new), event.prediction_change**2
        costs = [WEIGHTS @ np.square(each - y) for each in (old, new)]
        assert [event.cost_before, event.cost_after] == pytest.approx(costs, rel=1e-9)
    expected = np.average(moved, weights=WEIGHTS)
    assert found == pytest.approx(expected, rel=1e-9)
    assert abs(moved.mean() / expected - 1) > 0.05
