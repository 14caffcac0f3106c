"""Readers: every format gives the same rows, every defect is named with its place."""

from __future__ import annotations

import bz2
import csv
import gzip
import io
import json
import lzma
import random
import sqlite3
import sys
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.ipc
import pyarrow.parquet
import pytest

from batch2online.app.cli.app import run_safely
from batch2online.app.inputs import DataError, Layout, blocks, open_source, open_sources
from batch2online.tables.columns import ColumnType

TABLE = pa.table({"a": [1.0, 2.5, -3.0, 4.0], "b": [10.0, 20.0, 30.0, 40.0], "colour": ["red", "blue", "red", "green"]})
ROWS = TABLE.to_pylist()


def text_of(delimiter=",", newline="\n"):
    lines = [TABLE.column_names, *([str(value).removesuffix(".0") for value in row.values()] for row in ROWS)]
    return (newline.join(delimiter.join(cells) for cells in lines) + newline).encode()


def json_text():
    return "".join(json.dumps(row) + "\n" for row in ROWS).encode()


def arrow_bytes(opener):
    buffer = io.BytesIO()
    with opener(buffer, TABLE.schema) as writer:
        writer.write_table(TABLE)
    return buffer.getvalue()


def parquet_bytes():
    buffer = io.BytesIO()
    pa.parquet.write_table(TABLE, buffer)
    return buffer.getvalue()


def read(path, columns=None, verbatim=(), **options):
    """The rows of a file, the places of all of them, and the source."""
    source = open_source(str(path), Layout(**options))
    batches = list(source.batches(source.names if columns is None else columns, verbatim))
    places = [batch.place(row) for batch in batches for row in range(len(batch))]
    return [row for batch in batches for row in batch.table.to_pylist()], places, source


def read_text(folder, text, name="t.csv", **options):
    (folder / name).write_bytes(text if isinstance(text, bytes) else text.encode())
    return read(folder / name, **options)


@pytest.fixture
def small_blocks(monkeypatch):
    monkeypatch.setattr(blocks, "BLOCK", 60)
    monkeypatch.setattr(blocks, "MIN_LINES", 1)


FILES = {
    "table.csv": text_of(),
    "windows.csv": text_of(newline="\r\n"),
    "old.csv": text_of(newline="\r"),
    "mark.csv": b"\xef\xbb\xbf" + text_of(),
    "table.tsv": text_of("\t"),
    "semicolons.csv": text_of(";"),
    "quoted.csv": text_of().replace(b"red", b'"red"'),
    "blank_lines.csv": b"\n" + text_of().replace(b"\n", b"\n\n"),
    "no_last_newline.csv": text_of().rstrip(),
    "table.csv.gz": gzip.compress(text_of()),
    "table.csv.zst": pa.compress(text_of(), "zstd", asbytes=True),
    "table.jsonl": json_text(),
    "table.jsonl.gz": gzip.compress(json_text()),
    "table.parquet": parquet_bytes(),
    "table.arrow": arrow_bytes(pa.ipc.new_file),
    "stream.arrow": arrow_bytes(pa.ipc.new_stream),
    "no_suffix": text_of(),
    "utf16.csv": text_of().decode().encode("utf-16"),
    "table.csv.bz2": bz2.compress(text_of()),
    "table.csv.xz": lzma.compress(text_of()),
    "spaces.txt": text_of(" ").replace(b" ", b"   "),
    "misnamed.csv": parquet_bytes(),
}
PIPES = ("table.csv", "table.tsv", "table.csv.gz", "table.jsonl", "stream.arrow")


@pytest.mark.parametrize("name", FILES)
def test_every_format_gives_the_same_rows(tmp_path, name):
    rows, _, source = read_text(tmp_path, FILES[name], name)
    assert rows == ROWS
    assert source.kinds == {"a": ColumnType.NUMBER, "b": ColumnType.NUMBER, "colour": ColumnType.STRING}
    assert source.progress() == (None if name == "table.arrow" else 1.0)


