"""Rows before the first model: scored by those before them, whatever the origin, the chunks or the file between."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.cluster import KMeans
from sklearn.decomposition import PCA
from sklearn.linear_model import LogisticRegression, Ridge

import batch2online
from batch2online import BatchToOnline, OnlineClustering, OnlineLowRank, OnlineRegression
from batch2online.refresh import EveryStep, Geometric
from batch2online.warm_up import MeanSoFar

RNG = np.random.default_rng(0)
X = RNG.normal(size=(120, 4)) @ np.diag([3.0, 1.0, 1.0, 0.3])
Y = X @ [1.0, -2.0, 0.5, 0.0] + RNG.normal(size=120)
LATE = Geometric(1.5, start=40)

MODELS = {
    "regression": lambda: OnlineRegression(random_state=0),
    "regression, late": lambda: OnlineRegression(refresh=LATE, random_state=0),
    "pca": lambda: OnlineLowRank(2, center=True, random_state=0),
    "pca, late": lambda: OnlineLowRank(2, center=True, refresh=LATE, random_state=0),
    "k-means": lambda: OnlineClustering(3, random_state=0),
    "k-median, late": lambda: OnlineClustering(3, z=1.0, refresh=LATE, random_state=0),
    "wrapped ridge": lambda: BatchToOnline(Ridge(), refresh=LATE, random_state=0),
    "wrapped pca": lambda: BatchToOnline(PCA(2), resample=True, coreset_size=500, refresh=LATE, random_state=0),
    "wrapped k-means": lambda: BatchToOnline(KMeans(2, n_init=1), refresh=LATE, random_state=0),
}
every_model = pytest.mark.parametrize("name", MODELS)


def learned(name, rows, targets, bounds):
    model = MODELS[name]()
    for start, stop in pairwise(bounds):
        given_targets = (targets[start:stop],) if model._needs_targets else ()
        model.partial_fit(rows[start:stop], *given_targets)
    return model


@every_model
@given(st.integers(-12, 12), st.integers(2, 120))
@settings(max_examples=10)
def test_translation_changes_no_ratio(name, shift, n):
    """Whatever the origin: powers of two up to 4,096 cost the values themselves few digits."""
    offset = float(np.sign(shift) * 2.0 ** abs(shift))
    n = min(n, 39) if "median" in name else n  # its solver's steps end in one of several places
    plain = learned(name, X[:n], Y[:n], [0, n]).regret_
    moved = learned(name, X[:n] + offset, Y[:n] - 3 * offset, [0, n]).regret_
    assert moved.loss == pytest.approx(plain.loss, rel=1e-6, abs=1e-9)
    if "median" not in name:
        assert moved.optimum == pytest.approx(plain.optimum, rel=1e-6, abs=1e-7, nan_ok=True)


@every_model
def test_any_chunks_give_the_same_bits(name):
    whole = learned(name, X, Y, [0, 120])
    for bounds in ([0, 1, 2, 3, 120], [0, 17, 38, 39, 40, 41, 77, 120], list(range(121))):
        model = learned(name, X, Y, bounds)
        assert model.regret_.loss == whole.regret_.loss
        assert model.regret_.secondary_loss == whole.regret_.secondary_loss


@pytest.mark.parametrize("name", [name for name in MODELS if not name.startswith("wrapped")])
def test_losses_by_hand(name):
    model = learned(name, X, Y, [0, 30])
    n = min(30, model.stream.engine.policy.start - 1)
    values = Y[:, None] if name.startswith("regression") else X
    away = [np.linalg.norm(values[t] - values[:t].mean(axis=0)) for t in range(1, n)]
    early = learned(name, X, Y, [0, n])
    assert early.regret_.secondary_loss == pytest.approx(sum(away), rel=1e-12)
    power = 1.0 if "median" in name else 2.0
    assert early.regret_.loss == pytest.approx(np.power(away, power).sum(), rel=1e-12)
    assert model.regret_.loss >= early.regret_.loss
    assert not early.has_model_


@every_model
def test_the_first_row_costs_nothing(name):
    assert learned(name, X + 1e6, Y + 1e6, [0, 1]).regret_.loss == 0.0


@every_model
@pytest.mark.parametrize("at", [1, 20, 39])
@pytest.mark.covering
def test_a_checkpoint_before_the_first_model_goes_on_with_the_same_bits(name, at, tmp_path):
    model = learned(name, X, Y, [0, at])
    model._stream = model._stream.view()  # buffered rows would be learned again
    model.save(tmp_path / "model.b2o")
    twin = batch2online.load(tmp_path / "model.b2o")
    assert twin.regret_ == model.regret_
    more = (Y[at:],) if model._needs_targets else ()
    assert twin.partial_fit(X[at:], *more).regret_.loss == model.partial_fit(X[at:], *more).regret_.loss


def test_weights_count_as_copies():
    weights = RNG.integers(1, 4, size=30).astype(float)
    once = OnlineRegression(refresh=LATE, random_state=0).partial_fit(X[:30], Y[:30], weights)
    (losses, _), seen = MeanSoFar(of_targets=True).score(X[:30], Y[:30, None], weights)
    means = [np.average(Y[:t], weights=weights[:t]) for t in range(1, 30)]
    assert losses[1:] == pytest.approx(np.square(Y[1:30] - means), rel=1e-12)
    assert once.regret_.loss == pytest.approx(weights @ losses, rel=1e-12)
    assert once.intercept_ == pytest.approx(np.average(Y[:30], weights=weights), rel=1e-12)
    assert seen.weight == weights.sum()


def test_shards_keep_the_losses_of_their_own_warm_ups():
    parts = [(0, 50), (50, 120)]
    shards = [OnlineRegression(first_id=a, random_state=0).partial_fit(X[a:b], Y[a:b]) for a, b in parts]
    losses = sum(shard.regret_.loss for shard in shards)
    assert shards[0].merge(shards[1]).regret_.loss == losses
    assert shards[0]._stream.current.warm_up is None


def test_forgetting_begins_the_warm_up_again():
    model = OnlineRegression(keep_history=True, random_state=0).partial_fit(X[:11], Y[:11]).forget([0, 5])
    rest = np.delete(np.arange(11), [0, 5])
    by_hand = sum((Y[t] - Y[rest[:place]].mean()) ** 2 for place, t in enumerate(rest) if place)
    assert model.regret_.loss == pytest.approx(by_hand, rel=1e-12)


@pytest.mark.parametrize("loss", ["log", "zero_one"])
def test_labels_by_those_before_them(loss):
    words = np.array(["a", "b", "b", "c", "b", "a"])
    model = BatchToOnline(LogisticRegression(), loss=loss, refresh=LATE, random_state=0).partial_fit(X[:6], words)
    by_hand = {"zero_one": [0, 1, 1, 1, 0, 1]}  # of equally many labels the earlier one is the guess
    by_hand["log"] = [0.0, *(-np.log([0.5 / 2, 1.5 / 3.5, 0.5 / 4.5, 2.5 / 6, 1.5 / 7]))]
    assert model.regret_.loss == pytest.approx(sum(by_hand[loss]), rel=1e-12)


@pytest.mark.parametrize("center", [False, True])
def test_rounding_is_no_change_of_a_subspace(center):
    """Rows of rank one: after a few the subspace is known, and only rounding moves it, and the mean."""
    line = np.outer(RNG.normal(size=300), [1.0, 2.0, 3.0]) + 5.0 * center
    model = OnlineLowRank(1, center=center, refresh=EveryStep(), random_state=0).partial_fit(line)
    assert model.n_changes_ <= (298 if center else 0)
    assert all(event.angle > 1e-9 for event in model.changes_) or center
