"""Half-lives: equal to explicit sample weights bit for bit, in any chunks, merged, stored, forgotten; for ever."""

from __future__ import annotations

import copy

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
from batch2online.decay import ForwardDecay

N = 200
OFTEN = refresh.Geometric(growth=1.03, start=20)  # no step is longer than a quarter of a half-life


def stream(n=1_600, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 4)) + (rng.normal(size=(3, 4)) * 4)[rng.integers(3, size=n)]
    return X, X @ [1.0, -1.0, 0.5, 0.0] + rng.normal(size=n)


def explicit(n):
    return ForwardDecay(N).factors(np.arange(n))


MODELS = {
    "regression": lambda **s: OnlineRegression(random_state=1, solve="coreset", coreset_size=150, **s),
    "exact regression": lambda **s: OnlineRegression(random_state=1, **s),
    "low rank": lambda **s: OnlineLowRank(2, random_state=1, solve="coreset", coreset_size=150, **s),
    "pca": lambda **s: OnlineLowRank(2, center=True, random_state=1, coreset_size=150, **s),
    "clustering": lambda **s: OnlineClustering(3, random_state=1, coreset_size=150, **s),
    "bounded clustering": lambda **s: OnlineClustering(3, history="coreset", random_state=1, coreset_size=150, **s),
    "median": lambda **s: OnlineRegression(loss="absolute", random_state=1, coreset_size=150, **s),
    "quantile": lambda **s: OnlineRegression(loss="quantile", quantile=0.8, random_state=1, coreset_size=150, **s),
    "huber": lambda **s: OnlineRegression(loss="huber", random_state=1, coreset_size=150, **s),
    "classifier": lambda **s: OnlineClassifier(alpha=1e-3, random_state=1, coreset_size=150, **s),
    "any": lambda **s: BatchToOnline(LinearRegression(), random_state=1, coreset_size=150, **s),
}
FEW = {name: MODELS[name] for name in ("regression", "pca", "clustering", "bounded clustering", "classifier", "any")}


def targets_of(name, y):
    return (y > 0).astype(int) if name == "classifier" else y


def parts_of(engine):
    model = engine.model
    model = getattr(model, "model", model)
    names = ("coefficients", "intercepts", "components", "mean", "points", "coef_", "intercept_")
    return [np.asarray(getattr(model, name)) for name in names if hasattr(model, name)]


def same_models(one, other):
    assert [event.at for event in one.changes_] == [event.at for event in other.changes_]
    for own, others in zip(parts_of(one.stream), parts_of(other.stream), strict=True):
        np.testing.assert_array_equal(own, others)


