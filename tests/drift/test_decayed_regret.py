"""Sums of ``regret_`` under a half-life: all in one unit, that of the last row, recomputed from the rows."""

import copy
import re

import numpy as np
import pytest
from sklearn.mixture import GaussianMixture

from batch2online import BatchToOnline, OnlineClassifier, OnlineLowRank, OnlineRegression

N, START, HALF_LIFE = 300, 90, 40
RNG = np.random.default_rng(5)
X = RNG.normal(size=(N, 3)) * [3.0, 1.0, 1.0] + [0.0, 2.0, 0.0]
Y = 10 + X @ [1.0, 2.0, -1.0] + RNG.normal(size=N)
LABELS = np.where(X[:, 0] + RNG.logistic(size=N) > 0, "yes", "no")
MODELS = {
    "regression": (OnlineRegression, {}, Y),
    "regression without intercept": (OnlineRegression, {"fit_intercept": False}, Y),
    "low rank": (OnlineLowRank, {"n_components": 1}, None),
    "centered low rank": (OnlineLowRank, {"n_components": 1, "center": True}, None),
    "classes": (OnlineClassifier, {}, LABELS),
}


def losses(model, rows, y):
    """Return the loss and the secondary loss of rows under the current model."""
    if isinstance(model, OnlineLowRank):
        distances = np.linalg.norm(rows - model.inverse_transform(model.transform(rows)), axis=1)
        return distances**2, distances
    if isinstance(model, OnlineClassifier):
        shares = model.predict_proba(rows)[:, list(model.classes_).index(y[0])]
        return -np.log(shares), (model.predict(rows) != y).astype(float)
    return (y - model.predict(rows)) ** 2, np.abs(y - model.predict(rows))


def total_and_optimum(name, w):
    """Return the least weighted loss of the mean (or of zero), and of a linear fit or a line."""
    if "rank" in name:
        centered = X - ("centered" in name) * np.average(X, axis=0, weights=w)
        squares = np.linalg.eigvalsh((centered * w[:, None]).T @ centered)
        return squares.sum(), squares[:-1].sum()
    ones = np.ones((N, int("without" not in name)))
    fits = (np.column_stack([ones, columns]) * np.sqrt(w)[:, None] for columns in (X[:, :0], X))
    return [np.square(A @ np.linalg.lstsq(A, Y * np.sqrt(w), rcond=None)[0] - Y * np.sqrt(w)).sum() for A in fits]


@pytest.mark.parametrize("weighted", [False, True], ids=["rows", "weights"])
@pytest.mark.parametrize("name", MODELS)
def test_sums_are_those_of_decayed_weights(name, weighted):
    kind, settings, y = MODELS[name]
    given = RNG.uniform(0.5, 2.0, N) if weighted else np.ones(N)
    model, parts = kind(**settings, half_life=HALF_LIFE, random_state=0), []

    def learn(rows):
        model.partial_fit(X[rows], None if y is None else y[rows], sample_weight=given[rows])

    learn(slice(START))
    first = copy.copy(model.regret_)
    for i in range(START, N):
        parts.append(losses(model, X[i : i + 1], None if y is None else y[i : i + 1]))
        learn(slice(i, i + 1))
    found, w = model.regret_, given * 0.5 ** ((N - 1 - np.arange(N)) / HALF_LIFE)
    loss, secondary = w[START:] @ np.array(parts)[:, :, 0]
    forgotten = 0.5 ** ((N - START) / HALF_LIFE)
    assert found.loss == pytest.approx(forgotten * first.loss + loss, rel=1e-6)
    assert found.secondary_loss == pytest.approx(forgotten * first.secondary_loss + secondary, rel=1e-6)
    assert (found.rows, found.weight) == (N, pytest.approx(w.sum(), rel=1e-9))
    assert found.half_life == HALF_LIFE
    if name != "classes":
        assert (found.total, found.optimum) == pytest.approx(total_and_optimum(name, w), rel=1e-6)
    same = kind(**settings, random_state=0).partial_fit(X, y, sample_weight=w).regret_
    for each in ("optimum", "total", "weight", "resolution", "secondary_optimum"):
        value, expected = getattr(found, each), getattr(same, each)
        tolerance = 0.03 if name == "classes" else 1e-6
        assert value is expected is None or value == pytest.approx(expected, rel=tolerance, abs=0, nan_ok=True), each


@pytest.mark.parametrize("settings", [{"window": 100}, {"half_life": 100}, {"half_life": "auto"}, {}], ids=str)
@pytest.mark.parametrize("name", [name for name in MODELS if name != "classes"])  # whose penalty is fixed
def test_four_times_the_weights_are_four_times_the_sums(name, settings):
    kind, own, y = MODELS[name]
    one, four = (kind(random_state=0, **own, **settings) for _ in range(2))
    for start in range(0, N, 30):
        rows = slice(start, start + 30)
        given = (X[rows], *([] if y is None else [y[rows]]))
        one.partial_fit(*given)
        four.partial_fit(*given, sample_weight=np.full(30, 4.0))
    for found in ("loss", "secondary_loss", "weight"):
        assert getattr(four.regret_, found) == pytest.approx(4 * getattr(one.regret_, found), rel=1e-9), found
    assert four.regret_.rows == one.regret_.rows


def test_the_distance_from_the_best_model_is_by_weight():
    """Losses below zero have no ratio: the headline says how far their mean is above the best."""
    rows = 0.01 * np.random.default_rng(0).normal(size=(2_000, 3))
    model = BatchToOnline(GaussianMixture(2, random_state=0), resample=True, half_life=300, random_state=0)
    for start in range(0, 2_000, 500):
        model.partial_fit(rows[start : start + 500])
    found = re.search(r"mean loss (\S+) above that of the best", str(model.headline()))
    regret = model.regret_
    assert float(found[1]) == pytest.approx((regret.loss - regret.optimum) / regret.weight, rel=1e-3)
