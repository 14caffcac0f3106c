"""From columns of a table to the rows of a model: which columns, categories, scales, missing values.

A stream does not know its future, so everything is decided on its first rows, held back until they are enough:
the levels of a category, the mean and the spread of a number. The result is the same for any chunking.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, fields
from itertools import islice
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from batch2online._types import BoolArray, FloatArray
from batch2online.core.validation import LARGEST
from batch2online.readers.batch import Batch, DataError, Kind, Remedy

MOST_LEVELS = 100
_TOGETHER = 64


@dataclass(frozen=True)
class Preparation:
    """How columns become inputs and a target.

    Attributes
    ----------
    numbers : list of str
        Columns that are taken as they are, or standardised.
    levels : dict
        For each column of text, its levels.
    drop_first : bool
        Whether the first level gets no column of zeros and ones: with an intercept it is told by the others.
    target : str or None
    missing : {"refuse", "drop", "mean"}
    means, scales : lists of float
        For each of ``numbers``: what fills a gap or is subtracted, and what it is divided by.
    standardised : bool
    known_rows : int
        How many rows these were decided on.
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

    @classmethod
    def from_dict(cls, content: Any) -> Preparation:
        """Return a preparation from its fields as JSON gives them back; a DataError where they do not fit together."""
        names = {field.name for field in fields(cls)}
        if not isinstance(content, dict) or content.keys() != names:
            raise DataError(f"Its preparation must have the fields {', '.join(sorted(names))}.")
        found = cls(**content)
        wrong = [name for name, is_right in found._checks().items() if not is_right]
        if wrong:
            raise DataError(f"Its preparation has an unusable value of {wrong[0]!r}.")
        return found

    def _checks(self) -> dict[str, bool]:
        """Whether each field is of its type; fields that others lean on come first."""
        is_list = _is_list_of(self.numbers, str)
        count = len(self.numbers) if is_list else -1
        return {
            "numbers": is_list,
            "levels": isinstance(self.levels, dict) and all(_is_list_of(some, str) for some in self.levels.values()),
            "drop_first": isinstance(self.drop_first, bool),
            "target": self.target is None or isinstance(self.target, str),
            "missing": self.missing in ("refuse", "drop", "mean"),
            "means": _is_list_of(self.means, float, int) and len(self.means) == count and _are_finite(self.means),
            "scales": _is_list_of(self.scales, float, int) and len(self.scales) == count and _are_finite(self.scales),
            "standardised": isinstance(self.standardised, bool),
            "known_rows": isinstance(self.known_rows, int),
        }

    @property
    def columns(self) -> list[str]:
        """The columns to read."""
        return [*self.numbers, *self.levels, *([] if self.target is None else [self.target])]

    @property
    def names(self) -> list[str]:
        """Names of the model's inputs."""
        suffix = " (standardised)" if self.standardised else ""
        categories = [
            f"{column}={level}" for column, levels in self.levels.items() for level in levels[self.drop_first :]
        ]
        return [*(name + suffix for name in self.numbers), *categories]

    def without_target(self) -> Preparation:
        """Return the same for rows whose target is not known."""
        return Preparation(**asdict(self) | {"target": None})

    def apply(self, batch: Batch, name: str) -> tuple[FloatArray, FloatArray | None, BoolArray]:
        """Return inputs, targets, and which rows of the batch they are."""
        numbers = _filled(_numbers_of(batch.table, self.numbers), len(self.numbers), len(batch))
        targets = np.empty((len(batch), 0)) if self.target is None else _numbers(batch.table, self.target)[:, None]
        kept = self._complete(batch, numbers, targets, name)
        if not _all_fit(numbers):
            if self.missing == "mean":
                numbers = np.where(np.isnan(numbers), self.means, numbers)
            _check_magnitudes(numbers, kept, self.numbers, batch, name)
        _check_magnitudes(targets, kept, [str(self.target)], batch, name)
        if self.standardised:
            numbers = (numbers - self.means) / self.scales
        parts = [numbers, *(self._encoded(batch, column, kept, name) for column in self.levels)]
        rows = np.concatenate(parts, axis=1) if len(parts) > 1 else numbers
        if not kept.all():
            rows, targets = np.ascontiguousarray(rows[kept]), targets[kept]
        return rows, None if self.target is None else targets[:, 0], kept

    def _complete(self, batch: Batch, numbers: FloatArray, targets: FloatArray, name: str) -> BoolArray:
        """Which rows stay. A gap that nothing fills is an error unless such rows are to be dropped."""
        is_complete = _all_fit(numbers) and _all_fit(targets) and not self.levels
        filled = set(self.numbers) if self.missing == "mean" else set()
        looked_at = [] if is_complete else [column for column in self.columns if column not in filled]
        gaps = {column: _gaps(batch.table, column) for column in looked_at}
        missing: BoolArray = np.any([np.zeros(len(batch), dtype=np.bool_), *gaps.values()], axis=0)
        if self.missing != "drop" and missing.any():
            row = int(missing.argmax())
            column = next(column for column, gap in gaps.items() if gap[row])
            no_mean = " and has no mean" if self.missing == "mean" else ""
            message = f"{name}, {batch.place(row)}, column {column!r}: the value is missing{no_mean}."
            raise DataError(message, *self._remedies(column))
        return np.asarray(~missing)

    def _remedies(self, column: str) -> tuple[Remedy, ...]:
        can_fill = self.missing != "mean" and column in self.numbers
        return (Remedy.DROP_ROWS, Remedy.FILL_GAPS) if can_fill else (Remedy.DROP_ROWS,)

    def _encoded(self, batch: Batch, column: str, kept: BoolArray, name: str) -> FloatArray:
        values = pc.index_in(batch.table.column(column), pa.array(self.levels[column], pa.string()))
        codes = np.asarray(values.fill_null(-1).to_numpy(), dtype=np.int64)
        unknown = kept & (codes < 0)
        if unknown.any():
            row = int(unknown.argmax())
            raise DataError(
                f"{name}, {batch.place(row)}, column {column!r}: {batch.table.column(column)[row].as_py()!r} did not "
                f"occur in the first {self.known_rows:,} rows.",
                Remedy.LOOK_FURTHER,
                Remedy.LEAVE_OUT,
            )
        return np.asarray(codes[:, None] == np.arange(self.drop_first, len(self.levels[column])), dtype=np.float64)


