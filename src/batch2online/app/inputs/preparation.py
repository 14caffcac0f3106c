"""Columns of a batch as rows of numbers: scaling, categories, parts of dates, labels, missing values."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import MISSING, dataclass, field, fields, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from batch2online._types import BoolArray, FloatArray
from batch2online.app.inputs.batch import Batch, DataError, Remedy
from batch2online.frames.columns import ColumnType
from batch2online.schema import conforms
from batch2online.validation import LARGEST


def _month(days: FloatArray) -> FloatArray:
    known = np.isfinite(days)
    dates = np.where(known, days, 0.0).astype("datetime64[D]")
    return np.where(known, dates.astype("datetime64[M]").astype(np.int64) % 12 + 1, np.nan)


PARTS: dict[str, Callable[[FloatArray], FloatArray]] = {
    "hour": lambda days: days % 1 * 24,
    "weekday": lambda days: (np.floor(days) + 3) % 7 + 1,  # the first of January 1970 was a Thursday
    "month": _month,
}
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


_WHOLE = 2**53
"""Numbers beyond it cannot all be told apart as float64."""


def labels_of(batch: Batch, column: str) -> tuple[Any, BoolArray]:
    """Return the labels of a batch, and which of them are missing."""
    given = batch.table.column(column)
    values = np.asarray(given.to_numpy())
    if values.dtype.kind == "O":
        missing = np.asarray(given.is_null().to_numpy(), dtype=np.bool_)
        return np.where(missing, "", values).astype(str), missing
    missing = ~(np.abs(values) <= LARGEST)
    _check_whole(batch, column, np.where(missing, 0.0, values))
    return np.where(missing, 0.0, values).astype(np.int64), missing


def _check_whole(batch: Batch, column: str, values: Any) -> None:
    wrong = (values % 1 != 0) | (np.abs(values) > _WHOLE)
    if wrong.any():
        row = int(wrong.argmax())
        raise DataError(
            f"{batch.place(row)}, column {column!r}: {values[row]:g} is no label: those are text or whole numbers.",
            Remedy.OTHER_TARGET,
        )


Prepared = tuple[FloatArray, Any, BoolArray]
"""Inputs, targets (numbers, labels or None), and which rows of the batch they are."""


def silent(_column: str, _note: str) -> None:
    """Tell nobody."""


@dataclass(frozen=True)
class Preparation:
    """How columns become inputs and a target.

    Attributes
    ----------
    numbers : list of str
        Inputs that are numbers, taken as they are, or standardised. Dates are numbers of days, times of hours.
    levels : dict
        For each column of text, its levels.
    drop_first : bool
        Whether the first level gets no column of zeros and ones: with an intercept it is told by the others.
    target : str or None
    missing : {"refuse", "drop", "mean", "keep"}
    means, scales : lists of float
        For each of ``numbers``: what fills a gap or is subtracted, and what it is divided by.
    standardised : bool
    known_rows : int
        How many rows these were decided on.
    unknown : {"other", "ignore", "refuse"}
        What becomes of a text that is none of the levels.
    others : list of str
        Columns of text that have an input for all further levels together.
    crowded : list of str
        Columns of text in which only the commonest levels were taken.
    kinds : dict
        What columns hold that are neither plain numbers nor text.
    derived : dict
        For inputs that are a part of a date: the column, and the part.
    units : dict
        Units of columns, where they are known.
    has_labels : bool
        Whether the target holds labels, which are taken as they are.
    """

    numbers: list[str]
    levels: dict[str, list[str]]
    drop_first: bool
    target: str | None
    missing: str
    means: list[float]
    scales: list[float]
    standardised: bool
    known_rows: int
    unknown: str = "refuse"
    others: list[str] = field(default_factory=list)
    crowded: list[str] = field(default_factory=list)
    kinds: dict[str, str] = field(default_factory=dict)
    derived: dict[str, list[str]] = field(default_factory=dict)
    units: dict[str, str] = field(default_factory=dict)
    has_labels: bool = False

    @classmethod
    def from_dict(cls, content: Any) -> Preparation:
        """Return a preparation from its fields as JSON gives them back; a DataError where they do not fit together."""
        names = {field.name for field in fields(cls)}
        needed = {field.name for field in fields(cls) if field.default is field.default_factory is MISSING}
        if not isinstance(content, dict) or not needed <= content.keys() <= names:
            raise DataError(f"Its preparation must have the fields {', '.join(sorted(names))}.")
        found = cls(**content)
        wrong = [name for name, is_right in found._checks().items() if not is_right]
        if wrong:
            raise DataError(f"Its preparation has an unusable value of {wrong[0]!r}.")
        return found

    def _checks(self) -> dict[str, bool]:
        """Whether each field is of its type; fields that others lean on come first."""
        is_list = conforms(self.numbers, list[str])
        count = len(self.numbers) if is_list else -1
        return {
            "numbers": is_list,
            "levels": _is_dict(self.levels, list[str]),
            "drop_first": isinstance(self.drop_first, bool),
            "target": conforms(self.target, str | None),
            "missing": self.missing in ("refuse", "drop", "mean", "keep"),
            "means": conforms(self.means, list[float]) and len(self.means) == count and _are_finite(self.means),
            "scales": conforms(self.scales, list[float]) and len(self.scales) == count and _are_finite(self.scales),
            "standardised": isinstance(self.standardised, bool),
            "known_rows": isinstance(self.known_rows, int),
            "unknown": self.unknown in ("other", "ignore", "refuse"),
            "others": conforms(self.others, list[str])
            and _is_dict(self.levels, list)
            and set(self.others) <= set(self.levels),
            "crowded": conforms(self.crowded, list[str]),
            "kinds": _is_dict(self.kinds, str) and set(self.kinds.values()) <= set(ColumnType),
            "derived": _is_dict(self.derived, list[str])
            and all((len(pair) == 2 and pair[1] in PARTS) for pair in self.derived.values()),
            "units": _is_dict(self.units, str),
            "has_labels": isinstance(self.has_labels, bool),
        }

    @property
    def columns(self) -> list[str]:
        """The columns to read."""
        sources = dict.fromkeys(self.derived[name][0] if name in self.derived else name for name in self.numbers)
        return [*sources, *self.levels, *([] if self.target is None else [self.target])]

    @property
    def column_kinds(self) -> dict[str, ColumnType]:
        """What the columns hold."""
        plain = {column: ColumnType.STRING if column in self.levels else ColumnType.NUMBER for column in self.columns}
        return plain | {column: ColumnType(kind) for column, kind in self.kinds.items() if column in plain}

    @property
    def names(self) -> list[str]:
        """Names of the model's inputs."""
        suffix = "" if not self.standardised else " (standardised)" if any(self.means) else " (scaled)"
        return [
            *(name + suffix for name in self.numbers),
            *(f"{c}={level}" for c in self.levels for level in self._own(c)),
        ]

    def _own(self, column: str) -> list[str]:
        """Levels of a column that have an input, further ones last."""
        levels = self.levels[column]
        further = "(other)" if "other" in levels else "other"
        return [*levels[self.drop_first :], *([further] if column in self.others else [])]

    def for_prediction(self) -> Preparation:
        """Return the same for rows whose target is not known, none of which may be an error for what it lacks."""
        return replace(self, target=None, missing=self.missing if self.missing in ("mean", "keep") else "drop")

    def apply(self, batch: Batch, say: Callable[[str, str], None] = silent) -> Prepared:
        """Return inputs, targets, and which rows of the batch they are; say once a column what is new in it."""
        numbers = _filled(self._inputs(batch.table), len(self.numbers), len(batch))
        targets, without = self._targets(batch)
        kept = self._complete(batch, numbers, without)
        if self.missing == "mean" and not all_fit(numbers):
            numbers = np.where(np.abs(numbers) <= LARGEST, numbers, self.means)
        if self.standardised:
            with np.errstate(invalid="ignore"):
                numbers = (numbers - self.means) / self.scales
        parts = [numbers, *(self._encoded(batch, column, kept, say) for column in self.levels)]
        rows = np.concatenate(parts, axis=1) if len(parts) > 1 else numbers
        if not kept.all():
            rows, targets = np.ascontiguousarray(rows[kept]), None if targets is None else targets[kept]
        return rows, targets, kept

    def _targets(self, batch: Batch) -> tuple[Any, BoolArray]:
        """Return targets, and which of them are missing."""
        if self.target is None:
            return None, np.zeros(len(batch), dtype=np.bool_)
        if self.has_labels:
            return labels_of(batch, self.target)
        values = values_of(batch.table, self.target)
        return values, np.zeros(len(batch), dtype=np.bool_) if all_fit(values) else ~(np.abs(values) <= LARGEST)

    def _inputs(self, table: Any) -> Iterator[FloatArray]:
        by_name = dict(zip(table.column_names, table.columns, strict=True))  # a table looks names up more slowly
        for name in self.numbers:
            if name in self.derived:
                column, part = self.derived[name]
                yield part_of(_array(by_name[column]), part)
            else:
                yield _array(by_name[name])

    def _complete(self, batch: Batch, numbers: FloatArray, without_target: BoolArray) -> BoolArray:
        """Which rows stay. A gap that nothing fills is an error unless such rows are to be dropped."""
        gaps: dict[str, BoolArray] = {}
        if self.target is not None:
            gaps[self.target] = without_target
        if self.missing not in ("mean", "keep"):
            if not all_fit(numbers):
                gaps |= {name: ~(np.abs(numbers[:, j]) <= LARGEST) for j, name in enumerate(self.numbers)}
            gaps |= {column: _nulls(batch.table, column) for column in self.levels}
        missing: BoolArray = np.any([np.zeros(len(batch), dtype=np.bool_), *gaps.values()], axis=0)
        if self.missing == "refuse" and missing.any():
            row = int(missing.argmax())
            raise self._gap(batch, row, next(name for name, gap in gaps.items() if gap[row]))
        return np.asarray(~missing)

    def _gap(self, batch: Batch, row: int, name: str) -> DataError:
        column = self.derived[name][0] if name in self.derived else name
        value = None if self.column_kinds[column] is ColumnType.STRING else values_of(batch.table, column)[row]
        what = "the value is missing" if value is None or np.isnan(value) else f"{value} is not a finite number"
        remedies = (Remedy.DROP_ROWS,) if name == self.target else (Remedy.DROP_ROWS, Remedy.FILL_GAPS)
        return DataError(f"{batch.place(row)}, column {column!r}: {what}.", *remedies, about=(column, ""))

    def _encoded(self, batch: Batch, column: str, kept: BoolArray, say: Callable[[str, str], None]) -> FloatArray:
        levels = self.levels[column]
        values = pc.index_in(batch.table.column(column), pa.array(levels, pa.string()))
        codes = np.asarray(values.fill_null(-1).to_numpy(), dtype=np.int64)
        unknown = kept & (codes < 0)
        if unknown.any():
            self._meet_unknown(batch, column, unknown & ~_nulls(batch.table, column), say)
        own = np.arange(self.drop_first, len(levels))
        encoded = np.asarray(codes[:, None] == own, dtype=np.float64)
        return encoded if column not in self.others else np.column_stack([encoded, unknown.astype(np.float64)])

    def _meet_unknown(self, batch: Batch, column: str, new: BoolArray, say: Callable[[str, str], None]) -> None:
        """Refuse a level that is new, or say what becomes of it."""
        if not new.any() or column in self.crowded:
            return
        row = int(new.argmax())
        text = batch.table.column(column)[row].as_py()
        place = f"{batch.place(row)}, column {column!r}: {text!r} did not occur in the first {self.known_rows:,} rows"
        if self.unknown == "refuse":
            remedies = (Remedy.OTHER_LEVEL, Remedy.LOOK_FURTHER, Remedy.LEAVE_OUT)
            raise DataError(f"{place}.", *remedies, about=(column, text))
        becomes = "counts as 'other'" if column in self.others else "counts as none of the known levels"
        say(column, f"{place}; it {becomes}, as further new texts will")


def _is_dict(values: Any, kind: Any) -> bool:
    return isinstance(values, dict) and all(
        isinstance(key, str) and conforms(value, kind) for key, value in values.items()
    )


def _are_finite(values: list[float]) -> bool:
    return all(abs(value) <= LARGEST for value in values)  # false for NaN


def _array(column: Any) -> FloatArray:
    return np.asarray(column.to_numpy(), dtype=np.float64)  # Arrow's gaps become NaN


def values_of(table: Any, column: str) -> FloatArray:
    """Return a column of numbers, NaN where a value is missing."""
    return _array(table.column(column))


def _filled(columns: Iterator[FloatArray], width: int, n: int) -> FloatArray:
    rows = np.empty((n, width))
    for j, column in enumerate(columns):
        rows[:, j] = column
    return rows


def _nulls(table: Any, column: str) -> BoolArray:
    return np.asarray(table.column(column).is_null().to_numpy(), dtype=np.bool_)


def all_fit(values: FloatArray) -> bool:
    """Whether all are numbers of a magnitude that can be squared."""
    return values.size == 0 or bool(values.min() >= -LARGEST and values.max() <= LARGEST)  # false for NaN
