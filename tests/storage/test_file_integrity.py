"""What files promise: order of syncs, rows and parts in their places, one owner, nothing left over."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import stat
from itertools import combinations

import numpy as np
import pytest

from batch2online import Durable, OnlineClassifier, OnlineRegression, load
from batch2online.refresh import Geometric
from batch2online.storage import atomic, owner
from batch2online.storage.database import Database, arrays_as_bytes
from batch2online.storage.errors import StoreCorrupted, StoreError, StoreLocked
from batch2online.storage.tree import CheckpointError
from state_bytes import serialise

RNG = np.random.default_rng(0)
X = RNG.normal(size=(400, 2))
Y = X @ [1.0, -2.0] + RNG.normal(size=400)
W = RNG.uniform(0.5, 2, size=400)


def regression(**settings):
    return OnlineRegression(**{"random_state": 0, "coreset_size": 50} | settings)


def state(model):
    return serialise(model._state())


def altered(path, *statements):
    connection = sqlite3.connect(path)
    for statement in statements:
        connection.execute(statement)
    connection.commit()
    connection.close()


@pytest.fixture
def path(tmp_path):
    return tmp_path / "model.b2o"


# -- places and counts -----------------------------------------------------------------------------------


def swapped(table, one, other):
    """Statements that exchange two rows of a table."""
    cases = f"CASE number WHEN {-1 - one} THEN {other} ELSE {one} END"
    return (
        f"UPDATE {table} SET number = -1 - number WHERE number IN ({one}, {other})",
        f"UPDATE {table} SET number = {cases} WHERE number < 0",
    )


def test_parts_of_a_state_and_segments_that_have_changed_places_are_noticed(path, tmp_path):
    """All pairs of parts of the same size, and two segments of the history."""
    model = regression(keep_history=True, refresh=Geometric(1.5))
    for part in np.array_split(np.arange(400), 4):
        model.partial_fit(X[part], Y[part])
    model.save(path)
    connection = sqlite3.connect(path)
    sizes = dict(connection.execute("SELECT number, length(content) FROM state WHERE number > 0"))
    connection.close()
    pairs = [pair for pair in combinations(sizes, 2) if sizes[pair[0]] == sizes[pair[1]]]
    assert pairs
    for statements in (*(swapped("state", *pair) for pair in pairs[:12]), swapped("history", 0, 1)):
        copy = shutil.copy(path, tmp_path / "copy")
        altered(copy, *statements)
        with pytest.raises((CheckpointError, StoreCorrupted), match=r"checksum|damaged"):
            load(copy)


def test_a_state_and_a_history_of_different_moments_are_refused(path):
    """All checksums are right, but the counts are not those that the state was written with."""
    model = regression(keep_history=True, refresh=Geometric(1.5)).partial_fit(X, Y)
    model.save(path)
    database = Database(path, "live")
    branch, segments = database.meta["history"]
    database.transact(lambda: database.meta.update(history=[branch, segments - 1]))
    database.pragma("journal_mode=DELETE")
    database.close()
    with pytest.raises((CheckpointError, StoreCorrupted), match="lost rows"):
        load(path)


def crashed(durable, to):
    """Return a copy of the files as a crash would leave them."""
    to.mkdir()
    for name in os.listdir(durable.path.parent):
        if name.startswith(durable.path.name):
            shutil.copy(durable.path.parent / name, to / name)
    return to / durable.path.name


def test_calls_in_the_tail_that_have_changed_places_are_noticed(path, tmp_path):
    durable = Durable(path, regression(), durability="os")
    for part in np.array_split(np.arange(400), 8):
        durable.partial_fit(X[part], Y[part])
    copy = crashed(durable, tmp_path / "there")
    durable.close()
    altered(copy, *swapped("journal", 1, 2))
    with pytest.raises((CheckpointError, StoreCorrupted)):
        Durable.open(copy, accept_loss=True)


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE meta SET text = replace(text, '\"commit\": ', '\"commit\": 1')",
        "UPDATE meta SET crc = crc + 1",
        "DELETE FROM meta",
        "DELETE FROM state WHERE number = 2",
        "DELETE FROM journal WHERE number = 2",
        "DELETE FROM journal WHERE number = (SELECT max(number) FROM journal)",
        "DELETE FROM history WHERE number = 0",
        "UPDATE state SET content = zeroblob(length(content)) WHERE number = 1",
        "UPDATE journal SET content = zeroblob(length(content)) WHERE number = 1",
        "UPDATE history SET content = zeroblob(length(content)) WHERE number = 0",
        "CREATE TABLE other (a)",
    ],
)
def test_altered_counts_lost_rows_and_damaged_blobs_are_noticed(statement, path, tmp_path):
    durable = Durable(path, regression(keep_history=True), durability="os")
    for part in np.array_split(np.arange(400), 8):
        durable.partial_fit(X[part], Y[part], key=str(part[0]))
    copy = crashed(durable, tmp_path / "there")
    durable.close()
    altered(copy, statement)
    with pytest.raises((CheckpointError, StoreCorrupted)):
        Durable.open(copy, accept_loss=True)


BAD_ROWS = {
    "an unknown label": (X[:3], np.full((3, 1), 5.0), [[0.0, 0], [1.0, 1]]),
    "another width": (X[:3, :1], np.zeros((3, 1)), [[0.0, 0], [1.0, 1]]),
    "a missing target": (X[:3], np.zeros((3, 0)), [[0.0, 0], [1.0, 1]]),
    "infinity": (np.full((3, X.shape[1]), np.inf), np.zeros((3, 1)), [[0.0, 0], [1.0, 1]]),
}


@pytest.mark.parametrize("bad", BAD_ROWS)
def test_rows_of_a_journal_have_the_types_and_shapes_of_the_model(bad, path):
    """All checksums and counts are right."""
    durable = Durable(path, OnlineClassifier(random_state=0), durability="os")
    durable.partial_fit(X[:50], Y[:50] > 0).partial_fit(X[50:60], Y[50:60] > 0)
    points, targets, labels = BAD_ROWS[bad]
    database = durable._session.database

    def replace():
        shapes, content = arrays_as_bytes(points, targets, np.ones(len(points)))
        database.put("journal", 0, json.dumps([shapes, labels, False]), content)

    database.transact(replace)
    durable._session.abandon()
    with pytest.raises(StoreCorrupted, match="the rows of call 0 cannot be learned again"):
        Durable.open(path)


# -- one call, one transaction -----------------------------------------------------------------------------


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("checkpoint_rows", [100, 10**6])
def test_a_crash_after_any_call_gives_the_model_of_the_calls(weighted, checkpoint_rows, path, tmp_path):
    durable = Durable(path, regression(keep_history=True), durability="os", checkpoint_rows=checkpoint_rows)
    plain = regression(keep_history=True)
    for number, part in enumerate(np.array_split(np.arange(400), 9)):
        own = W[part] if weighted else None
        durable.partial_fit(X[part], Y[part], own)
        plain.partial_fit(X[part], Y[part], own)
        if number % 3 == 2:
            with Durable.open(crashed(durable, tmp_path / str(number))) as again:
                assert state(again.model) == state(plain)
                assert again.model.n_seen_ == plain.n_seen_
    durable.checkpoint()
    with Durable.open(crashed(durable, tmp_path / "last")) as again:
        assert again.reopened.replayed == 0
        assert state(again.model) == state(plain)
    durable.close()
    with Durable.open(path) as again:
        assert again.reopened.replayed == 0
        assert state(again.model) == state(plain)


def test_an_error_leaves_model_and_file_together(path, monkeypatch):
    with Durable(path, regression(), durability="os") as durable:
        durable.partial_fit(X[:100], Y[:100])
        before = state(durable.model)
        with monkeypatch.context() as patch:
            patch.setattr("batch2online.storage.journal.append", lambda *_: 1 / 0)
            with pytest.raises(ZeroDivisionError):
                durable.partial_fit(X[100:200], Y[100:200])
        assert state(durable.model) == before
        durable.partial_fit(X[100:200], Y[100:200])
    assert state(load(path)) == state(regression().partial_fit(X[:100], Y[:100]).partial_fit(X[100:200], Y[100:200]))


def test_a_key_is_carried_out_once_and_rows_past_the_file_are_refused(path):
    with Durable(path, regression(), durability="os") as durable:
        for _ in range(3):
            durable.partial_fit(X[:50], Y[:50], key="a")
        assert durable.model.n_seen_ == 50
        with pytest.raises(StoreError, match="belongs to the Durable of"):
            durable.model.partial_fit(X[50:60], Y[50:60])
    with Durable.open(path) as durable:
        assert durable.partial_fit(X[:50], Y[:50], key="a").model.n_seen_ == 50


def test_replaced_segments_of_a_history_are_written(path, tmp_path):
    """Forgetting changes segments in their places; a later state must hold the new ones."""
    with Durable(path, regression(keep_history=True), durability="os") as durable:
        durable.partial_fit(X[:200], Y[:200])
        durable.forget(range(50))
        durable.partial_fit(X[200:], Y[200:])
        durable.checkpoint()
        durable.forget([399])
        expected = state(durable.model)
    again = load(path)
    assert state(again) == expected
    assert again._stream.view().history.ids().tolist() == [*range(50, 399)]


# -- what a loss of power may take ------------------------------------------------------------------------------


@pytest.mark.parametrize(("durability", "level"), [("every", 2), ("batch", 1), ("os", 1)])
def test_the_log_is_synced_at_every_call_where_that_is_promised(durability, level, path):
    with Durable(path, regression(), durability=durability) as durable:
        assert durable._session.database.select("PRAGMA synchronous") == [(level,)]
        assert durable._session.database.select("PRAGMA secure_delete") == [(1,)]


def recorded(monkeypatch):
    """Note syncs and renames in their order."""
    done, fsync, replace = [], os.fsync, os.replace

    def note_sync(descriptor):
        done.append(("sync", os.readlink(f"/proc/self/fd/{descriptor}")))
        fsync(descriptor)

    def note_replace(old, new):
        done.append(("replace", str(old), str(new)))
        replace(old, new)

    monkeypatch.setattr(atomic.os, "fsync", note_sync)
    monkeypatch.setattr(atomic.os, "replace", note_replace)
    return done


on_linux = pytest.mark.skipif(not os.path.exists("/proc/self/fd"), reason="the system does not say what is synced")


@on_linux
def test_a_saved_file_is_synced_before_it_has_its_name_and_its_folder_after(path, monkeypatch):
    done = recorded(monkeypatch)
    regression().partial_fit(X, Y).save(path)
    (where,) = [i for i, act in enumerate(done) if act[0] == "replace"]
    _, temporary, target = done[where]
    assert target == str(path)
    assert ("sync", temporary) in done[:where]
    assert ("sync", str(path.parent)) in done[where:]


@on_linux
def test_the_note_of_the_owner_is_synced_when_a_file_is_opened(path, monkeypatch):
    done = recorded(monkeypatch)
    Durable(path, regression(), durability="os").close()
    assert ("sync", str(path) + "-owner") in done


def test_a_file_keeps_its_rights_and_a_link_stays_one(tmp_path):
    real, link = tmp_path / "real", tmp_path / "link"
    model = regression().partial_fit(X, Y)
    model.save(real)
    os.chmod(real, 0o640)
    link.symlink_to(real)
    model.save(link)
    assert link.is_symlink()
    assert stat.S_IMODE(real.stat().st_mode) == 0o640


# -- one owner -----------------------------------------------------------------------------------------------------


def test_one_owner_at_a_time_who_leaves_one_file(path):
    with Durable(path, regression(), durability="os") as durable:
        durable.partial_fit(X, Y)
        with pytest.raises(StoreLocked):
            Durable.open(path)
        with pytest.raises(CheckpointError, match="not closed"):
            load(path)
    assert os.listdir(path.parent) == [path.name]


def test_a_file_that_was_moved_or_replaced_is_not_written_to(path, tmp_path):
    durable = Durable(path, regression(), durability="os").partial_fit(X[:50], Y[:50])
    os.rename(path, tmp_path / "elsewhere")
    regression().partial_fit(X[:10], Y[:10]).save(path)
    content = path.read_bytes()
    with pytest.raises(StoreError, match="moved, replaced or removed"):
        durable.partial_fit(X[50:], Y[50:])
    durable.close()
    assert path.read_bytes() == content


def test_the_note_of_another_owner_is_not_removed(tmp_path):
    first = owner.Owner(tmp_path / "model")
    with pytest.raises(StoreLocked):
        owner.Owner(tmp_path / "model")
    first.path.unlink()
    second = owner.Owner(tmp_path / "model")
    first.release(remove=True)
    assert second.path.exists()
    second.release(remove=True)
    assert not second.path.exists()


def test_a_file_with_the_note_of_another_is_refused(tmp_path):
    """The two are copies of one model taken at different openings."""
    places = []
    for name in ("one", "other"):
        durable = Durable(tmp_path / name, regression(), durability="os").partial_fit(X, Y)
        places.append(crashed(durable, tmp_path / f"copy of {name}"))
        durable.close()
    shutil.copy(str(places[1]) + "-owner", str(places[0]) + "-owner")
    with pytest.raises(StoreCorrupted, match="copied while it was open"):
        Durable.open(places[0])


def test_calls_that_are_lost_with_the_log_are_noticed_and_counted(path, tmp_path):
    durable = Durable(path, regression(), durability="os").partial_fit(X[:100], Y[:100])
    older = crashed(durable, tmp_path / "older")
    for i in range(100, 103):
        durable.learn_one(X[i], Y[i])
    newer = crashed(durable, tmp_path / "newer")
    durable.close()
    shutil.copy(str(newer) + "-owner", str(older) + "-owner")
    with pytest.raises(StoreCorrupted, match="lost the last 3 calls"):
        Durable.open(older)
    with Durable.open(older, accept_loss=True) as rest:
        assert rest.reopened.lost == 3


def test_a_fork_may_not_write(path):
    with Durable(path, regression(), durability="os").partial_fit(X[:50], Y[:50]) as durable:
        child = os.fork()
        if not child:
            code = 1
            try:
                durable._session.database.transact(lambda: None)
            except StoreError:
                code = 0
            finally:
                os._exit(code)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
