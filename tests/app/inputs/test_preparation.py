"""Rows of files as rows of numbers: units, categories, scales, and missing values."""

from __future__ import annotations

import datetime as dt
from contextlib import closing

import numpy as np
import pyarrow as pa
import pytest

from batch2online.app.cli.app import run_safely
from batch2online.app.cli.run.source import open_stream
from batch2online.app.cli.settings import Settings
from batch2online.app.cli.tasks import task_for
from batch2online.app.inputs import Batch, DataError, Remedy, open_source
from batch2online.app.inputs.infer import PreparationOptions, prepare
from batch2online.app.inputs.preparation import plain
from batch2online.frames.columns import ColumnType
from batch2online.frames.preparation import PARTS, identifiers, index_columns


def batch_of(**columns):
    return Batch(pa.table(columns), lambda row: f"table, row {row + 1}")


def prepared_batch(batch, target=None, **wanted):
    kinds = {
        name: ColumnType.STRING if pa.types.is_string(batch.table.schema.field(name).type) else ColumnType.NUMBER
        for name in batch.table.column_names
    }
    inputs = [name for name in kinds if name != target]
    return prepare([batch], inputs, target, kinds, PreparationOptions(**wanted))


def test_dates_are_days_and_times_are_hours():
    columns = {
        "date": pa.array([dt.date(1970, 1, 3)]),
        "moment": pa.array([dt.datetime(1970, 1, 2, 12)], pa.timestamp("ms")),
        "nano": pa.array([dt.datetime(1970, 1, 2, 18)], pa.timestamp("ns")),
        "clock": pa.array([dt.time(1, 30)]),
        "length": pa.array([dt.timedelta(minutes=45)], pa.duration("s")),
    }
    assert [plain(column)[0].as_py() for column in columns.values()] == [2.0, 1.5, 1.75, 1.5, 0.75]


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
    found = prepared_batch(batch, max_categories=2, may_grow=False)
    assert found.categories == {"c": ["a", "z"]}
    assert found.names == ["v", "c=a", "c=z", "c=other"]
    np.testing.assert_array_equal(found.apply(batch)[0][:, 1:], np.eye(3)[[1, 1, 1, 0, 0, 2]])


@pytest.mark.parametrize("may_grow", [False, True])
def test_a_column_for_new_levels_is_there_where_they_may_come(may_grow):
    found = prepared_batch(batch_of(c=["a", "b"], v=[1.0, 2.0]), may_grow=may_grow, drop_first=True)
    assert found.names == ["v", "c=b", *(["c=other"] if may_grow else [])]
    rows = found.apply(batch_of(c=["b", "a", "new"], v=[1.0, 2.0, 3.0]))[0]
    np.testing.assert_array_equal(rows[:, 1:], [[1, 0], [0, 0], [0, 1]] if may_grow else [[1], [0], [0]])


def test_columns_are_centred_and_scaled_and_constant_ones_stay_finite():
    batch = batch_of(a=[1.0, 3.0], b=[7.0, 7.0])
    rows = prepared_batch(batch, standardise=True).apply(batch)[0]
    np.testing.assert_array_equal(rows, [[-1.0, 0.0], [1.0, 0.0]])


def test_missing_values_are_filled_with_the_mean():
    found = prepared_batch(batch_of(a=[1.0, 3.0, 8.0], b=[1.0, 1.0, 1.0]), missing="mean")
    assert found.apply(batch_of(a=[None, 5.0], b=[2.0, None]))[0].tolist() == [[4.0, 2.0], [5.0, 1.0]]


def test_the_first_missing_value_is_named():
    found = prepared_batch(batch_of(a=[1.0, 2.0, 3.0]))
    with pytest.raises(DataError, match="table, row 2, column 'a': the value is missing"):
        found.apply(batch_of(a=[1.0, None, 2.0, None]))


def test_a_row_that_is_dropped_says_nothing_of_its_levels():
    found = prepared_batch(
        batch_of(a=[1.0, 2.0], c=["x", "y"]), missing="drop", handle_unknown="refuse", may_grow=False
    )
    rows, _, kept = found.apply(batch_of(a=[1.0, None], c=["x", "new"]))
    assert kept.tolist() == [True, False]
    assert len(rows) == 1
    with pytest.raises(DataError, match="row 2, column 'c': 'new' does not occur"):
        found.apply(batch_of(a=[1.0, 2.0], c=["x", "new"]))


