"""Python objects as numbers, and back: columns of objects, lists of strings, lists of dictionaries."""

from __future__ import annotations

import datetime as dt
import json
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
from batch2online.frames.strings import hash_codes

_EPOCH = dt.datetime(1970, 1, 1)
_EPOCH_UTC = _EPOCH.replace(tzinfo=dt.UTC)
_MICROSECOND = dt.timedelta(microseconds=1)
_NUMBERS = (int, float, np.integer, np.floating)
_COARSE = ("Y", "M", "W", "D", "h", "m")


def is_gap(value: Any) -> bool:
    """Whether a value says that there is none: None, NaN, and what pandas writes for them."""
    if value is None:
        return True
    if isinstance(value, float | np.floating):
        return bool(value != value)
    if isinstance(value, np.datetime64 | np.timedelta64):
        return bool(np.isnat(value))
    return type(value).__name__ in ("NAType", "NaTType")


def of_objects(values: Any, form: str = "object") -> EncodedColumn:
    """Return a column of objects as cells: all of them, but for gaps, must be of one kind."""
    listed = values.tolist() if isinstance(values, np.ndarray) else list(values)
    missing = np.array([is_gap(value) for value in listed], dtype=bool)
    present = np.flatnonzero(~missing)
    given = [listed[row] for row in present.tolist()]
    kind = _kind_of(given, present)
    codes = np.full(len(listed), MISSING)
    if kind == ColumnType.STRING:
        known = hash_codes(given, present.tolist())
        codes[present] = [known[text] for text in given]
        return EncodedColumn(kind, form, codes, {code: str(text) for text, code in known.items()})
    try:
        codes[present] = _NUMBERS_OF[kind](given) if given else []
    except ColumnValueError as error:
        raise ColumnValueError(int(present[error.row]), error.why) from error
    return EncodedColumn(kind, form, codes)


def _kind_of(given: list[Any], rows: Any) -> str:
    """Return the kind of these values; the first that is of another kind than the first one is refused."""
    found: dict[str, int] = {}
    for cls in dict.fromkeys(map(type, given)):
        kind = _kind_of_type(cls)
        own = (number for number, value in enumerate(given) if type(value) is cls)
        if kind is None:
            row = next(own)
            why = f"holds {_short(given[row])}, a {cls.__name__}: neither number, text, truth value nor date."
            raise ColumnValueError(int(rows[row]), why)
        for row in own if issubclass(cls, dt.datetime) else [next(own)]:
            name = ColumnType.ZONED if _is_zoned(given[row]) else kind
            found[name] = min(found.get(name, row), row)
    if len(found) > 1:
        (first, _), (other, row) = sorted(found.items(), key=lambda item: item[1])[:2]
        raise ColumnValueError(int(rows[row]), f"holds {_short(given[row])}, a {other} in a column of kind {first}.")
    return next(iter(found), ColumnType.ALL_MISSING)


def _is_zoned(value: Any) -> bool:
    """Whether a value is a time with a zone; one whose zone has no offset has none."""
    return isinstance(value, dt.datetime) and value.utcoffset() is not None


def _kind_of_type(cls: type) -> str | None:
    kinds: tuple[tuple[Any, str], ...] = (
        (str, ColumnType.STRING),
        ((bool, np.bool_), ColumnType.BOOLEAN),
        ((dt.timedelta, np.timedelta64), ColumnType.DURATION),  # NumPy's durations are whole numbers as well
        (_NUMBERS, ColumnType.NUMBER),
        ((dt.datetime, np.datetime64), ColumnType.TIME),
        (dt.date, ColumnType.DATE),
    )
    return next((kind for classes, kind in kinds if issubclass(cls, classes)), None)


def _short(value: Any) -> str:
    try:
        text = repr(value)
    except Exception:
        text = "something"
    return text if len(text) <= 40 else f"{text[:37]}..."


