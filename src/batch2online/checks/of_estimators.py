"""Promises of estimators alone: single rows, tables, names, attributes, interruptions, threads."""

from __future__ import annotations

import importlib
import sys
import threading
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from tempfile import TemporaryDirectory
from typing import Any
from unittest.mock import patch

import numpy as np
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from batch2online.checks.case import (
    Case,
    N,
    assert_same,
    by_name,
    failing_on_call,
    learn,
    learn_pieces,
    output,
    part,
    refusal,
    refused,
    state,
    untouched,
    with_value,
)
from batch2online.checks.of_problems import problem_checks
from batch2online.refresh import Geometric

NAMES = ["a", "b", "c"]
INTERRUPTED = (KeyboardInterrupt, ArithmeticError, ValueError)


def _pandas() -> Any:
    try:
        return importlib.import_module("pandas")
    except ImportError:
        return None


def learn_one_by_one(model: Any, rows: Any, targets: Any) -> Any:
    for index, row in enumerate(rows):
        model.learn_one(*(row,) if targets is None else (row, targets[index]))
    return model


# -- the same rows in other containers ------------------------------------------------------------------------


def single_rows_are_chunks_of_one_row(case: Case) -> None:
    rows, targets, _ = case.between(0, 90)
    whole, pieces = (learn_pieces(case.new(), (rows, targets, None), cuts) for cuts in (range(0), range(1, 90)))
    for kind in (list, np.asarray):
        model = learn_one_by_one(case.new(), [kind(row) for row in rows], targets)
        assert_same(model, whole, rows)
        assert state(model) == state(pieces)
    if hasattr(whole, "predict_one"):
        answer = whole.predict if hasattr(whole, "predict") else whole.transform
        for row in rows[:20]:
            expected, found = answer(row[None])[0], whole.predict_one(row)
            assert np.array_equal(found, expected) or np.allclose(found, expected, rtol=1e-6)


def mappings_are_read_by_their_names(case: Case) -> None:
    rows, targets, _ = case.between(0, 90)
    shuffled = [dict(zip("cab", row[[2, 0, 1]], strict=True)) for row in rows]
    shuffled[0] = dict(zip(NAMES, rows[0], strict=True))
    model = learn_one_by_one(case.new(), shuffled, targets)
    assert model.feature_names_in_.tolist() == NAMES
    assert_same_models(model, learn(case.new(), rows, targets))
    for cells, message in (({"a": 1.0, "b": 2.0}, "missing .'c'"), ({**shuffled[0], "d": 4.0}, "'d'")):
        with refused(model, message):
            learn_one_by_one(model, [cells], targets)


def assert_same_models(one: Any, other: Any) -> None:
    """Require the same but for the names of columns."""
    for name in ("coreset_", "regret_", "changes_"):
        assert getattr(one, name) == getattr(other, name), f"{name} differs"


def data_frames_are_their_values_with_names(case: Case) -> None:
    pd = _pandas()
    if pd is None:
        return
    rows, targets, weights = case.data
    frame = pd.DataFrame(rows.copy(), columns=NAMES)
    model = learn_pieces(case.new(), (frame, targets, weights), [50])
    assert model.feature_names_in_.tolist() == NAMES
    assert_same_models(model, case.whole)
    frame.loc[4, "b"] = np.nan
    with untouched(model):
        for names in (["a", "c", "b"], ["a", "b", "z"], ["a", "b"]):
            with refusal("names|columns"):
                learn(model, pd.DataFrame(np.ones((N, len(names))), columns=names), targets)
        if getattr(model, "columns", None) is None:  # else missing values are replaced
            with refusal("NaN.* row 4, column 'b'"):
                learn(model, frame, targets)


def sparse_rows_are_dense_rows(case: Case) -> None:
    rows, targets, weights = case.data
    model = case.new()
    for index, kind in enumerate((sp.csr_matrix, sp.csr_array, sp.csc_array, sp.coo_matrix)):
        piece = slice(40 * index, 40 * (index + 1))
        learn(model, kind(rows[piece]), part(targets, piece), weights[piece])
    assert_same(model, case.whole, rows)
    expected = output(model, rows)
    if expected is not None:
        found = output(model, sp.csr_array(rows))
        same = np.allclose(found, expected, rtol=1e-12) if expected.dtype.kind == "f" else (found == expected).all()
        assert same, "predictions for sparse rows differ from those for dense ones"
    with refused(model, "infinity.* row 140, column 1"):
        learn(model, sp.csr_array(with_value(rows, np.inf, (140, 1))), targets)


# -- bad input ------------------------------------------------------------------------------------------------


def bad_single_rows_and_bad_rows_to_predict_are_refused_by_column(case: Case) -> None:
    model, (rows, targets, _) = case.seen(), case.between(0, 10)
    with untouched(model):
        for value in (np.nan, np.inf, 1e152, "x", {"a": 1}, None):
            with refusal("column 1"):
                learn_one_by_one(model, [[1.0, value, 2.0]], targets)
        for row in ([1.0, 2.0], [1.0, 2.0, 3.0, 4.0], 5.0, None):
            with refusal(None):
                learn_one_by_one(model, [row], targets)
        for method in ("predict", "predict_proba", "transform"):
            if hasattr(model, method):
                with refusal("NaN.* row 4, column 1"):
                    getattr(model, method)(with_value(rows, np.nan, (4, 1)))
                with refusal("2 features|2 columns"):
                    getattr(model, method)(rows[:, :2])


