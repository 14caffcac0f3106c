"""A worker learns the rows that calls have journalled: afterwards everything is as without it, bit for bit."""

from __future__ import annotations

import os
import threading
from functools import partial

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression, Ridge

from batch2online import BatchToOnline, Durable, OnlineClassifier, OnlineClustering, OnlineRegression
from batch2online.refresh import Geometric
from batch2online.storage.errors import StoreError

N = 1_500
RNG = np.random.default_rng(3)
X = RNG.normal(size=(N, 4)) + 4 * RNG.integers(3, size=(N, 1))
Y = X @ [1.0, -2.0, 0.5, 0.0] + RNG.normal(size=N)
WORDS = np.where(np.median(Y) < Y, "high", "low")
SUBJECTS = {
    "regression": (partial(OnlineRegression, random_state=0, refresh=Geometric(1.2)), Y),
    "history": (partial(OnlineRegression, random_state=0, keep_history=True), Y),
    "half-lives": (partial(OnlineRegression, random_state=0, half_life="auto"), Y),
    "classifier": (partial(OnlineClassifier, random_state=0, coreset_size=150), WORDS),
    "clusters": (partial(OnlineClustering, 3, random_state=0, coreset_size=100), None),
    "wrapped": (partial(BatchToOnline, Ridge(), random_state=0, coreset_size=150), Y),
    "wrapped labels": (partial(BatchToOnline, LogisticRegression(), random_state=0), WORDS),
}
every_subject = pytest.mark.parametrize("name", SUBJECTS)


def opened(path, name, **settings):
    return Durable(path, SUBJECTS[name][0](), durability="os", worker=True, **settings)


def learn(durable, name, start, stop):
    """Learn rows in calls of one row and of several."""
    targets, calls = SUBJECTS[name][1], np.random.default_rng(start)
    while start < stop:
        n = min(int(calls.choice([1, 1, 1, 40, 200])), stop - start)
        y = None if targets is None else targets[start : start + n]
        if n == 1:
            durable.learn_one(X[start].tolist(), None if y is None else y[0])
        else:
            durable.partial_fit(X[start : start + n], y)
        start += n


def assert_same(durable, name, n=N):
    make, targets = SUBJECTS[name]
    plain = make().partial_fit(X[:n], None if targets is None else targets[:n])
    assert durable.n_seen_ == n
    assert durable.changes_ == plain.changes_
    assert durable.regret_ == plain.regret_
    assert durable.coreset_ == plain.coreset_
    assert np.array_equal(durable.predict(X), plain.predict(X))


@every_subject
def test_after_a_flush_all_is_as_without_a_worker(name, tmp_path):
    with opened(tmp_path / "model.b2o", name) as durable:
        learn(durable, name, 0, N)
        assert durable.next_id == N
        assert_same(durable.flush(), name)
    with Durable.open(tmp_path / "model.b2o") as again:
        assert again.reopened.was_closed
        assert_same(again, name)


@every_subject
def test_rows_that_wait_survive_the_process(name, tmp_path):
    durable = opened(tmp_path / "model.b2o", name)
    learn(durable, name, 0, 1_000)
    durable._session.abandon()
    with opened(tmp_path / "model.b2o", name) as again:
        assert not again.reopened.was_closed
        learn(again, name, 1_000, N)
        assert_same(again.flush(), name)


def test_other_calls_wait_for_the_rows_before_them(tmp_path):
    with opened(tmp_path / "model.b2o", "history") as durable:
        learn(durable, "history", 0, 900)
        durable.forget([3, 17])
        assert durable.n_seen_ == 898
        answer = durable.predict(X[900:901], keys=["late"])
        durable.label(["late"], Y[900:901])
        durable.batch(lambda: learn(durable, "history", 901, 950))
        plain = SUBJECTS["history"][0]().partial_fit(X[:900], Y[:900]).forget([3, 17])
        assert np.array_equal(answer, plain.predict(X[900:901]))
        plain.partial_fit(X[900:950], Y[900:950])
        assert durable.flush().changes_ == plain.changes_
        assert np.array_equal(durable.predict(X), plain.predict(X))