def prepared(tmp_path, content, name="x.csv", **settings):
    (tmp_path / name).write_bytes(content)
    with closing(open_source(str(tmp_path / name))) as source:
        stream = open_stream(source, name, task_for(Settings(**settings)))
        chunks = list(stream.chunks())
    targets = None if chunks[0][1] is None else np.concatenate([chunk[1] for chunk in chunks])
    return np.concatenate([chunk[0] for chunk in chunks]), targets, stream


LOWRANK = {"task": "lowrank", "k": 1}
REGRESSION = {"task": "regression", "target": "y"}


def test_one_hot_without_the_first_level_beside_an_intercept(tmp_path):
    content = b"c,y,a\nred,1,5\nblue,2,6\ngreen,3,7\nred,4,8\n"
    rows, targets, stream = prepared(tmp_path, content, **REGRESSION)
    assert stream.preparation.names == ["a", "c=green", "c=red"]
    np.testing.assert_array_equal(rows, [[5, 0, 1], [6, 0, 0], [7, 1, 0], [8, 0, 1]])
    np.testing.assert_array_equal(targets, [1, 2, 3, 4])
    rows, _, stream = prepared(tmp_path, content, columns=("c",), **LOWRANK)
    assert stream.preparation.names == ["c=blue", "c=green", "c=red"]
    np.testing.assert_array_equal(rows.sum(axis=1), 1)


def test_a_level_that_comes_late_is_refused_with_its_line(tmp_path):
    content = b"c,a\n" + b"red,1\nblue,2\n" * 5 + b"green,3\n"
    with pytest.raises(DataError, match=r"line 12, column 'c': 'green' does not occur in the first 10 rows"):
        prepared(tmp_path, content, lookahead=10, unknown="refuse", **LOWRANK)
    assert len(prepared(tmp_path, content, lookahead=12, **LOWRANK)[0]) == 11


def test_a_level_that_comes_late_counts_as_other_and_it_is_said_once(tmp_path):
    content = b"c,a\n" + b"red,1\nblue,2\n" * 5 + b"green,3\nblack,4\n"
    rows, _, stream = prepared(tmp_path, content, lookahead=10, **LOWRANK)
    assert stream.preparation.names == ["a", "c=blue", "c=red", "c=other"]
    np.testing.assert_array_equal(rows[-3:], [[2, 1, 0, 0], [3, 0, 0, 1], [4, 0, 0, 1]])
    assert stream.notes == [
        "x.csv, line 12, column 'c': 'green' does not occur in the first 10 rows; such values are encoded as 'other'"
    ]
    rows, _, stream = prepared(tmp_path, content, lookahead=10, unknown="ignore", **LOWRANK)
    np.testing.assert_array_equal(rows[-2:], [[3, 0, 0], [4, 0, 0]])
    assert "encoded as all zeros" in stream.notes[0]


def test_the_commonest_levels_have_columns_of_their_own(tmp_path):
    content = b"c,a\n" + b"red,1\nblue,2\nred,1\n" * 5 + b"green,3\n"
    rows, _, stream = prepared(tmp_path, content, max_levels=2, **LOWRANK)
    assert stream.preparation.names == ["a", "c=blue", "c=red", "c=other"]
    assert rows[:, 1:].sum(axis=0).tolist() == [5, 10, 1]


def test_standardised_by_the_first_rows_alone(tmp_path):
    content = b"a,b\n" + b"".join(b"%d,%d\n" % (i, 2 * i) for i in range(100))
    rows, _, stream = prepared(tmp_path, content, standardize=True, lookahead=40, **LOWRANK)
    np.testing.assert_allclose(rows[:40].mean(axis=0), 0, atol=1e-12)
    np.testing.assert_allclose(rows[:40].std(axis=0), 1, atol=1e-12)
    assert rows[40:].mean() > 2
    assert stream.preparation.names == ["a (standardised)", "b (standardised)"]


GAPS = b"a,b\n1,2\n,4\n5,NA\n\n7,8\n"


def test_missing_values_are_refused_with_line_and_column(tmp_path):
    with pytest.raises(DataError, match=r"x\.csv, line 3, column 'a': the value is missing\.") as caught:
        prepared(tmp_path, GAPS, **LOWRANK)
    assert caught.value.remedies == (Remedy.DROP_ROWS, Remedy.IMPUTE)
    with pytest.raises(DataError, match=r"line 6, column 'b': inf is not a finite number"):
        prepared(tmp_path, b"a,b\n1,2\n\n\n3,4\n5,inf\n", **LOWRANK)


