"""Times with a zone and without: points in time and readings of a clock never mix, whatever they come in."""

from __future__ import annotations

import datetime as dt
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from sklearn.compose import make_column_transformer
from sklearn.linear_model import Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler

from batch2online import BatchToOnline
from batch2online.schema import check_instance
from batch2online.tables.columns import ColumnType
from batch2online.tables.row_encoding import Form, read, read_one
from batch2online.tables.strings import StringTable

N = 40
BERLIN = pd.date_range("2024-07-01 12:00", periods=N, freq="h", tz="Europe/Berlin")
NOON = pd.Timestamp("2024-07-01 12:00", tz="Europe/Berlin")


CONTAINERS = {
    "pandas": lambda frame: frame,
    "polars": pl.from_pandas,
    "arrow": lambda frame: pa.Table.from_pandas(frame, preserve_index=False),
}


def frame_of(when):
    return pd.DataFrame({"a": np.arange(float(len(when))), "when": when})


def hours(column):
    """Return hours since 1970 of a column of times with a zone, of any kind of table."""
    values = pd.Series(column.to_pandas() if hasattr(column, "to_pandas") else column)
    return ((pd.to_datetime(values, utc=True) - pd.Timestamp(0, tz="UTC")) / pd.Timedelta("1h")).to_numpy()[:, None]


def model():
    steps = make_column_transformer((StandardScaler(), ["a"]))
    return BatchToOnline(make_pipeline(steps, Ridge()), random_state=0)


