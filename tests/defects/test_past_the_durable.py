"""The model inside a Durable cannot be changed past it, and everything that only reads it works."""

from __future__ import annotations

import copy
import os
import pickle
import sqlite3
import threading

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import Ridge

from batch2online import BatchToOnline, Durable, OnlineRegression, load
from batch2online.checks import small_blocks
from batch2online.storage.errors import StoreCorrupted, StoreError
from defects.subjects import ESTIMATORS, X, Y, state


@pytest.fixture(autouse=True)
def blocks_of_few_rows():
    with small_blocks(500):
        yield


def rows(targets, start, stop):
    return X[start:stop], None if targets is None else targets[start:stop]


def one(targets, at):
    y = None if targets is None else targets[at]
    return X[at].tolist(), y if y is None or isinstance(y, str) else float(y)


def merged(model, make, targets):
    model.merge(make(first_id=10_000).partial_fit(*rows(targets, 200, 300)))


def assigned(model, make, targets):
    model._stream = make().partial_fit(*rows(targets, 0, 300))._stream


def swapped(model, make, targets):
    model.__dict__ = vars(make().partial_fit(*rows(targets, 0, 300)))


def forgetful(model, make, targets):
    del model.feature_names_in_


CHANGES = {
    "fit": lambda model, make, targets: model.fit(*rows(targets, 200, 300)),
    "partial_fit": lambda model, make, targets: model.partial_fit(*rows(targets, 200, 300)),
    "learn_one": lambda model, make, targets: model.learn_one(*one(targets, 200)),
    "merge": merged,
    "forget": lambda model, make, targets: model.forget([1, 2, 3]),
    "set_params": lambda model, make, targets: model.set_params(epsilon=0.5),
    "parameter": lambda model, make, targets: setattr(model, "epsilon", 0.5),
    "engine": assigned,
    "attributes": swapped,
    "deleted": forgetful,
}


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("name", ESTIMATORS)
@pytest.mark.covering
@pytest.mark.slow
def test_no_call_past_the_durable_changes_its_model(name, change, tmp_path):
    make, targets = ESTIMATORS[name]
    durable = Durable(tmp_path / "model", make(), durability="os")
    with pytest.raises((StoreError, NotFittedError), match=r"belongs to the Durable of model|has seen no rows yet"):
        CHANGES[change](durable.model, make, targets)  # before the first row as well
    assert not durable.model.__sklearn_is_fitted__()
    durable.partial_fit(*rows(targets, 0, 200))
    before = state(durable.model)
    with pytest.raises(StoreError, match=r"belongs to the Durable of model.*partial_fit, learn_one, merge or forget"):
        CHANGES[change](durable.model, make, targets)
    assert state(durable.model) == before
    durable.partial_fit(*rows(targets, 300, 400))
    acknowledged = state(durable.model)
    durable._session.abandon()
    with Durable(tmp_path / "model", make()) as again:
        assert state(again.model) == acknowledged
        assert again.model.n_seen_ == 300


def test_the_model_of_a_durable_is_not_replaced(tmp_path):
    with Durable(tmp_path / "model", OnlineRegression(random_state=0)) as durable, pytest.raises(AttributeError):
        durable.model = OnlineRegression()


def test_another_thread_does_not_change_the_model_while_its_owner_does(tmp_path, monkeypatch):
    """The owner stands in the middle of a call: what another thread does is past it all the same."""
    refused = []
    with Durable(tmp_path / "model", OnlineRegression(random_state=0), durability="os") as durable:
        durable.partial_fit(X[:100], Y[:100])

        def elsewhere():
            for call in (
                lambda: durable.model.partial_fit(X[:5], Y[:5]),
                lambda: durable.model.fit(X[:5], Y[:5]),
                lambda: durable.model.set_params(epsilon=0.3),
            ):
                try:
                    call()
                except StoreError as error:
                    refused.append(error)

        carry_out = durable._session.carry_out

        def meanwhile(act, counts=True):
            thread = threading.Thread(target=elsewhere)
            thread.start()
            thread.join()
            carry_out(act, counts)

        monkeypatch.setattr(durable._session, "carry_out", meanwhile)
        durable.partial_fit(X[100:150], Y[100:150])
        assert len(refused) == 3
        assert state(durable.model) == state(OnlineRegression(random_state=0).partial_fit(X[:150], Y[:150]))


