"""One column as features: its value and parts of it, or one for each level, others and missing values."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from batch2online._types import FloatArray
from batch2online.schema import require, storable
from batch2online.tables.columns import DURATION, NUMBER, STRING, TIME, ZONED, Column, ColumnError, short
from batch2online.tables.options import Columns

UNITS = {TIME: 86_400e6, ZONED: 86_400e6, DURATION: 3_600e6}
"""Microseconds of a day for times, of an hour for durations."""

PARTS: dict[str, Callable[[FloatArray], Any]] = {
    "hour": lambda days: days % 1 * 24,
    "weekday": lambda days: (np.floor(days) + 3) % 7 + 1,  # 1 January 1970 was a Thursday
    "month": lambda days: np.floor(days).astype("M8[D]").astype("M8[M]").astype(np.int64) % 12 + 1,
}
"""Parts of dates as functions of days since 1970."""


class ValuePlan(NamedTuple):
    """How single values of a column become numbers: strings by level, others, a missing value; None where refused."""

    place: int
    is_number: bool
    without_gap: list[float]
    strings: dict[str, list[float]]
    other: list[float] | None
    missing: list[float] | None


@storable
@dataclass(frozen=True)
class Coded:
    """A column and the numbers that it becomes: its value and parts of it, or one for each level; others; missing."""

    name: str
    kind: str
    means: tuple[float, ...] = ()
    scales: tuple[float, ...] = ()
    parts: tuple[str, ...] = ()
    levels: tuple[str, ...] = ()
    drop_first: bool = False
    has_other: bool = False
    has_missing: bool = False
    is_truncated: bool = False

    def validate(self) -> None:
        require(set(self.parts) <= PARTS.keys(), f"parts: found {self.parts[:3]}")
        sizes = {0} if self.kind == STRING else {1 + len(self.parts)}
        require({len(self.means)} == sizes, f"means: found {len(self.means)}")
        require(len(self.scales) in (0, len(self.means)), f"scales: found {len(self.scales)}")
        require(
            all(abs(value) < np.inf for value in (*self.means, *self.scales)), "means: found one that is not finite"
        )

    @property
    def own_names(self) -> list[str]:
        """Names of its numbers."""
        if self.kind == STRING:
            other = "(other)" if "other" in self.levels else "other"
            words = [*self.levels[self.drop_first :], *([other] if self.has_other else [])]
            found = [f"{self.name}={word}" for word in words]
        else:
            suffix = " (standardised)" if self.scales else ""
            found = [self.name + suffix, *(f"{self.name}: {part}{suffix}" for part in self.parts)]
        return [*found, *([f"{self.name} is missing"] if self.has_missing else [])]

    def values(self, column: Column) -> list[FloatArray]:
        """Return its value and the parts of it, NaN where it is missing."""
        own = column.values / UNITS[self.kind] if self.kind in UNITS else column.values
        if not self.parts:
            return [own]
        known = np.where(column.missing, 0.0, own)
        return [own, *(np.where(column.missing, np.nan, PARTS[part](known)) for part in self.parts)]

    def encoded(self, column: Column, options: Columns) -> Iterator[Any]:
        """Yield the columns of numbers."""
        if column.has_gaps and options.missing == "refuse":
            advice = "Columns(missing='indicator') takes the mean and says so in a column of its own."
            raise ColumnError(int(column.missing.argmax()), f"holds a missing value: {advice}", self.name)
        if self.kind == STRING:
            yield from self._one_hot(column, options)
        else:
            for place, values in enumerate(self.values(column)):
                if column.has_gaps and options.missing != "keep":
                    values = np.where(column.missing, self.means[place], values)
                yield (values - self.means[place]) / self.scales[place] if self.scales else values
        if self.has_missing:
            yield column.missing

    def _one_hot(self, column: Column, options: Columns) -> Iterator[Any]:
        known = {level: place for place, level in enumerate(self.levels)}
        if options.unknown == "refuse" and (unknown := [w for w in column.words if w not in known]):
            row = int((column.values == column.words.index(unknown[0])).argmax())
            why = f"holds {short(unknown[0])}, which the first rows did not: Columns(unknown='other') takes it."
            raise ColumnError(row, why, self.name)
        at = np.array([*(known.get(word, -1) for word in column.words), -2 if self.has_missing else -1])
        found = at[column.places]
        for place in range(self.drop_first, len(self.levels)):
            yield found == place
        if self.has_other:
            yield found == -1

    def value_plan(self, place: int, options: Columns) -> ValuePlan:
        """Return how single values become numbers, given the place of the column in a row."""
        filling = replace(options, missing="mean", unknown="ignore")

        def numbers(kind: str, values: FloatArray, words: Sequence[str] = ()) -> list[list[float]]:
            column = Column(kind, values, tuple(words))
            found = np.array([*self.encoded(column, filling)], dtype=np.float64).reshape(-1, len(values))
            return found.T.tolist()

        is_string = self.kind == STRING
        known = numbers(STRING, np.arange(float(len(self.levels))), self.levels) if is_string else []
        other = numbers(STRING, np.zeros(1), ["\0"])[0] if is_string and options.unknown != "refuse" else None
        takes_gaps = options.missing != "refuse" and (is_string or options.missing != "keep")
        return ValuePlan(
            place=place,
            is_number=self.kind == NUMBER and not self.scales,
            without_gap=[0.0] * self.has_missing,
            strings=dict(zip(self.levels, known, strict=True)),
            other=other,
            missing=numbers(self.kind, np.array([np.nan]))[0] if takes_gaps else None,
        )
