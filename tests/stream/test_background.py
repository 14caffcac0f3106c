"""Checks in the background: what becomes current at which row depends on row counts alone."""

from __future__ import annotations

import copy
import math
import os
import pickle
import subprocess
import sys
import threading
import time
from functools import cache, partial
from itertools import pairwise
from unittest.mock import patch

import numpy as np
import pytest
from sklearn.linear_model import Ridge

from batch2online import (
    BatchToOnline,
    Durable,
    OnlineClassifier,
    OnlineClustering,
    OnlineLowRank,
    OnlineRegression,
    background,
    load,
    state,
)
from batch2online.background import BackgroundCall
from batch2online.checks import state as bytes_of
from batch2online.numerics import threads
from batch2online.refresh import EveryStep, Geometric, Lazy
from batch2online.rows import Rows, ones
from batch2online.state import BACKGROUND_ROWS, CHECK_GRID, apply, check, decide, learn, score

N = 1_400
SUBJECTS = {
    "regression": OnlineRegression,
    "every row": partial(OnlineRegression, refresh=EveryStep()),
    "kept models": partial(OnlineRegression, refresh=Lazy(growth=1.2)),
    "selected half-life": partial(OnlineRegression, half_life="auto"),
    "window": partial(OnlineClassifier, window=300, coreset_size=100),
    "classifier": partial(OnlineClassifier, refresh=Geometric(1.3)),
    "small classifier": partial(OnlineClassifier, coreset_size=150),
    "half-life of a classifier": partial(OnlineClassifier, coreset_size=150, half_life=200),
    "low rank": partial(OnlineLowRank, 2, refresh=Geometric(1.3)),
    "clustering": partial(OnlineClustering, 3, coreset_size=100),
    "half-life of clusters": partial(OnlineClustering, 3, coreset_size=100, half_life=300),
    "bounded clustering": partial(OnlineClustering, 3, coreset_size=100, history="coreset"),
    "wrapped": partial(BatchToOnline, Ridge(), coreset_size=150),
    "complete wrapped": partial(BatchToOnline, Ridge()),
}
SLOW = ("wrapped", "selected half-life", "window", "half-life of clusters")


def subjects(*names):
    marked = [pytest.param(name, marks=pytest.mark.slow) if name in SLOW else name for name in names]
    return pytest.mark.parametrize("name", marked)


every_subject = subjects(*SUBJECTS)
some_subjects = subjects("regression", "classifier", "clustering", "selected half-life")


@cache
def rows_and_targets():
    rng = np.random.default_rng(5)
    group = rng.integers(3, size=(N, 1))
    X = rng.normal(size=(N, 4)) + 4 * group * [1, -1, 0.5, 0]
    y = X @ [1.0, -2.0, 0.5, 0.0] + rng.normal(size=N)
    y[N // 2 :] += X[N // 2 :, 0]
    return X, y


@pytest.fixture
def data():
    return rows_and_targets()


def new(name, **settings):
    return SUBJECTS[name](**{"random_state": 3, "background": True} | settings)


def learned(model, data, cuts):
    X, y = data
    y = {OnlineClassifier: np.where(y > 1, "high", "low")}.get(type(model), y)
    has_targets = not isinstance(model, OnlineClustering | OnlineLowRank)
    for start, stop in pairwise(cuts):
        model.partial_fit(X[start:stop], y[start:stop] if has_targets else None)
    return model


@cache
def last_pending(name):
    """Return the last of some row counts at which a check is in the background."""
    model, found = new(name), 0
    for stop in range(40, N, 40):
        learned(model, rows_and_targets(), [stop - 40, stop])
        if any(each.pending is not None for each in model._stream.learner.states):
            found = stop
    return found


def delayed(seed):
    """Return a context in which each decision takes some time, of no more than a few milliseconds."""
    rng, lock = np.random.default_rng(seed), threading.Lock()

    def slow(*args):
        with lock:
            seconds = rng.choice([0.0, 0.001, 0.004])
        time.sleep(seconds)
        return decide(*args)

    return patch.object(state, "decide", slow)


# -- the rule ------------------------------------------------------------------------------------------


AT_ONCE = {"window": 300, "half_life": 200}
"""Settings with which least squares is fitted at once."""


@pytest.mark.parametrize("setting", AT_ONCE)
def test_moments_of_rows_that_lose_weight_are_fitted_at_once(setting, data):
    settings = {setting: AT_ONCE[setting]}
    whole = learned(new("regression", **settings), data, [0, N])
    assert whole.changes_
    assert all(event.fitted_at is None for event in whole.changes_)
    pieces = learned(new("regression", **settings), data, range(0, N + 1, 35))
    assert bytes_of(pieces) == bytes_of(whole)


def test_checks_of_all_half_lives_are_at_multiples_of_one_number():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(6_000, 2))
    y = X[:, 0] * np.cumsum(rng.normal(size=6_000))
    events = [
        event
        for half_life in (600, 1_100)
        for event in new("regression", half_life=half_life).partial_fit(X, y).changes_
        if event.at > 2_000
    ]
    assert len(events) > 20
    assert all(event.at % CHECK_GRID == 0 for event in events)


