"""Keys of rows: what counts as one, what is refused, and that a forgotten row leaves neither key nor row."""

from __future__ import annotations

import sqlite3

import numpy as np
import pytest

from batch2online import Durable, OnlineRegression
from batch2online.refresh import Geometric
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


def test_rows_are_forgotten_by_their_keys(path):
    with Durable(path, model(), durability="os", checkpoint_rows=70) as durable:
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
    assert b"name-007" not in path.read_bytes()


def test_a_key_is_used_once(path):
    with Durable(path, model(), durability="os") as durable:
        durable.partial_fit(X[:3], Y[:3], keys=["a", 1, "1"])
        before = serialise(durable.model._state())
        with pytest.raises(DuplicateKey, match=r"has learned a row with the key 1, 'a' already\."):
            durable.partial_fit(X[3:7], Y[3:7], keys=["b", 1, "c", "a"])
        with pytest.raises(DuplicateKey, match=r"keys must differ, got more than once: 'b'\."):
            durable.partial_fit(X[3:6], Y[3:6], keys=["b", "c", "b"])
        with pytest.raises(UnknownKey, match="no row with the key 'b', 2"):
            durable.forget(keys=["a", "b", 2])
        assert serialise(durable.model._state()) == before
        assert len(durable._store.late.keys) == 3
    with Durable.open(path) as durable, pytest.raises(DuplicateKey, match="'1' already"):
        durable.partial_fit(X[3:4], Y[3:4], keys=np.array(["1"]))


@pytest.mark.parametrize(
    ("keys", "error", "says"),
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
def test_other_keys_are_refused(keys, error, says, path):
    with Durable(path, model(), durability="os") as durable:
        durable.partial_fit(X[:10], Y[:10])
        with pytest.raises(error, match=says):
            durable.partial_fit(X[:2], Y[:2], keys=keys)
        with pytest.raises(error, match=says):
            durable.predict(X[:2], keys=keys)
        assert durable.n_seen_ == 10


def test_rows_of_weight_zero_have_no_key(path):
    with Durable(path, model(), durability="os") as durable:
        durable.partial_fit(X[:4], Y[:4], [1.0, 0.0, 2.0, 1.0], keys=["a", "b", "c", "d"])
        assert durable._store.late.keys.find(["a", "b", "c", "d"]) == {"a": 0, "c": 1, "d": 2}


def test_a_call_sent_twice_keeps_its_keys(path):
    with Durable(path, model(), durability="os") as durable:
        for _ in range(2):
            durable.partial_fit(X[:4], Y[:4], keys=range(4), key="first")
        for _ in range(2):
            durable.forget(keys=[2], key="second")
        assert durable.n_seen_ == 3
        with pytest.raises(ValueError, match="Pass ids or keys"):
            durable.forget()


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
    with Durable(path, model(), durability="os") as durable:
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
