"""Keys of rows and of calls: what counts as one, what is refused, how many are kept, and that none is left over."""

from __future__ import annotations

import sqlite3
import time

import numpy as np
import pytest

from batch2online import Durable, OnlineRegression
from batch2online.refresh import Geometric
from batch2online.storage import keys
from batch2online.storage.database import Database
from batch2online.storage.errors import DuplicateKey, StoreCorrupted, UnknownKey
from state_bytes import serialise

RNG = np.random.default_rng(0)
X = RNG.normal(size=(400, 2))
Y = X @ [1.0, -2.0] + RNG.normal(size=400)


def model(**settings):
    given = {"random_state": 0, "keep_history": True, "coreset_size": 30, "refresh": Geometric(1.5)}
    return OnlineRegression(**given | settings)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "model.b2o"


def opened(path, **settings):
    return Durable(path, model(), durability="os", **settings)


# -- of rows -------------------------------------------------------------------------------------------------


def test_rows_are_forgotten_by_their_keys(path):
    with opened(path, checkpoint_rows=70) as durable:
        for start in range(0, 200, 25):
            rows = slice(start, start + 25)
            durable.partial_fit(X[rows], Y[rows], keys=[f"customer-{i:05}" for i in range(start, start + 25)])
        gone = [3, 77, 120, 199]
        durable.forget(keys=[f"customer-{i:05}" for i in gone])
        contents = b"".join(file.read_bytes() for file in path.parent.iterdir())
        expected = model().partial_fit(X[:200], Y[:200]).forget(gone)
        assert serialise(durable.model._state()) == serialise(expected._state())
    for content in (contents, path.read_bytes()):
        for i in gone:
            assert f"customer-{i:05}".encode() not in content
            assert X[i].tobytes() not in content


def test_forgetting_by_ids_removes_the_keys_as_well(path):
    with Durable(path, model(first_id=1000), durability="os") as durable:
        durable.partial_fit(X[:50], Y[:50], keys=[f"name-{i:03}" for i in range(50)])
        durable.forget([1007])
        with pytest.raises(UnknownKey, match="no row with the key 'name-007'"):
            durable.forget(keys=["name-007"])
        durable.partial_fit(X[7:8], Y[7:8], keys=["name-007"]).forget(keys=["name-007"])
        with pytest.raises(ValueError, match="Pass ids or keys"):
            durable.forget()


def test_a_key_is_used_once(path):
    with opened(path) as durable:
        durable.partial_fit(X[:3], Y[:3], keys=["a", 1, "1"])
        before = serialise(durable.model._state())
        with pytest.raises(DuplicateKey, match=r"has learned a row with the key 1, 'a' already\."):
            durable.partial_fit(X[3:7], Y[3:7], keys=["b", 1, "c", "a"])
        with pytest.raises(DuplicateKey, match=r"keys must differ, got more than once: 'b'\."):
            durable.partial_fit(X[3:6], Y[3:6], keys=["b", "c", "b"])
        with pytest.raises(UnknownKey, match="no row with the key 'b', 2"):
            durable.forget(keys=["a", "b", 2])
        assert serialise(durable.model._state()) == before
    with Durable.open(path) as durable, pytest.raises(DuplicateKey, match="'1' already"):
        durable.partial_fit(X[3:4], Y[3:4], keys=np.array(["1"]))


@pytest.mark.parametrize(
    ("wrong", "error", "says"),
    [
        ("ab", TypeError, "a list of strings or integers, one for each row"),
        (5, TypeError, "a list of strings or integers"),
        (["a"], ValueError, "got 1 keys for 2 rows"),
        ([1.0, 2.0], TypeError, "a string or an integer, got 1.0 of type float"),
        ([True, "b"], TypeError, "got True of type bool"),
        (["a", None], TypeError, "got None"),
        (["a", 2**64], ValueError, "beyond 64 bits: pass '18446744073709551616'"),
        (["a", "b\ud800"], ValueError, "lone surrogate at position 1"),
    ],
)
def test_other_keys_of_rows_are_refused(wrong, error, says, path):
    with opened(path) as durable:
        durable.partial_fit(X[:10], Y[:10])
        for call in (lambda: durable.partial_fit(X[:2], Y[:2], keys=wrong), lambda: durable.predict(X[:2], keys=wrong)):
            with pytest.raises(error, match=says):
                call()
        assert durable.n_seen_ == 10


def test_rows_of_weight_zero_have_no_key(path):
    with opened(path) as durable:
        durable.partial_fit(X[:4], Y[:4], [1.0, 0.0, 2.0, 1.0], keys=["a", "b", "c", "d"])
        with pytest.raises(UnknownKey, match="'b'"):
            durable.forget(keys=["b"])
        durable.partial_fit(X[1:2], Y[1:2], keys=["b"]).forget(keys=["c"])
        expected = model().partial_fit(X[[0, 2, 3, 1]], Y[[0, 2, 3, 1]], [1.0, 2.0, 1.0, 1.0]).forget([1])
        assert serialise(durable.model._state()) == serialise(expected._state())


