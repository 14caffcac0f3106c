"""A column of labels: text as it is, numbers as whole numbers."""

from __future__ import annotations

from typing import Any

import numpy as np

from batch2online._types import BoolArray
from batch2online.app.inputs.batch import Batch, DataError, Remedy
from batch2online.validation import LARGEST

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
