"""The rows that an engine holds, wherever they are."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from batch2online._types import FloatArray
from batch2online.drift.order_monitor import Monitor
from batch2online.engine.online import Online
from batch2online.history import History
from batch2online.rows import Queue, Rows


def living_points(engine: Online) -> Iterator[FloatArray]:
    """Iterate over the points of all rows that an engine may ask for again."""
    for rows in _rows_in(engine, set()):
        if rows.points.shape[1] == engine.width:
            yield rows.points


def _rows_in(value: Any, seen: set[int]) -> Iterator[Rows]:
    """Look into every part that is of this package, so that none is forgotten when parts are added."""
    if id(value) in seen or isinstance(value, Monitor):  # it has seen numbers, and asks for no rows
        return
    seen.add(id(value))
    if isinstance(value, Rows):
        yield value
    elif isinstance(value, Queue):
        yield value.rows(0)
    elif isinstance(value, History):
        yield from value
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _rows_in(item, seen)
    elif type(value).__module__.startswith("batch2online.") and hasattr(value, "__dict__"):
        for item in vars(value).values():
            yield from _rows_in(item, seen)