# -- of calls ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("key", [5, 5.0, b"5", ("5",), True])
def test_a_key_of_a_call_is_a_string(key, path):
    with opened(path) as durable:
        durable.partial_fit(X[:10], Y[:10], key="5")
        calls = (
            lambda: durable.partial_fit(X[:10], Y[:10], key=key),
            lambda: durable.learn_one(X[0], 1.0, key=key),
            lambda: durable.forget([1], key=key),
            lambda: durable.merge(durable.model, key=key),
        )
        for call in calls:
            with pytest.raises(TypeError, match=r"^key must be a string, got .*: pass "):
                call()
        with pytest.raises(ValueError, match="lone surrogate at position 1: pass valid Unicode"):
            durable.partial_fit(X[:10], Y[:10], key="a\ud800")
        assert durable.model.n_seen_ == 10


def test_a_key_is_one_for_all_calls_and_across_reopening(path):
    """Each call is sent three times: twice to the same object, and once after a crash."""
    other = model(first_id=1000).partial_fit(X[100:150], Y[100:150])
    calls = (
        lambda durable: durable.partial_fit(X[:90], Y[:90], keys=range(90), key="rows"),
        lambda durable: durable.learn_one(X[90], float(Y[90]), key="one"),
        lambda durable: durable.merge(other, key="merge"),
        lambda durable: durable.forget([3, 1003], key="forget"),
        lambda durable: durable.forget(keys=[5], key="forget by key"),
        lambda durable: durable.forget([4], key="rows"),
    )
    for call, rows in zip(calls, (90, 91, 141, 139, 138, 138), strict=True):
        durable = opened(path)
        call(durable)
        call(durable)
        durable._session.abandon()
        with opened(path) as again:
            call(again)
            assert again.model.n_seen_ == rows


def n_stored(durable):
    ((size,),) = durable._session.database.select("SELECT sum(length(content)) FROM key")
    return size // 24


@pytest.mark.parametrize("keep", [1, 7, 300])
def test_only_the_newest_keys_are_kept(keep, path, monkeypatch):
    monkeypatch.setattr(keys, "BUCKETS", 4)
    with opened(path, keep_keys=keep) as durable:
        for number in range(40):
            durable.partial_fit(X[:1], Y[:1], key=str(number))
        remembered = [key for key in map(str, range(40)) if durable.has_key(key)]
        assert remembered == [str(number) for number in range(max(0, 40 - keep), 40)]
        assert n_stored(durable) <= keep + 30  # older ones are dropped when their bucket is written
        for number in range(200):
            durable.partial_fit(X[:1], Y[:1], key=f"later {number}")
        assert n_stored(durable) <= keep + 30


@pytest.mark.parametrize("keep", [0, -1, 2.5, None, True, "all"])
def test_keep_keys_is_a_count(keep, path):
    with pytest.raises(ValueError, match="keep_keys must be a whole number above 0"):
        opened(path, keep_keys=keep)
    assert not path.exists()


@pytest.mark.full
def test_many_keys_take_no_more_time_to_open(path):
    """Two thousand times as many, and they are found."""
    seconds = {}
    for name, count in (("few", 10), ("many", 20_000)):
        own = path.with_name(name)
        with opened(own) as durable:
            durable.partial_fit(X[:10], Y[:10])
            numbers, database = {f"key {number}": number for number in range(count)}, durable._session.database
            database.transact(lambda: keys.Keys(database, "call").add(numbers))  # noqa: B023
        times = []
        for _ in range(5):
            start = time.perf_counter()
            durable = opened(own)
            times.append(time.perf_counter() - start)
            assert durable.partial_fit(X[:10], Y[:10], key=f"key {count - 1}").model.n_seen_ == 10
            durable.close()
        seconds[name] = min(times)
    assert seconds["many"] < 5 * seconds["few"]


def test_opening_reads_no_keys(path, monkeypatch):
    with opened(path) as durable:
        durable.partial_fit(X[:10], Y[:10], keys=range(10), key="a")
    asked, get = [], Database.get
    monkeypatch.setattr(Database, "get", lambda self, table, number: asked.append(table) or get(self, table, number))
    opened(path).close()
    assert "state" in asked
    assert "key" not in asked


@pytest.mark.parametrize(
    "damage",
    [
        "DELETE FROM key",
        "UPDATE key SET content = zeroblob(length(content))",
        "UPDATE key SET content = zeroblob(0)",
        "UPDATE key SET crc = crc + 1",
        "UPDATE key SET number = number + 4096",
    ],
)
def test_damaged_keys_are_an_error_and_never_unknown(damage, path):
    with opened(path) as durable:
        durable.partial_fit(X[:3], Y[:3], keys=["a", "b", "c"], key="call")
    with sqlite3.connect(path) as connection:
        connection.execute(damage)
    connection.close()
    calls = (
        lambda: durable.forget(keys=["c"]),
        lambda: durable.partial_fit(X[:1], Y[:1], keys=["b"]),
        lambda: durable.partial_fit(X[:1], Y[:1], key="call"),
    )
    with Durable.open(path) as durable:
        for call in calls:
            with pytest.raises(StoreCorrupted, match=r"is damaged: keys are missing or changed"):
                call()
        assert durable.partial_fit(X[:2], Y[:2]).n_seen_ == 5