@pytest.mark.parametrize("name", PIPES)
def test_standard_input(monkeypatch, name):
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BufferedReader(io.BytesIO(FILES[name]))))
    assert read("-")[0] == ROWS


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.usefixtures("small_blocks")
def test_quoted_values_are_those_of_the_csv_module(tmp_path, seed):
    """Blocks end anywhere; a quoted value may hold separators, quotes and line ends, an unquoted one quotes inside."""
    draw = random.Random(seed)
    words = ["red", 'say "hi"', "a,b", "line\nbreak", "two\r\nlines", '"', '""', " lead", "#", "é"]
    rows = [{"c": draw.choice(words), "d": draw.choice(words)} for _ in range(60)]
    buffer = io.StringIO()
    quoting = draw.choice([csv.QUOTE_ALL, csv.QUOTE_MINIMAL])
    writer = csv.DictWriter(buffer, ["c", "d"], quoting=quoting, lineterminator=draw.choice(["\n", "\r\n"]))
    writer.writeheader()
    starts = []
    for row in rows:
        buffer.write("\n" * draw.randrange(2))
        starts.append(1 + buffer.getvalue().count("\n"))
        writer.writerow(row)
    found, places, _ = read_text(tmp_path, buffer.getvalue())
    assert found == rows
    assert places == [f"t.csv, line {start:,}" for start in starts]


@pytest.mark.usefixtures("small_blocks")
def test_a_quote_inside_a_value_opens_nothing(tmp_path):
    text = 'a,b\n5" pipe,"x\ny"\nno" 2,"z ""q\nr"" z"\n' + '7" pipe,2\n' * 20
    rows, places, _ = read_text(tmp_path, text)
    assert [row["a"] for row in rows] == ['5" pipe', 'no" 2', *['7" pipe'] * 20]
    assert [row["b"] for row in rows] == ["x\ny", 'z "q\nr" z', *["2"] * 20]
    assert places[:3] == ["t.csv, line 2", "t.csv, line 4", "t.csv, line 6"]


@pytest.mark.parametrize("size", [1, 2, 3, 7, 64])
@pytest.mark.parametrize("newline", ["\n", "\r\n", "\r"])
def test_blocks_cut_anywhere_hold_the_same_lines(tmp_path, monkeypatch, size, newline):
    monkeypatch.setattr(blocks, "BLOCK", size)
    monkeypatch.setattr(blocks, "MIN_LINES", 1)
    rows, places, _ = read_text(tmp_path, newline.join(["a,b", "1,2", "", "3,4", "5,6"]))
    assert rows == [{"a": 1, "b": 2}, {"a": 3, "b": 4}, {"a": 5, "b": 6}]
    assert places == ["t.csv, line 2", "t.csv, line 4", "t.csv, line 5"]


def test_mixed_newlines_count_as_lines(tmp_path):
    with pytest.raises(DataError, match=r"line 5, column 'b'"):
        read_text(tmp_path, b"a,b\r\n1,2\n3,4\r5,6\r\n7,x\n8,9\n")


@pytest.mark.parametrize("skipped", [0, 1, 2, 5])
def test_as_many_lines_are_skipped_as_asked_for(tmp_path, skipped):
    """Each line passed over could be a header: one more or less gives other names or other rows."""
    text = "\n".join([*(f"x{i},y{i}" for i in range(skipped)), "a,b", "1,2", "3,4"]) + "\n"
    rows, places, source = read_text(tmp_path, text, skip_lines=skipped)
    assert source.names == ["a", "b"]
    assert rows == [{"a": 1, "b": 2}, {"a": 3, "b": 4}]
    assert places[1] == f"t.csv, line {skipped + 3}"


