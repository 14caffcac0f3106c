"""Readers: every format gives the same rows, every defect is named with its place."""

from __future__ import annotations

import bz2
import gzip
import io
import json
import lzma
import sys
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pyarrow.ipc
import pyarrow.parquet
import pytest

from batch2online.app.cli.app import run_safely
from batch2online.app.cli.run.source import open_stream
from batch2online.app.cli.settings import Settings
from batch2online.app.cli.tasks import Task
from batch2online.app.inputs import DataError, Layout, Remedy, open_source
from batch2online.app.inputs.byte_stream import ByteStream, LineBlock, blocks
from batch2online.frames.columns import ColumnType

TABLE = pa.table({"a": [1.0, 2.5, -3.0, 4.0], "b": [10, 20, 30, 40], "colour": ["red", "blue", "red", "green"]})
ROWS = TABLE.to_pylist()


def text_of(delimiter=",", newline="\n"):
    lines = [
        delimiter.join(TABLE.column_names),
        *(delimiter.join(str(value) for value in row.values()) for row in ROWS),
    ]
    return (newline.join(lines) + newline).encode()


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


def read(path, columns=None, **options):
    source = open_source(str(path), Layout(**options))
    batches = list(source.batches(columns or source.names))
    return pa.concat_tables([batch.table for batch in batches]).to_pylist(), batches, source


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
PIPES = {name: FILES[name] for name in ("table.csv", "table.tsv", "table.csv.gz", "table.jsonl", "stream.arrow")}


@pytest.mark.parametrize("name", FILES)
def test_every_format_gives_the_same_rows(tmp_path, name):
    (tmp_path / name).write_bytes(FILES[name])
    rows, batches, source = read(tmp_path / name)
    assert rows == ROWS
    assert source.kinds == {"a": ColumnType.NUMBER, "b": ColumnType.NUMBER, "colour": ColumnType.STRING}
    assert all(batch.table.schema.field("b").type == pa.float64() for batch in batches)


@pytest.mark.parametrize("name", PIPES)
def test_standard_input(monkeypatch, name):
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BufferedReader(io.BytesIO(PIPES[name]))))
    assert read("-")[0] == ROWS


def test_mixed_newlines_count_as_lines(tmp_path):
    path = tmp_path / "mixed.csv"
    path.write_bytes(b"a,b\r\n1,2\n3,4\r5,6\r\n7,x\n8,9\n")
    with pytest.raises(DataError, match=r"line 5, column 'b'"):
        read(path, format="csv")


@pytest.mark.parametrize("size", [1, 2, 3, 7, 64])
@pytest.mark.parametrize("newline", [b"\n", b"\r\n", b"\r"])
def test_blocks_cut_anywhere_hold_the_same_lines(size, newline):
    content = newline.join([b"a,b", b"1,2", b"", b"3,4", b"5,6"])
    found = [
        line for block in blocks(ByteStream(io.BytesIO(content), "x"), size, min_lines=1) for line in block.lines()
    ]
    assert found == [(1, b"a,b"), (2, b"1,2"), (4, b"3,4"), (5, b"5,6")]


@pytest.mark.parametrize("skipped", [0, 1, 2, 5])
def test_skipped_lines_are_as_many_as_asked_for(tmp_path, skipped):
    """Each line passed over could be a header: one more or less gives other names or other rows."""
    head = [f"x{i},y{i}" for i in range(skipped)]
    (tmp_path / "x.csv").write_text("\n".join([*head, "a,b", "1,2", "3,4"]) + "\n")
    rows, _, source = read(tmp_path / "x.csv", skip_lines=skipped)
    assert source.names == ["a", "b"]
    assert rows == [{"a": 1, "b": 2}, {"a": 3, "b": 4}]


def test_line_of_a_row_passes_over_blank_lines():
    assert LineBlock(b"\n1\n\n\n2\n", first_line=7).line_of(1) == 11


HEADER = b"a,b\n1,2\n3,4\n"
DEFECTS = {
    "empty.csv": (b"", "empty.csv is empty"),
    "blank.csv": (b"\n\n \n", "blank.csv is empty"),
    "short.csv": (HEADER + b"3\n4,5\n", "short.csv, line 4 has 1 value, expected 2"),
    "long.csv": (HEADER + b"3,4\n5,6,7\n", "long.csv, line 5 has 3 values, expected 2"),
    "text.csv": (HEADER + b"3,x\n", "text.csv, line 4, column 'b': 'x' is not a number"),
    "utf8.csv": (b"a,b\n1,x\n2,\xff\n", r"utf8.csv, line 3: byte 0xff at position 3 is not valid UTF-8"),
    "utf8_number.csv": (HEADER + b"3,\xff\n", "line 4: byte 0xff at position 3 is not valid UTF-8"),
    "numbers.csv": (b"1,2\n3,4\n", "numbers instead of names in its first line"),
    "open_quote.csv": (b'a,b\n1,2\n3,"x\n2,y\n', "line 3: a quoted value is not terminated"),
    "broken.jsonl": (b'{"a": 1}\n{"a": \n', "broken.jsonl, line 2 is not valid JSON"),
    "text.jsonl": (b'{"a": 1}\n\n{"a": "x"}\n', "text.jsonl, line 3, column 'a': 'x'"),
    "list.jsonl": (b'[{"a": 1}]', "is a JSON array"),
    "number.jsonl": (b'{"a": 1}\n3\n', "number.jsonl, line 2 is not a JSON object"),
    "empty.jsonl": (b"", "empty.jsonl is empty"),
    "truncated.csv.gz": (gzip.compress(text_of() * 500, mtime=0)[:-40], "truncated: its gzip data end after"),
    "damaged.csv.gz": (gzip.compress(text_of(), mtime=0)[:-8] + b"12345678", "damaged gzip data"),
    "truncated.parquet": (parquet_bytes()[:-30], "truncated or not a Parquet file"),
    "empty.parquet": (b"", "truncated or not a Parquet file"),
    "truncated.arrow": (arrow_bytes(pa.ipc.new_file)[:-30], "truncated or not an Arrow file"),
    "zipped.parquet.gz": (gzip.compress(parquet_bytes()), "cannot be read compressed"),
}


