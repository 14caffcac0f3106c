"""Windows and competing half-lives: the last rows alone, bit for bit; the better half-life, whatever the chunks."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.linear_model import LinearRegression

import batch2online
from batch2online import (
    BatchToOnline,
    OnlineClassifier,
    OnlineClustering,
    OnlineLowRank,
    OnlineRegression,
    coresets,
    refresh,
)
from batch2online.engine.contest import HALF_LIVES

SIZE = 700


def stream(n=2_600, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 4)) + (rng.normal(size=(3, 4)) * 4)[rng.integers(3, size=n)]
    return X, X @ [1.0, -1.0, 0.5, 0.0] + rng.normal(size=n)


MODELS = {
    "regression": lambda **s: OnlineRegression(random_state=1, **s),
    "coreset regression": lambda **s: OnlineRegression(random_state=1, solve="coreset", coreset_size=150, **s),
    "pca": lambda **s: OnlineLowRank(2, center=True, random_state=1, **s),
    "clustering": lambda **s: OnlineClustering(3, start_from_current=False, random_state=1, coreset_size=150, **s),
    "bounded clustering": lambda **s: OnlineClustering(3, history="coreset", random_state=1, coreset_size=150, **s),
    "classifier": lambda **s: OnlineClassifier(random_state=1, coreset_size=2_000, **s),
    "any": lambda **s: BatchToOnline(
        LinearRegression(), random_state=1, coreset_size=150, **{"coreset": coresets.Leverage} | s
    ),
}


def targets_of(name, y):
    return (y > 0).astype(int) if name == "classifier" else y


def parts_of(model):
    model = model._engine.model
    model = getattr(model, "model", model)
    names = ("coefficients", "intercepts", "components", "mean", "points", "coef_", "intercept_")
    return [np.asarray(getattr(model, name)) for name in names if hasattr(model, name)]


def same(one, other):
    for own, others in zip(parts_of(one), parts_of(other), strict=True):
        np.testing.assert_array_equal(own, others)
    assert one.coreset_ == other.coreset_


@pytest.mark.parametrize("name", MODELS)
def test_a_window_is_an_estimator_of_its_rows_alone(name):
    X, y = stream()
    y = targets_of(name, y)
    window = MODELS[name](window=SIZE).fit(X, y)
    only_once = refresh.Geometric(2.0, start=SIZE)
    alone = MODELS[name](refresh=only_once, first_id=len(X) - SIZE).fit(X[-SIZE:], y[-SIZE:])
    same(window, alone)
    assert window.regret_.rows == SIZE
    assert window.regret_.optimum == alone.regret_.optimum
    assert window.n_seen_ == len(X)


@pytest.mark.parametrize("name", ["regression", "clustering", "classifier", "any"])
def test_chunks_and_files_do_not_matter(name, tmp_path):
    X, y = stream()
    y = targets_of(name, y)
    whole, pieces = MODELS[name](window=SIZE).partial_fit(X, y), MODELS[name](window=SIZE)
    for start in range(0, len(X), 173):
        pieces.partial_fit(X[start : start + 173], y[start : start + 173])
    same(whole, pieces)
    assert repr(pieces.regret_) == repr(whole.regret_)
    part = MODELS[name](window=SIZE).partial_fit(X[:1_111], y[:1_111])
    part.save(tmp_path / "model")
    resumed = batch2online.load(tmp_path / "model").partial_fit(X[1_111:], y[1_111:])
    same(whole, resumed)
    assert [event.at for event in resumed.changes_] == [event.at for event in whole.changes_]


def test_the_loss_of_a_window_is_that_of_its_rows():
    X, y = stream()
    model = OnlineRegression(window=SIZE, random_state=0)
    losses = []
    for start in range(0, len(X), 25):
        part = slice(start, start + 25)
        predictions = model.predict(X[part]) if start else np.zeros(25)
        losses.append(np.square(predictions - y[part]))
        model.partial_fit(X[part], y[part])
    regret = model.fit(X, y).regret_
    assert regret.rows == SIZE
    assert 0.8 < regret.loss / np.concatenate(losses)[-SIZE:].sum() < 1.25  # looks fall between those of 25 rows


def test_what_a_window_refuses(tmp_path):
    X, y = stream(300)
    with pytest.raises(ValueError, match="choose one"):
        OnlineRegression(window=10, half_life=10).partial_fit(X, y)
    for nonsense in (0, 2.5, "all", True):
        with pytest.raises(ValueError, match="window"):
            OnlineRegression(window=nonsense).partial_fit(X, y)
    with pytest.raises(ValueError, match="in memory"):
        OnlineClustering(2, window=100, history=str(tmp_path)).partial_fit(X)
    one, other = (OnlineRegression(window=100, first_id=i, random_state=0).partial_fit(X, y) for i in (0, 900))
    with pytest.raises(ValueError, match="merge"):
        one.merge(other)


# -- competing half-lives -------------------------------------------------------------------------------


def drifting(n=12_000, speed=0.02, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    slopes = np.cumsum(rng.normal(size=(n, 3)), axis=0) * speed
    return X, (X * slopes).sum(axis=1) + rng.normal(size=n)


def loss_of(X, y, **settings):
    model, total = OnlineRegression(random_state=0, **settings), 0.0
    for start in range(0, len(X), 200):
        part = slice(start, start + 200)
        total += np.square(model.predict(X[part]) - y[part]).sum() if start else 0.0
        model.partial_fit(X[part], y[part])
    return total, model


def test_the_better_half_life_comes_into_force():
    X, y = drifting()
    auto, model = loss_of(X, y, half_life="auto")
    fixed = [loss_of(X, y, half_life=half_life)[0] for half_life in (None, *HALF_LIVES)]
    assert auto < 1.02 * min(fixed)
    assert auto < 0.8 * fixed[0]
    switches = [event for event in model.changes_ if event.kind == "half_life"]
    assert 1 <= len(switches) <= 5
    assert "half-life of 600 rows has cost less lately" in switches[-1].reason
    assert model.regret_.half_life == 600


def test_a_calm_stream_keeps_all_rows():
    X, y = drifting(speed=0.0)
    auto, model = loss_of(X, y, half_life="auto")
    assert auto < 1.002 * loss_of(X, y)[0]
    assert sum(event.kind == "half_life" for event in model.changes_) <= 2


@pytest.mark.parametrize("name", ["regression", "pca", "bounded clustering", "classifier"])
def test_chunks_and_files_do_not_matter_to_a_contest(name, tmp_path):
    X, y = stream()
    X[1_200:] *= [1, -2, 3, -1]
    y = targets_of(name, np.concatenate([y[:1_200], -y[1_200:]]))
    whole, pieces = MODELS[name](half_life="auto").partial_fit(X, y), MODELS[name](half_life="auto")
    for start in range(0, len(X), 311):
        pieces.partial_fit(X[start : start + 311], y[start : start + 311])
    same(whole, pieces)
    assert [event.at for event in pieces.changes_] == [event.at for event in whole.changes_]
    part = MODELS[name](half_life="auto").partial_fit(X[:1_500], y[:1_500])
    part.save(tmp_path / "model")
    resumed = batch2online.load(tmp_path / "model").partial_fit(X[1_500:], y[1_500:])
    same(whole, resumed)


def test_what_a_contest_refuses():
    X, y = stream(300)
    with pytest.raises(ValueError, match="auto"):
        BatchToOnline(LinearRegression(), half_life="auto").partial_fit(X, y)
    one, other = (OnlineRegression(half_life="auto", first_id=i, random_state=0).partial_fit(X, y) for i in (0, 900))
    with pytest.raises(ValueError, match="merge"):
        one.merge(other)


def test_the_verdict_on_the_order_knows_what_is_followed():
    X, y = stream(2_000)
    y[1_000:] += 5
    said = [
        OnlineRegression(**s).partial_fit(X, y).order_.sentence() for s in ({}, {"half_life": 300}, {"window": 300})
    ]
    assert all("not in random order" in sentence for sentence in said)
    assert "--half-life for a stream" in said[0]
    assert said[1].endswith("alike within a half-life")
    assert said[2].endswith("alike within the window")
