"""Rows of files as rows of numbers: units, categories, scales, and missing values."""

from __future__ import annotations

from contextlib import closing

import numpy as np
import pyarrow as pa
import pytest

from batch2online.app.cli.app import run_safely
from batch2online.app.cli.run.source import open_stream
from batch2online.app.cli.settings import Settings
from batch2online.app.cli.tasks import Task
from batch2online.app.inputs import Batch, DataError, Remedy, open_source
from batch2online.tables.columns import joined


def test_rows_are_counted_from_one_in_parts_of_a_batch_as_well():
    batch = Batch(pa.table({"a": [1.0, 2.0, 3.0, 4.0]}), lambda row: f"table, row {row + 1}")
    assert batch.place(0) == "table, row 1"
    assert batch[2:].place(0) == "table, row 3"
    assert batch[2:][1:].place(0) == "table, row 4"


def prepared(tmp_path, content, name="x.csv", **settings):
    """Return the features of a file, its targets, the stream and the names of the features."""
    (tmp_path / name).write_bytes(content)
    task = Task(Settings.written(settings))
    with closing(open_source(str(tmp_path / name))) as source:
        stream = open_stream(source, task)
        chunks = list(stream.chunks())
    if not chunks:
        raise stream.no_rows_error()
    table = joined([rows for rows, _ in chunks])
    targets = None if chunks[0][1] is None else np.concatenate([chunk[1] for chunk in chunks])
    model = task.estimator().partial_fit(table, targets)
    codec = model.columns_
    return codec.encode(codec.checked(table)), targets, stream, codec.names


LOWRANK = {"task": "lowrank", "k": 1}
REGRESSION = {"task": "regression", "target": "y"}


def test_one_hot_without_the_first_level_beside_an_intercept(tmp_path):
    content = b"c,y,a\nred,1,5\nblue,2,6\ngreen,3,7\nred,4,8\n"
    rows, targets, _, names = prepared(tmp_path, content, **REGRESSION)
    assert names == ["a", "c=green", "c=red", "c=other"]
    np.testing.assert_array_equal(rows, [[5, 0, 1, 0], [6, 0, 0, 0], [7, 1, 0, 0], [8, 0, 1, 0]])
    np.testing.assert_array_equal(targets, [1, 2, 3, 4])
    rows, _, _, names = prepared(tmp_path, content, columns=("c",), **LOWRANK)
    assert names == ["c=blue", "c=green", "c=red", "c=other"]
    np.testing.assert_array_equal(rows.sum(axis=1), 1)


def test_a_level_that_comes_late_counts_as_other_or_as_none(tmp_path):
    content = b"c,a\n" + b"red,1\nblue,2\n" * 5 + b"green,3\nblack,4\n"
    rows, _, _, names = prepared(tmp_path, content, lookahead=10, **LOWRANK)
    assert names == ["a", "c=blue", "c=red", "c=other"]
    np.testing.assert_array_equal(rows[-3:], [[2, 1, 0, 0], [3, 0, 0, 1], [4, 0, 0, 1]])
    rows, _, _, names = prepared(tmp_path, content, lookahead=10, unknown="ignore", **LOWRANK)
    np.testing.assert_array_equal(rows[-2:], [[3, 0, 0], [4, 0, 0]])


def test_the_commonest_levels_have_columns_of_their_own(tmp_path):
    content = b"c,a\n" + b"red,1\nblue,2\nred,1\n" * 5 + b"green,3\n"
    rows, _, _, names = prepared(tmp_path, content, max_levels=2, **LOWRANK)
    assert names == ["a", "c=blue", "c=red", "c=other"]
    assert rows[:, 1:].sum(axis=0).tolist() == [5, 10, 1]


def test_standardised_by_the_first_rows_alone(tmp_path):
    content = b"a,b\n" + b"".join(b"%d,%d\n" % (i, 2 * i) for i in range(100))
    rows, _, _, names = prepared(tmp_path, content, standardize=True, lookahead=40, **LOWRANK)
    np.testing.assert_allclose(rows[:40].mean(axis=0), 0, atol=1e-12)
    np.testing.assert_allclose(rows[:40].std(axis=0), 1, atol=1e-12)
    assert rows[40:].mean() > 2
    assert names == ["a (standardised)", "b (standardised)"]


GAPS = b"a,b\n1,2\n,4\n5,NA\n\n7,8\n"


def test_missing_values_are_refused_with_line_and_column(tmp_path):
    with pytest.raises(DataError, match=r"x\.csv, line 3, column 'a': the value is missing\.") as caught:
        prepared(tmp_path, GAPS, missing="refuse", **LOWRANK)
    assert caught.value.remedies == (Remedy.DROP_ROWS, Remedy.IMPUTE)
    with pytest.raises(DataError, match=r"line 6, column 'b', contains infinity"):
        prepared(tmp_path, b"a,b\n1,2\n\n\n3,4\n5,inf\n", **LOWRANK)


ADVICE = {
    "gap": (
        GAPS,
        ["--missing", "refuse"],
        "the value is missing; --missing drop drops such rows, --missing mean imputes the mean.",
    ),
    "no names": (b"1,2\n3,4\n", [], "in its first line; --no-header reads the first line as data."),
    "text": (b"a,c\n1,x\n", ["--categories", "refuse"], "; --exclude c ignores the column, --categories encode"),
    "late level": (
        b"a,c\n1,x\n2,y\n",
        ["--lookahead", "1", "--unknown", "refuse"],
        "line 3, column 'c', holds 'y', which the first rows did not: --unknown other takes it",
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
    rows, _, stream, names = prepared(tmp_path, GAPS, missing="drop", **LOWRANK)
    np.testing.assert_array_equal(rows, [[1, 2], [7, 8]])
    assert stream.dropped == 2
    rows, _, stream, names = prepared(tmp_path, GAPS, **LOWRANK)
    assert names == ["a", "a is missing", "b", "b is missing"]
    np.testing.assert_allclose(rows, [[1, 0, 2, 0], [13 / 3, 1, 4, 0], [5, 0, 14 / 3, 1], [7, 0, 8, 0]])
    rows, _, stream, names = prepared(tmp_path, GAPS, missing="mean", **LOWRANK)
    np.testing.assert_allclose(rows, [[1, 2], [13 / 3, 4], [5, 14 / 3], [7, 8]])
    assert stream.dropped == 0


def test_a_row_without_a_target_is_skipped(tmp_path):
    content = b"a,y\n1,2\n3,\n,4\n"
    rows, targets, stream, _ = prepared(tmp_path, content, missing="mean", **REGRESSION)
    assert (rows.tolist(), targets.tolist(), stream.dropped) == ([[1], [1]], [2, 4], 1)
    stream.close()
    assert stream.notes == ["rows without a value of 'y' are skipped, 1 here; predict answers them"]


UNUSABLE = {
    "dates": (b"a,when\n1,2024-05-01\n", {**LOWRANK, "dates": "refuse"}, "column 'when' contains dates"),
    "text refused": (b"a,c\n1,x\n2,y\n", {**LOWRANK, "categories": "refuse"}, "column 'c' contains strings"),
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
