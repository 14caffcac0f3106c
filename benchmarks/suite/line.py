"""A line to be met: a figure, and what it must not exceed or must reach."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True)
class Line:
    """``at_most`` or ``at_least`` is the demand; without either the figure is only reported.

    A value that is a :class:`~benchmarks.suite.contest.Ratio` brings its spread.
    """

    group: str
    text: str
    value: float
    at_most: float | None = None
    at_least: float | None = None
    unit: str = "x"
    note: str = ""

    @property
    def is_met(self) -> bool | None:
        if self.at_most is not None:
            return bool(self.value <= self.at_most)
        return None if self.at_least is None else bool(self.value >= self.at_least)

    def record(self) -> dict[str, Any]:
        spread = {name: getattr(self.value, name, None) for name in ("low", "high")}
        return asdict(self) | {"value": float(self.value), **spread, "met": self.is_met}


def demand(record: dict[str, Any]) -> str:
    """``at most 3``, ``at least 4``, or nothing."""
    for word in ("at_most", "at_least"):
        if record[word] is not None:
            return f"{word.replace('_', ' ')} {record[word]:g}"
    return ""


def verdict(record: dict[str, Any]) -> str:
    return {True: "met", False: "not met", None: "reported"}[record["met"]]


def figure(record: dict[str, Any]) -> str:
    """The value to three digits, with its unit.

    >>> figure({"value": 2.3456, "unit": "x"})
    '2.35 x'
    """
    return f"{short(record['value'])} {record['unit']}".strip()


def spread(record: dict[str, Any]) -> str:
    """From the lowest to the highest of the turns.

    >>> spread({"low": 1.0, "high": 2.3456})
    '1 to 2.35'
    """
    return "" if record["low"] is None else f"{short(record['low'])} to {short(record['high'])}"


def short(value: float) -> str:
    """Three digits, or all those before the point.

    >>> short(0.01234), short(1234.5)
    ('0.0123', '1,234')
    """
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"
