"""Infer from the first rows how columns are prepared."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

import numpy as np
import pyarrow as pa

from batch2online.app.inputs import preparation
from batch2online.app.inputs.batch import DATES, UNITS, Batch, DataError, Remedy
from batch2online.app.inputs.preparation import Preparation, values_of
from batch2online.frames.columns import ColumnType

MAX_CATEGORIES = 100
_BLOCK = 64
_INDEX_NAME = re.compile(r"(|Unnamed: \d+(\.\d+)?|__index_level_\d+__|index|rownames|level_0)( \(\d+\))?")


@dataclass(frozen=True)
class PreparationOptions:
    """Options of a preparation.

    Parameters
    ----------
    missing : {"refuse", "drop", "mean", "keep"}
    standardise : bool
    encode : bool
        Whether strings are one-hot encoded.
    drop_first : bool
        Whether the first category has no column.
    handle_unknown : {"other", "ignore", "refuse"}
        How categories without a column are encoded.
    max_categories : int
        Maximum number of one-hot columns of a string column.
    dates : {"number", "parts", "refuse"}
    may_grow : bool
        Whether further rows may follow.
    units : dict
        Units of columns, if they are known.
    labels : frozenset of ColumnType
        Types of target columns that are class labels; other targets are numbers.
    """

    missing: str = "refuse"
    standardise: bool = False
    encode: bool = True
    drop_first: bool = False
    handle_unknown: str = "other"
    max_categories: int = MAX_CATEGORIES
    dates: str = "number"
    may_grow: bool = True
    units: dict[str, str] = field(default_factory=dict)
    labels: frozenset[ColumnType] = frozenset()


def _joined(batches: Sequence[Batch], name: str) -> Any:
    return pa.chunked_array([chunk for batch in batches for chunk in batch.table.column(name).chunks])


def index_columns(batches: Sequence[Batch], names: Sequence[str]) -> list[str]:
    """Return columns that only index the rows, as pandas and R write them: unnamed, or called index, 0, 1, 2, ..."""
    found = []
    for name in filter(_INDEX_NAME.fullmatch, names):
        column = _joined(batches, name)
        if re.fullmatch(r"(Unnamed.*)?", name) and column.null_count == len(column):
            found.append(name)  # a separator at the end of each line
        elif pa.types.is_floating(column.type) and len(column):
            values = np.asarray(column.to_numpy())
            if np.isin(values[0], (0.0, 1.0)) and np.array_equal(values, values[0] + np.arange(len(values))):
                found.append(name)
        elif name == "" and pa.types.is_string(column.type):
            found.append(name)  # names of rows
    return found


def identifiers(batches: Sequence[Batch], columns: Sequence[str], most: int) -> list[str]:
    """Return string columns with more than ``most`` distinct values, most of them unique: names, ticket numbers."""
    found = []
    for column in columns:
        values = _joined(batches, column).drop_null()
        different = len(values.unique())
        if different > most and 2 * different > len(values):
            found.append(column)
    return found


def prepare(
    batches: Sequence[Batch],
    inputs: Sequence[str],
    target: str | None,
    kinds: dict[str, ColumnType],
    wanted: PreparationOptions,
    name: str = "the input",
) -> Preparation:
    """Infer the preparation of all rows from the first ones."""
    table = pa.concat_tables([batch.table for batch in batches])
    _check_kinds(inputs, target, kinds, wanted, name)
    dates = [column for column in inputs if kinds[column] in DATES] if wanted.dates == "parts" else []
    derived = {f"{column}: {part}": [column, part] for column in dates for part in preparation.PARTS}
    numbers = [*(column for column in inputs if kinds[column] is not ColumnType.STRING), *derived]
    with np.errstate(over="ignore", invalid="ignore"):  # too large numbers raise an error that names their row
        needs_mean = wanted.missing == "mean" or wanted.standardise
        means, scales = _moments(table, numbers, derived, name if needs_mean else None)
    strings = [column for column in inputs if kinds[column] is ColumnType.STRING]
    categories, has_other, truncated = _categories(table, strings, wanted, name)
    times = {column: kinds[column] for column in inputs if kinds[column] in UNITS}
    named = {target: ColumnType.STRING} if target is not None and kinds[target] is ColumnType.STRING else {}
    units = {column: wanted.units[column] for column in (*inputs, target) if column in wanted.units}
    units |= {column: UNITS[kind] for column, kind in times.items()}
    for feature, (column, part) in derived.items():
        units[feature] = preparation.PART_UNITS[part] + (", UTC" if kinds[column] is ColumnType.ZONED else "")
    return Preparation(
        numbers=numbers,
        categories=categories,
        drop_first=wanted.drop_first,
        target=target,
        missing=wanted.missing,
        means=means,
        scales=scales,
        standardised=wanted.standardise,
        known_rows=table.num_rows,
        handle_unknown=wanted.handle_unknown,
        has_other=has_other,
        truncated=truncated,
        kinds={column: str(kind) for column, kind in (times | named).items()},
        derived=derived,
        units={str(column): unit for column, unit in units.items()},
        has_labels=target is not None and kinds[target] in wanted.labels,
    )


def _check_kinds(
    inputs: Sequence[str], target: str | None, kinds: dict[str, ColumnType], wanted: PreparationOptions, name: str
) -> None:
    """Raise an error if a column has a type that the options refuse."""
    refused = {ColumnType.OTHER: True, ColumnType.STRING: not wanted.encode}
    refused |= dict.fromkeys(UNITS, wanted.dates == "refuse")
    for column in (column for column in inputs if refused.get(kinds[column], False)):
        kind = kinds[column]
        also = {ColumnType.STRING: [Remedy.ENCODE_STRINGS], ColumnType.OTHER: []}.get(kind, [Remedy.ENCODE_DATES])
        raise DataError(f"{name}: column {column!r} contains {kind.plural}.", Remedy.EXCLUDE, *also, about=(column, ""))
    if target is None:
        return
    numbers = {ColumnType.NUMBER, *UNITS} if ColumnType.NUMBER not in wanted.labels else set()
    if kinds[target] not in wanted.labels | numbers:
        what = "numbers" if not wanted.labels else "strings or numbers"
        message = f"{name}: the target {target!r} must contain {what}, it contains {kinds[target].plural}."
        raise DataError(message, Remedy.OTHER_TARGET)


def _categories(
    table: Any, columns: Sequence[str], wanted: PreparationOptions, name: str
) -> tuple[dict[str, list[str]], list[str], list[str]]:
    """Return the categories of each string column, the columns with an 'other' category, and the truncated ones."""
    categories, has_other, truncated = {}, [], []
    for column in columns:
        counts = Counter(table.column(column).drop_null().to_pylist())
        has_more = len(counts) > wanted.max_categories
        if has_more and wanted.handle_unknown == "refuse":
            raise DataError(
                f"{name}: column {column!r} has {len(counts):,} distinct values in its first {table.num_rows:,} rows.",
                *(Remedy.ENCODE_OTHER, Remedy.MORE_CATEGORIES, Remedy.EXCLUDE),
                about=(column, str(len(counts))),
            )
        most_frequent = sorted(counts, key=lambda value: (-counts[value], value))[: wanted.max_categories]
        categories[column] = sorted(most_frequent)
        has_missing = wanted.missing in ("mean", "keep") and table.column(column).null_count > 0
        if wanted.handle_unknown == "other" and (has_more or has_missing or wanted.may_grow):
            has_other.append(column)
        if has_more:
            truncated.append(column)
    return categories, has_other, truncated


def _moments(
    table: Any, columns: Sequence[str], derived: dict[str, list[str]], name: str | None
) -> tuple[list[float], list[float]]:
    """Return mean and standard deviation of each column, a block of columns at a time to bound memory."""
    means: list[float] = []
    scales: list[float] = []
    by_name = dict(zip(table.column_names, table.columns, strict=True))
    arrays = (
        preparation.PARTS[derived[column][1]](values_of(table, derived[column][0]))
        if column in derived
        else np.asarray(by_name[column].to_numpy(), dtype=np.float64)
        for column in columns
    )
    for start in range(0, len(columns), _BLOCK):
        some = columns[start : start + _BLOCK]
        values = np.array(list(islice(arrays, len(some))))
        if np.isfinite(values).all() and table.num_rows:
            means += values.mean(axis=1).tolist()
            scales += [spread or 1.0 for spread in values.std(axis=1).tolist()]
            continue
        for column, own in zip(some, values, strict=True):
            finite = own[np.isfinite(own)]
            if not len(finite) and name is not None:
                message = f"{name}: column {column!r} has only missing values in the first {len(own):,} rows."
                raise DataError(message, Remedy.EXCLUDE, about=(column, ""))
            means.append(float(finite.mean()) if len(finite) else 0.0)
            scales.append((float(finite.std()) or 1.0) if len(finite) else 1.0)
    return means, scales
