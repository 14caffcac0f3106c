"""Importance of the columns of a table: features that were made from one column count together."""

from __future__ import annotations

import numpy as np
from sklearn.linear_model import LinearRegression

from batch2online import BatchToOnline
from batch2online.app.report.context import ReportContext
from batch2online.app.report.wrapped import feature_groups, permutation_importance
from batch2online.rows import Rows

NAMES = ["day hour", "weight", "day month", "colour=red", "colour=blue"]
PREPARED = {"derived": {"day hour": ["day", "hour"], "day month": ["day", "month"]}, "categories": {"colour": []}}


def test_features_of_one_column_are_shuffled_together():
    rng = np.random.default_rng(0)
    colour = rng.integers(2, size=500)
    X = np.column_stack([rng.normal(size=(500, 3)), colour == 0, colour == 1])
    y = 10 * (X[:, 3] - X[:, 4]) + X[:, 1]
    model = BatchToOnline(LinearRegression(), random_state=0).partial_fit(X, y)
    context = ReportContext(model, "", "", NAMES, None, np.zeros(5), np.ones(5), result={"preparation": PREPARED})
    groups = feature_groups(context)
    assert groups == {"day": [0, 2], "weight": [1], "colour": [3, 4]}
    rows = Rows(X, y[:, None], np.ones(500), np.arange(500))
    together = permutation_importance(model._view(), rows, list(groups.values()))
    assert together.argmax() == 2
    assert 150 < together[2] < 250  # half of the rows get the other colour: 20 squared
    assert feature_groups(ReportContext(model, "", "", NAMES, None, np.zeros(5), np.ones(5)))["weight"] == [1]
