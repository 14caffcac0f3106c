"""``error_`` is calibrated: on average over the words of rows it is what models cost more than the fit on all rows.

Means over seeds agree up to a quarter, which is left to terms of higher order, and six standard errors: a false alarm
in 5e8 tests. Errors that are 2.5 times as large, or a quarter of what they are (a tenth on a stream), are noticed.
Kinks make noise that no Hessian tells: there errors are of the right size, no more.
"""

from __future__ import annotations

import numpy as np
import pytest

from batch2online import OnlineClassifier, OnlineRegression
from batch2online.refresh import Geometric

N, COLUMNS, SIZE, SEEDS = 1_500, 11, 300, 100
SLACK = 0.25
RNG = np.random.default_rng(23)
X = RNG.normal(size=(N, COLUMNS))
ETA = X @ np.linspace(-0.6, 0.6, COLUMNS)


def log_loss(model, y):
    return -np.log(model.predict_proba(X)[np.arange(N), y]).sum()


def half_deviance(model, y):
    mean = model.predict(X)
    return (mean - y * np.log(mean) + np.where(y > 0, y * np.log(np.maximum(y, 1.0)), 0.0) - y).sum()


def absolute(model, y):
    return np.abs(y - model.predict(X)).sum()


CASES = {
    "two classes": (OnlineClassifier, {}, (ETA + RNG.logistic(size=N) > 0.5).astype(int), log_loss),
    "counts": (OnlineRegression, {"loss": "poisson"}, RNG.poisson(np.exp(0.6 * ETA)).astype(float), half_deviance),
    "medians": (OnlineRegression, {"loss": "absolute"}, ETA + RNG.standard_t(3, size=N), absolute),
}


def measured(name, seeds=SEEDS, is_stream=False):
    """What models of all seeds are estimated to cost too much, and what they do.

    Those of a stream go on from the models before them.
    """
    kind, settings, y, loss = CASES[name]
    least = loss(kind(coreset_size=10**6, random_state=0, **settings).fit(X, y), y)
    policy = Geometric(2.0, start=N // 4) if is_stream else Geometric(4.0)
    few = [kind(random_state=1_000 + i, coreset_size=SIZE, refresh=policy, **settings) for i in range(seeds)]
    models = [model.partial_fit(X, y) if is_stream else model.fit(X, y) for model in few]
    assert not is_stream or models[0].changes_[-1].at == N
    return np.array([(model.error_ * least, loss(model, y) - least) for model in models]).T


def is_calibrated(estimated, actual):
    noise = (estimated - actual).std() / np.sqrt(len(actual))
    return abs(estimated.mean() - actual.mean()) < SLACK * actual.mean() + 6 * noise


@pytest.mark.parametrize("is_stream", [False, True])
@pytest.mark.parametrize("name", ["two classes", "counts"])
@pytest.mark.few(1)
@pytest.mark.slow
def test_the_error_is_what_models_cost_too_much(name, is_stream):
    estimated, actual = measured(name, is_stream=is_stream)
    assert is_calibrated(estimated, actual)
    assert not is_calibrated(2.5 * estimated, actual), "errors that are too large are not noticed"
    assert not is_calibrated(estimated / (10 if is_stream else 4), actual), "errors that are too small are not noticed"


@pytest.mark.full
def test_the_error_of_a_loss_with_kinks_is_of_the_right_size():
    estimated, actual = measured("medians", seeds=30).mean(axis=1)
    assert 1 / 3 < estimated / actual < 3