HEADER = b"a,b\n1,2\n3,4\n"
DEFECTS = {
    "empty.csv": (b"", "empty.csv is empty"),
    "blank.csv": (b"\n\n \n", "blank.csv is empty"),
    "short.csv": (HEADER + b"3\n4,5\n", "short.csv, line 4 has 1 value, expected 2"),
    "long.csv": (HEADER + b"3,4\n5,6,7\n", "long.csv, line 5 has 3 values, expected 2"),
    "text.csv": (HEADER + b"3,x\n", "text.csv, line 4, column 'b': 'x' is not a number"),
    "blanks.csv": (HEADER + b"3, x \n", "line 4, column 'b': ' x ' is not a number"),
    "utf8.csv": (b"a,b\n1,x\n2,\xff\n", r"utf8.csv, line 3: byte 0xff at position 3 is not valid UTF-8"),
    "utf8_number.csv": (HEADER + b"3,\xff\n", "line 4: byte 0xff at position 3 is not valid UTF-8"),
    "utf8_name.csv": (b"a,\xff\n1,2\n", "line 1: byte 0xff at position 3 is not valid UTF-8"),
    "numbers.csv": (b"1,2\n3,4\n", "numbers instead of names in its first line"),
    "open_quote.csv": (b'a,b\n1,2\n3,"x\n2,y\n', "line 3: a quoted value is not terminated"),
    "open_text.csv": (b'a,b\n1,p\n3,"x\n2,y\n4,z\n', "line 3: a quoted value is not terminated"),
    "broken.jsonl": (b'{"a": 1}\n{"a": \n', "broken.jsonl, line 2 is not valid JSON"),
    "text.jsonl": (b'{"a": 1}\n\n{"a": "x"}\n', "text.jsonl, line 3, column 'a': 'x'"),
    "list.jsonl": (b'[{"a": 1}]', "is a JSON array"),
    "number.jsonl": (b'{"a": 1}\n3\n', "number.jsonl, line 2 is not a JSON object"),
    "two.jsonl": (b'{"a": 1}\n{"a": 2} {"a": 3}\n', "two.jsonl, line 2 is not valid JSON"),
    "empty.jsonl": (b"", "empty.jsonl is empty"),
    "truncated.csv.gz": (
        gzip.compress(text_of() * 500, mtime=0)[:-40],
        "cannot be read: Truncated compressed stream",
    ),
    "damaged.csv.gz": (
        gzip.compress(text_of(), mtime=0)[:-8] + b"12345678",
        "zlib inflate failed: incorrect data",
    ),
    "truncated.csv.zst": (pa.compress(text_of() * 500, "zstd", asbytes=True)[:-9], "cannot be read: Truncated"),
    "truncated.parquet": (parquet_bytes()[:-30], "truncated or not a Parquet file"),
    "empty.parquet": (b"", "truncated or not a Parquet file"),
    "truncated.arrow": (arrow_bytes(pa.ipc.new_file)[:-30], "truncated or not an Arrow file"),
    "cut_stream.arrow": (arrow_bytes(pa.ipc.new_stream)[:-200], "damaged after row 0"),
    "zipped.parquet.gz": (gzip.compress(parquet_bytes()), "cannot be read compressed"),
}


@pytest.mark.parametrize("name", DEFECTS)
def test_defects_are_named_with_their_place(tmp_path, name):
    content, message = DEFECTS[name]
    with pytest.raises(DataError, match=message):
        read_text(tmp_path, content, name)


