"""A durable model is used as the model is: it predicts, has fitted attributes, and groups calls."""

from __future__ import annotations

import threading

import numpy as np
import pandas as pd
import pytest
from sklearn.exceptions import NotFittedError

from batch2online import Durable, OnlineClassifier, OnlineLowRank, OnlineRegression
from batch2online.refresh import Geometric
from state_bytes import serialise

RNG = np.random.default_rng(0)
X = RNG.normal(size=(600, 3))
Y = X @ [1.0, -2.0, 0.5] + RNG.normal(size=600)


def regression(**settings):
    return OnlineRegression(random_state=0, coreset_size=40, refresh=Geometric(1.5), **settings)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "model.b2o"


def test_it_reads_as_the_model_does(path, tmp_path):
    plain = regression().partial_fit(X, Y)
    with Durable(path, regression(), durability="os") as durable:
        durable.partial_fit(X, Y)
        assert (durable.predict(X) == plain.predict(X)).all()
        assert durable.score(X, Y) == plain.score(X, Y)
        assert (durable.coef_ == plain.coef_).all()
        assert (durable.n_seen_, durable.n_changes_, durable.next_id) == (600, plain.n_changes_, 600)
        assert durable.regret_ == plain.regret_
        assert durable.metrics_ == plain.metrics_
        assert [event.at for event in durable.changes_] == [event.at for event in plain.changes_]
        assert str(durable.headline("y")) == str(plain.headline("y"))
        assert durable.report(tmp_path / "report.html").is_file()
        assert "predict_one" in dir(durable)
        assert "n_seen_" in dir(durable)


def test_methods_are_those_that_the_model_has(path, tmp_path):
    with Durable(path, regression(), durability="os") as durable:
        assert not hasattr(durable, "transform")
        assert not hasattr(durable, "set_params")
        assert not hasattr(durable, "fit")
        with pytest.raises(NotFittedError):
            durable.predict(X)
        with pytest.raises(AttributeError, match="'predict_proba'"):
            durable.predict_proba(X)
    with Durable(tmp_path / "other.b2o", OnlineLowRank(2, random_state=0), durability="os") as durable:
        durable.partial_fit(X)
        assert durable.transform(X).shape == (600, 2)
    with Durable(tmp_path / "third.b2o", OnlineClassifier(random_state=0), durability="os") as durable:
        durable.partial_fit(X, Y > 0)
        assert (durable.predict_proba(X) == durable.model.predict_proba(X)).all()


def test_a_batch_is_one_transaction(path):
    with Durable(path, regression(), durability="os") as durable:
        durable.partial_fit(X[:10], Y[:10])
        before = durable._session.n_calls

        def calls():
            for i in range(10, 40):
                durable.partial_fit(X[i : i + 1], Y[i : i + 1], keys=[i])
            return durable.n_seen_

        assert durable.batch(calls) == 40
        assert durable._session.n_calls == before + 1
        found = serialise(durable.model._state())
    assert found == serialise(regression().partial_fit(X[:40], Y[:40])._state())
    with Durable.open(path) as durable:
        assert serialise(durable.model._state()) == found
        assert len(durable._store.late.keys) == 30


def test_a_failed_call_of_a_batch_is_undone_by_itself(path):
    with Durable(path, regression(keep_history=True), durability="os") as durable:
        durable.partial_fit(X[:50], Y[:50], keys=range(50))

        def calls():
            durable.partial_fit(X[50:60], Y[50:60], keys=range(50, 60))
            for keys in ([60, 7], [60, 60]):
                with pytest.raises(ValueError, match=r"7|60"):
                    durable.partial_fit(X[60:62], Y[60:62], keys=keys)
            with pytest.raises(ValueError, match="NaN"):
                durable.partial_fit([[np.nan] * 3], [1.0], keys=[60])
            durable.forget(keys=[3]).partial_fit(X[60:62], Y[60:62], keys=[60, 61])

        durable.batch(calls)
        expected = regression(keep_history=True).partial_fit(X[:60], Y[:60]).forget([3]).partial_fit(X[60:62], Y[60:62])
        assert serialise(durable.model._state()) == serialise(expected._state())
    assert X[3].tobytes() not in path.read_bytes()
    with Durable.open(path) as durable:
        assert serialise(durable.model._state()) == serialise(expected._state())


def test_a_batch_that_raises_leaves_nothing(path):
    with Durable(path, regression(), durability="os") as durable:
        durable.partial_fit(X[:50], Y[:50])
        before = serialise(durable.model._state())

        def calls():
            durable.predict(X[:3], keys=["a", "b", "c"])
            durable.partial_fit(X[50:60], Y[50:60], keys=range(10), key="call")
            raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            durable.batch(calls)
        assert serialise(durable.model._state()) == before
        assert (durable.n_waiting, len(durable._store.late.keys)) == (0, 0)
        durable.predict(X[:3], keys=["a", "b", "c"])
        durable.partial_fit(X[50:60], Y[50:60], keys=range(10), key="call")
        assert (durable.n_seen_, durable.n_waiting) == (60, 3)


def test_a_batch_that_the_disk_has_undone_cannot_go_on(path):
    with Durable(path, regression(), durability="os") as durable:
        durable.partial_fit(X[:50], Y[:50])

        def calls():
            durable.partial_fit(X[50:60], Y[50:60])
            durable._session.database.connection.execute("ROLLBACK")  # as SQLite does if the disk is full
            durable.partial_fit(X[60:70], Y[60:70])

        with pytest.raises(Exception, match="were undone, since one of them has failed"):
            durable.batch(calls)
        assert durable.n_seen_ == 50
        durable.partial_fit(X[50:60], Y[50:60])
    with Durable.open(path) as durable:
        assert serialise(durable.model._state()) == serialise(regression().partial_fit(X[:60], Y[:60])._state())


def test_reading_does_not_wait_for_a_call_that_learns(path):
    with Durable(path, regression(), durability="os") as durable:
        durable.partial_fit(X[:50], Y[:50])
        found = []
        reader = threading.Thread(target=lambda: found.append((durable.predict(X[:2]), durable.n_seen_)))

        def calls():
            reader.start()
            reader.join(10)
            return len(found)

        assert durable.batch(calls) == 1


def test_features_of_a_table_stay_once_rows_wait_for_their_targets(tmp_path):
    table = pd.DataFrame({"a": np.arange(60.0), "s": list("xyz") * 20})
    durable = Durable(tmp_path / "model", OnlineRegression(columns="auto", random_state=0), durability="os")
    durable.partial_fit(table[:40], np.arange(40.0))
    answer = durable.predict(table[40:50], keys=range(10))
    durable.label(range(5), np.arange(40.0, 45.0))
    durable.partial_fit(table[50:], np.arange(50.0, 60.0))
    state = serialise(durable.model.stream.stored())
    durable._session.abandon()
    with Durable.open(tmp_path / "model") as again:
        assert again.n_seen_ == 55
        assert again.n_waiting == 5
        assert len(answer) == 10
        assert serialise(again.model.stream.stored()) == state
        assert again.label(range(5, 10), np.arange(45.0, 50.0)).n_seen_ == 60
