"""Intervals of ids are sets of integers: compared with sets, for all small cases."""

from __future__ import annotations

from itertools import combinations, pairwise, product

import numpy as np
import pytest

from batch2online.rows import check_disjoint, check_ids, extended, united

SMALL = [list(pair) for pair in combinations(range(6), 2)]
FEW = [[]] + [[tuple(one)] for one in SMALL] + [[(0, 1), (2, 3)], [(0, 2), (4, 5)], [(1, 2), (3, 5)]]


def ids_of(intervals):
    return {i for start, stop in intervals for i in range(start, stop)}


def is_tidy(intervals):
    return all(a < b < c for (a, b), (c, _) in pairwise(intervals))


@pytest.mark.parametrize("one", FEW)
def test_the_union_is_that_of_sets_sorted_and_joined(one):
    for other in FEW:
        joined = united(one, other)
        assert ids_of(joined) == ids_of(one) | ids_of(other)
        assert is_tidy(joined)


def test_one_more_interval_is_a_union():
    for intervals, (start, stop) in product(FEW, SMALL):
        if not ids_of(intervals) & set(range(start, stop)):
            before = list(intervals)
            longer = extended(intervals, start, stop)
            assert ids_of(longer) == ids_of(intervals) | set(range(start, stop))
            assert is_tidy(longer)
            assert intervals == before


def test_exactly_those_that_share_an_id_are_refused():
    for one, other in product(FEW, FEW):
        shared = ids_of(one) & ids_of(other)
        if not shared:
            check_disjoint(one, other)
            continue
        with pytest.raises(ValueError, match="disjoint ids") as refusal:
            check_disjoint(one, other)
        first, last = (int(word.rstrip(".")) for word in str(refusal.value).split()[-3::2])
        assert set(range(first, last + 1)) <= shared


def test_only_known_ids_can_be_forgotten():
    known = np.array([2, 3, 5])
    assert check_ids([5, 2, 2], known).tolist() == [5, 2, 2]
    assert check_ids([], known).tolist() == []
    for bad in ([4], [2, 6], [2.0], [[2]], ["2"]):
        with pytest.raises(ValueError, match="ids"):
            check_ids(bad, known)