def nothing_is_read_before_rows_have_come(case: Case) -> None:
    model, rows = case.new(), case.data[0]
    methods = [getattr(model, name) for name in ("predict", "transform") if hasattr(model, name)]
    with TemporaryDirectory() as folder:
        acts: list[Callable[[], Any]] = [
            lambda: model.forget([0]),
            lambda: model.merge(case.seen()),
            lambda: model.save(f"{folder}/model"),
            *(partial(getattr, model, name) for name in ("n_seen_", "n_changes_", "changes_", "coreset_", "regret_")),
            *(partial(method, rows) for method in methods),
        ]
        for act in acts:
            with refused(model, "seen", NotFittedError):
                act()


def attributes_cannot_be_used_to_change_the_model(case: Case) -> None:
    model = case.seen()
    with untouched(model):
        for name in dir(type(model)):
            value = getattr(model, name, None) if name.endswith("_") and not name.startswith("_") else None
            if isinstance(value, np.ndarray) and value.flags.writeable:
                value[...] = 0
            if isinstance(value, list):
                value.clear()


def clone_and_fit_start_with_none_of_the_rows(case: Case) -> None:
    rows, targets, weights = case.data
    used = case.seen()
    assert not clone(used).__sklearn_is_fitted__()
    assert clone(used).get_params().keys() == used.get_params().keys()
    wide = np.random.default_rng(0).normal(size=(50, 5))
    if (pd := _pandas()) is not None:
        wide = pd.DataFrame(wide, columns=list("vwxyz"))
    other = learn(case.new(), wide, part(targets, slice(50)))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        refitted, fitted = other.fit(rows, targets, weights), case.new().fit(rows, targets, weights)
    assert refitted.n_features_in_ == rows.shape[1]
    assert not hasattr(refitted, "feature_names_in_")
    assert state(refitted) == state(fitted)
    with refused(fitted, "zero for all"):
        fitted.fit(rows, targets, np.zeros(N))


# -- interruptions --------------------------------------------------------------------------------------------


def interrupted(model: Any, number: int = 1, exception: type[BaseException] = KeyboardInterrupt) -> Any:
    """Make the solver of this model raise in one of the next calls."""
    problem = type(model.stream.problem)
    return patch.object(problem, "fit", failing_on_call(problem.fit, number, exception))


def rows_interrupted_in_the_solver_can_be_sent_again(case: Case) -> None:
    often = Geometric(1.4)
    for number, exception in ((1, KeyboardInterrupt), (2, ArithmeticError)):
        model = case.seen(50, refresh=often)
        with interrupted(model, number, exception), refused(model, None, INTERRUPTED):
            learn(model, *case.between(50))
        assert_same(learn(model, *case.between(50)), case.seen(refresh=often), case.data[0])
    rows, targets, _ = case.between(0, 80)
    rare = Geometric(1.5, start=60)
    model = learn_one_by_one(case.new(refresh=rare), rows[:59], targets)
    later = part(targets, slice(59, None))
    with interrupted(model), refused(model, None, INTERRUPTED):
        learn_one_by_one(model, rows[59:60], later)
    assert_same(learn_one_by_one(model, rows[59:], later), learn(case.new(refresh=rare), rows, targets), rows)


def an_interrupted_act_leaves_the_model_as_it_was(case: Case) -> None:
    model = case.seen(**case.history)
    other = learn(case.new(first_id=1000, **case.history), *case.data)
    acts = [partial(model.merge, other), partial(model.fit, *case.data)]
    if "forget" not in case.lacks:
        acts.append(partial(model.forget, [3, 100]))
    for act in acts:
        with interrupted(model), refused(model, None, INTERRUPTED):
            act()


# -- threads --------------------------------------------------------------------------------------------------


def readers_in_other_threads_see_one_version_at_a_time(case: Case) -> None:
    """Compare predictions made while another thread learns with those after each refit."""
    rows, targets, _ = case.data
    if output(case.whole, rows) is None:
        return
    few, probe, often = 20, rows[::30], Geometric(1.3, start=20)
    model = case.new(refresh=often)
    versions = set()
    for start in range(N):
        learn(model, rows[start : start + 1], part(targets, slice(start, start + 1)))
        if start + 1 >= few:
            versions.add(output(model, probe).tobytes())
    seen = read_while_learning(case.new(refresh=often), rows, targets, probe, few)
    assert seen
    assert seen <= versions, "an answer belongs to no version of the model"


def read_while_learning(model: Any, rows: Any, targets: Any, probe: Any, few: int) -> set[bytes]:
    learn(model, rows[:few], part(targets, slice(few)))
    done = threading.Event()

    def reader() -> set[bytes]:
        seen = {output(model, probe).tobytes()}
        while not done.is_set():
            seen.add(output(model, probe).tobytes())
        return seen

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        with ThreadPoolExecutor(2) as threads:
            readers = [threads.submit(reader) for _ in range(2)]
            try:
                for start in range(few, len(rows), 10):
                    learn(model, rows[start : start + 10], part(targets, slice(start, start + 10)))
            finally:
                done.set()
    finally:
        sys.setswitchinterval(interval)
    return set().union(*(each.result() for each in readers))


estimator_checks = problem_checks | by_name(
    single_rows_are_chunks_of_one_row,
    mappings_are_read_by_their_names,
    data_frames_are_their_values_with_names,
    sparse_rows_are_dense_rows,
    bad_single_rows_and_bad_rows_to_predict_are_refused_by_column,
    nothing_is_read_before_rows_have_come,
    attributes_cannot_be_used_to_change_the_model,
    clone_and_fit_start_with_none_of_the_rows,
    rows_interrupted_in_the_solver_can_be_sent_again,
    an_interrupted_act_leaves_the_model_as_it_was,
    readers_in_other_threads_see_one_version_at_a_time,
)
