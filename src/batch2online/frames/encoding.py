"""Rows of any kind as rows of numbers, and back; Arrow's PyCapsule protocol."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from batch2online._types import FloatArray
from batch2online.frames import arrow, pandas
from batch2online.frames.columns import MISSING, ColumnType, ColumnValueError, EncodedColumn, of_floats
from batch2online.frames.objects import of_dictionaries, of_objects
from batch2online.frames.schema import FRAMES, LISTS, Column, FrameSchema
from batch2online.frames.strings import StringTable
from batch2online.rows import Rows

Read = tuple[FloatArray, FrameSchema, dict[float, str]]
"""Rows as numbers, what the table is after them, and the texts that are among them."""

_TEXTS = "texts"


def container_of(X: Any) -> str | None:
    """Return in what rows come; None for arrays of numbers and whatever else becomes one."""
    module = type(X).__module__.split(".")[0]
    name = type(X).__name__
    if module in ("pandas", "polars") and name == "DataFrame":
        return module
    if module in ("pandas", "polars") and name == "Series":
        return f"{module} series"
    if module == "pyarrow" and name in ("Table", "RecordBatch"):
        return "arrow"
    if isinstance(X, np.ndarray):
        return _container_of_array(X)
    if isinstance(X, list | tuple) and len(X):
        if all(isinstance(row, str) for row in X):
            return "list"
        if all(isinstance(row, dict) for row in X):
            return "dicts"
        if isinstance(X[0], list | tuple) and any(
            isinstance(value, str) or value is None for row in X for value in row
        ):
            return "array"
    return None


def _container_of_array(X: Any) -> str | None:
    if X.dtype.kind not in "OUST" or X.ndim not in (1, 2):
        return None
    if X.ndim == 1:
        return "array of texts" if X.size and all(isinstance(text, str) for text in X.tolist()) else None
    if X.dtype.kind != "O":
        return "array" if X.dtype.kind in "UT" else None
    return "array" if any(isinstance(value, str) or value is None for value in X.ravel().tolist()) else None


def read(X: Any, table: FrameSchema | None = None, container: str | None = None) -> Read:
    """Return rows as numbers.

    ``table`` is that of the rows before; cells of another kind are refused, by row and column. The names of columns
    are compared by the caller.
    """
    container = container or container_of(X) or "array"
    if table is not None and (container in LISTS) != (table.container in LISTS):
        raise ValueError(f"X must be rows of the kind seen before, {table.container}, got {container}.")
    names, columns = _columns_of(X, container)
    if not columns:
        raise ValueError("Found rows with 0 feature(s) while a minimum of 1 is required.")
    if table is not None:
        if len(columns) != len(table.columns):
            raise ValueError(f"X has {len(columns)} columns, but {len(table.columns)} were seen before.")
        names = [column.name for column in table.columns]
    codes: list[FloatArray] = []
    texts: dict[float, str] = {}
    known: list[Column] = []
    for place, (name, given) in enumerate(zip(names, columns, strict=True)):
        column, own = _read_column(given, name, None if table is None else table.columns[place])
        known.append(column)
        codes.append(own.codes)
        texts |= own.texts
    points = np.column_stack(codes) if codes else np.empty((len(X), 0))
    new = FrameSchema(container, tuple(known)) if table is None else table.with_columns(known)
    return np.ascontiguousarray(points), new, texts


def read_one(x: Any, table: FrameSchema) -> Read:
    """Return one row as numbers: its values in the order of the columns, a text, or a dictionary."""
    if table.container in LISTS:
        return read([x], table, "dicts" if table.container == "dicts" else "list")
    values = x.tolist() if isinstance(x, np.ndarray) else list(x)
    if len(values) != len(table.columns):
        raise ValueError(f"x must have {len(table.columns)} values, got {len(values)}.")
    row = np.empty((1, len(values)), dtype=object)
    row[0, :] = values
    return read(row, table, "array")


def _read_column(given: Callable[[], EncodedColumn], name: Any, before: Column | None) -> tuple[Column, EncodedColumn]:
    place = f", column {name!r}," if name is not None else ""
    try:
        made = given()
    except ColumnValueError as error:
        raise ValueError(f"Row {error.row}{place} {error.why}") from error
    if before is None:
        return Column(name, made.kind, made.form, made.levels), made
    try:
        column, codes = before.joined(made)
    except ValueError as error:
        first = int((made.codes != MISSING).argmax())
        raise ValueError(f"Row {first}{place} {error}") from error
    return column, EncodedColumn(column.kind, column.form, codes, made.texts)


def _columns_of(X: Any, container: str) -> tuple[Sequence[Any], list[Callable[[], EncodedColumn]]]:
    """Return the names of columns, and what makes cells of each."""
    if container == "pandas":
        _check_names(list(X.columns))
        return list(X.columns), [_later(pandas.of_series, X.iloc[:, place]) for place in range(X.shape[1])]
    if container == "polars":
        return X.columns, [_later(arrow.of_polars, column) for column in X.get_columns()]
    if container == "arrow":
        _check_names(X.schema.names)
        return X.schema.names, [_later(arrow.of_array, column) for column in X.columns]
    if container == "array":
        values = rectangular(X)
        values = values.astype(object) if values.dtype.kind in "UT" else values
        make = of_objects if values.dtype.kind == "O" else _of_numbers
        return list(range(values.shape[1])), [_later(make, values[:, place]) for place in range(values.shape[1])]
    return _list_of(X, container)


def _list_of(X: Any, container: str) -> tuple[Sequence[Any], list[Callable[[], EncodedColumn]]]:
    if container == "dicts":
        return [None], [_later(of_dictionaries, X)]
    if container == "pandas series":
        return [X.name], [_later(_of_texts, pandas.of_series, X)]
    if container == "polars series":
        return [X.name], [_later(_of_texts, arrow.of_polars, X)]
    return [None], [_later(_of_texts, of_objects, X)]


def _of_texts(make: Callable[[Any], EncodedColumn], values: Any) -> EncodedColumn:
    """Return texts as cells; a list of rows that are one text each has no gaps and nothing else."""
    made = make(values)
    if made.kind != ColumnType.STRING:
        raise ColumnValueError(0, f"holds values of the kind {made.kind}: rows that are no tables are texts.")
    gaps = made.codes == MISSING
    if gaps.any():
        raise ColumnValueError(int(gaps.argmax()), "holds no text: put an empty text in the place of gaps.")
    return made


def _later(make: Callable[..., EncodedColumn], *given: Any) -> Callable[[], EncodedColumn]:
    return lambda: make(*given)


def _check_names(names: list[Any]) -> None:
    bad = [name for name in names if not isinstance(name, str | int) or isinstance(name, bool)]
    if bad:
        raise TypeError(f"The names of columns must be texts or whole numbers, got {bad[0]!r}.")
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


def _of_numbers(values: Any) -> EncodedColumn:
    return EncodedColumn(ColumnType.NUMBER, "float64", of_floats(np.asarray(values, dtype=np.float64)))


__all__ = ["FRAMES", "container_of", "read"]


def table(X: Any) -> Any:
    """Return what exports a table through Arrow's PyCapsule protocol as a table of pyarrow; anything else as it is.

    A stream is read to its end here, and may be one that can be read only once.

    >>> import pyarrow as pa
    >>> table(pa.table({"a": [1, 2, 3]}).to_reader()).num_rows
    3
    """
    if not _speaks_arrow(X) or container_of(X) is not None or _is_column(X):
        return X
    found = _imported(X, "X", _pyarrow("X").table)
    if not found.num_rows:
        raise _no_rows(X, "X")
    return found


def column(values: Any, what: str) -> Any:
    """Return targets or weights that only Arrow's PyCapsule protocol gives as an array; anything else as it is.

    A table of one column is that column, one of several is an array of shape (n_samples, n_columns).
    """
    if hasattr(values, "__array__") or not _speaks_arrow(values):
        return values
    pa = _pyarrow(what)
    found = _imported(values, what, pa.chunked_array if hasattr(values, "__arrow_c_stream__") else pa.array)
    if not len(found):
        raise _no_rows(values, what)
    if not pa.types.is_struct(found.type):
        return np.asarray(found)
    columns = [np.asarray(own) for own in found.flatten()]
    return columns[0] if len(columns) == 1 else np.column_stack(columns)


def _speaks_arrow(given: Any) -> bool:
    return not isinstance(given, np.ndarray | type) and (
        hasattr(given, "__arrow_c_stream__") or hasattr(given, "__arrow_c_array__")
    )


def _is_column(X: Any) -> bool:
    """Whether this is an array of pyarrow that holds no columns."""
    return type(X).__module__.startswith("pyarrow") and hasattr(X, "type") and not str(X.type).startswith("struct")


def _pyarrow(what: str) -> Any:
    try:
        import pyarrow
    except ImportError as error:
        raise ImportError(f"{what} is given through Arrow, which needs pyarrow: pip install pyarrow.") from error
    return pyarrow


def _imported(given: Any, what: str, make: Any) -> Any:
    try:
        return make(given)
    except (ValueError, TypeError, OSError) as error:
        name = type(given).__name__
        raise ValueError(
            f"{what}, a {name}, cannot be read as an Arrow table: {error}. A stream that was read already must be "
            "made anew, or read into a table first, as by pyarrow.table."
        ) from error


def _no_rows(given: Any, what: str) -> ValueError:
    return ValueError(
        f"{what}, a {type(given).__name__}, has no rows. If it is a stream that was read already, make it anew, or "
        "read it into a table first, as by pyarrow.table, and pass that."
    )


@dataclass(frozen=True)
class Encoding:
    """What rows of numbers stand for; arrays stand for themselves, where there is no table."""

    table: FrameSchema | None = None
    texts: StringTable = field(default_factory=StringTable)

    def decoded(
        self, points: FloatArray, trained: FloatArray | None = None, more: dict[float, str] | None = None
    ) -> Any:
        """Return rows as the kind that came in.

        ``trained`` are those that a model was solved on, which decide the categories that it knows; ``more`` are
        texts of these rows, if they are not among the rows learned.
        """
        if self.table is None:
            return points
        seen = None if trained is None else self.table.seen_in(trained)
        return self.table.decoded(points, self.texts if more is None else self.texts.beside(more), seen)

    def numbers(self, rows: Rows) -> Rows:
        """Return rows as numbers that can be compared."""
        return rows if self.table is None else replace(rows, points=self.table.as_numbers(rows.points))

    @property
    def are_numbers(self) -> bool:
        """Whether all columns hold numbers."""
        return self.table is None or self.table.is_numeric

    def has_texts(self, points: FloatArray) -> bool:
        """Whether the texts of all these rows are known."""
        return self.table is None or self.texts.holds(points[:, self.table.texts])

    def within(self, parts: list[FloatArray]) -> Encoding:
        """Return the same with the texts that these rows need, and no others."""
        if self.table is None:
            return self
        codes = [np.unique(points[:, self.table.texts]) for points in parts]
        return replace(self, texts=self.texts.within(np.concatenate([np.empty(0), *codes])))

    def merged(self, other: Encoding) -> Encoding:
        """Return what stands for the rows of both; ValueError if they are of different kinds."""
        if self.table is None or other.table is None:
            if (self.table is None) != (other.table is None):
                raise ValueError("Can only merge rows of the same kind: tables with tables, arrays with arrays.")
            return self
        columns = [_merged(one, two) for one, two in zip(self.table.columns, other.table.columns, strict=True)]
        if (self.table.container in LISTS) != (other.table.container in LISTS):
            raise ValueError("Can only merge rows of the same kind: tables with tables, texts with texts.")
        texts = self.texts.copy()
        texts.add(other.texts._known)
        return Encoding(self.table.with_columns(columns), texts)


def _merged(one: Any, two: Any) -> Any:
    if one.kind == two.kind or two.kind == "gaps":
        return one
    if one.kind == "gaps":
        return two
    raise ValueError(
        f"Can only merge columns of the same kind: {one.name!r} holds {one.kind} here and {two.kind} there."
    )


def first_gap(points: FloatArray) -> tuple[int, int] | None:
    """Return row and column of the first gap."""
    gaps = points == MISSING
    return divmod(int(gaps.argmax()), points.shape[1]) if gaps.any() else None
