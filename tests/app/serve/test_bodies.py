"""Bodies of requests: every way to read rows gives the same table, and sizes are limited when they are decoded."""

import json
import random
from contextlib import suppress

import pytest

pytest.importorskip("msgspec", reason="needs the extra serve")

import pyarrow as pa

from batch2online.app.serve.bodies import exact_keys, table_of
from batch2online.app.serve.problems import RequestError
from torture.service_bodies import forged_strings, ipc

NAMES = ["a", "b", 'quote "', "brace }", "é", "\t"]
VALUES = {
    "numbers": [1, -2.5, 1e300, 0],
    "numbers and gaps": [1, None, 2.5],
    "strings": ["x", "brace }", "", None],
    "truth values": [True, False, None],
}
JSON, ARROW = "application/json", "application/vnd.apache.arrow.stream"


def rows_of(rng):
    """Rows with the same names in any order, sometimes with one name less or more."""
    kinds = {name: rng.choice(list(VALUES)) for name in rng.sample(NAMES, rng.randrange(1, 5))}
    rows = []
    for _ in range(rng.randrange(1, 6)):
        names = rng.sample(list(kinds), len(kinds) - (len(kinds) > 1 and rng.random() < 0.1))
        rows.append({name: rng.choice(VALUES[kinds[name]]) for name in names})
        if rng.random() < 0.05:
            rows[-1]["more"] = 1.0
    return rows


@pytest.mark.parametrize("seed", range(40))
def test_rows_are_the_same_table_whatever_their_order_of_names(seed):
    rows = rows_of(random.Random(seed))
    names = dict.fromkeys(name for row in rows for name in row)
    expected = {name: [row.get(name) for row in rows] for name in names}
    lines = "\n\n".join(map(json.dumps, rows)).encode()
    for found in (table_of(json.dumps(rows).encode(), JSON), table_of(lines, "application/x-ndjson")):
        assert found.to_pydict() == expected, rows
        assert pa.int64() not in found.schema.types


@pytest.mark.parametrize("second", ["x", True])
def test_values_of_several_types_are_refused(second):
    with pytest.raises(RequestError, match="several types"):
        table_of(json.dumps([{"a": 1.0}, {"a": second}]).encode(), JSON)


def test_large_integers_among_fractions_are_doubles():
    assert table_of(b'[{"a": 0.5}, {"a": 1152921504606846977}]', JSON).to_pydict() == {"a": [0.5, 2.0**60]}


@pytest.mark.parametrize("more", [{}, {"b": 1}])
def test_integers_of_keys_are_exact(more):
    rows = [{"key": 2**60 + 1}, {"key": 3} | more]
    assert table_of(json.dumps(rows).encode(), JSON)["key"].to_pylist() == [2**60 + 1, 3]


@pytest.mark.parametrize("kind", [pa.timestamp("s"), pa.timestamp("s", tz="Nowhere"), pa.duration("s"), pa.date64()])
def test_times_are_no_keys(kind):
    for key in (0, 2**61):
        column = pa.array([key]).view(kind)
        for each in (column, column.dictionary_encode()):
            with pytest.raises(RequestError, match="strings or integers"):
                exact_keys(pa.chunked_array([each]))


def named(count):
    return b"[" + b",".join(b'{"c%d":1}' % place for place in range(count)) + b"]"


TEXT = pa.array(["x" * 5_000])
_, VIEW, CONTENT = TEXT.cast(pa.string_view()).buffers()
VIEWS = pa.Array.from_buffers(pa.string_view(), 1_000, [None, pa.py_buffer(VIEW.to_pybytes()[:16] * 1_000), CONTENT])
TOO_LARGE = {
    "empty rows": (JSON, b"[" + b"{}," * 20_000 + b"{}]"),
    "rows with names of their own": (JSON, named(1_000)),
    "columns of JSON": (JSON, b"[{%b}]" % b",".join(b'"c%d":1' % place for place in range(10_001))),
    "columns of CSV": ("text/csv", b"," * 10_001 + b"\n1"),
    "rows of nulls": (ARROW, ipc(pa.table({"a": pa.nulls(2**31 - 1)}))),
    "views of one text": (ARROW, ipc(pa.table({"a": VIEWS}))),
    "a text with many indices": (ARROW, ipc(pa.table({"a": TEXT.dictionary_encode().take(pa.array([0] * 1_000))}))),
}


@pytest.mark.parametrize("body", TOO_LARGE.values(), ids=TOO_LARGE)
def test_decoded_tables_are_limited(body):
    with pytest.raises(RequestError, match=r"more than 100,000 values|at most 10,000") as caught:
        table_of(body[1], body[0], 100_000)
    assert caught.value.status == 422


WRONG = {
    "compressed by zstd": ipc(pa.table({"a": [1.0] * 100}), compression="zstd"),
    "a compressed dictionary": ipc(pa.table({"a": pa.array(["x" * 50]).dictionary_encode()}), compression="lz4"),
    "strings that end behind the body": forged_strings(),
    "cut": ipc(pa.table({"a": [1.0] * 100}))[:-300],
    "lists": ipc(pa.table({"a": [[1], [2]]})),
    "no stream": b"\xff\xff\xff\xff\x10\0\0\0" + b"\x7f" * 64,
}


def test_names_of_columns_that_are_no_text_are_refused():
    with pytest.raises(RequestError, match="text/csv") as caught:
        table_of("a,b\n1,2\n".encode("utf-16"), "text/csv")
    assert caught.value.status == 422


@pytest.mark.parametrize("body", WRONG.values(), ids=WRONG)
def test_wrong_streams_of_arrow_are_refused(body):
    with pytest.raises(RequestError) as caught:
        table_of(body, ARROW)
    assert caught.value.status == 422


def test_changed_streams_of_arrow_are_read_or_refused():
    rng = random.Random(0)
    texts = pa.array(["a", "bb", None, "c" * 20])
    table = {"a": [1.0, 2.0, 3.0, 4.0], "b": texts, "c": texts.dictionary_encode(), "d": texts.cast(pa.string_view())}
    good = ipc(pa.table(table))
    for _ in range(1_000):
        body = bytearray(good)
        for _ in range(rng.randrange(1, 6)):
            body[rng.randrange(len(body))] = rng.randrange(256)
        with suppress(RequestError):
            table_of(bytes(body), ARROW).to_pylist()
