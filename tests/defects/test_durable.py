"""Durable models: what was acknowledged is there, whatever becomes of the process, and what is missing is said."""

from __future__ import annotations

import os
import resource
import shutil
import struct
import zlib
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.ensemble import RandomForestRegressor
from sklearn.linear_model import LinearRegression, Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import batch2online
from batch2online import BatchToOnline, Durable, OnlineRegression, load
from batch2online.refresh import EveryStep
from batch2online.storage import model_file, session
from batch2online.storage.errors import StoreCorrupted, StoreError
from batch2online.storage.tree import CheckpointError
from defects.subjects import SMALL, X, Y, state
from processes import run_to_end


def regression(**settings):
    return OnlineRegression(**SMALL | settings)


def killed(durable, folder):
    """What the death of the process at this moment would leave: all files as they are, in another folder."""
    shutil.copytree(durable.path.parent, folder)
    return folder / durable.path.name


@pytest.fixture
def open_model(tmp_path):
    """A model that is open, five calls of a hundred rows after those that it was opened with."""
    (tmp_path / "here").mkdir()
    with Durable(tmp_path / "here" / "model", regression()) as durable:
        durable.partial_fit(X[:100], Y[:100])
    with Durable(tmp_path / "here" / "model", regression(), durability="every") as durable:
        for start in range(100, 600, 100):
            durable.partial_fit(X[start : start + 100], Y[start : start + 100])
        yield durable


# -- what could not be opened again --------------------------------------------------------------------------------


class Mine(RegressorMixin, BaseEstimator):
    def fit(self, X, y, sample_weight=None):
        self.model_ = LinearRegression().fit(X, y, sample_weight)
        return self

    def predict(self, X):
        return self.model_.predict(X)


@dataclass(frozen=True)
class Seldom(EveryStep):
    """A policy that no file may name."""


def mean(points, weights):
    return np.average(points, axis=0, weights=weights)


def squares(theta, points):
    return np.square(points - theta).sum(axis=1)


def absolute(model, points, targets):
    return np.abs(model.predict(points) - np.asarray(targets).ravel())


def own_coreset(**settings):
    return batch2online.coresets.Uniform(**settings)


WITHOUT_A_FORM = {
    "function": (lambda: BatchToOnline(mean, loss=squares, random_state=0), "estimator"),
    "own estimator": (lambda: BatchToOnline(Mine(), random_state=0), "estimator"),
    "own step": (lambda: BatchToOnline(make_pipeline(StandardScaler(), Mine()), random_state=0), "estimator"),
    "own loss": (lambda: BatchToOnline(Ridge(), loss=absolute, random_state=0), "loss"),
    "own coreset": (lambda: BatchToOnline(Ridge(), coreset=own_coreset, random_state=0), "coreset"),
    "own policy": (lambda: BatchToOnline(Ridge(), refresh=Seldom(), random_state=0), "refresh"),
    "own policy of regression": (lambda: regression(refresh=Seldom()), "refresh"),
}


@pytest.mark.parametrize("kind", WITHOUT_A_FORM)
def test_durable_refuses_what_it_could_not_open_again(kind, tmp_path):
    make, name = WITHOUT_A_FORM[kind]
    with pytest.raises(TypeError, match=rf"^{name} is .*no file can hold.*could never be opened again"):
        Durable(tmp_path / "model", make())
    assert not list(tmp_path.iterdir())
    if "policy of" not in kind:
        with pytest.raises(TypeError, match=rf"Use save, and BatchToOnline.restore\(path, {name}=\.\.\.\)"):
            Durable(tmp_path / "model", make())


def test_what_durable_refuses_is_saved_and_restored(tmp_path):
    model = BatchToOnline(Ridge(), loss=absolute, coreset_size=60, random_state=0).partial_fit(X[:500], Y[:500])
    model.save(tmp_path / "model")
    twin = BatchToOnline.restore(tmp_path / "model", loss=absolute)
    for one in (model, twin):
        one.partial_fit(X[500:900], Y[500:900])
    np.testing.assert_array_equal(twin.predict(X), model.predict(X))


