"""What is noted of rows that are watched, until bets on them are made."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import groupby, pairwise
from typing import Any, NamedTuple

import numpy as np

from batch2online import sampling
from batch2online._types import ByteArray, FloatArray, IntArray, WordArray
from batch2online.drift.betting import BLOCK
from batch2online.drift.reference_model import ReferenceModel
from batch2online.drift.sampling_plan import THINNINGS, Watched

MOST_BYTES = 2**20
"""So much may be noted before it is packed, and twice as much when it is, before bets are made."""

MOST_PARTS = 2**8

_TOGETHER = 2**14
"""Rows that are packed together, about."""


class Run(NamedTuple):
    """Rows in a row: the number of the first since the reference model was made, its id, and how many they are."""

    number: int
    first_id: int
    n: int

    def is_followed_by(self, other: Run) -> bool:
        """Whether both are one, in which the same share of the blocks is watched."""
        number, first_id = self.number + self.n, self.first_id + self.n
        return other.number == number and other.first_id == first_id and number not in THINNINGS


@dataclass(frozen=True)
class Noted:
    """Rows that were watched and not yet bet on.

    Their ``values`` (m, n) under the ``reference`` model, whose first rows they may be, or the bins of their scores, as
    bytes; the runs of rows that they are the watched ones of; the row count at which numbers begin; the bytes of values
    noted so far.
    """

    reference: ReferenceModel
    is_first: bool
    values: Any
    runs: tuple[Run, ...]
    origin: int
    seed: int
    total: int

    def bins(self) -> ByteArray:
        """Return the bins of the scores of these rows, (K, n)."""
        return self.values if self.values.dtype == np.uint8 else self.reference.bins(self.values)

    def uniforms(self) -> FloatArray:
        """Return the uniforms that rows own, which break ties."""
        return sampling.uniforms_of(np.concatenate([_words(self.seed, run) for run in self.runs]))

    def ends(self) -> IntArray:
        """Return the row counts after the blocks of these rows."""
        return (
            self.origin + BLOCK + np.unique(np.concatenate([Watched(run.number, run.n).blocks() for run in self.runs]))
        )


def _words(seed: int, run: Run) -> WordArray:
    """Return the words of rows that are watched: drawn with those between them, which is fastest."""
    words = sampling.words(seed, sampling.ORDER, range(run.first_id, run.first_id + run.n))
    watched: WordArray = Watched(run.number, run.n).of_values(words)
    return watched


def runs_of(number: int, ids: IntArray) -> tuple[Run, ...]:
    """Return the runs that rows with these ids consist of, the first of which has this number.

    >>> runs_of(100, np.array([3, 4, 5, 9]))
    (Run(number=100, first_id=3, n=3), Run(number=103, first_id=9, n=1))
    """
    if int(ids[-1] - ids[0]) == len(ids) - 1:
        return (Run(number, int(ids[0]), len(ids)),)
    cuts = [0, *(np.flatnonzero(np.diff(ids) != 1) + 1).tolist(), len(ids)]
    return tuple(Run(number + start, int(ids[start]), stop - start) for start, stop in pairwise(cuts))


def is_much(parts: tuple[Noted, ...]) -> bool:
    """Whether what is noted is to be packed."""
    return len(parts) > MOST_PARTS or (bool(parts) and parts[-1].total > MOST_BYTES)


def packed(parts: tuple[Noted, ...]) -> tuple[Noted, ...]:
    """Return the same in bins, those that one reference model has scored together, but not too many."""
    groups = groupby(parts, key=lambda part: (id(part.reference), part.seed))
    return tuple(_as_one(own) for _, group in groups for own in _batches(group))


def _batches(parts: Iterable[Noted]) -> list[list[Noted]]:
    """Return the parts in lists of enough rows each, but for the last: bets are made on one at a time."""
    batches: list[list[Noted]] = [[]]
    for part in parts:
        batches[-1].append(part)
        if sum(each.values.shape[1] for each in batches[-1]) >= _TOGETHER:
            batches.append([])
    return [batch for batch in batches if batch]


def _as_one(parts: list[Noted]) -> Noted:
    if len(parts) == 1 and parts[0].values.dtype == np.uint8:
        return parts[0]
    bins = np.concatenate([part.bins() for part in parts], axis=1)
    return replace(parts[0], values=bins, runs=_joined([run for part in parts for run in part.runs]), total=0)


def _joined(runs: list[Run]) -> tuple[Run, ...]:
    """Return the same rows in as few runs as possible."""
    result = runs[:1]
    for run in runs[1:]:
        last = result[-1]
        if last.is_followed_by(run):
            result[-1] = last._replace(n=last.n + run.n)
        else:
            result.append(run)
    return tuple(result)
