"""Room for intermediate results that is used again."""

from __future__ import annotations

import threading

import numpy as np

from batch2online.numerics.distances import Scratch


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
    monkeypatch.setattr("batch2online.numerics.distances._MAX_SCRATCH", 100)
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
