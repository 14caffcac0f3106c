"""Seeds, coreset and centers are pure functions of the rows and the seed: any path to the same rows ends in one place.

Paths of one sequence are compared bit for bit; paths that add the rows up in another order by ids and weights, and by
the centers where the solver starts from nothing but the coreset.
"""

from __future__ import annotations

from functools import cache
from itertools import pairwise
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from batch2online import OnlineClustering, sampling
from batch2online.checks import failing_on_call, small_blocks, state
from batch2online.coresets import Clustering
from batch2online.methods import scores
from batch2online.methods.clustering import race
from batch2online.methods.clustering.problem import ClusteringProblem
from batch2online.refresh import Geometric
from batch2online.sketches.base import Snapshot

N, SEED, SIZE = 1_250, 3, 150
"""One whole block of 1,000 ids and an unfinished one."""


@pytest.fixture(autouse=True, scope="module")
def blocks_of_few_rows():
    """As many blocks as a long stream fills, from a short one."""
    with small_blocks(1_000, 100):
        yield


def gaussian(rng):
    return rng.normal(size=(N, 5)) + 6 * rng.integers(3, size=(N, 1))


def duplicated_rows(rng):
    return gaussian(rng)[rng.integers(60, size=N)]


def all_identical(rng):
    return np.full((N, 3), 0.1)


def fewer_rows_than_clusters(rng):
    return rng.normal(size=(3, 2))


def integer_grid(rng):
    return rng.integers(-3, 4, size=(N, 2)).astype(float)


