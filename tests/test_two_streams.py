"""What merging and forgetting promise, of models, logs of changes and regret alike.

Two streams that differ in rows which are then forgotten are the same from then on, to the last bit. Merged shards have
the coreset of one stream and the model that ``fit`` gives on all rows; not the model of one stream, whose last change
came at a row count of its own.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from sklearn.linear_model import Ridge

from batch2online import BatchToOnline, OnlineClassifier, OnlineClustering, OnlineLowRank, OnlineRegression, coresets
from batch2online.refresh import EveryStep, Geometric, Lazy, OnChange
from streams import stream

N, SIZE = 300, 40

SUBJECTS = {
    "regression": lambda **s: OnlineRegression(keep_history=True, solve="coreset", **s),
    "regression, exact": lambda **s: OnlineRegression(keep_history=True, solve="exact", **s),
    "low rank": lambda **s: OnlineLowRank(2, keep_history=True, solve="coreset", **s),
    "low rank, basis by variance": lambda **s: OnlineLowRank(
        2, keep_history=True, solve="coreset", basis="variance", **s
    ),
    "PCA": lambda **s: OnlineLowRank(2, keep_history=True, solve="coreset", center=True, **s),
    "clustering": lambda **s: OnlineClustering(3, **s),
    "clustering, cold": lambda **s: OnlineClustering(3, start_from_current=False, **s),
    "medians": lambda **s: OnlineClustering(3, z=1.0, **s),
    "two stages": lambda **s: OnlineClustering(3, stages=2, **s),
    "any estimator": lambda **s: BatchToOnline(Ridge(), coreset=coresets.Leverage, keep_history=True, **s),
}
ANCHORED = {  # they depend on the order of rows: forgetting is exact, merging is not
    "median": lambda **s: OnlineRegression(keep_history=True, loss="absolute", **s),
    "classifier": lambda **s: OnlineClassifier(keep_history=True, **s),
    "any estimator, its own scores": lambda **s: BatchToOnline(Ridge(), keep_history=True, **s),
}
ALL = SUBJECTS | ANCHORED
AT_EVERY_ROW = ("regression", "low rank", "clustering, cold")
POLICIES = {
    "default": (None, N, ALL),
    "Geometric": (Geometric(1.7), N, ALL),
    "Lazy": (Lazy(1.3, 0.02), N, ALL),
    "OnChange": (OnChange(), 40, AT_EVERY_ROW),
    "EveryStep": (EveryStep(), 40, AT_EVERY_ROW),
}

every_subject = pytest.mark.parametrize("name", SUBJECTS)


def new(name, **settings):
    return ALL[name](**{"coreset_size": SIZE, "random_state": 7, **settings})


def learn(model, X, y):
    if isinstance(model, OnlineClassifier):
        return model.partial_fit(X, y > 1.0, classes=[False, True])
    return model.partial_fit(X) if isinstance(model, (OnlineClustering, OnlineLowRank)) else model.partial_fit(X, y)


def parameters(model):
    """The numbers of the model."""
    if isinstance(model, OnlineClustering):
        return [model.cluster_centers_]
    if isinstance(model, OnlineLowRank):
        return [model.components_, model._engine.model.mean]
    fitted = model.model_ if isinstance(model, BatchToOnline) else model
    return [fitted.coef_, fitted.intercept_]


def equal(one, other):
    return all(np.array_equal(mine, theirs) for mine, theirs in zip(one, other, strict=True))


def assert_same(one, other):
    """Bit for bit: coreset, model, log of changes, loss and optimum, and the schedule from here on."""
    assert one.coreset_ == other.coreset_
    assert equal(parameters(one), parameters(other))
    assert repr(one.changes_) == repr(other.changes_)
    assert one.regret_ == other.regret_
    assert one._engine.next_refresh == other._engine.next_refresh


@pytest.mark.parametrize(
    ("policy", "n", "name"),
    [pytest.param(p, n, name, id=f"{name}, {key}") for key, (p, n, names) in POLICIES.items() for name in names],
)
def test_nothing_is_left_of_what_is_forgotten(policy, n, name):
    """Forgotten rows are replaced by others of any size: heavy ones, seeds and the first row among them."""
    X, y = stream("heavy_tailed", n + 30)
    gone = np.array([0, 17, n // 2, n - 1])
    other_X, other_y = X.copy(), y.copy()
    other_X[gone], other_y[gone] = 30 * X[gone][::-1] - 5, 100 - y[gone]
    streams = ((X, y), (other_X, other_y))
    one, other = (learn(new(name, refresh=policy), A[:n], b[:n]) for A, b in streams)
    before = parameters(one), parameters(other)
    assert_same(one.forget(gone), other.forget(gone))
    assert_same(*(learn(model, X[n:], y[n:]) for model in (one, other)))
    assert not equal(*before)  # the rows did matter


@pytest.mark.parametrize("defect", ["model", "loss", "changes"])
def test_the_comparison_notices_what_is_left(monkeypatch, defect):
    """Planted defects: a solve that starts from the present model, a loss or a log that goes on from before."""
    from batch2online.engine.online import Online

    forgotten = Online.forgotten

    def careless(self, ids):
        new = forgotten(self, ids)
        if defect == "model":
            new.model = new.problem.solve(new.construction, self.model)
        else:
            setattr(new, defect, getattr(self, defect))
        return new

    X, y = stream("heavy_tailed", N)
    other = X.copy()
    other[5] = 40.0
    monkeypatch.setattr(Online, "forgotten", careless)
    pair = [learn(new("low rank", refresh=Geometric(1.3)), A, y).forget([5]) for A in (X, other)]
    with pytest.raises(AssertionError):
        assert_same(*pair)


# -- merging --------------------------------------------------------------------------------------------------


def shards(name, X, y, cuts=(0, 110, 180, N), **settings):
    bounds = pairwise(cuts)
    return [learn(new(name, first_id=a, **settings), X[a:b], y[a:b]) for a, b in bounds]


def fitted(name, X, y):
    model = new(name)
    return model.fit(X) if isinstance(model, (OnlineClustering, OnlineLowRank)) else model.fit(X, y)


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 0, 1), (1, 2, 0)])
@every_subject
def test_merged_shards_have_the_coreset_of_one_stream_and_the_model_of_fit(name, order):
    X, y = stream("heavy_tailed", N)
    parts = shards(name, X, y)
    merged = parts[order[0]].merge(parts[order[1]]).merge(parts[order[2]])
    assert merged.coreset_ == learn(new(name), X, y).coreset_
    pairs = zip(parameters(merged), parameters(fitted(name, X, y)), strict=True)
    if "exact" in name:  # sums of all rows, in another order
        assert all(np.allclose(one, other, rtol=1e-9, atol=1e-12) for one, other in pairs)
    else:
        assert all(np.array_equal(one, other) for one, other in pairs)


@pytest.mark.parametrize("name", ["regression", "low rank", "clustering"])
def test_the_model_of_one_stream_is_another(name):
    """It was solved at the last refresh that changed it, not at the last row."""
    X, y = stream("heavy_tailed", N)
    parts = shards(name, X, y)
    merged = parts[0].merge(parts[1]).merge(parts[2])
    assert not equal(parameters(merged), parameters(learn(new(name), X, y)))


def test_the_loss_of_merged_shards_is_the_sum_of_theirs():
    X, y = stream("heavy_tailed", N)
    parts = shards("regression", X, y)
    losses = [part.regret_.loss for part in parts]
    assert parts[0].merge(parts[1]).merge(parts[2]).regret_.loss == pytest.approx(sum(losses), rel=1e-12)
