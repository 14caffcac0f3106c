"""Bodies of requests to the service: what its routes accept, mutated, cut, forged, compressed or too large."""

from __future__ import annotations

import copy
import gzip
import io
import json
import math
import random
import struct
from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa

MAX_BODY = 2**20
MODELS: dict[str, dict[str, Any]] = {
    "price": {"task": "regression", "target": "y", "keep_history": True},
    "names": {"task": "regression", "target": "y"},
    "kinds": {"task": "classification", "target": "y"},
    "groups": {"task": "clustering", "k": 2, "exclude": ["y"]},
    "empty": {"task": "regression", "target": "y"},
    "healthy": {"task": "regression", "target": "y"},
}
Made = tuple[str, bytes, bytes]
JSON, LINES = b"application/json", b"application/x-ndjson"
CSV, ARROW = b"text/csv", b"application/vnd.apache.arrow.stream"
TENSOR: dict[str, Any] = {"name": "rows", "shape": [1, 2], "datatype": "FP64", "data": [1, 2], "parameters": {}}
OPTIONS = (
    *(
        "estimator",
        "k",
        "z",
        "loss",
        "alpha",
        "l1_ratio",
        "quantile",
        "power",
        "delta",
        "class_weight",
        "columns",
        "seed",
    ),
    *("exclude", "epsilon", "coreset_size", "refresh", "half_life", "window", "history", "keep_history", "churn_price"),
    *("memory", "task", "target", "seed", "other"),
)
ODD: tuple[Any, ...] = (
    *(None, True, 0, -1, 3, 7.5, 2**53 + 1, 2**63, 2**70, 10**9, 10**400, 1e308, 5e-324, -0.0, 1e400, -1e400, math.nan),
    *("", "x", "y", "auto", "\ud800", "\u0000", "1e9", "2024-01-01", "1,5", "x" * 50_000, "coreset", "balanced"),
    *("sklearn.linear_model.Ridge", "sklearn.svm.SVC", "os.system", "sklearn.base.clone", "UINT64", "BYTES", "../x"),
    *([], ["a"], [[1.0]], {}, {"a": 1}, [10**9] * 2, list(range(10_000)), {"binary_data_size": 2**70}),
)
FIELDS = ("a", "b", "y", "key", "", "__proto__", "\u0000", "c" * 9_000, "shape", "outputs", "keys", "ids")
ROW = b'{"a": 1, "b": 2, "y": 1}'
DOCUMENTS = (
    *(b"[" * 50_000, b'{"a":' * 20_000, b"[" * 400 + b"]" * 400, b"[%b,]" % ROW, b"/**/[%b]" % ROW, b" " * 10**5 + ROW),
    *(b'[{"a": 1, "a": 2, "b": 1, "y": 1}]', b"[" + b"0," * 10**5, b"\xef\xbb\xbf[%b]" % ROW),
    *(b"a,b,y\n" + b"1,2,3\n" * 9_000, b"a,a,y\n1,2,3", b"a;b;y\n1;2;3", b'"a\n1', b"a,b,y\r1,2,3", b"a,b\n1\n1,2,3"),
    *(b"[%b1]" % (b"%b," % ROW * 5_000), b"[%b{}]" % (b"%b," % ROW * 5_000)),
    b"[{%b}]" % b",".join(b'"c%d": 1' % place for place in range(300)),
)  # fmt: skip
PIECES = (b"", b"\x00", b"-", b"9" * 30, b'"', b"[", b"null", b"1e400", b",", b"\n", b"\\", b"\xff", b"01", b"{}", b"'")


@cache
def rows_of(name: str, count: int, seed: int = 0) -> list[dict[str, Any]]:
    """Return rows that a model accepts, with targets."""
    rng = random.Random(seed)
    rows = [{"a": rng.gauss(0, 1), "b": rng.gauss(2, 5), "y": float(rng.random() < 0.5)} for _ in range(count)]
    return [row | {"b": "uvw"[place % 3]} for place, row in enumerate(rows)] if name == "names" else rows


