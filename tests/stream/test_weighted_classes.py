"""Measures of classes count rows by their weights: recall of the rarest class, and accuracy."""

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from batch2online import BatchToOnline, OnlineClassifier, refresh

N, START, WAIT = 400, 60, 100
RNG = np.random.default_rng(3)
X = 2 * RNG.normal(size=(N, 2))
NOISY = X[:, 0] + RNG.logistic(size=N)
LABELS = np.select([NOISY < -1.5, NOISY < 0.5], ["low", "mid"], "top")
LABELS[:WAIT][LABELS[:WAIT] == "low"] = "mid"  # the rarest class comes when there is a model
CLASS_WEIGHT = {"low": 2.0, "mid": 1.5, "top": 3.0}
MAKERS = {
    "classifier": lambda: OnlineClassifier(random_state=0),
    "class weights": lambda: OnlineClassifier(class_weight=CLASS_WEIGHT, random_state=0),
    "wrapped": lambda: BatchToOnline(LogisticRegression(), refresh=refresh.Every(20), random_state=0),
}


@pytest.mark.parametrize("name", MAKERS)
def test_measures_of_classes_are_by_weight(name):
    """Rows that a class gets wrong weigh more than those that it gets right, so that weights matter within a class."""
    given = RNG.uniform(0.1, 1.0, N) * np.where(np.abs(NOISY - X[:, 0]) > 1, 4.0, 1.0)
    given *= 0.7 + 0.3 * (LABELS != "low")
    w = given * (np.vectorize(CLASS_WEIGHT.get)(LABELS) if name == "class weights" else 1.0)
    model, right = MAKERS[name](), []
    model.partial_fit(X[:START], LABELS[:START], sample_weight=given[:START])
    before = model.metrics_
    for i in range(START, N):
        right.append(model.predict(X[i : i + 1])[0] == LABELS[i])
        model.partial_fit(X[i : i + 1], LABELS[i : i + 1], sample_weight=given[i : i + 1])
    found, its, late = model.metrics_, LABELS[START:] == "low", w[START:]
    assert 0 < np.mean(np.array(right)[its]) < 1
    assert found["recall of rarest (low)"] == pytest.approx(
        np.average(np.array(right)[its], weights=late[its]), rel=1e-9
    )
    accuracy = before["accuracy"] * w[:START].sum() + late @ right
    assert found["accuracy"] == pytest.approx(accuracy / w.sum(), rel=1e-9)
    whole = MAKERS[name]().partial_fit(X, LABELS, sample_weight=given).metrics_
    assert whole == pytest.approx(found, rel=1e-9)
