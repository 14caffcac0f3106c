"""Parts of a date, given as days since 1970."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from batch2online._types import FloatArray


def _weekday(days: FloatArray) -> FloatArray:
    return (np.floor(days) + 3) % 7 + 1  # the first of January 1970 was a Thursday


def _hour(days: FloatArray) -> FloatArray:
    return days % 1 * 24


def _month(days: FloatArray) -> FloatArray:
    known = np.isfinite(days)
    dates = np.where(known, days, 0.0).astype("datetime64[D]")
    return np.where(known, dates.astype("datetime64[M]").astype(np.int64) % 12 + 1, np.nan)


PARTS: dict[str, Callable[[FloatArray], FloatArray]] = {"hour": _hour, "weekday": _weekday, "month": _month}
_UNITS = {"hour": "hours", "weekday": "1 is Monday", "month": "1 is January"}


def unit_of(part: str, is_zoned: bool) -> str:
    """Return the unit of a part; those of dates with a zone are parts of the date in UTC."""
    return f"{_UNITS[part]}, UTC" if is_zoned else _UNITS[part]


def part_of(days: FloatArray, part: str) -> FloatArray:
    """Return hour, weekday or month of dates; NaN where a date is missing.

    >>> noon = np.array([19844.5])  # 1 May 2024, a Wednesday
    >>> [float(part_of(noon, part)[0]) for part in PARTS]
    [12.0, 3.0, 5.0]
    """
    return PARTS[part](days)
