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

from batch2online._types import FloatArray
from batch2online.app.inputs import preparation
from batch2online.app.inputs.batch import DATES, UNITS, Batch, DataError, Remedy
from batch2online.app.inputs.preparation import Preparation, values_of
from batch2online.frames.columns import ColumnType

MOST_LEVELS = 100
_TOGETHER = 64
_COUNTING = re.compile(r"(|Unnamed: \d+(\.\d+)?|__index_level_\d+__|index|rownames|level_0)( \(\d+\))?")


@dataclass(frozen=True)
class Wanted:
    """What a caller wants of a preparation.

    Attributes
    ----------
    missing : {"refuse", "drop", "mean", "keep"}
    standardise : bool
    encode : bool
        Whether text becomes columns of zeros and ones.
    drop_first : bool
        Whether the first level needs no column.
    unknown : {"other", "ignore", "refuse"}
        What becomes of texts without a column of their own.
    max_levels : int
        The most columns of their own that the texts of a column get.
    dates : {"number", "parts", "refuse"}
    may_grow : bool
        Whether further rows may come.
    units : dict
        Units of columns, where they are known.
    labels : frozenset of ColumnType
        What a target may hold that is a label; any other is a number.
    """

    missing: str = "refuse"
    standardise: bool = False
    encode: bool = True
    drop_first: bool = False
    unknown: str = "other"
    max_levels: int = MOST_LEVELS
    dates: str = "number"
    may_grow: bool = True
    units: dict[str, str] = field(default_factory=dict)
    labels: frozenset[ColumnType] = frozenset()


def counting_columns(batches: Sequence[Batch], names: Sequence[str]) -> list[str]:
    """Columns that only count the rows, as pandas and R write them: without a name, or called index, 0, 1, 2, ..."""
    found = []
    for name in (name for name in names if _COUNTING.fullmatch(name)):
        column = pa.chunked_array([chunk for batch in batches for chunk in batch.table.column(name).chunks])
        if re.fullmatch(r"(Unnamed.*)?", name) and column.null_count == len(column):
            found.append(name)  # a separator at the end of each line
        elif pa.types.is_floating(column.type) and len(column) and _counts(np.asarray(column.to_numpy())):
            found.append(name)
        elif name == "" and pa.types.is_string(column.type):
            found.append(name)  # names of rows
    return found


def _counts(values: FloatArray) -> bool:
    return bool(np.isin(values[0], (0.0, 1.0)) and np.array_equal(values, values[0] + np.arange(len(values))))


def identifiers(batches: Sequence[Batch], columns: Sequence[str], most: int) -> list[str]:
    """Columns of text in which most values differ, and too many for a category: names, numbers of tickets."""
    found = []
    for column in columns:
        values = pa.chunked_array(
            [chunk for batch in batches for chunk in batch.table.column(column).chunks]
        ).drop_null()
        different = len(values.unique())
        if different > most and 2 * different > len(values):
            found.append(column)
    return found


def prepare(
    batches: Sequence[Batch],
    inputs: Sequence[str],
    target: str | None,
    kinds: dict[str, ColumnType],
    wanted: Wanted,
    name: str = "the input",
) -> Preparation:
    """Decide on the first rows how all are prepared."""
    table = pa.concat_tables([batch.table for batch in batches])
    _check_kinds(inputs, target, kinds, wanted, name)
    derived = _parts(inputs, kinds) if wanted.dates == "parts" else {}
    numbers = [*(column for column in inputs if kinds[column] is not ColumnType.STRING), *derived]
    with np.errstate(over="ignore", invalid="ignore"):  # numbers as large as that are refused with their place
        needs_mean = wanted.missing == "mean" or wanted.standardise
        means, scales = _moments(table, numbers, derived, name if needs_mean else None)
    levels, others, crowded = _levels(
        table, [column for column in inputs if kinds[column] is ColumnType.STRING], wanted, name
    )
    times = {column: kinds[column] for column in inputs if kinds[column] in UNITS}
    named = {target: ColumnType.STRING} if target is not None and kinds[target] is ColumnType.STRING else {}
    units = {column: wanted.units[column] for column in (*inputs, target) if column in wanted.units}
    units |= {column: UNITS[kind] for column, kind in times.items()}
    units |= {part: preparation.unit_of(pair[1], kinds[pair[0]] is ColumnType.ZONED) for part, pair in derived.items()}
    return Preparation(
        numbers=numbers,
        levels=levels,
        drop_first=wanted.drop_first,
        target=target,
        missing=wanted.missing,
        means=means,
        scales=scales,
        standardised=wanted.standardise,
        known_rows=table.num_rows,
        unknown=wanted.unknown,
        others=others,
        crowded=crowded,
        kinds={column: str(kind) for column, kind in (times | named).items()},
        derived=derived,
        units={str(column): unit for column, unit in units.items()},
        has_labels=target is not None and kinds[target] in wanted.labels,
    )


