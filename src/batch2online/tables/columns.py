"""Tables of any container as typed columns: pandas, polars, Arrow, arrays of objects, rows or columns in dictionaries.

A column is an array of numbers with NaN where a value is missing. Times are microseconds since 1970, durations
microseconds, strings places among the different strings of the column in the order in which they first occur. Only
reading a container imports its package.
"""

from __future__ import annotations

import datetime as dt
import decimal
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property, lru_cache
from typing import Any

import numpy as np

from batch2online._types import BoolArray, FloatArray
from batch2online.schema import require, storable


class ColumnType(StrEnum):
    """The kind of the values of a column.

    A time with a zone is a point in time, one without is a reading of some clock: the two never mix. A date is a time,
    a time of day a duration, a truth value a number.
    """

    NUMBER = "number"
    TIME = "time"
    ZONED = "time with a zone"
    DURATION = "duration"
    STRING = "string"
    EMPTY = "missing value"
    OTHER = "other"

    @property
    def plural(self) -> str:
        """The values in words, for files."""
        return {
            ColumnType.TIME: "dates",
            ColumnType.ZONED: "dates with a time zone",
            ColumnType.DURATION: "times of day or durations",
            ColumnType.OTHER: "lists or other values",
        }.get(self, f"{self}s")


NUMBER, TIME, ZONED, DURATION, STRING, EMPTY, OTHER = map(str, ColumnType)
KINDS = (NUMBER, TIME, ZONED, DURATION, STRING, EMPTY)

MAX_ABS_VALUE = 2.0**399
"""Numbers of a table are below this."""

MAX_CHARACTERS = 2**24
"""Characters of a string, at most."""

_EXACT = 2**53
_MICROSECONDS = {"s": 1_000_000, "ms": 1_000, "us": 1}
_TOO_FINE = "holds a time finer than a microsecond: round the column."
EPOCH = dt.datetime(1970, 1, 1)
EPOCH_UTC = EPOCH.replace(tzinfo=dt.UTC)
_MICROSECOND = dt.timedelta(microseconds=1)
_ISO = re.compile(
    r"\d{4}-[01]\d-[0-3]\d([T ][0-2]\d:[0-5]\d(:[0-6]\d([.,]\d{1,6})?)?(Z|[+-]\d\d(:?\d\d)?)?)?",
    re.ASCII,
)


class ColumnError(ValueError):
    """A value that a column cannot hold, with its row and the reason."""

    def __init__(self, row: int, why: str, name: str | int | None = None) -> None:
        place = "" if name is None else f", column {name!r},"
        super().__init__(f"Row {row}{place} {why}")
        self.row, self.why, self.name = row, why, name


def unsupported(dtype: Any) -> ColumnError:
    """Return the error for a column of a type that is not supported."""
    return ColumnError(0, f"is of type {dtype}: neither number, string, category, truth value nor date.")


@storable
@dataclass(frozen=True, eq=False)
class Column:
    """A kind, a number for each row, and for strings the words that the numbers are places of."""

    kind: str
    values: FloatArray
    words: tuple[str, ...] = ()

    def validate(self) -> None:
        require(self.kind in KINDS, f"kind: found {self.kind[:40]!r}, expected a kind of column")
        require(self.values.ndim == 1, f"values: found shape {self.values.shape}, expected one dimension")
        require(self.kind == STRING or not self.words, "words: found some of a column that holds no strings")
        known = self.values[~np.isnan(self.values)]
        most = len(self.words) if self.kind == STRING else 0 if self.kind == EMPTY else MAX_ABS_VALUE
        require((np.abs(known) < max(most, 1)).all(), "values: found one that is too large")
        if self.kind == STRING:
            require(bool((known == np.floor(known)).all() and (known >= 0).all()), "values: found no places of words")

    @cached_property
    def missing(self) -> BoolArray:
        """Which values are missing."""
        return np.isnan(self.values)

    @cached_property
    def has_gaps(self) -> bool:
        """Whether any value is missing."""
        return bool(self.missing.any())

    @property
    def places(self) -> Any:
        """Places of strings among the words, -1 for missing values."""
        return np.where(self.missing, -1.0, self.values).astype(np.int64)

    def mapped(self, of_words: Sequence[float] | FloatArray) -> FloatArray:
        """Return the number of each string, given those of the words."""
        numbers: FloatArray = np.append(np.asarray(of_words, dtype=np.float64), np.nan)[self.places]
        return numbers

    def some(self, rows: Any) -> Column:
        """Return some of the values, a slice or a mask, with their words alone."""
        if self.kind != STRING:
            return Column(self.kind, self.values[rows])
        return of_categories(self.places[rows], lambda used: _all_words([self.words[place] for place in used.tolist()]))

    def as_times(self) -> Column | None:
        """Return strings as the times that they write in ISO 8601; None unless all do, with or all without a zone."""
        found = [iso_time(word) for word in self.words]
        kinds = sorted({each[0] for each in found if each})
        if None in found or len(kinds) != 1:
            return None
        return Column(kinds[0], self.mapped([each[1] for each in found if each]))

    def objects(self, missing: Any = None) -> Any:
        """Return strings as an array of objects."""
        known = np.empty(len(self.words) + 1, dtype=object)
        known[:] = [*self.words, missing]
        return known[self.places]


