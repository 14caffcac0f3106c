"""Estimators that outlive their process: nothing acknowledged is lost, nothing refused leaves a trace."""

import os

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.linear_model import LogisticRegression, Ridge

from batch2online import BatchToOnline, OnlineClustering, OnlineRegression, load
from batch2online.persistence.checkpoint import CheckpointError
from batch2online.persistence.durable import Durable
from batch2online.persistence.files import Files
from batch2online.persistence.store import StoreCorrupted, StoreError, StoreLocked
from torture.durables import OTHER, X, Y, low_rank, regression, state, with_history
from torture.faults import Unsynced

FAST = {"files": Unsynced()}


def crash(durable):
    """Let go of the folder without a word, as a killed process does."""
    durable._release()


def same_after_crash(folder, durable, make):
    crash(durable)
    again = Durable(folder, make(), **FAST)
    assert state(again.model) == state(durable.model)
    return again


def clustering():
    return OnlineClustering(3, coreset_size=30, random_state=0)


def wrapped():
    return BatchToOnline(Ridge(), coreset_size=30, keep_history=True, random_state=0)


@pytest.mark.parametrize("make", [regression, low_rank, clustering, wrapped])
def test_a_model_continues_as_if_nothing_had_happened(tmp_path, make):
    durable, plain, n = Durable(tmp_path, make(), checkpoint_rows=300, **FAST), make(), 0
    for size in (1, 40, 500, 7, 1, 900, 3, 20):
        durable.partial_fit(X[n : n + size], Y[n : n + size])
        durable.learn_one(X[n + size], Y[n + size])
        n += size + 1
        durable = same_after_crash(tmp_path, durable, make)
        plain.partial_fit(X[plain.n_seen_ if n > size + 1 else 0 : n], Y[plain.n_seen_ if n > size + 1 else 0 : n])
        assert state(durable.model) == state(plain)
    durable.close()
    assert len(list(tmp_path.glob("*.npz"))) == 2


@pytest.mark.parametrize(
    "form",
    [
        lambda rows: rows.tolist(),
        lambda rows: rows.astype(np.float32),
        lambda rows: np.asfortranarray(rows),
        sp.csr_array,
        lambda rows: pd.DataFrame(rows, columns=list("abcd")),
    ],
)
def test_rows_in_any_form_are_kept(tmp_path, form):
    durable = Durable(tmp_path, regression(), **FAST)
    for part in (slice(0, 20), slice(20, 50)):
        durable.partial_fit(form(X[part]), Y[part].tolist(), np.arange(X[part].shape[0]) % 3)
    same_after_crash(tmp_path, durable, regression).close()


def test_several_targets_and_one_weight_for_all_are_kept(tmp_path):
    durable = Durable(tmp_path, regression(), **FAST)
    for part in (slice(0, 20), slice(20, 50)):
        durable.partial_fit(X[part], np.column_stack([Y, -Y])[part], 2.0)
    durable.learn_one(X[50], [1.0, 2.0])
    same_after_crash(tmp_path, durable, regression).close()


def test_single_rows_with_names_are_kept(tmp_path):
    durable = Durable(tmp_path, regression(), **FAST)
    for row, target in zip(X[:40].tolist(), Y[:40].tolist(), strict=True):
        durable.learn_one(dict(zip("abcd", row, strict=True)), target)
    again = same_after_crash(tmp_path, durable, regression)
    assert again.reopened.replayed == 39
    again.learn_one({"d": 4.0, "c": 3.0, "b": 2.0, "a": 1.0}, 1.0)
    again.close()


def test_merging_and_forgetting_are_kept_and_what_was_forgotten_is_gone(tmp_path):
    durable = Durable(tmp_path, with_history(), **FAST)
    secret = 1234.56789012345
    rows = np.vstack([X[:30], np.full((1, 4), secret)])
    durable.partial_fit(rows, Y[:31]).partial_fit(X[31:60], Y[31:60])
    durable.merge(OTHER).forget([30])
    durable = same_after_crash(tmp_path, durable, with_history)
    needle = np.float64(secret).tobytes()
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert len(files) > 4
    assert not [path.name for path in files if needle in path.read_bytes()]
    durable.close()


