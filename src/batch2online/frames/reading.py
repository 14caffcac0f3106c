"""Whatever rows come in, as rows of numbers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from batch2online._types import FloatArray
from batch2online.frames import cells, of_arrow, of_pandas
from batch2online.frames.cells import BadCellError, Cells
from batch2online.frames.objects import of_dictionaries, of_objects
from batch2online.frames.table import FRAMES, LISTS, Column, TableKind

Read = tuple[FloatArray, TableKind, dict[float, str]]
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


def read(X: Any, table: TableKind | None = None, container: str | None = None) -> Read:
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
    new = TableKind(container, tuple(known)) if table is None else table.with_columns(known)
    return np.ascontiguousarray(points), new, texts


def read_one(x: Any, table: TableKind) -> Read:
    """Return one row as numbers: its values in the order of the columns, a text, or a dictionary."""
    if table.container in LISTS:
        return read([x], table, "dicts" if table.container == "dicts" else "list")
    values = x.tolist() if isinstance(x, np.ndarray) else list(x)
    if len(values) != len(table.columns):
        raise ValueError(f"x must have {len(table.columns)} values, got {len(values)}.")
    row = np.empty((1, len(values)), dtype=object)
    row[0, :] = values
    return read(row, table, "array")


def _read_column(given: Callable[[], Cells], name: Any, before: Column | None) -> tuple[Column, Cells]:
    place = f", column {name!r}," if name is not None else ""
    try:
        made = given()
    except BadCellError as error:
        raise ValueError(f"Row {error.row}{place} {error.why}") from error
    if before is None:
        return Column(name, made.kind, made.form, made.levels), made
    try:
        column, codes = before.joined(made)
    except ValueError as error:
        first = int((made.codes != cells.GAP).argmax())
        raise ValueError(f"Row {first}{place} {error}") from error
    return column, Cells(column.kind, column.form, codes, made.texts)


def _columns_of(X: Any, container: str) -> tuple[Sequence[Any], list[Callable[[], Cells]]]:
    """Return the names of columns, and what makes cells of each."""
    if container == "pandas":
        _check_names(list(X.columns))
        return list(X.columns), [_later(of_pandas.of_series, X.iloc[:, place]) for place in range(X.shape[1])]
    if container == "polars":
        return X.columns, [_later(of_arrow.of_polars, column) for column in X.get_columns()]
    if container == "arrow":
        _check_names(X.schema.names)
        return X.schema.names, [_later(of_arrow.of_array, column) for column in X.columns]
    if container == "array":
        values = _as_table(X)
        make = of_objects if values.dtype.kind == "O" else _of_numbers
        return list(range(values.shape[1])), [_later(make, values[:, place]) for place in range(values.shape[1])]
    return _list_of(X, container)


def _list_of(X: Any, container: str) -> tuple[Sequence[Any], list[Callable[[], Cells]]]:
    if container == "dicts":
        return [None], [_later(of_dictionaries, X)]
    if container == "pandas series":
        return [X.name], [_later(_of_texts, of_pandas.of_series, X)]
    if container == "polars series":
        return [X.name], [_later(_of_texts, of_arrow.of_polars, X)]
    return [None], [_later(_of_texts, of_objects, X)]


def _of_texts(make: Callable[[Any], Cells], values: Any) -> Cells:
    """Return texts as cells; a list of rows that are one text each has no gaps and nothing else."""
    made = make(values)
    if made.kind != cells.TEXT:
        raise BadCellError(0, f"holds values of the kind {made.kind}: rows that are no tables are texts.")
    gaps = made.codes == cells.GAP
    if gaps.any():
        raise BadCellError(int(gaps.argmax()), "holds no text: put an empty text in the place of gaps.")
    return made


def _later(make: Callable[..., Cells], *given: Any) -> Callable[[], Cells]:
    return lambda: make(*given)


def _check_names(names: list[Any]) -> None:
    bad = [name for name in names if not isinstance(name, str | int) or isinstance(name, bool)]
    if bad:
        raise TypeError(f"The names of columns must be texts or whole numbers, got {bad[0]!r}.")
    repeated = [name for name in names if names.count(name) > 1]
    if repeated:
        raise ValueError(f"Two columns are named {repeated[0]!r}: the names of columns must differ.")


def _as_table(X: Any) -> Any:
    if not isinstance(X, np.ndarray):
        widths = {len(row) for row in X}
        if len(widths) > 1:
            raise ValueError(f"Rows must be equally long, got {sorted(widths)[:5]} values.")
        values = np.empty((len(X), widths.pop()), dtype=object)
        values[:] = X
        X = values
    return X.astype(object) if X.dtype.kind in "UT" else X


def _of_numbers(values: Any) -> Cells:
    return Cells(cells.NUMBER, "float64", cells.of_floats(np.asarray(values, dtype=np.float64)))


__all__ = ["FRAMES", "container_of", "read"]
