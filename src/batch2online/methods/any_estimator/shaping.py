"""Rows in a shape that can be looked at, and errors that can be read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np

_LONGEST = 1_000
"""Characters of an error: a cell or a name that it shows may be huge."""


@contextmanager
def shortened() -> Iterator[None]:
    """Cut the middle out of a long error; a number that no double holds is one as well."""
    try:
        yield
    except OverflowError as error:
        raise ValueError(f"X holds a number too large for a double: {error}.") from error
    except (ValueError, TypeError) as error:
        said = str(error)
        if len(said) <= _LONGEST:
            raise
        raise type(error)(f"{said[: _LONGEST // 2]} ... {said[-_LONGEST // 4 :]}") from None


def as_table(X: Any, container: str) -> Any:
    """Return a table that says how wide it is."""
    if container == "array" and not isinstance(X, np.ndarray):
        return _rectangular(X)
    return X


def _rectangular(X: Any) -> Any:
    widths = {len(row) for row in X}
    if len(widths) > 1:
        raise ValueError(f"Rows must be equally long, got {sorted(widths)[:5]} values.")
    values = np.empty((len(X), widths.pop()), dtype=object)
    values[:] = X
    return values


def first_row(x: Any) -> Any:
    """Return a single row that is no list of numbers as rows: a text as a list, a mapping as a data frame."""
    if isinstance(x, str):
        return [x]
    if isinstance(x, np.ndarray) and x.dtype.kind in "biuf":
        return None
    values = list(x.values()) if isinstance(x, Mapping) else list(x)
    if all(isinstance(value, int | float | np.number) for value in values):
        return None
    if not isinstance(x, Mapping):
        return _rectangular([values])
    import pandas as pd

    return pd.DataFrame({name: pd.Series([value], dtype=object).infer_objects() for name, value in x.items()})
