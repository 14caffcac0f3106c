"""Rows in ranges of ids that do not depend on the partitions.

The rows of a span of ids (see :mod:`batch2online.sketches.spans`) are learned by one shard, in as many pieces as there
are partitions that hold some of them. Shards of whole spans merge to the same bits in any order where the coreset is a
function of the set of rows. Other shards are streams, and merge in a tree that the number of spans decides.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from dask import delayed

from batch2online.distributed.partitions import Partition, Table, with_rows
from batch2online.distributed.shards import Piece, shard_of
from batch2online.sketches import spans as span_tree


def spans(template: Any, table: Table) -> tuple[list[Any], list[Any]]:
    """Return the tasks that make a shard of each span with rows, and those of all pieces of partitions."""
    parts, shards, pieces = with_rows(table), dict[int, Any](), list[Any]()
    last, size = parts[-1].first_id + parts[-1].n_ids, span_tree.SPAN_IDS
    for part in parts:
        for start, stop in _ranges(part):
            piece = Piece(part.place, start, stop, ends=stop % size == 0 or stop == last)
            pieces.append(learned(template, shards.get(start // size), part, piece, table))
            shards[start // size] = pieces[-1]
    return list(shards.values()), pieces


def learned(template: Any, known: Any, part: Partition, piece: Piece, table: Table) -> Any:
    """Return the task that adds a piece of a partition to the shard before it."""
    learn = delayed(shard_of, pure=False)
    return learn(template, known, part.rows, part.targets, part.weights, piece, table.columns, table.target)


def _ranges(part: Partition) -> Iterator[tuple[int, int]]:
    """Yield the ranges of ids that a partition has in each span."""
    start, end = part.first_id, part.first_id + part.n_ids
    while start < end:
        stop = min(end, (start // span_tree.SPAN_IDS + 1) * span_tree.SPAN_IDS)
        yield start, stop
        start = stop
