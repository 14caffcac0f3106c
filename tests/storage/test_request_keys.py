"""Keys of calls: what counts as one, how long they are remembered, and what opening a file with many takes."""

from __future__ import annotations

import time

import numpy as np
import pytest

from batch2online import Durable, OnlineRegression
from batch2online.refresh import Geometric
from batch2online.storage import keys
from batch2online.storage.database import Database

RNG = np.random.default_rng(0)
X = RNG.normal(size=(400, 2))
Y = X @ [1.0, -2.0] + RNG.normal(size=400)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "model.b2o"


def opened(path, **settings):
    model = OnlineRegression(random_state=0, keep_history=True, coreset_size=30, refresh=Geometric(1.5))
    return Durable(path, model, durability="os", **settings)


def with_keys(database, first, stop):
    """Store many keys at once, as so many calls would."""
    numbers = {f"key {number}": number for number in range(first, stop)}
    database.transact(lambda: keys.Keys(database, "call").add(numbers))


def n_stored(durable):
    ((size,),) = durable._session.database.select("SELECT sum(length(content)) FROM key")
    return size // 24


@pytest.mark.parametrize("key", [5, 5.0, b"5", ("5",), True])
def test_a_key_is_a_string(key, path):
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
        assert durable.model.n_seen_ == 10


def test_a_surrogate_in_a_key_is_named(path):
    with opened(path) as durable:
        with pytest.raises(ValueError, match="lone surrogate at position 1: pass valid Unicode"):
            durable.partial_fit(X[:10], Y[:10], key="a\ud800")
        durable.partial_fit(X[:10], Y[:10], key="a\U0001f600")
        assert durable.partial_fit(X[:10], Y[:10], key="a\U0001f600").model.n_seen_ == 10


def test_a_key_is_one_for_all_calls_and_across_reopening(path):
    """Each call is sent three times: twice to the same object, and once after a crash."""
    other = OnlineRegression(
        random_state=0, keep_history=True, coreset_size=30, refresh=Geometric(1.5), first_id=1000
    ).partial_fit(X[100:150], Y[100:150])
    calls = (
        lambda durable: durable.partial_fit(X[:90], Y[:90], key="rows"),
        lambda durable: durable.learn_one(X[90], float(Y[90]), key="one"),
        lambda durable: durable.merge(other, key="merge"),
        lambda durable: durable.forget([3, 1003], key="forget"),
        lambda durable: durable.forget([4], key="rows"),
    )
    for call, rows in zip(calls, (90, 91, 141, 139, 139), strict=True):
        durable = opened(path)
        call(durable)
        call(durable)
        durable._session.abandon()
        with opened(path) as again:
            call(again)
            assert again.model.n_seen_ == rows


@pytest.mark.parametrize("keep", [1, 7, 300])
def test_only_the_newest_keys_are_kept(keep, path, monkeypatch):
    monkeypatch.setattr(keys, "BUCKETS", 4)
    with opened(path, keep_keys=keep) as durable:
        for number in range(40):
            durable.partial_fit(X[:1], Y[:1], key=str(number))
        remembered = [key for key in map(str, range(40)) if durable.has_key(key)]
        assert remembered == [str(number) for number in range(max(0, 40 - keep), 40)]
        assert n_stored(durable) <= keep + 30  # older ones are dropped when their bucket is written
        for _ in range(200):
            durable.partial_fit(X[:1], Y[:1], key=f"later {_}")
        assert n_stored(durable) <= keep + 30


@pytest.mark.parametrize("keep", [0, -1, 2.5, None, True, "all"])
def test_keep_keys_is_a_count(keep, path):
    with pytest.raises(ValueError, match="keep_keys must be a whole number above 0"):
        opened(path, keep_keys=keep)
    assert not path.exists()


@pytest.mark.full
def test_opening_reads_no_keys(path):
    """Two thousand times as many keys take no more time to open, and keys are found among them."""
    seconds = {}
    for name, count in (("few", 10), ("many", 20_000)):
        own = path.with_name(name)
        with opened(own) as durable:
            durable.partial_fit(X[:10], Y[:10])
            with_keys(durable._session.database, 0, count)
        times = []
        for _ in range(5):
            start = time.perf_counter()
            durable = opened(own)
            times.append(time.perf_counter() - start)
            assert durable.partial_fit(X[:10], Y[:10], key=f"key {count - 1}").model.n_seen_ == 10
            durable.close()
        seconds[name] = min(times)
    assert seconds["many"] < 5 * seconds["few"]


def test_opening_selects_no_keys(path, monkeypatch):
    with opened(path) as durable:
        durable.partial_fit(X[:10], Y[:10], key="a")
    asked = []
    select = Database.select
    monkeypatch.setattr(Database, "select", lambda self, *given: asked.append(given[0]) or select(self, *given))
    opened(path).close()
    assert asked
    assert not any("request" in statement for statement in asked)
