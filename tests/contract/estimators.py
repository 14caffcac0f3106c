"""What estimators promise beyond constructions: single rows, sparse rows, names, threads, interruptions."""

from __future__ import annotations

import sys
import threading
import warnings
from unittest.mock import patch

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from batch2online.refresh import Geometric
from contract.promises import of_estimators, promise
from contract.subjects import assert_same, learn, learn_pieces, output, part, refusal, refused, state, untouched

NAMES = ["a", "b", "c"]
FEW, READ_OFTEN = 20, Geometric(1.3, start=20)


def first(case, n):
    return [part(values, slice(n)) for values in case.data]


def fresh(case):
    """One that has seen the stream at once, and may be used further."""
    return learn(case.new(), *case.data)


def learn_one_by_one(model, rows, targets):
    for index, row in enumerate(rows):
        model.learn_one(*(row,) if targets is None else (row, targets[index]))
    return model


@promise(of_estimators)
def single_rows_are_chunks_of_one_row(case, folder):
    rows, targets, _ = first(case, 90)
    whole, pieces = (learn_pieces(case.new(), (rows, targets, None), cuts) for cuts in ([], range(1, 90)))
    for kind in (list, np.asarray):
        model = learn_one_by_one(case.new(), [kind(row) for row in rows], targets)
        assert_same(model, whole, rows)
        assert state(model) == state(pieces)
    if hasattr(whole, "predict_one"):
        for row in rows[:20]:
            expected = (whole.transform if not hasattr(whole, "predict") else whole.predict)(row[None])[0]
            assert np.array_equal(whole.predict_one(row), expected) or whole.predict_one(row) == pytest.approx(expected)


@promise(of_estimators)
def mappings_are_read_by_their_names(case, folder):
    rows, targets, _ = first(case, 90)
    shuffled = [dict(zip("cab", row[[2, 0, 1]], strict=True)) for row in rows]
    shuffled[0] = dict(zip(NAMES, rows[0], strict=True))
    model = learn_one_by_one(case.new(), shuffled, targets)
    assert model.feature_names_in_.tolist() == NAMES
    assert_same_models(model, learn(case.new(), rows, targets))
    with untouched(model):
        for cells, message in (({"a": 1.0, "b": 2.0}, "missing .'c'"), ({**shuffled[0], "d": 4.0}, "'d'")):
            with refusal(message):
                learn_one_by_one(model, [cells], targets)


def assert_same_models(one, other):
    """The same but for the names of columns."""
    assert one.coreset_ == other.coreset_
    assert one.regret_ == other.regret_
    assert one.changes_ == other.changes_


@promise(of_estimators)
def single_cells_that_are_no_finite_numbers_are_refused_by_column(case, folder):
    targets = case.data[1]
    model = fresh(case)
    with untouched(model):
        for value in (np.nan, np.inf, 1e152, "x", {"a": 1}, None):
            with refusal("column 1"):
                learn_one_by_one(model, [[1.0, value, 2.0]], targets)
        for row in ([1.0, 2.0], [1.0, 2.0, 3.0, 4.0], 5.0, None):
            with refusal(None):
                learn_one_by_one(model, [row], targets)


@promise(of_estimators)
def data_frames_are_their_values_with_names(case, folder):
    rows, targets, weights = case.data
    frame = pd.DataFrame(rows.copy(), columns=NAMES)
    model = learn_pieces(case.new(), (frame, targets, weights), [50])
    assert model.feature_names_in_.tolist() == NAMES
    assert_same_models(model, case.whole)
    frame.loc[4, "b"] = np.nan
    with untouched(model):
        for names in (["a", "c", "b"], ["a", "b", "z"], ["a", "b"], ["a", "b", "c", "d"]):
            other = pd.DataFrame(np.ones((len(rows), len(names))), columns=names)
            with refusal("names|columns"):
                learn(model, other, targets)
        with refusal("NaN.* row 4, column 'b'"):
            learn(model, frame, targets)


@promise(of_estimators)
def sparse_rows_are_dense_rows(case, folder):
    rows, targets, weights = case.data
    model = case.new()
    for index, kind in enumerate((sp.csr_matrix, sp.csr_array, sp.csc_array, sp.coo_matrix)):
        piece = slice(40 * index, 40 * (index + 1))
        learn(model, kind(rows[piece]), part(targets, piece), weights[piece])
    assert_same(model, case.whole, rows)
    said = output(model, rows)
    if said is not None and said.dtype.kind == "f":
        np.testing.assert_allclose(output(model, sp.csr_array(rows)), said, rtol=1e-12)
    elif said is not None:
        np.testing.assert_array_equal(output(model, sp.csr_array(rows)), said)
    bad = rows.copy()
    bad[140, 1] = np.inf
    with refused(model, "infinity.* row 140, column 1"):
        learn(model, sp.csr_array(bad), targets)


@promise(of_estimators)
def what_is_asked_of_bad_rows_is_refused(case, folder):
    rows, _, _ = case.data
    model, bad = fresh(case), rows[:10].copy()
    bad[4, 1] = np.nan
    with untouched(model):
        for method in ("predict", "predict_proba", "transform"):
            if hasattr(model, method):
                with refusal("NaN.* row 4, column 1"):
                    getattr(model, method)(bad)
                with refusal("2 features|2 columns"):
                    getattr(model, method)(rows[:, :2])


