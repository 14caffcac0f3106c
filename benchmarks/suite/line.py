"""A line to be met: a figure, and what it must not exceed or must reach."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True)
class Line:
    """``at_most`` or ``at_least`` is the demand; without either the figure is only reported."""

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
        return asdict(self) | {"value": float(self.value), "met": self.is_met}


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
    value = record["value"]
    shown = f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"
    return f"{shown} {record['unit']}".strip()
