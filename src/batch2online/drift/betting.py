"""Bets against uniform ranks: a martingale if the ranks are independent and uniform, whatever the bets.

A rank in (0, 1) falls into one of ``CELLS`` equal cells. A bet is a table of payoffs over the cells with mean one,
chosen before the rank is known. Several gamblers bet side by side, each with its own table, over blocks of ``BLOCK``
rows; between blocks a share ``1 / (b + 2)`` of the capital is redistributed over all of them, so that a gambler who was
wrong for long can still win when rows change. The total capital starts at one. It is a non-negative martingale in the
filtration of the ranks, so the chance that it ever reaches ``1 / alpha`` is at most alpha (Ville's inequality).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np

from batch2online._types import ByteArray, FloatArray, IntArray, WordArray
from batch2online.schema import shape, storable

CELLS = 16
BLOCK = 64

_MIDDLES = (np.arange(CELLS) + 0.5) / CELLS - 0.5
_TILTS = (0.3, 0.8, 1.6)
_TAILS = (0.3, 0.8)
_MEMORIES = np.array([1.0, 0.98, 0.85])[:, None, None]
"""Decay of the past of learning gamblers per block: none, over about 3,000 rows, over about 400 rows."""

_PERIOD = 64
"""Blocks after which the decayed past is rescaled."""

_DOUBT = 8.0
"""Prior number of ranks in each cell, for learning gamblers."""


def _fixed_tables() -> FloatArray:
    """Return payoffs of gamblers who do not learn: no bet, tilts to either side, tails or the middle."""
    tails = 4 * np.abs(_MIDDLES) - 1
    bets = [0 * tails]
    bets += [sign * e * _MIDDLES for e in _TILTS for sign in (1, -1)]
    bets += [sign * e * tails for e in _TAILS for sign in (1, -1)]
    return 1 + np.array(bets)


_FIXED = np.log(_fixed_tables())
GAMBLERS = len(_FIXED) + len(_MEMORIES)
_START = np.full(GAMBLERS, 0.5 / (GAMBLERS - 1))
_ONES = np.ones((GAMBLERS, 1))
_START[0] = 0.5  # half of the capital does not bet: random order costs little


@storable
@dataclass(frozen=True)
class BettingCapital:
    """The gamblers of K scores after some blocks.

    ``shares`` (K, gamblers) are the shares of the gamblers in the capital, and ``logarithm`` (K,) is the logarithm of
    the capital. ``past`` (memories, K, cells) holds the ranks that gamblers with a memory have seen, with the weights
    of the last multiple of 64 blocks.
    """

    blocks: int
    shares: Annotated[FloatArray, shape("k", GAMBLERS)]
    logarithm: Annotated[FloatArray, shape("k")]
    past: Annotated[FloatArray, shape("memories", "k", CELLS)]

    @classmethod
    def of(cls, scores: int) -> BettingCapital:
        """Return a capital of one for each score."""
        return cls(0, np.tile(_START, (scores, 1)), np.zeros(scores), np.zeros((len(_MEMORIES), scores, CELLS)))

    def after(self, counts: IntArray) -> tuple[BettingCapital, FloatArray]:
        """Return the capital after blocks with these counts of ranks by cell, and its logarithm after each block.

        ``counts`` is (blocks, K, cells); the logarithms are (blocks, K).
        """
        past, known = self._pasts(counts)
        gains = np.exp(_log_gains(counts, past))
        shares, totals = self._shared(gains)
        logarithms = np.cumsum(np.concatenate([self.logarithm[None], np.log(totals)]), axis=0)[1:]
        return BettingCapital(self.blocks + len(counts), shares, logarithms[-1], known), logarithms

    def _pasts(self, counts: IntArray) -> tuple[FloatArray, FloatArray]:
        """Return what is remembered before each block, and what is kept of it after the last.

        Ranks fade by sums of counts that grow instead, since the last multiple of ``_PERIOD`` blocks: one pass.
        """
        past, known = np.empty((len(counts), *self.past.shape)), self.past
        start = 0
        while start < len(counts):
            at = (self.blocks + start) % _PERIOD
            stop = min(start + _PERIOD - at, len(counts))
            places = np.arange(at, at + stop - start)[:, None, None, None]
            grown = np.cumsum(
                np.concatenate([known[None], counts[start:stop, None] * _MEMORIES ** -(places + 1.0)]), axis=0
            )
            np.multiply(grown[:-1], _MEMORIES**places, out=past[start:stop])
            known = grown[-1] * _MEMORIES**_PERIOD if (self.blocks + stop) % _PERIOD == 0 else grown[-1]
            start = stop
        return past, known

    def _shared(self, gains: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the shares after all blocks, and the factor by which each block has multiplied the capital."""
        shares, totals = self.shares.copy(), np.empty((*gains.shape[:2], 1))
        rates = 1 / (np.arange(self.blocks, self.blocks + len(gains)) + 2.0)
        kept, spread = 1 - rates, rates[:, None] * _START
        for b, total in enumerate(totals):
            np.multiply(shares, gains[b], out=shares)
            np.matmul(shares, _ONES, out=total)
            np.multiply(shares, kept[b] / total, out=shares)
            np.add(shares, spread[b], out=shares)
        return shares, totals[..., 0]


def _log_gains(counts: IntArray, past: FloatArray) -> FloatArray:
    """Return the logarithm of the gain of each gambler, (blocks, K, gamblers)."""
    learned = past + _DOUBT
    learned *= CELLS / learned.sum(axis=-1, keepdims=True)
    np.log(learned, out=learned)
    learned *= counts[:, None]
    fixed = (counts[:, :, None] * _FIXED).sum(axis=-1)
    return np.concatenate([fixed, learned.sum(axis=-1).transpose(0, 2, 1)], axis=-1)


BINS = 64
_HALF = BLOCK // 2
_BITS = 2.0 ** np.arange(_HALF)
_EARLIER = (np.uint64(1) << np.arange(BLOCK, dtype=np.uint64)) - np.uint64(1)
"""For each row of a block, the bits of those before it."""


def ranked(bins: ByteArray, u: FloatArray, counts: IntArray) -> tuple[IntArray, IntArray]:
    """Return counts of ranks by cell, (blocks, K, cells), and the counts of the bins after these rows.

    Parameters
    ----------
    bins : array of bytes (K, blocks, 64)
        Bins of the scores of the rows.
    u : array (blocks, 64)
        Uniforms of the rows.
    counts : array (K, bins)
        Counts of each bin before.
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
    np.minimum(cells, CELLS - 1, out=cells)  # rounding can give a rank of one
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
    """Return for each bin the sum over the bins below it."""
    total = np.cumsum(of_bins, axis=2, dtype=of_bins.dtype)
    total -= of_bins
    return total


def _up_to(counts: IntArray, members: WordArray, places: IntArray) -> IntArray:
    """Return for each row the count of its bin, and of the members before it in its own block."""
    return counts.take(places) + np.bitwise_count(members.take(places) & _EARLIER)