def scale_of(n):
    """The factor between explicit weights and those relative to the reference after n rows."""
    return 2.0 ** -((n - 1) // (2 * N) * 2)


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.few(3)
@pytest.mark.slow
def test_equal_to_explicit_sample_weights(name):
    """Bit for bit but for the scale of weights, a power of 4: coreset, models, changes, loss."""
    X, y = stream()
    y = targets_of(name, y)
    fading = MODELS[name](half_life=N, refresh=OFTEN).partial_fit(X, y)
    weighted = MODELS[name](refresh=OFTEN).partial_fit(X, y, sample_weight=explicit(len(X)))
    scale = scale_of(len(X))
    assert scale < 0.02
    same_models(fading, weighted)
    np.testing.assert_array_equal(fading.coreset_.ids, weighted.coreset_.ids)
    np.testing.assert_array_equal(fading.coreset_.weights, weighted.coreset_.weights * scale)
    assert fading._stream.view().current.loss == weighted._stream.view().current.loss * scale
    assert fading.regret_.ratio == pytest.approx(weighted.regret_.ratio, rel=1e-12)
    assert fading.regret_.half_life == N
    assert weighted.regret_.half_life is None


@pytest.mark.parametrize("policy", [{}, {"refresh": refresh.Geometric(growth=1.5, start=20)}], ids=["default", "rare"])
@pytest.mark.parametrize("name", ["regression", "exact regression", "low rank", "pca", "clustering"])
def test_coresets_that_no_model_has_a_say_in_are_equal_whatever_the_policy(name, policy):
    X, y = stream()
    fading = MODELS[name](half_life=N, **policy).partial_fit(X, y).coreset_
    weighted = MODELS[name](**policy).partial_fit(X, y, sample_weight=explicit(len(X))).coreset_
    np.testing.assert_array_equal(fading.ids, weighted.ids)
    np.testing.assert_array_equal(fading.weights, weighted.weights * scale_of(len(X)))


KINDS = ["Leverage", "RidgeLeverage", "Uniform", "Everything", "Clustering", "Sensitivity"]


def construction(kind, **settings):
    more = {"RidgeLeverage": (2,), "Clustering": (3,), "Sensitivity": (_size,)}
    return getattr(coresets, kind)(*more.get(kind, ()), coreset_size=150, **settings)


@pytest.mark.parametrize("kind", KINDS)
def test_every_construction_fades(kind):
    X, _ = stream(25_000)
    fading = construction(kind, half_life=2_000, random_state=0).add(X).coreset()
    weights = ForwardDecay(2_000).factors(np.arange(len(X)))
    weighted = construction(kind, random_state=0).add(X, weights=weights).coreset()
    np.testing.assert_array_equal(fading.ids, weighted.ids)
    ratio = weighted.weights / fading.weights
    assert (ratio == ratio[0]).all()
    assert np.log2(ratio[0]) % 2 == 0


def _size(points, weights):
    return weights * np.abs(points).sum(axis=1)


@pytest.mark.parametrize("name", FEW)
@pytest.mark.few(3)
@pytest.mark.slow
def test_chunks_and_files_do_not_matter(name, tmp_path):
    X, y = stream()
    y = targets_of(name, y)
    whole = FEW[name](half_life=N).partial_fit(X, y)
    pieces = FEW[name](half_life=N)
    for start in range(0, len(X), 173):
        pieces.partial_fit(X[start : start + 173], y[start : start + 173])
    same_models(whole, pieces)
    assert pieces.coreset_ == whole.coreset_
    assert repr(pieces.regret_) == repr(whole.regret_)
    part = FEW[name](half_life=N).partial_fit(X[:711], y[:711])
    part.save(tmp_path / "model")
    resumed = batch2online.load(tmp_path / "model").partial_fit(X[711:], y[711:])
    same_models(whole, resumed)
    assert resumed.coreset_ == whole.coreset_


@pytest.mark.parametrize("name", FEW)
@pytest.mark.few(3)
@pytest.mark.slow
def test_shards_merge_by_their_ids(name):
    X, y = stream()
    y = targets_of(name, y)
    whole = FEW[name](half_life=N).fit(X, y)
    early = FEW[name](half_life=N).partial_fit(X[:900], y[:900])
    late = FEW[name](half_life=N, first_id=900).partial_fit(X[900:], y[900:])
    forwards = copy.deepcopy(early).merge(late)
    backwards = copy.deepcopy(late).merge(early)
    for merged in (forwards, backwards):
        assert merged.regret_.loss == pytest.approx(early.regret_.loss * 2 ** (-700 / N) + late.regret_.loss)
        if name not in ("bounded clustering", "classifier", "any"):  # these say so
            np.testing.assert_array_equal(merged.coreset_.ids, whole.coreset_.ids)
            np.testing.assert_array_equal(merged.coreset_.weights, whole.coreset_.weights)
            for own, others in zip(parts_of(merged.stream), parts_of(whole.stream), strict=True):
                np.testing.assert_allclose(own, others, rtol=1e-6, atol=1e-9)


def test_forgetting_gives_what_would_be():
    X, y = stream(1_500)
    unwanted = np.arange(900, 1_000)
    model = OnlineRegression(half_life=N, keep_history=True, random_state=0).partial_fit(X, y).forget(unwanted)
    rows = np.delete(np.arange(1_500), unwanted)
    weighted = LinearRegression().fit(X[rows], y[rows], sample_weight=explicit(1_500)[rows])
    exact = OnlineRegression(half_life=N, keep_history=True, solve="exact", random_state=0)
    exact.partial_fit(X, y).forget(unwanted)
    np.testing.assert_allclose(exact.coef_, weighted.coef_, rtol=1e-9)
    assert model.n_seen_ == 1_400


@pytest.mark.parametrize("kind", KINDS)
def test_thousands_of_half_lives(kind):
    """Nothing overflows or dies out, and what is far back counts for nothing."""
    X, _ = stream(6_000)
    both = construction(kind, half_life=3, random_state=0).add(np.concatenate([X * 100, X])).coreset()
    late = construction(kind, half_life=3, random_state=0, first_id=6_000).add(X).coreset()
    assert np.isfinite(both.weights).all()
    assert (both.weights > 0).all()
    lately = both.ids >= 11_900
    np.testing.assert_array_equal(both.ids[lately], late.ids[late.ids >= 11_900])
    assert both.weights[lately].sum() == pytest.approx(both.weights.sum(), rel=1e-6)


@pytest.mark.slow
def test_an_estimator_lives_for_hundreds_of_half_lives():
    X, y = stream()
    model = OnlineRegression(half_life=12, random_state=0)
    model.partial_fit(np.concatenate([X * 100, X]), np.concatenate([-y, y]))
    late = OnlineRegression(half_life=12, first_id=1_600, random_state=0).partial_fit(X, y)
    assert model.regret_.optimum == pytest.approx(late.regret_.optimum, rel=1e-6)


def test_looks_come_every_quarter_of_a_half_life():
    X, y = stream()
    model = OnlineRegression(half_life=N, refresh=refresh.Geometric(3.0, start=10)).partial_fit(X, y)
    looks = [event.at for event in model.changes_]
    assert set(np.diff(looks)) <= {20, N // 4}
    assert looks[-1] > 1_500


@pytest.mark.slow
def test_a_stream_that_drifts_is_followed():
    rng = np.random.default_rng(0)
    n = 20_000
    X = rng.normal(size=(n, 3))
    slopes = np.cumsum(rng.normal(size=(n, 3)), axis=0) * 0.02
    y = (X * slopes).sum(axis=1) + rng.normal(size=n)

    def loss(half_life):
        model, total = OnlineRegression(half_life=half_life, random_state=0), 0.0
        for start in range(0, n, 100):
            part = slice(start, start + 100)
            if start:
                total += np.square(model.predict(X[part]) - y[part]).sum()
            model.partial_fit(X[part], y[part])
        return total / n

    fixed, fading = loss(None), loss(300)
    assert fading < 1.5 < 2 < fixed


def test_other_half_lives_do_not_merge_and_nonsense_is_refused():
    X, y = stream(300)
    one, other = (OnlineRegression(half_life=h, first_id=h, random_state=0).partial_fit(X, y) for h in (1_000, 5_000))
    with pytest.raises(ValueError, match="half_life"):
        one.merge(other)
    for nonsense in (0, -5, 0.5, "soon", True):
        with pytest.raises(ValueError, match="half_life"):
            OnlineRegression(half_life=nonsense).partial_fit(X, y)