REOPENED = {
    "Ridge": lambda: BatchToOnline(Ridge(), coreset_size=60, random_state=0),
    "forest": lambda: BatchToOnline(RandomForestRegressor(n_estimators=3), coreset_size=60, random_state=0),
    "generator": lambda: OnlineRegression(coreset_size=60, random_state=np.random.default_rng(3)),
    "coreset": lambda: BatchToOnline(Ridge(), coreset=batch2online.coresets.Uniform, random_state=0),
}


@pytest.mark.parametrize("kind", REOPENED)
def test_what_durable_takes_the_same_words_open_again(kind, tmp_path):
    for start in range(0, 600, 200):
        with Durable(tmp_path / "model", REOPENED[kind]()) as durable:
            durable.partial_fit(X[start : start + 200], Y[start : start + 200])
    whole = REOPENED[kind]().partial_fit(X[:600], Y[:600])
    assert durable.model.n_seen_ == 600
    np.testing.assert_array_equal(durable.model.predict(X), whole.predict(X))


def test_other_settings_than_those_of_the_file_are_refused_before_anything_is_fitted(tmp_path, monkeypatch):
    with Durable(tmp_path / "model", REOPENED["forest"]()) as durable:
        durable.partial_fit(X[:200], Y[:200])
    monkeypatch.setattr(
        RandomForestRegressor, "fit", lambda self, X, y, sample_weight=None: pytest.fail("it was fitted")
    )
    with pytest.raises(ValueError, match="The file holds an estimator with estimator=RandomForestRegressor"):
        Durable(tmp_path / "model", BatchToOnline(RandomForestRegressor(n_estimators=4), coreset_size=60))


# -- forks ---------------------------------------------------------------------------------------------------------

FORKED = """
import os, sys
import numpy as np
from batch2online import Durable, OnlineRegression
X = np.random.default_rng(0).normal(size=(2000, 3)); y = X[:, 0]
durable = Durable(sys.argv[1], OnlineRegression(random_state=0), durability="every").partial_fit(X[:50], y[:50])
worker = os.fork()
if worker == 0:
    acts = {
        "partial_fit": lambda: durable.partial_fit(X[:100], y[:100]),
        "learn_one": lambda: durable.learn_one(X[0], 1.0),
        "forget": lambda: durable.forget([1]),
        "checkpoint": lambda: durable.checkpoint(),
        "close": lambda: durable.close(),
    }
    for name, act in acts.items():
        try:
            act()
            print("worker:", name, "was carried out", flush=True)
        except Exception as error:
            print("worker:", name, type(error).__name__, error, flush=True)
    try:
        Durable.open(sys.argv[1])
    except Exception as error:
        print("worker: open", type(error).__name__, error, flush=True)
    sys.exit(0)
os.waitpid(worker, 0)
for start in (1000, 1100):
    durable.partial_fit(X[start:start + 100], y[start:start + 100])
print("server:", durable.model.n_seen_, flush=True)
os._exit(0)
"""


def test_a_fork_cannot_write_to_the_file_of_its_parent(tmp_path):
    _, out, error = run_to_end(FORKED, tmp_path / "model")
    said = out.splitlines()
    assert [line.split()[2] for line in said[:5]] == ["StoreError"] * 5, out + error
    assert all("belongs to the process that opened it" in line for line in said[:5])
    assert "StoreLocked" in said[5]
    assert said[6:] == ["server: 250"]
    rows = np.random.default_rng(0).normal(size=(2000, 3))
    with Durable.open(tmp_path / "model") as durable:
        expected = OnlineRegression(random_state=0)
        for part in (rows[:50], rows[1000:1200]):
            expected.partial_fit(part, part[:, 0])
        assert state(durable.model) == state(expected)


# -- what is missing is said ---------------------------------------------------------------------------------------


def test_what_a_kill_leaves_is_whole(open_model, tmp_path):
    path = killed(open_model, tmp_path / "there")
    with Durable.open(path) as again:
        assert state(again.model) == state(open_model.model)
        assert (again.reopened.was_closed, again.reopened.lost) == (False, 0)