@pytest.mark.parametrize("name", ESTIMATORS)
def test_what_reads_works_and_copies_belong_to_nobody(name, tmp_path):
    make, targets = ESTIMATORS[name]
    with Durable(tmp_path / "model", make(), durability="os") as durable:
        durable.partial_fit(*rows(targets, 0, 300))
        model = durable.model
        before = state(model)
        act = model.predict if hasattr(model, "predict") else model.transform
        assert len(act(X[:5])) == 5
        assert len(model.coreset_)
        assert model.regret_.rows == 300
        assert repr(model)
        assert str(model.headline())
        model.save(tmp_path / "saved")
        assert state(load(tmp_path / "saved")) == before
        assert not clone(model).__sklearn_is_fitted__()
        assert state(model) == before
        for other in (copy.copy(model), copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
            other.partial_fit(*rows(targets, 300, 400)).set_params(epsilon=0.5)
            assert other.n_seen_ == 400
        assert state(model) == before
        durable.partial_fit(*rows(targets, 300, 400))


def test_single_rows_of_names_are_predicted(tmp_path):
    with Durable(tmp_path / "model", OnlineRegression(random_state=0), durability="os") as durable:
        for at in range(50):
            durable.learn_one({"a": X[at, 0], "b": X[at, 1]}, float(Y[at]))
        assert np.isfinite(durable.model.predict_one({"b": 1.0, "a": 2.0}))
        with pytest.raises(StoreError, match="belongs to the Durable"):
            durable.model.learn_one({"b": 1.0, "a": 2.0}, 1.0)
        assert durable.model.n_seen_ == 50


def test_an_estimator_belongs_to_one_durable(tmp_path):
    model = OnlineRegression(random_state=0)
    with Durable(tmp_path / "one", model):
        with pytest.raises(ValueError, match="belongs to another Durable"):
            Durable(tmp_path / "other", model)
        assert sorted(os.listdir(tmp_path)) == ["one", "one-owner"] or "other" not in os.listdir(tmp_path)
        Durable(tmp_path / "other", clone(model)).close()


def test_an_estimator_that_no_durable_took_stays_free(tmp_path):
    model = OnlineRegression(random_state=0)
    with Durable(tmp_path / "model", OnlineRegression(random_state=0)), pytest.raises(StoreError):
        Durable(tmp_path / "model", model)
    model.partial_fit(X[:10], Y[:10])


def test_rows_that_a_model_has_seen_before_are_in_the_file_at_once(tmp_path):
    model = OnlineRegression(random_state=0).partial_fit(X[:100], Y[:100])
    expected = state(model)
    durable = Durable(tmp_path / "model", model, durability="os")
    durable._session.abandon()
    with Durable.open(tmp_path / "model") as again:
        assert state(again.model) == expected


def test_a_setting_of_the_estimator_inside_cannot_change(tmp_path):
    inner = Ridge()
    with Durable(tmp_path / "model", BatchToOnline(inner, random_state=0), durability="os") as durable:
        durable.partial_fit(X[:100], Y[:100])
        with pytest.raises(StoreError, match="belongs to the Durable"):
            durable.model.set_params(estimator__alpha=5.0)
        assert durable.model.estimator.alpha == 1.0
        inner.alpha = 5.0
        for call in (
            lambda: durable.partial_fit(X[100:200], Y[100:200]),
            lambda: durable.merge(clone(durable.model)),
            durable.checkpoint,
        ):
            with pytest.raises(StoreError, match=r"The estimator inside the model of model was changed.*set it back"):
                call()
        inner.alpha = 1.0
        durable.partial_fit(X[100:200], Y[100:200])
        expected = state(durable.model)
    with Durable(tmp_path / "model", BatchToOnline(Ridge(), random_state=0)) as again:
        assert state(again.model) == expected


def test_rows_that_are_not_journalled_are_not_learned(tmp_path, monkeypatch):
    with Durable(tmp_path / "model", OnlineRegression(random_state=0), durability="os") as durable:
        durable.partial_fit(X[:100], Y[:100])
        with monkeypatch.context() as patch:
            patch.setattr("batch2online.storage.journal.append", lambda *_: 0)
            with pytest.raises(StoreError, match="rows with ids below 100, and the model has learned those below 150"):
                durable.partial_fit(X[100:150], Y[100:150])
        assert durable.model.n_seen_ == 100
        durable.partial_fit(X[100:150], Y[100:150])
        assert durable.model.n_seen_ == 150


@pytest.mark.parametrize("is_in_place", [True, False])
def test_rows_that_came_past_all_doors_are_noticed_by_the_next_call(is_in_place, tmp_path):
    with Durable(tmp_path / "model", OnlineRegression(random_state=0), durability="os") as durable:
        durable.partial_fit(X[:105], Y[:105])
        stream = durable.model._stream
        if is_in_place:
            assert stream.append_one(X[100].tolist(), (1.0,))
        else:
            vars(durable.model)["_stream"] = stream.append([(X[100:101], Y[100:101, None], np.ones(1))])
        for call in (lambda: durable.partial_fit(X[100:150], Y[100:150]), lambda: durable.learn_one(X[0], 1.0)):
            with pytest.raises(StoreError, match="ids below 105, and the model rows with ids below 106"):
                call()


# -- files that are not what they seem -----------------------------------------------------------------------------


TRIGGER = "CREATE TRIGGER {name} AFTER INSERT ON state BEGIN UPDATE meta SET text = text; END"


def test_a_trigger_with_the_name_of_a_table_is_seen(tmp_path):
    """Names of triggers are in a space of their own, so one may be called like a table that comes after it."""
    path = tmp_path / "model"
    with Durable(path, OnlineRegression(random_state=0)) as durable:
        durable.partial_fit(X[:100], Y[:100])
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA writable_schema=ON")
    schema = connection.execute("SELECT rowid, type, name, tbl_name, rootpage, sql FROM sqlite_schema").fetchall()
    connection.execute("DELETE FROM sqlite_schema")
    for _, kind, name, table, page, sql in schema:
        insert = "INSERT INTO sqlite_schema (type, name, tbl_name, rootpage, sql) VALUES (?, ?, ?, ?, ?)"
        if name == schema[-1][2]:
            connection.execute(insert, ("trigger", name, "state", 0, TRIGGER.format(name=name)))
        connection.execute(insert, (kind, name, table, page, sql))
    connection.commit()
    connection.close()
    before = path.read_bytes()
    with pytest.raises(StoreCorrupted, match="or a trigger, view or index"):
        Durable.open(path)
    with pytest.raises(ValueError, match="or a trigger, view or index"):
        load(path)
    assert path.read_bytes() == before


@pytest.mark.parametrize("suffix", ["-owner", "-wal", "-shm", "-journal"])
@pytest.mark.parametrize("kind", ["link", "dangling link", "folder", "pipe"])
@pytest.mark.parametrize("is_there", [False, True])
@pytest.mark.covering
def test_nothing_beside_a_model_leads_elsewhere(suffix, kind, is_there, tmp_path):
    path, victim = tmp_path / "model", tmp_path / "precious"
    if is_there:
        with Durable(path, OnlineRegression(random_state=0)) as durable:
            durable.partial_fit(X[:100], Y[:100])
    victim.write_text("of somebody else\n" * 100)
    beside = path.with_name(f"model{suffix}")
    {
        "link": lambda: beside.symlink_to(victim),
        "dangling link": lambda: beside.symlink_to(tmp_path / "new"),
        "folder": beside.mkdir,
        "pipe": lambda: os.mkfifo(beside),
    }[kind]()
    with pytest.raises(StoreError, match=rf"model{suffix} is (a symbolic link|no regular file).*remove it"):
        Durable(path, OnlineRegression(random_state=0))
    assert victim.read_text() == "of somebody else\n" * 100
    assert not (tmp_path / "new").exists()
    assert os.path.lexists(beside)
    beside.rmdir() if kind == "folder" else beside.unlink()
    with Durable(path, OnlineRegression(random_state=0)) as durable:
        durable.partial_fit(X[100:200], Y[100:200])
        assert durable.model.n_seen_ == 100 + 100 * is_there


def test_a_hard_link_beside_a_model_is_not_written_to(tmp_path):
    victim = tmp_path / "precious"
    victim.write_text("of somebody else\n" * 100)
    os.link(victim, tmp_path / "model-owner")
    with pytest.raises(StoreError, match="hard link"):
        Durable(tmp_path / "model", OnlineRegression(random_state=0))
    assert victim.read_text() == "of somebody else\n" * 100


def test_a_single_row_that_is_undone_is_not_buffered(tmp_path, monkeypatch):
    with Durable(tmp_path / "model", OnlineRegression(random_state=0)) as durable:
        durable.partial_fit(np.eye(3), np.arange(3.0))
        with monkeypatch.context() as patch:
            patch.setattr("batch2online.storage.keys.Keys.add", lambda *_, **__: 1 / 0)
            with pytest.raises(ZeroDivisionError):
                durable.learn_one([1.0, 2.0, 3.0], 4.0, key="a")
        assert durable.model.n_seen_ == 3
        durable.learn_one([1.0, 2.0, 3.0], 4.0, key="a").partial_fit(np.eye(3), np.arange(3.0))
        assert durable.model.n_seen_ == 7