@pytest.mark.parametrize("name", DEFECTS)
def test_defects_are_named_with_their_place(tmp_path, name):
    content, message = DEFECTS[name]
    (tmp_path / name).write_bytes(content)
    with pytest.raises(DataError, match=message):
        read(tmp_path / name)


@pytest.mark.parametrize("name", [*DEFECTS, "header_only.csv", "gap.csv"])
def test_no_defect_leaves_anything_behind(tmp_path, capsys, name):
    content, _ = {**DEFECTS, "header_only.csv": (b"a,b\n", ""), "gap.csv": (b"a,b\n1,2\n3,\n", "")}[name]
    (tmp_path / name).write_bytes(content)
    assert (
        run_safely(["run", str(tmp_path / name), "--task", "lowrank", "--k", "1", "--out", str(tmp_path / "out")]) == 2
    )
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("Error: ")
    assert captured.err.count("\n") == 1
    assert [file.name for file in tmp_path.iterdir()] == [name]


def test_truncated_arrow_stream_is_not_a_short_table(tmp_path):
    path = tmp_path / "cut.arrow"
    path.write_bytes(arrow_bytes(pa.ipc.new_stream)[:-200])
    with pytest.raises(DataError, match="damaged after row 0"):
        read(path)


def test_damage_inside_parquet_names_the_row(tmp_path):
    path = tmp_path / "damaged.parquet"
    table = pa.table({"a": np.random.default_rng(0).standard_normal(200_000)})
    pa.parquet.write_table(table, path, row_group_size=50_000, compression="gzip", use_dictionary=False)
    content = bytearray(path.read_bytes())
    middle = len(content) // 2
    content[middle : middle + 5000] = bytes(5000)
    path.write_bytes(content)
    with pytest.raises(DataError, match=r"damaged\.parquet is damaged after row (65,536|98,304)"):
        read(path)


@pytest.mark.parametrize("opener", [pa.ipc.new_file, pa.ipc.new_stream])
def test_rows_of_every_batch_have_their_places(tmp_path, opener):
    with opener(tmp_path / "t.arrow", TABLE.schema) as writer:
        for _ in range(4):
            writer.write_table(TABLE)
    _, batches, _ = read(tmp_path / "t.arrow")
    assert [batch.place(1) for batch in batches] == [f"t.arrow, row {row}" for row in (2, 6, 10, 14)]


def test_missing_file_and_folder(tmp_path):
    with pytest.raises(DataError, match="cannot be read: No such file"):
        open_source(str(tmp_path / "nothing.csv"))
    with pytest.raises(DataError, match="is a folder"):
        open_source(str(tmp_path))


@pytest.mark.slow
def test_text_far_down_is_found_in_bounded_memory(tmp_path):
    path = tmp_path / "far.csv"
    lines = [b"a,b\n", *[b"%d,0.5\n" % i for i in range(200_000)], b"oops,1\n", *[b"1,2\n"] * 1000]
    path.write_bytes(b"".join(lines))
    with pytest.raises(DataError, match=r"far\.csv, line 200,002, column 'a': 'oops' is not a number"):
        for _ in open_source(str(path)).batches(["a", "b"]):
            pass


def prepared(tmp_path, content, name="x.csv", **settings):
    (tmp_path / name).write_bytes(content)
    stream = open_stream(open_source(str(tmp_path / name)), name, Task(Settings.written(settings)))
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


def test_numbers_that_are_written_true_and_false_are_known_numbers(tmp_path):
    (tmp_path / "t.csv").write_text("ok,when\nTrue,2024-01-02\nFalse,2024-01-03\n")
    kinds = {"ok": ColumnType.NUMBER, "when": ColumnType.TIME}
    source = open_source(str(tmp_path / "t.csv"), Layout(kinds=kinds))
    assert source.kinds == kinds
    assert [batch.table.column("ok").to_pylist() for batch in source.batches(["ok"])] == [[1.0, 0.0]]
    (tmp_path / "t.csv").write_text("ok,when\nx,2024-01-02\nFalse,2024-01-03\n")
    with pytest.raises(DataError, match="line 2, column 'ok': 'x' is not a number"):
        open_source(str(tmp_path / "t.csv"), Layout(kinds=kinds))
