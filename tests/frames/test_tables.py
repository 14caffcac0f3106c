"""Tables as rows of numbers, and back: nothing is lost, and what cannot be held is refused."""

from __future__ import annotations

import datetime as dt

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.compose import make_column_transformer
from sklearn.linear_model import Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

from batch2online import BatchToOnline
from batch2online.schema import check_instance
from batch2online.tables.row_encoding import Form, FrameSchema, container_of, read
from batch2online.tables.strings import MISSING, StringTable, hash_code

FRAME = pd.DataFrame(
    {
        "int": [1, -2, 3, 2**53, 5],
        "float": [1.5, np.nan, 2, -0.0, 1e-300],
        "single": np.arange(5, dtype=np.float32) / 3,
        "bool": [True, False, True, True, False],
        "text": ["a", np.nan, "b", "a", "ü\0 "],
        "category": pd.Categorical(["x", "y", None, "x", "z"]),
        "ordered": pd.Categorical(["lo", "hi", "lo", "lo", None], categories=["lo", "mid", "hi"], ordered=True),
        "numbers": pd.Categorical([3, 1, 2, 1, None]),
        "time": pd.to_datetime(
            ["2020-01-01 00", None, "1969-12-31 23:59:59.999999", "2200-01", "1700-01"], format="ISO8601"
        ),
        "zone": pd.date_range("2020-01-01", periods=5, tz="Europe/Berlin"),
        "duration": pd.to_timedelta([1, 2, None, 4, -5], unit="ms"),
        "whole": pd.array([1, None, 3, 4, 5], dtype="Int64"),
        "string": pd.array(["q", None, "w", "e", "r"], dtype="string"),
        "boolean": pd.array([True, None, False, True, True], dtype="boolean"),
        "date": [dt.date(2020, 1, day) for day in range(1, 6)],
        "gaps": np.array([None] * 5, dtype=object),
    }
)


def again(X, table=None):
    points, table, texts = read(X, table)
    assert np.isfinite(points).all()
    known = StringTable()
    known.add(texts)
    return table.decoded(points, known)


def test_a_data_frame_comes_back_as_it_was():
    pd.testing.assert_frame_equal(again(FRAME), FRAME.assign(gaps=np.full(5, np.nan, dtype=object)))


def test_tables_of_polars_come_back_as_they_were():
    frame = pl.from_pandas(FRAME.drop(columns=["numbers", "gaps"]))
    frame = frame.with_columns(
        listed=pl.Series(["b", "a", None, "a", "a"], dtype=pl.Enum(["c", "b", "a"])),
        small=pl.Series([1, None, 3, 4, 5], dtype=pl.Int8),
        day=pl.Series([dt.date(1, 1, 1), None, dt.date(9999, 12, 31), dt.date(2020, 2, 29), dt.date(1970, 1, 1)]),
    )
    back = again(frame)
    assert back.schema == frame.schema
    assert back.equals(frame)


def test_tables_of_arrow_come_back_as_they_were():
    table = pa.Table.from_pandas(FRAME.drop(columns=["numbers"]), preserve_index=False)
    for given_table in (table, table.combine_chunks().to_batches()[0]):
        back = again(given_table)
        assert back.to_pylist() == table.to_pylist()
        plain = [name for name in table.schema.names if not pa.types.is_dictionary(table.schema.field(name).type)]
        assert [back.schema.field(name).type for name in plain] == [table.schema.field(name).type for name in plain]
        assert back.schema.field("ordered").type.ordered


@pytest.mark.parametrize(
    ("X", "container"),
    [
        (["a b", "", "c"], "list"),
        ([{"a": 1, "b": "x"}, {"c": None}, {"d": [1.5, {"e": True}]}], "dicts"),
        (np.array(["q", "r"]), "array of strings"),
        (pd.Series(["q", "w"], name="d"), "pandas series"),
        (pl.Series("z", ["q", "w"]), "polars series"),
        ([["a", 1], ["b", None]], "array"),
        (np.array([["a", "b"], ["c", "d"]]), "array"),
    ],
)
def test_lists_come_back_as_the_kind_that_came_in(X, container):
    assert container_of(X) == container
    back = again(X)
    if container == "array":
        assert back.tolist()[1][0] == list(X)[1][0]
        assert back.dtype == object
    else:
        assert type(back) is type(X)
        assert list(back) == list(X)


