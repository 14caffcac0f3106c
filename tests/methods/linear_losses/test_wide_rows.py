"""Rows of many columns: models of classification and other losses are refitted more often."""

import numpy as np
import pytest
from sklearn.base import clone

from batch2online import OnlineClassifier, OnlineRegression
from batch2online.refresh import Geometric


@pytest.mark.parametrize("model", [OnlineClassifier(random_state=0), OnlineRegression(loss="huber", random_state=0)])
@pytest.mark.parametrize(("width", "growth"), [(99, 2.0), (100, 1.5)])
def test_models_of_many_columns_are_refitted_more_often(model, width, growth):
    X = np.random.default_rng(0).normal(size=(20, width))
    model = clone(model).partial_fit(X, X[:, 0] > 0)
    assert model.stream.engine.policy == Geometric(growth, start=3 * (width + 1))
