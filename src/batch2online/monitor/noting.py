"""What is noted of rows that are watched, until bets on them are made."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby
from typing import Any

import numpy as np

from batch2online._types import ByteArray, FloatArray, IntArray
from batch2online.core import randomness
from batch2online.monitor.reference import ReferenceModel

MOST_BYTES = 2**20
"""So much may be noted before it is packed, and twice as much when it is, before bets are made."""

MOST_PARTS = 2**8


@dataclass(frozen=True)
class Noted:
    """Rows that were watched and not yet bet on.

    Their ``values`` (m, n) under the ``reference`` model, whose first rows they may be, or the bins of their scores, as
    bytes; their ids (n,), or first and number of those in a row (r, 2); the row counts after their blocks; the bytes of
    values noted so far.
    """

    reference: ReferenceModel
    is_first: bool
    values: Any
    ids: IntArray
    ends: IntArray
    seed: int
    total: int

    def bins(self) -> ByteArray:
        """Return the bins of the scores of these rows, (K, n)."""
        return self.values if self.values.dtype == np.uint8 else self.reference.bins(self.values.astype(np.float64))

    def uniforms(self) -> FloatArray:
        """Return the uniforms that rows own, which break ties: those of ids in a row at once, which is fastest."""
        words = [randomness.words(self.seed, randomness.ORDER, range(i, i + n)) for i, n in self.spans().tolist()]
        return randomness.uniforms_of(np.concatenate(words))

    def spans(self) -> IntArray:
        """Return first and number of ids in a row."""
        return spans_of(self.ids) if self.ids.ndim == 1 else self.ids


def is_much(parts: tuple[Noted, ...]) -> bool:
    """Whether what is noted is to be packed."""
    return len(parts) > MOST_PARTS or (bool(parts) and parts[-1].total > MOST_BYTES)


def spans_of(ids: IntArray) -> IntArray:
    """Return the first id of each row of consecutive ones, and how many they are.

    >>> spans_of(np.array([3, 4, 5, 9])).tolist()
    [[3, 3], [9, 1]]
    """
    cuts = np.concatenate([[0], np.flatnonzero(np.diff(ids) != 1) + 1, [len(ids)]])
    return np.stack([ids[cuts[:-1]], np.diff(cuts)], axis=1)


def packed(parts: tuple[Noted, ...]) -> tuple[Noted, ...]:
    """Return the same in bins, all that one reference model has scored together."""
    result = []
    for _, group in groupby(parts, key=lambda part: (id(part.reference), part.seed)):
        own = list(group)
        bins = np.concatenate([part.bins() for part in own], axis=1)
        spans, ends = np.concatenate([part.spans() for part in own]), np.concatenate([part.ends for part in own])
        result.append(Noted(own[0].reference, own[0].is_first, bins, spans, np.unique(ends), own[0].seed, total=0))
    return tuple(result)