@promise(of_estimators)
def nothing_is_read_before_rows_have_come(case, folder):
    rows, model = case.data[0], case.new()
    reads = [
        *(
            lambda name=name: getattr(model, name)
            for name in ("n_seen_", "n_changes_", "changes_", "coreset_", "regret_")
        ),
        *(lambda name=name: getattr(model, name)(rows) for name in ("predict", "transform") if hasattr(model, name)),
        lambda: model.forget([0]),
        lambda: model.save(folder / "model"),
        lambda: model.merge(fresh(case)),
    ]
    for read in reads:
        with refused(model, "seen", NotFittedError):
            read()
    assert not (folder / "model").exists()


@promise(of_estimators)
def what_is_read_cannot_be_used_to_change_the_model(case, folder):
    model = fresh(case)
    with untouched(model):
        for name in dir(type(model)):
            value = getattr(model, name, None) if name.endswith("_") and not name.startswith("_") else None
            if isinstance(value, np.ndarray) and value.flags.writeable:
                value[...] = 0
            if isinstance(value, list):
                value.clear()


@promise(of_estimators)
def clone_and_fit_start_with_none_of_the_rows(case, folder):
    rows, targets, weights = case.data
    used = fresh(case)
    assert not clone(used).__sklearn_is_fitted__()
    assert clone(used).get_params().keys() == used.get_params().keys()
    wide = pd.DataFrame(np.random.default_rng(0).normal(size=(50, 5)), columns=list("vwxyz"))
    other = learn(case.new(), wide, part(targets, slice(50)))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        refitted, fitted = other.fit(rows, targets, weights), case.new().fit(rows, targets, weights)
    assert refitted.n_features_in_ == rows.shape[1]
    assert not hasattr(refitted, "feature_names_in_")
    assert state(refitted) == state(fitted)
    with refused(fitted, "zero for all"):
        fitted.fit(rows, targets, np.zeros(len(rows)))


# -- interruptions ------------------------------------------------------------------------------------


def failing_on_call(solve, number, exception):
    calls = []

    def failing(self, construction, current):
        calls.append(current)
        if len(calls) == number:
            raise exception
        return solve(self, construction, current)

    return failing


def interrupted(model, number=1, exception=KeyboardInterrupt):
    """Strike the solver of this model, in one of the calls to come."""
    problem = type(model._engine.problem)
    solver = "contender" if "contender" in vars(problem) else "solve"  # what all solves of this problem go through
    return patch.object(problem, solver, failing_on_call(getattr(problem, solver), number, exception))


@promise(of_estimators)
def a_chunk_interrupted_in_the_solver_can_be_sent_again(case, folder):
    rows, targets, weights = case.data
    often = {"refresh": Geometric(1.4)}
    whole = learn_pieces(case.new(**often), case.data, [])
    for number, exception in ((1, KeyboardInterrupt), (2, ArithmeticError)):
        model = learn(case.new(**often), rows[:50], part(targets, slice(50)), weights[:50])
        with interrupted(model, number, exception), refused(model, None, (exception, ValueError)):
            learn(model, rows[50:], part(targets, slice(50, None)), weights[50:])
        learn(model, rows[50:], part(targets, slice(50, None)), weights[50:])
        assert_same(model, whole, rows)


@promise(of_estimators)
def a_row_interrupted_in_the_solver_can_be_sent_again(case, folder):
    rows, targets, _ = first(case, 80)
    often = {"refresh": Geometric(1.5, start=60)}
    model = learn_one_by_one(case.new(**often), rows[:59], targets)
    with interrupted(model), refused(model, None, (KeyboardInterrupt, ValueError)):
        learn_one_by_one(model, rows[59:60], part(targets, slice(59, None)))
    learn_one_by_one(model, rows[59:], part(targets, slice(59, None)))
    assert_same(model, learn(case.new(**often), rows, targets), rows)


@promise(of_estimators)
def an_interrupted_act_leaves_the_model_as_it_was(case, folder):
    rows, targets, weights = case.data
    model = learn_pieces(case.new(**case.history), case.data, [])
    other = learn_pieces(case.new(first_id=1000, **case.history), case.data, [])
    acts = [lambda: model.merge(other), lambda: model.fit(rows, targets, weights)]
    if "forget" not in case.lacks:
        acts.append(lambda: model.forget([3, 100]))
    for act in acts:
        with interrupted(model), refused(model, None, (KeyboardInterrupt, ValueError)):
            act()


# -- threads ------------------------------------------------------------------------------------------


@promise(of_estimators)
def readers_in_other_threads_see_one_version_at_a_time(case, folder):
    """What is read while another thread learns is what the model says after one of its refreshes."""
    rows, targets, _ = case.data
    if output(case.whole, rows) is None:
        return
    probe, versions, model = rows[::30], set(), case.new(refresh=READ_OFTEN)
    for start in range(len(rows)):
        learn(model, rows[start : start + 1], part(targets, slice(start, start + 1)))
        if start + 1 >= FEW:
            versions.add(output(model, probe).tobytes())
    seen = read_while_learning(case.new(refresh=READ_OFTEN), rows, targets, probe)
    assert seen
    assert seen <= versions, "an answer belongs to no version of the model"


def read_while_learning(model, rows, targets, probe):
    learn(model, rows[:FEW], part(targets, slice(FEW)))
    seen, failures, done = set(), [], threading.Event()

    def reader():
        try:
            while not done.is_set():
                seen.add(output(model, probe).tobytes())
        except BaseException as error:
            failures.append(error)

    threads, interval = [threading.Thread(target=reader) for _ in range(2)], sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        for thread in threads:
            thread.start()
        for start in range(FEW, len(rows), 10):
            learn(model, rows[start : start + 10], part(targets, slice(start, start + 10)))
    finally:
        done.set()
        for thread in threads:
            thread.join()
        sys.setswitchinterval(interval)
    assert not failures, failures[0]
    return seen