def one_far_outlier(rng):
    X = gaussian(rng)
    X[2 * N // 3] = 1e9
    return X


def means_of_1e8(rng):
    return gaussian(rng) + 1e8


def one_column(rng):
    return gaussian(rng)[:, :1]


def many_columns(rng):
    return rng.normal(size=(700, 784)) + 3 * rng.integers(3, size=(700, 1))


def tight_clusters(rng):
    return 1e-3 * rng.normal(size=(N, 2)) + 100 * rng.integers(2, size=(N, 1))


def weighted(rng):
    return gaussian(rng)


STREAMS = {
    make.__name__: make
    for make in (
        gaussian,
        duplicated_rows,
        all_identical,
        fewer_rows_than_clusters,
        integer_grid,
        one_far_outlier,
        means_of_1e8,
        one_column,
        many_columns,
        tight_clusters,
        weighted,
    )
}
every_stream = pytest.mark.parametrize("name", STREAMS)
pytestmark = pytest.mark.few(4)  # of the streams, others for each test
every_power = pytest.mark.parametrize("z", [1.0, 1.5, 2.0, 3.0])


@cache
def data(name):
    rng = np.random.default_rng(0)
    X = STREAMS[name](rng)
    return X, rng.choice([0.25, 1.0, 3.7], size=len(X)) if name == "weighted" else np.ones(len(X))


def new(z=2.0, k=5, history="memory", **options):
    return OnlineClustering(k, z=z, history=str(history), coreset_size=SIZE, random_state=SEED, **options)


@cache
def learned_at_once(name, z=2.0, history="memory"):
    X, weights = data(name)
    return new(z, history=history).partial_fit(X, sample_weight=weights)


def learn(model, name, cuts, start=0):
    X, weights = data(name)
    for piece in (slice(*ends) for ends in pairwise([start, *cuts, len(X)])):
        model.partial_fit(X[piece], sample_weight=None if name != "weighted" else weights[piece])
    return model


def random_cuts(n, pieces, seed=1):
    return np.unique(np.random.default_rng(seed).integers(1, n, size=pieces)).tolist()


def place(history, folder):
    return folder / "rows" if history == "folder" else history


def seeds_of(model):
    data = model._stream.snapshot()
    return data.sketch.seeds(data.history)


def assert_identical(one, other):
    """Everything that can be seen of two estimators is the same to the last bit."""
    assert np.array_equal(seeds_of(one), seeds_of(other))
    assert one.coreset_ == other.coreset_
    assert np.array_equal(one.coreset_.points, other.coreset_.points)
    assert np.array_equal(one.cluster_centers_, other.cluster_centers_)
    assert one.regret_ == other.regret_
    assert one.changes_ == other.changes_
    assert one.n_seen_ == other.n_seen_


def from_scratch(points, ids, built, weights):
    """Seeds, and ids and weights of the coreset, by the plain functions of all rows at once."""
    settings = built.settings
    seeds = points[scores.clustering_seeds(points, built.k, built.z, settings.seed, weights, ids)]
    score = scores.clustering(points, seeds, built.k, built.z, weights)
    q = sampling.probabilities(score, settings.coreset_size)
    words = sampling.words_of(settings.seed, sampling.SAMPLING, ids)
    keep = sampling.kept(sampling.inclusion_uniforms(words), q)
    exponents = sampling.exponents(q[keep], sampling.rounding_uniforms(words[keep]), settings.epsilon)
    return seeds, ids[keep], weights[keep] * sampling.weights_of(exponents, settings.epsilon)


def snapshot(built):
    return Snapshot(built.sketch, built.history)


def assert_from_scratch(data, points, ids, weights):
    seeds, kept, kept_weights = from_scratch(points, ids, data.sketch, weights)
    assert np.array_equal(data.sketch.seeds(data.history), seeds)
    assert np.array_equal(data.coreset.ids, kept)
    assert np.array_equal(data.coreset.weights, kept_weights)
    assert np.array_equal(data.coreset.points, points[np.isin(ids, kept)])


def assert_same_centers_up_to_ids(one, other):
    assert sorted(one.tolist()) == sorted(other.tolist())


# -- one sequence, many ways to hand it over ----------------------------------------------------------


@pytest.mark.parametrize("name", ["gaussian", "weighted", "tight_clusters", "many_columns"])
def test_rows_in_a_folder_are_rows_in_memory(name, tmp_path):
    model = learn(new(history=tmp_path), name, random_cuts(len(data(name)[0]), 40))
    assert_identical(model, learned_at_once(name))


# -- the same rows by another way ---------------------------------------------------------------------


@every_stream
def test_seeds_and_coreset_are_those_computed_from_scratch(name):
    X, weights = data(name)
    built = learned_at_once(name)._stream.snapshot()
    assert_from_scratch(built, X, np.arange(len(X)), weights)
    assert len(built.coreset) in (range(len(X) // 4) if len(X) > 3 else [3])


@every_power
def test_seeds_and_coreset_of_any_power_are_those_computed_from_scratch(z):
    X, weights = data("weighted")
    built = learned_at_once("weighted", z)._stream.snapshot()
    assert_from_scratch(built, X, np.arange(N), weights)


@pytest.mark.parametrize("name", ["gaussian", "tight_clusters", "weighted", "means_of_1e8"])
@pytest.mark.parametrize("order", [[0, 1, 2, 3], [2, 0, 3, 1]])
def test_clusters_of_shards_are_those_of_one_stream(name, order):
    X, weights = data(name)
    bounds = [0, 100, 103, 900, N]
    shards = [
        new(first_id=a, warm_start=False).partial_fit(X[a:b], sample_weight=weights[a:b]) for a, b in pairwise(bounds)
    ]
    merged = shards[order[0]]
    for index in order[1:]:
        merged.merge(shards[index])
    whole = new(warm_start=False).fit(X, sample_weight=weights)
    assert np.array_equal(seeds_of(merged), seeds_of(whole))
    assert merged.coreset_ == whole.coreset_
    assert merged.n_seen_ == N
    assert_same_centers_up_to_ids(merged.cluster_centers_, whole.cluster_centers_)


@pytest.mark.parametrize("history", ["memory", "folder"])
@pytest.mark.parametrize("name", ["gaussian", "tight_clusters", "weighted"])
def test_clusters_know_nothing_of_forgotten_rows(name, history, tmp_path):
    X, weights = data(name)
    at = 1_100
    model = new(history=place(history, tmp_path), warm_start=False)
    model.partial_fit(X[:at], sample_weight=weights[:at])
    seeds = np.flatnonzero((X[:at, None] == seeds_of(model)).all(axis=2).any(axis=1))
    gone = np.union1d(seeds[:2], np.random.default_rng(5).choice(at, size=50, replace=False))
    ids = np.setdiff1d(np.arange(at), gone)
    model.forget(gone)
    assert_from_scratch(model._stream.snapshot(), X[ids], ids, weights[ids])
    assert model.n_seen_ == model.regret_.rows == len(ids)
    never = new(warm_start=False, refresh=Geometric(start=10**6))
    never._stream = model._stream.refit("solved anew")
    assert_same_centers_up_to_ids(model.cluster_centers_, never.cluster_centers_)
    model.partial_fit(X[at:], sample_weight=weights[at:])
    ids = np.concatenate([ids, np.arange(at, N)])
    assert_from_scratch(model._stream.snapshot(), X[ids], ids, weights[ids])


# -- rows of any shape --------------------------------------------------------------------------------


@st.composite
def cases(draw):
    n, d = draw(st.integers(1, 300)), draw(st.integers(1, 4))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    X = rng.normal(size=(n, d))
    if draw(st.booleans()):  # clusters, tight or not
        X = X * draw(st.sampled_from([1e-6, 0.1])) + rng.integers(3, size=(n, 1))
    if draw(st.booleans()):  # duplicates
        X = X[rng.integers(1 + n // 6, size=n)]
    if draw(st.booleans()):
        X = np.round(X * 2)
    X = X * draw(st.sampled_from([1.0, 1e-80, 1e80])) + draw(st.sampled_from([0.0, 0.0, 1e6]))
    weights = rng.choice([0.25, 1.0, 3.7], size=n) if draw(st.booleans()) else np.ones(n)
    cuts = sorted(set(draw(st.lists(st.integers(1, n), max_size=12))) - {n})
    return X, weights, [slice(*ends) for ends in pairwise([0, *cuts, n])], rng


@given(
    case=cases(),
    k=st.sampled_from([1, 2, 3, 9]),
    z=st.sampled_from([1.0, 1.5, 2.0, 3.0]),
    size=st.sampled_from([10, 40]),
    first_id=st.integers(0, 50),
)
@settings(max_examples=16, deadline=None)
@patch.multiple(race, _KEPT=8, _FIRST_CANDIDATES=2, _FIRST_ROWS=32)
@small_blocks(16)
@pytest.mark.slow
def test_seeds_and_coresets_are_pure_functions_of_rows_and_seed(case, k, z, size, first_id):
    """With blocks of 16 ids and 8 leaders, so that few rows fill many blocks and often have to be searched."""
    X, weights, pieces, rng = case
    ids = first_id + np.arange(len(X))

    def added(piece, to=None):
        to = to or Clustering(k, z, coreset_size=size, random_state=SEED, first_id=first_id + (piece.start or 0))
        return to.add(X[piece], weights=weights[piece])

    whole = added(slice(None))
    assert_from_scratch(snapshot(whole), X, ids, weights)

    chunked = added(pieces[0])
    for piece in pieces[1:]:
        if rng.random() < 0.5:
            chunked.coreset()
        added(piece, chunked)
    assert_from_scratch(snapshot(chunked), X, ids, weights)

    *earlier, last = pieces
    shards = [added(piece) for piece in earlier]
    rng.shuffle(shards)
    merged = Clustering(k, z, coreset_size=size, random_state=SEED)
    for shard in shards:
        merged.merge(shard)
    if earlier:
        assert_from_scratch(snapshot(added(last, merged)), X, ids, weights)

    stay = rng.random(len(X)) < 0.8
    stay[0] = True
    assert_from_scratch(snapshot(chunked.forget(ids[~stay])), X[stay], ids[stay], weights[stay])


# -- failures -----------------------------------------------------------------------------------------


ACTS = {"forget": lambda model, _: model.forget([3, 1_020]), "merge": lambda model, other: model.merge(other)}


@pytest.mark.parametrize("act", ACTS.values(), ids=ACTS)
def test_an_interrupted_act_leaves_the_folder_as_it_was(monkeypatch, act, tmp_path):
    model, other = two_shards(tmp_path / "one", tmp_path / "other")
    before = state(model)
    with monkeypatch.context() as context:
        context.setattr(ClusteringProblem, "fit", failing_on_call(ClusteringProblem.fit, 1, KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            act(model, other)
    assert state(model) == before
    assert_identical(model, learned_at_once("gaussian"))
    act(model, other)
    assert len(list((tmp_path / "one").glob("rows-*"))) <= 1
    assert_identical(model, act(*two_shards("memory", "memory")))


def two_shards(*places):
    X, _ = data("gaussian")
    return new(history=places[0]).partial_fit(X), new(history=places[1], first_id=2_000).partial_fit(X[:300])


@pytest.mark.parametrize("method", ["fit", "partial_fit"])
def test_a_first_chunk_that_was_refused_leaves_the_folder_free(method, tmp_path):
    X, _ = data("gaussian")
    model = new(history=tmp_path)
    with pytest.raises(ValueError, match="row 0"):
        getattr(model, method)(X, sample_weight=-1.0)
    assert getattr(model, method)(X).n_seen_ == N


# -- losses -------------------------------------------------------------------------------------------


@every_power
def test_the_loss_is_that_of_each_row_under_the_centers_before_it(z):
    X, _ = data("gaussian")
    model, distances = new(z), [0.0]
    model.learn_one(X[0])
    for row in X[1:600]:
        distances.append(model.transform(row[None]).min())
        model.learn_one(row)
    assert model.regret_.loss == pytest.approx(np.power(distances, z).sum(), rel=1e-9)
    assert model.regret_.secondary_loss == pytest.approx(np.sum(distances), rel=1e-9)
    model.forget(range(550, 600))
    assert model.regret_.loss == pytest.approx(np.power(distances[:550], z).sum(), rel=1e-9)
