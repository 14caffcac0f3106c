"""Coreset and model are pure functions of the rows and the seed: any path to the same rows ends in the same place.

Paths of one sequence (chunks, single rows, interruptions) are compared bit for bit. Paths that add the rows up in
another order (shards, forgetting, from scratch) are compared by ids and weights, which makes the models equal bit
for bit as well.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from batch2online import OnlineRegression, sampling
from batch2online.checks import small_blocks
from batch2online.coresets import Everything, Leverage, Uniform
from batch2online.methods import scores
from batch2online.methods.least_squares.solver import coreset_moments, least_squares
from batch2online.refresh import EveryStep, Geometric, OnChange
from batch2online.sketches.base import Coreset
from streams import STREAMS, gaussian, stream

N, BLOCK, SIZE = 2_300, 1_000, 150
"""Two whole blocks of ids and an unfinished one, and rows of a coreset."""

SEED = 3

every_stream = pytest.mark.parametrize("name", STREAMS)
pytestmark = pytest.mark.few(4)  # of the streams, others for each test


@pytest.fixture(autouse=True, scope="module")
def blocks_of_few_rows():
    """As many blocks as a long stream fills, from a short one."""
    with small_blocks(BLOCK):
        yield


def new(**options):
    """A model that is solved on its coreset: equal coresets have equal models, exact ones agree up to rounding."""
    return OnlineRegression(**{"coreset_size": SIZE, "solve": "coreset", "random_state": SEED} | options)


@cache
def data(name):
    return stream(name, N)


@cache
def learned_at_once(name):
    return new().partial_fit(*data(name))


@cache
def fitted(name):
    return new().fit(*data(name))


def learn(model, X, y, cuts):
    for start, stop in pairwise([0, *cuts, len(X)]):
        model.partial_fit(X[start:stop], y[start:stop])
    return model


def random_cuts(n, pieces, seed):
    return sorted(np.random.default_rng(seed).choice(np.arange(1, n), pieces - 1, replace=False).tolist())


def from_scratch(points, targets, ids, *, sketch, weights=1.0, kind=Leverage):
    """Ids and weights of the coreset by the plain functions of all rows at once."""
    weights = np.broadcast_to(weights, len(points))
    if kind is Leverage:
        ones = np.ones((len(points), int(sketch.intercept)))
        rows = np.sqrt(weights)[:, None] * np.column_stack([ones, points, targets])
        score = scores.leverage(rows, intercept=sketch.intercept)
    else:
        score = weights / weights.sum() if kind is Uniform else np.ones(len(points))
    words = sampling.words(sketch.settings.seed, sampling.SAMPLING, np.asarray(ids))
    q = sampling.probabilities(score, sketch.constant)
    keep = sampling.kept(sampling.inclusion_uniforms(words), q)
    exponents = sampling.exponents(q[keep], sampling.rounding_uniforms(words[keep]), sketch.settings.epsilon)
    return np.asarray(ids)[keep], weights[keep] * sampling.weights_of(exponents, sketch.settings.epsilon)


def assert_same_coreset(actual: Coreset, ids, weights):
    assert np.array_equal(actual.ids, ids)
    assert np.array_equal(actual.weights, weights)


def assert_same_model(one, other):
    assert np.array_equal(one.coef_, other.coef_)
    assert np.array_equal(one.intercept_, other.intercept_)


def assert_identical(one, other):
    """Everything that can be seen of two estimators is the same to the last bit."""
    assert_same_coreset(one.coreset_, other.coreset_.ids, other.coreset_.weights)
    assert np.array_equal(one.coreset_.points, other.coreset_.points)
    assert np.array_equal(one.coreset_.targets, other.coreset_.targets)
    assert_same_model(one, other)
    assert one.regret_ == other.regret_
    assert one.changes_ == other.changes_
    assert one.n_seen_ == other.n_seen_


# -- one sequence, many ways to hand it over ----------------------------------------------------------


@pytest.mark.parametrize("cuts", [range(7, N, 7), range(100, N, 100), random_cuts(N, 60, 1)], ids=["7", "100", "any"])
@every_stream
def test_chunk_sizes_do_not_matter(name, cuts):
    assert_identical(learn(new(), *data(name), cuts), learned_at_once(name))


@every_stream
def test_single_rows_are_the_same_as_chunks(name):
    X, y = (part[:1_200] for part in data(name))
    one_by_one = new()
    for row, target in zip(X, y, strict=True):
        one_by_one.learn_one(row, target)
    at_once = new().partial_fit(X, y)
    assert_identical(one_by_one, at_once)
    assert_identical(learn(new(), X, y, range(1, 1_200)), at_once)


# -- the same rows by another way ---------------------------------------------------------------------


@every_stream
def test_the_coreset_is_the_one_computed_from_scratch(name):
    sketch = fitted(name)._stream.sketch
    ids, weights = from_scratch(*data(name), np.arange(N), sketch=sketch)
    assert 0 < len(ids) < N / 10
    assert_same_coreset(fitted(name).coreset_, ids, weights)


@pytest.mark.parametrize("seed", range(2))
@every_stream
def test_shards_merged_in_any_order_are_one_stream(name, seed):
    X, y = data(name)
    shards = [
        new(first_id=start).partial_fit(X[start:stop], y[start:stop])
        for start, stop in pairwise([0, *random_cuts(N, 5, seed), N])
    ]
    first, *others = np.random.default_rng(seed).permutation(5)
    merged = shards[first]
    for other in others:
        merged.merge(shards[other])
    expected = fitted(name)
    assert_same_coreset(merged.coreset_, expected.coreset_.ids, expected.coreset_.weights)
    assert_same_model(merged, expected)
    assert merged.n_seen_ == N


@every_stream
def test_forgotten_rows_were_never_there(name):
    X, y = data(name)
    model = new(keep_history=True).partial_fit(X, y)
    rng = np.random.default_rng(4)
    heavy = rng.choice(model.coreset_.ids, 50, replace=False)
    others = rng.choice(np.setdiff1d(np.arange(N), heavy), 50, replace=False)
    model.forget(np.concatenate([heavy, others]))
    remaining = np.setdiff1d(np.arange(N), [*heavy, *others])
    ids, weights = from_scratch(X[remaining], y[remaining], remaining, sketch=model._stream.sketch)
    assert_same_coreset(model.coreset_, ids, weights)
    solved = least_squares(coreset_moments(Coreset(X[ids], y[ids], weights, ids), intercept=True))
    assert np.array_equal(model.coef_, solved.coefficients.reshape(model.coef_.shape))
    assert np.array_equal(model.intercept_, solved.intercepts.reshape(np.shape(model.intercept_)))
    assert model.n_seen_ == N - 100


# -- rows of any shape --------------------------------------------------------------------------------


@dataclass(frozen=True)
class Case:
    """Random rows with what makes rows awkward, in random pieces."""

    X: np.ndarray
    y: np.ndarray
    weights: np.ndarray
    cuts: list[int]
    rng: np.random.Generator

    @property
    def pieces(self):
        return [slice(*ends) for ends in pairwise([0, *self.cuts, len(self.X)])]


@st.composite
def cases(draw):
    n, d = draw(st.integers(1, 400)), draw(st.integers(1, 6))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    X, y = rng.normal(size=(n, d)), rng.normal(size=n)
    if draw(st.booleans()):  # duplicates
        origin = rng.integers(1 + n // 4, size=n)
        X, y = X[origin], y[origin]
    if draw(st.booleans()):  # rank deficiency
        X[:, -1] = X[:, 0] - 2 * X[:, d // 2]
    if draw(st.booleans()):  # a column that is zero, or zero at first
        X[: draw(st.integers(0, n)), rng.integers(d)] = 0.0
    if draw(st.booleans()):
        X *= 10.0 ** rng.integers(-100, 100, size=d)
    weights = rng.choice([0.25, 1.0, 3.7], size=n) if draw(st.booleans()) else np.ones(n)
    cuts = sorted(set(draw(st.lists(st.integers(1, n), max_size=12))) - {n})
    return Case(X, y, weights, cuts, rng)


@pytest.mark.parametrize("kind", [Leverage, Uniform, Everything])
@given(case=cases(), size=st.sampled_from([10, 40]), intercept=st.booleans(), first_id=st.integers(0, 50))
@settings(max_examples=60, deadline=None)
@pytest.mark.few(1)
@pytest.mark.slow
def test_constructions_are_pure_functions_of_rows_and_seed(kind, case, size, intercept, first_id):
    """With blocks of 16 ids, so that few rows fill many of them."""
    with small_blocks(16):
        check_that_all_paths_meet(kind, case, size, intercept, first_id)


def check_that_all_paths_meet(kind, case, size, intercept, first_id):
    def new(start=0):
        options = {"intercept": intercept} if kind is Leverage else {}
        return kind(coreset_size=size, random_state=SEED, first_id=first_id + start, keep_history=True, **options)

    def added(construction, rows):
        return construction.add(case.X[rows], case.y[rows], case.weights[rows])

    def expected(index):
        return from_scratch(
            case.X[index], case.y[index], ids[index], sketch=whole.sketch, weights=case.weights[index], kind=kind
        )

    ids = first_id + np.arange(len(case.X))
    whole = added(new(), slice(None))
    assert_same_coreset(whole.coreset(), *expected(slice(None)))

    chunked = new()
    for piece in case.pieces:
        added(chunked, piece)
    assert_same_coreset(chunked.coreset(), whole.coreset().ids, whole.coreset().weights)

    *earlier, last = case.pieces
    shards = [added(new(piece.start), piece) for piece in earlier]
    case.rng.shuffle(shards)
    merged = new()
    for shard in shards:
        merged.merge(shard)
    twin = merged.copy()
    assert_same_coreset(added(merged, last).coreset(), *expected(slice(None)))

    remaining = case.rng.random(len(ids)) < 0.9
    remaining[last] = True
    forgotten = ids[~remaining]
    constructions = [chunked.forget(forgotten), merged.forget(forgotten)]
    if earlier:
        constructions.append(added(twin.forget(forgotten), last))
    for construction in constructions:
        assert_same_coreset(construction.coreset(), *expected(remaining))


@given(case=cases(), intercept=st.booleans(), first_id=st.integers(600, 1_000), exact=st.booleans())
@settings(max_examples=20, deadline=None)
@pytest.mark.slow
def test_models_of_any_rows_do_not_depend_on_chunks(case, intercept, first_id, exact):
    def new():
        return OnlineRegression(
            coreset_size=40,
            refresh=Geometric(growth=1.1),
            solve="exact" if exact else "coreset",
            fit_intercept=intercept,
            first_id=first_id,
            random_state=SEED,
        )

    chunked = new()
    for piece in case.pieces:
        chunked.partial_fit(case.X[piece], case.y[piece], sample_weight=case.weights[piece])
    assert_identical(chunked, new().partial_fit(case.X, case.y, sample_weight=case.weights))


@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("seed", range(5))
def test_a_weight_counts_like_repetition_while_everything_is_kept(seed, intercept):
    rng = np.random.default_rng(seed)
    X, y = gaussian(200, rng)
    times = rng.integers(0, 5, size=200)
    options = {"coreset_size": 10**6, "fit_intercept": intercept, "random_state": SEED}
    weighted = OnlineRegression(**options).fit(X, y, sample_weight=times)
    repeated = OnlineRegression(**options).fit(np.repeat(X, times, axis=0), np.repeat(y, times))
    assert len(weighted.coreset_) == (times > 0).sum()
    assert len(repeated.coreset_) == times.sum()
    np.testing.assert_allclose(weighted.coef_, repeated.coef_, rtol=1e-11)
    np.testing.assert_allclose(weighted.intercept_, repeated.intercept_, rtol=1e-11)
    np.testing.assert_allclose(weighted.regret_.optimum, repeated.regret_.optimum, rtol=1e-11)


@pytest.mark.parametrize("n", [1, 50])
def test_rows_that_are_all_zero_have_scores_of_zero(n):
    assert scores.leverage(np.zeros((n, 3))).tolist() == [0.0] * n


def test_a_stream_may_begin_with_rows_of_zeros():
    X, y = gaussian(1000, np.random.default_rng(0))
    X[:100], y[:100] = 0.0, 0.0
    model = OnlineRegression(fit_intercept=False, random_state=SEED)
    learn(model, X, y, [50])
    ids, weights = from_scratch(X, y, np.arange(1000), sketch=model._stream.sketch)
    assert_same_coreset(model.coreset_, ids, weights)


# -- when models change -------------------------------------------------------------------------------


def refresh_times(growth, start, n):
    times = [start]
    while times[-1] <= n:
        times.append(max(times[-1] + 1, math.ceil(growth * times[-1])))
    return times[:-1]


@pytest.mark.parametrize(
    ("policy", "growth", "start"),
    [
        (EveryStep(), 1.0, 18),
        (Geometric(growth=1.01), 1.01, 18),
        (Geometric(growth=1.5), 1.5, 18),
        (Geometric(growth=3, start=1), 3, 1),
    ],
    ids=str,
)
def test_models_change_at_the_refresh_times(policy, growth, start):
    X, y = stream("gaussian", 1500)
    model = OnlineRegression(refresh=policy, coreset_size=10**6, random_state=SEED).partial_fit(X, y)
    first, *later = refresh_times(growth, start, 1500)
    assert first == start
    assert [change.at for change in model.changes_] == later
    assert model.n_changes_ == len(later)


def test_solving_at_every_step_or_only_on_change_is_the_same(full):
    X, y = stream("gaussian", 400 if full else 120)
    always, on_change = (
        OnlineRegression(refresh=policy, solve="coreset", epsilon=0.5, coreset_size=30, random_state=SEED)
        for policy in (EveryStep(), OnChange())
    )
    changed_at, last = [], None
    for t, (row, target) in enumerate(zip(X, y, strict=True), start=1):
        always.learn_one(row, target)
        on_change.learn_one(row, target)
        assert_same_model(always, on_change)
        now = on_change.coreset_
        if last is not None and now != last:
            changed_at.append(t)
        last = now
    assert [change.at for change in always.changes_] == [t for t in changed_at if t > 18]
    assert always.changes_ == on_change.changes_
    assert on_change.n_changes_ < 250


def test_the_loss_is_that_of_each_row_under_the_model_before_it():
    X, y = stream("heavy_tailed", 2000)
    model, loss, unsquared = new(), 0.0, 0.0
    for row, target in zip(X, y, strict=True):
        prediction = model.predict_one(row) if model.__sklearn_is_fitted__() else target
        loss += (target - prediction) ** 2
        unsquared += abs(target - prediction)
        model.learn_one(row, target)
    assert model.regret_.loss == pytest.approx(loss, rel=1e-12)
    assert model.regret_.secondary_loss == pytest.approx(unsquared, rel=1e-12)
