"""Batches of rows, which every reader yields, and the error that every reader raises."""

from __future__ import annotations

import lzma
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from batch2online.tables.columns import ColumnType


class Remedy(StrEnum):
    """Options of the command line that accept an input, each with its effect."""

    NO_HEADER = "--no-header reads the first line as data"
    SKIP_LINES = "--skip-lines N skips the first N lines"
    DROP_LINES = "--bad-lines drop drops such lines"
    DROP_ROWS = "--missing drop drops such rows"
    IMPUTE = "--missing mean imputes the mean"
    MORE_ROWS = "--lookahead N infers types and categories from more rows"
    EXCLUDE = "--exclude {column} ignores the column"
    ENCODE_STRINGS = "--categories encode accepts strings"
    ENCODE_DATES = "--dates number encodes them as days"
    ENCODE_OTHER = "--unknown other encodes such values as one category"
    MORE_CATEGORIES = "--max-levels {value} gives each its own column"
    NA_VALUE = "--na-values {value} reads it as missing"
    ENCODING = "--encoding cp1252 reads files of older Windows programs, latin-1 any bytes"
    FORMAT = "--format sets the format"
    DATE_FORMAT = "--date-format sets the format of dates"
    SEPARATOR = "--sep sets the separator"
    OTHER_TARGET = "--target selects another column"
    QUERY = "--query {query} selects rows"


class DataError(ValueError):
    """Invalid input; the message names the place.

    Attributes
    ----------
    remedies : tuple of Remedy
        Options that accept the input.
    about : (str, str)
        The column and the value that remedies refer to.
    """

    def __init__(self, message: str, *remedies: Remedy, about: tuple[str, str] = ("", "")) -> None:
        super().__init__(message)
        self.remedies, self.about = remedies, about


@dataclass(frozen=True)
class Batch:
    """Consecutive rows of a table.

    Attributes
    ----------
    table : pyarrow.Table
        The selected columns with the types of the reader.
    place : callable
        Returns the place of a row in its file, such as "table.csv, line 17".
    """

    table: pa.Table
    place: Callable[[int], str]

    def __len__(self) -> int:
        return int(self.table.num_rows)

    def __getitem__(self, rows: slice) -> Batch:
        start, stop, _ = rows.indices(len(self))
        return Batch(self.table.slice(start, stop - start), lambda row: self.place(start + row))


def row_places(name: str, start: int = 0) -> Callable[[int], str]:
    """Return the places of the rows of a batch without lines; rows count from 1."""
    return lambda row: f"{name}, row {start + row + 1:,}"


DATES = (ColumnType.TIME, ColumnType.ZONED)
"""Times without and with a time zone. The two never mix."""

SINGULAR = {
    ColumnType.NUMBER: "a number",
    ColumnType.STRING: "a string",
    ColumnType.TIME: "a date",
    ColumnType.ZONED: "a date with a time zone",
    ColumnType.DURATION: "a time of day or a duration",
}

ARROW_TYPES = {
    ColumnType.NUMBER: pa.float64(),
    ColumnType.STRING: pa.string(),
    ColumnType.TIME: pa.timestamp("us"),
    ColumnType.ZONED: pa.timestamp("us", "UTC"),
}
"""Types of columns of text and of Python values, by the type that is known in advance."""


def mismatch(column: str, wanted: ColumnType, found: ColumnType) -> str:
    """Return the error message of a column of an unexpected type."""
    advice = {ColumnType.TIME: ": remove the time zone", ColumnType.ZONED: ": add a time zone"}
    added = advice[wanted] if wanted in DATES and found in DATES else ""
    return f"column {column!r} must contain {wanted.plural}, it contains {found.plural}{added}."


def encoding_error(name: str, line: int, record: bytes, error: UnicodeDecodeError) -> DataError:
    """Return the error of a line that is not UTF-8."""
    byte = f"byte {record[error.start]:#04x} at position {error.start + 1}"
    return DataError(f"{name}, line {line:,}: {byte} is not valid UTF-8.", Remedy.ENCODING)


_DAY = r"^\d{4}-\d\d-\d\d([T ]\d\d(:\d\d(:\d\d(\.\d+)?)?)?)?"
_ISO = (rf"{_DAY}$", rf"{_DAY}(Z|[+-]\d\d(:?\d\d)?)$")


def check_zones(strings: pa.Array, column: str, place: Callable[[int], str]) -> None:
    """Raise an error if all values are dates, some with a time zone and others without."""
    naive, zoned = (np.asarray(pc.match_substring_regex(strings, pattern).fill_null(False)) for pattern in _ISO)
    if naive.any() and zoned.any() and (naive | zoned | np.asarray(strings.is_null())).all():
        row = int(max(naive.argmax(), zoned.argmax()))
        message = f"{strings[row].as_py()!r} differs from earlier dates: either all or none must have a time zone."
        raise DataError(f"{place(row)}, column {column!r}: {message}", Remedy.EXCLUDE, about=(column, ""))


LIBRARY_ERRORS = (pa.ArrowException, OSError, EOFError, UnicodeError, MemoryError, zlib.error, lzma.LZMAError)
"""Errors of reading damaged data; a damaged size may need any memory."""


@contextmanager
def explained(
    message: str | Callable[[], str], *remedies: Remedy, errors: tuple[type[Exception], ...] = LIBRARY_ERRORS
) -> Iterator[None]:
    """Raise errors of a library as a DataError: the message, and the first line of the error."""
    try:
        yield
    except (DataError, ImportError):
        raise
    except errors as error:
        text = message if isinstance(message, str) else message()
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error).strip()
        shown = reason.splitlines()[0].rstrip(".") if reason else type(error).__name__
        raise DataError(f"{text}: {shown}.", *remedies) from error
