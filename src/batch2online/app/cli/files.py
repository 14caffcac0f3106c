"""Write tables as CSV and results as JSON."""

from __future__ import annotations

import csv
import io
import json
import math
import re
from typing import IO, Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as arrow_csv

_FORMULA = r"^[=+\-@\t\r]"
"""Start of a value that a spreadsheet may run as a formula."""

_NUMBER = r"^[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?$"
"""Strings that a spreadsheet reads as numbers."""


def write_csv(table: Any, file: IO[bytes], header: bool = True, keep_formulas: bool = False) -> None:
    """Append a table to a binary file.

    A string that a spreadsheet may run as a formula (it starts with ``=``, ``+``, ``-``, ``@``, a tab or a carriage
    return, and is not a number) is prefixed with an apostrophe, unless ``keep_formulas``. A missing value is empty; in
    a table of one column it is ``""``, since many readers skip empty lines.
    """
    guarded = table
    if not keep_formulas:
        names = list(map(guarded_string, table.column_names))
        guarded = pa.Table.from_arrays(list(map(_guarded_column, table.columns)), names)
    if header:
        line = io.StringIO()
        csv.writer(line, lineterminator="\n").writerow(guarded.column_names)
        file.write(line.getvalue().encode())
    if guarded.num_columns == 1 and guarded.column(0).null_count:
        if not _is_string(guarded.column(0).type):
            cells = guarded.column(0).cast(pa.string()).fill_null('""').to_pylist()
            file.write("".join(f"{cell}\n" for cell in cells).encode())
            return
        guarded = guarded.set_column(0, guarded.column_names[0], guarded.column(0).fill_null(""))
    arrow_csv.write_csv(guarded, file, arrow_csv.WriteOptions(include_header=False, quoting_style="needed"))


def _guarded_column(column: Any) -> Any:
    """Prefix every string that a spreadsheet may run with an apostrophe."""
    if pa.types.is_dictionary(column.type):
        return _guarded_column(column.cast(column.type.value_type))
    if not _is_string(column.type):
        return column
    runs = pc.and_(pc.match_substring_regex(column, _FORMULA), pc.invert(pc.match_substring_regex(column, _NUMBER)))
    if not pc.any(runs).as_py():
        return column
    return pc.if_else(runs, pc.binary_join_element_wise(pa.scalar("'", column.type), column, ""), column)


def guarded_string(value: str) -> str:
    """Prefix a string that a spreadsheet may run with an apostrophe.

    >>> guarded_string("=1+2"), guarded_string("-1.5e3"), guarded_string("a=b")
    ("'=1+2", '-1.5e3', 'a=b')
    """
    return f"'{value}" if re.match(_FORMULA, value) and not re.match(_NUMBER, value) else value


def _is_string(kind: Any) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def json_text(value: Any, indent: int | None = None) -> str:
    """Return the value as strict JSON: null for numbers that are not finite, no lone surrogates.

    >>> json_text({"ratio": float("inf"), "rows": 3})
    '{"ratio": null, "rows": 3}'
    """
    return json.dumps(valid(value), indent=indent, allow_nan=False)


def valid(value: Any) -> Any:
    """Return the value with None for numbers that are not finite, and lone surrogates escaped."""
    if isinstance(value, dict):
        return {valid(key): valid(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [valid(item) for item in value]
    if isinstance(value, str):
        return value.encode(errors="backslashreplace").decode()
    return None if isinstance(value, float) and not math.isfinite(value) else value