@pytest.mark.parametrize("name", [*DEFECTS, "header_only.csv"])
def test_no_defect_leaves_anything_behind(tmp_path, capsys, name):
    content, _ = {**DEFECTS, "header_only.csv": (b"a,b\n", "")}[name]
    path = tmp_path / name
    path.write_bytes(content)
    words = ["--task", "lowrank", "--k", "1", "--categories", "refuse", "--dates", "refuse"]
    assert run_safely(["run", str(path), *words, "--out", str(tmp_path / "out")]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("Error: ")
    assert captured.err.count("\n") == 1
    assert [file.name for file in tmp_path.iterdir()] == [name]


def test_damage_inside_parquet_names_the_row(tmp_path):
    path = tmp_path / "damaged.parquet"
    table = pa.table({"a": np.random.default_rng(0).standard_normal(200_000)})
    pa.parquet.write_table(table, path, row_group_size=50_000, compression="gzip", use_dictionary=False)
    content = bytearray(path.read_bytes())
    middle = len(content) // 2
    content[middle : middle + 5000] = bytes(5000)
    with pytest.raises(DataError, match=r"damaged\.parquet is damaged after row (65,536|98,304)"):
        read_text(tmp_path, bytes(content), path.name)


@pytest.mark.parametrize("opener", [pa.ipc.new_file, pa.ipc.new_stream])
def test_rows_of_every_batch_have_their_places(tmp_path, opener):
    with opener(tmp_path / "t.arrow", TABLE.schema) as writer:
        for _ in range(4):
            writer.write_table(TABLE)
    assert read(tmp_path / "t.arrow")[1] == [f"t.arrow, row {row}" for row in range(1, 17)]


def test_missing_file_and_folder(tmp_path):
    with pytest.raises(DataError, match="cannot be read: No such file"):
        open_source(str(tmp_path / "nothing.csv"))
    with pytest.raises(DataError, match="is a folder"):
        open_source(str(tmp_path))


@pytest.mark.slow
def test_text_far_down_is_found_in_bounded_memory(tmp_path):
    lines = [b"a,b\n", *[b"%d,0.5\n" % i for i in range(200_000)], b"oops,1\n", *[b"1,2\n"] * 1000]
    with pytest.raises(DataError, match=r"t\.csv, line 200,002, column 'a': 'oops' is not a number"):
        read_text(tmp_path, b"".join(lines))


def test_types_that_are_known(tmp_path):
    """Numbers may be written true and false; digits may be strings."""
    kinds = {"ok": ColumnType.NUMBER, "when": ColumnType.TIME, "code": ColumnType.STRING}
    rows, _, source = read_text(tmp_path, "ok,when,code\nTrue,2024-01-02,01\nFalse,,02\n", kinds=kinds)
    assert source.kinds == kinds
    assert [(row["ok"], row["code"]) for row in rows] == [(True, "01"), (False, "02")]
    with pytest.raises(DataError, match="line 2, column 'ok': 'x' is not a number"):
        read_text(tmp_path, "ok,when,code\nx,2024-01-02,01\n", kinds=kinds)
    with pytest.raises(DataError, match="column 'when' must contain dates, it contains numbers"):
        read_text(tmp_path, "ok,when,code\ntrue,3,01\n", kinds=kinds)


def test_integers_that_no_float_holds_are_strings(tmp_path):
    keys = [2**53 + 1, 2**63 + 1, 2**64 - 1]
    text = "key,large\n" + "".join(f"{key},{key}.5\n" for key in keys)
    rows, _, source = read_text(tmp_path, text)
    assert [row["key"] for row in rows] == [str(key) for key in keys]
    assert source.kinds == {"key": ColumnType.STRING, "large": ColumnType.NUMBER}


def test_lines_keep_their_numbers_after_comments(tmp_path):
    kinds = {"a": ColumnType.NUMBER, "b": ColumnType.NUMBER}
    with pytest.raises(DataError, match="line 6, column 'b': 'x' is not a number"):
        read_text(tmp_path, "a,b\n# one\n1,2\n  # two\n\n3,x\n", comment="#", kinds=kinds)


@pytest.mark.parametrize(
    ("text", "header", "expected"),
    [
        ("1,2\n3,4\n", False, {"1": 3.0, "2": 4.0}),
        ("a,b\nx,1,2\ny,3,4\n", True, {"": "y", "a": 3.0, "b": 4.0}),
        ("a,a,b\n1,2,3\n", True, {"a": 1.0, "a (2)": 2.0, "b": 3.0}),
        ("a\tb\n\t\n1\t\n", True, {"a": 1.0, "b": None}),
        ("1_000,b\n1,2\n", True, {"1_000": 1.0, "b": 2.0}),
    ],
)
def test_names_of_columns(tmp_path, text, header, expected):
    assert read_text(tmp_path, text, header=header)[0][-1] == expected


def test_only_bad_lines_are_left_out_and_counted(tmp_path):
    rows, places, source = read_text(tmp_path, 'a,b\n1,"x\ny"\n2\n3,z\n', bad_lines="drop")
    assert rows == [{"a": 1.0, "b": "x\ny"}, {"a": 3.0, "b": "z"}]
    assert places == ["t.csv, line 2", "t.csv, line 5"]
    assert source.notes == ["1 lines with too few or too many values were dropped"]


def test_decimal_commas_are_numbers_in_errors_too(tmp_path):
    lines = "".join(f"{i},5;1\n" for i in range(9))
    with pytest.raises(DataError, match="line 11, column 'b': 'x' is not a number"):
        read_text(tmp_path, f"a;b\n{lines}1,5;x\n", decimal=",")


def test_json_heeds_words_for_missing_values(tmp_path):
    rows = [{"a": 1, "tags": [1, "x"]}, {"a": "none"}, {"a": 3, "more": 1}]
    text = "".join(json.dumps(row) + "\n" for row in rows)
    found, _, source = read_text(tmp_path, text, "t.jsonl", columns=["a"], verbatim=["tags"], na_values=("none",))
    assert source.kinds == {"a": ColumnType.NUMBER, "tags": ColumnType.OTHER, "more": ColumnType.NUMBER}
    assert found == [{"a": 1.0, "tags": '[1,"x"]'}, {"a": None, "tags": None}, {"a": 3.0, "tags": None}]


@pytest.mark.usefixtures("small_blocks")
def test_columns_that_are_not_converted(tmp_path):
    text = "a,b\n" + "1.50,007\n" * 30
    assert read_text(tmp_path, text, columns=["a"], verbatim=["b"])[0] == [{"a": 1.5, "b": "007"}] * 30


def test_a_query_needs_no_database(tmp_path):
    pytest.importorskip("duckdb")
    (tmp_path / "t.csv").write_bytes(text_of())
    source = open_sources([], Layout(query=f"SELECT a, colour FROM '{tmp_path / 't.csv'}' WHERE b > 15"))
    assert [row for batch in source.batches(["colour"]) for row in batch.table.to_pylist()] == [
        {"colour": row["colour"]} for row in ROWS[1:]
    ]


def test_values_of_sqlite_keep_the_types_of_the_first(tmp_path):
    path = tmp_path / "t.db"
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE t (a, b, c)")
        connection.executemany("INSERT INTO t VALUES (?, ?, ?)", [(1, "x", b"1"), (None, None, None), (2.5, "y", b"2")])
    rows, places, source = read(path, columns=["a", "b"], query="SELECT * FROM t")
    assert rows == [{"a": 1.0, "b": "x"}, {"a": None, "b": None}, {"a": 2.5, "b": "y"}]
    assert places[2] == "t.db, row 3"
    assert source.kinds["c"] is ColumnType.OTHER
    with sqlite3.connect(path) as connection:
        connection.execute("INSERT INTO t VALUES ('no', 'z', NULL)")
    connection.close()
    with pytest.raises(DataError, match=r"t\.db, row 4, column 'a': 'no' is not a number"):
        read(path, columns=["a"], query="SELECT * FROM t")
    with pytest.raises(DataError, match="the query failed: no such column: q"):
        read(path, query="SELECT q FROM t")


def test_threads_of_arrow_hold_no_memory_of_python(monkeypatch, tmp_path):
    """A thread that gives memory back to an interpreter that ends would abort the process."""
    given, read_csv = [], pa.csv.read_csv
    monkeypatch.setattr(
        pa.csv, "read_csv", lambda source, **options: given.append(source) or read_csv(source, **options)
    )
    read_text(tmp_path, text_of())
    assert given
    assert all(source.is_mutable for source in given)  # what Python lends is not
