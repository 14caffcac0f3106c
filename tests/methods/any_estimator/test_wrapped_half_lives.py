"""Old rows that lose weight, for estimators of any type."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.cluster import KMeans
from sklearn.linear_model import Ridge
from sklearn.neighbors import KNeighborsRegressor
from sklearn.svm import LinearSVC
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

from batch2online import BatchToOnline
from batch2online.engine.half_lives import half_lives_of

ESTIMATORS = {
    "regressor": (Ridge(), {}),
    "neighbours": (KNeighborsRegressor(), {"resample": True}),
    "classifier": (DecisionTreeClassifier(max_depth=3), {}),
    "labels alone": (LinearSVC(), {}),
    "clusters": (KMeans(3, n_init=1), {}),
}


def rows(n):
    X = np.random.default_rng(0).normal(size=(n, 2))
    return X, X[:, 0] * np.linspace(1, 5, n)


@pytest.mark.parametrize("name", ESTIMATORS)
def test_half_lives_are_selected_for_any_estimator(name):
    estimator, settings = ESTIMATORS[name]
    X, y = rows(1_300)
    y = (y > 0).astype(int) if name in ("classifier", "labels alone") else y
    models = [BatchToOnline(estimator, half_life="auto", random_state=0, **settings) for _ in range(2)]
    for model, chunk in zip(models, (1_300, 450), strict=True):
        for start in range(0, 1_300, chunk):
            piece = slice(start, start + chunk)
            model.partial_fit(X[piece], None if name == "clusters" else y[piece])
    assert np.array_equal(models[0].predict(X), models[1].predict(X))
    assert models[0].changes_ == models[1].changes_
    assert sorted(half_lives_of(models[0].stream.state).tolist()) == [2_000, 10_000, np.inf]


@pytest.mark.parametrize(("half_life", "fewest", "most"), [(100, 700, 900), (None, 3_000, 3_000)])
def test_rows_that_have_lost_nearly_all_weight_are_not_fitted_to(half_life, fewest, most):
    """After eight half-lives a row weighs less than 1 / 256 of a new one."""
    X, y = rows(3_000)
    model = BatchToOnline(DecisionTreeRegressor(max_depth=2), half_life=half_life, random_state=0).fit(X, y)
    assert fewest <= len(model._stream.current.model.rows) <= most
