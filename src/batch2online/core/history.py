"""All rows seen, in blocks aligned to their ids."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from heapq import merge
from itertools import groupby, pairwise
from operator import itemgetter
from typing import ClassVar

import numpy as np

from batch2online._types import IntArray
from batch2online.core.memory import joined
from batch2online.core.registry import storable
from batch2online.core.rows import Rows, all_ones, ones

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

    is_in_memory: ClassVar[bool] = True
    _starts: IntArray | None = None  # of the blocks that are complete, once asked for

    def append(self, rows: Rows, owned: bool = False) -> None:
        """Add rows of one block, with larger ids than all before. They are copied unless they are ``owned``."""
        if self.pieces and self.pieces[-1].ids[-1] // self.block != rows.ids[0] // self.block:
            self._close()
        self.pieces.append(_kept(rows, owned))
        self.rows += len(rows)
        if rows.ids[-1] % self.block == self.block - 1:
            self._close()

    def _close(self) -> None:
        self.blocks.append(self._open_block())
        self.pieces = []

    def _open_block(self) -> Rows:
        """The rows of the block that is not complete yet, in one piece."""
        if len(self.pieces) > 1:
            self.pieces = [_joined(self.pieces)]
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
        blocks, starts = [*self.blocks, *([self._open_block()] if self.pieces else [])], self._block_starts()
        which = np.searchsorted(starts, positions, side="right") - 1
        places = positions - starts[which]
        if len(positions) <= _FEW:
            return self._at_few(blocks, which.tolist(), places.tolist())
        if (np.diff(positions) >= 0).all():
            return self._at_ascending(blocks, which, places)
        order = np.argsort(positions, kind="stable")
        rows = self._at_ascending(blocks, which[order], places[order])
        return rows[np.argsort(order, kind="stable")]

    def _block_starts(self) -> IntArray:
        """The position of the first row of each block, and of the one that is not complete."""
        starts = self._starts
        if starts is None or len(starts) != len(self.blocks) + 1:
            self._starts = starts = np.cumsum([0, *map(len, self.blocks)])
        return starts

    def _room(self, n: int, blocks: Iterable[Rows]) -> Rows:
        """Room for n rows of these blocks; weights that are all one are there already."""
        weights = ones(n) if all(all_ones(block.weights) for block in blocks) else np.empty(n)
        return Rows(np.empty((n, self.width)), np.empty((n, self.n_targets)), weights, np.empty(n, dtype=np.int64))

    def _at_few(self, blocks: list[Rows], which: list[int], places: list[int]) -> Rows:
        rows = self._room(len(places), [blocks[b] for b in set(which)])
        has_weights = rows.weights.strides != (0,)
        for to, (b, at) in enumerate(zip(which, places, strict=True)):
            block = blocks[b]
            rows.points[to], rows.ids[to] = block.points[at], block.ids[at]
            if self.n_targets:
                rows.targets[to] = block.targets[at]
            if has_weights:
                rows.weights[to] = block.weights[at]
        return rows

    def _at_ascending(self, blocks: list[Rows], which: IntArray, places: IntArray) -> Rows:
        cuts = np.searchsorted(which, np.arange(len(blocks) + 1)).tolist()
        found = [
            (blocks[b], slice(start, stop), places[start:stop])
            for b, (start, stop) in enumerate(pairwise(cuts))
            if start < stop
        ]
        rows = self._room(len(places), (block for block, _, _ in found))
        for block, to, at in found:
            np.take(block.points, at, axis=0, out=rows.points[to], mode="clip")  # any other mode makes a copy
            np.take(block.ids, at, out=rows.ids[to], mode="clip")
            if self.n_targets:
                rows.targets[to] = block.targets[at]
            if rows.weights.strides != (0,):
                rows.weights[to] = block.weights[at]
        return rows

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


def _joined(pieces: list[Rows]) -> Rows:
    points = joined([rows.points for rows in pieces])
    rows = Rows.concatenate([replace(rows, points=rows.points[:, :0]) for rows in pieces])
    return replace(rows, points=points, weights=ones(len(rows)) if all_ones(rows.weights) else rows.weights)


def _kept(rows: Rows, owned: bool) -> Rows:
    """Rows whose arrays belong to nobody else; ids never did."""
    if all_ones(rows.weights):
        rows = replace(rows, weights=ones(len(rows)))
    if owned:
        return rows
    weights = rows.weights if rows.weights.strides == (0,) else rows.weights.copy()
    return replace(rows, points=rows.points.copy(), targets=rows.targets.copy(), weights=weights)
