"""What merging and forgetting promise, of models, logs of changes and regret alike.

Two streams that differ in rows which are then forgotten are the same from then on, bit for bit. Where the coreset is a
function of the set of rows, merged shards have the coreset of one stream and the model that ``fit`` gives on all rows;
not the model of one stream, whose last change came at a row count of its own. Where it is a function of the sequence,
that holds while all rows are kept; then models are within their error.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise, permutations

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression, Ridge

from batch2online import BatchToOnline, OnlineClassifier, OnlineClustering, OnlineLowRank, OnlineRegression, coresets
from batch2online.refresh import Adaptive, EveryStep, Geometric, OnChange
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
    "clustering, cold": lambda **s: OnlineClustering(3, warm_start=False, **s),
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
    "Adaptive": (Adaptive(growth=1.3, floor=0.02), N, ALL),
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
        return [model.components_, model._stream.model.mean]
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
    assert one._stream.current.refresh.next_check == other._stream.current.refresh.next_check


@pytest.mark.parametrize(
    ("policy", "n", "name"),
    [pytest.param(p, n, name, id=f"{name}, {key}") for key, (p, n, names) in POLICIES.items() for name in names],
)
@pytest.mark.covering(axes=lambda policy, n, name: (type(policy), name.partition(",")[0]))
@pytest.mark.slow
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
    from batch2online.engine.stream import Stream

    forgotten = Stream.forget

    def careless(self, ids):
        new = forgotten(self, ids)
        left = getattr(self.state, defect)
        if defect == "model":
            left = new.problem.fit(new.snapshot(), left).model
        return replace(new, state=replace(new.state, **{defect: left}))

    X, y = stream("heavy_tailed", N)
    other = X.copy()
    other[5] = 40.0
    monkeypatch.setattr(Stream, "forget", careless)
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
@pytest.mark.few(5)
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


OTHERS = ANCHORED | {
    "penalty": lambda **s: OnlineRegression(keep_history=True, alpha=0.1, **s),
    "elastic net": lambda **s: OnlineRegression(keep_history=True, alpha=0.1, l1_ratio=0.5, **s),
    "huber": lambda **s: OnlineRegression(keep_history=True, loss="huber", **s),
    "three classes": lambda **s: OnlineClassifier(keep_history=True, **s),
    "any classifier": lambda **s: BatchToOnline(LogisticRegression(), keep_history=True, **s),
}
ORDERS = list(permutations(range(3)))


def targets_of(name, y):
    if name == "three classes":
        return np.digitize(y, [0.0, 1.0])
    return y > 1.0 if "class" in name else y


def merged_shards(name, X, y, order, size, cuts=(0, 70, 170, N)):
    parts = [
        OTHERS[name](coreset_size=size, random_state=7, first_id=first).partial_fit(X[first:last], y[first:last])
        for first, last in pairwise(cuts)
    ]
    return parts[order[0]].merge(parts[order[1]]).merge(parts[order[2]])


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("name", OTHERS)
@pytest.mark.few(8)
def test_shards_of_which_all_rows_are_kept_are_those_of_fit_whatever_the_scores(name, order):
    X, y = stream("gaussian", N)
    y = targets_of(name, y)
    merged, whole = merged_shards(name, X, y, order, 2 * N), OTHERS[name](coreset_size=2 * N, random_state=7).fit(X, y)
    assert merged.coreset_ == whole.coreset_
    for one, other in zip(parameters(merged), parameters(whole), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-7)


def mean_loss(model, X, y, scale):
    """What a model costs for each row, without its penalty; residuals on the scale of one scale for all models."""
    if isinstance(model, OnlineClassifier):
        found = model.predict_proba(X)[np.arange(len(X)), np.searchsorted(model.classes_, y)]
        return -np.log(found).mean()
    own = replace(model._stream.model, scale=scale)
    return model._stream.problem.losses(own, X, y[:, None])[0].mean()


@pytest.mark.parametrize("name", [name for name in OTHERS if "any" not in name])
@pytest.mark.few(1)
@pytest.mark.slow
def test_merged_models_cost_more_than_the_fit_on_all_rows_by_about_their_error(name):
    X, y = stream("gaussian", 3_000)
    y = targets_of(name, y)
    best = OTHERS[name](coreset_size=10_000, random_state=7).fit(X, y)
    scale = best._stream.model.scale
    least = mean_loss(best, X, y, scale)
    for order in ORDERS:
        merged = merged_shards(name, X, y, order, 300, (0, 700, 1_700, 3_000))
        assert len(merged.coreset_) < 450
        assert mean_loss(merged, X, y, scale) <= least * (1 + 5 * merged.error_ + 1e-4)
        assert merged.error_ < 0.05


@pytest.mark.parametrize("settings", [{"half_life": 50}, {"window": 120}], ids=str)
@pytest.mark.parametrize("name", ["regression", "regression, exact", "low rank", "clustering"])
@pytest.mark.few(2)
def test_with_a_half_life_or_a_window_merged_shards_are_those_of_fit(name, settings):
    X, y = stream("gaussian", N)
    for order in ORDERS:
        parts = shards(name, X, y, **settings)
        merged = parts[order[0]].merge(parts[order[1]]).merge(parts[order[2]])
        whole = new(name, **settings)
        whole = whole.fit(X) if isinstance(whole, (OnlineClustering, OnlineLowRank)) else whole.fit(X, y)
        np.testing.assert_array_equal(merged.coreset_.ids, whole.coreset_.ids)
        np.testing.assert_allclose(merged.coreset_.weights, whole.coreset_.weights, rtol=1e-12)
        for one, other in zip(parameters(merged), parameters(whole), strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-8, atol=1e-10)


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
