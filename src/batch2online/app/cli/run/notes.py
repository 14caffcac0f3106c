"""Notes and errors of columns, with options of the command in the place of those of ``Columns``."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from batch2online.app.inputs import DataError, Remedy
from batch2online.tables.codec import ColumnsWarning
from batch2online.tables.columns import ColumnError

_OPTION = re.compile(r"Columns\((\w+)=(['\[]*)([\w.]*)[^)]*\)")


@contextmanager
def noting(note: Callable[[str], None]) -> Iterator[None]:
    """Hand what an estimator says of columns to a function."""
    with warnings.catch_warnings():
        warnings.simplefilter("always", ColumnsWarning)
        others = warnings.showwarning

        def show(message: Warning | str, category: type[Warning], *rest: Any) -> None:
            if issubclass(category, ColumnsWarning):
                note(str(message).removesuffix("."))
            else:
                others(message, category, *rest)

        warnings.showwarning = show  # type: ignore[assignment]  # called by position
        yield


def placed(error: ColumnError, place: Callable[[int], str]) -> DataError:
    """Return the error of a cell with its place in the file."""
    remedies = (Remedy.DROP_ROWS, Remedy.IMPUTE) if "infinity" in error.why else (Remedy.EXCLUDE,)
    message = in_options(f"{place(error.row)}, column {error.name!r}, {error.why}")
    return DataError(message, *remedies, about=(str(error.name), ""))


def in_options(text: str) -> str:
    """Return a note or an error with options of the command in the place of those of ``Columns``.

    >>> in_options("Columns(missing='mean') leaves it out, Columns(max_levels=...) sets how many")
    '--missing mean leaves it out, --max-levels N sets how many'
    """
    return _OPTION.sub(_as_option, text)


def _as_option(found: re.Match[str]) -> str:
    name, value = found[1], found[3]
    return "--columns" if name == "keep" else f"--{name.replace('_', '-')} {'N' if value == '...' else value}"
