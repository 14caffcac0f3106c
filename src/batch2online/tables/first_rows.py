"""The first rows of a stream, from which the features of its tables are learned."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Annotated, Any

import numpy as np

from batch2online._types import FloatArray
from batch2online.rows import ones
from batch2online.schema import shape, storable
from batch2online.tables.columns import NUMBER, Column, TypedTable, joined


@storable
@dataclass(frozen=True, eq=False)
class FirstRows:
    """All rows of a stream as they came, their targets and weights, in one or more parts.

    ``tail`` are rows of numbers that came one by one, with their targets; each stream has its own.
    """

    tables: tuple[TypedTable, ...] = ()
    targets: tuple[Annotated[FloatArray, shape("n", "t")], ...] = ()
    weights: tuple[Annotated[FloatArray, shape("n")], ...] = ()
    tail: list[tuple[Any, Any]] = field(default_factory=list)

    def __len__(self) -> int:
        return self._n_in_parts + len(self.tail)

    @cached_property
    def _n_in_parts(self) -> int:
        return sum(map(len, self.tables))

    def stored_fields(self) -> dict[str, Any]:
        """Return the rows in one part, for a file."""
        own = self.in_one
        return {"tables": own.tables, "targets": own.targets, "weights": own.weights, "tail": []}

    @property
    def parts(self) -> FirstRows:
        """The same rows with the single ones as a part."""
        if not self.tail:
            return self
        rows, targets = (np.array(part, dtype=np.float64) for part in zip(*self.tail, strict=True))
        table = TypedTable(self.tables[0].names, tuple(Column(NUMBER, values) for values in rows.T.copy()), len(rows))
        return FirstRows(self.tables, self.targets, self.weights).plus(
            table, targets.reshape(len(rows), -1), ones(len(rows))
        )

    @property
    def in_one(self) -> FirstRows:
        """The same rows in one part."""
        own = self.parts
        if len(own.tables) < 2:
            return own
        joint = np.concatenate(own.targets), np.concatenate(own.weights)
        return FirstRows((joined(own.tables),), (joint[0],), (joint[1],))

    def plus(self, table: TypedTable, targets: FloatArray, weights: FloatArray) -> FirstRows:
        """Return the rows with further ones."""
        own = self.parts if len(self.tables) < _MOST_PARTS else self.in_one
        new = FirstRows((*own.tables, table), (*own.targets, targets), (*own.weights, weights))
        vars(new)["_n_in_parts"] = len(own) + len(table)
        return new

    def append_one(self, values: Sequence[float], target: tuple[float, ...], learn: Callable[[], bool]) -> bool:
        """Add a row of numbers in place if ``learn`` learns it; return whether it did."""
        n = len(self.tail)
        try:
            self.tail.append((values, target))
            is_learned = learn()
        except BaseException:
            del self.tail[n:]
            raise
        if not is_learned:
            del self.tail[n:]
        return is_learned


_MOST_PARTS = 64
