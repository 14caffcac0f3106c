"""Arrow's PyCapsule protocol: tables, targets and weights of anything that exports them."""

from __future__ import annotations

from typing import Any

import numpy as np

from batch2online.tables.columns import container_of


def table(X: Any) -> Any:
    """Return what exports a table through Arrow's PyCapsule protocol as a table of pyarrow; anything else as it is.

    A stream is read to its end here, and may be one that can be read only once.

    >>> import pyarrow as pa
    >>> table(pa.table({"a": [1, 2, 3]}).to_reader()).num_rows
    3
    """
    module = type(X).__module__.partition(".")[0]
    is_column = module == "pyarrow" and hasattr(X, "type") and not str(X.type).startswith("struct")
    if not _exports_arrow(X) or module in ("pandas", "polars") or container_of(X) is not None or is_column:
        return X
    return _imported(X, "X", _pyarrow("X").table)


def column(values: Any, what: str) -> Any:
    """Return targets or weights that only Arrow's PyCapsule protocol gives as an array; anything else as it is.

    A table of one column is that column, one of several is an array of shape (n_samples, n_columns).
    """
    if hasattr(values, "__array__") or not _exports_arrow(values):
        return values
    pa = _pyarrow(what)
    found = _imported(values, what, pa.chunked_array if hasattr(values, "__arrow_c_stream__") else pa.array)
    if not pa.types.is_struct(found.type):
        return np.asarray(found)
    columns = [np.asarray(own) for own in found.flatten()]
    return columns[0] if len(columns) == 1 else np.column_stack(columns)


def _exports_arrow(given: Any) -> bool:
    return not isinstance(given, np.ndarray | type) and (
        hasattr(given, "__arrow_c_stream__") or hasattr(given, "__arrow_c_array__")
    )


def _pyarrow(what: str) -> Any:
    try:
        import pyarrow
    except ImportError as error:
        raise ImportError(f"{what} is given through Arrow, which needs pyarrow: pip install pyarrow.") from error
    return pyarrow


def _imported(given: Any, what: str, make: Any) -> Any:
    name = type(given).__name__
    try:
        found = make(given)
    except (ValueError, TypeError, OSError) as error:
        raise ValueError(
            f"{what}, a {name}, cannot be read as an Arrow table: {error}. A stream that was read already must be "
            "made again, or read into a table first, as by pyarrow.table."
        ) from error
    if not len(found):
        raise ValueError(
            f"{what}, a {name}, has no rows. If it is a stream that was read already, make it again, or read it into a "
            "table first, as by pyarrow.table, and pass that."
        )
    return found