@storable
@dataclass(frozen=True, eq=False)
class TypedTable:
    """Columns of equal length, and their names."""

    names: tuple[str, ...]
    columns: tuple[Column, ...]
    n_rows: int

    def validate(self) -> None:
        require(len(self.names) == len(self.columns) == len(set(self.names)), "names: found others than of the columns")
        lengths = {len(column.values) for column in self.columns}
        require(lengths <= {self.n_rows}, f"columns: found {sorted(lengths)[:3]} rows, expected {self.n_rows}")

    def __len__(self) -> int:
        return self.n_rows

    def __getitem__(self, rows: Any) -> TypedTable:
        """Return some rows: a slice or a mask."""
        columns = tuple(column.some(rows) for column in self.columns)
        return TypedTable(self.names, columns, int(np.ones(self.n_rows, dtype=np.int64)[rows].sum()))

    @property
    def numbers(self) -> FloatArray:
        """The values of all columns, (n_rows, n_columns)."""
        return np.column_stack([column.values for column in self.columns])

    def journal_entry(self) -> dict[str, Any]:
        """Return what a journal holds besides the numbers, as JSON."""
        return {
            "kinds": [column.kind for column in self.columns],
            "words": [list(column.words) for column in self.columns],
        }

    @property
    def by_name(self) -> dict[str, Column]:
        """The columns by name."""
        return dict(zip(self.names, self.columns, strict=True))


def joined(tables: Sequence[TypedTable]) -> TypedTable:
    """Return the rows of tables with the same columns as one table, which depends on the rows alone."""
    if len(tables) == 1:
        return tables[0]
    columns = []
    for name, *parts in zip(tables[0].names, *(table.columns for table in tables), strict=True):
        kind = common(name, [part.kind for part in parts])
        columns.append(_concatenated(kind, [converted(name, part, kind) for part in parts]))
    return TypedTable(tables[0].names, tuple(columns), sum(map(len, tables)))


def _concatenated(kind: str, parts: list[Column]) -> Column:
    if kind != STRING:
        return Column(kind, np.concatenate([part.values for part in parts]))
    known: dict[str, int] = {}
    return Column(kind, np.concatenate([p.mapped([known.setdefault(w, len(known)) for w in p.words]) for p in parts]),
                  tuple(known))  # fmt: skip


def common(name: str, kinds: Iterable[str]) -> str:
    """Return the kind that columns of these kinds have together; strings may turn out to be times."""
    known = dict.fromkeys(kind for kind in kinds if kind != EMPTY)
    if len(known) > 1 and known.keys() & {TIME, ZONED}:
        known.pop(STRING, None)
    if known.keys() == {TIME, ZONED}:
        advice = "give all of them a zone, as pandas' .dt.tz_localize('UTC') does, or none."
        raise ValueError(f"Column {name!r} holds times with a zone and times without one: {advice}")
    if len(known) > 1:
        raise ValueError(f"Column {name!r} holds {' and '.join(f'{kind}s' for kind in known)}: {_REMEDY}.")
    return next(iter(known), EMPTY)


_REMEDY = "send values of one kind, or set Columns(strings=[...]) to make strings of numbers"


