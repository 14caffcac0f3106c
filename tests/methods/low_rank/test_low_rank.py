"""Low-rank approximation: every path to the same rows gives the same subspace, close to the best there is."""

from __future__ import annotations

from functools import cache
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.linalg import subspace_angles
from sklearn.decomposition import PCA

from batch2online import OnlineLowRank, datasets, sampling
from batch2online.checks import small_blocks
from batch2online.coresets import RidgeLeverage
from batch2online.methods import scores
from batch2online.refresh import Geometric
from batch2online.rows import Rows, ones

N, SEED, SCALES = 2_400, 3, np.array([9.0, 7.0, 3.0, 1.0, 1.0, 0.5, 0.1, 0.1])


@pytest.fixture(autouse=True, scope="module")
def blocks_of_few_rows():
    """As many blocks as a long stream fills, from a short one."""
    with small_blocks(1_000):
        yield


def gaussian(rng):
    return rng.normal(size=(N, 8)) * SCALES


def heavy_tailed(rng):
    return rng.standard_t(2, size=(N, 8))


def duplicated_rows(rng):
    return gaussian(rng)[rng.integers(100, size=N)]


def exactly_rank_two(rng):
    return rng.normal(size=(N, 2)) @ rng.normal(size=(2, 8))


def zero_rows_and_columns(rng):
    X = gaussian(rng)
    X[:, 2] = 0.0
    X[rng.integers(N, size=N // 3)] = 0.0
    return X


def tiny(rng):
    return gaussian(rng) * 1e-150


def huge(rng):
    return gaussian(rng) * 1e148


def large_means(rng):
    return gaussian(rng) + 1e6


def one_giant_row(rng):
    X = gaussian(rng)
    X[2 * N // 3] *= 1e9
    return X


STREAMS = {
    make.__name__: make
    for make in (
        gaussian,
        heavy_tailed,
        duplicated_rows,
        exactly_rank_two,
        zero_rows_and_columns,
        tiny,
        huge,
        large_means,
        one_giant_row,
    )
}
every_stream = pytest.mark.parametrize("name", STREAMS)
either_center = pytest.mark.parametrize("center", [False, True], ids=["around zero", "centred"])


@cache
def data(name):
    return STREAMS[name](np.random.default_rng(0))


def new(center, rank=2, coreset_size=100, **settings):
    return OnlineLowRank(rank, center=center, coreset_size=coreset_size, random_state=SEED, **settings)


@cache
def learned_at_once(name, center):
    return new(center).partial_fit(data(name))


def learn(model, X, cuts):
    for start, stop in pairwise([0, *cuts, len(X)]):
        model.partial_fit(X[start:stop])
    return model


def from_scratch(rows, ids, sketch):
    """Ids and weights of the coreset by the plain function of all rows at once."""
    m = np.column_stack([np.ones((len(rows), int(sketch.intercept))), rows])
    q = sampling.probabilities(scores.ridge_leverage(m, sketch.rank, intercept=sketch.intercept), sketch.constant)
    words = sampling.words(sketch.settings.seed, sampling.SAMPLING, ids)
    keep = sampling.kept(sampling.inclusion_uniforms(words), q)
    exponents = sampling.exponents(q[keep], sampling.rounding_uniforms(words[keep]), sketch.settings.epsilon)
    return ids[keep], sampling.weights_of(exponents, sketch.settings.epsilon)


def assert_identical(one, other):
    assert one.coreset_ == other.coreset_
    assert np.array_equal(one.components_, other.components_)
    assert np.array_equal(one.mean_, other.mean_)
    assert one.regret_ == other.regret_
    assert one.changes_ == other.changes_


@either_center
@every_stream
def test_the_coreset_is_the_plain_function_of_all_rows(name, center):
    model = learned_at_once(name, center)
    ids, weights = from_scratch(data(name), np.arange(N), model._stream.sketch)
    assert np.array_equal(model.coreset_.ids, ids)
    assert np.array_equal(model.coreset_.weights, weights)


@either_center
@every_stream
def test_a_subspace_knows_nothing_of_forgotten_rows(name, center):
    X = data(name)
    gone = np.random.default_rng(5).choice(N, size=100, replace=False)
    model = new(center, keep_history=True).partial_fit(X).forget(gone)
    rest = np.setdiff1d(np.arange(N), gone)
    ids, weights = from_scratch(X[rest], rest, model._stream.sketch)
    assert np.array_equal(model.coreset_.ids, ids)
    assert np.array_equal(model.coreset_.weights, weights)
    assert model.n_seen_ == model.regret_.rows == N - 100


@pytest.mark.parametrize("rank", [1, 2, 5, 8, 11])
@every_stream
@pytest.mark.covering
def test_scores_agree_with_extended_precision(name, rank):
    X = data(name)[:800]
    sketch = RidgeLeverage(rank, random_state=0).new_sketch(X.shape[1], 0)
    for start in range(0, 800, 90):
        some = X[start : start + 90]
        sketch = sketch.update(Rows(some, np.empty((len(some), 0)), ones(len(some)), start + np.arange(len(some))))
    rows = sketch.candidates().rows
    expected = extended_scores(X, rank)[rows.ids]
    actual = sketch.statistics.scores(rows)
    np.testing.assert_allclose(actual, expected, rtol=1e-5, atol=1e-12)
    assert actual.sum() <= 2 * rank * (1 + 1e-9)


def extended_scores(X, rank):
    """Scores from a one-sided Jacobi SVD in extended precision."""
    u = X.astype(np.longdouble) / np.abs(X).max()
    for _ in range(30):
        for i in range(u.shape[1]):
            for j in range(i + 1, u.shape[1]):
                a, b, c = u[:, i] @ u[:, i], u[:, j] @ u[:, j], u[:, i] @ u[:, j]
                if abs(c) <= 1e-25 * np.sqrt(a * b) or c == 0:
                    continue
                zeta = (b - a) / (2 * c)
                t = (1 if zeta >= 0 else -1) / (abs(zeta) + np.sqrt(1 + zeta**2))
                cos = 1 / np.sqrt(1 + t**2)
                u[:, [i, j]] = u[:, [i, j]] @ np.array([[cos, cos * t], [-cos * t, cos]])
    squares = np.sort((u * u).sum(axis=0))[::-1]
    ridge = max(squares[rank:].sum() / rank, 1e-24 * squares.sum())
    own = (u * u).sum(axis=0)
    return ((u * u) / (own + ridge)).sum(axis=1).astype(float)


@settings(max_examples=60, deadline=None)
@given(
    n=st.integers(2, 60),
    d=st.integers(1, 6),
    rank=st.integers(1, 7),
    scale=st.sampled_from([1.0, 1e-120, 1e120]),
    duplicates=st.booleans(),
    seed=st.integers(0, 10**6),
)
def test_scores_never_rise_and_sum_to_twice_the_rank_at_most(n, d, rank, scale, duplicates, seed):
    rng = np.random.default_rng(seed)
    X = rng.standard_t(3, size=(n, d)) * scale * 10.0 ** rng.uniform(-3, 3, size=d)
    if duplicates:
        X = X[rng.integers(max(1, n // 4), size=n)]
    before = scores.ridge_leverage(X[:-1], rank)
    after = scores.ridge_leverage(X, rank)
    assert (after[:-1] <= before * (1 + 1e-6) + 1e-9).all()
    assert after.sum() <= 2 * rank * (1 + 1e-9)


@either_center
@every_stream
def test_costs_and_optimum_are_exact(name, center):
    X, model = data(name), learned_at_once(name, center)
    rows = X - X.mean(axis=0) if center else X
    values = np.linalg.svd(rows / np.abs(X).max(), compute_uv=False) * np.abs(X).max()
    total = np.square(rows).sum()
    assert model.regret_.optimum == pytest.approx(np.square(values[2:]).sum(), rel=1e-6, abs=1e-13 * np.square(X).sum())
    engine = model._stream.view()
    residual = X - model.inverse_transform(model.transform(X))
    cost = engine.problem.cost(engine.current.model, engine.snapshot())
    assert cost == pytest.approx(np.square(residual).sum(), rel=1e-6, abs=1e-13 * max(total, np.square(X).sum()))


def test_loss_is_that_of_the_model_in_force():
    X = data("gaussian")[:600]
    model, loss, unsquared = new(center=True), 0.0, 0.0
    for t, row in enumerate(X):
        if t and model.has_model_:
            residual = row - model.inverse_transform(model.transform(row[None]))[0]
        else:
            residual = row - X[: max(t, 1)].mean(axis=0)
        loss += residual @ residual
        unsquared += np.sqrt(residual @ residual)
        model.learn_one(row)
    assert model.regret_.loss == pytest.approx(loss, rel=1e-9)
    assert model.regret_.secondary_loss == pytest.approx(unsquared, rel=1e-9)


def test_a_stable_basis_moves_no_more_than_its_subspace():
    X, policy = data("gaussian"), Geometric(1.5)
    times = [event.at for event in new(center=False, refresh=policy).partial_fit(X).changes_]
    model = new(center=False, refresh=policy)
    for start, stop in pairwise([0, *times]):
        old = model.components_ if start else None
        fresh = model.partial_fit(X[start:stop]).components_
        if old is not None:
            angle = model.changes_[-1].angle
            assert angle == model.changes_[-1].magnitude == pytest.approx(subspace_angles(old.T, fresh.T)[0])
            assert np.linalg.norm(old - fresh, ord=2) <= 2 * np.sin(angle / 2) + 1e-9


def test_a_basis_by_variance_is_ordered_and_keeps_its_signs():
    X = np.random.default_rng(0).normal(size=(12_000, 8)) * SCALES
    model = new(center=True, rank=3, coreset_size=400, basis="variance", refresh=Geometric(1.5))
    old = None
    for start in range(0, len(X), 1000):
        fresh = model.partial_fit(X[start : start + 1000]).components_
        assert old is None or (np.einsum("ij,ij->i", old, fresh) > 0.9).all()
        old = fresh
    assert (np.diff(model.explained_variance_) < 0).all()


@pytest.mark.parametrize("solve", ["coreset", "exact"])
@pytest.mark.parametrize("name", ["digits", "breast_cancer"])
def test_centred_variant_explains_what_pca_explains(name, solve):
    X = datasets.load_rows(name)
    model, pca = OnlineLowRank(5, center=True, solve=solve, random_state=0).fit(X), PCA(5).fit(X)
    ratio = model.explained_variance_.sum() / pca.explained_variance_.sum()
    assert 0.99 < ratio < 1 + 1e-9
    assert model.explained_variance_ratio_.sum() == pytest.approx(ratio * pca.explained_variance_ratio_.sum())
    assert np.square(model.singular_values_).sum() == pytest.approx(ratio * np.square(pca.singular_values_).sum())
    np.testing.assert_allclose(model.mean_, pca.mean_, atol=1e-9 if solve == "exact" else 0.5)


def test_integer_weights_are_repetitions_and_zero_weights_are_absent():
    X = data("gaussian")[:60]
    weights = np.random.default_rng(2).integers(0, 4, size=60)
    weighted = OnlineLowRank(2, center=True, random_state=0).fit(X, sample_weight=weights)
    repeated = OnlineLowRank(2, center=True, random_state=0).fit(np.repeat(X, weights, axis=0))
    assert weighted.n_seen_ == (weights > 0).sum()
    assert weighted.regret_.optimum == pytest.approx(repeated.regret_.optimum)
    assert subspace_angles(weighted.components_.T, repeated.components_.T)[0] < 1e-6
    np.testing.assert_allclose(weighted.explained_variance_.sum(), repeated.explained_variance_.sum())


@pytest.mark.parametrize("zeros", [100, 2_000])
def test_rows_that_come_after_zeros_are_kept(zeros):
    rows = data("gaussian")[:1_500]
    stream = np.concatenate([np.zeros((zeros, 8)), rows])
    construction = RidgeLeverage(1, coreset_size=40, random_state=0).add(stream[:zeros]).add(stream[zeros:])
    ids, weights = from_scratch(stream, np.arange(len(stream)), construction.sketch)
    assert np.array_equal(construction.coreset().ids, ids)
    assert np.array_equal(construction.coreset().weights, weights)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"n_components": 9}, "n_components=9"),
        ({"n_components": 0}, "n_components must be a positive integer, got 0"),
        ({"n_components": 2.7}, "n_components must be a positive integer, got 2.7"),
        ({"solve": "fast"}, "solve"),
        ({"basis": "any"}, "basis"),
    ],
)
def test_bad_settings_of_low_rank_are_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        OnlineLowRank(**settings).fit(data("gaussian")[:50])


def test_frames_in_frames_out_and_other_columns_refused():
    frame = pd.DataFrame(data("gaussian")[:200], columns=list("abcdefgh"))
    model = new(center=True).set_output(transform="pandas").fit(frame)
    embedded = model.transform(frame)
    assert list(embedded.columns) == ["onlinelowrank0", "onlinelowrank1"]
    assert (embedded.index == frame.index).all()
    with pytest.raises(ValueError, match="feature names"):
        model.partial_fit(frame[list("hgfedcba")])
    model.learn_one(dict(frame.iloc[0]))
    assert model.n_seen_ == 201
