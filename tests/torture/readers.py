"""Fuzzed tables into every reader, in a process of their own: one sentence for each, never a signal.

``python -m torture.readers SEED FIRST COUNT`` (from the folder ``tests``) is the process that reads. It names each
case before it starts it, so that the case that kills it is known: ``python -m torture.readers SEED CASE 1``.
"""

from __future__ import annotations

import gzip
import io
import json
import resource
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from decimal import Decimal
from functools import cache
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.ipc
import pyarrow.parquet

from batch2online.app.cli.run.source import encoded, open_stream
from batch2online.app.cli.settings import Settings
from batch2online.app.cli.tasks import Task
from batch2online.app.inputs import DataError, Layout, open_source
from batch2online.tables.columns import ColumnError, ColumnType

MEMORY = 4 << 30
SECONDS = 60
TOKENS = (b"null", b"\x00", b'"', b"'", b"{", b"}", b"[", b"]", b"\xff", b"\x85", b"\xed\xa0\x80", b"\r", b"\n",
          b"\r\n", b"\x0b", b"\x0c", b"\x1c", b" ", b"\t", b",", b";", b"1e999", b"-1e999", b"NaN", b"inf", b"9" * 400,
          b"true", b"2024-01-01 00:00:00", b"1_000", b"\\u0000", b"\\ud800", b"\xef\xbb\xbf", b"[" * 3000,
          b'{"a":' * 3000, b'"' * 100, b",,,,,,", b"\x7f", b"NA", b"#N/A", b"x" * 5000)  # fmt: skip


@cache
def samples() -> dict[str, bytes]:
    """A sound table in every format."""
    table = pa.table(
        {
            "a": [1.5, 2.5, None, -4.0, 5.0, 0.1],
            "b": [1, 2, 3, 4, 5, 6],
            "c": ["red", "blue", "red", None, "blue", "x y"],
            "flag": [True, False, True, True, False, True],
        }
    )
    odd = table.append_column("when", pa.array([0, 1, 2, 3, 4, 5], pa.timestamp("s"))).append_column(
        "price", pa.array([Decimal("1.50")] * 6)
    )
    odd = odd.append_column("kind", odd["c"].dictionary_encode()).append_column("list", pa.array([[1], [], None] * 2))
    rows = [{name: value for name, value in row.items() if value is not None} for row in table.to_pylist()]
    text = b"a,b,c,flag\n" + b"".join(b"%.1f,%d,red,true\n" % (i / 2, i) for i in range(8))
    lines = b"".join(json.dumps(row).encode() + b"\n" for row in rows)
    return {
        "csv": text,
        "tsv": text.replace(b",", b"\t"),
        "quoted.csv": text.replace(b"red", b'"a ""red"", one"'),
        "csv.gz": gzip.compress(text, mtime=0),
        "jsonl": lines,
        "nested.jsonl": lines.replace(b"}", b', "deep": {"er": [1, {"est": null}]}}'),
        "jsonl.gz": gzip.compress(lines, mtime=0),
        "parquet": _parquet(table),
        "plain.parquet": _parquet(odd, use_dictionary=False, compression="none", data_page_version="2.0"),
        "zipped.parquet": _parquet(odd, compression="zstd", row_group_size=2),
        "arrow": _arrow(pa.ipc.new_file, odd),
        "packed.arrow": _arrow(pa.ipc.new_file, odd, compression="lz4"),
        "stream.arrow": _arrow(pa.ipc.new_stream, odd),
    }


def _parquet(table: pa.Table, **options) -> bytes:
    buffer = io.BytesIO()
    pa.parquet.write_table(table, buffer, **options)
    return buffer.getvalue()


def _arrow(opener, table: pa.Table, compression: str | None = None) -> bytes:
    buffer = io.BytesIO()
    with opener(buffer, table.schema, options=pa.ipc.IpcWriteOptions(compression=compression)) as writer:
        writer.write_table(table)
    return buffer.getvalue()