def converted(name: str | int | None, column: Column, kind: str) -> Column:
    """Return a column as one of this kind; :class:`ColumnError` if it cannot be."""
    if column.kind == kind:
        return column
    if column.kind == EMPTY or (column.kind != STRING and not len(column.values)):
        return Column(kind, np.full(len(column.values), np.nan))
    row = int((~column.missing).argmax())
    if column.kind != STRING:
        raise ColumnError(row, _MIXED_ZONES.get((kind, column.kind), _MIXED.format(column.kind, kind)), name)
    if kind in (TIME, ZONED):
        times = column.as_times()
        if (times is not None and times.kind == kind) or not column.words:
            return times or Column(kind, column.values)
        place, word = next((p, w) for p, w in enumerate(column.words) if (iso_time(w) or ("",))[0] != kind)
        row = int((column.values == place).argmax())
        raise ColumnError(row, f"holds the string {short(word)}, but a {kind} in ISO 8601 in the rows before.", name)
    raise ColumnError(row, f"holds the string {short(column.words[0])}, but a {kind} in the rows before.", name)


_MIXED = "holds a {}, but a {} in the rows before."
_MIXED_ZONES = {
    (ZONED, TIME): "holds a time without a zone, but times with a zone in the rows before: set its zone, as pandas' "
    ".dt.tz_localize('UTC') does.",
    (
        TIME,
        ZONED,
    ): "holds a time with a zone, but times without one in the rows before: convert it to their zone and "
    "drop it, as pandas' .dt.tz_convert('UTC').dt.tz_localize(None) does for UTC.",
}


@lru_cache(1 << 16)
def iso_time(word: str) -> tuple[str, float] | None:
    """Return the kind and the microseconds since 1970 of a time in ISO 8601; None for other strings.

    >>> iso_time("1970-01-03"), iso_time("1970-01-01T12:00+01:00"), iso_time("1970"), iso_time("2024-02-30")
    (('time', 172800000000.0), ('time with a zone', 39600000000.0), None, None)
    """
    if _ISO.fullmatch(word) is None:
        return None
    try:
        return _of_datetime(dt.datetime.fromisoformat(word))
    except ValueError:  # 30 February
        return None


