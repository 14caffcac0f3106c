"""Shards: any tree of merges gives the coreset of one machine's ``fit``."""

import itertools
import pickle

import numpy as np
import pytest
from sklearn.linear_model import Ridge

import batch2online
from batch2online import BatchToOnline, OnlineClassifier, OnlineLowRank, OnlineRegression, coresets, refresh

N = 22_500
RNG = np.random.default_rng(0)
X = RNG.normal(size=(N, 4))
Y = X @ [1.0, -2.0, 0.5, 0.0] + RNG.normal(size=N)
WEIGHTS = RNG.exponential(size=N)

DOUBLING = refresh.Geometric(2.0)
MODELS = {
    "regression": OnlineRegression(random_state=1),
    "every so many rows, fading": OnlineRegression(random_state=1, refresh=refresh.Every(1_000), half_life=700),
    "kept": OnlineRegression(random_state=1, keep_history=True, coreset_size=300),
    "low rank": OnlineLowRank(2, random_state=1),
    "centred": OnlineLowRank(2, center=True, random_state=1, half_life=2_000, basis="variance"),
    "any": BatchToOnline(Ridge(), refresh=DOUBLING, coreset=coresets.Leverage, random_state=1, coreset_size=300),
    "uniform": BatchToOnline(Ridge(), refresh=DOUBLING, coreset=coresets.Uniform, random_state=1, coreset_size=300),
}


def told(model):
    """Return all that must be the same."""
    coreset = model.coreset_
    known = ("coef_", "intercept_", "components_", "mean_", "explained_variance_")
    names = [name for name in known if hasattr(model, name)]
    own = [np.asarray(getattr(model, name)) for name in names]
    return [coreset.ids, coreset.weights, coreset.points, np.array(model.regret_.optimum), *own]


def given_to(model, rows, weights):
    y = () if isinstance(model, OnlineLowRank) else (Y[rows],)
    return (X[rows], *y), {"sample_weight": None if weights is None else weights[rows]}


def anywhere(n_shards, rng):
    return [0, *np.sort(rng.integers(0, N + 1, size=n_shards - 1)).tolist(), N]


def shards_of(model, cuts, weights=None):
    shards = []
    for start, stop in itertools.pairwise(cuts):
        shard = model.new_shard(start + int(model.first_id))
        if stop > start:
            rows, keywords = given_to(model, slice(start, stop), weights)
            shard.partial_fit(*rows, **keywords)
        shards.append(shard)
    return shards


def merged_at_random(shards, rng):
    while len(shards) > 1:
        rng.shuffle(shards)
        shards = [*shards[2:], shards[0].merge(shards[1])]
    return shards[0]


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("name", MODELS)
def test_shards_cut_anywhere_give_the_same_coreset(name, weighted):
    model, weights, rng = MODELS[name], WEIGHTS if weighted else None, np.random.default_rng(2)
    rows, keywords = given_to(model, slice(None), weights)
    expected = told(fresh(model).fit(*rows, **keywords))
    for n_shards in (2, 17):
        found = told(merged_at_random(shards_of(model, anywhere(n_shards, rng), weights), rng))
        assert all(map(np.array_equal, found[:3], expected[:3])), n_shards
        for one, other in zip(found[3:], expected[3:], strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-9 * np.abs(other).max())


def test_columns_that_need_other_coordinates_are_equal_as_well():
    """A time stamp beside its square: sums are shifted and whitened, and merged by QR."""
    time = 1.7e9 + np.arange(N)
    rows = np.column_stack([time, (time - 1.7e9) ** 2, X[:, 0], X[:, 0] + 1e-9 * X[:, 1]])
    model, rng = MODELS["regression"], np.random.default_rng(7)
    whole = fresh(model).fit(rows, Y)
    cuts = anywhere(5, rng)
    shards = [model.new_shard(a).partial_fit(rows[a:b], Y[a:b]) for a, b in itertools.pairwise(cuts)]
    merged = merged_at_random(shards, rng)
    assert merged.coreset_ == whole.coreset_
    np.testing.assert_allclose(merged.predict(rows), whole.predict(rows), rtol=1e-6, atol=1e-11)


def fresh(model):
    return type(model)(**model.get_params(deep=False))


def test_a_shard_has_no_prequential_loss_and_says_so():
    shard = MODELS["regression"].new_shard(0).partial_fit(X[:500], Y[:500])
    assert np.isnan([shard.regret_.loss, shard.regret_.ratio, shard.regret_.regret()]).all()
    assert "without order" in shard.regret_.reason
    assert "without order" in str(shard)
    assert shard.regret_.optimum > 0
    assert "nan" not in str(shard)


