"""Rows in ranges of ids that do not depend on the partitions.

Where shards do not add up to the same bits whatever rows each of them has, what each of them has is fixed: a *span* is
a range of so many ids. Its rows are learned as one stream, in as many pieces as there are partitions that hold some of
them, and spans merge in a tree that their number decides. So the result is a function of the rows and the seed, and up
to the first border it is that of one stream.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from dask import delayed

from batch2online.distributed.partitions import Partition, Table, with_rows
from batch2online.distributed.shards import Piece, shard_of
from batch2online.sketches import spans as span_tree


def spans(template: Any, table: Table) -> list[Any]:
    """Return what makes a shard of each span that has rows."""
    parts, known = with_rows(table), dict[int, Any]()
    last = parts[-1].first_id + parts[-1].n_ids
    for part in parts:
        for start, stop in _ranges(part):
            piece = Piece(part.place, start, stop, ends=stop % span_tree.SPAN_IDS == 0 or stop == last)
            known[start // span_tree.SPAN_IDS] = learned(
                template, known.get(start // span_tree.SPAN_IDS), part, piece, table
            )
    return list(known.values())


def learned(template: Any, known: Any, part: Partition, piece: Piece, table: Table) -> Any:
    """Return what makes a shard of a piece of a partition, and of what is known before it."""
    learn = delayed(shard_of, pure=False)
    return learn(template, known, part.rows, part.targets, part.weights, piece, table.columns, table.target)


def _ranges(part: Partition) -> Iterator[tuple[int, int]]:
    """Yield the ranges of ids that a partition has in each span."""
    start, end = part.first_id, part.first_id + part.n_ids
    while start < end:
        stop = min(end, (start // span_tree.SPAN_IDS + 1) * span_tree.SPAN_IDS)
        yield start, stop
        start = stop
