"""Ranks of rows among those before them, from bins alone.

A score is quantised into bins that are fixed beforehand. Of a row with ``less`` earlier rows in lower bins and
``equal`` ones in its own, the rank is ``(less + u (equal + 1)) / t`` with the row's own uniform u and t rows with this
one. In random order, ranks are independent and uniform on (0, 1), exactly: ties are broken by u. Counts of the bins are
all that is remembered of earlier rows.

The rows of a block that fall into a bin are the bits of one word. Words of different bins have no bit in common, so
their sums tell which rows are lower, and those before a row are counted 64 at a time.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from batch2online._types import ByteArray, FloatArray, IntArray, WordArray
from batch2online.drift.betting import BLOCK, CELLS

BINS = 64
_HALF = BLOCK // 2
_BITS = 2.0 ** np.arange(_HALF)
_EARLIER = (np.uint64(1) << np.arange(BLOCK, dtype=np.uint64)) - np.uint64(1)
"""For each row of a block, the bits of those before it."""


def ranked(bins: ByteArray, u: FloatArray, counts: IntArray) -> tuple[IntArray, IntArray]:
    """Return how often ranks fall into the cells, (blocks, K, cells), and the counts of the bins after these rows.

    Parameters
    ----------
    bins : array of bytes (K, blocks, 64)
        Where the scores of the rows fall.
    u : array (blocks, 64)
        The uniforms that the rows own.
    counts : array (K, bins)
        How often each bin has come before.
    """
    scores, blocks, _ = bins.shape
    places = bins + BINS * np.arange(scores * blocks).reshape(scores, blocks, 1)
    members = _members(places)
    before = np.empty((scores, blocks + 1, BINS), dtype=np.int64)
    before[:, 0] = counts
    before[:, 1:] = np.bitwise_count(members)
    np.cumsum(before, axis=1, out=before)
    equal = _up_to(np.ascontiguousarray(before[:, :-1]), members, places)
    less = _up_to(_lower(before[:, :-1]), _lower(members), places)
    t = int(counts[0].sum()) + np.arange(1, blocks * BLOCK + 1).reshape(blocks, BLOCK)
    cells = ((less + u * (equal + 1)) * (CELLS / t)).astype(np.intp)
    np.minimum(cells, CELLS - 1, out=cells)  # where rounding has made a rank of one
    cells += CELLS * np.arange(scores * blocks).reshape(scores, blocks, 1)
    found = np.bincount(cells.reshape(-1), minlength=scores * blocks * CELLS).reshape(scores, blocks, CELLS)
    return found.transpose(1, 0, 2), before[:, -1]


def _members(places: IntArray) -> WordArray:
    """Return for each bin of each block the rows in it, as bits: (K, blocks, bins)."""
    scores, blocks, _ = places.shape
    words = [
        np.bincount(half.reshape(-1), np.tile(_BITS, scores * blocks), scores * blocks * BINS).astype(np.uint64)
        for half in (places[..., :_HALF], places[..., _HALF:])
    ]
    return (words[0] | (words[1] << np.uint64(_HALF))).reshape(scores, blocks, BINS)


def _lower(of_bins: Any) -> Any:
    """Return for each bin what those below it have together."""
    total = np.cumsum(of_bins, axis=2, dtype=of_bins.dtype)
    total -= of_bins
    return total


def _up_to(counts: IntArray, members: WordArray, places: IntArray) -> IntArray:
    """Return for each row the count of its bin, and of the members before it in its own block."""
    return counts.take(places) + np.bitwise_count(members.take(places) & _EARLIER)
