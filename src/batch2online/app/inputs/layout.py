"""How an input is to be read, as far as it does not say so itself."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from batch2online.app.inputs.byte_stream import SECONDS
from batch2online.frames.columns import ColumnType

WHITESPACE = "whitespace"


@dataclass(frozen=True)
class Layout:
    """What a caller knows of an input. The defaults suit most files.

    Attributes
    ----------
    format : str or None
        One of csv, tsv, jsonl, parquet, arrow; None looks at the first bytes and the name.
    header : bool
        Whether delimited text starts with the names of its columns.
    sep : str or None
        What stands between two values, or "whitespace"; None takes what the first line has most of.
    decimal : str
        What stands before the fraction of a number.
    encoding : str or None
        Of text; None is UTF-8, or UTF-16 if the file begins with its mark.
    comment : str or None
        Lines that begin with it are passed over.
    skip_lines : int
        Lines to pass over at the beginning.
    bad_lines : {"refuse", "drop"}
        Lines with too few or too many values.
    na_values : tuple of str
        Further texts that stand for a missing value.
    date_format : str or None
        How dates are written, as ``strptime`` has it, besides ISO 8601.
    kinds : mapping
        What columns hold, where that is known already.
    query : str or None
        What to ask a database.
    least_rows : int
        Rows of a live input to wait for before what columns hold is decided.
    seconds : float
        The longest that rows of a live input wait for further ones.
    is_live : bool
        Whether rows come when they come.
    follow : bool
        Whether to wait for more at the end of a file.
    is_over : callable
        Whether to wait no longer.
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
    kinds: Mapping[str, ColumnType] = field(default_factory=dict)
    query: str | None = None
    least_rows: int = 1
    seconds: float = SECONDS
    is_live: bool = False
    follow: bool = False
    is_over: Callable[[], bool] = lambda: False
