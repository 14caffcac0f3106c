"""Tables and columns that speak Arrow's PyCapsule protocol: DuckDB relations, readers of record batches, and others."""

from __future__ import annotations

from typing import Any

import numpy as np

from batch2online.frames.reading import container_of


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