def test_reopening_says_how(tmp_path):
    with Durable(tmp_path, regression(), **FAST) as durable:
        assert durable.reopened is None
        durable.partial_fit(X[:30], Y[:30]).partial_fit(X[30:50], Y[30:50])
        crash(durable)
    log = max(tmp_path.glob("*.log")) / "00000000.rows"
    log.write_bytes(log.read_bytes()[:-3])
    with Durable(tmp_path, regression(), **FAST) as durable:
        assert (durable.reopened.checkpoint, durable.reopened.damaged, durable.reopened.replayed) == (
            "00000002.npz",
            (),
            20,
        )
        assert durable.reopened.dropped[0].dropped_bytes == 37
    with Durable(tmp_path, regression(), **FAST) as durable:
        assert (durable.reopened.checkpoint, durable.reopened.replayed) == ("00000003.npz", 0)
        durable.checkpoint()
    assert load(tmp_path / "00000004.npz").n_seen_ == 50


class Breakable(Unsynced):
    """The call named by ``broken`` fails, for paths in which ``place`` occurs."""

    broken, place = "", ""

    def _check(self, name, path):
        if name == self.broken and self.place in str(path):
            raise OSError(28, "full")

    def rename(self, source, target):
        self._check("rename", target)
        super().rename(source, target)

    def fsync_folder(self, path):
        self._check("fsync_folder", [*path.glob("*.npz")])


def test_a_checkpoint_that_fails_can_wait(tmp_path):
    files = Breakable()
    durable = Durable(tmp_path, regression(), checkpoint_rows=10, files=files)
    durable.partial_fit(X[:20], Y[:20])
    files.broken, files.place = "rename", ".npz"
    durable.partial_fit(X[20:40], Y[20:40])
    assert "full" in str(durable.checkpoint_error)
    with pytest.raises(StoreError, match="full"):
        durable.checkpoint()
    files.broken = ""
    durable.learn_one(X[40], Y[40])
    assert durable.checkpoint_error is None
    again = same_after_crash(tmp_path, durable, regression)
    assert again.reopened.replayed == 0
    again.close()


def test_first_rows_that_cannot_be_kept_have_not_come(tmp_path):
    files = Breakable()
    durable = Durable(tmp_path, regression(), files=files)
    files.broken, files.place = "rename", ".npz"
    with pytest.raises(StoreError, match="full"):
        durable.partial_fit(X[:20], Y[:20])
    assert vars(durable.model) == vars(regression())
    files.broken = ""
    durable.partial_fit(X[:30], Y[:30])
    same_after_crash(tmp_path, durable, regression).close()


def test_a_damaged_checkpoint_is_set_aside_and_said(tmp_path):
    with Durable(tmp_path, regression(), **FAST) as durable:
        durable.partial_fit(X[:20], Y[:20]).partial_fit(X[20:50], Y[20:50])
    newest = max(tmp_path.glob("*.npz"))
    newest.write_bytes(newest.read_bytes()[:-1])
    with Durable(tmp_path, regression(), **FAST) as again:
        assert "truncated" in again.reopened.damaged[0]
        assert again.reopened.replayed == 30
        assert state(again.model) == state(durable.model)
        assert newest.with_suffix(".damaged").exists()
        again.merge(regression(first_id=1000).partial_fit(X[:20], Y[:20]))
    assert not list(tmp_path.glob("*.damaged"))


def test_a_checkpoint_that_may_not_be_durable_ends_it(tmp_path):
    files = Breakable()
    durable = Durable(tmp_path, regression(), files=files)
    durable.partial_fit(X[:20], Y[:20])
    before = state(durable.model)
    files.broken, files.place = "fsync_folder", "00000003.npz"
    with pytest.raises(StoreError, match="full"):
        durable.merge(regression(first_id=100).partial_fit(X[:20], Y[:20]))
    assert state(durable.model) == before
    with pytest.raises(StoreError, match="may not be durable"):
        durable.partial_fit(X[:1], Y[:1])
    durable.close()
    with Durable(tmp_path, regression(), **FAST) as again:
        assert again.model.n_seen_ == 40


