"""Changes of a model: the newest ones are held, all are counted, and a file logs them where it is asked to."""

from __future__ import annotations

import copy
import sqlite3

import numpy as np
import pytest

from batch2online import Durable, OnlineRegression, load, results
from batch2online.engine import engine
from batch2online.refresh import EveryStep
from batch2online.results import KEPT
from batch2online.storage.errors import StoreCorrupted

RNG = np.random.default_rng(0)
X = RNG.normal(size=(1400, 2))
Y = X @ [1.0, -2.0] + RNG.normal(size=1400)
FEW = 10


def model(**settings):
    return OnlineRegression(coreset_size=30, random_state=0, refresh=EveryStep(), keep_history=True, **settings)


@pytest.fixture
def few(monkeypatch):
    """Ten changes are held."""
    monkeypatch.setattr(engine, "KEPT", FEW)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "model.b2o"


@pytest.mark.slow
def test_the_newest_changes_are_held_and_all_are_counted(path, few, monkeypatch):
    monkeypatch.setattr(results, "KEPT", FEW)
    assert KEPT >= 1_000  # no ordinary stream meets it
    online = model().partial_fit(X, Y)
    assert online.n_changes_ > FEW + 100
    assert len(online.changes_) == FEW == len(online.timings_.models)
    assert online.changes_[-1].at == len(X)
    assert all(event.seconds is not None for event in online.changes_)
    assert f"{online.n_changes_:,} changes, the last at row {len(X):,}" in str(online.headline())
    pieces = model()
    for part in np.array_split(np.arange(len(X)), 7):
        pieces.partial_fit(X[part], Y[part])
    assert (pieces.changes_, pieces.n_changes_) == (online.changes_, online.n_changes_)
    online.save(path)
    again = load(path)
    assert (again.changes_, again.n_changes_) == (online.changes_, online.n_changes_)
    assert copy.deepcopy(online).n_changes_ == online.n_changes_


def test_merged_rows_are_known_when_their_change_is_not_held(few):
    online = model().partial_fit(X[:50], Y[:50]).merge(model(first_id=5000).partial_fit(X[50:90], Y[50:90]))
    online.partial_fit(X[90:190], Y[90:190])
    assert not any(event.kind == "merged" for event in online.changes_)
    assert dict(online._stream.current.change_counts)["merged"] == 1


@pytest.mark.slow
def test_a_file_logs_every_change_if_it_is_asked_to(path, few):
    whole = []
    twin = model()
    with Durable(path, model(), durability="os", checkpoint_rows=70, log_changes=True) as durable:
        for start, stop in ((0, 5), (5, 60), (60, 61), (61, 150), (150, 200)):
            durable.partial_fit(X[start:stop], Y[start:stop])
            for at in range(start, stop):
                before = len(whole)
                twin.partial_fit(X[at : at + 1], Y[at : at + 1])
                whole += twin.changes_[-1:] if twin.n_changes_ > before else []
        assert list(durable.changes()) == whole
        assert len(durable.model.changes_) == FEW < len(whole) == durable.model.n_changes_
        durable._session.abandon()
    with Durable(path, model()) as again:  # it goes on, unasked
        again.partial_fit(X[200:250], Y[200:250])
        logged = list(again.changes())
        assert logged[: len(whole)] == whole
        assert len(logged) == again.model.n_changes_
        assert logged[-FEW:] == again.model.changes_
        again.forget([10, 11])
        assert len(list(again.changes())) == again.model.n_changes_
        assert list(again.changes())[-FEW:] == again.model.changes_


def test_a_call_that_is_undone_is_not_logged(path, few, monkeypatch):
    with Durable(path, model(), durability="os", log_changes=True) as durable:
        durable.partial_fit(X[:5], Y[:5]).partial_fit(X[5:30], Y[5:30])
        before = list(durable.changes())
        with monkeypatch.context() as patch:
            patch.setattr("batch2online.storage.journal.append", lambda *_: 1 / 0)
            with pytest.raises(ZeroDivisionError):
                durable.partial_fit(X[30:60], Y[30:60])
        assert list(durable.changes()) == before


def test_a_log_that_is_not_asked_for_is_not_there(path):
    with Durable(path, model()) as durable:
        durable.partial_fit(X[:50], Y[:50])
        with pytest.raises(ValueError, match="open it with log_changes=True"):
            durable.changes()
        assert durable._session.database.select("SELECT count(*) FROM change") == [(0,)]
    with Durable(path, model(), log_changes=True) as durable:  # it begins with what the model holds
        assert list(durable.changes()) == durable.model.changes_


@pytest.mark.parametrize("statement", ["DELETE FROM change WHERE number = 3", "UPDATE change SET text = text || ' '"])
def test_a_damaged_log_is_an_error(statement, path):
    with Durable(path, model(), log_changes=True) as durable:
        durable.partial_fit(X[:50], Y[:50])
    connection = sqlite3.connect(path)
    connection.execute(statement)
    connection.commit()
    connection.close()
    with Durable.open(path) as durable, pytest.raises(StoreCorrupted, match=r"row \d of its table change"):
        list(durable.changes())