def prepare(
    batches: Sequence[Batch],
    inputs: Sequence[str],
    target: str | None,
    kinds: dict[str, Kind],
    *,
    missing: str = "refuse",
    standardise: bool = False,
    encode: bool = True,
    drop_first: bool = False,
    name: str = "the input",
) -> Preparation:
    """Decide on the first rows how all are prepared."""
    table = pa.concat_tables([batch.table for batch in batches])
    unusable = [
        column for column in inputs if kinds[column] is Kind.OTHER or (kinds[column] is Kind.TEXT and not encode)
    ]
    if unusable:
        column = unusable[0]
        encode_too = (Remedy.ENCODE_TEXT,) if kinds[column] is Kind.TEXT else ()
        raise DataError(f"{name}: column {column!r} holds {kinds[column]}.", Remedy.LEAVE_OUT, *encode_too)
    if target is not None and kinds[target] is not Kind.NUMBER:
        raise DataError(f"{name}: the target {target!r} must hold numbers, it holds {kinds[target]}.")
    numbers = [column for column in inputs if kinds[column] is Kind.NUMBER]
    with np.errstate(over="ignore", invalid="ignore"):  # numbers as large as that are refused with their place
        means, scales = _moments(table, numbers, name if missing == "mean" or standardise else None)
    levels = {column: _levels(table, column, name) for column in inputs if kinds[column] is Kind.TEXT}
    return Preparation(numbers, levels, drop_first, target, missing, means, scales, standardise, table.num_rows)


def _is_list_of(values: Any, *types: type) -> bool:
    return isinstance(values, list) and {type(value) for value in values} <= set(types)


def _are_finite(values: list[float]) -> bool:
    return all(abs(value) <= LARGEST for value in values)  # false for NaN


def _levels(table: Any, column: str, name: str) -> list[str]:
    levels = sorted(table.column(column).drop_null().unique().to_pylist())
    if len(levels) > MOST_LEVELS:
        raise DataError(
            f"{name}: column {column!r} has {len(levels):,} different texts in its first {table.num_rows:,} rows, "
            "too many for a category.",
            Remedy.LEAVE_OUT,
        )
    return levels


def _moments(table: Any, columns: Sequence[str], name: str | None) -> tuple[list[float], list[float]]:
    """Mean and spread of each column, some columns at a time: there may be very many, or very long ones."""
    means: list[float] = []
    scales: list[float] = []
    arrays = _numbers_of(table, columns)
    for start in range(0, len(columns), _TOGETHER):
        some = columns[start : start + _TOGETHER]
        values = np.array(list(islice(arrays, len(some))))
        if np.isfinite(values).all() and table.num_rows:
            means += values.mean(axis=1).tolist()
            scales += [spread or 1.0 for spread in values.std(axis=1).tolist()]
        else:
            pairs = [_finite_moments(*pair, name) for pair in zip(some, values, strict=True)]
            means += [mean for mean, _ in pairs]
            scales += [scale for _, scale in pairs]
    return means, scales


def _finite_moments(column: str, values: FloatArray, name: str | None) -> tuple[float, float]:
    finite = values[np.isfinite(values)]
    if len(finite):
        return float(finite.mean()), float(finite.std()) or 1.0
    if name is not None:
        raise DataError(f"{name}: column {column!r} is empty in the first {len(values):,} rows: it has no mean.")
    return 0.0, 1.0


def _numbers(table: Any, column: str) -> FloatArray:
    """Return a column of numbers, NaN where a value is missing."""
    return np.asarray(table.column(column).to_numpy(), dtype=np.float64)  # Arrow's gaps become NaN


def _numbers_of(table: Any, columns: Sequence[str]) -> Iterator[FloatArray]:
    """Many columns of numbers, one after the other; to look each up by name in the table takes longer."""
    by_name = dict(zip(table.column_names, table.columns, strict=True))
    return (np.asarray(by_name[column].to_numpy(), dtype=np.float64) for column in columns)


def _filled(columns: Iterator[FloatArray], width: int, n: int) -> FloatArray:
    rows = np.empty((n, width))
    for j, column in enumerate(columns):
        rows[:, j] = column
    return rows


def _gaps(table: Any, column: str) -> BoolArray:
    values = table.column(column)
    if pa.types.is_floating(values.type):
        return np.isnan(_numbers(table, column))
    return np.asarray(values.is_null().to_numpy(), dtype=np.bool_)


def _all_fit(values: FloatArray) -> bool:
    """Whether all are numbers of a magnitude that can be squared."""
    return values.size == 0 or bool(values.min() >= -LARGEST and values.max() <= LARGEST)  # false for NaN


def _check_magnitudes(values: FloatArray, kept: BoolArray, columns: list[str], batch: Batch, name: str) -> None:
    if _all_fit(values):
        return
    bad = kept[:, None] & ~(np.abs(values) <= LARGEST)
    if bad.any():
        row, j = (int(index) for index in np.argwhere(bad)[0])
        raise DataError(f"{name}, {batch.place(row)}, column {columns[j]!r}: {values[row, j]} is not a finite number.")
