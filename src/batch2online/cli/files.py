"""Tables as CSV and results as JSON."""

from __future__ import annotations

import csv
import io
import json
import math
from typing import IO, Any

import pyarrow.csv as arrow_csv


def write_csv(table: Any, file: IO[bytes], with_names: bool = True) -> None:
    """Append a table to a file of bytes, with names quoted only where they need it."""
    if with_names:
        names = io.StringIO()
        csv.writer(names, lineterminator="\n").writerow(table.column_names)
        file.write(names.getvalue().encode())
    arrow_csv.write_csv(table, file, arrow_csv.WriteOptions(include_header=False, quoting_style="needed"))


def json_text(value: Any, indent: int | None = None) -> str:
    """Return the value as JSON that every parser takes: null for numbers that are not finite, no half of a character.

    >>> json_text({"ratio": float("inf"), "rows": 3})
    '{"ratio": null, "rows": 3}'
    """
    return json.dumps(valid(value), indent=indent, allow_nan=False)


def valid(value: Any) -> Any:
    """Return the value with None for numbers that are not finite and escapes for halves of a character."""
    if isinstance(value, dict):
        return {valid(key): valid(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [valid(item) for item in value]
    if isinstance(value, str):
        return value.encode(errors="backslashreplace").decode()
    return None if isinstance(value, float) and not math.isfinite(value) else value