def make_body(rng: random.Random, kind: str, name: str, action: str) -> Made:
    """Return the kind of a body, its content type and its content."""
    if kind == "none":
        return kind, rng.choice([JSON, CSV, ARROW, b""]), b""
    if kind == "large":
        return kind, rng.choice([JSON, CSV, ARROW]), rng.choice(_large())
    if kind == "compressed":
        encodings = (b"gzip", b"zstd", b"br", b"deflate", b"identity", b"gzip, gzip")
        return kind, rng.choice([JSON, CSV]) + b"\r\nContent-Encoding: " + rng.choice(encodings), rng.choice(_packed())
    if kind == "forged" and rng.random() < 0.25:
        return _arrow(rng, name)
    if kind == "forged" and rng.random() < 0.15:
        return "document", rng.choice([JSON, LINES, CSV]), rng.choice(DOCUMENTS)
    value = _value(rng, name, action)
    for _ in range(rng.choice([0, 1, 1, 2]) if kind == "forged" else 0):
        value = _mutated(rng, value)
    type_, content = _encoded(rng, value)
    if kind == "short":
        return kind, type_, content[: rng.randrange(len(content))]
    for _ in range(rng.choice([0, 0, 1, 3]) if kind == "forged" else 0):
        at = rng.randrange(len(content) + 1)
        content = content[:at] + rng.choice(PIECES) + content[at + rng.choice([0, 1, 5]) :]
    return f"{kind} {action}", type_, content


def _value(rng: random.Random, name: str, action: str) -> Any:
    """Return what a route accepts."""
    if action == "settings":
        return rng.choice(list(MODELS.values()))
    if action == "forget":
        return {rng.choice(["ids", "keys"]): [rng.randrange(60)]}
    if action == "infer":
        return {
            "inputs": [TENSOR],
            "id": "7",
            "outputs": [{"name": "predictions", "parameters": {"binary_data": True}}],
        }
    wanted, first = rng.choice(["aby", "aby", "ab", "y"]), rng.choice([0, 30, 10**6, 10**12])
    rows = [{each: row[each] for each in wanted} for row in rows_of(name, rng.choice([1, 1, 3, 40]), rng.randrange(5))]
    return [row | {"key": f"k{first + i}"} for i, row in enumerate(rows)] if rng.random() < 0.4 else rows


def _mutated(rng: random.Random, value: Any) -> Any:
    """Return a value of JSON of which one part is another, is gone, is there twice or has another name."""
    value = copy.deepcopy(value)
    parts, left = [], [value]
    while left:
        whole = left.pop()
        if isinstance(whole, dict | list):
            parts += [(whole, place) for place in (whole if isinstance(whole, dict) else range(len(whole)))]
            left += whole.values() if isinstance(whole, dict) else whole
    if not parts or rng.random() < 0.03:
        return rng.choice(ODD)
    whole, place = rng.choice(parts)
    kind = rng.choice(["other", "other", "other", "gone", "more"])
    if kind == "more" and isinstance(whole, dict):
        whole[rng.choice(OPTIONS if "task" in whole else FIELDS)] = rng.choice(ODD)
    elif kind == "more":
        whole.append(whole[place])
    elif kind == "gone":
        del whole[place]
    else:
        whole[place] = rng.choice(ODD)
    return value


def _encoded(rng: random.Random, value: Any) -> tuple[bytes, bytes]:
    if isinstance(value, list) and all(isinstance(row, dict) for row in value) and rng.random() < 0.4:
        if rng.random() < 0.5:
            return LINES, "\n".join(map(json.dumps, value)).encode()
        lines = [list(value[0])] if value else []
        lines += [[json.dumps(cell) if isinstance(cell, str) else cell for cell in row.values()] for row in value]
        text = "\n".join(",".join(map(str, line)) for line in lines) or "a"
        return CSV, text.encode(rng.choice(["utf-8"] * 4 + ["utf-16"]), "replace")
    return JSON, json.dumps(value).encode(rng.choice(["utf-8"] * 20 + ["utf-16"]))


@cache
def _large() -> list[bytes]:
    rows = b"[" + b",".join([ROW] * 60_000) + b"]"
    return [rows, rows[:MAX_BODY], b"[" + b",".join([ROW] * 40_000) + b"]", b"1,2,3\n" * 10**5, b"\x00" * MAX_BODY]


