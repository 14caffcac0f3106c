"""A cluster gives the coreset of one machine, and its model up to rounding, whatever the partitions."""

import dask
import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest

import batch2online
import batch2online.dask as cluster
from batch2online import BatchToOnline, OnlineClustering, OnlineLowRank, OnlineRegression
from dask_cases import DOUBLING, SETS, STREAMS, WEIGHTS, N, X, Y, mean_loss, on_one_machine, rows_of, same, sizes


@pytest.fixture(autouse=True)
def _synchronous():
    with dask.config.set(scheduler="synchronous"):
        yield


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("name", SETS)
@pytest.mark.covering
def test_any_partitions_have_the_coreset_of_one_machine(name, weighted):
    weights = WEIGHTS if weighted else None
    expected = on_one_machine(SETS[name](), weights)
    for n_partitions in (2, 23):
        model = SETS[name]()
        assert same(cluster.fit(model, *rows_of(model, sizes(n_partitions, n_partitions), weights)), expected)


@pytest.mark.parametrize("name", STREAMS)
def test_shards_that_are_streams_cost_little_more_than_one_machine(name):
    alone = mean_loss(on_one_machine(STREAMS[name]()))
    for chunks in (sizes(7), (500,) * (N // 500)):
        model = STREAMS[name]()
        assert mean_loss(cluster.fit(model, *rows_of(model, chunks))) <= 1.03 * alone
        assert model.n_seen_ == N
        assert len(model.coreset_) < N / 2


def frame():
    return pd.DataFrame(X, columns=list("abc")).assign(y=Y)


def test_frames_of_unknown_lengths_are_counted():
    table = dd.from_pandas(frame(), npartitions=5, sort=False)
    model = cluster.fit(OnlineRegression(random_state=1), table, "y")
    expected = OnlineRegression(random_state=1).fit(frame()[["a", "b", "c"]], Y)
    assert same(model, expected)
    assert list(model.feature_names_in_) == ["a", "b", "c"]
    series = cluster.fit(OnlineRegression(random_state=1), table[["a", "b", "c"]], table["y"])
    assert same(series, expected)


def test_arrays_of_unknown_lengths_are_counted():
    everything = da.from_array(np.column_stack([X, Y]), chunks=(4_000, 4))
    some = everything[everything[:, 0] > 0]
    model = cluster.fit(OnlineRegression(random_state=1), some[:, :3], some[:, 3])
    kept = X[:, 0] > 0
    assert same(model, OnlineRegression(random_state=1).fit(X[kept], Y[kept]))


def delayed_pieces(values, n):
    return [dask.delayed(part) for part in np.array_split(values, n)]


def test_delayed_chunks_whatever_they_hold():
    expected = on_one_machine(SETS["regression"]())
    model = cluster.fit(SETS["regression"](), delayed_pieces(X, 3), delayed_pieces(Y, 3))
    assert same(model, expected)
    assert same(cluster.fit(SETS["regression"](), da.from_array(X, chunks=(9_000, 2)), Y), expected)
    together = da.from_array(np.column_stack([X, Y]), chunks=(9_000, 4))
    assert same(cluster.fit(SETS["regression"](), together, 3), expected)


@pytest.mark.parametrize("end", [10_000, 7_777])
def test_a_model_goes_on_where_it_was(end):
    expected = on_one_machine(SETS["regression"]())
    first, rest = slice(0, end), slice(end, N)
    on_cluster = cluster.fit(SETS["regression"](), delayed_pieces(X[first], 2), delayed_pieces(Y[first], 2))
    here = SETS["regression"]().fit(X[first], Y[first])
    for model in (on_cluster, here):
        cluster.partial_fit(model, delayed_pieces(X[rest], 3), delayed_pieces(Y[rest], 3))
        assert np.isnan(model.regret_.loss)
        assert same(model, expected)
    assert same(cluster.partial_fit(SETS["regression"](), delayed_pieces(X, 3), delayed_pieces(Y, 3)), expected)


def test_clusters_go_on_with_their_coreset():
    model = cluster.fit(OnlineClustering(4, random_state=1), delayed_pieces(X[:9_000], 3))
    cluster.partial_fit(model, delayed_pieces(X[9_000:], 3))
    assert model.n_seen_ == N
    assert model.score(X) >= 1.05 * on_one_machine(OnlineClustering(4, random_state=1)).score(X)
    with pytest.raises(ValueError, match='needs history="coreset"'):
        cluster.partial_fit(OnlineClustering(4, random_state=1).fit(X[:500]), delayed_pieces(X, 3))


@pytest.mark.parametrize("name", ["regression", "clusters", "any", "low rank"])
def test_the_result_is_an_ordinary_estimator(name, tmp_path):
    model = (SETS | STREAMS)[name]()
    cluster.fit(model, *rows_of(model, sizes(3)))
    assert np.isnan(model.regret_.loss)
    assert "without order" in model.regret_.reason
    assert "without order" in str(model)
    model.save(tmp_path / "model")
    loaded = batch2online.load(tmp_path / "model", trusted=True)
    assert same(model, loaded)
    for each in (model, loaded):
        each.partial_fit(X[:3_000], *([Y[:3_000]] if model._needs_targets else []))
    assert same(model, loaded)
    assert model.n_seen_ == N + 3_000


def test_any_estimator_is_sampled_by_its_rows_alone():
    from sklearn.tree import DecisionTreeRegressor

    def model():
        return BatchToOnline(DecisionTreeRegressor(max_depth=3), refresh=DOUBLING, coreset_size=200, random_state=0)

    found = [cluster.fit(model(), delayed_pieces(X, n), delayed_pieces(Y, n)) for n in (1, 6)]
    assert same(*found)
    np.testing.assert_array_equal(*(each.predict(X[:100]) for each in found))
    more = [cluster.partial_fit(each, delayed_pieces(X[:500], 2), delayed_pieces(Y[:500], 2)) for each in found]
    assert same(*more)


# -- predictions ------------------------------------------------------------------------------------------


def test_predictions_are_lazy_and_those_of_one_machine():
    model, rows = on_one_machine(SETS["regression"]()), da.from_array(X, chunks=(4_000, 2))
    found = cluster.predict(model, rows)
    assert found.shape == (N,)
    np.testing.assert_allclose(found.compute(), model.predict(X), rtol=1e-12)
    low_rank = on_one_machine(SETS["low rank"]())
    np.testing.assert_allclose(cluster.predict(low_rank, rows).compute(), low_rank.transform(X), atol=1e-12)
    distances = cluster.predict(on_one_machine(STREAMS["clusters"]()), rows, method="transform")
    assert distances.compute().shape == distances.shape == (N, 4)
    lists = cluster.predict(model, [*delayed_pieces(X, 3), dask.delayed(X[:0])])
    assert sum(map(len, dask.compute(*lists))) == N


def test_predictions_of_frames_keep_the_index():
    table = frame()[["a", "b", "c"]]
    model = OnlineRegression(random_state=1).fit(table, Y)
    found = cluster.predict(model, dd.from_pandas(table, npartitions=3)).compute()
    assert found.index.equals(table.index)
    np.testing.assert_allclose(found.to_numpy(), model.predict(table), rtol=1e-12)


# -- files ------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("rows")
    table = frame().assign(w=WEIGHTS)
    for number, start in enumerate(range(0, N, 8_000)):
        piece = table[start : start + 8_000]
        piece.to_parquet(path / f"rows-{number}.parquet", row_group_size=3_000)
        piece.to_csv(path / f"rows-{number}.csv", index=False)
        np.save(path / f"rows-{number}.npy", X[start : start + 8_000])
    return path


@pytest.mark.parametrize("kind", ["parquet", "csv"])
def test_files_are_partitions(folder, kind):
    given = {"target": "y", "columns": ["a", "b", "c"]}
    model = cluster.fit_files(OnlineRegression(random_state=1), f"{folder}/rows-*.{kind}", **given)
    assert same(model, OnlineRegression(random_state=1).fit(frame()[["a", "b", "c"]], Y))
    weighted = cluster.fit_files(
        OnlineRegression(random_state=1), f"{folder}/rows-*.{kind}", target="y", sample_weight="w"
    )
    assert same(weighted, OnlineRegression(random_state=1).fit(frame()[["a", "b", "c"]], Y, WEIGHTS))


def test_files_of_arrays(folder):
    model = cluster.fit_files(OnlineLowRank(2, random_state=1), sorted(folder.glob("*.npy")))
    assert same(model, OnlineLowRank(2, random_state=1).fit(X))
    with pytest.raises(FileNotFoundError, match=r"No file is called .*missing"):
        cluster.fit_files(OnlineLowRank(2), f"{folder}/missing-*.parquet")
    with pytest.raises(ValueError, match="No column is called 'z'"):
        cluster.fit_files(OnlineRegression(random_state=0), f"{folder}/rows-*.parquet", target="z")