def _of_datetime(value: dt.datetime) -> tuple[str, float]:
    is_zoned = value.utcoffset() is not None
    plain = value if is_zoned else value.replace(tzinfo=None)
    return ZONED if is_zoned else TIME, float((plain - (EPOCH_UTC if is_zoned else EPOCH)) // _MICROSECOND)


# -- arrays of values -----------------------------------------------------------------------------------------


def of_floats(values: Any) -> Column:
    """Return numbers as a column: NaN is a missing value, infinity is refused."""
    values = np.asarray(values, dtype=np.float64)
    if (np.abs(values) < MAX_ABS_VALUE).all():
        return _without_gaps(NUMBER, values)
    missing = np.isnan(values)
    bad = ~(np.abs(values) < MAX_ABS_VALUE) & ~missing
    if bad.any():
        row = int(bad.argmax())
        found = (
            "infinity."
            if np.isinf(values[row])
            else f"{values[row]:g}: magnitudes below {MAX_ABS_VALUE:g} are supported."
        )
        raise ColumnError(row, f"contains {found}")
    return Column(EMPTY if missing.all() else NUMBER, values)


def _without_gaps(kind: str, values: FloatArray) -> Column:
    column = Column(kind if len(values) else EMPTY, values)
    vars(column)["has_gaps"] = False  # known: it need not be computed
    return column


def of_integers(values: Any, missing: BoolArray | None = None, kind: str = NUMBER) -> Column:
    """Return whole numbers as a column; one that a double cannot hold is refused."""
    numbers = values.astype(np.float64)
    large = np.abs(numbers) >= _EXACT
    for row in np.flatnonzero(large if missing is None else large & ~missing).tolist():
        if int(numbers[row]) != int(values[row]):
            what = "the number" if kind == NUMBER else "a time or duration of microseconds,"
            raise ColumnError(row, f"holds {what} {values[row]}, which no double holds: pass the column as strings.")
    if missing is None or not missing.any():
        return _without_gaps(kind, numbers)
    numbers[missing] = np.nan
    return Column(EMPTY if missing.all() else kind, numbers)


def of_ticks(values: Any, missing: BoolArray, unit: str, kind: str) -> Column:
    """Return times since 1970 or durations, whole numbers of a unit, as a column of microseconds."""
    if unit == "ns":
        finer = (values % 1000 != 0) & ~missing
        if finer.any():
            raise ColumnError(int(finer.argmax()), _TOO_FINE)
        return of_integers(values // 1000, missing, kind)
    if unit not in _MICROSECONDS:
        raise ColumnError(0, f"holds times in units of {unit}: use microseconds.")
    factor = _MICROSECONDS[unit]
    far = (np.abs(values.astype(np.float64)) > 2.0**62 / factor) & ~missing
    if far.any():
        raise ColumnError(int(far.argmax()), "holds a time too far away.")
    return of_integers(np.where(missing, 0, values) * factor, missing, kind)


def of_strings(values: Iterable[Any]) -> Column:
    """Return strings, and None for missing values, as a column."""
    known: dict[Any, int] = {None: -1}
    places = np.array([known.setdefault(value, len(known) - 1) for value in values], dtype=np.float64)
    del known[None]
    for word, place in known.items():
        if len(word) > MAX_CHARACTERS:
            why = f"holds a string of {len(word):,} characters: at most {MAX_CHARACTERS:,} are possible."
            raise ColumnError(int((places == place).argmax()), why)
        if not word.isascii() and not _is_unicode(word):
            raise ColumnError(int((places == place).argmax()), f"holds a string that is no Unicode: {word[:20]!r}.")
    places[places < 0] = np.nan
    return Column(STRING if known else EMPTY, places, tuple(map(str, known)))


def _all_words(words: Sequence[str]) -> Column:
    """Return different strings as a column."""
    return Column(STRING, np.arange(len(words), dtype=np.float64), tuple(words))


def _is_unicode(word: str) -> bool:
    try:
        word.encode()
    except UnicodeEncodeError:
        return False
    return True


def of_categories(places: Any, categories: Callable[[Any], Column]) -> Column:
    """Return a column of categories, given the place of each value, -1 if it is missing, and what makes them a column.

    ``categories`` is called with the places in use, in the order of their first row; others are not read.
    """
    used, first = np.unique(places[places >= 0], return_index=True)
    if not len(used):
        return Column(EMPTY, np.full(len(places), np.nan))
    order = np.argsort(first)
    used = used[order]
    try:
        own = categories(used)
    except ColumnError as error:
        raise ColumnError(int((places == used[error.row]).argmax()), error.why) from error
    values = np.full(used.max() + 2, np.nan)  # the last one is that of missing values
    values[used] = own.values
    return Column(own.kind, values[places], own.words)


def of_values(values: Any) -> Column:
    """Return a list or an array of plain values, all of one kind, as a column."""
    if isinstance(values, np.ndarray) and values.dtype.kind in "biufmM":
        return _of_array(values)
    listed = values.tolist() if isinstance(values, np.ndarray) else list(values)
    kinds = set(map(type, listed))
    if kinds == {float}:
        return of_floats(listed)
    if kinds <= {str, type(None)}:
        return of_strings(listed)
    present = [row for row, value in enumerate(listed) if not is_missing(value)]
    given = [listed[row] for row in present]
    if given and all(isinstance(value, str) for value in given):
        known = dict.fromkeys(present)
        return of_strings([value if row in known else None for row, value in enumerate(listed)])
    try:
        kind, own = _of_objects(given)
    except ColumnError as error:
        raise ColumnError(present[error.row], error.why) from error
    found = np.full(len(listed), np.nan)
    found[present] = own
    return Column(kind, found)


def _of_array(values: Any) -> Column:
    if values.dtype.kind in "iu":
        return of_integers(values)
    if values.dtype.kind in "bf":
        if values.dtype.itemsize > 8:
            raise ColumnError(0, f"is of type {values.dtype}, of which no double holds all digits: use float64.")
        return of_floats(values)
    unit, count = np.datetime_data(values.dtype)
    if values.dtype.kind == "m" and unit in ("Y", "M"):
        raise ColumnError(0, "holds a duration in months, of which no two are equally long: use days.")
    missing = np.isnat(values)
    if unit in ("Y", "M", "W", "D", "h", "m") or count > 1:
        unit = "s" if unit in ("Y", "M", "W", "D", "h", "m") else unit
        values = values.astype(f"{values.dtype.kind}8[{unit}]")
    return of_ticks(values.astype(np.int64), missing, unit, TIME if values.dtype.kind == "M" else DURATION)


def is_missing(value: Any) -> bool:
    """Whether a value is None, NaN, or one of those that pandas uses for them."""
    if value is None:
        return True
    if isinstance(value, float | np.floating):
        return bool(value != value)
    if isinstance(value, np.datetime64 | np.timedelta64):
        return bool(np.isnat(value))
    return type(value).__name__ in ("NAType", "NaTType")


def _of_objects(given: list[Any]) -> tuple[str, FloatArray]:
    """Return the kind and the numbers of objects without missing values; the first of another kind is refused."""
    found, kinds = np.empty(len(given)), dict[str, int]()
    for row, value in enumerate(given):
        kind, found[row] = _of_object(value, row)
        if kind not in kinds:
            kinds[kind] = row
            if len(kinds) > 1:
                raise ColumnError(row, f"holds {short(value)}, a {kind} in a column of type {next(iter(kinds))}.")
    return next(iter(kinds), EMPTY), found


def _of_object(value: Any, row: int) -> tuple[str, float]:
    if isinstance(value, str):
        return STRING, 0.0
    if isinstance(value, bool | np.bool_):
        return NUMBER, float(value)
    if isinstance(value, np.timedelta64 | np.datetime64):
        column = _of_array(np.array([value]))
        return column.kind, float(column.values[0])
    if isinstance(value, int | float | decimal.Decimal | np.number) and not isinstance(value, np.complexfloating):
        return NUMBER, _of_number(value, row)
    if getattr(value, "nanosecond", 0) or getattr(value, "nanoseconds", 0):
        raise ColumnError(row, _TOO_FINE)
    if isinstance(value, dt.datetime):
        return _of_datetime(value.to_pydatetime() if hasattr(value, "to_pydatetime") else value)
    if isinstance(value, dt.date):
        return TIME, 86_400e6 * (value.toordinal() - EPOCH.toordinal())
    if isinstance(value, dt.timedelta):
        return DURATION, float(value // _MICROSECOND)
    if isinstance(value, dt.time):
        seconds = 3600 * value.hour + 60 * value.minute + value.second
        return DURATION, 1e6 * seconds + value.microsecond
    raise ColumnError(
        row, f"holds {short(value)}, a {type(value).__name__}: neither number, string, truth value nor date."
    )


def _of_number(value: Any, row: int) -> float:
    try:
        number = float(value)
    except OverflowError:
        raise ColumnError(row, "holds a number too large for a double: pass the column as strings.") from None
    if isinstance(value, int) and number != value:
        raise ColumnError(row, f"holds the number {short(value)}, which no double holds: pass the column as strings.")
    return float(of_floats(np.array([number])).values[0])


def short(value: Any) -> str:
    """Return a value as an error shows it."""
    try:
        shown = repr(value)
    except Exception:  # of a class of the user's own
        shown = "something"
    return shown if len(shown) <= 40 else f"{shown[:37]}..."


# -- containers -----------------------------------------------------------------------------------------------


def container_of(X: Any) -> str | None:
    """Return the container of rows with columns of several kinds; None for arrays of numbers and what becomes one."""
    module, name = type(X).__module__.partition(".")[0], type(X).__name__
    if module == "pandas" and name == "DataFrame":
        return "pandas"
    if module == "polars" and name in ("DataFrame", "LazyFrame"):
        return "polars"
    if module == "pyarrow" and name in ("Table", "RecordBatch"):
        return "arrow"
    if isinstance(X, TypedTable):
        return "columns"
    if isinstance(X, Mapping):
        return "mapping"
    if isinstance(X, np.ndarray):
        is_table = X.ndim == 2 and X.dtype.kind in "OUT" and _needs_encoding(X.ravel().tolist())
        return "array" if is_table else None
    if isinstance(X, list | tuple) and len(X):
        if all(isinstance(row, Mapping) for row in X):
            return "rows"
        if isinstance(X[0], list | tuple) and _needs_encoding(value for row in X for value in row):
            return "array"
    return None


def _needs_encoding(values: Iterable[Any]) -> bool:
    return any(isinstance(value, str) or value is None for value in values)


def is_table(X: Any) -> bool:
    """Return whether X has columns of several kinds, or may have: a data frame, or rows with strings or None."""
    return container_of(X) is not None


def read(X: Any) -> TypedTable:
    """Return a table of any container as typed columns. Columns of arrays are called x0, x1, ..."""
    if isinstance(X, TypedTable):
        return X
    names, columns, of = columns_of(X, container_of(X))
    found = [read_column(name, values, of) for name, values in zip(names, columns, strict=True)]
    lengths = {len(column.values) for column in found}
    if len(lengths) > 1:
        raise ValueError(f"The columns have different numbers of rows: {sorted(lengths)[:5]}.")
    return TypedTable(tuple(n if isinstance(n, str) else f"x{n}" for n in names), tuple(found), *(lengths or {0}))


def read_column(name: str | int | None, values: Any, of: Callable[[Any], Column]) -> Column:
    """Return a column that ``of`` reads; its errors name the column."""
    try:
        return of(values)
    except ColumnError as error:
        raise ColumnError(error.row, error.why, name) from error


def columns_of(X: Any, container: str | None) -> tuple[list[Any], Iterable[Any], Callable[[Any], Column]]:
    """Return the names of the columns, the columns, and the function that reads one."""
    if container == "pandas":
        return _checked_names(list(X.columns)), (X.iloc[:, place] for place in range(X.shape[1])), of_series
    if container == "polars":
        X = X.collect(engine="streaming") if hasattr(X, "collect") else X
        return list(X.columns), X.get_columns(), of_polars
    if container == "arrow":
        return _checked_names(X.schema.names), X.columns, of_arrow
    if container == "mapping":
        return _checked_names(list(X)), X.values(), of_values
    if container == "rows":
        names = _checked_names(list(dict.fromkeys(name for row in X for name in row)))
        return names, ([row.get(name) for row in X] for name in names), of_values
    values = rectangular(X)
    values = values.astype(object) if values.dtype.kind in "UT" else values
    return list(range(values.shape[1])), values.T, of_values


def _checked_names(names: list[Any]) -> list[Any]:
    """Return names of columns if they are different strings or whole numbers."""
    bad = [name for name in names if not isinstance(name, str | int) or isinstance(name, bool)]
    if bad:
        raise TypeError(f"The names of columns must be strings or whole numbers, got {bad[0]!r}.")
    if len(set(names)) < len(names):
        repeated = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"Two columns are named {repeated!r}: the names of columns must differ.")
    return names


def rectangular(X: Any) -> Any:
    """Return rows that are lists as an array of objects; an array stays as it is."""
    if hasattr(X, "toarray"):
        return X.toarray()
    if isinstance(X, np.ndarray):
        if X.ndim != 2:
            raise ValueError(
                f"Expected 2D array, got {X.ndim}D array instead: reshape(1, -1) makes one row of one point."
            )
        return X
    widths = {len(row) for row in X}
    if len(widths) > 1:
        raise ValueError(f"Rows must be equally long, got {sorted(widths)[:5]} values.")
    values = np.empty((len(X), widths.pop() if widths else 0), dtype=object)
    values[:] = X
    return values


def of_series(series: Any) -> Column:
    """Return a column of pandas."""
    dtype, kind = series.dtype, series.dtype.kind
    name = type(dtype).__name__
    if name == "CategoricalDtype":
        own = series.cat.categories
        return of_categories(series.cat.codes.to_numpy(), lambda used: of_series(own.take(used).to_series()))
    if name == "ArrowDtype":
        import pyarrow as pa

        return of_arrow(pa.array(series))
    if name == "SparseDtype":
        return of_series(series.sparse.to_dense())
    if kind == "O" or name == "StringDtype":
        return of_values(series.to_numpy(dtype=object))
    if kind in "mM":
        zoned = getattr(dtype, "tz", None) is not None
        values = (series.dt.tz_convert("UTC").dt.tz_localize(None) if zoned else series).to_numpy()
        column = _of_array(values)
        return Column(ZONED, column.values) if zoned and column.kind == TIME else column
    if kind not in "iufb":
        raise unsupported(dtype)
    if kind in "iu" and not series.hasnans:
        return of_integers(series.to_numpy(dtype="u8" if kind == "u" else "i8"))
    if kind in "iu":
        filled = series.to_numpy(dtype="u8" if kind == "u" else "i8", na_value=0)
        return of_integers(filled, series.isna().to_numpy())
    return _of_array(series.to_numpy(dtype=np.float64, na_value=np.nan) if dtype.itemsize <= 8 else series.to_numpy())


def of_polars(series: Any) -> Column:
    """Return a column of polars."""
    dtype = series.dtype
    if dtype.is_float():
        return of_floats(series.to_numpy())
    if dtype.is_nested() or dtype.base_type().__name__ in ("Object", "Binary"):
        raise unsupported(dtype)
    return of_arrow(series.to_arrow())


def of_arrow(array: Any) -> Column:
    """Return a column of Arrow, in chunks or not."""
    import pyarrow as pa

    types, dtype = pa.types, array.type
    array = array.combine_chunks() if isinstance(array, pa.ChunkedArray) else array
    if isinstance(array, pa.ChunkedArray):  # no chunks, or several of a dictionary
        array = pa.concat_arrays(array.chunks) if array.num_chunks else pa.array([], array.type)
    if types.is_null(dtype):
        return Column(EMPTY, np.full(len(array), np.nan))
    if types.is_floating(dtype) or types.is_boolean(dtype):
        array = array if types.is_floating(dtype) else array.cast(pa.uint8())
        return of_floats(array.to_numpy(zero_copy_only=False))
    if types.is_dictionary(dtype):
        own, places = array.dictionary, np.asarray(array.indices.cast("int64").fill_null(-1))
        return of_categories(places, lambda used: of_arrow(own.take(pa.array(used))))
    if is_string(dtype):
        encoded = (array if not types.is_string_view(dtype) else array.cast(pa.large_string())).dictionary_encode()
        places = np.asarray(encoded.indices.cast("int64").fill_null(-1))
        return of_categories(places, lambda used: of_strings(encoded.dictionary.take(pa.array(used)).to_pylist()))
    if types.is_decimal(dtype):
        return of_floats(array.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False))
    missing = np.asarray(array.is_null())
    if types.is_integer(dtype):
        return of_integers(np.asarray(array.fill_null(0)), missing if array.null_count else None)
    if types.is_date(dtype):
        array = array.cast(pa.timestamp("s" if types.is_date32(dtype) else "ms"))
    if types.is_time(dtype):
        array = (
            array.cast(pa.int32() if types.is_time32(dtype) else pa.int64())
            .cast(pa.int64())
            .cast(pa.duration(dtype.unit))
        )
    if not (types.is_timestamp(array.type) or types.is_duration(array.type)):
        raise unsupported(dtype)
    kind = DURATION if types.is_duration(array.type) else TIME if array.type.tz is None else ZONED
    return of_ticks(np.asarray(array.cast(pa.int64()).fill_null(0)), missing, array.type.unit, kind)


def type_of_arrow(dtype: Any) -> ColumnType:
    """Return the kind of a column of this Arrow type; a column of missing values may still get numbers."""
    import pyarrow as pa

    types = pa.types
    if types.is_dictionary(dtype):
        return type_of_arrow(dtype.value_type)
    kinds = {
        ColumnType.NUMBER: (types.is_integer, types.is_floating, types.is_boolean, types.is_decimal, types.is_null),
        ColumnType.STRING: (is_string,),
        ColumnType.TIME: (types.is_timestamp, types.is_date),
        ColumnType.DURATION: (types.is_duration, types.is_time),
    }
    found = next((kind for kind, tests in kinds.items() if any(holds(dtype) for holds in tests)), ColumnType.OTHER)
    return ColumnType.ZONED if found is ColumnType.TIME and getattr(dtype, "tz", None) is not None else found


def is_string(dtype: Any) -> bool:
    """Return whether an Arrow type is one of strings."""
    import pyarrow as pa

    return bool(pa.types.is_string(dtype) or pa.types.is_large_string(dtype) or pa.types.is_string_view(dtype))