@every_subject
def test_chunks_and_delays_do_not_matter(name, data):
    whole = bytes_of(learned(new(name), data, [0, N]))
    for seed in range(2):
        rng = np.random.default_rng(seed)
        cuts = [0, *np.unique(rng.integers(1, N, size=30)).tolist(), N]
        with delayed(seed):
            assert bytes_of(learned(new(name), data, cuts)) == whole


def by_the_rule(model, X, y):
    """Return the state after all rows and the changes, with checks decided at once and applied where the rule says."""
    model._prepare(X[:1], y[:1], None)  # makes the stream
    now, history, at, decision, due, events = model._stream.learner, None, 0, None, 0, []
    while at < len(X):
        stop = min(due if decision else now.refresh.next_check, at - at % BACKGROUND_ROWS + BACKGROUND_ROWS, len(X))
        rows = Rows(X[at:stop], y[at:stop, None], ones(stop - at), np.arange(at, stop))
        now, scores = score(now, rows)
        now, at = learn(now, rows, scores), stop
        if decision is not None and at == due:
            now, found = apply(now, decision, history)
            events += found
            following = max(due + 1, now.policy.next_check(decision.at, now.refresh.n_kept))
            now, decision = state._refreshed(now, next_check=following), None
        elif decision is None and at == now.refresh.next_check:
            if now.has_model:
                decision, due = decide(now, history), at + math.ceil(at / 20)
            else:
                now, _ = check(now, history)
    return now, events


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"refresh": Geometric(1.2)},
        {"refresh": EveryStep()},
        {"refresh": Lazy(growth=1.05), "solve": "coreset", "coreset_size": 100},
        {"loss": "huber", "coreset_size": 100},
        {"loss": "huber", "alpha": 0.1, "refresh": Geometric(1.4)},
    ],
    ids=str,
)
def test_models_and_losses_are_those_that_the_rule_says(settings, data):
    X, y = data
    expected, events = by_the_rule(OnlineRegression(random_state=3, **settings), X, y)
    rng = np.random.default_rng(len(events))
    cuts = [0, *np.unique(rng.integers(1, N, size=12)).tolist(), N]
    with delayed(len(events)):
        model = learned(new("regression", **settings), data, cuts)
    assert len(events) > 3
    assert [(event.at, event.fitted_at) for event in model.changes_] == [(e.at, e.fitted_at) for e in events]
    assert all(event.at - event.fitted_at == math.ceil(event.fitted_at / 20) for event in model.changes_)
    assert [event.cost_after for event in model.changes_] == [event.cost_after for event in events]
    found = model._view().current
    assert found.problem.same(found.model, expected.model)
    assert found.loss == expected.loss


def test_a_check_under_way_knows_that_weights_were_scaled(data):
    """The coreset of clusters is a function of the rows: seeds that a check hands over later are those of the rows."""
    settings = {"half_life": 90, "coreset_size": 60, "refresh": Geometric(1.1)}
    model, plain = (new("clustering", background=background, **settings) for background in (True, False))
    scaled = 0
    for start in range(0, N, 10):
        before = model._stream.learner if start else None
        learned(model, data, [start, start + 10])
        learned(plain, data, [start, start + 10])
        after = model._stream.learner
        has_moved = before is not None and before.decay.reference != after.decay.reference
        scaled += has_moved and before.pending is not None
        if has_moved or start % 100 == 0:
            found, expected = model.coreset_, plain.coreset_
            assert np.array_equal(found.ids, expected.ids)
            relative = [each.weights / each.weights.max() for each in (found, expected)]  # references may differ
            assert np.array_equal(*relative)
    assert scaled