def test_a_merged_model_is_saved_and_goes_on(tmp_path):
    shards = shards_of(MODELS["regression"], anywhere(3, np.random.default_rng(3)))
    merged = merged_at_random(shards, np.random.default_rng(3))
    merged.save(tmp_path / "model.b2o")
    loaded = batch2online.load(tmp_path / "model.b2o")
    for model in (merged, loaded):
        model.partial_fit(X[:100], Y[:100])
    assert loaded.n_seen_ == merged.n_seen_ == N + 100
    assert all(map(np.array_equal, told(loaded)[:2], told(merged)[:2]))
    assert np.isnan(loaded.regret_.loss)


@pytest.mark.parametrize("name", ["regression", "centred", "uniform"])
def test_a_shard_that_travels_is_small_and_goes_on(name):
    shards = [MODELS[name].new_shard(0), MODELS[name].new_shard(0)]
    for start, stop in itertools.pairwise([0, 700, 3_333, 10_000]):
        rows, _ = given_to(MODELS[name], slice(start, stop), None)
        shards = [shards[0].partial_fit(*rows), pickle.loads(pickle.dumps(shards[1])).partial_fit(*rows)]
    assert len(pickle.dumps(shards[1])) < 40_000  # the rows are 400,000 bytes
    assert all(map(np.array_equal, told(shards[0]), told(shards[1])))


def test_shards_need_a_seed_and_all_rows():
    with pytest.raises(ValueError, match="random_state must be an integer"):
        OnlineRegression().new_shard(0)
    with pytest.raises(ValueError, match="not for a window"):
        OnlineRegression(window=100, random_state=0).new_shard(0).partial_fit(X[:10], Y[:10])
    shards = [MODELS["regression"].new_shard(0).partial_fit(X[:10], Y[:10]) for _ in range(2)]
    with pytest.raises(ValueError, match="both have seen ids"):
        shards[0].merge(shards[1])


def test_a_fitted_model_gives_its_own_seed_to_shards():
    model = OnlineRegression().fit(X[:100], Y[:100])
    merged = model.new_shard(100).partial_fit(X[100:300], Y[100:300]).merge(model)
    assert merged.n_seen_ == 300


def test_shards_of_a_classifier_are_streams_that_merge():
    labels = (Y > 0).astype(int)
    model = OnlineClassifier(random_state=0)
    shards = [model.new_shard(start).partial_fit(X[start:][:5_000], labels[start:][:5_000]) for start in (0, 5_000)]
    merged = shards[0].merge(shards[1])
    assert merged.n_seen_ == 10_000
    assert (merged.predict(X[:1_000]) == labels[:1_000]).mean() > 0.8


def test_ids_of_a_shard_must_be_consecutive():
    rows = np.random.default_rng(0).normal(size=(10, 2))
    model = OnlineRegression(random_state=0)
    shard = model.new_shard(100)
    shard.check_ids(np.arange(100, 104)).partial_fit(rows[:4], rows[:4, 0])
    shard.check_ids([]).check_ids(range(104, 110))
    for ids in ([105], [104, 106], [104, 104], [103], [105, 104]):
        with pytest.raises(ValueError, match=r"has the id .* expected 10\d: rows were dropped, repeated or moved"):
            shard.check_ids(ids)
    assert shard.check_ids([104]).partial_fit(rows[4:], rows[4:, 0]).n_seen_ == 10
    with pytest.raises(ValueError, match="Row 0 has the id 1, expected 0"):
        model.new_shard(0).check_ids(np.array([1, 2]))


@pytest.mark.parametrize("name", ["regression", "low rank", "uniform"])
def test_a_stream_goes_on_in_shards(name):
    model, rng = MODELS[name], np.random.default_rng(4)
    rows, keywords = given_to(model, slice(0, 3_000), None)
    stream = fresh(model).partial_fit(*rows, **keywords)
    found = told(stream.merge(merged_at_random(shards_of(model, [3_000, 10_000, N]), rng)))
    rows, keywords = given_to(model, slice(None), None)
    expected = told(fresh(model).fit(*rows, **keywords))
    assert all(map(np.array_equal, found[:3], expected[:3]))
    for one, other in zip(found[3:], expected[3:], strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-9 * np.abs(other).max())
