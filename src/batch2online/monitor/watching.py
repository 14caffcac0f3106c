"""Which rows the monitor watches: blocks of 64, all of the first, then one in two, then one in four.

Places are fixed beforehand: a choice that does not look at the rows leaves their order random. Fewer blocks cost less,
and the delay of an alarm grows as they get fewer: with one in four it is some three times as long.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from batch2online._types import IntArray
from batch2online.monitor.betting import BLOCK

DENSE = 2**15 // BLOCK
"""So many blocks are watched one and all."""

_DOUBLINGS = 2
"""Later, one in two is watched until there are twice as many, and so on: one in four in the end."""


def watched_blocks(first: int, n: int) -> IntArray:
    """Return which blocks are watched of those that n rows from number ``first`` on lie in.

    >>> watched_blocks(0, 130).tolist(), watched_blocks(BLOCK * (DENSE + 5), 4 * BLOCK).tolist()
    ([0, 1, 2], [518, 520])
    """
    block, end = first // BLOCK, _end(first, n)
    parts = []
    while block < end:
        doublings = min((block // DENSE).bit_length(), _DOUBLINGS)
        every = 1 << doublings
        stop = end if doublings == _DOUBLINGS else min(end, DENSE * every)  # the same up to the next doubling
        parts.append(np.arange(-(-block // every) * every, stop, every))
        block = stop
    return parts[0] if len(parts) == 1 else np.concatenate([np.empty(0, dtype=np.int64), *parts])


def places_of(blocks: IntArray, first: int, n: int) -> Any:
    """Return where the rows of these blocks stand among n rows from number ``first`` on."""
    if len(blocks) == _end(first, n) - first // BLOCK:
        return slice(0, n)
    places = (blocks[:, None] * BLOCK + np.arange(BLOCK)).reshape(-1) - first
    return places[(places >= 0) & (places < n)]


def n_watched(rows: int) -> int:
    """Return how many of so many rows are watched.

    >>> n_watched(1000), n_watched(10**6)
    (1000, 282816)
    """
    blocks, left = divmod(rows, BLOCK)
    whole = min(blocks, DENSE)
    for doublings in range(1, _DOUBLINGS + 1):
        every, first = 2**doublings, DENSE * 2 ** (doublings - 1)
        stop = blocks if doublings == _DOUBLINGS else min(blocks, 2 * first)
        whole += max(0, -(-stop // every) - -(-first // every))
    return whole * BLOCK + (left if len(watched_blocks(blocks * BLOCK, 1)) else 0)


def _end(first: int, n: int) -> int:
    """Return the number of the block after the last that these rows lie in."""
    return -(-(first + n) // BLOCK)
