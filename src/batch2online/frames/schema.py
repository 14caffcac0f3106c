"""The columns of a table, and how rows of numbers become a table again."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from batch2online._types import FloatArray
from batch2online.frames import arrow, pandas
from batch2online.frames.columns import CATEGORICAL, MAX_ABS_VALUE, MISSING, ColumnType, FrameColumn
from batch2online.frames.objects import objects
from batch2online.frames.strings import StringTable
from batch2online.schema import storable

FRAMES = {"pandas": pandas.series_of, "polars": arrow.polars_of, "arrow": arrow.array_of}
"""Containers with named columns, and the function that makes a column of each."""

LISTS = ("list", "dicts", "array of strings", "pandas series", "polars series")
"""Containers of rows that are one string each."""

_BOUNDS: dict[str, float] = {
    ColumnType.NUMBER: MAX_ABS_VALUE,
    ColumnType.BOOLEAN: 1.0,
    ColumnType.DATE: 3e6,
    ColumnType.TIME: 2.5e17,
    ColumnType.ZONED: 2.5e17,
    ColumnType.DURATION: 9e18,
    ColumnType.STRING: 2.0**52,
    ColumnType.ALL_MISSING: 0.0,
}
"""Largest number that stands for a value of each type."""


@storable
@dataclass(frozen=True)
class FrameSchema:
    """The container in which rows came, and its columns."""

    container: str
    columns: tuple[FrameColumn, ...]

    def validate(self) -> None:
        if self.container not in (*FRAMES, *LISTS, "array"):
            raise ValueError(f"container: found {self.container[:40]!r}, expected one of those that are read")
        if not self.columns or (self.container in LISTS and len(self.columns) != 1):
            raise ValueError(f"columns: found {len(self.columns)} of a {self.container}")
        names = [column.name for column in self.columns]
        if self.container in FRAMES and (None in names or len(set(names)) != len(names)):
            raise ValueError(f"columns: found the names {names[:5]}, expected different ones")

    @property
    def string_columns(self) -> list[int]:
        """Positions of the columns of strings."""
        return [place for place, column in enumerate(self.columns) if column.kind == ColumnType.STRING]

    @property
    def numeric_columns(self) -> list[int]:
        """Positions of the columns of numbers or truth values."""
        kinds = (ColumnType.NUMBER, ColumnType.BOOLEAN)
        return [place for place, column in enumerate(self.columns) if column.kind in kinds]

    @property
    def is_numeric(self) -> bool:
        """Whether all columns hold numbers."""
        return len(self.numeric_columns) == len(self.columns)

    def categories_in(self, points: FloatArray) -> dict[int, FloatArray]:
        """Return the categories in these rows, for each column of categories."""
        places = [place for place, column in enumerate(self.columns) if column.form in CATEGORICAL]
        return {place: np.unique(points[:, place]) for place in places}

    def decoded(self, points: FloatArray, strings: StringTable, seen: dict[int, FloatArray] | None = None) -> Any:
        """Return rows in the container in which they came.

        ``seen`` are the categories that columns may have, by position: others become missing values.
        """
        names = [column.name for column in self.columns]
        if self.container == "pandas" and self.is_numeric and {column.form for column in self.columns} == {"float64"}:
            import pandas as pd

            return pd.DataFrame(_with_nans(points), columns=pd.Index(names), copy=False)
        if self.container == "array":
            return self._array(points, strings)
        if self.container in LISTS:
            return self._listed(strings.of(points[:, 0], None))
        make, seen = FRAMES[self.container], seen or {}
        made = [make(column, points[:, at], strings, seen.get(at)) for at, column in enumerate(self.columns)]
        if self.container == "pandas":
            return pandas.frame(names, made)
        if self.container == "polars":
            import polars as pl

            return pl.DataFrame({str(name): values for name, values in zip(names, made, strict=True)})
        import pyarrow as pa

        return pa.table(made, names=list(map(str, names)))

    def _array(self, points: FloatArray, strings: StringTable) -> Any:
        if self.is_numeric and all(column.form != "object" for column in self.columns):
            return _with_nans(points)
        values = np.empty(points.shape, dtype=object)
        for place, column in enumerate(self.columns):
            values[:, place] = objects(column.kind, points[:, place], strings)
        return values

    def _listed(self, values: Any) -> Any:
        if self.container == "array of strings":
            return values
        if self.container == "dicts":
            return [json.loads(row) for row in values]
        if self.container == "list":
            return values.tolist()
        name, form = self.columns[0].name, self.columns[0].form
        if self.container == "pandas series":
            import pandas as pd

            return pd.Series(values, name=name, dtype=form if form in ("string", "str", "category") else object)
        import polars as pl

        return pl.Series(str(name or ""), values.tolist(), dtype=pl.String)

    def as_numbers(self, points: FloatArray) -> FloatArray:
        """Return rows as numbers to compare and not to learn from: 0 for missing values, strings between 0 and 1."""
        numbers = np.where(points == MISSING, 0.0, points)
        numbers[:, self.string_columns] /= 2.0**52
        return numbers

    def with_columns(self, columns: list[FrameColumn]) -> FrameSchema:
        """Return the same table with these columns; itself if they are the same."""
        return self if tuple(columns) == self.columns else replace(self, columns=tuple(columns))

    def check(self, points: FloatArray) -> None:
        """Raise ValueError unless the numbers can stand for values of the columns."""
        for place, column in enumerate(self.columns):
            values = points[:, place][points[:, place] != MISSING]
            wrong = ~(np.abs(values) <= _BOUNDS[column.kind])
            if column.kind != ColumnType.NUMBER:
                wrong |= values != np.floor(values)
            if wrong.any():
                raise ValueError(f"column {column.name!r} of type {column.kind}: found {values[wrong][0]}")


def _with_nans(points: FloatArray) -> FloatArray:
    missing = points == MISSING
    return np.where(missing, np.nan, points) if missing.any() else points