def test_arrays_of_numbers_are_no_tables():
    for X in (np.eye(2), np.eye(2, dtype=int), [[1, 2], [3, 4]], np.eye(2).astype(object), [], [1.0, 2.0]):
        assert container_of(X) is None


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"])), max_size=20))
def test_strings_come_back_from_a_file(values):
    texts = StringTable()
    texts.add({hash_code(text): text for text in values})
    back = StringTable.from_fields(texts.stored_fields())
    codes = np.array([hash_code(text) for text in values])
    assert back.of(codes, None).tolist() == values
    assert len(back) == len(set(values))


def test_a_string_has_the_same_number_wherever_it_stands():
    one, other = read(pd.DataFrame({"a": ["x", "y"], "b": ["y", "x"]})), read(pl.DataFrame({"a": ["y"], "b": ["x"]}))
    np.testing.assert_array_equal(one[0][1], other[0][0])
    np.testing.assert_array_equal(one[0][0], one[0][1][::-1])


def test_strings_with_the_same_number_are_refused():
    texts = StringTable({5.0: "a"})
    with pytest.raises(ValueError, match="'a' and 'b' have the same hash"):
        texts.add({5.0: "b"})


BAD = {
    "complex": (pd.Series([1j, 2j]), "complex128"),
    "nested": ([["a"], [1]], "Row 0, column 'x', holds .*list"),
    "mixed": (["a", 1.5], "Row 1, column 'x', holds 1.5, a number in a column of type string"),
    "large": ([1, 2**53 + 1], "Row 1, .* no double holds: pass the column as strings"),
    "larger": (pd.Series([1, 10**400], dtype=object), "Row 1, .* too large"),
    "infinite": ([1.0, np.inf], "Row 1, .* infinity"),
    "enormous": ([1.0, -1e130], "Row 1, .* magnitudes"),
    "surrogate": (["a", "\ud800"], "Row 1, .* no Unicode"),
    "fine": (pd.to_datetime([0, 1]), "Row 1, .* finer than a microsecond"),
    "bytes": ([b"a", b"b"], "Row 0, .* bytes"),
    "period": (pd.period_range("2020", periods=2, freq="M"), "Period"),
    "category of lists": (pd.Series(pd.Categorical([(1, 2), (3,)])), "Row 0, .* tuple"),
}


@pytest.mark.parametrize("bad", BAD)
def test_a_cell_that_cannot_be_held_is_named(bad):
    values, message = BAD[bad]
    with pytest.raises(ValueError, match=message):
        read(pd.DataFrame({"first": [1, 2], "x": values}))


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (pl.Series([[1], [2]]), "List"),
        (pl.Series([b"1", b"2"]), "Binary"),
        (pl.Series([dt.time(1), dt.time(2)]), "Time"),
    ],
)
def test_columns_of_polars_that_cannot_be_held_are_named(values, message):
    with pytest.raises(ValueError, match=f"column 'x', is of type {message}"):
        read(pl.DataFrame({"x": values}))


def test_names_differ_and_are_strings_or_numbers():
    with pytest.raises(ValueError, match="Two columns are named 'a'"):
        read(pd.DataFrame([["x", "y"]], columns=["a", "a"]))
    with pytest.raises(TypeError, match="must be strings or whole numbers"):
        read(pd.DataFrame([["x"]], columns=[(1, 2)]))


def test_a_column_keeps_its_kind():
    table = read(pd.DataFrame({"a": ["x"], "b": [None]}))[1]
    assert [column.kind for column in table.columns] == ["string", "missing value"]
    for later in (pd.DataFrame({"a": [None], "b": [1.5]}), pl.DataFrame({"a": ["y"], "b": [2]})):
        assert [column.kind for column in read(later, table)[1].columns] == ["string", "number"]
    with pytest.raises(ValueError, match="Row 1, column 'a', holds a number, but a string"):
        read(pd.DataFrame({"a": [None, 1.0], "b": [None, None]}), table)


