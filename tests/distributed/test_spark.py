"""A Spark DataFrame gives the coreset of one machine, and its model up to rounding, whatever the partitions."""

import os
import shutil
import sys
import warnings
from importlib.util import find_spec
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest

from batch2online import BatchToOnline, OnlineClassifier, OnlineClustering, OnlineLowRank, OnlineRegression
from dask_cases import same

if find_spec("pyspark") is None or shutil.which("java") is None:
    pytest.skip("Spark or Java is not installed.", allow_module_level=True)

from pyspark.sql import SparkSession

import batch2online.spark as cluster
from batch2online.distributed.shards import PartitionError

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore::ResourceWarning")]

N = 60_000
INPUTS = ["a", "b", "c"]
_RNG = np.random.default_rng(0)
X = _RNG.normal(size=(N, 3)) + 4 * np.eye(3)[_RNG.integers(0, 3, size=N)]
Y = X @ [1.0, -2.0, 0.5] + _RNG.normal(size=N)
TABLE = pd.DataFrame(X, columns=INPUTS).assign(
    y=Y, w=np.where(np.arange(N) % 17 == 0, 0.0, _RNG.exponential(size=N)), sign=np.where(Y > 1, "high", "low")
)
SMALL = TABLE[1:3_001].reset_index(drop=True)  # weights of the first rows are positive

EXACT = {
    "regression": lambda: OnlineRegression(random_state=1),
    "decay": lambda: OnlineRegression(random_state=1, half_life=9_000, first_id=12_345),
    "low rank": lambda: OnlineLowRank(2, center=True, random_state=1),
}
"""Estimators whose coreset on a cluster is that of one machine."""


