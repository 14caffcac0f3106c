"""A classifier that holds all rows is at the optimum, or says by how much it is not."""

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss

from batch2online import OnlineClassifier


@pytest.mark.xfail(reason="d72: stops short of the optimum on rare dummies, with error_ near 1e-5")
def test_error_bounds_the_distance_to_the_optimum_with_rare_levels():
    rng = np.random.default_rng(0)
    levels = np.minimum(rng.zipf(1.5, 1500), 60) - 1
    X = np.eye(60)[levels]
    X = np.column_stack([X[:, X.sum(axis=0) > 0][:, 1:], rng.normal(size=(len(X), 3))])
    y = (X @ rng.normal(size=(X.shape[1], 6)) + rng.gumbel(size=(len(X), 6))).argmax(axis=1)
    model = OnlineClassifier(random_state=0).fit(X, y)
    cost = log_loss(y, model.predict_proba(X))
    best = log_loss(y, LogisticRegression(C=1e6, max_iter=300).fit(X, y).predict_proba(X))  # at least the optimum
    assert cost <= best * (1 + 1e-3) or model.error_ >= cost - best, f"{cost:.4f}, {best:.4f}, {model.error_:.1e}"
