"""How an input is read."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from batch2online.tables.columns import ColumnType

WHITESPACE = "whitespace"


@dataclass(frozen=True, kw_only=True)
class FileFormat:
    """Format of a file; the defaults suit most files.

    Parameters
    ----------
    format : {"csv", "tsv", "jsonl", "parquet", "arrow"} or None
        None infers it from the first bytes and the name.
    header : bool
        Whether a delimited file starts with the names of its columns.
    sep : str or None
        Separator of values, or "whitespace"; None infers it from the first line.
    decimal : str
        Decimal separator.
    encoding : str or None
        None is UTF-8, or UTF-16 if the file starts with its byte order mark.
    comment : str or None
        Lines that start with it are skipped.
    skip_lines : int
        Number of lines to skip at the start.
    bad_lines : {"refuse", "drop"}
        How lines with too few or too many values are handled.
    na_values : tuple of str
        Additional strings to read as missing values.
    date_format : str or None
        Format of dates for ``strptime``, in addition to ISO 8601.
    query : str or None
        Query of a database.
    """

    format: str | None = None
    header: bool = True
    sep: str | None = None
    decimal: str = "."
    encoding: str | None = None
    comment: str | None = None
    skip_lines: int = 0
    bad_lines: str = "refuse"
    na_values: tuple[str, ...] = ()
    date_format: str | None = None
    query: str | None = None


@dataclass(frozen=True, kw_only=True)
class Layout(FileFormat):
    """Format of a file, and how long to wait for its rows.

    Parameters
    ----------
    kinds : mapping
        Types of columns that are known in advance.
    min_rows : int
        Rows of a live input to wait for before the types of columns are inferred.
    seconds : float
        Maximum time to buffer rows of a live input.
    follow : bool
        Whether to wait for further rows at the end of a file.
    stopped : callable
        Returns whether to stop waiting.
    """

    kinds: Mapping[str, ColumnType] = field(default_factory=dict)
    min_rows: int = 1
    seconds: float = 0.5
    follow: bool = False
    stopped: Callable[[], bool] = lambda: False