def instants(points):
    """Return the times of a coreset in microseconds."""
    column = points["when"]
    values = column.to_list() if hasattr(column, "to_list") else column.to_pylist()
    return [pd.Timestamp(value).value // 1000 for value in values]


@pytest.mark.parametrize("later", CONTAINERS)
@pytest.mark.parametrize("first", CONTAINERS)
def test_times_without_a_zone_are_refused_among_those_with_one(first, later):
    learned = model().partial_fit(CONTAINERS[first](frame_of(BERLIN)), np.arange(N))
    naive = frame_of(BERLIN.tz_localize(None)).mask(lambda frame: frame["a"] < 2).assign(a=1.0)
    before = learned.coreset_
    for call in (lambda X: learned.partial_fit(X, np.arange(N)), learned.predict):
        with pytest.raises(ValueError, match=r"Row 2, column 'when', holds a time without a zone.*tz_localize"):
            call(CONTAINERS[later](naive))
    assert learned.n_seen_ == N
    assert learned.coreset_ == before


@pytest.mark.parametrize("later", CONTAINERS)
@pytest.mark.parametrize("first", CONTAINERS)
def test_times_with_a_zone_are_refused_among_those_without(first, later):
    learned = model().partial_fit(CONTAINERS[first](frame_of(BERLIN.tz_localize(None))), np.arange(N))
    with pytest.raises(ValueError, match=r"Row 0, column 'when', holds a time with a zone, but times without"):
        learned.partial_fit(CONTAINERS[later](frame_of(BERLIN)), np.arange(N))
    with pytest.raises(ValueError, match="holds a time with a zone, but times without"):
        learned.predict_one({"a": 1.0, "when": NOON})


@pytest.mark.parametrize("later", CONTAINERS)
@pytest.mark.parametrize("first", CONTAINERS)
@pytest.mark.parametrize("zone", ["Asia/Tokyo", "UTC"])
def test_another_zone_is_converted(first, later, zone):
    learned = model().partial_fit(CONTAINERS[first](frame_of(BERLIN[: N // 2])), np.arange(N // 2))
    there = BERLIN[N // 2 :].tz_convert(zone)
    learned.partial_fit(CONTAINERS[later](frame_of(there)), np.arange(N // 2))
    points = learned.coreset_.points
    assert instants(points) == (BERLIN.asi8 // 1000).tolist()
    assert "Europe/Berlin" in str(points["when"].dtype if hasattr(points["when"], "dtype") else points["when"].type)


SAME = {
    "pandas": NOON,
    "another zone of pandas": NOON.tz_convert("Asia/Tokyo"),
    "datetime": NOON.to_pydatetime(),
    "utc": dt.datetime(2024, 7, 1, 10, tzinfo=dt.UTC),
    "zoneinfo": dt.datetime(2024, 7, 1, 12, tzinfo=ZoneInfo("Europe/Berlin")),
    "offset": dt.datetime(2024, 7, 1, 5, tzinfo=dt.timezone(dt.timedelta(hours=-5))),
}
NAIVE = {
    "pandas": pd.Timestamp("2024-07-01 12:00"),
    "datetime": dt.datetime(2024, 7, 1, 12),
    "numpy": np.datetime64("2024-07-01T12:00"),
    "nanoseconds": np.datetime64("2024-07-01T12:00", "ns"),
}


def learns_the_hour():
    """Return a model whose prediction is the time itself, as far as a line gives it."""
    steps = make_column_transformer((FunctionTransformer(hours), "when"))
    return BatchToOnline(make_pipeline(steps, Ridge(alpha=1e-9)), random_state=0)


@pytest.mark.parametrize("first", CONTAINERS)
@pytest.mark.parametrize("value", SAME)
def test_single_rows_with_a_zone(first, value):
    learned = learns_the_hour().partial_fit(CONTAINERS[first](frame_of(BERLIN)), np.arange(N))
    expected = learned.predict(CONTAINERS[first](frame_of(BERLIN[:1])))[0]
    assert learned.predict_one({"a": 0.0, "when": SAME[value]}) == expected
    learned.learn_one({"a": 0.0, "when": SAME[value]}, 0.0)
    assert instants(learned.coreset_.points)[-1] == NOON.value // 1000
    for wrong in (*NAIVE.values(), dt.date(2024, 7, 1)):
        with pytest.raises(ValueError, match=r"Row 0, column 'when', holds a time without a zone"):
            learned.learn_one({"a": 0.0, "when": wrong}, 0.0)
        with pytest.raises(ValueError, match="without a zone"):
            learned.predict_one({"a": 0.0, "when": wrong})
    assert learned.n_seen_ == N + 1


@pytest.mark.parametrize("first", CONTAINERS)
@pytest.mark.parametrize("value", NAIVE)
def test_single_rows_without_a_zone(first, value):
    learned = model().partial_fit(CONTAINERS[first](frame_of(BERLIN.tz_localize(None))), np.arange(N))
    learned.learn_one({"a": 0.0, "when": NAIVE[value]}, 0.0)
    assert instants(learned.coreset_.points)[-1] == pd.Timestamp("2024-07-01 12:00").value // 1000
    assert np.isfinite(learned.predict_one({"a": 0.0, "when": NAIVE[value]}))
    for missing in (None, pd.NaT, np.datetime64("NaT")):
        assert np.isfinite(learned.predict_one({"a": 0.0, "when": missing}))


@pytest.mark.parametrize("value", SAME)
def test_a_first_row_with_a_zone_makes_a_column_with_one(value):
    learned = model().learn_one({"a": 0.0, "when": SAME[value]}, 0.0)
    assert instants(learned.coreset_.points) == [NOON.value // 1000]
    with pytest.raises(ValueError, match="without a zone"):
        learned.learn_one({"a": 0.0, "when": NAIVE["datetime"]}, 0.0)


def test_objects_with_a_zone():
    values = [SAME["offset"], None, SAME["zoneinfo"]]
    array = np.array([[value, "x"] for value in values], dtype=object)
    points, table, texts = read(array)
    known = StringTable(texts)
    assert table.columns[0].kind == ColumnType.ZONED
    assert table.decoded(points, known)[[0, 2], 0].tolist() == [SAME["utc"]] * 2
    frame = pd.DataFrame({"when": pd.Series(values, dtype=object)})
    assert pd.to_datetime(again(frame)["when"], utc=True).tolist() == [NOON, pd.NaT, NOON]
    for mixed, row in (([SAME["utc"], NAIVE["datetime"]], 1), ([NAIVE["pandas"], None, SAME["pandas"]], 2)):
        with pytest.raises(ValueError, match=rf"Row {row}, .*a time( with a zone)? in a column of type time"):
            read(pd.DataFrame({"when": pd.Series(mixed, dtype=object)}))


def again(frame):
    points, table, texts = read(frame)
    return table.decoded(points, StringTable(texts))


def test_categories_of_times_keep_the_points_in_time():
    frame = pd.DataFrame({"when": pd.Categorical([NOON, BERLIN[1], NOON])})
    assert pd.DatetimeIndex(again(frame)["when"].astype("datetime64[us, UTC]")).tolist() == [NOON, BERLIN[1], NOON]
    table = pa.table({"when": pa.array([NOON, BERLIN[1], NOON]).dictionary_encode()})
    assert again(table)["when"].to_pylist() == [NOON, BERLIN[1], NOON]
    with pytest.raises(ValueError, match="without a zone"):
        read(pd.DataFrame({"when": pd.Categorical([NOON.tz_localize(None)])}), read(frame)[1])


@pytest.mark.parametrize("zone", [dt.timezone(dt.timedelta(hours=2)), "UTC+02:00", ZoneInfo("Asia/Tokyo")])
@pytest.mark.slow
def test_zones_of_other_names_come_back(zone, tmp_path):
    frame = frame_of(BERLIN.tz_convert(zone))
    assert str(again(frame)["when"].dtype) == str(frame["when"].dtype)
    assert again(frame)["when"].tolist() == BERLIN.tolist()
    learned = model().partial_fit(frame, np.arange(N))
    learned.save(tmp_path / "model.b2o")
    back = BatchToOnline.restore(tmp_path / "model.b2o", estimator=model().estimator)
    assert back.coreset_ == learned.coreset_


def test_a_zone_that_has_no_name_is_utc():
    class Nameless(dt.tzinfo):
        def utcoffset(self, when):
            return dt.timedelta(hours=2)

        def dst(self, when):
            return dt.timedelta(0)

        def __repr__(self):
            return "Nameless(2)"

    values = pd.Series([dt.datetime(2024, 7, 1, 12, tzinfo=Nameless())])
    assert again(pd.DataFrame({"when": values}))["when"].dt.tz_convert("UTC").tolist() == [NOON]


def test_columns_of_arrow_in_pandas():
    typed = pd.Series(BERLIN).astype(pd.ArrowDtype(pa.timestamp("us", "Europe/Berlin")))
    assert again(pd.DataFrame({"when": typed}))["when"].tolist() == BERLIN.tolist()
    days = pd.Series([dt.date(2024, 7, 1), None], dtype=pd.ArrowDtype(pa.date32()))
    assert again(pd.DataFrame({"day": days}))["day"].tolist()[0] == dt.date(2024, 7, 1)


@pytest.mark.parametrize("later", [*CONTAINERS, "row"])
@pytest.mark.parametrize("first", CONTAINERS)
def test_the_first_values_of_an_empty_column_decide(first, later):
    missing = {"pandas": pd.DataFrame({"when": [None]}), "polars": pl.DataFrame({"when": [None]})}
    _, table, _ = read(missing.get(first, pa.table({"when": pa.nulls(1)})))
    given = frame_of(BERLIN[:1])[["when"]]
    points, new, texts = read_one([NOON], table) if later == "row" else read(CONTAINERS[later](given), table)
    assert new.columns[0].kind == ColumnType.ZONED
    assert instants(new.decoded(points, StringTable(texts))) == [NOON.value // 1000]


def test_a_zone_that_polars_does_not_know_is_utc():
    _, table, _ = read(pl.DataFrame({"when": [None]}))
    points, new, texts = read(pa.table({"when": pa.array([NOON.tz_convert("+05:30")])}), table)
    assert new.decoded(points, StringTable(texts))["when"].to_list() == [NOON]


def test_dates_among_times_are_midnight():
    times = pd.DataFrame({"when": pd.to_datetime(["2024-07-01 12:00", "2024-07-02 00:00"])})
    _, table, _ = read(times)
    for dates in (
        pd.DataFrame({"when": [dt.date(2024, 7, 3), None, dt.date(1969, 12, 31)]}),
        pl.DataFrame({"when": [dt.date(2024, 7, 3), None, dt.date(1969, 12, 31)]}),
        pa.table({"when": pa.array([dt.date(2024, 7, 3), None, dt.date(1969, 12, 31)])}),
    ):
        points, new, texts = read(dates, table)
        given = new.decoded(points, StringTable(texts))["when"].tolist()
        assert given == [pd.Timestamp("2024-07-03"), pd.NaT, pd.Timestamp("1969-12-31")]
        with pytest.raises(ValueError, match="Row 0, column 'when', holds a time without a zone"):
            read(dates, read(times.assign(when=times["when"].dt.tz_localize("UTC")))[1])


@pytest.mark.parametrize(
    ("value", "why"),
    [
        (np.datetime64("2024-07-01T12:00:00.000000001"), "finer than a microsecond"),
        (pd.Timestamp("2024-07-01 12:00:00.000000001"), "finer than a microsecond"),
        (pd.Timedelta(1, "ns"), "finer than a microsecond"),
        (np.timedelta64(1, "ns"), "finer than a microsecond"),
        (np.timedelta64(1, "M"), "in months"),
    ],
)
def test_no_digits_of_single_times_are_dropped(value, why):
    with pytest.raises(ValueError, match=f"Row 1, column 0, holds a .*{why}"):
        read(np.array([[None], [value]], dtype=object))


@pytest.mark.parametrize("unit", ["D", "h", "m", "s", "ms", "us", "ns"])
def test_times_of_numpy_in_all_units(unit):
    value = np.datetime64("2024-07-01", unit)
    array = np.array([[value, value - np.datetime64(0, unit)], [None, None]], dtype=object)
    points, table, _ = read(array)
    assert [column.kind for column in table.columns] == [ColumnType.TIME, ColumnType.DURATION]
    assert (points[0] == pd.Timestamp("2024-07-01").value // 1000).all()


def test_shards_of_times_with_a_zone_and_without_do_not_merge():
    zoned = model().partial_fit(frame_of(BERLIN), np.arange(N))
    naive = model().set_params(first_id=N).partial_fit(frame_of(BERLIN.tz_localize(None)), np.arange(N))
    with pytest.raises(ValueError, match="'when' holds a time with a zone here and a time there"):
        zoned.merge(naive)


def test_a_column_out_of_a_file_has_a_zone_if_its_form_has_one():
    check_instance(Form("when", "time", "timestamp[us]"))
    check_instance(Form("when", "time with a zone", "datetime64[ns, UTC]"))
    with pytest.raises(ValueError, match="found a time without a zone in the form"):
        check_instance(Form("when", "time", "datetime64[ns, UTC]"))


def test_the_same_bits_for_any_chunks_after_a_checkpoint(tmp_path):
    whole = model().partial_fit(frame_of(BERLIN), np.arange(N))
    parts = model().partial_fit(frame_of(BERLIN[:7].tz_convert("UTC")), np.arange(7))
    parts = parts.partial_fit(frame_of(BERLIN)[7:20], np.arange(7, 20))
    parts.save(tmp_path / "model.b2o")
    parts = BatchToOnline.restore(tmp_path / "model.b2o", estimator=model().estimator)
    for index in range(20, N):
        parts.learn_one({"a": float(index), "when": BERLIN[index]}, index)
    assert instants(parts.coreset_.points) == instants(whole.coreset_.points)
    np.testing.assert_array_equal(parts.coreset_.weights, whole.coreset_.weights)