@cache
def _packed() -> list[bytes]:
    """Return small bodies, and some that are hundreds of megabytes when they are decompressed."""
    zeros, row, zstd = b" " * 2**24, b"[%b]" % ROW, pa.Codec("zstd")
    small = [gzip.compress(row), zstd.compress(row, asbytes=True), b"\x1f\x8b", b"\x28\xb5\x2f\xfd"]
    return [*small, gzip.compress(zeros) * 30, zstd.compress(zeros, asbytes=True) * 60]


def ipc(table: pa.Table, **options: Any) -> bytes:
    """Return a table as an Arrow stream."""
    stream = io.BytesIO()
    with pa.ipc.new_stream(stream, table.schema, options=pa.ipc.IpcWriteOptions(**options)) as writer:
        writer.write_table(table)
    return stream.getvalue()


@cache
def _tables(name: str) -> list[bytes]:
    """Return tables of all types, most of which no model accepts."""
    good, n = pa.Table.from_pylist(rows_of(name, 8)), 8
    typed = {
        pa.uint64(): 2**64 - 1,
        pa.float16(): 1.5,
        pa.null(): None,
        pa.binary(): b"\xff",
        pa.list_(pa.int8()): [1],
        pa.struct({"x": pa.int64()}): {"x": 1},
        pa.bool_(): True,
        pa.timestamp("s"): 2**62,
        pa.string_view(): "u",
        pa.duration("us"): 2**40,
        pa.date32(): 7,
        pa.large_string(): "u",
        pa.float64(): math.nan,
        pa.int64(): 2**60,
        pa.decimal128(30, 10): 7,
        pa.dictionary(pa.int32(), pa.string()): "u",
    }
    odd = [pa.array([value] * n, type_) for type_, value in typed.items()]
    odd.append(pa.RunEndEncodedArray.from_arrays(pa.array([n], pa.int32()), pa.array([1.0])))
    tables = [good] * 4 + [good.set_column(place, field, each) for each in odd for place, field in ((0, "a"), (2, "y"))]
    tables += [good.append_column(field, each) for each in odd for field in ("key", "a")]
    tables += [good.slice(0, 0), pa.table({}), good.rename_columns(["a", "b", "\u0000"])]
    return [*map(ipc, tables), ipc(good, compression="zstd"), ipc(good, compression="lz4")]


def forged_strings() -> bytes:
    """Return a stream whose strings end far behind the buffer that holds them."""
    good = ipc(pa.table({"a": ["text-00"] * 9, "b": np.arange(9.0), "y": np.arange(9.0)}))
    ends = struct.pack("<10i", *range(0, 70, 7))
    assert ends in good
    return good.replace(ends, ends[:16] + struct.pack("<i", 2**30) + ends[20:])


def forged_views(start: int = 10**7) -> bytes:
    """Return a stream of keys that are views of other memory of the process."""
    good = ipc(pa.table({"key": pa.array(["a" * 24, "b" * 24], pa.string_view()), "a": [1.0, 2.0], "b": [1.0, 2.0]}))
    for place, letter in enumerate((b"a", b"b")):
        view = struct.pack("<i4sii", 24, letter * 4, 0, 24 * place)
        assert view in good
        good = good.replace(view, struct.pack("<i4sii", 24, b"aaaa", 0, start))
    return good


@cache
def bomb(rows: int = 12_000_000) -> bytes:
    """Return a few kilobytes that are a hundred megabytes for each column when they are read."""
    return ipc(pa.table({name: np.zeros(rows) for name in "aby"}), compression="zstd")


def _arrow(rng: random.Random, name: str) -> Made:
    kind = rng.choices(["table", "cut", "changed", "forged", "bomb"], [4, 2, 3, 1, 1])[0]
    if kind == "forged":
        views = forged_views(rng.choice([10**6, 10**9, -(10**6)]))
        return "Arrow, forged", ARROW, rng.choice([forged_strings(), views])
    if kind == "bomb":
        return "Arrow, bomb", ARROW, rng.choice([bomb(), ipc(pa.table({"a": pa.nulls(2**31 - 1)}))])
    content = bytearray(rng.choice(_tables(name)))
    if kind == "cut":
        del content[rng.randrange(len(content)) :]
    for _ in range(rng.choice([1, 2, 8]) if kind == "changed" else 0):
        content[rng.randrange(len(content))] = rng.choice([0, 1, 127, 128, 255])
    return f"Arrow, {kind}", ARROW, bytes(content)
