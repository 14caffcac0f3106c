"""Infer from the first rows of a file how its columns are prepared."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from batch2online.app.inputs.batch import Batch, DataError, Remedy
from batch2online.app.inputs.preparation import PART_UNITS, UNITS, Preparation, encoded
from batch2online.frames import preparation
from batch2online.frames.columns import ColumnType
from batch2online.frames.preparation import MAX_CATEGORIES, InferenceOptions, Table


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

    def inference(self) -> InferenceOptions:
        """Return the options of the features alone."""
        return InferenceOptions(
            standardise=self.standardise,
            drop_first=self.drop_first,
            may_grow=self.may_grow,
            missing_as_other=self.missing in ("mean", "keep"),
            handle_unknown=self.handle_unknown,
            max_categories=self.max_categories,
            dates=self.dates,
        )


def ignored_columns(
    batches: Sequence[Batch], columns: Sequence[str], kinds: dict[str, ColumnType], most: int
) -> dict[str, str]:
    """Return the columns that no model can use, each with the reason; ``most`` as in :func:`identifiers`."""
    own = {column: kinds[column] for column in columns if kinds[column] is not ColumnType.OTHER}
    return preparation.ignored_columns(_joined(batches, list(own))[0], own, most)


def _joined(batches: Sequence[Batch], columns: Sequence[str]) -> tuple[Table, dict[float, str]]:
    return encoded(pa.concat_tables([batch.table for batch in batches]), columns)


def prepare(
    batches: Sequence[Batch],
    inputs: Sequence[str],
    target: str | None,
    kinds: dict[str, ColumnType],
    wanted: PreparationOptions,
    name: str = "the input",
) -> Preparation:
    """Infer the preparation of all rows from the first ones."""
    _check_kinds(inputs, target, kinds, wanted, name)
    n_rows = sum(map(len, batches))
    table, strings = _joined(batches, inputs)
    found = preparation.infer(table, strings, {column: kinds[column] for column in inputs}, n_rows, wanted.inference())
    _check_values(table, n_rows, found["truncated"], kinds, wanted, name)
    times = {column: kinds[column] for column in inputs if kinds[column] in UNITS}
    named = {target: ColumnType.STRING} if target is not None and kinds[target] is ColumnType.STRING else {}
    units = {column: wanted.units[column] for column in (*inputs, target) if column in wanted.units}
    units |= {column: UNITS[kind] for column, kind in times.items()}
    for feature, (column, part) in found["derived"].items():
        units[feature] = PART_UNITS[part] + (", UTC" if kinds[column] is ColumnType.ZONED else "")
    return Preparation(
        **found,
        target=target,
        missing=wanted.missing,
        handle_unknown=wanted.handle_unknown,
        kinds={column: str(kind) for column, kind in (times | named).items()},
        units={str(column): unit for column, unit in units.items()},
        has_labels=target is not None and kinds[target] in wanted.labels,
    )


def _check_values(
    table: Table,
    n_rows: int,
    truncated: Sequence[str],
    kinds: dict[str, ColumnType],
    wanted: PreparationOptions,
    name: str,
) -> None:
    """Raise an error for columns without a mean that need one, or with more categories than are accepted."""
    for column, values in table.items():
        needs_mean = kinds[column] is not ColumnType.STRING and (wanted.missing == "mean" or wanted.standardise)
        if needs_mean and not np.isfinite(values).any():
            message = f"{name}: column {column!r} has only missing values in the first {n_rows:,} rows."
            raise DataError(message, Remedy.EXCLUDE, about=(column, ""))
    for column in truncated if wanted.handle_unknown == "refuse" else ():
        count = len(np.unique(table[column][~np.isnan(table[column])]))
        raise DataError(
            f"{name}: column {column!r} has {count:,} distinct values in its first {n_rows:,} rows.",
            *(Remedy.ENCODE_OTHER, Remedy.MORE_CATEGORIES, Remedy.EXCLUDE),
            about=(column, str(count)),
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
