"""Targets that come late: the model is that of the rows in the order of their targets, the loss that of the answers."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

from batch2online import BatchToOnline, Durable, OnlineClassifier, OnlineClustering, OnlineRegression
from batch2online.refresh import Geometric
from batch2online.storage.errors import DuplicateKey, StoreCorrupted, StoreError, UnknownKey
from batch2online.storage.tree import CheckpointError
from state_bytes import serialise

RNG = np.random.default_rng(0)
X = RNG.normal(size=(900, 3))
Y = X @ [1.0, -2.0, 0.5] * np.linspace(1, 2, 900) + RNG.normal(size=900)
WORDS = np.where(Y > 0, "up", "down")
SETTINGS = {"random_state": 0, "coreset_size": 60, "refresh": Geometric(1.3)}
ESTIMATORS = {
    "regression": (lambda: OnlineRegression(keep_history=True, **SETTINGS), Y),
    "counts": (lambda: OnlineRegression(loss="poisson", **SETTINGS), np.floor(np.abs(Y))),
    "half-life": (lambda: OnlineRegression(half_life=200, **SETTINGS), Y),
    "auto": (lambda: OnlineRegression(half_life="auto", random_state=0), Y),
    "window": (lambda: OnlineRegression(window=150, **SETTINGS), Y),
    "classification": (lambda: OnlineClassifier(keep_history=True, **SETTINGS), WORDS),
    "Ridge": (lambda: BatchToOnline(Ridge(), keep_history=True, **SETTINGS), Y),
    "LogisticRegression": (lambda: BatchToOnline(LogisticRegression(), **SETTINGS), WORDS),
}


@pytest.fixture
def path(tmp_path):
    return tmp_path / "model.b2o"


def state(durable_or_model):
    """Return all that decides how a model goes on: not what is reported of losses."""
    model = getattr(durable_or_model, "model", durable_or_model)
    stream = model._stream.flushed()
    current = stream.current
    kept = {"sketch": current.sketch, "refresh": current.refresh, "changes": current.changes}
    if not isinstance(model, BatchToOnline):
        kept["model"] = current.model
    else:
        kept["refresh"] = current.refresh.next_check
    return serialise(kept)


def late(durable, y, delay=40):
    """Ask for each of 300 rows, ten at a time, and bring their targets after so many rows more; return the answers."""
    answers = {}
    for start in range(300, 600, 10):
        rows = range(start, start + 10)
        answers |= dict(zip(rows, durable.predict(X[start : start + 10], keys=list(rows)), strict=True))
        if start - delay >= 300:
            due = list(range(start - delay, start - delay + 10))
            durable.label(due, y[due])
    return answers


@pytest.mark.parametrize("name", ESTIMATORS)
def test_the_model_is_that_of_the_rows_in_order(name, path):
    make, y = ESTIMATORS[name]
    with Durable(path, make(), durability="os", checkpoint_rows=90) as durable:
        durable.partial_fit(X[:300], y[:300])
        late(durable, y)
        assert (durable.n_waiting, durable.n_seen_) == (40, 560)
        assert state(durable) == state(make().partial_fit(X[:560], y[:560]))


@pytest.mark.parametrize("name", ["regression", "counts", "classification", "Ridge", "LogisticRegression"])
def test_the_loss_is_that_of_the_answers(name, path):
    make, y = ESTIMATORS[name]
    plain = make().partial_fit(X[:300], y[:300])
    with Durable(path, make(), durability="os") as durable:
        durable.partial_fit(X[:300], y[:300])
        before, answers = durable.metrics_, late(durable, y)
        found, direct = durable.metrics_, make().partial_fit(X[:560], y[:560]).metrics_
    predicted, truth = np.array([answers[row] for row in range(300, 560)]), y[300:560]
    if name in ("regression", "Ridge"):
        sums = {metrics["RMSE"] ** 2 * n for metrics, n in ((found, 560), (before, 300))}
        assert max(sums) - min(sums) == pytest.approx(np.square(predicted - truth).sum(), rel=1e-9)
    elif name == "counts":
        assert found["MAE"] * 560 - before["MAE"] * 300 == pytest.approx(np.abs(predicted - truth).sum(), rel=1e-9)
    elif name == "classification":
        right = found["accuracy"] * 560 - before["accuracy"] * 300
        assert right == pytest.approx(np.sum(predicted == truth), rel=1e-9)
    assert found != direct
    assert plain.n_seen_ == 300


@pytest.mark.parametrize("name", ["regression", "half-life", "auto", "window"])
def test_regret_counts_the_answers_as_well(name, path):
    make, y = ESTIMATORS[name]
    direct = make().partial_fit(X[:560], y[:560])
    with Durable(path, make(), durability="os") as durable:
        durable.partial_fit(X[:300], y[:300])
        answers = late(durable, y)
        late_regret, metrics = durable.regret_, durable.metrics_
    assert late_regret.optimum == direct.regret_.optimum
    assert late_regret.rows == direct.regret_.rows
    own = np.square([answers[row] - y[row] for row in range(300, 560)])
    if name == "regression":
        first = make().partial_fit(X[:300], y[:300]).regret_.loss
        assert late_regret.loss == pytest.approx(first + own.sum(), rel=1e-12)
    elif name == "window":
        assert late_regret.loss == pytest.approx(own[-late_regret.rows :].sum(), rel=1e-12)
    else:
        assert late_regret.loss > direct.regret_.loss
        assert metrics["RMSE"] > direct.metrics_["RMSE"]


def test_a_row_answered_and_learned_at_once_costs_what_it_costs_in_a_stream(path):
    make, y = ESTIMATORS["regression"]
    direct = make().partial_fit(X[:200], y[:200])
    with Durable(path, make(), durability="os") as durable:
        durable.partial_fit(X[:1], y[:1])
        for row in range(1, 200):  # the first ones before there is a model
            durable.predict(X[row : row + 1], keys=[row])
            durable.label([row], y[row : row + 1])
        assert durable.regret_.loss == pytest.approx(direct.regret_.loss, rel=1e-12)
        assert durable.regret_.secondary_loss == pytest.approx(direct.regret_.secondary_loss, rel=1e-12)


@pytest.mark.parametrize("name", ESTIMATORS)
@pytest.mark.parametrize("closes", [True, False])
def test_all_of_it_survives(name, closes, path):
    make, y = ESTIMATORS[name]
    with Durable(path, make(), durability="os") as durable:
        durable.partial_fit(X[:300], y[:300])
        late(durable, y)
        durable.label(range(560, 600), y[560:600])
        expected, regret = serialise(durable.model._state()), durable.regret_
    path.unlink()
    durable = Durable(path, make(), durability="os", checkpoint_rows=10_000)
    durable.partial_fit(X[:300], y[:300])
    late(durable, y)
    durable.close() if closes else durable._session.abandon()
    with Durable(path, make(), durability="os") as durable:
        assert durable.reopened.was_closed is closes
        assert durable.n_waiting == 40
        durable.label(range(560, 600), y[560:600])
        assert serialise(durable.model._state()) == expected
        assert durable.regret_ == regret
        assert durable.n_waiting == 0
        assert not durable._session.database.numbers("answer")


def test_a_state_with_buffered_answers_survives(path):
    make, y = ESTIMATORS["regression"]
    with Durable(path, make(), durability="os") as durable:
        durable.partial_fit(X[:300], y[:300])
        durable.predict(X[300:303], keys=[0, 1, 2])
        durable.label([2, 0], y[[302, 300]])
        assert len(durable.model.stream.state.answered) == 2
        regret, other = durable.regret_, 100 * X[303:304]
    with Durable.open(path) as durable:
        assert durable.regret_ == regret
        durable.predict(other, keys=["far"])
        durable.partial_fit(X[400:800], y[400:800])  # the model changes
        durable.label(["far"], [0.0]).partial_fit(X[800:], y[800:])
        assert durable.model.stream.flushed().state.answered is None


def test_unknown_and_repeated_keys_change_nothing(path):
    make, y = ESTIMATORS["regression"]
    with Durable(path, make(), durability="os") as durable:
        durable.partial_fit(X[:100], y[:100], keys=[f"row {i}" for i in range(100)])
        durable.predict(X[100:104], keys=["a", "b", "c", "d"])
        durable.label(["a"], y[100:101])
        before = serialise(durable.model._state())
        calls = {
            r"waits for its target under the key 'x', 'y': it was not predicted": (
                UnknownKey, lambda: durable.label(["b", "x", "y"], [1.0, 2.0, 3.0])),
            r"with the key 'a' has its target already": (DuplicateKey, lambda: durable.label(["b", "a"], [1.0, 2.0])),
            r"with the key 'row 3' has its target": (DuplicateKey, lambda: durable.label(["row 3"], [1.0])),
            r"more than once: 'b'": (DuplicateKey, lambda: durable.label(["b", "b"], [1.0, 2.0])),
            r"got 1 keys for 2 rows": (ValueError, lambda: durable.label(["b"], [1.0, 2.0])),
            r"NaN": (ValueError, lambda: durable.label(["b"], [np.nan])),
            r"learned a row with the key 'a' already": (DuplicateKey, lambda: durable.predict(X[:1], keys=["a"])),
            r"waits for its target under the key 'b': pass the target to label": (
                DuplicateKey, lambda: durable.partial_fit(X[:1], y[:1], keys=["b"])),
            r"under the key 'c': pass": (DuplicateKey, lambda: durable.predict(X[:2], keys=["e", "c"])),
            r"pass keys as well": (ValueError, lambda: durable.predict(X[:1], at=3.0)),
            r"at must be a finite number": (ValueError, lambda: durable.predict(X[:1], keys=["e"], at=np.inf)),
        }  # fmt: skip
        for says, (error, call) in calls.items():
            with pytest.raises(error, match=says):
                call()
        assert serialise(durable.model._state()) == before
        assert durable.n_waiting == 3
        durable.label(["d", "b"], y[[103, 101]])


def test_rows_expire(path):
    make, y = ESTIMATORS["regression"]
    with Durable(path, make(), durability="os", expire_after=25) as durable:
        durable.partial_fit(X[:100], y[:100])
        for start in range(100, 160, 10):
            durable.predict(X[start : start + 10], keys=range(start, start + 10), at=start / 10)
        assert durable.n_waiting == 25
        with pytest.raises(UnknownKey, match="has expired"):
            durable.label([134], [1.0])
        durable.label([135], y[135:136])
        assert durable.expire(before=14.0) == 4
        assert durable.expire(before=14.0) == 0
        assert durable.n_waiting == 20
        durable.predict(X[:1], keys=[134])
        assert durable.expire(before=99.0) == 20
        durable.label([134], y[:1])
    with pytest.raises(ValueError, match="expire_after must be a whole number above 0, got 0"):
        Durable(path, expire_after=0)


@pytest.mark.parametrize("name", ["regression", "Ridge"])
def test_forgetting_leaves_nothing_of_rows_that_wait_or_have_answered(name, path):
    make, y = ESTIMATORS[name]
    with Durable(path, make(), durability="os") as durable:
        durable.partial_fit(X[:300], y[:300], keys=[f"row-{i:04}" for i in range(300)])
        durable.predict(X[300:310], keys=[f"row-{i:04}" for i in range(300, 310)])
        durable.forget(keys=["row-0301", "row-0302"])
        assert durable.n_waiting == 8
        assert durable.n_seen_ == 300
        durable.forget(keys=["row-0303", "row-0017"])
        content = b"".join(file.read_bytes() for file in path.parent.iterdir())
        for i in (301, 302, 303, 17):
            assert f"row-{i:04}".encode() not in content
            assert X[i, :1].tobytes() not in content
        assert X[304].tobytes() in content
        durable.label(["row-0304"], y[304:305])
        expected = make().partial_fit(X[:300], y[:300]).forget([17]).partial_fit(X[304:305], y[304:305])
        assert durable.regret_.loss == pytest.approx(expected.regret_.loss, rel=1e-12)


def test_models_that_have_answered_go_with_their_last_row(path):
    make, y = ESTIMATORS["regression"]
    with Durable(path, make(), durability="os") as durable:
        durable.partial_fit(X[:100], y[:100])
        for part in range(4):
            durable.predict(X[part : part + 2], keys=[(part, "ab")[1] + str(2 * part + i) for i in range(2)])
            durable.partial_fit(X[100 + 100 * part : 200 + 100 * part], y[100 + 100 * part : 200 + 100 * part])
        n = len(durable._session.database.numbers("answer"))
        assert n > 1
        durable.label(["ab0", "ab1"], [1.0, 2.0])
        assert len(durable._session.database.numbers("answer")) < n


def test_tables_with_strings(path):
    words = np.array(["red", "green", "blue"])[RNG.integers(0, 3, 600)]
    table = pd.DataFrame({"a": X[:600, 0], "color": words})

    def make():
        encoder = OneHotEncoder(handle_unknown="ignore")
        return BatchToOnline(make_pipeline(encoder, Ridge()), random_state=0, coreset_size=100)

    with Durable(path, make(), durability="os") as durable:
        durable.partial_fit(table[:400], Y[:400])
        question = table[400:420].copy()
        question.iloc[3, 1] = "violet"
        durable.predict(question, keys=range(20))
        durable.partial_fit(table[420:500], Y[420:500])
        assert b"violet" not in serialise(durable.model._state())
    with Durable(path, make(), durability="os") as durable:
        durable.label(range(20), Y[400:420])
        expected = make().partial_fit(table[:400], Y[:400]).partial_fit(table[420:500], Y[420:500])
        expected.partial_fit(question, Y[400:420])
        assert (durable.coreset_.points == expected.coreset_.points).all().all()
        assert (durable.predict(table) == expected.predict(table)).all()


def test_a_new_label_may_come_late(path):
    make, y = ESTIMATORS["classification"]
    with Durable(path, make(), durability="os") as durable:
        durable.partial_fit(X[:300], y[:300])
        durable.predict_proba(X[300:310], keys=range(10))
        durable.label(range(10), ["third"] * 10)
        expected = make().partial_fit(X[:300], y[:300]).partial_fit(X[300:310], ["third"] * 10)
        assert state(durable) == state(expected)


def test_only_models_of_targets_wait_for_them(path):
    with Durable(path, OnlineClustering(3, random_state=0), durability="os") as durable:
        durable.partial_fit(X[:300])
        with pytest.raises(ValueError, match="OnlineClustering has no targets that could come later"):
            durable.predict(X[:1], keys=[1])


@pytest.mark.parametrize(
    "damage", ["UPDATE question SET content = zeroblob(24)", "DELETE FROM question", "DELETE FROM answer"]
)
def test_damage_is_noticed(damage, path):
    import sqlite3

    make, y = ESTIMATORS["regression"]
    with Durable(path, make(), durability="os") as durable:
        durable.partial_fit(X[:100], y[:100])
        durable.predict(X[:2], keys=[1, 2])
    with sqlite3.connect(path) as connection:
        connection.execute(damage)
    connection.close()
    with Durable.open(path) as durable:
        with pytest.raises(StoreCorrupted, match="damaged"):
            durable.label([1], [2.0])
        assert durable.n_seen_ == 100


@pytest.mark.slow
def test_flipped_bits_are_noticed_or_harmless(path):
    make, y = ESTIMATORS["regression"]
    with Durable(path, make(), durability="os") as durable:
        durable.partial_fit(X[:60], y[:60], keys=[f"row {i}" for i in range(60)])
        durable.predict(X[60:90], keys=range(60, 90))
    content, rng, outcomes = path.read_bytes(), np.random.default_rng(0), set()
    with Durable.open(path) as durable:
        expected = durable.label(range(60, 90), y[60:90]).regret_
    used = np.flatnonzero(np.frombuffer(content, dtype=np.uint8))
    for at in rng.choice(used, 80):
        flipped = bytearray(content)
        flipped[at] ^= 1 << int(rng.integers(8))
        path.write_bytes(flipped)
        try:
            with Durable.open(path) as durable:
                assert len(durable._store.late.keys.find([f"row {i}" for i in range(60)])) == 60
                durable.label(range(60, 90), y[60:90])
                found = durable.regret_
            assert found == expected
            outcomes.add("harmless")
        except (StoreError, CheckpointError):
            outcomes.add("noticed")
    assert "noticed" in outcomes


def test_windows_count_the_loss_of_the_model_that_answered(tmp_path):
    """Rows are answered by a model of eight rows, and labelled while it improves."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(600, 3))
    y = X @ [1.0, 2.0, 3.0] + rng.normal(size=600)
    with Durable(tmp_path / "model.b2o", OnlineRegression(random_state=0)) as model:
        model.partial_fit(X[:8], y[:8])
        keys = [str(row) for row in range(8, 600)]
        model.predict(X[8:], keys=keys)
        for start in range(0, 592, 50):
            model.label(keys[start : start + 50], y[8 + start : 58 + start])
        rows, squares = np.array([[each["rows"], each["metrics"]["RMSE"] ** 2] for each in model.window_metrics_]).T
        assert (rows @ squares / rows.sum()) ** 0.5 == pytest.approx(model.metrics_["RMSE"], rel=1e-9)


@pytest.mark.parametrize("reopens", [False, True])
def test_what_answered_has_one_number_whether_or_not_the_file_was_reopened(path, reopens):
    """After rows are forgotten two models that have answered are the same: further rows take the last of them."""

    def learner():
        return OnlineClassifier(keep_history=True, **SETTINGS)

    durable = Durable(path, learner())
    durable.partial_fit(X[:60], WORDS[:60], keys=[f"learned {i}" for i in range(60)])
    durable.predict(X[60:62], keys=["a", "b"])
    durable.partial_fit(X[62:400], WORDS[62:400])
    durable.predict(X[400:402], keys=["c", "d"])
    durable.forget(keys=["learned 3"])
    if reopens:
        durable.close()
        durable = Durable(path, learner())
    durable.predict(X[402:404], keys=["e", "f"])
    with durable:
        numbers = [row[0] for row in durable._session.database.select("SELECT answer FROM question ORDER BY number")]
    assert numbers == [0, 0, 1, 1, 1, 1]
