"""Python objects as numbers, and back: columns of objects, lists of strings, lists of dictionaries."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Callable
from typing import Any

import numpy as np

from batch2online.frames.columns import (
    MISSING,
    TOO_FINE,
    ColumnType,
    ColumnValueError,
    EncodedColumn,
    of_floats,
    of_ticks,
)
from batch2online.frames.strings import StringTable, hash_code

MAX_CHARACTERS = 2**24
"""Characters of a string, at most."""

_EPOCH = dt.datetime(1970, 1, 1)
_EPOCH_UTC = _EPOCH.replace(tzinfo=dt.UTC)
_MICROSECOND = dt.timedelta(microseconds=1)
_COARSE = ("Y", "M", "W", "D", "h", "m")


def of_objects(values: Any, form: str = "object") -> EncodedColumn:
    """Encode a column of objects: all of them, but for missing values, must be of one type."""
    listed = values.tolist() if isinstance(values, np.ndarray) else list(values)
    present = np.flatnonzero([not _is_missing(value) for value in listed])
    given = [listed[row] for row in present.tolist()]
    codes, strings = np.full(len(listed), MISSING), {}
    try:
        kind = _kind_of(given)
        if kind == ColumnType.STRING:
            hashes = _hashes(given)
            codes[present] = [hashes[string] for string in given]
            strings = {code: str(string) for string, code in hashes.items()}
        elif given:
            codes[present] = _ENCODE[kind](given)
    except ColumnValueError as error:
        raise ColumnValueError(int(present[error.row]), error.why) from error
    return EncodedColumn(kind, form, codes, strings)


def _is_missing(value: Any) -> bool:
    """Whether a value is None, NaN, or one of those that pandas uses for them."""
    if value is None:
        return True
    if isinstance(value, float | np.floating):
        return bool(value != value)
    if isinstance(value, np.datetime64 | np.timedelta64):
        return bool(np.isnat(value))
    return type(value).__name__ in ("NAType", "NaTType")


def _hashes(given: list[str]) -> dict[str, float]:
    hashes: dict[str, float] = {}
    for row, string in enumerate(given):
        if string in hashes:
            continue
        if len(string) > MAX_CHARACTERS:
            why = f"holds a string of {len(string):,} characters: at most {MAX_CHARACTERS:,} are possible."
            raise ColumnValueError(row, why)
        try:
            hashes[string] = hash_code(string)
        except UnicodeEncodeError as error:
            raise ColumnValueError(row, f"holds a string that is no Unicode: {string[:20]!r}.") from error
    return hashes


_KINDS: tuple[tuple[Any, ColumnType], ...] = (
    (str, ColumnType.STRING),
    ((bool, np.bool_), ColumnType.BOOLEAN),
    ((dt.timedelta, np.timedelta64), ColumnType.DURATION),  # NumPy's durations are whole numbers as well
    ((int, float, np.integer, np.floating), ColumnType.NUMBER),
    ((dt.datetime, np.datetime64), ColumnType.TIME),
    (dt.date, ColumnType.DATE),
)


def _kind_of(given: list[Any]) -> str:
    """Return the type of these values; the first that differs from the first one is refused."""
    found: dict[str, int] = {}
    for cls in dict.fromkeys(map(type, given)):
        kind = next((kind for classes, kind in _KINDS if issubclass(cls, classes)), None)
        own = (row for row, value in enumerate(given) if type(value) is cls)
        if kind is None:
            row = next(own)
            why = f"holds {_short(given[row])}, a {cls.__name__}: neither number, string, truth value nor date."
            raise ColumnValueError(row, why)
        for row in own if issubclass(cls, dt.datetime) else [next(own)]:
            name = ColumnType.ZONED if _is_zoned(given[row]) else kind
            found[name] = min(found.get(name, row), row)
    if len(found) > 1:
        (first, _), (other, row) = sorted(found.items(), key=lambda item: item[1])[:2]
        raise ColumnValueError(row, f"holds {_short(given[row])}, a {other} in a column of type {first}.")
    return next(iter(found), ColumnType.ALL_MISSING)


def _is_zoned(value: Any) -> bool:
    """Whether a value is a time with a zone; one whose zone has no offset has none."""
    return isinstance(value, dt.datetime) and value.utcoffset() is not None


def _short(value: Any) -> str:
    try:
        shown = repr(value)
    except Exception:
        shown = "something"
    return shown if len(shown) <= 40 else f"{shown[:37]}..."


def _numbers(given: list[Any]) -> Any:
    numbers = []
    for row, value in enumerate(given):
        try:
            numbers.append(float(value))
        except OverflowError as error:
            why = "holds a number too large for a double: pass the column as strings."
            raise ColumnValueError(row, why) from error
        if isinstance(value, int) and numbers[-1] != value:
            why = f"holds the number {_short(value)}, which no double holds: pass the column as strings."
            raise ColumnValueError(row, why)
    return of_floats(np.array(numbers))


def _time(value: Any, row: int) -> float:
    """Return a time in microseconds since 1970."""
    if isinstance(value, np.datetime64):
        return _ticks(value, row)
    if getattr(value, "nanosecond", 0):
        raise ColumnValueError(row, TOO_FINE)
    plain = value.to_pydatetime() if hasattr(value, "to_pydatetime") else value
    return float((plain - (_EPOCH_UTC if _is_zoned(plain) else _EPOCH)) // _MICROSECOND)


def _duration(value: Any, row: int) -> float:
    if not isinstance(value, np.timedelta64):
        if getattr(value, "nanoseconds", 0):
            raise ColumnValueError(row, TOO_FINE)
        return float(value // _MICROSECOND)
    if np.datetime_data(value.dtype)[0] in ("Y", "M"):
        raise ColumnValueError(row, "holds a duration in months, of which no two are equally long: use days.")
    return _ticks(value, row)


def _ticks(value: Any, row: int) -> float:
    """Return a time or a duration of NumPy in microseconds."""
    unit, count = np.datetime_data(value.dtype)
    if unit in _COARSE or count > 1:
        value = value.astype(f"{value.dtype.kind}8[s]" if unit in _COARSE else f"{value.dtype.kind}8[{unit}]")
        unit = np.datetime_data(value.dtype)[0]
    try:
        return float(of_ticks(value.astype(np.int64)[None], np.zeros(1, dtype=bool), unit)[0])
    except ColumnValueError as error:
        raise ColumnValueError(row, error.why) from error


def _each(encode: Callable[[Any, int], float]) -> Callable[[list[Any]], Any]:
    return lambda given: np.array([encode(value, row) for row, value in enumerate(given)], dtype=np.float64)


_ENCODE: dict[str, Callable[[list[Any]], Any]] = {
    ColumnType.NUMBER: _numbers,
    ColumnType.BOOLEAN: lambda given: np.array(given, dtype=np.float64),
    ColumnType.TIME: _each(_time),
    ColumnType.ZONED: _each(_time),
    ColumnType.DATE: _each(lambda value, _: value.toordinal() - _EPOCH.toordinal()),
    ColumnType.DURATION: _each(_duration),
}


def of_dictionaries(rows: list[Any]) -> EncodedColumn:
    """Encode dictionaries: each is one string, in JSON."""
    return of_objects([_as_json(row, number) for number, row in enumerate(rows)])


def _as_json(row: dict[Any, Any], number: int) -> str:
    if not all(isinstance(key, str) for key in row):
        raise ColumnValueError(number, "holds a dictionary with keys that are not strings.")
    try:
        return json.dumps(row, default=_plain)
    except (TypeError, ValueError, RecursionError) as error:
        raise ColumnValueError(number, f"holds a dictionary that is no JSON: {error}.") from error


def _plain(value: Any) -> Any:
    if isinstance(value, np.generic):
        return value.item()
    raise TypeError(f"{type(value).__name__} is neither number nor string")


def objects(kind: str, codes: Any, strings: StringTable) -> Any:
    """Decode numbers to an array of Python objects, with NaN for missing values."""
    if kind == ColumnType.STRING:
        return strings.of(codes, np.nan)
    values = np.empty(len(codes), dtype=object)
    values[:] = [np.nan if code == MISSING else _DECODE[kind](code) for code in codes.tolist()]
    return values


_DECODE: dict[str, Any] = {
    ColumnType.NUMBER: lambda code: int(code) if code.is_integer() and abs(code) < 2**53 else code,
    ColumnType.BOOLEAN: bool,
    ColumnType.TIME: lambda code: _EPOCH + dt.timedelta(microseconds=int(code)),
    ColumnType.ZONED: lambda code: _EPOCH_UTC + dt.timedelta(microseconds=int(code)),
    ColumnType.DATE: lambda code: dt.date.fromordinal(int(code) + _EPOCH.toordinal()),
    ColumnType.DURATION: lambda code: dt.timedelta(microseconds=int(code)),
    ColumnType.ALL_MISSING: lambda code: np.nan,
}
