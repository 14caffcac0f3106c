"""All rows seen, in blocks aligned to their ids."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from heapq import merge
from itertools import groupby
from operator import itemgetter

import numpy as np

from batch2online._types import IntArray
from batch2online.coreset import Rows, all_ones, ones
from batch2online.storage import storable

_FEW = 64


@storable
class History:
    """Rows in ascending ids. Rows of one block of ids stay together, however they came."""

    def __init__(self, block: int, width: int, n_targets: int) -> None:
        self.block, self.width, self.n_targets = block, width, n_targets
        self.blocks: list[Rows] = []
        self.pieces: list[Rows] = []  # of the block that is not complete yet
        self.rows = 0

    def __len__(self) -> int:
        return self.rows

    def append(self, rows: Rows) -> None:
        """Add rows of one block, with larger ids than all before. They are copied."""
        if self.pieces and self.pieces[-1].ids[-1] // self.block != rows.ids[0] // self.block:
            self._close()
        self.pieces.append(_copied(rows))
        self.rows += len(rows)
        if rows.ids[-1] % self.block == self.block - 1:
            self._close()

    def _close(self) -> None:
        self.blocks.append(self._open_block())
        self.pieces = []

    def _open_block(self) -> Rows:
        """The rows of the block that is not complete yet, in one piece."""
        if len(self.pieces) > 1:
            rows = Rows.concatenate(self.pieces)
            self.pieces = [replace(rows, weights=ones(len(rows))) if all_ones(rows.weights) else rows]
        return self.pieces[0]

    @property
    def n_closed(self) -> int:
        """Rows in blocks that are complete."""
        return self.rows - sum(len(rows) for rows in self.pieces)

    def discard(self) -> None:
        """Remove all that is on disk."""

    def clean_up(self) -> None:
        """Remove what a history before this one has left behind, unless a checkpoint may still name it."""

    def before_checkpoint(self) -> None:
        """Make durable what a checkpoint will not hold itself."""

    def after_checkpoint(self) -> None:
        """Remove what no checkpoint needs any more."""

    def from_row(self, start: int) -> Iterator[Rows]:
        """Blocks from the ``start``-th row on, the last one as far as it has come."""
        for rows in self:
            if start < len(rows):
                yield rows[start:] if start else rows
            start = max(0, start - len(rows))

    def __iter__(self) -> Iterator[Rows]:
        yield from self.blocks
        if self.pieces:
            yield self._open_block()

    def at(self, positions: IntArray) -> Rows:
        """The rows at these positions, counted from 0 in the order of ids."""
        blocks = list(self)
        starts = np.cumsum([0] + [len(rows) for rows in blocks])
        which = np.searchsorted(starts, positions, side="right") - 1
        if len(positions) <= _FEW:
            return self._gathered([(blocks[b], int(p - starts[b])) for b, p in zip(which, positions, strict=True)])
        order = np.argsort(positions, kind="stable")
        cuts = np.searchsorted(positions[order], starts)
        found = [
            blocks[b][positions[order[cuts[b] : cuts[b + 1]]] - starts[b]]
            for b in range(len(blocks))
            if cuts[b] < cuts[b + 1]
        ]
        rows = Rows.concatenate(found)
        return rows if (np.diff(order) > 0).all() else rows[np.argsort(order, kind="stable")]

    def _gathered(self, places: list[tuple[Rows, int]]) -> Rows:
        return Rows(
            np.array([rows.points[i] for rows, i in places]).reshape(len(places), self.width),
            np.array([rows.targets[i] for rows, i in places]).reshape(len(places), self.n_targets),
            np.array([rows.weights[i] for rows, i in places], dtype=np.float64),
            np.array([rows.ids[i] for rows, i in places], dtype=np.int64),
        )

    def everything(self) -> Rows:
        """All rows in one piece."""
        return Rows.concatenate([Rows.empty(self.width, self.n_targets), *self])

    def ids(self) -> IntArray:
        return np.concatenate([np.empty(0, dtype=np.int64), *(rows.ids for rows in self)])

    def merged(self, other: History) -> History:
        """Both together; ids are disjoint."""
        new = self.emptied()
        for rows in _interleaved(self, other):
            new.append(rows)
        return new

    def emptied(self) -> History:
        """A history of the same shape without any rows, in the same place."""
        return History(self.block, self.width, self.n_targets)

    def copy(self) -> History:
        """An independent copy; what is written later to one is not in the other."""
        twin: History = object.__new__(type(self))
        twin.__dict__.update(self.__dict__)
        twin.blocks, twin.pieces = list(self.blocks), list(self.pieces)
        return twin


def _interleaved(one: History, other: History) -> Iterator[Rows]:
    """The blocks of both in ascending ids; where both have a part of a block, the parts are joined."""
    keyed = ((rows.ids[0] // one.block, rows) for rows in merge(one, other, key=lambda rows: int(rows.ids[0])))
    for _, group in groupby(keyed, key=itemgetter(0)):
        joined = Rows.concatenate([rows for _, rows in group])
        yield joined[np.argsort(joined.ids, kind="stable")]


def _copied(rows: Rows) -> Rows:
    """Rows whose arrays belong to nobody else."""
    weights = ones(len(rows)) if all_ones(rows.weights) else rows.weights.copy()
    return Rows(rows.points.copy(), rows.targets.copy(), weights, rows.ids.copy())