def test_a_change_says_when_it_was_fitted(data):
    event = learned(new("regression", refresh=Geometric(1.5)), data, [0, N]).changes_[-1]
    assert f"at {event.at:,} rows, fitted at {event.fitted_at:,}" in event.reason


@pytest.mark.parametrize(("name", "longest"), [("half-life of a classifier", 10), ("window", 15)])
def test_the_delay_is_short_where_old_rows_lose_weight(name, longest, data):
    delays = [event.at - event.fitted_at for event in learned(new(name), data, [0, N]).changes_]
    assert 0 < max(delays) <= longest


def test_without_background_there_is_no_delay(data):
    model = learned(new("regression", background=False), data, [0, N])
    assert model.changes_
    assert all(event.fitted_at is None for event in model.changes_)


def test_background_must_be_true_or_false(data):
    with pytest.raises(ValueError, match="background must be True or False, got 'yes'"):
        learned(new("regression", background="yes"), data, [0, 10])


# -- copies and files ----------------------------------------------------------------------------------


def saved(model, folder):
    model.save(folder / "model.b2o")
    return load(folder / "model.b2o", refit=True)


COPIES = {"deepcopy": copy.deepcopy, "pickle": lambda model: pickle.loads(pickle.dumps(model))}


@every_subject
def test_copies_and_files_hold_a_check_under_way(name, data, tmp_path):
    whole = bytes_of(learned(new(name), data, [0, N]))
    at = last_pending(name)
    with delayed(0):
        model = learned(new(name), data, [0, at])
        for make in (*COPIES.values(), partial(saved, folder=tmp_path)):
            twin = make(model)
            assert any(each.pending is not None for each in twin._stream.learner.states)
            assert bytes_of(learned(twin, data, [at, N])) == whole


@some_subjects
def test_a_durable_model_is_restored_with_its_check(name, data, tmp_path):
    at = last_pending(name)
    whole = bytes_of(learned(new(name), data, [0, N]))
    durable = Durable(tmp_path / "model.b2o", new(name))
    learned_by = partial(_learn_durably, data=data)
    learned_by(durable, [0, at - 10])
    durable.checkpoint()
    learned_by(durable, [at - 10, at])
    durable._session.abandon()  # as a process that dies: the rows since the checkpoint are learned again
    with Durable(tmp_path / "model.b2o") as again:
        assert again.reopened.replayed == 10
        learned_by(again, [at, N])
        assert bytes_of(copy.deepcopy(again.model)) == whole


def test_a_durable_model_with_a_refit_that_fails_can_be_opened(data, tmp_path):
    at = last_pending("regression")

    def failing(now, history):
        if now.n_learned > at - 80:
            raise ArithmeticError("no fit")
        return decide(now, history)

    with patch.object(state, "decide", failing):
        with Durable(tmp_path / "model.b2o", new("regression")) as durable:
            _learn_durably(durable, [0, 10, at], data)
        assert isinstance(durable.checkpoint_error, ArithmeticError)
        with Durable(tmp_path / "model.b2o") as again:
            with pytest.raises(ArithmeticError, match="no fit"):
                _learn_durably(again, [at, N], data)
            assert again.n_seen_ == at
    with Durable(tmp_path / "model.b2o") as again:
        _learn_durably(again, [at, N], data)
        assert bytes_of(copy.deepcopy(again.model)) == bytes_of(learned(new("regression"), data, [0, N]))


def _learn_durably(durable, cuts, data):
    X, y = data
    y = np.where(y > 1, "high", "low") if isinstance(durable.model, OnlineClassifier) else y
    has_targets = not isinstance(durable.model, OnlineClustering)
    for start, stop in pairwise(cuts):
        durable.partial_fit(X[start:stop], y[start:stop] if has_targets else None)


def test_a_history_on_disk_is_read_in_the_background(data, tmp_path):
    at_once = learned(new("clustering"), data, [0, N])
    on_disk = learned(new("clustering", history=tmp_path), data, range(0, N + 1, 20))
    assert np.array_equal(at_once.cluster_centers_, on_disk.cluster_centers_)
    assert at_once.changes_ == on_disk.changes_