@pytest.fixture(scope="module")
def spark():
    os.environ |= {"PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
    settings = {
        "spark.ui.enabled": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.sql.shuffle.partitions": "3",
        "spark.sql.execution.arrow.maxRecordsPerBatch": "7001",
        "spark.log.level": "OFF",
    }
    builder = SparkSession.builder.master("local[2]")
    for name, value in settings.items():
        builder = builder.config(name, value)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        session = builder.getOrCreate()
        yield session
        session.stop()


@pytest.fixture(scope="module")
def stored(spark, tmp_path_factory):
    """The rows in seven files of different sizes, which Spark reads in partitions of its own."""
    folder = tmp_path_factory.mktemp("rows")
    cuts = [0, *np.sort(_RNG.integers(0, N, size=6)).tolist(), N]
    for number, (start, stop) in enumerate(pairwise(cuts)):
        TABLE[start:stop].to_parquet(folder / f"rows-{number}.parquet")
    return folder


def in_files_order(spark, folder):
    """Return a frame whose partitions are the files, in the order of their names."""
    spark.conf.set("spark.sql.files.openCostInBytes", "200000000")
    frames = [spark.read.parquet(str(path)) for path in sorted(folder.iterdir()) if path.suffix == ".parquet"]
    whole = frames[0]
    for frame in frames[1:]:
        whole = whole.union(frame)
    return whole


@pytest.mark.parametrize("weight", [None, "w"])
@pytest.mark.parametrize("name", EXACT)
@pytest.mark.few(4)
def test_partitions_are_one_machine(name, weight, spark, stored):
    model, alone = EXACT[name](), EXACT[name]()
    target = "y" if model._needs_targets else None
    found = cluster.fit(model, in_files_order(spark, stored), target, columns=INPUTS, sample_weight=weight)
    assert found is model
    weights = None if weight is None else TABLE[weight]
    expected = alone.fit(TABLE[INPUTS], *([Y] if target else []), sample_weight=weights)
    assert same(model, expected)
    assert list(model.feature_names_in_) == INPUTS


def test_labels_are_strings_and_features_are_inferred(spark):
    frame = spark.createDataFrame(SMALL.drop(columns=["w", "y"]).assign(day="Mo")).coalesce(1)
    model = cluster.fit(OnlineClassifier(random_state=1, columns="auto"), frame, "sign")
    alone = OnlineClassifier(random_state=1, columns="auto").fit(SMALL[INPUTS].assign(day="Mo"), SMALL["sign"])
    assert same(model, alone)
    assert set(model.classes_) == {"high", "low"}
    rows = cluster.predict(model, frame).toPandas()
    assert (rows["prediction"] == alone.predict(SMALL[INPUTS].assign(day="Mo"))).all()
    shares = cluster.predict(model, frame, method="predict_proba", column="p").toPandas()["p"]
    np.testing.assert_array_equal(np.stack(shares), alone.predict_proba(SMALL[INPUTS].assign(day="Mo")))


def test_further_rows(spark):
    parts = [spark.createDataFrame(part[[*INPUTS, "y"]]).coalesce(1) for part in (SMALL[:1_000], SMALL[1_000:])]
    model = cluster.partial_fit(OnlineRegression(random_state=1), parts[0], "y")
    alone = OnlineRegression(random_state=1).fit(SMALL[INPUTS], SMALL["y"])
    cluster.partial_fit(model, parts[1], "y")
    assert model.coreset_ == alone.coreset_
    np.testing.assert_allclose(model.coef_, alone.coef_, rtol=1e-9)
    rows = OnlineClustering(2, random_state=1).fit(SMALL[INPUTS])
    with pytest.raises(ValueError, match='needs history="coreset"'):
        cluster.partial_fit(rows, parts[1], columns=INPUTS)


def test_many_shards_merge_on_the_cluster(spark, monkeypatch):
    """With groups of two, seven partitions merge in two rounds on the executors and one on the driver."""
    monkeypatch.setattr("batch2online.distributed.spark.TOGETHER", 2)
    frame = spark.createDataFrame(TABLE[[*INPUTS, "y"]]).repartitionByRange(7, "a").persist()
    model = cluster.fit(OnlineRegression(random_state=1), frame, "y")
    assert model.n_seen_ == N
    alone = OnlineRegression(random_state=1).fit(TABLE[INPUTS], Y)
    np.testing.assert_allclose(model.coef_, alone.coef_, rtol=1e-9)


def test_clusters_cost_little_more_than_on_one_machine(spark, stored):
    model = cluster.fit(OnlineClustering(4, random_state=1), in_files_order(spark, stored), columns=INPUTS)
    alone = OnlineClustering(4, random_state=1).fit(TABLE[INPUTS])
    assert model.score(TABLE[INPUTS]) >= 1.03 * alone.score(TABLE[INPUTS])


BAD = {
    "a target that is infinite": (lambda rows: rows.assign(y=rows["y"].where(rows.index != 7, np.inf)), "infinity"),
    "no rows": (lambda rows: rows[:0], "There are no rows"),
    "a negative weight": (lambda rows: rows.assign(w=-1.0), "sample_weight"),
}


@pytest.mark.parametrize("kind", BAD)
def test_bad_rows_are_named_and_the_model_stays(kind, spark):
    spoil, message = BAD[kind]
    model = OnlineRegression(random_state=1).fit(SMALL[INPUTS], SMALL["y"])
    before = model.coef_.copy()
    wanted = [*INPUTS, "y", "w"]
    schema = spark.createDataFrame(SMALL[wanted]).schema if kind == "no rows" else None
    frame = spark.createDataFrame(spoil(SMALL[wanted]), schema)
    with pytest.raises(PartitionError, match=message):
        cluster.fit(model, frame, "y", sample_weight="w")
    np.testing.assert_array_equal(model.coef_, before)
    with pytest.raises(PartitionError, match=message):
        cluster.fit(OnlineClustering(2, random_state=1), frame, columns=wanted[:-1], sample_weight="w")


def test_clear_errors_before_anything_runs(spark):
    frame = spark.createDataFrame(SMALL[[*INPUTS, "y"]])
    with pytest.raises(ValueError, match="Column 'z' is not in the frame"):
        cluster.fit(OnlineRegression(), frame, "z")
    with pytest.raises(TypeError, match="model must be an estimator of batch2online, got str"):
        cluster.fit("model", frame, "y")
    model = OnlineRegression(random_state=0).fit(SMALL[INPUTS], SMALL["y"])
    with pytest.raises(ValueError, match="has a column 'y' already"):
        cluster.predict(model, frame, column="y")
    with pytest.raises(ValueError, match="Column 'b', which the model has learned"):
        cluster.predict(model, frame.drop("b"))


def test_a_frame_that_gives_other_rows_the_second_time_is_noticed(spark):
    from pyspark.sql import functions

    frame = spark.range(5_000).select(functions.rand().alias("a"), functions.rand().alias("b"))
    sometimes = frame.filter("rand() < 0.5")
    with pytest.raises(PartitionError, match="gave other rows when it was read again"):
        cluster.fit(OnlineLowRank(1, random_state=0), _unseeded(sometimes))


def _unseeded(frame):
    """Return a frame that keeps about half of the rows, others each time."""

    import pyarrow

    def half(batches):
        rng = np.random.default_rng()
        for batch in batches:
            yield batch.filter(pyarrow.array(rng.random(len(batch)) < 0.5))

    return frame.mapInArrow(half, frame.schema)


def test_wrapped_estimators(spark):
    from sklearn.linear_model import Ridge

    frame = spark.createDataFrame(SMALL[[*INPUTS, "y"]]).coalesce(1)
    model = cluster.fit(BatchToOnline(Ridge(), random_state=1), frame, "y")
    assert model.score(SMALL[INPUTS], SMALL["y"]) > 0.5
