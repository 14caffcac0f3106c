"""What readers make of cells: units, names, line numbers, levels, and what fills a missing value."""

from __future__ import annotations

import datetime as dt
import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest

from batch2online.app.inputs import DataError, Layout, open_source
from batch2online.app.inputs.batch import Batch, row_place, with_plain_types
from batch2online.app.inputs.delimited import is_number
from batch2online.app.inputs.infer import PreparationOptions, prepare
from batch2online.frames.columns import ColumnType
from batch2online.frames.preparation import PARTS, identifiers, index_columns


def opened(folder, text, name="t.csv", **layout):
    path = folder / name
    path.write_text(text)
    return open_source(str(path), Layout(**layout))


def columns_of(source):
    tables = [batch.table for batch in source.batches(source.names)]
    return pa.concat_tables(tables).to_pydict()


def batch_of(**columns):
    return Batch(with_plain_types(pa.table(columns)), lambda row: row_place("table", 0, row))


def prepared(batch, target=None, **wanted):
    kinds = {
        name: ColumnType.STRING if pa.types.is_string(batch.table.schema.field(name).type) else ColumnType.NUMBER
        for name in batch.table.column_names
    }
    inputs = [name for name in kinds if name != target]
    return prepare([batch], inputs, target, kinds, PreparationOptions(**wanted))


def test_dates_are_days_and_times_are_hours():
    table = with_plain_types(
        pa.table(
            {
                "date": pa.array([dt.date(1970, 1, 3)]),
                "moment": pa.array([dt.datetime(1970, 1, 2, 12)], pa.timestamp("ms")),
                "nano": pa.array([dt.datetime(1970, 1, 2, 18)], pa.timestamp("ns")),
                "clock": pa.array([dt.time(1, 30)]),
                "length": pa.array([dt.timedelta(minutes=45)], pa.duration("s")),
            }
        )
    )
    assert table.to_pylist() == [{"date": 2.0, "moment": 1.5, "nano": 1.75, "clock": 1.5, "length": 0.75}]


@pytest.mark.parametrize(
    "moment", [dt.datetime(2024, 5, 1, 12), dt.datetime(1969, 12, 28, 6, 30), dt.datetime(2000, 2, 29)]
)
def test_parts_of_a_date_are_those_of_the_calendar(moment):
    days = np.array([(moment - dt.datetime(1970, 1, 1)) / dt.timedelta(days=1)])
    found = [float(PARTS[part](days)[0]) for part in ("hour", "weekday", "month")]
    np.testing.assert_allclose(found, [moment.hour + moment.minute / 60, moment.isoweekday(), moment.month], rtol=1e-9)


def test_rows_are_counted_from_one_in_parts_of_a_batch_as_well():
    batch = batch_of(a=[1.0, 2.0, 3.0, 4.0])
    assert batch.place(0) == "table, row 1"
    assert batch[2:].place(0) == "table, row 3"
    assert batch[2:][1:].place(0) == "table, row 4"


def test_digits_with_underscores_are_no_number():
    assert not is_number("1_000")
    assert is_number("1000")


@pytest.mark.parametrize("skipped", [0, 1, 3])
def test_as_many_lines_are_skipped_as_asked_for(tmp_path, skipped):
    text = "".join(f"title {i}\n" for i in range(skipped)) + "a,b\n1,2\n3,4\n"
    source = opened(tmp_path, text, skip_lines=skipped)
    batches = list(source.batches(source.names))
    assert source.names == ["a", "b"]
    assert batches[0].table.to_pylist() == [{"a": 1.0, "b": 2.0}, {"a": 3.0, "b": 4.0}]
    assert batches[0].place(1) == f"t.csv, line {skipped + 3}"


def test_lines_keep_their_numbers_after_comments(tmp_path):
    numbers = {"a": ColumnType.NUMBER, "b": ColumnType.NUMBER}
    with pytest.raises(DataError, match="line 6, column 'b': 'x' is not a number"):
        opened(tmp_path, "a,b\n# one\n1,2\n  # two\n\n3,x\n", comment="#", kinds=numbers)


def test_columns_without_names_are_counted_from_one(tmp_path):
    source = opened(tmp_path, "1,2\n3,4\n", header=False)
    assert columns_of(source) == {"1": [1.0, 3.0], "2": [2.0, 4.0]}


def test_names_of_rows_may_have_no_name(tmp_path):
    source = opened(tmp_path, "a,b\nx,1,2\ny,3,4\n")
    assert columns_of(source) == {"": ["x", "y"], "a": [1.0, 3.0], "b": [2.0, 4.0]}