def test_a_forged_check_is_refused(data, tmp_path):
    at = last_pending("regression")
    model = learned(new("regression"), data, [0, at])
    pending = model._stream.learner.pending
    forged = {
        "due": state.Pending(pending.due + 1, BackgroundCall.ended(pending.decision)),
        "pending": pending.with_decision(state.replace(pending.decision, at=pending.due)),
        "n_fit_rows": pending.with_decision(state.replace(pending.decision, is_replaced=True, n_fit_rows=None)),
    }
    for word, each in forged.items():
        twin = copy.deepcopy(model)
        twin._stream = twin._stream.map(lambda now, each=each: state.replace(now, pending=each))
        twin.save(tmp_path / "forged.b2o")
        with pytest.raises(ValueError, match=word):
            load(tmp_path / "forged.b2o")


# -- acts that fit afresh --------------------------------------------------------------------------------


@some_subjects
def test_merging_forgetting_and_fitting_drop_a_check(name, data):
    at, kept = last_pending(name), {} if name == "clustering" else {"keep_history": True}
    acts = [lambda model: model.merge(learned(new(name, first_id=N, **kept), data, [0, 60])), lambda m: m.forget([3])]
    for act in acts:
        model = act(learned(new(name, **kept), data, [0, at]))
        assert model._stream.current.pending is None
        learned(model, data, [at, N])
    X, y = data
    targets = np.where(y > 1, "high", "low") if name == "classifier" else None if name == "clustering" else y
    fitted = learned(new(name), data, [0, at]).fit(X, targets)
    assert fitted._stream.current.pending is None
    assert bytes_of(fitted) == bytes_of(new(name).fit(X, targets))


def test_set_params_is_refused_as_ever(data):
    at = last_pending("regression")
    model = learned(new("regression"), data, [0, at]).set_params(background=False)
    with pytest.raises(ValueError, match="background was changed"):
        learned(model, data, [at, N])
    assert bytes_of(learned(model.set_params(background=True), data, [at, N])) == bytes_of(
        learned(new("regression"), data, [0, N])
    )


# -- errors, readers, processes ----------------------------------------------------------------------------


@pytest.mark.parametrize("error", [ArithmeticError, KeyboardInterrupt])
def test_an_error_reaches_the_caller_where_the_outcome_is_due(error, data):
    whole, X, y = bytes_of(learned(new("regression"), data, [0, N])), *data
    model, failures = new("regression"), []

    def failing(*args):
        if threading.current_thread() is not threading.main_thread() and not failures:
            failures.append(args[0].n_learned)
            raise error("no fit")
        return decide(*args)

    with patch.object(state, "decide", failing):
        for row in range(N):
            try:
                model.partial_fit(X[row : row + 1], y[row : row + 1])
            except error:
                (at,) = failures
                assert row + 1 == at + math.ceil(at / 20)
                assert model.n_seen_ == row
                model.partial_fit(X[row : row + 1], y[row : row + 1])
    assert failures
    assert bytes_of(model) == whole


def test_without_a_thread_the_caller_computes(data, monkeypatch):
    whole, before = bytes_of(learned(new("regression"), data, [0, N])), sys.getswitchinterval()

    def refuse(*_):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(background, "start_new_thread", refuse)
    assert bytes_of(learned(new("regression"), data, range(0, N + 1, 100))) == whole
    assert sys.getswitchinterval() == before


def test_readers_never_wait(data):
    at, release = last_pending("classifier"), threading.Event()
    expected = learned(new("classifier"), data, [0, at])

    def waiting(*args):
        release.wait()
        return decide(*args)

    model = learned(new("classifier"), data, [0, at - 80])
    model._stream.waited()
    with patch.object(state, "decide", waiting):
        learned(model, data, [at - 80, at])
        assert model._stream.learner.pending is not None
        for reader in (model, expected):
            found = (
                reader.predict_proba(data[0][:5]).tolist(),
                reader.regret_,
                reader.changes_,
                reader.coreset_.ids.tolist(),
                reader.metrics_,
            )
            first = found if reader is model else first  # noqa: F821
        assert not release.is_set()
        release.set()
    assert first == found
    model._stream.waited()


