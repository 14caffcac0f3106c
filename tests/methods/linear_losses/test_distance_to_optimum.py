"""A classifier that holds all rows is at the optimum, or says by how much it is not."""

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss

from batch2online import OnlineClassifier
from batch2online.methods.linear_losses import newton


@pytest.mark.parametrize("alpha", [None, 0.0])
def test_error_bounds_the_distance_to_the_optimum_with_rare_levels(alpha):
    rng = np.random.default_rng(0)
    levels = np.minimum(rng.zipf(1.5, 1500), 60) - 1
    X = np.eye(60)[levels]
    X = np.column_stack([X[:, X.sum(axis=0) > 0][:, 1:], rng.normal(size=(len(X), 3))])
    y = (X @ rng.normal(size=(X.shape[1], 6)) + rng.gumbel(size=(len(X), 6))).argmax(axis=1)
    costs = [
        log_loss(y, model.fit(X, y).predict_proba(X), normalize=False)
        + (0.0 if alpha == 0 else np.square(model.coef_).sum() / 2)
        for model in (
            OnlineClassifier(alpha=alpha, random_state=0),
            LogisticRegression(C=np.inf if alpha == 0 else 1.0, max_iter=3_000, tol=1e-6),
        )
    ]
    assert costs[0] <= costs[1] * (1 + 1e-5)


def test_a_fit_that_stops_short_says_so(monkeypatch):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(900, 12))
    y = (X @ rng.normal(size=(12, 30)) + rng.gumbel(size=(900, 30))).argmax(axis=1)
    best = OnlineClassifier(random_state=0).fit(X, y)
    assert best.error_ == 0
    monkeypatch.setattr(newton, "_TURNS", 1)
    monkeypatch.setattr(newton, "_MEMORY", 2)
    with pytest.warns(ConvergenceWarning, match="did not converge"):
        short = OnlineClassifier(random_state=0).fit(X, y)
    losses = [
        log_loss(y, model.predict_proba(X), normalize=False) + np.square(model.coef_).sum() / 2
        for model in (short, best)
    ]
    assert losses[0] > 1.001 * losses[1]
    assert short.error_ >= (losses[0] / losses[1] - 1) / 2
