"""How an input is read."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from batch2online.app.options import FileFormat
from batch2online.tables.columns import ColumnType

WHITESPACE = "whitespace"


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
