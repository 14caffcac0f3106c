"""Rows of any kind as rows of numbers, and back."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np

from batch2online._types import FloatArray
from batch2online.frames import arrow, pandas
from batch2online.frames.columns import MISSING, ColumnType, ColumnValueError, EncodedColumn, FrameColumn, of_floats
from batch2online.frames.objects import of_dictionaries, of_objects
from batch2online.frames.schema import LISTS, FrameSchema
from batch2online.frames.strings import StringTable
from batch2online.rows import Rows

EncodedRows = tuple[FloatArray, FrameSchema, dict[float, str]]
"""Rows as numbers, the schema with their columns added, and the strings among them by their hash."""

Encode = Callable[[Any], EncodedColumn]


def container_of(X: Any) -> str | None:
    """Return the container of rows; None for arrays of numbers and whatever else becomes one."""
    module, name = type(X).__module__.split(".")[0], type(X).__name__
    if module in ("pandas", "polars") and name in ("DataFrame", "Series"):
        return module if name == "DataFrame" else f"{module} series"
    if module == "pyarrow" and name in ("Table", "RecordBatch"):
        return "arrow"
    if isinstance(X, np.ndarray):
        return _container_of_array(X)
    if isinstance(X, list | tuple) and len(X):
        if all(isinstance(row, str) for row in X):
            return "list"
        if all(isinstance(row, dict) for row in X):
            return "dicts"
        if isinstance(X[0], list | tuple) and _needs_encoding(value for row in X for value in row):
            return "array"
    return None


def _container_of_array(X: Any) -> str | None:
    if X.dtype.kind not in "OUST" or X.ndim not in (1, 2):
        return None
    if X.ndim == 1:
        return "array of strings" if X.size and all(isinstance(row, str) for row in X.tolist()) else None
    if X.dtype.kind != "O":
        return "array" if X.dtype.kind in "UT" else None
    return "array" if _needs_encoding(X.ravel().tolist()) else None


def _needs_encoding(values: Iterable[Any]) -> bool:
    return any(isinstance(value, str) or value is None for value in values)


def read(X: Any, schema: FrameSchema | None = None, container: str | None = None) -> EncodedRows:
    """Return rows as numbers.

    ``schema`` is that of the rows before; values of another type are refused, by row and column. The names of columns
    are compared by the caller.
    """
    container = container or container_of(X) or "array"
    if schema is not None and (container in LISTS) != (schema.container in LISTS):
        raise ValueError(f"X must be rows in a container like {schema.container}, as before, got {container}.")
    names, encode, given = _columns_of(X, container)
    if not given:
        raise ValueError("Found rows with 0 feature(s) while a minimum of 1 is required.")
    if schema is not None:
        if len(given) != len(schema.columns):
            raise ValueError(f"X has {len(given)} columns, but {len(schema.columns)} were seen before.")
        names = [column.name for column in schema.columns]
    codes, columns, strings = [], [], dict[float, str]()
    for place, (name, values) in enumerate(zip(names, given, strict=True)):
        column, own, found = _read_column(values, encode, name, None if schema is None else schema.columns[place])
        columns.append(column)
        codes.append(own)
        strings |= found
    new = FrameSchema(container, tuple(columns)) if schema is None else schema.with_columns(columns)
    return np.ascontiguousarray(np.column_stack(codes)), new, strings


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


def _read_column(
    values: Any, encode: Encode, name: Any, before: FrameColumn | None
) -> tuple[FrameColumn, FloatArray, dict[float, str]]:
    place = f", column {name!r}," if name is not None else ""
    try:
        made = encode(values)
    except ColumnValueError as error:
        raise ValueError(f"Row {error.row}{place} {error.why}") from error
    if before is None:
        return FrameColumn(name, made.kind, made.form, made.categories), made.codes, made.strings
    try:
        return *before.joined(made), made.strings
    except ValueError as error:
        first = int((made.codes != MISSING).argmax())
        raise ValueError(f"Row {first}{place} {error}") from error


def _columns_of(X: Any, container: str) -> tuple[Sequence[Any], Encode, list[Any]]:
    """Return the names of the columns, the function that encodes one, and the columns."""
    if container == "pandas":
        _check_names(list(X.columns))
        return list(X.columns), pandas.of_series, [X.iloc[:, place] for place in range(X.shape[1])]
    if container == "polars":
        return X.columns, arrow.of_polars, X.get_columns()
    if container == "arrow":
        _check_names(X.schema.names)
        return X.schema.names, arrow.of_array, X.columns
    if container == "array":
        values = rectangular(X)
        values = values.astype(object) if values.dtype.kind in "UT" else values
        encode = of_objects if values.dtype.kind == "O" else _of_numbers
        return range(values.shape[1]), encode, list(values.T)
    if container == "dicts":
        return [None], of_dictionaries, [X]
    own = {"pandas series": pandas.of_series, "polars series": arrow.of_polars}.get(container, of_objects)
    return [X.name if container.endswith("series") else None], partial(_of_strings, own), [X]


def _of_strings(encode: Encode, values: Any) -> EncodedColumn:
    """Encode strings; a list of rows that are one string each has no missing values and nothing else."""
    made = encode(values)
    if made.kind != ColumnType.STRING:
        raise ColumnValueError(0, f"holds a {made.kind}: rows that are no tables are strings.")
    missing = made.codes == MISSING
    if missing.any():
        raise ColumnValueError(int(missing.argmax()), "holds a missing value: put an empty string in its place.")
    return made


def _of_numbers(values: Any) -> EncodedColumn:
    return EncodedColumn(ColumnType.NUMBER, "float64", of_floats(np.asarray(values, dtype=np.float64)))


def _check_names(names: list[Any]) -> None:
    bad = [name for name in names if not isinstance(name, str | int) or isinstance(name, bool)]
    if bad:
        raise TypeError(f"The names of columns must be strings or whole numbers, got {bad[0]!r}.")
    repeated = [name for name in names if names.count(name) > 1]
    if repeated:
        raise ValueError(f"Two columns are named {repeated[0]!r}: the names of columns must differ.")


def rectangular(X: Any) -> Any:
    """Return rows that are lists as an array of objects; an array stays as it is."""
    if isinstance(X, np.ndarray):
        return X
    widths = {len(row) for row in X}
    if len(widths) > 1:
        raise ValueError(f"Rows must be equally long, got {sorted(widths)[:5]} values.")
    values = np.empty((len(X), widths.pop()), dtype=object)
    values[:] = X
    return values


def first_missing(points: FloatArray) -> tuple[int, int] | None:
    """Return row and column of the first missing value."""
    missing = points == MISSING
    return divmod(int(missing.argmax()), points.shape[1]) if missing.any() else None


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
        return Encoding(self.schema.with_columns(columns), self.strings.merged(other.strings))


def _merged(one: FrameColumn, two: FrameColumn) -> FrameColumn:
    if two.kind in (one.kind, ColumnType.ALL_MISSING):
        return one
    if one.kind == ColumnType.ALL_MISSING:
        return two
    raise ValueError(
        f"Can only merge columns of the same type: {one.name!r} holds a {one.kind} here and a {two.kind} there."
    )
