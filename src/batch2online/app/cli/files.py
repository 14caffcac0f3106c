"""Tables as CSV and results as JSON."""

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
"""How a cell begins that a spreadsheet may take for a formula."""

_NUMBER = r"^[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?$"
"""Strings that are numbers: a spreadsheet shows them as such, whatever they begin with."""


def write_csv(table: Any, file: IO[bytes], with_names: bool = True, keep_formulas: bool = False) -> None:
    """Append a table to a file of bytes, with names quoted only where they need it.

    A string that a spreadsheet may run as a formula (it begins with ``=``, ``+``, ``-``, ``@``, a tab or a carriage
    return, and is no number) is written with an apostrophe before it, unless ``keep_formulas``. A missing value is
    empty; in a table of one column it is ``""``, since many readers skip empty lines.
    """
    guarded = table if keep_formulas else _guarded(table)
    if with_names:
        names = io.StringIO()
        csv.writer(names, lineterminator="\n").writerow(guarded.column_names)
        file.write(names.getvalue().encode())
    if guarded.num_columns == 1 and guarded.column(0).null_count:
        if not _is_string(guarded.column(0).type):
            cells = guarded.column(0).cast(pa.string()).fill_null('""').to_pylist()
            file.write("".join(f"{cell}\n" for cell in cells).encode())
            return
        guarded = guarded.set_column(0, guarded.column_names[0], guarded.column(0).fill_null(""))
    arrow_csv.write_csv(guarded, file, arrow_csv.WriteOptions(include_header=False, quoting_style="needed"))


def _guarded(table: Any) -> Any:
    """Return the table with no name and no string that a spreadsheet may run."""
    return pa.Table.from_arrays(list(map(_guarded_column, table.columns)), list(map(guarded_cell, table.column_names)))


def _guarded_column(column: Any) -> Any:
    """Return a column with an apostrophe before every string that a spreadsheet may run."""
    if pa.types.is_dictionary(column.type):
        return _guarded_column(column.cast(column.type.value_type))
    if not _is_string(column.type):
        return column
    runs = pc.and_(pc.match_substring_regex(column, _FORMULA), pc.invert(pc.match_substring_regex(column, _NUMBER)))
    if not pc.any(runs).as_py():
        return column
    return pc.if_else(runs, pc.binary_join_element_wise(pa.scalar("'", column.type), column, ""), column)


def guarded_cell(text: str) -> str:
    """Return a string as a spreadsheet shows it and does not run it.

    >>> guarded_cell("=1+2"), guarded_cell("-1.5e3"), guarded_cell("a=b")
    ("'=1+2", '-1.5e3', 'a=b')
    """
    return f"'{text}" if re.match(_FORMULA, text) and not re.match(_NUMBER, text) else text


def _is_string(kind: Any) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


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
