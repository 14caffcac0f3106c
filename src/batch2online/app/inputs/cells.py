"""What the cells of delimited text hold."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as arrow_csv

from batch2online.app.inputs.batch import DATES, Kind, kind_of

MISSING = frozenset(arrow_csv.ConvertOptions().null_values)
_DAY = r"^\d{4}-\d\d-\d\d([T ]\d\d(:\d\d(:\d\d(\.\d+)?)?)?)?"
_ISO = (rf"{_DAY}$", rf"{_DAY}(Z|[+-]\d\d(:?\d\d)?)$")
_NUMBER = r"^\s*[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?\s*$"


def settled(column: Any) -> Any:
    """Return the type for all blocks. Whole numbers may still see fractions; a few texts among numbers are mistakes."""
    dtype = column.type
    if pa.types.is_binary(dtype):
        return pa.string()  # bytes that are no UTF-8: to be refused with their line
    if pa.types.is_string(dtype):
        numbers = pc.sum(pc.match_substring_regex(column, _NUMBER)).as_py() or 0
        return pa.float64() if 2 * numbers > len(column) - column.null_count else dtype
    if pa.types.is_date(dtype) or pa.types.is_timestamp(dtype):
        return pa.timestamp("us", getattr(dtype, "tz", None))
    return pa.float64() if pa.types.is_integer(dtype) or pa.types.is_null(dtype) else dtype


def first_of_both(column: Any) -> int | None:
    """Return the first row where a column of dates has a zone and the rows before have none, or the reverse.

    None if it has only dates of one sort, or anything else.
    """
    naive, zoned = (np.asarray(pc.match_substring_regex(column, pattern).fill_null(False)) for pattern in _ISO)
    if not (naive.any() and zoned.any() and (naive | zoned | np.asarray(column.is_null())).all()):
        return None
    return int(max(naive.argmax(), zoned.argmax()))


def asked_type(kind: Kind) -> Any:
    """Return the type to read a column of this kind by; None for one that only its values can tell."""
    return {Kind.NUMBER: pa.float64(), Kind.TEXT: pa.string()}.get(kind)


def is_number(cell: str) -> bool:
    """Whether a cell is a number, or nothing.

    >>> [is_number(cell) for cell in ("1e3", "", "true", "1_000", "x")]
    [True, True, True, False, False]
    """
    if cell.strip() in MISSING:
        return True
    try:
        float(cell)
    except ValueError:
        return cell.strip().lower() in ("true", "false")
    return "_" not in cell


def is_of_type(cell: str, dtype: Any, date_format: str | None) -> bool:
    """Whether a cell is a date or a time of this type."""
    readers: list[Callable[[], Any]] = [lambda: pa.array([cell]).cast(dtype)]
    if date_format is not None and kind_of(dtype) in DATES:
        readers.append(lambda: pc.strptime(pa.array([cell]), date_format, "us"))
    for read in readers:
        try:
            read()
        except pa.ArrowInvalid:
            continue
        return True
    return False