class Gate:
    """Makes fits of the worker wait until it is opened, and fail if it has an error."""

    def __init__(self):
        self.started, self.opening, self.error = threading.Event(), threading.Event(), None

    def wait(self):
        if threading.current_thread() is not threading.main_thread():
            self.started.set()
            assert self.opening.wait(timeout=30)
            if self.error is not None:
                raise self.error


@pytest.fixture
def gate(monkeypatch):
    gate, fit = Gate(), Ridge.fit

    def waiting(self, X, y, sample_weight=None):
        gate.wait()
        return fit(self, X, y, sample_weight)

    monkeypatch.setattr(Ridge, "fit", waiting)
    yield gate
    gate.error = None
    gate.opening.set()


@pytest.fixture
def durable(gate, tmp_path):
    model = BatchToOnline(Ridge(), random_state=0, refresh=Geometric(1.5, start=50))
    with Durable(tmp_path / "model.b2o", model, durability="os", worker=True) as durable:
        yield durable.partial_fit(X[:60], Y[:60])
        gate.error = None
        gate.opening.set()


def learn_until_it_fits(durable, gate):
    """Learn single rows until the worker fits, and some more; return the row after the last one."""
    row = 60
    while not gate.started.is_set():
        durable.learn_one(X[row], Y[row])
        row += 1
        gate.started.wait(timeout=0.001)
    for row in range(row, row + 5):  # noqa: B020  # goes on from there
        durable.learn_one(X[row], Y[row])
    return row + 1


def test_neither_learning_nor_reading_waits_for_a_fit(durable, gate):
    before = durable.predict(X)
    stop = learn_until_it_fits(durable, gate)
    assert np.array_equal(durable.predict(X), before)
    assert durable.n_seen_ < stop == durable.next_id
    gate.opening.set()
    assert durable.flush().n_seen_ == stop
    assert not np.array_equal(durable.predict(X), before)


def test_an_error_of_the_worker_is_raised_by_the_next_call_and_no_row_is_lost(durable, gate):
    gate.error = ArithmeticError("no fit")
    stop = learn_until_it_fits(durable, gate)
    gate.opening.set()
    with pytest.raises(ArithmeticError, match="no fit"):
        durable.flush()
    gate.error = None
    assert durable.learn_one(X[stop], Y[stop]).flush().n_seen_ == stop + 1


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs forks")
def test_a_fork_waits_for_no_worker(durable, gate):
    learn_until_it_fits(durable, gate)
    child = os.fork()
    if not child:
        try:
            durable.flush()
        except StoreError:
            os._exit(7)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    gate.opening.set()


def test_a_worker_logs_no_changes(tmp_path):
    with pytest.raises(StoreError, match="logs changes, which a worker does not"):
        opened(tmp_path / "model.b2o", "regression", log_changes=True)


def test_a_row_that_no_fit_takes_keeps_no_file_from_opening(durable, gate, monkeypatch):
    """The process dies while the worker cannot learn a row: the rows are there, and wait until they can be learned."""
    gate.error = ArithmeticError("no fit")
    stop = learn_until_it_fits(durable, gate)
    gate.opening.set()
    with pytest.raises(ArithmeticError, match="no fit"):
        durable.flush()
    durable._session.abandon()
    fit = Ridge.fit

    def none(self, X, y, sample_weight=None):
        raise ArithmeticError("no fit")

    monkeypatch.setattr(Ridge, "fit", none)
    settings = {"model": BatchToOnline(Ridge(), random_state=0, refresh=Geometric(1.5, start=50)), "durability": "os"}
    for _ in range(2):  # with the state of the file, and with one written while rows wait
        with Durable(durable.path, **settings) as again:
            assert again.n_seen_ < again.next_id == stop
            with pytest.raises(ArithmeticError):
                again.learn_one(X[stop], Y[stop])
    monkeypatch.setattr(Ridge, "fit", fit)
    with Durable(durable.path, **settings) as again:
        assert again.learn_one(X[stop], Y[stop]).n_seen_ == stop + 1
        plain = settings["model"].partial_fit(X[: stop + 1], Y[: stop + 1])
        assert again.changes_ == plain.changes_
        assert np.array_equal(again.predict(X), plain.predict(X))
