"""A history is a list of rows: everything it answers is compared with plain arrays."""

from __future__ import annotations

import copy
import itertools
import pickle

import numpy as np
import pytest

from batch2online.history import History
from batch2online.rows import Rows
from batch2online.storage.disk_history import DiskHistory, scratch

BLOCK = 10
IN_MEMORY, ON_DISK = History, lambda *shape: DiskHistory(*shape, scratch())


def rows_of(first, stop, weighted=False, step=1):
    """Rows whose every number tells the id."""
    ids = np.arange(first, stop, step)
    points, targets = np.stack([ids, -ids], axis=1) + 0.25, ids[:, None] * 2.0
    return Rows(points, targets, 1.0 + ids % 3 if weighted else np.ones(len(ids)), ids)


def same(rows, ids, weighted=False):
    expected = rows_of(0, max(ids, default=-1) + 1, weighted)[np.array(ids, dtype=np.int64)]
    return all(
        np.array_equal(getattr(rows, name), getattr(expected, name)) for name in ("points", "targets", "weights", "ids")
    )


def filled(make, cuts, weighted=False):
    history = make(BLOCK, 2, 1)
    for first, stop in itertools.pairwise(cuts):
        history = history.append(rows_of(first, stop, weighted))
    return history


CUTS = [0, 3, 10, 11, 12, 20, 30, 34]


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("make", [IN_MEMORY, ON_DISK])
def test_every_position_and_every_start_gives_the_rows_of_a_list(make, weighted):
    history, n = filled(make, CUTS, weighted), CUTS[-1]
    assert len(history) == n
    assert same(history.everything(), range(n), weighted)
    assert history.ids().tolist() == list(range(n))
    for start in range(n + 1):
        read = [row for rows in history.from_row(start) for row in rows.ids.tolist()]
        assert read == list(range(start, n))
        assert same(history.at(np.arange(start, n)), range(start, n), weighted)
        if start < n:
            assert same(history.at(np.array([start])), [start], weighted)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("make", [IN_MEMORY, ON_DISK])
@pytest.mark.parametrize("count", [5, 64, 65, 200])
def test_positions_in_any_order_and_repeated(make, weighted, count):
    history = filled(make, CUTS, weighted)
    for positions in np.random.default_rng(count).integers(CUTS[-1], size=(3, count)):
        assert same(history.at(positions), positions, weighted)
        assert same(history.at(np.sort(positions)), np.sort(positions), weighted)


@pytest.mark.parametrize("make", [IN_MEMORY, ON_DISK])
def test_what_a_caller_does_with_its_arrays_later_is_of_no_concern(make):
    history, given = make(BLOCK, 2, 1), rows_of(0, 10, weighted=True)
    history = history.append(given)
    for array in (given.points, given.targets, given.weights):
        array[...] = np.nan
    assert same(history.everything(), range(10), weighted=True)


@pytest.mark.parametrize("make", [IN_MEMORY, ON_DISK])
def test_copies_go_their_own_ways(make):
    """Two copies of one history, and the history itself, are each continued by rows of their own."""
    history = filled(make, [0, 4])
    first, second, history = (history.append(rows_of(4, stop)) for stop in (6, 7, 8))
    first = first.append(rows_of(6, 9))
    assert [len(each) for each in (first, second, history)] == [9, 7, 8]
    for each, stop in ((first, 9), (second, 7), (history, 8)):
        assert same(each.everything(), range(stop))
        assert same(each.at(np.arange(stop)), range(stop))


@pytest.mark.parametrize("make", [IN_MEMORY, ON_DISK])
def test_what_is_appended_to_a_copy_for_reading_is_nowhere_else(make):
    history = filled(make, CUTS)
    looked_at = history.for_reading()
    for first in range(34, 90, 2):
        looked_at = looked_at.append(rows_of(first, first + 2))
    assert same(looked_at.everything(), range(90))
    assert same(history.everything(), range(34))
    history = history.append(rows_of(34, 40))
    assert same(history.everything(), range(40))


def interleaved(make):
    one, other = make(BLOCK, 2, 1), make(BLOCK, 2, 1)
    for first in range(0, 40, BLOCK):
        one = one.append(rows_of(first, first + BLOCK, step=2))
        other = other.append(rows_of(first + 1, first + BLOCK, step=2))
    return one, other


@pytest.mark.parametrize("make", [IN_MEMORY, ON_DISK])
def test_merged_rows_are_in_the_order_of_ids(make):
    """Ids may interleave within a block, and blocks may interleave."""
    for one, other in (interleaved(make), interleaved(make)[::-1]):
        merged = one.merged(other)
        assert same(merged.everything(), range(40))
        assert all(len({*(rows.ids // BLOCK).tolist()}) == 1 for rows in merged)
    apart = filled(make, [20, 27, 30]).merged(filled(make, [0, 10, 15]))
    assert same(apart.everything(), [*range(15), *range(20, 30)])


def test_single_rows_are_joined_within_a_block_and_stay_the_same_rows():
    history = History(100, 2, 1)
    for i in range(250):
        history = history.append(rows_of(i, i + 1, weighted=True))
    assert history.n_segments < 150
    assert all(len({*(rows.ids // 100).tolist()}) == 1 for rows in history)
    assert same(history.everything(), range(250), weighted=True)
    assert same(history.at(np.arange(249, -1, -1)), range(249, -1, -1), weighted=True)


def test_weights_that_are_all_one_stay_so_when_weighted_rows_follow():
    history = History(BLOCK, 2, 1)
    history = history.append(rows_of(0, 10))
    history = history.append(rows_of(10, 20, weighted=True))
    assert history.everything().weights.tolist() == [1.0] * 10 + [1.0 + i % 3 for i in range(10, 20)]
    assert history.at(np.array([3, 11, 12])).weights.tolist() == [1.0, 3.0, 1.0]
    many = np.arange(19, -1, -1).repeat(4)
    assert np.array_equal(history.at(many).weights, history.everything().weights[many])


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda history: pickle.loads(pickle.dumps(history))])
@pytest.mark.parametrize("make", [IN_MEMORY, ON_DISK])
def test_a_pickle_holds_the_rows_that_this_history_sees(make, copied):
    history = filled(make, [0, 4])
    older = history.copy()
    history = history.append(rows_of(4, 9))
    assert same(copied(older).everything(), range(4))
    assert same(copied(history).everything(), range(9))
