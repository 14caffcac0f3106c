"""Columns of a batch as rows of numbers: features as tables of Python have them, targets, and rows that are dropped."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import MISSING, dataclass, field, fields, replace
from typing import Any, get_type_hints

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from batch2online._types import BoolArray, FloatArray
from batch2online.app.inputs.batch import DATES, Batch, DataError, Remedy, kind_of
from batch2online.frames.arrow import of_array
from batch2online.frames.columns import MISSING as NO_VALUE
from batch2online.frames.columns import ColumnType
from batch2online.frames.preparation import ColumnPreparation, Table, all_valid
from batch2online.schema import conforms
from batch2online.validation import LARGEST

UNITS = {ColumnType.TIME: "days since 1970", ColumnType.ZONED: "days since 1970, UTC", ColumnType.DURATION: "hours"}
"""Units of dates and times as numbers."""

PART_UNITS = {"hour": "hours", "weekday": "1 is Monday", "month": "1 is January"}

_MAX_INTEGER = 2**53
"""Larger integers are not all distinct as float64."""

Prepared = tuple[FloatArray, Any, BoolArray]
"""Features, targets (numbers, labels or None), and a mask of the rows of the batch that they are."""


def encoded(table: Any, columns: Sequence[str]) -> tuple[Table, dict[float, str]]:
    """Return columns of numbers and strings as arrays of numbers, and the strings by their hash."""
    by_name = dict(zip(table.column_names, table.columns, strict=True))  # faster than Table.column
    arrays: Table = {}
    strings: dict[float, str] = {}
    for name in columns:
        column = plain(by_name[name])
        if pa.types.is_string(column.type):
            made = of_array(column)
            arrays[name] = np.where(made.codes == NO_VALUE, np.nan, made.codes)
            strings |= made.strings
        else:
            arrays[name] = _array(column)
    return arrays, strings


def plain(column: Any) -> Any:
    """Return a column as float64 or string, if a model can use its type."""
    kind = kind_of(column.type)
    if kind in DATES:
        microseconds = column.cast(pa.timestamp("us", getattr(column.type, "tz", None)), safe=False).cast(pa.int64())
        return pc.divide(microseconds.cast(pa.float64(), safe=False), 86_400e6)
    if kind is ColumnType.DURATION:
        microsecond = pa.duration("us") if pa.types.is_duration(column.type) else pa.time64("us")
        ticks = column.cast(microsecond, safe=False).cast(pa.int64())
        return pc.divide(ticks.cast(pa.float64(), safe=False), 3_600e6)
    wanted = {ColumnType.NUMBER: pa.float64(), ColumnType.STRING: pa.string()}.get(kind, column.type)
    if column.type == wanted:
        return column
    if pa.types.is_boolean(column.type):
        column = column.cast(pa.uint8())
    return column.cast(wanted, safe=False)


@dataclass(frozen=True, kw_only=True)
class Preparation(ColumnPreparation):
    """How columns become features and a target.

    Attributes
    ----------
    target : str or None
    missing : {"refuse", "drop", "mean", "keep"}
    handle_unknown : {"other", "ignore", "refuse"}
        How unknown categories are encoded.
    kinds : dict
        Types of columns other than numbers and string features.
    units : dict
        Units of columns, if they are known.
    has_labels : bool
        Whether the target contains class labels.
    """

    target: str | None
    missing: str
    handle_unknown: str = "refuse"
    kinds: dict[str, str] = field(default_factory=dict)
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
        wrong = next((name for name, kind in types.items() if not conforms(getattr(found, name), kind)), None)
        wrong = wrong or next((name for name, is_valid in found.constraints().items() if not is_valid), None)
        if wrong is not None:
            raise DataError(f"Its preparation has an invalid value of {wrong!r}.")
        return found

    def constraints(self) -> dict[str, bool]:
        return {
            "missing": self.missing in ("refuse", "drop", "mean", "keep"),
            **super().constraints(),
            "handle_unknown": self.handle_unknown in ("other", "ignore", "refuse"),
            "kinds": set(self.kinds.values()) <= set(ColumnType),
        }

    @property
    def columns(self) -> list[str]:
        """The columns to read."""
        return [*self.inputs, *([] if self.target is None else [self.target])]

    @property
    def column_kinds(self) -> dict[str, ColumnType]:
        """The types of the columns."""
        known = {column: ColumnType(kind) for column, kind in self.kinds.items()}
        strings = dict.fromkeys(self.categories, ColumnType.STRING)
        return {column: (strings | known).get(column, ColumnType.NUMBER) for column in self.columns}

    def for_prediction(self) -> Preparation:
        """Return the preparation of rows without a target; rows with a missing value are dropped, not refused."""
        return replace(self, target=None, missing=self.missing if self.missing in ("mean", "keep") else "drop")

    def apply(self, batch: Batch, on_note: Callable[[str, str], None] = lambda _column, _note: None) -> Prepared:
        """Return features, targets, and a mask of their rows; call ``on_note`` with columns of unknown categories."""
        table, strings = encoded(batch.table, self.inputs)
        numbers = self.numbers_in(table, len(batch))
        targets, without_target = self._targets(batch)
        kept = self._complete(batch, table, numbers, without_target)
        numbers = self.scaled(self.imputed(numbers) if self.missing == "mean" else numbers)
        parts = [numbers]
        for column in self.categories:
            found = self.positions(column, table[column])
            new = kept & (found < 0) & ~np.isnan(table[column])
            if new.any() and column not in self.truncated:
                row = int(new.argmax())
                self._note_unknown(batch, column, row, strings[float(table[column][row])], on_note)
            parts.append(self.one_hot(column, found))
        rows = np.concatenate(parts, axis=1) if len(parts) > 1 else numbers
        if not kept.all():
            rows, targets = np.ascontiguousarray(rows[kept]), None if targets is None else targets[kept]
        return rows, targets, kept

    def _targets(self, batch: Batch) -> tuple[Any, BoolArray]:
        """Return targets, and a mask of missing ones."""
        if self.target is None:
            return None, np.zeros(len(batch), dtype=np.bool_)
        if self.has_labels:
            return _labels(batch, self.target)
        values = _array(batch.table.column(self.target))
        return values, np.zeros(len(batch), dtype=np.bool_) if all_valid(values) else ~(np.abs(values) <= LARGEST)

    def _complete(self, batch: Batch, table: Table, numbers: FloatArray, without_target: BoolArray) -> BoolArray:
        """Return a mask of the rows to keep; raise an error for a missing value if these are refused."""
        masks: dict[str, BoolArray] = {}
        if self.target is not None:
            masks[self.target] = without_target
        if self.missing not in ("mean", "keep"):
            if not all_valid(numbers):
                masks |= {name: ~(np.abs(numbers[:, j]) <= LARGEST) for j, name in enumerate(self.numbers)}
            masks |= {column: np.isnan(table[column]) for column in self.categories}
        missing: BoolArray = np.any([np.zeros(len(batch), dtype=np.bool_), *masks.values()], axis=0)
        if self.missing == "refuse" and missing.any():
            row = int(missing.argmax())
            raise self._missing_value(batch, row, next(name for name, mask in masks.items() if mask[row]))
        return np.asarray(~missing)

    def _missing_value(self, batch: Batch, row: int, name: str) -> DataError:
        column = self.derived[name][0] if name in self.derived else name
        is_string = self.column_kinds[column] is ColumnType.STRING
        value = None if is_string else _array(batch.table.column(column))[row]
        what = "the value is missing" if value is None or np.isnan(value) else f"{value} is not a finite number"
        remedies = (Remedy.DROP_ROWS,) if name == self.target else (Remedy.DROP_ROWS, Remedy.IMPUTE)
        return DataError(f"{batch.place(row)}, column {column!r}: {what}.", *remedies, about=(column, ""))

    def _note_unknown(
        self, batch: Batch, column: str, row: int, value: str, on_note: Callable[[str, str], None]
    ) -> None:
        """Raise an error for an unknown category, or note how it is encoded."""
        place = f"{batch.place(row)}, column {column!r}: {value!r} does not occur in the first {self.known_rows:,} rows"
        if self.handle_unknown == "refuse":
            remedies = (Remedy.ENCODE_OTHER, Remedy.MORE_ROWS, Remedy.EXCLUDE)
            raise DataError(f"{place}.", *remedies, about=(column, value))
        code = "'other'" if column in self.has_other else "all zeros"
        on_note(column, f"{place}; such values are encoded as {code}")


def _labels(batch: Batch, column: str) -> tuple[Any, BoolArray]:
    """Return the class labels of a batch, and a mask of missing ones."""
    given = plain(batch.table.column(column))
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
    column = plain(column)
    if column.num_chunks and not column.null_count and pa.types.is_floating(column.type):
        parts = [np.from_dlpack(chunk) for chunk in column.chunks]  # twice as fast, and imports no pandas
        return np.asarray(parts[0] if len(parts) == 1 else np.concatenate(parts), dtype=np.float64)
    return np.asarray(column.to_numpy(), dtype=np.float64)  # null becomes NaN