def _from_numbers(given: list[Any]) -> Any:
    for row, value in enumerate(given):
        if isinstance(value, int) and float(_as_float(value, row)) != value:
            raise ColumnValueError(
                row, f"holds the number {_short(value)}, which no double holds: pass the column as text."
            )
    return of_floats(np.array([float(value) for value in given]))


def _as_float(value: int, row: int) -> float:
    try:
        return float(value)
    except OverflowError as error:
        raise ColumnValueError(row, "holds a number too large for a double: pass the column as text.") from error


def _from_times(given: list[Any]) -> Any:
    return np.array([_microseconds(value, row) for row, value in enumerate(given)], dtype=np.float64)


def _microseconds(value: Any, row: int) -> float:
    if isinstance(value, np.datetime64):
        return _ticks(value, row)
    if getattr(value, "nanosecond", 0):
        raise ColumnValueError(row, TOO_FINE)
    plain = value.to_pydatetime() if hasattr(value, "to_pydatetime") else value
    return float((plain - (_EPOCH_UTC if _is_zoned(plain) else _EPOCH)) // _MICROSECOND)


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


def _duration(value: Any, row: int) -> float:
    if not isinstance(value, np.timedelta64):
        if getattr(value, "nanoseconds", 0):
            raise ColumnValueError(row, TOO_FINE)
        return float(value // _MICROSECOND)
    if np.datetime_data(value.dtype)[0] in ("Y", "M"):
        raise ColumnValueError(row, "holds a duration in months, of which no two are equally long: use days.")
    return _ticks(value, row)


_NUMBERS_OF: dict[str, Any] = {
    ColumnType.NUMBER: _from_numbers,
    ColumnType.BOOLEAN: lambda given: np.array(given, dtype=np.float64),
    ColumnType.TIME: _from_times,
    ColumnType.ZONED: _from_times,
    ColumnType.DATE: lambda given: np.array(
        [value.toordinal() - _EPOCH.toordinal() for value in given], dtype=np.float64
    ),
    ColumnType.DURATION: lambda given: np.array([_duration(value, row) for row, value in enumerate(given)]),
}


def of_dictionaries(rows: list[Any]) -> EncodedColumn:
    """Return dictionaries as cells: each is one text, in JSON."""
    return of_objects([_as_json(row, number) for number, row in enumerate(rows)])


def _as_json(row: dict[Any, Any], number: int) -> str:
    if not all(isinstance(key, str) for key in row):
        raise ColumnValueError(number, "holds a dictionary whose keys are no texts.")
    try:
        return json.dumps(row, default=_plain)
    except (TypeError, ValueError, RecursionError) as error:
        raise ColumnValueError(number, f"holds a dictionary that is no JSON: {error}.") from error


def _plain(value: Any) -> Any:
    if isinstance(value, np.generic):
        return value.item()
    raise TypeError(f"{type(value).__name__} is neither number nor text")


def objects(kind: str, codes: Any, texts: Any) -> Any:
    """Return cells as an array of Python's values, NaN for gaps."""
    if kind == ColumnType.STRING:
        return texts.of(codes, np.nan)
    values = np.empty(len(codes), dtype=object)
    values[:] = [np.nan if code == MISSING else _VALUES[kind](code) for code in codes.tolist()]
    return values


_VALUES: dict[str, Any] = {
    ColumnType.NUMBER: lambda code: int(code) if code.is_integer() and abs(code) < 2**53 else code,
    ColumnType.BOOLEAN: bool,
    ColumnType.TIME: lambda code: _EPOCH + dt.timedelta(microseconds=int(code)),
    ColumnType.ZONED: lambda code: _EPOCH_UTC + dt.timedelta(microseconds=int(code)),
    ColumnType.DATE: lambda code: dt.date.fromordinal(int(code) + _EPOCH.toordinal()),
    ColumnType.DURATION: lambda code: dt.timedelta(microseconds=int(code)),
    ColumnType.ALL_MISSING: lambda code: np.nan,
}