ADVICE = {
    "gap": (GAPS, [], "the value is missing; --missing drop drops such rows, --missing mean imputes the mean."),
    "no names": (b"1,2\n3,4\n", [], "in its first line; --no-header reads the first line as data."),
    "text": (b"a,c\n1,x\n", ["--categories", "refuse"], "; --exclude c ignores the column, --categories encode"),
    "late level": (
        b"a,c\n1,x\n2,y\n",
        ["--lookahead", "1", "--unknown", "refuse"],
        "in the first 1 rows; --unknown other encodes such values as one category, --lookahead N infers",
    ),
}


@pytest.mark.parametrize("case", ADVICE)
def test_the_command_line_adds_the_option_that_leads_on(tmp_path, capsys, case):
    content, options, message = ADVICE[case]
    path = tmp_path / "x.csv"
    path.write_bytes(content)
    assert run_safely(["run", str(path), "--task", "lowrank", "--k", "1", *options]) == 2
    assert message in capsys.readouterr().err


def test_missing_values_dropped_or_filled(tmp_path):
    rows, _, stream = prepared(tmp_path, GAPS, missing="drop", **LOWRANK)
    np.testing.assert_array_equal(rows, [[1, 2], [7, 8]])
    assert stream.dropped == 2
    rows, _, stream = prepared(tmp_path, GAPS, missing="mean", **LOWRANK)
    np.testing.assert_allclose(rows, [[1, 2], [13 / 3, 4], [5, 14 / 3], [7, 8]])
    assert stream.dropped == 0


def test_a_missing_target_is_never_filled(tmp_path):
    content = b"a,y\n1,2\n3,\n,4\n"
    with pytest.raises(DataError, match="line 3, column 'y': the value is missing"):
        prepared(tmp_path, content, **REGRESSION)
    rows, targets, stream = prepared(tmp_path, content, missing="mean", **REGRESSION)
    assert (rows.tolist(), targets.tolist(), stream.dropped) == ([[1], [2]], [2, 4], 1)


UNUSABLE = {
    "dates": (b"a,when\n1,2024-05-01\n", {**LOWRANK, "dates": "refuse"}, "column 'when' contains dates"),
    "text refused": (b"a,c\n1,x\n2,y\n", {**LOWRANK, "categories": "refuse"}, "column 'c' contains strings"),
    "identifiers": (
        b"a,c\n" + b"".join(b"1,u%d\n" % i for i in range(150)),
        {**LOWRANK, "unknown": "refuse"},
        "150 distinct values",
    ),
    "text target": (b"a,y\n1,x\n2,y\n", REGRESSION, "the target 'y' must contain numbers"),
    "no such column": (b"a,b\n1,2\n", {**LOWRANK, "columns": ("q",)}, r"no column 'q'; its columns are a, b\."),
    "no such target": (b"a,b\n1,2\n", REGRESSION, "no column 'y'"),
    "target alone": (b"y\n1\n", REGRESSION, "no columns besides the target"),
    "both": (b"a,y\n1,2\n", {**REGRESSION, "columns": ("a", "y")}, "cannot be both"),
    "header only": (b"a,b\n", LOWRANK, "x.csv has no rows, only 2 columns"),
    "rank too high": (b"a,b\n1,2\n", {**LOWRANK, "k": 3}, "--k 3 exceeds the 2 columns"),
}


@pytest.mark.parametrize("case", UNUSABLE)
def test_unusable_columns_are_refused(tmp_path, case):
    content, settings, message = UNUSABLE[case]
    with pytest.raises(DataError, match=message):
        prepared(tmp_path, content, **settings)


def test_random_order_is_a_permutation_that_follows_the_seed(tmp_path):
    content = b"a,y\n" + b"".join(b"%d,%d\n" % (i, 3 * i) for i in range(1000))
    given = prepared(tmp_path, content, **REGRESSION)
    shuffled, again, other = (prepared(tmp_path, content, order="random", seed=s, **REGRESSION) for s in (1, 1, 2))
    np.testing.assert_array_equal(shuffled[1], 3 * shuffled[0][:, 0])
    np.testing.assert_array_equal(shuffled[0], again[0])
    assert not np.array_equal(shuffled[0], other[0])
    np.testing.assert_array_equal(np.sort(shuffled[0], axis=0), given[0])
