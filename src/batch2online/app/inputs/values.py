"""Python values, as JSON and SQLite give them, as columns of Arrow; the first rows determine the types."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress

import numpy as np
import pyarrow as pa

from batch2online.app.inputs.batch import ARROW_TYPES, DATES, SINGULAR, DataError, Remedy, check_zones
from batch2online.tables.columns import type_of_arrow

OTHER = pa.binary()
"""The type of columns of lists, objects and bytes, which have a name, but whose values are not stored."""

_NUMBERS = {int, float, bool, type(None)}
_STRINGS = {str, type(None)}


def settled_type(values: Sequence[object], name: str, place: Callable[[int], str]) -> pa.DataType:
    """Return the type of a column: that of its first value, and dates if all values are."""
    first = next((value for value in values if value is not None), 0.0)
    if type(first) in _NUMBERS:
        return pa.float64()
    if type(first) is not str:
        return OTHER
    if not set(map(type, values)) <= _STRINGS:
        return pa.string()
    strings = pa.array(values, pa.string())
    found = next((ARROW_TYPES[kind] for kind in DATES if _times(strings, ARROW_TYPES[kind]) is not None), pa.string())
    if found == pa.string():
        check_zones(strings, name, place)
    return found


def column_of(values: Sequence[object], dtype: pa.DataType, name: str, place: Callable[[int], str]) -> pa.Array:
    """Return values as a column of a type; a DataError names the first value of another one."""
    if dtype == OTHER:
        return pa.nulls(len(values), OTHER)
    accepted = _NUMBERS if dtype == pa.float64() else _STRINGS
    if not set(map(type, values)) <= accepted:
        bad = next(row for row, value in enumerate(values) if type(value) not in accepted)
        raise _misfit(place(bad), values[bad], dtype, name)
    if dtype == pa.float64():
        return pa.array(np.array(values, dtype=np.float64), from_pandas=True)  # None becomes NaN, and NaN a null
    strings = pa.array(values, pa.string())
    if dtype == pa.string():
        return strings
    times = _times(strings, dtype)
    if times is None:
        bad = next(row for row in range(len(strings)) if _times(strings[row : row + 1], dtype) is None)
        raise _misfit(place(bad), values[bad], dtype, name)
    return times


def _times(strings: pa.Array, dtype: pa.DataType) -> pa.Array | None:
    """Return strings as dates with or without a time zone; None if they are not dates."""
    with suppress(pa.ArrowInvalid):
        return strings.cast(dtype)
    return None


def _misfit(place: str, value: object, dtype: pa.DataType, name: str) -> DataError:
    shown = repr(value) if len(repr(value)) <= 60 else f"{repr(value)[:60]}…"
    remedies = ([Remedy.NA_VALUE] if type(value) is str else []) + [Remedy.EXCLUDE]
    message = f"{place}, column {name!r}: {shown} is not {SINGULAR[type_of_arrow(dtype)]}."
    return DataError(message, *remedies, about=(name, str(value)))
