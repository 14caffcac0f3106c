"""Nothing of forgotten rows, of former histories or of looks is left in a file."""

from __future__ import annotations

import os
import pickle

import numpy as np
import pytest

from batch2online import Durable, OnlineClustering, OnlineRegression
from batch2online.refresh import Geometric
from batch2online.rows import Rows
from batch2online.storage import disk_history
from batch2online.storage.disk_history import DiskHistory, scratch
from batch2online.storage.tree import CheckpointError, parts_of, state_of

RNG = np.random.default_rng(0)
X = RNG.normal(size=(400, 2))
Y = X @ [1.0, -2.0] + RNG.normal(size=400)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "model.b2o"


def bytes_of(folder, name):
    return [(folder / each).read_bytes() for each in os.listdir(folder) if each.startswith(name)]


@pytest.mark.parametrize("history", ["memory", "disk"])
def test_no_byte_of_forgotten_rows_is_left_in_file_or_log(history, path, tmp_path):
    marked = X.copy()
    marked[:150] = np.pi * np.arange(1, 301).reshape(150, 2)
    place = "memory" if history == "memory" else tmp_path / "rows"
    with Durable(path, OnlineClustering(2, random_state=0, history=place), durability="os") as durable:
        for part in np.array_split(np.arange(400), 10):
            durable.partial_fit(marked[part])
        durable.checkpoint()
        durable.forget(range(150))
        for content in bytes_of(path.parent, path.name):
            assert not any(number.tobytes() in content for number in marked[:150].ravel()[::7])
        assert any(marked[399].tobytes() in content for content in bytes_of(path.parent, path.name))


def test_a_shorter_history_leaves_no_segment_behind(path):
    with Durable(
        path, OnlineRegression(random_state=0, keep_history=True, refresh=Geometric(1.3)), durability="os"
    ) as durable:
        for part in np.array_split(np.arange(400), 10):
            durable.partial_fit(X[part], Y[part])
        durable.checkpoint()
        ((before,),) = durable._session.database.select("SELECT count(*) FROM history")
        durable.forget(range(10, 400))
        ((after,),) = durable._session.database.select("SELECT count(*) FROM history")
        assert after < before
        assert after == durable.model._stream.view().history.n_segments


def segment(first, stop):
    ids = np.arange(first, stop)
    return Rows(np.stack([ids, ids], axis=1) * 1.0, np.empty((len(ids), 0)), np.ones(len(ids)), ids)


def numbers(database):
    return [number for (number,) in database.select("SELECT number FROM history ORDER BY number")]


def test_a_history_that_was_rewritten_leaves_nothing_behind_and_looking_writes_nothing():
    database = scratch()
    assert database.select("PRAGMA secure_delete") == [(1,)]
    history = DiskHistory(10, 2, 0, database)
    for first in range(0, 300, 10):
        history = history.append(segment(first, first + 10))
    history.write()
    before = numbers(database)
    assert len(before) == 30
    looking = history.for_reading()
    for first in range(300, 600, 10):
        looking = looking.append(segment(first, first + 10))
    assert numbers(database) == before
    other = history.emptied()
    for first in range(0, 300, 20):
        other = other.append(segment(first, first + 10))
    other.write()
    assert history.everything().ids.tolist() == list(range(300))
    other.tidy()
    assert len(numbers(database)) == 15
    assert other.everything().ids.tolist() == [i for i in range(300) if i % 20 < 10]


def test_reading_a_history_on_disk_holds_few_segments():
    history = DiskHistory(10, 2, 0, scratch())
    for first in range(0, 500, 10):
        history = history.append(segment(first, first + 10))
    history.write()
    assert len(list(history)) == 50
    assert len(history._recent) <= disk_history._CACHED


def test_a_history_on_disk_is_never_read_from_the_tree_of_a_state():
    rows = Rows(np.ones((2, 1)), np.empty((2, 0)), np.ones(2), np.arange(2))
    history = DiskHistory(10, 1, 0, scratch())
    history = history.append(rows)
    assert pickle.loads(pickle.dumps(history)).ids().tolist() == [0, 1]
    with pytest.raises(CheckpointError, match="rows on disk lie in their table"):
        state_of(parts_of(history))
