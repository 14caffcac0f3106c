"""Columns of a batch as rows of numbers: scaling, one-hot encoding, parts of dates, labels, missing values."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import MISSING, dataclass, field, fields, replace
from typing import Any, get_args, get_origin, get_type_hints

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
    "weekday": lambda days: (np.floor(days) + 3) % 7 + 1,  # 1 January 1970 was a Thursday
    "month": _month,
}
"""Parts of dates as functions of days since 1970; NaN if a date is missing."""

PART_UNITS = {"hour": "hours", "weekday": "1 is Monday", "month": "1 is January"}

_MAX_INTEGER = 2**53
"""Larger integers are not all distinct as float64."""

Prepared = tuple[FloatArray, Any, BoolArray]
"""Features, targets (numbers, labels or None), and a mask of the rows of the batch that they are."""


@dataclass(frozen=True)
class Preparation:
    """How columns become features and a target.

    Attributes
    ----------
    numbers : list of str
        Numeric features, optionally standardized. Dates are numbers of days, times of day numbers of hours.
    categories : dict
        Categories of each string column.
    drop_first : bool
        Whether the first category has no one-hot column; with an intercept it is redundant.
    target : str or None
    missing : {"refuse", "drop", "mean", "keep"}
    means, scales : lists of float
        Means and standard deviations of ``numbers``, for imputation and scaling.
    standardised : bool
    known_rows : int
        Number of rows that the preparation was inferred from.
    handle_unknown : {"other", "ignore", "refuse"}
        How unknown categories are encoded.
    has_other : list of str
        String columns with a one-hot column for all other categories.
    truncated : list of str
        String columns with more categories than one-hot columns.
    kinds : dict
        Types of columns other than numbers and string features.
    derived : dict
        Column and part of each feature that is a part of a date.
    units : dict
        Units of columns, if they are known.
    has_labels : bool
        Whether the target contains class labels.
    """

    numbers: list[str]
    categories: dict[str, list[str]]
    drop_first: bool
    target: str | None
    missing: str
    means: list[float]
    scales: list[float]
    standardised: bool
    known_rows: int
    handle_unknown: str = "refuse"
    has_other: list[str] = field(default_factory=list)
    truncated: list[str] = field(default_factory=list)
    kinds: dict[str, str] = field(default_factory=dict)
    derived: dict[str, list[str]] = field(default_factory=dict)
    units: dict[str, str] = field(default_factory=dict)
    has_labels: bool = False

    @classmethod
    def from_dict(cls, content: Any) -> Preparation:
        """Return a preparation from its JSON fields; a DataError if they are invalid."""
        types = get_type_hints(cls)
        needed = {field.name for field in fields(cls) if field.default is field.default_factory is MISSING}
        if not isinstance(content, dict) or not needed <= content.keys() <= types.keys():
            raise DataError(f"Its preparation must have the fields {', '.join(sorted(types))}.")
        found = cls(**content)
        wrong = next((name for name, kind in types.items() if not _has_type(getattr(found, name), kind)), None)
        wrong = wrong or next((name for name, is_valid in found._constraints().items() if not is_valid), None)
        if wrong is not None:
            raise DataError(f"Its preparation has an invalid value of {wrong!r}.")
        return found

    def _constraints(self) -> dict[str, bool]:
        """Return whether each field is valid, given that all fields have their types."""
        sizes = {"means": self.means, "scales": self.scales}
        return {
            "missing": self.missing in ("refuse", "drop", "mean", "keep"),
            **{
                name: len(values) == len(self.numbers) and all(abs(value) <= LARGEST for value in values)
                for name, values in sizes.items()
            },
            "handle_unknown": self.handle_unknown in ("other", "ignore", "refuse"),
            "has_other": set(self.has_other) <= set(self.categories),
            "kinds": set(self.kinds.values()) <= set(ColumnType),
            "derived": all(len(pair) == 2 and pair[1] in PARTS for pair in self.derived.values()),
        }

    @property
    def columns(self) -> list[str]:
        """The columns to read."""
        sources = dict.fromkeys(self.derived[name][0] if name in self.derived else name for name in self.numbers)
        return [*sources, *self.categories, *([] if self.target is None else [self.target])]

    @property
    def column_kinds(self) -> dict[str, ColumnType]:
        """The types of the columns."""
        known = {column: ColumnType(kind) for column, kind in self.kinds.items()}
        strings = dict.fromkeys(self.categories, ColumnType.STRING)
        return {column: (strings | known).get(column, ColumnType.NUMBER) for column in self.columns}

    @property
    def names(self) -> list[str]:
        """Names of the features."""
        suffix = "" if not self.standardised else " (standardised)" if any(self.means) else " (scaled)"
        names = [name + suffix for name in self.numbers]
        for column, categories in self.categories.items():
            other = "(other)" if "other" in categories else "other"
            own = [*categories[self.drop_first :], *([other] if column in self.has_other else [])]
            names += [f"{column}={category}" for category in own]
        return names

    def for_prediction(self) -> Preparation:
        """Return the preparation of rows without a target; rows with a missing value are dropped, not refused."""
        return replace(self, target=None, missing=self.missing if self.missing in ("mean", "keep") else "drop")

    def apply(self, batch: Batch, on_note: Callable[[str, str], None] = lambda _column, _note: None) -> Prepared:
        """Return features, targets, and a mask of their rows; call ``on_note`` with columns of unknown categories."""
        numbers = self._numbers(batch)
        targets, without_target = self._targets(batch)
        kept = self._complete(batch, numbers, without_target)
        if self.missing == "mean" and not _all_valid(numbers):
            numbers = np.where(np.abs(numbers) <= LARGEST, numbers, self.means)
        if self.standardised:
            with np.errstate(invalid="ignore"):
                numbers = (numbers - self.means) / self.scales
        parts = [numbers, *(self._encoded(batch, column, kept, on_note) for column in self.categories)]
        rows = np.concatenate(parts, axis=1) if len(parts) > 1 else numbers
        if not kept.all():
            rows, targets = np.ascontiguousarray(rows[kept]), None if targets is None else targets[kept]
        return rows, targets, kept

    def _numbers(self, batch: Batch) -> FloatArray:
        by_name = dict(zip(batch.table.column_names, batch.table.columns, strict=True))  # faster than Table.column
        rows = np.empty((len(batch), len(self.numbers)))
        for j, name in enumerate(self.numbers):
            column, part = self.derived.get(name, (name, None))
            values = _array(by_name[column])
            rows[:, j] = values if part is None else PARTS[part](values)
        return rows

    def _targets(self, batch: Batch) -> tuple[Any, BoolArray]:
        """Return targets, and a mask of missing ones."""
        if self.target is None:
            return None, np.zeros(len(batch), dtype=np.bool_)
        if self.has_labels:
            return _labels(batch, self.target)
        values = values_of(batch.table, self.target)
        return values, np.zeros(len(batch), dtype=np.bool_) if _all_valid(values) else ~(np.abs(values) <= LARGEST)

    def _complete(self, batch: Batch, numbers: FloatArray, without_target: BoolArray) -> BoolArray:
        """Return a mask of the rows to keep; raise an error for a missing value if these are refused."""
        masks: dict[str, BoolArray] = {}
        if self.target is not None:
            masks[self.target] = without_target
        if self.missing not in ("mean", "keep"):
            if not _all_valid(numbers):
                masks |= {name: ~(np.abs(numbers[:, j]) <= LARGEST) for j, name in enumerate(self.numbers)}
            masks |= {column: _nulls(batch.table, column) for column in self.categories}
        missing: BoolArray = np.any([np.zeros(len(batch), dtype=np.bool_), *masks.values()], axis=0)
        if self.missing == "refuse" and missing.any():
            row = int(missing.argmax())
            raise self._missing_value(batch, row, next(name for name, mask in masks.items() if mask[row]))
        return np.asarray(~missing)

    def _missing_value(self, batch: Batch, row: int, name: str) -> DataError:
        column = self.derived[name][0] if name in self.derived else name
        value = None if self.column_kinds[column] is ColumnType.STRING else values_of(batch.table, column)[row]
        what = "the value is missing" if value is None or np.isnan(value) else f"{value} is not a finite number"
        remedies = (Remedy.DROP_ROWS,) if name == self.target else (Remedy.DROP_ROWS, Remedy.IMPUTE)
        return DataError(f"{batch.place(row)}, column {column!r}: {what}.", *remedies, about=(column, ""))

    def _encoded(self, batch: Batch, column: str, kept: BoolArray, on_note: Callable[[str, str], None]) -> FloatArray:
        """Return the one-hot columns of a string column."""
        categories = self.categories[column]
        values = pc.index_in(batch.table.column(column), pa.array(categories, pa.string()))
        codes = np.asarray(values.fill_null(-1).to_numpy(), dtype=np.int64)
        unknown = kept & (codes < 0)
        if unknown.any() and column not in self.truncated:
            self._note_unknown(batch, column, unknown & ~_nulls(batch.table, column), on_note)
        own = np.arange(self.drop_first, len(categories))
        encoded = np.asarray(codes[:, None] == own, dtype=np.float64)
        return encoded if column not in self.has_other else np.column_stack([encoded, unknown.astype(np.float64)])

    def _note_unknown(self, batch: Batch, column: str, new: BoolArray, on_note: Callable[[str, str], None]) -> None:
        """Raise an error for an unknown category, or note how it is encoded."""
        if not new.any():
            return
        row = int(new.argmax())
        value = batch.table.column(column)[row].as_py()
        place = f"{batch.place(row)}, column {column!r}: {value!r} does not occur in the first {self.known_rows:,} rows"
        if self.handle_unknown == "refuse":
            remedies = (Remedy.ENCODE_OTHER, Remedy.MORE_ROWS, Remedy.EXCLUDE)
            raise DataError(f"{place}.", *remedies, about=(column, value))
        code = "'other'" if column in self.has_other else "all zeros"
        on_note(column, f"{place}; such values are encoded as {code}")


def _has_type(value: Any, kind: Any) -> bool:
    """Whether a JSON value has a type, which may be a dict of strings to others."""
    if get_origin(kind) is not dict:
        return conforms(value, kind)
    of_values = get_args(kind)[1]
    return isinstance(value, dict) and all(
        isinstance(key, str) and conforms(item, of_values) for key, item in value.items()
    )


def _labels(batch: Batch, column: str) -> tuple[Any, BoolArray]:
    """Return the class labels of a batch, and a mask of missing ones."""
    given = batch.table.column(column)
    values = np.asarray(given.to_numpy())
    if values.dtype.kind == "O":
        missing = np.asarray(given.is_null().to_numpy(), dtype=np.bool_)
        return np.where(missing, "", values).astype(str), missing
    missing = ~(np.abs(values) <= LARGEST)
    values = np.where(missing, 0.0, values)
    wrong = (values % 1 != 0) | (np.abs(values) > _MAX_INTEGER)
    if wrong.any():
        row = int(wrong.argmax())
        place = f"{batch.place(row)}, column {column!r}"
        message = f"{place}: {values[row]:g} is not a class label: labels are strings or integers."
        raise DataError(message, Remedy.OTHER_TARGET)
    return values.astype(np.int64), missing


def _array(column: Any) -> FloatArray:
    return np.asarray(column.to_numpy(), dtype=np.float64)  # null becomes NaN


def values_of(table: Any, column: str) -> FloatArray:
    """Return a column of numbers, NaN for missing values."""
    return _array(table.column(column))


def _nulls(table: Any, column: str) -> BoolArray:
    return np.asarray(table.column(column).is_null().to_numpy(), dtype=np.bool_)


def _all_valid(values: FloatArray) -> bool:
    """Whether all are finite numbers whose squares do not overflow."""
    return values.size == 0 or bool(values.min() >= -LARGEST and values.max() <= LARGEST)  # false for NaN
