"""Rows of tables as rows of numbers that an engine keeps, and as tables of the same container again.

For wrapped estimators, which receive rows as they came. A string is a hash of it, a missing value :data:`MISSING`; a
number depends on the value alone, not on the order of rows, so shards and chunks agree on it. A :class:`Form` says how
a column was written.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np

from batch2online._types import FloatArray
from batch2online.rows import Rows
from batch2online.schema import storable
from batch2online.tables import columns as typed
from batch2online.tables.columns import (
    DURATION,
    EMPTY,
    MAX_ABS_VALUE,
    NUMBER,
    STRING,
    TIME,
    ZONED,
    Column,
    ColumnError,
    converted,
    unsupported,
)
from batch2online.tables.decoding import MAKERS, objects
from batch2online.tables.forms import CATEGORICAL, Form, form_of
from batch2online.tables.strings import MISSING, StringTable, hash_code

FRAMES = ("pandas", "polars", "arrow")
"""Containers with named columns."""

LISTS = ("list", "dicts", "array of strings", "pandas series", "polars series")
"""Containers of rows that are one string each."""

_BOUNDS = {NUMBER: MAX_ABS_VALUE, TIME: 2.5e17, ZONED: 2.5e17, DURATION: 9e18, STRING: 2.0**52, EMPTY: 0.0}
"""Largest number that stands for a value of each kind."""


@storable
@dataclass(frozen=True)
class FrameSchema:
    """The container in which rows came, and its columns."""

    container: str
    columns: tuple[Form, ...]

    def validate(self) -> None:
        if self.container not in (*FRAMES, *LISTS, "array"):
            raise ValueError(f"container: found {self.container[:40]!r}, expected one of those that are read")
        if not self.columns or (self.container in LISTS and len(self.columns) != 1):
            raise ValueError(f"columns: found {len(self.columns)} of a {self.container}")
        names = [column.name for column in self.columns]
        if self.container in FRAMES and (None in names or len(set(names)) != len(names)):
            raise ValueError(f"columns: found the names {names[:5]}, expected different ones")

    @property
    def string_columns(self) -> list[int]:
        """Positions of the columns of strings."""
        return [place for place, column in enumerate(self.columns) if column.kind == STRING]

    @property
    def numeric_columns(self) -> list[int]:
        """Positions of the columns of numbers or truth values."""
        return [place for place, column in enumerate(self.columns) if column.kind == NUMBER]

    @property
    def is_numeric(self) -> bool:
        """Whether all columns hold numbers."""
        return len(self.numeric_columns) == len(self.columns)

    def categories_in(self, points: FloatArray) -> dict[int, FloatArray]:
        """Return the categories in these rows, for each column of categories."""
        places = [place for place, column in enumerate(self.columns) if column.form in CATEGORICAL]
        return {place: np.unique(points[:, place]) for place in places}

    def decoded(self, points: FloatArray, strings: StringTable, seen: dict[int, FloatArray] | None = None) -> Any:
        """Return rows in the container in which they came.

        ``seen`` are the categories that columns may have, by position: others become missing values.
        """
        forms, numbers = {column.form for column in self.columns}, self.is_numeric
        if numbers and forms <= {"float64"} and self.container in ("pandas", "array"):
            values = _with_nans(points)
            return values if self.container == "array" else _pandas().DataFrame(values, columns=self._index, copy=False)
        if self.container == "array":
            return np.column_stack([objects(column, points[:, at], strings) for at, column in enumerate(self.columns)])
        if self.container in LISTS:
            return self._listed(strings.of(points[:, 0], None))
        make, seen = MAKERS[self.container], seen or {}
        made = [make(column, points[:, at], strings, seen.get(at)) for at, column in enumerate(self.columns)]
        if self.container == "pandas":
            found = _pandas().concat(made, axis=1, copy=False)
            found.columns = self._index
            return found
        names = [str(column.name) for column in self.columns]
        if self.container == "polars":
            import polars as pl

            return pl.DataFrame(dict(zip(names, made, strict=True)))
        import pyarrow as pa

        return pa.table(made, names=names)

    @property
    def _index(self) -> Any:
        return _pandas().Index([column.name for column in self.columns])

    def _listed(self, values: Any) -> Any:
        if self.container == "array of strings":
            return values
        if self.container == "dicts":
            return [json.loads(row) for row in values]
        if self.container == "list":
            return values.tolist()
        name, form = self.columns[0].name, self.columns[0].form
        if self.container == "pandas series":
            return _pandas().Series(values, name=name, dtype=form if form in ("string", "str", "category") else object)
        import polars as pl

        return pl.Series(str(name or ""), values.tolist(), dtype=pl.String)

    def as_numbers(self, points: FloatArray) -> FloatArray:
        """Return rows as numbers to compare and not to learn from: 0 for missing values, strings between 0 and 1."""
        numbers = np.where(points == MISSING, 0.0, points)
        numbers[:, self.string_columns] /= 2.0**52
        return numbers

    def check(self, points: FloatArray) -> None:
        """Raise ValueError unless the numbers can stand for values of the columns."""
        for place, column in enumerate(self.columns):
            values = points[:, place][points[:, place] != MISSING]
            wrong = ~(np.abs(values) <= _BOUNDS[column.kind])
            if column.kind != NUMBER:
                wrong |= values != np.floor(values)
            if wrong.any():
                raise ValueError(f"column {column.name!r} of type {column.kind}: found {values[wrong][0]}")


def _with_nans(points: FloatArray) -> FloatArray:
    missing = points == MISSING
    return np.where(missing, np.nan, points) if missing.any() else points


def _pandas() -> Any:
    import pandas

    return pandas


# -- rows as numbers ------------------------------------------------------------------------------------------

EncodedRows = tuple[FloatArray, FrameSchema, dict[float, str]]
"""Rows as numbers, the schema with their columns added, and the strings among them by their hash."""


def container_of(X: Any) -> str | None:
    """Return the container of rows; None for arrays of numbers and whatever else becomes one."""
    module, name = type(X).__module__.partition(".")[0], type(X).__name__
    if module in ("pandas", "polars") and name == "Series":
        return f"{module} series"
    if isinstance(X, np.ndarray) and X.ndim == 1 and X.dtype.kind in "OUST":
        return "array of strings" if X.size and all(isinstance(row, str) for row in X.tolist()) else None
    if isinstance(X, np.ndarray) and X.ndim == 2 and X.dtype.kind in "UT":
        return "array"
    if isinstance(X, list | tuple) and len(X) and all(isinstance(row, str) for row in X):
        return "list"
    if isinstance(X, list | tuple) and len(X) and all(isinstance(row, dict) for row in X):
        return "dicts"
    found = typed.container_of(X)
    return found if found in (*FRAMES, "array") else None


def read(X: Any, schema: FrameSchema | None = None, container: str | None = None) -> EncodedRows:
    """Return rows as numbers.

    ``schema`` is that of the rows before; values of another kind are refused, by row and column. The names of columns
    are compared by the caller.
    """
    container = container or container_of(X) or "array"
    if schema is not None and (container in LISTS) != (schema.container in LISTS):
        raise ValueError(f"X must be rows in a container like {schema.container}, as before, got {container}.")
    names, given, of = _columns_of(X, container)
    columns = list(given)
    if not columns:
        raise ValueError("Found rows with 0 feature(s) while a minimum of 1 is required.")
    if schema is not None and len(columns) != len(schema.columns):
        raise ValueError(f"X has {len(columns)} columns, but {len(schema.columns)} were seen before.")
    forms = [None] * len(columns) if schema is None else schema.columns
    codes, found, strings = [], list[Form](), dict[float, str]()
    for name, values, form in zip(names, columns, forms, strict=True):
        new, own = _read_column(values, of, form, name if form is None else form.name)
        words = [*map(hash_code, own.words)]
        strings |= dict(zip(words, own.words, strict=True))
        numbers = own.mapped(words) if own.kind == STRING else own.values
        codes.append(np.where(own.missing, MISSING, numbers) if own.has_gaps else numbers)
        found.append(new)
    if schema is None:
        schema = FrameSchema(container, tuple(found))
    elif tuple(found) != schema.columns:
        schema = replace(schema, columns=tuple(found))
    return np.ascontiguousarray(np.column_stack(codes)), schema, strings


def _read_column(values: Any, of: Any, before: Form | None, name: Any) -> tuple[Form, Column]:
    """Return a column, and its form after the rows before."""
    column = typed.read_column(name, values, of)
    if before is not None and before.kind != EMPTY:
        return before, converted(before.name, column, before.kind)
    return Form(name, column.kind, *form_of(values, column.kind)), column


def read_one(x: Any, schema: FrameSchema) -> EncodedRows:
    """Return one row as numbers: its values in the order of the columns, a string, or a dictionary."""
    if schema.container in LISTS:
        return read([x], schema, "dicts" if schema.container == "dicts" else "list")
    values = x.tolist() if isinstance(x, np.ndarray) else list(x)
    if len(values) != len(schema.columns):
        raise ValueError(f"x must have {len(schema.columns)} values, got {len(values)}.")
    row = np.empty((1, len(values)), dtype=object)
    row[0, :] = values
    return read(row, schema, "array")


def _columns_of(X: Any, container: str) -> tuple[list[Any], Iterable[Any], Any]:
    """Return the names of the columns, the columns, and the function that reads one."""
    if container == "dicts":
        return [None], [[_as_json(row, number) for number, row in enumerate(X)]], typed.of_values
    if container in LISTS:
        own = {"pandas series": typed.of_series, "polars series": _of_polars}.get(container, typed.of_values)
        return [X.name if container.endswith("series") else None], [X], partial(_strings_alone, own)
    names, columns, of = typed.columns_of(X, container)
    if container == "pandas":
        return names, map(_plain_series, columns), of
    return names, columns, _of_polars if container == "polars" else of


def _plain_series(series: Any) -> Any:
    """Return a sparse column dense, and one of Arrow's types in a type of pandas' own."""
    kind = type(series.dtype).__name__
    if kind == "SparseDtype":
        return series.sparse.to_dense()
    if kind != "ArrowDtype":
        return series
    try:
        return series.astype(series.convert_dtypes(dtype_backend="numpy_nullable").dtype)
    except KeyError:  # times, dates and categories, which convert_dtypes does not know
        import pyarrow as pa

        return pa.array(series).to_pandas()


def _of_polars(series: Any) -> Column:
    import polars as pl

    if series.dtype == pl.Time or series.dtype.is_decimal():  # neither comes back as it was
        raise unsupported(series.dtype)
    return typed.of_polars(series)


def _strings_alone(of: Any, values: Any) -> Column:
    """Return strings; a list of rows that are one string each has no missing values and nothing else."""
    column: Column = of(values)
    if column.kind != STRING:
        raise ColumnError(0, f"holds a {column.kind}: rows that are no tables are strings.")
    if column.has_gaps:
        raise ColumnError(int(column.missing.argmax()), "holds a missing value: put an empty string in its place.")
    return column


def _as_json(row: dict[Any, Any], number: int) -> str:
    if not all(isinstance(key, str) for key in row):
        raise ColumnError(number, "holds a dictionary with keys that are not strings.")
    try:
        return json.dumps(row, default=_plain)
    except (TypeError, ValueError, RecursionError) as error:
        raise ColumnError(number, f"holds a dictionary that is no JSON: {error}.") from error


def _plain(value: Any) -> Any:
    if isinstance(value, np.generic):
        return value.item()
    raise TypeError(f"{type(value).__name__} is neither number nor string")


@dataclass(frozen=True)
class Encoding:
    """How rows of numbers are decoded; without a schema they are plain arrays."""

    schema: FrameSchema | None = None
    strings: StringTable = field(default_factory=StringTable)

    def decoded(
        self, points: FloatArray, trained: FloatArray | None = None, more: dict[float, str] | None = None
    ) -> Any:
        """Return rows in the container in which they came.

        ``trained`` are the rows that a model was fitted on, which decide the categories that it knows; ``more`` are
        strings of these rows, if they are not among the rows learned.
        """
        if self.schema is None:
            return points
        seen = None if trained is None else self.schema.categories_in(trained)
        return self.schema.decoded(points, self.strings if more is None else self.strings.beside(more), seen)

    def as_numbers(self, rows: Rows) -> Rows:
        """Return rows as numbers that can be compared."""
        return rows if self.schema is None else replace(rows, points=self.schema.as_numbers(rows.points))

    @property
    def is_numeric(self) -> bool:
        """Whether all columns hold numbers."""
        return self.schema is None or self.schema.is_numeric

    def check(self, points: FloatArray) -> None:
        """Raise ValueError unless the rows of a file can be decoded."""
        if self.schema is None:
            return
        self.schema.check(points)
        if not self.strings.holds(points[:, self.schema.string_columns]):
            raise ValueError("strings: found rows with strings that are not stored")

    def within(self, parts: Iterable[Rows]) -> Encoding:
        """Return the same with the strings that these rows need, and no others."""
        if self.schema is None:
            return self
        codes = [np.unique(rows.points[:, self.schema.string_columns]) for rows in parts]
        return replace(self, strings=self.strings.within(np.concatenate([np.empty(0), *codes])))

    def merged(self, other: Encoding) -> Encoding:
        """Return the encoding of the rows of both; ValueError if their types differ."""
        if self.schema is None or other.schema is None:
            if self.schema is not other.schema:
                raise ValueError("Can only merge tables with tables, and arrays with arrays.")
            return self
        if (self.schema.container in LISTS) != (other.schema.container in LISTS):
            raise ValueError("Can only merge tables with tables, and strings with strings.")
        columns = [_merged(one, two) for one, two in zip(self.schema.columns, other.schema.columns, strict=True)]
        return Encoding(replace(self.schema, columns=tuple(columns)), self.strings.merged(other.strings))


def _merged(one: Form, two: Form) -> Form:
    if two.kind in (one.kind, EMPTY):
        return one
    if one.kind == EMPTY:
        return two
    raise ValueError(
        f"Can only merge columns of the same type: {one.name!r} holds a {one.kind} here and a {two.kind} there."
    )