def scrambled(rng, whole: bytes) -> bytes:
    """Bits flipped, bytes cut out, repeated, overwritten, cut off, or odd tokens put in, a few times."""
    content = bytearray(whole)
    for _ in range(rng.integers(1, 4)):
        at, n = int(rng.integers(len(content) + 1)), int(rng.integers(1, 50))
        kind = rng.integers(7)
        if kind == 0 and at < len(content):
            content[at] ^= 1 << rng.integers(8)
        elif kind == 1:
            del content[at : at + n]
        elif kind == 2:
            content[at:at] = content[at : at + n]
        elif kind == 3:
            content[at : at + n] = rng.bytes(n)
        elif kind == 4:
            content[at : at + int(rng.integers(9))] = TOKENS[rng.integers(len(TOKENS))]
        elif kind == 5 and at < len(content) - 8:
            content[at : at + 4] = int(rng.choice([0, 1, 2**31 - 1, 2**31, 2**32 - 1, 1000])).to_bytes(4, "little")
        elif rng.random() < 0.2:
            del content[at:]
    return bytes(content)


def case(seed: int, index: int) -> tuple[str, bytes, dict]:
    """A file and the options it is read with."""
    rng = np.random.default_rng([seed, index])
    name = list(samples())[rng.integers(len(samples()))]
    whole = samples()[name]
    if name.endswith(".gz") and rng.random() < 0.5:
        content = gzip.compress(scrambled(rng, gzip.decompress(whole)), mtime=0)
    else:
        content = scrambled(rng, whole)
    how = {"format": None, "header": bool(rng.random() < 0.9)}
    if rng.random() < 0.05:
        how["format"] = str(rng.choice(["csv", "tsv", "jsonl", "parquet", "arrow"]))
    how["usable"] = bool(rng.random() < 0.9)
    how["missing"] = str(rng.choice(["refuse", "drop", "drop", "mean"]))
    how["lookahead"] = int(rng.choice([2, 10_000, 10_000, 10_000]))
    return name, content, how


def outcome(path: Path, how: dict) -> str:
    """Read a table as a run does, most often its usable columns alone; all but a DataError is a failure."""
    try:
        source = open_source(str(path), Layout(format=how["format"], header=how["header"]))
        usable = [name for name, kind in source.kinds.items() if kind is not ColumnType.OTHER]
        columns = tuple(usable) if how["usable"] else ()
        task = Task(
            Settings(
                task="lowrank", learner={"k": 1}, columns=columns, missing=how["missing"], lookahead=how["lookahead"]
            )
        )
        for rows, _ in encoded(open_stream(source, task), task.column_options()):
            assert np.isfinite(rows).all()
    except (DataError, ColumnError):
        return "refused"
    return "read"


def work(seed: int, first: int, count: int) -> None:
    """Read these cases, and say of each what came of it."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    with tempfile.TemporaryDirectory() as folder:
        for index in range(first, first + count):
            name, content, how = case(seed, index)
            path = Path(folder) / f"table.{name}"
            path.write_bytes(content)
            print(f"case {index}", flush=True)
            signal.alarm(SECONDS)
            print(f"{name.split('.')[0] if name.endswith('.gz') else name.split('.')[-1]} {outcome(path, how)}")
            path.unlink()


def readers(count: int, seed: int = 0, at_once: int = 2000) -> dict[str, int]:
    outcomes = Counter()
    for first in range(0, count, at_once):
        command = [sys.executable, "-m", "torture.readers", str(seed), str(first), str(min(at_once, count - first))]
        folder = Path(__file__).parents[1]
        run = subprocess.run(command, capture_output=True, text=True, check=False, cwd=folder, errors="replace")
        lines = run.stdout.splitlines()
        last = next((line for line in reversed(lines) if line.startswith("case ")), "no case")
        assert run.returncode == 0, f"{last} of seed {seed}: exit {run.returncode}\n{run.stderr[-3000:]}"
        outcomes.update(line for line in lines if not line.startswith("case "))
    assert sum(outcomes.values()) == count
    return dict(outcomes)


if __name__ == "__main__":
    work(*map(int, sys.argv[1:]))
