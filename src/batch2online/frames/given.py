"""Rows as the estimator inside is given them."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from batch2online._types import FloatArray
from batch2online.frames.cells import GAP
from batch2online.frames.table import LISTS, TableKind
from batch2online.frames.texts import Texts
from batch2online.rows import Rows


@dataclass(frozen=True)
class GivenRows:
    """What rows of numbers stand for; arrays stand for themselves, where there is no table."""

    table: TableKind | None = None
    texts: Texts = field(default_factory=Texts)

    def decoded(
        self, points: FloatArray, trained: FloatArray | None = None, more: dict[float, str] | None = None
    ) -> Any:
        """Return rows as the kind that came in.

        ``trained`` are those that a model was solved on, which decide the categories that it knows; ``more`` are
        texts of these rows, if they are not among the rows learned.
        """
        if self.table is None:
            return points
        seen = None if trained is None else self.table.seen_in(trained)
        return self.table.decoded(points, self.texts if more is None else self.texts.beside(more), seen)

    def numbers(self, rows: Rows) -> Rows:
        """Return rows as numbers that can be compared."""
        return rows if self.table is None else replace(rows, points=self.table.as_numbers(rows.points))

    @property
    def are_numbers(self) -> bool:
        """Whether all columns hold numbers."""
        return self.table is None or self.table.is_numeric

    def has_texts(self, points: FloatArray) -> bool:
        """Whether the texts of all these rows are known."""
        return self.table is None or self.texts.holds(points[:, self.table.texts])

    def within(self, parts: list[FloatArray]) -> GivenRows:
        """Return the same with the texts that these rows need, and no others."""
        if self.table is None:
            return self
        codes = [np.unique(points[:, self.table.texts]) for points in parts]
        return replace(self, texts=self.texts.within(np.concatenate([np.empty(0), *codes])))

    def merged(self, other: GivenRows) -> GivenRows:
        """Return what stands for the rows of both; ValueError if they are of different kinds."""
        if self.table is None or other.table is None:
            if (self.table is None) != (other.table is None):
                raise ValueError("Can only merge rows of the same kind: tables with tables, arrays with arrays.")
            return self
        columns = [_merged(one, two) for one, two in zip(self.table.columns, other.table.columns, strict=True)]
        if (self.table.container in LISTS) != (other.table.container in LISTS):
            raise ValueError("Can only merge rows of the same kind: tables with tables, texts with texts.")
        texts = self.texts.copy()
        texts.add(other.texts._known)
        return GivenRows(self.table.with_columns(columns), texts)


def _merged(one: Any, two: Any) -> Any:
    if one.kind == two.kind or two.kind == "gaps":
        return one
    if one.kind == "gaps":
        return two
    raise ValueError(
        f"Can only merge columns of the same kind: {one.name!r} holds {one.kind} here and {two.kind} there."
    )


def first_gap(points: FloatArray) -> tuple[int, int] | None:
    """Return row and column of the first gap."""
    gaps = points == GAP
    return divmod(int(gaps.argmax()), points.shape[1]) if gaps.any() else None