def test_a_missing_value_among_whole_numbers_makes_them_numbers():
    table = read(pd.DataFrame({"a": [1, 2]}))[1]
    assert again(pd.DataFrame({"a": [3, 4]}), table)["a"].dtype == np.int64
    assert again(pd.DataFrame({"a": [3, None]}), table)["a"].dtype == np.float64


def test_categories_are_those_of_the_rows_trained_on():
    points, table, texts = read(pd.DataFrame({"c": pd.Categorical(["b", "a", "c", None])}))
    known = StringTable(texts)
    back = table.decoded(points, known, table.categories_in(points[:2]))["c"]
    assert back.cat.categories.tolist() == ["a", "b"]
    assert back.isna().tolist() == [False, False, True, True]


@pytest.mark.parametrize(
    "forged",
    [
        Form("a", "pictures", "object"),
        Form("a", "string", "../../zone"),
        Form("a", "string", "category", ("x", "x")),
        FrameSchema("pandas", ()),
        FrameSchema("spreadsheet", (Form("a", "string", "object"),)),
        FrameSchema("pandas", (Form(None, "string", "object"),)),
        FrameSchema("list", (Form(None, "string", "object"), Form(None, "string", "object"))),
    ],
)
def test_what_no_table_is_comes_out_of_no_file(forged):
    with pytest.raises(ValueError, match=r": found "):
        check_instance(forged)


def test_numbers_stand_for_what_a_column_can_hold():
    table = FrameSchema("pandas", (Form("a", "string", "object"), Form("b", "time", "object date")))
    table.check(np.array([[1.0, -3.0], [MISSING, MISSING]]))
    for bad in ([2.0**53, 0.0], [0.0, 1e18], [0.0, 0.5], [np.nan, 0.0]):
        with pytest.raises(ValueError, match=r"column .* of type (string|time): found"):
            table.check(np.array([bad]))


@pytest.mark.parametrize(
    ("column", "seen", "expected"),
    [
        (pa.table({"c": pa.array(["b", "a", "c"]).dictionary_encode()}), ["a", "b"], ["b", "a", None]),
        (pl.DataFrame({"c": pl.Series(["b", "a", "c"], dtype=pl.Categorical)}), ["a", "b"], ["b", "a", None]),
        (pl.DataFrame({"c": pl.Series(["b", "a", "c"], dtype=pl.Enum(["c", "b", "a"]))}), ["a"], [None, "a", None]),
        (pd.DataFrame({"c": pd.Categorical(["b", "a", "c"])}), ["a", "c"], [np.nan, "a", "c"]),
        (pa.table({"c": pa.array([3, 1, 2]).dictionary_encode()}), [1.0], [None, 1, None]),
    ],
)
def test_categories_that_a_model_has_not_seen_are_missing_to_it(column, seen, expected):
    points, table, texts = read(column)
    codes = np.unique([hash_code(value) if isinstance(value, str) else value for value in seen])
    assert list(table.categories_in(points)) == [0]
    np.testing.assert_array_equal(table.categories_in(points)[0], np.unique(points))
    given = table.decoded(points, StringTable(texts), {0: codes})["c"]
    values = given.to_pylist() if hasattr(given, "to_pylist") else given.to_list()
    assert [None if value != value else value for value in values] == [None if v != v else v for v in expected]


def test_models_are_given_unseen_categories_of_any_table_as_missing():
    shown = []

    class Noting(OneHotEncoder):
        def transform(self, X):
            column = X["c"]
            shown.append(column.to_pylist() if hasattr(column, "to_pylist") else column.to_list())
            return super().transform(X)

    tables = {
        "arrow": lambda values: pa.table({"c": pa.array(values).dictionary_encode()}),
        "categorical": lambda values: pl.DataFrame({"c": pl.Series(values, dtype=pl.Categorical)}),
        "enum": lambda values: pl.DataFrame({"c": pl.Series(values, dtype=pl.Enum(["z", "b", "a"]))}),
    }
    for make in tables.values():
        encoder = make_column_transformer((Noting(handle_unknown="ignore", sparse_output=False), ["c"]))
        model = BatchToOnline(make_pipeline(encoder, Ridge()), random_state=0)
        model.fit(make(["a", "b"] * 20), np.arange(40))
        shown.clear()
        model.predict(make(["z", "a", "b"]))
        assert shown[-1] == [None, "a", "b"]
