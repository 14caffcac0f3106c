"""The recipes of ``docs/cluster.md`` for engines that are not Dask: each gives the model of one machine."""

import copy
import functools
import pickle
import shutil
import sys
from concurrent.futures import ProcessPoolExecutor
from itertools import pairwise
from pathlib import Path

import joblib
import numpy as np
import pytest

from batch2online import OnlineRegression

N = 6_000
RNG = np.random.default_rng(0)
X = RNG.normal(size=(N, 3))
Y = X @ [1.0, 2.0, 3.0] + RNG.normal(size=N)
RANGES = list(pairwise([0, 1_000, 2_500, 2_501, 6_000]))
MODEL = OnlineRegression(random_state=0)


def learned(start, stop):
    return MODEL.new_shard(start).partial_fit(X[start:stop], Y[start:stop])


def merged(shards):
    return functools.reduce(lambda one, other: one.merge(other), shards)


def check(fitted):
    expected = OnlineRegression(random_state=0).fit(X, Y)
    np.testing.assert_array_equal(fitted.coef_, expected.coef_)
    assert fitted.coreset_ == expected.coreset_


def test_joblib():
    check(merged(joblib.Parallel(n_jobs=2, prefer="threads")(joblib.delayed(learned)(*own) for own in RANGES)))


@pytest.mark.slow
def test_concurrent_futures():
    with ProcessPoolExecutor(2) as pool:
        check(merged(list(pool.map(learned, *zip(*RANGES, strict=True)))))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_ray():
    ray = pytest.importorskip("ray")
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
    try:
        learn = ray.remote(lambda start, x, y: MODEL.new_shard(start).partial_fit(x, y))
        merge = ray.remote(lambda one, other: copy.copy(one).merge(other))
        shards = [learn.remote(start, X[start:stop], Y[start:stop]) for start, stop in RANGES]
        while len(shards) > 1:
            shards = [merge.remote(*shards[at : at + 2]) for at in range(0, len(shards), 2)]
        check(ray.get(shards[0]))
    finally:
        ray.shutdown()


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_spark(tmp_path, monkeypatch):
    if shutil.which("java") is None:
        pytest.skip("Spark needs Java.")
    sql = pytest.importorskip("pyspark.sql")
    import pandas as pd
    import pyarrow

    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    monkeypatch.setenv("SPARK_LOCAL_IP", "127.0.0.1")
    model = MODEL

    def learned_by_spark(batches):
        shard = None
        for batch in batches:
            rows = batch.to_pandas()
            shard = shard or model.new_shard(int(rows["id"].iloc[0]))
            shard.partial_fit(rows[["a", "b", "c"]].to_numpy(), rows["y"].to_numpy())
        if shard is not None:
            yield pyarrow.RecordBatch.from_pydict({"shard": [pickle.dumps(shard)]})

    table = pd.DataFrame(X, columns=list("abc")).assign(y=Y, id=np.arange(N))
    for number, (start, stop) in enumerate(RANGES):
        table[start:stop].to_parquet(tmp_path / f"rows-{number}.parquet")
    settings = {
        "spark.ui.enabled": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.sql.files.openCostInBytes": "200000000",
    }
    session = functools.reduce(lambda made, one: made.config(*one), settings.items(), sql.SparkSession.builder)
    spark = session.master("local[2]").getOrCreate()
    try:
        frame = spark.read.parquet(str(tmp_path))
        rows = frame.mapInArrow(learned_by_spark, "shard binary").collect()
        check(merged([pickle.loads(row["shard"]) for row in rows]))
    finally:
        spark.stop()


def test_the_page_holds_the_recipes():
    page = Path(__file__).resolve().parent.parent.joinpath("docs", "cluster.md").read_text(encoding="utf-8")
    for line in (
        "model.new_shard(start).partial_fit",
        "functools.reduce(lambda one, other: one.merge(other), shards)",
        "copy.copy(one).merge(other)",
        'frame.mapInArrow(learned, "shard binary").collect()',
    ):
        assert line in page