LOSSES = {
    "removed": lambda log: log.unlink(),
    "emptied": lambda log: os.truncate(log, 0),
    "cut inside": lambda log: os.truncate(log, log.stat().st_size - 1000),
    "cut after its header": lambda log: os.truncate(log, 32),
    "cut between two calls": lambda log: os.truncate(log, 32 + (log.stat().st_size - 32) // 2 // 65560 * 65560),
}


@pytest.mark.parametrize("how", LOSSES)
def test_a_lost_end_of_the_log_is_an_error(how, open_model, tmp_path):
    path = killed(open_model, tmp_path / "there")
    LOSSES[how](path.with_name("model-wal"))
    for _ in range(2):
        with pytest.raises(StoreCorrupted, match=r"has lost the last . calls: the log beside it was cut or removed"):
            Durable.open(path)
    with pytest.raises(CheckpointError):
        load(path)
    with Durable.open(path, accept_loss=True) as rest:
        rows = rest.model.n_seen_
        assert rows in range(100, 600, 100)
        assert rest.reopened.lost
        assert state(rest.model) == state(regression().partial_fit(X[:rows], Y[:rows]))


def test_a_closed_file_that_was_cut_is_an_error(tmp_path):
    with Durable(tmp_path / "model", regression(keep_history=True)) as durable:
        durable.partial_fit(X, Y)
    content = (tmp_path / "model").read_bytes()
    for size in (len(content) - 65_536, len(content) // 2, len(content) - 1, 100):
        (tmp_path / "model").write_bytes(content[:size])
        with pytest.raises((StoreError, CheckpointError)):
            load(tmp_path / "model")
        with pytest.raises((StoreError, CheckpointError)):
            Durable.open(tmp_path / "model", accept_loss=True)
        rest = (tmp_path / "model").read_bytes()
        (tmp_path / "model").write_bytes(rest + content[len(rest) :])  # no repair has made it worse
        assert load(tmp_path / "model").n_seen_ == len(X)


@pytest.mark.parametrize("content", [None, b"", b"nonsense"])
def test_a_file_beside_the_model_that_was_lost_is_said(content, open_model, tmp_path):
    path = killed(open_model, tmp_path / "there")
    note = path.with_name("model-owner")
    note.unlink() if content is None else note.write_bytes(content)
    with pytest.raises(StoreCorrupted, match="files beside it were lost"):
        Durable.open(path)
    with Durable.open(path, accept_loss=True) as again:
        assert again.model.n_seen_ == 600


def test_the_file_beside_the_model_is_synced_before_it_is_needed(tmp_path, monkeypatch):
    """A loss of power right after opening leaves a note that the file agrees with."""
    synced = {}
    real = os.fsync

    def fsync(descriptor):
        real(descriptor)
        name = os.readlink(f"/proc/self/fd/{descriptor}")
        synced[name] = Path(name).read_bytes() if Path(name).is_file() else b""

    monkeypatch.setattr(os, "fsync", fsync)
    (tmp_path / "here").mkdir()
    with Durable(tmp_path / "here" / "model", regression(), durability="every") as durable:
        for start in range(0, 300, 100):
            durable.partial_fit(X[start : start + 100], Y[start : start + 100])
        assert str(tmp_path / "here") in synced
        path = killed(durable, tmp_path / "there")
    path.with_name("model-owner").write_bytes(synced[str(tmp_path / "here" / "model-owner")])
    monkeypatch.setattr(session, "boot", lambda: "another")
    with Durable.open(path) as again:
        assert again.model.n_seen_ == 300


# -- any content ---------------------------------------------------------------------------------------------------


def as_rows(content, columns=3):
    """Rows whose doubles spell these bytes, zero where an estimator would refuse them."""
    values = np.frombuffer(content[: len(content) // (8 * columns) * 8 * columns]).copy()
    values[~(np.abs(values) < 1e100)] = 0.0
    return values.reshape(-1, columns)[:400]


def header():
    """A record of the former log that is made of numbers that estimators accept."""
    for nonce in range(10_000):
        fields = struct.pack("<QQQII", nonce, 1, 2**40, 7, 7)
        head = b"ROWS" + struct.pack("<I", zlib.crc32(fields)) + fields
        if np.all(np.abs(np.frombuffer(head)) < 1e100):
            return (head + bytes(8)) * 20
    raise AssertionError


CONTENTS = {
    "former header": lambda log: header(),
    "header of the log": lambda log: log.read_bytes()[:32] * 100,
    "pages of the log": lambda log: log.read_bytes()[32:40_000],
    "later pages of the log": lambda log: log.read_bytes()[32 + 65_560 :],
    "the file": lambda log: log.with_name("model").read_bytes(),
    "text of tables": lambda log: b"CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT); DROP TABLE journal;" * 9,
}


@pytest.mark.parametrize("kind", CONTENTS)
def test_no_content_of_rows_can_make_recovery_fail(kind, open_model, tmp_path, monkeypatch):
    rows = as_rows(CONTENTS[kind](open_model.path.with_name("model-wal")))
    assert rows.any()
    targets = np.zeros(len(rows))
    open_model.partial_fit(rows, targets).partial_fit(rows[:7], targets[:7])
    path = killed(open_model, tmp_path / "there")
    with Durable.open(path) as again:
        assert state(again.model) == state(open_model.model)
    path = killed(open_model, tmp_path / "after a loss of power")
    os.truncate(path.with_name("model-wal"), path.with_name("model-wal").stat().st_size - 8000)
    monkeypatch.setattr(session, "boot", lambda: "another")
    with Durable.open(path) as again:
        assert again.reopened.lost == 1
        assert again.model.n_seen_ == 600 + len(rows)


# -- checkpoints that fail -----------------------------------------------------------------------------------------


@contextmanager
def few_descriptors(spoiled):
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    taken = []
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(256, soft), hard))
    try:
        while True:
            try:
                taken.append(os.open(os.devnull, os.O_RDONLY))
            except OSError:
                break
        yield
    finally:
        for descriptor in taken:
            os.close(descriptor)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def failing(error):
    @contextmanager
    def spoil(monkeypatch):
        def fail(*_):
            raise error

        with monkeypatch.context() as patch:
            patch.setattr(model_file, "write_state", fail)
            yield

    return spoil


FAILURES = {
    "no descriptor": few_descriptors,
    "no memory": failing(MemoryError()),
    "interrupt": failing(KeyboardInterrupt()),
    "disk": failing(StoreError("the disk is full.")),
    "other bytes": failing(CheckpointError("the disk gives back other bytes.")),
    "system": failing(OSError(28, "No space left on device")),
}


@pytest.mark.parametrize("key", [None, "this call"])
@pytest.mark.parametrize("how", FAILURES)
def test_a_checkpoint_that_fails_never_makes_the_caller_send_rows_twice(how, key, tmp_path, monkeypatch):
    """A caller who sends again what was not acknowledged, and that alone, has every row once."""
    settings = {"keep_history": True}
    durable = Durable(tmp_path / "model", regression(**settings), checkpoint_rows=300, durability="every")
    for start in range(0, 400, 100):  # a state is due
        durable.partial_fit(X[start : start + 100], Y[start : start + 100])
    with FAILURES[how](monkeypatch):
        try:
            durable.partial_fit(X[400:1500], Y[400:1500], key=key)
        except BaseException:
            was_done = False
        else:
            was_done = True
            assert durable.model.n_seen_ == 1500
            assert durable.checkpoint_error is not None or how == "no descriptor"  # it has those that it needs
        assert durable.model.n_seen_ in (400, 1500)
    if not was_done or key is not None:
        assert key is not None or durable.model.n_seen_ == 400
        durable.partial_fit(X[400:1500], Y[400:1500], key=key)
    durable.partial_fit(X[1500:1600], Y[1500:1600])
    assert durable.checkpoint_error is None
    durable.close()
    expected = regression(**settings).partial_fit(X[:1600], Y[:1600])
    assert state(load(tmp_path / "model")) == state(expected)