def test_only_bad_lines_are_left_out_and_counted(tmp_path):
    source = opened(tmp_path, 'a,b\n1,"x\ny"\n2\n3,z\n', bad_lines="drop")
    (batch,) = source.batches(source.names)
    assert batch.table.to_pydict() == {"a": [1.0, 3.0], "b": ["x\ny", "z"]}
    assert batch.place(1) == "t.csv, line 5"
    assert source.notes == ["1 lines with too few or too many values were dropped"]


def test_decimal_commas_are_numbers_in_errors_too(tmp_path):
    lines = "".join(f"{i},5;1\n" for i in range(9))
    source = opened(tmp_path, f"a;b\n{lines}1,5;x\n", decimal=",")
    with pytest.raises(DataError, match="line 11, column 'b': 'x' is not a number"):
        columns_of(source)


def test_json_heeds_words_for_missing_values_and_knows_dates(tmp_path):
    rows = [{"a": 1, "when": "1970-01-02"}, {"a": "none", "when": "1970-01-03"}, {"a": 3, "when": "none"}]
    source = opened(tmp_path, "".join(json.dumps(row) + "\n" for row in rows), "t.jsonl", na_values=("none",))
    assert source.kinds == {"a": ColumnType.NUMBER, "when": ColumnType.TIME}
    assert columns_of(source) == {"a": [1.0, None, 3.0], "when": [1.0, 2.0, None]}


@pytest.mark.parametrize("first", [0.0, 1.0])
def test_columns_that_count_rows_are_found(first):
    kinds = dict.fromkeys(("index", "a"), ColumnType.NUMBER)
    assert index_columns({"index": first + np.arange(5.0), "a": first + np.arange(5.0)}, kinds) == ["index"]
    assert index_columns({"index": np.array([first, 5.0, 2.0, 3.0, 1.0]), "a": np.ones(5)}, kinds) == []


def test_a_category_of_many_levels_that_recur_is_no_identifier():
    table = {"key": np.arange(40.0), "kind": np.arange(40.0) % 10}
    assert identifiers(table, ["key", "kind"], 5) == ["key"]


def test_the_commonest_levels_get_columns_in_the_order_of_their_names():
    batch = batch_of(c=["z"] * 3 + ["a"] * 2 + ["m"], v=[1.0] * 6)
    found = prepared(batch, max_categories=2, may_grow=False)
    assert found.categories == {"c": ["a", "z"]}
    assert found.names == ["v", "c=a", "c=z", "c=other"]
    np.testing.assert_array_equal(found.apply(batch)[0][:, 1:], np.eye(3)[[1, 1, 1, 0, 0, 2]])


@pytest.mark.parametrize("may_grow", [False, True])
def test_a_column_for_new_levels_is_there_where_they_may_come(may_grow):
    found = prepared(batch_of(c=["a", "b"], v=[1.0, 2.0]), may_grow=may_grow, drop_first=True)
    assert found.names == ["v", "c=b", *(["c=other"] if may_grow else [])]
    rows = found.apply(batch_of(c=["b", "a", "new"], v=[1.0, 2.0, 3.0]))[0]
    np.testing.assert_array_equal(rows[:, 1:], [[1, 0], [0, 0], [0, 1]] if may_grow else [[1], [0], [0]])


def test_columns_are_centred_and_scaled_and_constant_ones_stay_finite():
    batch = batch_of(a=[1.0, 3.0], b=[7.0, 7.0])
    rows = prepared(batch, standardise=True).apply(batch)[0]
    np.testing.assert_array_equal(rows, [[-1.0, 0.0], [1.0, 0.0]])


def test_missing_values_are_filled_with_the_mean():
    found = prepared(batch_of(a=[1.0, 3.0, 8.0], b=[1.0, 1.0, 1.0]), missing="mean")
    assert found.apply(batch_of(a=[None, 5.0], b=[2.0, None]))[0].tolist() == [[4.0, 2.0], [5.0, 1.0]]


def test_the_first_missing_value_is_named():
    found = prepared(batch_of(a=[1.0, 2.0, 3.0]))
    with pytest.raises(DataError, match="table, row 2, column 'a': the value is missing"):
        found.apply(batch_of(a=[1.0, None, 2.0, None]))


def test_a_row_that_is_dropped_says_nothing_of_its_levels():
    found = prepared(batch_of(a=[1.0, 2.0], c=["x", "y"]), missing="drop", handle_unknown="refuse", may_grow=False)
    rows, _, kept = found.apply(batch_of(a=[1.0, None], c=["x", "new"]))
    assert kept.tolist() == [True, False]
    assert len(rows) == 1
    with pytest.raises(DataError, match="row 2, column 'c': 'new' does not occur"):
        found.apply(batch_of(a=[1.0, 2.0], c=["x", "new"]))