@pytest.mark.parametrize("rows", [X[:3] * np.nan, X[0], "rows"], ids=["NaN", "1-D", "text"])
def test_refused_rows_leave_no_trace(tmp_path, rows):
    with Durable(tmp_path, regression(), **FAST) as durable:
        with pytest.raises(ValueError, match=r"X|array|string"):
            durable.partial_fit(rows, Y[:3])
        assert "_engine" not in vars(durable.model)
        durable.partial_fit(X[:20], Y[:20]).partial_fit(X[20:40], Y[20:40])
        before = state(durable.model)
        with pytest.raises(ValueError, match=r"X|array|string"):
            durable.partial_fit(rows, Y[:3])
        with pytest.raises((ValueError, TypeError)):
            durable.learn_one(X[0, :2], 1.0)
        assert state(durable.model) == before
        same_after_crash(tmp_path, durable, regression).close()


def test_one_that_was_dropped_gives_its_locks_back(tmp_path):
    durable = Durable(tmp_path, regression(), **FAST)
    durable.partial_fit(X[:20], Y[:20]).partial_fit(X[20:30], Y[20:30])
    expected = state(durable.model)
    del durable
    with Durable(tmp_path, regression(), **FAST) as again:
        assert state(again.model) == expected


def test_a_second_one_is_refused(tmp_path):
    with Durable(tmp_path, regression(), **FAST), pytest.raises(StoreLocked):
        Durable(tmp_path, regression())


@pytest.mark.parametrize(
    ("other", "message"),
    [
        (low_rank, "OnlineRegression, not a OnlineLowRank"),
        (lambda: OnlineRegression(epsilon=0.5), "coreset_size|epsilon"),
    ],
)
def test_another_estimator_is_refused(tmp_path, other, message):
    with Durable(tmp_path, regression(), **FAST) as durable:
        durable.partial_fit(X[:20], Y[:20])
    with pytest.raises(ValueError, match=message):
        Durable(tmp_path, other(), **FAST)
    Durable(tmp_path, regression(), **FAST).close()


def test_classifiers_are_refused(tmp_path):
    with pytest.raises(TypeError, match="Labels"):
        Durable(tmp_path, BatchToOnline(LogisticRegression()))


def test_no_intact_checkpoint_is_refused(tmp_path):
    with Durable(tmp_path, regression(), **FAST) as durable:
        durable.partial_fit(X[:20], Y[:20])
    for path in tmp_path.glob("*.npz"):
        path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(CheckpointError, match="no intact checkpoint"):
        Durable(tmp_path, regression(), **FAST)


def test_a_log_that_lost_its_end_before_another_log_is_refused(tmp_path):
    with Durable(tmp_path, regression(), checkpoint_rows=25, **FAST) as durable:
        for start in range(0, 80, 20):
            durable.partial_fit(X[start : start + 20], Y[start : start + 20])
        crash(durable)
    newest, first_log = max(tmp_path.glob("*.npz")), sorted(tmp_path.glob("*.log"))[-2] / "00000000.rows"
    newest.write_bytes(newest.read_bytes()[:-1])
    first_log.write_bytes(first_log.read_bytes()[:-43])  # the note at the end, and three bytes of rows
    with pytest.raises(StoreCorrupted, match="lost its end"):
        Durable(tmp_path, regression(), **FAST)


def test_closing_twice_and_closing_what_is_empty(tmp_path):
    durable = Durable(tmp_path, regression())
    durable.close()
    durable.close()
    with pytest.raises(StoreError, match="it is closed"):
        durable.partial_fit(X[:20], Y[:20])
    assert os.listdir(tmp_path) == ["lock"]


def test_temporary_files_of_a_crash_are_removed(tmp_path):
    (tmp_path / ".00000001.npz.5-5.tmp").write_bytes(b"half")
    Durable(tmp_path, regression()).close()
    assert os.listdir(tmp_path) == ["lock"]


class Unremovable(Files):
    def remove(self, path):
        if path.suffix in (".npz", ".log"):
            raise OSError(1, "not permitted")
        super().remove(path)


def test_what_cannot_be_removed_stays_and_does_no_harm(tmp_path):
    with Durable(tmp_path, regression(), files=Unremovable()) as durable:
        durable.partial_fit(X[:20], Y[:20]).partial_fit(X[20:50], Y[20:50])
    assert len(list(tmp_path.glob("*.npz"))) == 3
    with Durable(tmp_path, regression(), **FAST) as durable:
        assert durable.model.n_seen_ == 50
        durable.checkpoint()
    assert len(list(tmp_path.glob("*.npz"))) == 2
