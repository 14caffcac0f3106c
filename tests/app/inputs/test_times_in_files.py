"""Dates in files, with a zone and without: they are points in time, and never mix."""

from __future__ import annotations

import datetime as dt
import json
import sqlite3

import numpy as np
import pyarrow as pa
import pyarrow.ipc as ipc
import pyarrow.parquet as parquet
import pytest

from batch2online.app.cli.app import run_safely
from batch2online.app.inputs import DataError, Layout, blocks, open_source, open_sources
from batch2online.tables.columns import ColumnType, of_arrow

N = 60
START = dt.datetime(2024, 7, 1, 22, tzinfo=dt.UTC)
ZONED = [START + dt.timedelta(hours=hour) for hour in range(N)]
NAIVE = [when.replace(tzinfo=None) for when in ZONED]
DAYS = np.array([(when - dt.datetime(1970, 1, 1)) / dt.timedelta(days=1) for when in NAIVE])
TOKYO = dt.timezone(dt.timedelta(hours=9))


def write(path, when):
    """Write a table of y and when, in the format that the name of the file says."""
    texts = [None if value is None else value.isoformat() for value in when]
    y = [float(number) for number in range(len(when))]
    if path.suffix == ".csv":
        path.write_text("y,when\n" + "".join(f"{a},{b or ''}\n" for a, b in zip(y, texts, strict=True)))
    elif path.suffix == ".jsonl":
        path.write_text("".join(json.dumps({"y": a, "when": b}) + "\n" for a, b in zip(y, texts, strict=True)))
    elif path.suffix == ".db":
        with sqlite3.connect(path) as connection:
            connection.execute("CREATE TABLE t (y REAL, 'when' TEXT)")
            connection.executemany("INSERT INTO t VALUES (?, ?)", list(zip(y, texts, strict=True)))
        connection.close()
    else:
        table = pa.table({"y": y, "when": pa.array(when)})
        if path.suffix == ".parquet":
            parquet.write_table(table, path)
        else:
            with ipc.new_stream(path, table.schema) as stream:
                stream.write_table(table)
    return path


def layout_of(path, **given):
    return Layout(query='SELECT y, "when" FROM t' if path.suffix == ".db" else None, **given)


def days_of(path, **given):
    source = open_source(str(path), layout_of(path, **given))
    batches = [of_arrow(batch.table.column("when")).values / 86_400e6 for batch in source.batches(["y", "when"])]
    return source.kinds["when"], np.concatenate(batches)


FORMATS = ["csv", "jsonl", "parquet", "arrow", "db"]


@pytest.mark.parametrize("kind", FORMATS)
@pytest.mark.parametrize(
    ("when", "expected"),
    [
        (NAIVE, ColumnType.TIME),
        (ZONED, ColumnType.ZONED),
        ([value.astimezone(TOKYO) for value in ZONED], ColumnType.ZONED),
        ([value.date() for value in NAIVE], ColumnType.TIME),
    ],
    ids=["naive", "utc", "tokyo", "dates"],
)
def test_days_since_1970(tmp_path, kind, when, expected):
    found, days = days_of(write(tmp_path / f"rows.{kind}", when))
    assert found is expected
    assert days == pytest.approx(np.floor(DAYS) if type(when[0]) is dt.date else DAYS, abs=1e-10)


@pytest.mark.parametrize("kind", ["csv", "jsonl", "db"])
def test_dates_among_times_are_midnight(tmp_path, kind):
    path = write(tmp_path / f"rows.{kind}", [NAIVE[0], NAIVE[1].date(), None, NAIVE[3]])
    found, days = days_of(path)
    assert found is ColumnType.TIME
    np.testing.assert_allclose(days, [DAYS[0], np.floor(DAYS[1]), np.nan, DAYS[3]], rtol=1e-12)


MIXED = {
    "naive after": [*ZONED[:9], NAIVE[9]],
    "zoned after": [*NAIVE[:9], ZONED[9]],
    "date after": [*ZONED[:9], NAIVE[9].date()],
}


@pytest.mark.parametrize("kind", ["csv", "jsonl", "db"])
@pytest.mark.parametrize("which", MIXED)
def test_both_sorts_are_refused_with_their_place(tmp_path, kind, which):
    path = write(tmp_path / f"rows.{kind}", MIXED[which])
    place = {"csv": "line 11", "jsonl": "line 10", "db": "row 10"}[kind]
    with pytest.raises(
        DataError, match=rf"rows.{kind}, {place}, column 'when': .* either all or none must have a time zone"
    ):
        days_of(path)


@pytest.mark.parametrize("kind", ["csv", "jsonl"])
@pytest.mark.parametrize("first", ["naive", "zoned"])
def test_both_sorts_are_refused_in_later_blocks(tmp_path, kind, first, monkeypatch):
    monkeypatch.setattr(blocks, "BLOCK", 100)
    monkeypatch.setattr(blocks, "MIN_LINES", 1)
    before, after = (NAIVE, ZONED) if first == "naive" else (ZONED, NAIVE)
    path = write(tmp_path / f"rows.{kind}", [*before[:20], after[20], *before[21:]])
    place = {"csv": "line 22", "jsonl": "line 21"}[kind]
    with pytest.raises(DataError, match=rf"{place}, column 'when': .* is not a date"):
        days_of(path)


@pytest.mark.usefixtures("no_report")
@pytest.mark.parametrize("kind", FORMATS)
def test_a_model_of_the_one_sort_refuses_the_other(tmp_path, capsys, kind):
    query = ("--query", 'SELECT y, "when" FROM t') if kind == "db" else ()
    command = ("--task", "regression", "--target", "y", "--quiet", *query)
    zoned, naive = (write(tmp_path / f"{name}.{kind}", when) for name, when in (("zoned", ZONED), ("naive", NAIVE)))
    assert run_safely(["run", str(zoned), *command, "--out", str(tmp_path / "out")]) == 0
    capsys.readouterr()
    assert run_safely(["predict", str(tmp_path / "out"), str(zoned), *query]) == 0
    capsys.readouterr()
    assert run_safely(["predict", str(tmp_path / "out"), str(naive), *query]) == 2
    said = capsys.readouterr().err
    assert "'when'" in said
    assert "with a time zone" in said
    assert json.loads((tmp_path / "out" / "result.json").read_text())["preparation"]["units"] == {
        "when": "days since 1970, UTC"
    }


@pytest.mark.parametrize("kind", ["csv", "jsonl", "parquet"])
def test_several_files_of_both_sorts(tmp_path, kind):
    paths = [str(write(tmp_path / f"{name}.{kind}", when)) for name, when in (("a", NAIVE), ("b", ZONED))]
    source = open_sources(paths, Layout())
    with pytest.raises(DataError, match=rf"b.{kind}.*column 'when'.*date"):
        list(source.batches(["y", "when"]))


def test_parts_of_dates_with_a_zone_are_those_in_utc(tmp_path, capsys):
    path = write(tmp_path / "rows.csv", [value.astimezone(TOKYO) for value in ZONED])
    assert run_safely(["run", str(path), "--task", "lowrank", "--k", "1", "--dates", "parts", "--json", "--quiet"]) == 0
    units = json.loads(capsys.readouterr().out)["preparation"]["units"]
    assert units["when"] == "days since 1970, UTC"
    assert units["when: hour"] == "hours, UTC"
