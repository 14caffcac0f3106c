"""Tables that speak Arrow's PyCapsule protocol are rows like any others."""

from __future__ import annotations

import numpy as np
import polars as pl
import pyarrow as pa
import pytest
from sklearn.cluster import KMeans
from sklearn.compose import make_column_transformer
from sklearn.decomposition import PCA
from sklearn.linear_model import Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from batch2online import BatchToOnline, OnlineClassifier, OnlineClustering, OnlineLowRank, OnlineRegression
from batch2online.tables import capsules

N = 200
RNG = np.random.default_rng(0)
TABLE = pa.table({"a": RNG.normal(size=N), "b": RNG.normal(size=N)})
Y = np.asarray(TABLE["a"]) * 2 + 1


class Stream:
    """An object that exports a stream, as often as it is asked for."""

    def __init__(self, table):
        self.table = table

    def __arrow_c_stream__(self, requested_schema=None):
        return self.table.__arrow_c_stream__(requested_schema)


class OneBatch:
    """An object that exports one array."""

    def __init__(self, table):
        self.batch = table.combine_chunks().to_batches()[0]

    def __arrow_c_array__(self, requested_schema=None):
        return self.batch.__arrow_c_array__(requested_schema)


def relation(table):
    return pytest.importorskip("duckdb").from_arrow(table)


EXPORTS = {
    "reader": pa.Table.to_reader,
    "stream": Stream,
    "array": OneBatch,
    "struct": lambda table: table.combine_chunks().to_batches()[0].to_struct_array(),
    "duckdb": relation,
    "polars": pl.from_arrow,
}
MODELS = {
    "regression": (lambda: OnlineRegression(random_state=0), Y),
    "classifier": (lambda: OnlineClassifier(random_state=0), Y > 1),
    "clustering": (lambda: OnlineClustering(3, random_state=0), None),
    "low rank": (lambda: OnlineLowRank(1, random_state=0), None),
    "ridge": (lambda: BatchToOnline(Ridge(), random_state=0), Y),
    "k-means": (lambda: BatchToOnline(KMeans(3, n_init=1, random_state=0), random_state=0), None),
    "PCA": (lambda: BatchToOnline(PCA(1), random_state=0, resample=True), None),
}


@pytest.mark.parametrize("export", EXPORTS)
@pytest.mark.parametrize("name", MODELS)
@pytest.mark.covering
def test_every_estimator_takes_them(name, export):
    make, y = MODELS[name]
    give = EXPORTS[export]
    expected = make().fit(TABLE, y)
    for learned in (make().fit(give(TABLE), y), make().partial_fit(give(TABLE), y)):
        assert learned.n_seen_ == N
        assert learned.feature_names_in_.tolist() == ["a", "b"]
        assert learned.coreset_ == expected.coreset_
    for method in ("predict", "transform", "predict_proba", "score_samples"):
        if hasattr(expected, method):
            answers = getattr(expected, method)
            np.testing.assert_allclose(answers(give(TABLE)), answers(TABLE), rtol=1e-10, atol=1e-12)
    for method in ("fit_transform", "fit_predict"):
        if hasattr(expected, method):
            answers = [getattr(make(), method)(rows, y) for rows in (give(TABLE), TABLE)]
            np.testing.assert_allclose(*answers, rtol=1e-10, atol=1e-12)  # rows lie in memory otherwise in polars


@pytest.mark.parametrize("export", EXPORTS)
def test_string_and_missing_values_of_a_table(export):
    table = TABLE.append_column("c", pa.array(["x", None] * (N // 2)))
    steps = make_column_transformer((StandardScaler(), ["a", "b"]), (OneHotEncoder(handle_unknown="ignore"), ["c"]))
    model = BatchToOnline(make_pipeline(steps, Ridge()), random_state=0)
    model.partial_fit(EXPORTS[export](table), Y)
    np.testing.assert_array_equal(model.predict(EXPORTS[export](table)), model.predict(table))


@pytest.mark.parametrize("export", ["stream", "array", "duckdb"])
def test_targets_and_weights(export):
    give = EXPORTS[export]
    weights = np.linspace(1, 2, N)
    expected = OnlineRegression(random_state=0).fit(TABLE, Y, weights)
    own = give(pa.table({"y": Y})), give(pa.table({"w": weights}))
    assert OnlineRegression(random_state=0).fit(TABLE, *own).coreset_ == expected.coreset_
    both = OnlineRegression(random_state=0).fit(TABLE, give(pa.table({"y": Y, "z": -Y})))
    np.testing.assert_array_equal(both.coef_, OnlineRegression(random_state=0).fit(TABLE, np.c_[Y, -Y]).coef_)
    plain = Stream(pa.chunked_array([Y]))
    np.testing.assert_array_equal(capsules.column(plain, "y"), Y)


@pytest.mark.parametrize("name", MODELS)
def test_a_stream_that_was_read_is_one_sentence(name):
    make, y = MODELS[name]
    reader, capsule = TABLE.to_reader(), TABLE.__arrow_c_stream__()
    model = make().partial_fit(reader, y)
    before = model.coreset_
    for call in (
        lambda: model.partial_fit(reader, y),
        lambda: model.fit(reader, y),
        lambda: getattr(model, "predict", getattr(model, "transform", None))(reader),
        lambda: make().fit(reader, y),
    ):
        with pytest.raises(ValueError, match=r"RecordBatchReader, has no rows\. If it is a stream"):
            call()

    class Once:
        def __arrow_c_stream__(self, requested_schema=None):
            return capsule

    with pytest.raises(ValueError, match="X, a Once, cannot be read"):
        make().fit(Once(), y).fit(Once(), y)
    assert model.n_seen_ == N
    assert model.coreset_ == before


def test_a_column_is_no_table():
    for column in (TABLE["a"], TABLE["a"].chunk(0)):
        with pytest.raises(ValueError, match="Expected 2D array"):
            OnlineLowRank(1, random_state=0).fit(column)
