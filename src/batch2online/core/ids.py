"""Ids of rows: those that were seen, as half-open intervals, and checks of those that are given."""

from __future__ import annotations

from typing import Any

import numpy as np

from batch2online._types import IntArray

Intervals = list[tuple[int, int]]


def check_ids(ids: Any, known: IntArray, otherwise: str = "were never seen or are forgotten already") -> IntArray:
    """Return the ids as an array of integers, all of them known; ``otherwise`` is said of those that are not."""
    array = np.atleast_1d(np.asarray(ids))
    if array.size == 0:
        return np.empty(0, dtype=np.int64)
    if array.ndim != 1 or array.dtype.kind not in "iu":
        raise ValueError(f"ids must be integers, got an array of {array.dtype} with {array.ndim} dimensions.")
    unknown = array[~np.isin(array, known)]
    if unknown.size:
        raise ValueError(f"Cannot forget ids that {otherwise}: {unknown[:5].tolist()}.")
    return array.astype(np.int64)


def extended(intervals: Intervals, start: int, stop: int) -> Intervals:
    """Return the intervals with one more."""
    if intervals and intervals[-1][1] == start:
        return [*intervals[:-1], (intervals[-1][0], stop)]
    return united(intervals, [(start, stop)])


def united(one: Intervals, other: Intervals) -> Intervals:
    """Return the intervals of both, sorted, neighbours joined.

    >>> united([(0, 5), (9, 12)], [(5, 7)])
    [(0, 7), (9, 12)]
    """
    joined: Intervals = []
    for start, stop in sorted(one + other):
        if joined and start <= joined[-1][1]:
            joined[-1] = (joined[-1][0], max(stop, joined[-1][1]))
        else:
            joined.append((start, stop))
    return joined


def check_disjoint(one: Intervals, other: Intervals) -> None:
    """Refuse ids that both have seen."""
    for start, stop in one:
        for other_start, other_stop in other:
            if start < other_stop and other_start < stop:
                overlap = f"{max(start, other_start)} to {min(stop, other_stop) - 1}"
                raise ValueError(f"Shards need disjoint ids (first_id): both have seen ids {overlap}.")
