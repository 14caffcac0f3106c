"""What the columns of a table hold, and how rows of numbers become a table again."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from batch2online._types import FloatArray
from batch2online.frames import arrow, pandas
from batch2online.frames.columns import LARGEST, MISSING, ColumnType, EncodedColumn
from batch2online.frames.objects import objects
from batch2online.frames.strings import StringTable
from batch2online.schema import require, storable

FRAMES = {"pandas": pandas.series_of, "polars": arrow.polars_of, "arrow": arrow.array_of}
"""Kinds of tables with named columns, and what makes a column of each."""

LISTS = ("list", "dicts", "array of texts", "pandas series", "polars series")
"""Kinds of rows that are one text each."""

CONTAINERS = (*FRAMES, *LISTS, "array")

_BOUNDS: dict[str, float] = {
    ColumnType.BOOLEAN: 1.0,
    ColumnType.DATE: 3e6,
    ColumnType.DURATION: 9e18,
    ColumnType.STRING: 2.0**52,
}
_BOUNDS |= dict.fromkeys((ColumnType.TIME, ColumnType.ZONED), 2.5e17)
"""Largest number that stands for a value of each kind."""

_ZONE = re.compile(r", (?:tz=)?(.+)\]")


@storable
@dataclass(frozen=True)
class Column:
    """What a column holds, and what the table that it came in calls that."""

    name: str | int | None
    kind: str
    form: str
    levels: tuple[str, ...] = ()

    def validate(self) -> None:
        require(self.kind in set(ColumnType) - {ColumnType.OTHER}, "a column holds what a column can hold.")
        require(pandas.FORMS.fullmatch(self.form) or arrow.FORMS.fullmatch(self.form), "a column has a known form.")
        require(len(set(self.levels)) == len(self.levels), "levels differ from each other.")

    def __post_init__(self) -> None:
        """Set the kind of a time with a zone, which files of earlier versions give by the form alone."""
        if self.kind == ColumnType.TIME and _ZONE.search(self.form):
            object.__setattr__(self, "kind", ColumnType.ZONED)

    @property
    def zone(self) -> str:
        """The zone of a column of times with one: that in which they came, or UTC."""
        found = _ZONE.search(self.form)
        return found[1] if found else "UTC"

    def joined(self, other: EncodedColumn) -> tuple[Column, FloatArray]:
        """Return the column after these cells, and their codes in it; ValueError if they are of another kind."""
        if other.kind in (self.kind, ColumnType.ALL_MISSING):
            return self, other.codes
        if self.kind == ColumnType.ALL_MISSING:
            return Column(self.name, other.kind, other.form, other.levels), other.codes
        if (self.kind, other.kind) == (ColumnType.NUMBER, ColumnType.BOOLEAN):
            return self, other.codes
        if (self.kind, other.kind) == (ColumnType.TIME, ColumnType.DATE):
            return self, np.where(other.codes == MISSING, MISSING, other.codes * 86_400e6)
        raise ValueError(self._refusal(other.kind))

    def _refusal(self, other: str) -> str:
        if self.kind == ColumnType.ZONED and other in (ColumnType.TIME, ColumnType.DATE):
            return (
                f"holds a {other} without a zone, but times with a zone in the rows before: say which zone it is in, "
                f"as pandas' .dt.tz_localize({self.zone!r}) does."
            )
        if other == ColumnType.ZONED and self.kind == ColumnType.TIME:
            return (
                "holds a time with a zone, but times without one in the rows before: convert it to their zone and "
                "drop it, as pandas' .dt.tz_convert('UTC').dt.tz_localize(None) does for UTC."
            )
        return f"holds values of the kind {other}, but {self.kind} in the rows before."


@storable
@dataclass(frozen=True)
class FrameSchema:
    """In what rows came, and what their columns hold."""

    container: str
    columns: tuple[Column, ...]

    def validate(self) -> None:
        require(self.container in CONTAINERS and self.columns, "a table has columns.")
        require(self.container not in LISTS or len(self.columns) == 1, "a list of texts is one column.")
        names = [column.name for column in self.columns]
        is_named = self.container in ("pandas", "polars", "arrow")
        require(not is_named or (None not in names and len(set(names)) == len(names)), "columns differ in their names.")

    @property
    def texts(self) -> list[int]:
        """Places of the columns that hold texts."""
        return [place for place, column in enumerate(self.columns) if column.kind == ColumnType.STRING]

    @property
    def numbers(self) -> list[int]:
        """Places of the columns that hold numbers or truth values."""
        kinds = (ColumnType.NUMBER, ColumnType.BOOLEAN)
        return [place for place, column in enumerate(self.columns) if column.kind in kinds]

    @property
    def is_numeric(self) -> bool:
        """Whether all columns hold numbers."""
        return len(self.numbers) == len(self.columns)

    def seen_in(self, points: FloatArray) -> dict[int, FloatArray]:
        """Return the categories that stand in these rows, for each column of categories."""
        forms = ("category", "Categorical", "Enum")
        places = [place for place, column in enumerate(self.columns) if column.form in forms]
        return {place: np.unique(points[:, place]) for place in places}

    def decoded(self, points: FloatArray, texts: StringTable, seen: dict[int, FloatArray] | None = None) -> Any:
        """Return rows as the kind of table in which they came.

        ``seen`` are the categories that columns may have, by their places: others become gaps.
        """
        seen = {} if seen is None else seen
        if self.container == "pandas" and {column.form for column in self.columns} == {"float64"} and self.is_numeric:
            return pandas.plain_frame([column.name for column in self.columns], _with_gaps(points))
        if self.container in FRAMES:
            make = FRAMES[self.container]
            made = [
                make(column.kind, column.form, column.levels, points[:, place], texts, seen.get(place))
                for place, column in enumerate(self.columns)
            ]
            return self._framed(made)
        if self.container == "array":
            return self._array(points, texts)
        return self._listed(texts.of(points[:, 0], None))

    def _framed(self, made: list[Any]) -> Any:
        names = [column.name for column in self.columns]
        if self.container == "pandas":
            return pandas.frame(names, made)
        if self.container == "polars":
            import polars as pl

            return pl.DataFrame({str(name): values for name, values in zip(names, made, strict=True)})
        import pyarrow as pa

        return pa.table(made, names=list(map(str, names)))

    def _array(self, points: FloatArray, texts: StringTable) -> Any:
        if self.is_numeric and all(column.form != "object" for column in self.columns):
            return _with_gaps(points)
        values = np.empty(points.shape, dtype=object)
        for place, column in enumerate(self.columns):
            values[:, place] = objects(column.kind, points[:, place], texts)
        return values

    def _listed(self, values: Any) -> Any:
        if self.container == "array of texts":
            return values
        if self.container == "dicts":
            return [json.loads(text) for text in values]
        if self.container == "list":
            return values.tolist()
        name, form = self.columns[0].name, self.columns[0].form
        if self.container == "pandas series":
            import pandas as pd

            return pd.Series(values, name=name, dtype=form if form in ("string", "str", "category") else object)
        import polars as pl

        return pl.Series(str(name or ""), values.tolist(), dtype=pl.String)

    def as_numbers(self, points: FloatArray) -> FloatArray:
        """Return rows as numbers to look at and not to learn from: 0 for gaps, texts between 0 and 1."""
        numbers = np.where(points == MISSING, 0.0, points)
        if self.texts:
            numbers[:, self.texts] /= 2.0**52
        return numbers

    def with_columns(self, columns: list[Column]) -> FrameSchema:
        """Return the same table with these columns; itself if they are the same."""
        return self if tuple(columns) == self.columns else replace(self, columns=tuple(columns))

    def check(self, points: FloatArray) -> None:
        """Raise ValueError unless the numbers can stand for what the columns hold."""
        for place, column in enumerate(self.columns):
            values = points[:, place][points[:, place] != MISSING]
            largest = _BOUNDS.get(column.kind, 0.0 if column.kind == ColumnType.ALL_MISSING else LARGEST)
            require((np.abs(values) <= largest).all(), f"a column of kind {column.kind} holds something else.")
            is_whole = column.kind in (ColumnType.NUMBER, ColumnType.ALL_MISSING) or (values == np.floor(values)).all()
            require(is_whole, f"a column of kind {column.kind} holds something else.")


def _with_gaps(points: FloatArray) -> FloatArray:
    gaps = points == MISSING
    return np.where(gaps, np.nan, points) if gaps.any() else points
