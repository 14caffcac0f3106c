"""Which rows the monitor watches: blocks of 64, all of the first, then fewer and fewer, at places fixed beforehand.

Of the blocks between ``D 2^(j-1)`` and ``D 2^j``, every ``2^j``-th is watched. So of n rows O(log n) are watched, and
the rows until so many more are watched stay a share of those seen. A choice that does not look at the rows leaves
their order random.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from batch2online._types import IntArray
from batch2online.monitor.betting import BLOCK

DENSE = 2**15 // BLOCK
"""So many blocks are watched one and all: D."""


def watched_blocks(first: int, n: int) -> IntArray:
    """Return which blocks are watched of those that n rows from number ``first`` on lie in.

    >>> watched_blocks(0, 130).tolist(), watched_blocks(BLOCK * (DENSE + 5), 4 * BLOCK).tolist()
    ([0, 1, 2], [518, 520])
    """
    blocks = np.arange(first // BLOCK, _end(first, n))
    if first + n <= DENSE * BLOCK:
        return blocks
    doublings = np.maximum(np.frexp(blocks / DENSE)[1], 0).astype(np.int64)
    return np.asarray(blocks[blocks % (np.int64(1) << doublings) == 0])


def places_of(blocks: IntArray, first: int, n: int) -> Any:
    """Return where the rows of these blocks stand among n rows from number ``first`` on."""
    if len(blocks) == _end(first, n) - first // BLOCK:
        return slice(0, n)
    places = (blocks[:, None] * BLOCK + np.arange(BLOCK)).reshape(-1) - first
    return places[(places >= 0) & (places < n)]


def n_watched(rows: int) -> int:
    """Return how many of so many rows are watched.

    >>> n_watched(1000), n_watched(10**6), n_watched(10**9)
    (1000, 113216, 276288)
    """
    blocks, left = divmod(rows, BLOCK)
    whole, least, every = min(blocks, DENSE), DENSE, 2
    while least < blocks:
        whole += -(-min(blocks, 2 * least) // every) - -(-least // every)
        least, every = 2 * least, 2 * every
    return whole * BLOCK + (left if len(watched_blocks(blocks * BLOCK, 1)) else 0)


def _end(first: int, n: int) -> int:
    """Return the number of the block after the last that these rows lie in."""
    return -(-(first + n) // BLOCK)
