"""Dask frames of every origin: persisted, cut anew, concatenated, joined, made from delayed objects."""

from __future__ import annotations

import dask
import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
from dask import delayed

import batch2online.dask as cluster
from batch2online import OnlineClassifier, OnlineClustering, OnlineRegression
from dask_cases import same

N = 1_200
RNG = np.random.default_rng(0)
FRAME = pd.DataFrame(RNG.normal(size=(N, 3)), columns=list("abc"))
FRAME["y"] = FRAME["a"] - FRAME["b"] + RNG.normal(size=N)
PARTS = [FRAME[:500], FRAME[500:500], FRAME[500:]]
HALVES = [dd.from_pandas(PARTS[0], npartitions=2), dd.from_pandas(PARTS[2], npartitions=3)]


def plain(n=4):
    return dd.from_pandas(FRAME, npartitions=n)


def from_delayed(**given):
    return dd.from_delayed([delayed(part) for part in PARTS], meta=FRAME.iloc[:0], verify_meta=False, **given)


def joined():
    return plain()[["a", "b"]].join(plain(3)[["c", "y"]])


FRAMES = {
    "from_pandas": plain,
    "persisted": lambda: plain().persist(),
    "repartitioned": lambda: plain().repartition(npartitions=3),
    "concatenated": lambda: dd.concat(HALVES),
    "joined": joined,
    "from delayed": from_delayed,
    "from delayed, persisted": lambda: from_delayed().persist(),
    "from_map": lambda: dd.from_map(lambda part: PARTS[part], range(3), meta=FRAME.iloc[:0]),
}
MODELS = {
    "regression": lambda: OnlineRegression(random_state=0),
    "classifier": lambda: OnlineClassifier(random_state=0),
    "clusters": lambda: OnlineClustering(3, random_state=0),
    "bounded clusters": lambda: OnlineClustering(3, history="coreset", random_state=0),
}


def targets_of(model, table):
    """Return the rows and what cluster.fit is given as targets."""
    if isinstance(model, OnlineClustering):
        return table.drop(columns="y"), None
    if isinstance(model, OnlineClassifier):
        return table.drop(columns="y"), table["y"] > 0
    return table, "y"


def check(name, make):
    model = make()
    found = cluster.fit(model, *targets_of(model, FRAMES[name]()))
    assert found.n_seen_ == N
    if isinstance(found, OnlineRegression):
        assert same(found, make().fit(FRAME.drop(columns="y"), FRAME["y"]))
    again = cluster.partial_fit(make(), *targets_of(model, FRAMES[name]()))
    assert again.n_seen_ == N
    inputs = FRAMES[name]().drop(columns="y")
    if hasattr(found, "coef_"):
        np.testing.assert_array_equal(
            cluster.predict(found, inputs).compute().sort_index(), found.predict(FRAME.drop(columns="y"))
        )


CASES = [(name, "regression") for name in FRAMES]
CASES += [(name, model) for name in ("persisted", "from delayed") for model in MODELS if model != "regression"]


@pytest.mark.parametrize(("name", "model"), CASES)
def test_threads(name, model):
    with dask.config.set(scheduler="threads", num_workers=2):
        check(name, MODELS[model])


@pytest.mark.parametrize("scheduler", ["synchronous", pytest.param("processes", marks=pytest.mark.full)])
def test_other_schedulers_of_dask(scheduler):
    with dask.config.set(scheduler=scheduler, num_workers=2):
        for name in ("persisted", "repartitioned", "from delayed"):
            check(name, MODELS["regression"])


@pytest.mark.parametrize("is_persisted", [False, True])
def test_arrays_that_share_tasks(is_persisted):
    rows = da.from_array(FRAME.to_numpy(), chunks=(300, 4))
    rows = da.concatenate([rows[:500], rows[500:]]).rechunk((350, 4)) + 0 * rows.mean()
    rows = rows.persist() if is_persisted else rows
    found = cluster.fit(OnlineRegression(random_state=0), rows, 3)
    expected = OnlineRegression(random_state=0).fit(np.asarray(rows)[:, :3], np.asarray(rows)[:, 3])
    assert same(found, expected)


def test_delayed_chunks_that_share_a_source():
    source = delayed(FRAME)
    chunks = [source.iloc[start : start + 300] for start in range(0, N, 300)]
    found = cluster.fit(OnlineRegression(random_state=0), [delayed(lambda part: part)(chunk) for chunk in chunks], "y")
    assert same(found, OnlineRegression(random_state=0).fit(FRAME.drop(columns="y"), FRAME["y"]))


@pytest.mark.slow
@pytest.mark.parametrize("processes", [False, True])
@pytest.mark.full
def test_a_local_cluster(processes):
    """Frames that hold futures or are computed by several workers; the others as in ``test_threads``."""
    from distributed import Client, LocalCluster

    settings = {"n_workers": 2, "threads_per_worker": 1, "processes": processes, "dashboard_address": None}
    with LocalCluster(**settings) as own, Client(own):
        for name in ("persisted",) if processes else ("repartitioned", "concatenated", "from delayed, persisted"):
            check(name, MODELS["regression"])
        for name in ("classifier",) if processes else ("clusters", "bounded clusters"):
            check("from delayed" if processes else "persisted", MODELS[name])
        heard = []
        table = FRAMES["persisted"]()
        cluster.fit(OnlineRegression(random_state=0), table, "y", progress=lambda done, n: heard.append((done, n)))
        assert heard[-1] == (4, 4)
