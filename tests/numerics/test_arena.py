"""Memory that is handed out in order, and room for intermediate results that is used again."""

from __future__ import annotations

import copy
import pickle
import threading

import numpy as np
import pytest

from batch2online.numerics.arena import Arena, joined
from batch2online.numerics.scratch import Scratch


def test_rows_that_are_handed_out_do_not_overlap():
    arena = Arena(3)
    arrays = [arena.rows(n) for n in (5, 1, 7, 2, 40, 3)]
    for number, rows in enumerate(arrays):
        rows[...] = number
    for number, rows in enumerate(arrays):
        assert (rows == number).all()


def test_large_arrays_hold_as_much_as_was_handed_out_before_within_bounds(monkeypatch):
    monkeypatch.setattr("batch2online.numerics.arena._LARGEST_BYTES", 8 * 2 * 100)
    arena = Arena(2)
    sizes = set()
    for _ in range(60):
        arena.rows(10)
        sizes.add(len(arena.large))
    assert sizes == {10, 20, 40, 80, 100}


def test_large_arrays_begin_where_huge_pages_do():
    arena = Arena(1000)
    arrays = [arena.rows(600) for _ in range(4)]
    assert arena.large.ctypes.data % 2**21 == 0
    assert joined(arrays[2:]).ctypes.data == arena.large.ctypes.data


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda arena: pickle.loads(pickle.dumps(arena))])
def test_a_copy_starts_with_nothing(copied):
    arena = Arena(2)
    arena.rows(10)
    twin = copied(arena)
    assert twin.columns == 2
    assert twin.handed_out == len(twin.large) == 0


def test_neighbours_are_joined_without_a_copy():
    arena = Arena(2)
    arena.rows(100)
    first, second, third = (arena.rows(n) for n in (3, 4, 5))
    arena.large[:] = np.arange(arena.large.size).reshape(arena.large.shape)
    whole = joined([first, second, third])
    assert np.shares_memory(whole, arena.large)
    np.testing.assert_array_equal(whole, np.concatenate([first, second, third]))


@pytest.mark.parametrize("order", [(1, 0), (0, 2)])
def test_others_are_copied(order):
    large = np.arange(30.0).reshape(15, 2)
    parts = [large[:5], large[5:9], large[9:]]
    arrays = [parts[place] for place in order]
    result = joined(arrays)
    assert not np.shares_memory(result, large)
    np.testing.assert_array_equal(result, np.concatenate(arrays))


def test_arrays_of_their_own_and_columns_apart_are_copied():
    wide = np.arange(40.0).reshape(10, 4)
    for arrays in ([np.ones((2, 3)), np.zeros((4, 3))], [wide[:5, :2], wide[5:, :2]]):
        result = joined(arrays)
        np.testing.assert_array_equal(result, np.concatenate(arrays))
        assert not any(np.shares_memory(result, array) for array in arrays)


def test_rooms_have_the_shape_and_type_asked_for_and_are_used_again():
    scratch = Scratch()
    small = scratch.room("a", (3, 4))
    assert small.shape == (3, 4)
    assert np.shares_memory(small, scratch.room("a", (2, 2)))
    assert not np.shares_memory(small, scratch.room("b", (3, 4)))
    assert scratch.room("a", (5,), np.bool_).dtype == np.bool_
    assert scratch.room("a", (1_000, 1_000)).shape == (1_000, 1_000)
    assert np.shares_memory(scratch.room("a", (3, 4)), scratch.room("a", (1_000, 1_000)))


def test_rooms_are_not_held_without_bound(monkeypatch):
    monkeypatch.setattr("batch2online.numerics.scratch._MOST", 100)
    scratch = Scratch()
    assert not np.shares_memory(scratch.room("a", (200,)), scratch.room("a", (200,)))
    for size in range(1, 100):
        for name in "abcde":
            scratch.room(name, (size,))
    assert len(scratch.views) <= 256


def test_threads_have_rooms_of_their_own():
    scratch, found = Scratch(), []
    own = scratch.room("a", (10,))
    thread = threading.Thread(target=lambda: found.append(scratch.room("a", (10,))))
    thread.start()
    thread.join()
    assert not np.shares_memory(own, found[0])
