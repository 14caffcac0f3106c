"""Reasons of changes: inputs and predictions that moved, and what was gained on rows that neither model has seen."""

from dataclasses import replace

import numpy as np
import pytest
from sklearn.ensemble import RandomForestRegressor
from sklearn.linear_model import LogisticRegression, Ridge

import batch2online
from batch2online import BatchToOnline, OnlineClassifier, OnlineRegression
from batch2online.reasons import effects, explained
from batch2online.results import ChangeEvent

RNG = np.random.default_rng(5)
N = 1_200
X = RNG.normal(size=(N, 3)) * [1.0, 10.0, 1.0]
Y = 20 + X @ [1.0, 0.2, 3.0] + RNG.normal(size=N)
LABELS = np.where(Y + RNG.normal(size=N) > 20, "yes", "no")


def flips(old, new, points, weights):
    return np.average(old.predict(points) != new.predict(points), weights=weights)


def before_and_after(make, y):
    """The last change of a stream, and the models before and after it."""
    whole = make().partial_fit(X, y)
    at = whole.changes_[-1].at
    old = make().partial_fit(X[: at - 1], y[: at - 1])
    return whole.changes_[-1], old, make().partial_fit(X[:at], y[:at])


@pytest.mark.parametrize(
    "make",
    [lambda: OnlineClassifier(random_state=0), lambda: BatchToOnline(LogisticRegression(), random_state=0)],
    ids=["linear", "wrapped"],
)
def test_labels_that_flip_are_counted(make):
    event, old, new = before_and_after(make, LABELS)
    coreset = new.coreset_
    assert event.churn == pytest.approx(flips(old, new, coreset.points, coreset.weights), abs=0.02)
    assert f"({event.churn:.2%}) " in "; ".join(effects(event))


def test_coefficients_of_two_classes_are_those_of_the_named_class():
    event, old, new = before_and_after(lambda: OnlineClassifier(random_state=0), LABELS)
    name = new.stream.problem.label_of(event.coefficient_classes[0])
    sign = 1 if name == new.classes_[-1] else -1
    for j, before, after in event.coefficients:
        assert (before, after) == (sign * old.coef_[0, j], sign * new.coef_[0, j])
    assert f"coefficients of {name}: column " in explained(event, labels=new._stream.problem.labels)


def test_coefficients_of_several_classes_name_theirs():
    model = OnlineClassifier(random_state=0).partial_fit(X, np.digitize(Y, [15.0, 25.0]))
    event = model.changes_[-1]
    assert len(event.coefficient_classes) == len(event.coefficients) == 3
    assert " for " in model.change_reasons_[-1]


@pytest.mark.parametrize(
    "make",
    [
        lambda: OnlineRegression(loss="absolute", random_state=0),
        lambda: OnlineRegression(random_state=0),
        lambda: BatchToOnline(Ridge(), random_state=0),
    ],
    ids=["absolute", "squared", "wrapped"],
)
def test_predictions_move_in_the_units_of_the_target(make):
    event, old, new = before_and_after(make, Y)
    coreset = new.coreset_
    moved = np.square(old.predict(coreset.points) - new.predict(coreset.points))
    assert event.prediction_change == pytest.approx(np.sqrt(np.average(moved, weights=coreset.weights)), rel=0.3)
    assert "US dollars (root mean square)" in "; ".join(effects(event, unit="US dollars"))
    assert event.coefficients


def test_importances_of_forests_move():
    forest = RandomForestRegressor(n_estimators=5, max_depth=3, random_state=0)
    model = BatchToOnline(forest, random_state=0).partial_fit(X[:600], Y[:600])
    event = model.changes_[-1]
    assert all(0 <= share <= 1 for _, *shares in event.importances for share in shares)
    assert "importance: column " in model.change_reasons_[-1]


@pytest.mark.parametrize(
    "make",
    [lambda: OnlineClassifier(random_state=0), lambda: BatchToOnline(LogisticRegression(), random_state=0)],
    ids=["linear", "wrapped"],
)
def test_a_change_is_tried_on_the_rows_after_it(make, tmp_path):
    event, old, new = before_and_after(make, LABELS)
    rows, before, after = event.trial
    assert rows == N - event.at
    truth = (LABELS[event.at :, None] == new.classes_).argmax(axis=1)
    for model, mean in ((old, before), (new, after)):
        shares = model.predict_proba(X[event.at :])[np.arange(rows), truth]
        assert mean == pytest.approx(-np.log(shares).mean(), rel=1e-9)
    parts = make()
    for start in range(0, N, 217):
        parts.partial_fit(X[start : start + 217], LABELS[start : start + 217])
    assert parts.changes_[-1] == event
    parts.save(tmp_path / "model.b2o")
    again = batch2online.load(tmp_path / "model.b2o", trusted=True)
    assert again.changes_[-1] == event
    assert f"on the next {rows} rows, seen by neither model, its loss is " in again.change_reasons_[-1]


def test_one_row_and_no_effects():
    event = ChangeEvent(100, "scheduled", 0.25, 2.0, 1.9, churn=0.01)
    assert effects(event) == ["about 1 row (1.00%) is given another label"]
    assert explained(replace(event, churn=None)).endswith("; losses changed by 0.25 on average")
    assert "its loss is the same" in effects(replace(event, churn=None, trial=(1, 1.0, 1.0)))[0]