def _check_kinds(
    inputs: Sequence[str], target: str | None, kinds: dict[str, ColumnType], wanted: Wanted, name: str
) -> None:
    refused = {ColumnType.OTHER: True, ColumnType.STRING: not wanted.encode}
    refused |= dict.fromkeys(UNITS, wanted.dates == "refuse")
    for column in (column for column in inputs if refused.get(kinds[column], False)):
        kind = kinds[column]
        also = {ColumnType.STRING: [Remedy.ENCODE_TEXT], ColumnType.OTHER: []}.get(kind, [Remedy.ENCODE_DATES])
        raise DataError(f"{name}: column {column!r} holds {kind.plural}.", Remedy.LEAVE_OUT, *also, about=(column, ""))
    if target is not None:
        _check_target(target, kinds[target], wanted.labels, name)


def _check_target(target: str, kind: ColumnType, labels: frozenset[ColumnType], name: str) -> None:
    numbers = {ColumnType.NUMBER, *UNITS} if ColumnType.NUMBER not in labels else set()
    if kind not in labels | numbers:
        what = "numbers" if not labels else "text or numbers"
        raise DataError(f"{name}: the target {target!r} must hold {what}, it holds {kind.plural}.", Remedy.OTHER_TARGET)


def _parts(inputs: Sequence[str], kinds: dict[str, ColumnType]) -> dict[str, list[str]]:
    dates = [column for column in inputs if kinds[column] in DATES]
    return {f"{column}: {part}": [column, part] for column in dates for part in preparation.PARTS}


def _levels(
    table: Any, columns: Sequence[str], wanted: Wanted, name: str
) -> tuple[dict[str, list[str]], list[str], list[str]]:
    """Levels of each column of text; columns in which there are or may be further ones; those with too many."""
    levels, others, crowded = {}, [], []
    for column in columns:
        counts = Counter(table.column(column).drop_null().to_pylist())
        has_more = len(counts) > wanted.max_levels
        if has_more and wanted.unknown == "refuse":
            raise DataError(
                f"{name}: column {column!r} has {len(counts):,} different texts in its first {table.num_rows:,} rows.",
                *(Remedy.OTHER_LEVEL, Remedy.MORE_LEVELS, Remedy.LEAVE_OUT),
                about=(column, str(len(counts))),
            )
        commonest = sorted(counts, key=lambda text: (-counts[text], text))[: wanted.max_levels]
        levels[column] = sorted(commonest)
        has_gaps = wanted.missing in ("mean", "keep") and table.column(column).null_count > 0
        if wanted.unknown == "other" and (has_more or has_gaps or wanted.may_grow):
            others.append(column)
        if has_more:
            crowded.append(column)
    return levels, others, crowded


def _moments(
    table: Any, columns: Sequence[str], derived: dict[str, list[str]], name: str | None
) -> tuple[list[float], list[float]]:
    """Mean and spread of each column, some columns at a time: there may be very many, or very long ones."""
    means: list[float] = []
    scales: list[float] = []
    by_name = dict(zip(table.column_names, table.columns, strict=True))
    arrays = (
        preparation.part_of(values_of(table, derived[column][0]), derived[column][1])
        if column in derived
        else np.asarray(by_name[column].to_numpy(), dtype=np.float64)
        for column in columns
    )
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
        message = f"{name}: column {column!r} is empty in the first {len(values):,} rows: it has no mean."
        raise DataError(message, Remedy.LEAVE_OUT, about=(column, ""))
    return 0.0, 1.0