def test_a_check_reads_the_rows_before_it_alone(data):
    """Rows that are appended while the thread reads the history belong to later checks."""
    whole = learned(new("clustering"), data, [0, N])

    def late(now, history):
        time.sleep(0.005)
        assert len(history) == now.n_learned
        return decide(now, history)

    with patch.object(state, "decide", late):
        model = learned(new("clustering"), data, range(0, N + 1, 7))
    assert np.array_equal(model.cluster_centers_, whole.cluster_centers_)


PROGRAM = """
import os, sys, threading, time
import numpy as np
from batch2online import OnlineRegression, state
decide = state.decide
def slow(*args):
    if threading.current_thread() is not threading.main_thread():
        time.sleep(60)
    return decide(*args)
state.decide = slow
X = np.random.default_rng(0).normal(size=(2_000, 3))
model = OnlineRegression(random_state=0, background=True)
for row in range(1_999):
    if model.__sklearn_is_fitted__() and model._stream.learner.pending is not None:
        break
    model.partial_fit(X[row : row + 1], X[row : row + 1, 0])
"""
FORK = """
due = model._stream.learner.pending.due
if os.fork() == 0:
    model.partial_fit(X[row:due], X[row:due, 0])
    print(model._stream.learner.pending is None, len(model.coef_))
    sys.stdout.flush()
    os._exit(0)
os.wait()
"""


@pytest.mark.slow
@pytest.mark.parametrize(("program", "printed"), [("", ""), pytest.param(FORK, "True 3")], ids=["exit", "fork"])
def test_threads_end_with_their_process(program, printed):
    if program and not hasattr(os, "fork"):
        pytest.skip("no fork")
    ended = subprocess.run([sys.executable, "-c", PROGRAM + program], capture_output=True, text=True, timeout=40)
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.strip() == printed


# -- single rows, whose segments a thread learns ------------------------------------------------------------


def learned_singly(model, data, cuts, act=lambda model: None):
    """Learn rows one by one, with an act where they are cut."""
    X, y = data
    y = (np.where(y > 1, "high", "low") if isinstance(model, OnlineClassifier) else y).tolist()
    y = [None] * len(y) if isinstance(model, OnlineClustering | OnlineLowRank) else y
    for start, stop in pairwise(cuts):
        for x, target in zip(X[start:stop].tolist(), y[start:stop], strict=True):
            model.learn_one(x, target)
        act(model)
    return model


def whole_singly(name, data):
    """Return the bytes of a model of all rows; the first ones are calls of their own, since a call sorts new labels."""
    return bytes_of(learned(new(name), data, [*range(60), N]))


def slow_steps(seed):
    """Return a context in which each segment that a thread learns takes some time."""
    rng, lock = np.random.default_rng(seed), threading.Lock()

    def slow(*args):
        if threading.current_thread() is not threading.main_thread():
            with lock:
                seconds = rng.choice([0.0, 0.001, 0.004])
            time.sleep(seconds)
        return score(*args)

    return patch.object(state, "score", slow)


def is_learning(model):
    """Return whether the last segment may be with a thread."""
    return "learner" not in vars(model._stream)


@every_subject
def test_threads_learn_single_rows_as_calls_do(name, data):
    whole = whole_singly(name, data)
    for seed in range(2):
        rng = np.random.default_rng(seed)
        cuts = [0, *np.unique(rng.integers(1, N, size=8)).tolist(), N]
        with slow_steps(seed), delayed(seed):
            model = learned_singly(new(name), data, cuts, lambda model: (model.regret_, model.n_changes_))
        assert bytes_of(model) == whole


@every_subject
def test_the_next_cut_is_never_sooner_than_its_bound(name, data):
    model, exact, found = new(name), 0, 0
    for row in range(N):
        before = model._stream if row else None
        learned_singly(model, data, [row, row + 1])
        if before is not None and before is not model._stream and is_learning(model):
            room = model._stream.room
            assert 1 <= room <= model._stream.rows_to_cut()
            exact, found = exact + (room == model._stream.rows_to_cut()), found + 1
    assert found > 5
    assert exact > found / 3


@some_subjects
def test_copies_files_and_merges_wait_for_the_thread(name, data, tmp_path):
    whole = whole_singly(name, data)
    makes = (*COPIES.values(), partial(saved, folder=tmp_path))
    with slow_steps(0):
        model, row = new(name), 0
        for make in makes:
            is_new = False
            while not is_new:
                learned_singly(model, data, [row, row + 1])
                row, is_new = row + 1, row > 300 and is_learning(model)
            model = make(model)
        assert bytes_of(learned_singly(model, data, [row, N])) == whole
        assert row < N
    cuts, other = [*range(60), 640], learned(new(name, first_id=N), data, [0, 60])
    merged = [learn(new(name), data, cuts).merge(other) for learn in (learned, learned_singly)]
    assert bytes_of(merged[0]) == bytes_of(merged[1])


def waiting_steps(started, release):
    """Return a context in which threads wait to learn a segment."""

    def wait(*args):
        if threading.current_thread() is not threading.main_thread():
            started.set()
            assert release.wait(timeout=10)
        return score(*args)

    return patch.object(state, "score", wait)


@pytest.mark.parametrize("name", ["regression", "classifier", "clustering", "low rank"])
def test_neither_learning_nor_predicting_waits_for_rows_that_keep_the_model(name, data):
    x, at, started, release = data[0][0].tolist(), BACKGROUND_ROWS - 1, threading.Event(), threading.Event()
    model = learned(new(name), data, [*range(60), at])
    model._stream.waited()
    expected = [model.predict_one(x) for _ in range(3)][-1]  # in Python numbers, from the second one on
    assert model._stream.learner.rows_to_cut() > model._stream.rows_to_cut()
    with waiting_steps(started, release):
        learned_singly(model, data, [at, at + 10])
        assert started.wait(timeout=10)
        found = model.predict_one(x)
        assert is_learning(model)
        release.set()
    assert np.array_equal(found, expected)
    assert bytes_of(learned_singly(model, data, [at + 10, N])) == whole_singly(name, data)


@pytest.mark.parametrize("background", [False, True])
@subjects("regression", "every row", "classifier", "selected half-life")
def test_one_prediction_is_by_the_current_model(name, background, data):
    """A plan of the prediction in Python numbers is never that of an earlier model."""
    rng, model, row = np.random.default_rng(4), new(name, background=background), 0
    x, changes = data[0][7], set()
    while row < N - 30:
        learn_some, n_rows = ((learned_singly, 1), (learned, int(rng.integers(1, 30))))[rng.integers(2)]
        learn_some(model, data, [row, row + n_rows])
        row += n_rows
        find = model.predict_proba if name == "classifier" else model.predict
        one = model.predict_proba_one(x.tolist()) if name == "classifier" else model.predict_one(x.tolist())
        one = list(one.values()) if name == "classifier" else one
        assert np.allclose(one, find(x[None])[0], rtol=1e-9, atol=1e-12)
        changes.add(model.n_changes_)
    assert len(changes) > 3


@pytest.mark.parametrize("error", [ArithmeticError, KeyboardInterrupt])
def test_an_error_of_the_thread_reaches_the_caller_that_needs_the_rows(error, data):
    whole, model, failures = whole_singly("regression", data), new("regression"), []

    def failing(*args):
        if threading.current_thread() is not threading.main_thread() and len(failures) < 3:
            failures.append(args[0].n_learned)
            raise error("no score")
        return score(*args)

    row, reached = 0, 0
    with patch.object(state, "score", failing):
        while row < N:
            try:
                learned_singly(model, data, [row, row + 1])
            except error:
                reached += 1
                assert model.n_seen_ == row
            else:
                row += 1
    assert reached == len(failures) == 3
    assert bytes_of(model) == whole


# -- settings of the process ---------------------------------------------------------------------------------


def test_the_switch_interval_is_restored():
    before, started, release = sys.getswitchinterval(), threading.Event(), threading.Event()

    def compute():
        started.set()
        release.wait()
        return sys.getswitchinterval()

    tasks = [BackgroundCall(compute), BackgroundCall(compute)]
    started.wait()
    release.set()
    assert all(task.result() < before for task in tasks)
    deadline = time.monotonic() + 10
    while sys.getswitchinterval() != before and time.monotonic() < deadline:
        time.sleep(0.001)
    assert sys.getswitchinterval() == before


class Library:
    """A library whose number of threads is that of the process."""

    count = 4

    def get_num_threads(self):
        return self.count

    def set_num_threads(self, count):
        self.count = count


def test_one_thread_holds_until_the_last_user_ends():
    limit, library = threads._Limit(), Library()
    limit.enter([library])
    limit.enter([library])
    limit.exit()
    assert library.count == 1
    limit.exit()
    assert library.count == 4
