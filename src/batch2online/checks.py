"""Checks that every online estimator and every coreset passes, yours included.

:func:`check_estimator` and :func:`check_sketch` feed small streams and compare: the result must not depend on how rows
are cut into chunks or shards, copies and files must continue bit for bit, bad values must be refused with their row and
column, and an error must leave the state as it was. scikit-learn's own checks
(:func:`sklearn.utils.estimator_checks.check_estimator`) are separate; run both.

>>> from batch2online import OnlineRegression
>>> from batch2online.checks import check_estimator
>>> check_estimator(OnlineRegression(), only=["chunks_do_not_matter", "the_seed_decides"])
"""

from __future__ import annotations

import copy
import importlib
import math
import pickle
import re
import sys
import threading
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cache, cached_property, partial
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest.mock import patch

import joblib
import numpy as np
import scipy.sparse as sp
from sklearn.base import clone, is_classifier, is_regressor
from sklearn.exceptions import NotFittedError

from batch2online import load
from batch2online.refresh import Geometric
from batch2online.results import Timings
from batch2online.sketches.base import Coreset
from batch2online.sketches.builder import CoresetBuilder
from batch2online.storage.tree import parts_of, state_of

__all__ = ["Case", "check_estimator", "check_sketch", "estimator_checks", "sketch_checks"]

N, WIDTH, BLOCK = 150, 3, 16
"""Rows of the stream, its columns, and rows of a block: nine whole blocks and an unfinished one."""

SMALL = {"coreset_size": 30, "random_state": 3}
Errors = type[BaseException] | tuple[type[BaseException], ...]
Check = Callable[["Case", Path], None]

sketch_checks: dict[str, Check] = {}
"""Checks of sketches and of estimators, by name."""

estimator_checks: dict[str, Check] = {}
"""Further checks of estimators, by name."""


@dataclass(frozen=True, eq=False)
class Case:
    """One way to make an object to check, and its known properties.

    Parameters
    ----------
    make : callable
        Returns a new estimator or coreset that has seen no rows; takes ``coreset_size``, ``random_state``,
        ``first_id``, ``epsilon`` and, for estimators, ``refresh`` as keywords.
    targets : {"none", "numbers", "several", "labels", "counts", "codes", "classes"}
        Which targets the rows of the stream have.
    history : mapping
        Settings with which rows can be forgotten.
    lacks : mapping
        Methods that it does not offer, ``"save"`` or ``"forget"``, and a part of their error message.
    merges_exactly : bool
        Whether merged shards are one stream; if not, the merged coreset is still the same in either order.
    keeps_all : bool
        Whether a coreset of any size holds each of few rows with its own weight.
    half_life : int, optional
        The rows after which a row counts for half, if it decays.
    expected_failures : mapping
        Checks of scikit-learn that cannot pass, and why.
    scikit_learn : bool
        Whether scikit-learn's checks run in the package's own tests.
    """

    make: Callable[..., Any]
    targets: str = "none"
    history: Mapping[str, Any] = field(default_factory=lambda: {"keep_history": True})
    lacks: Mapping[str, str] = field(default_factory=dict)
    merges_exactly: bool = True
    keeps_all: bool = True
    half_life: int | None = None
    expected_failures: Mapping[str, str] = field(default_factory=dict)
    scikit_learn: bool = False

    def new(self, **settings: Any) -> Any:
        return self.make(**SMALL | settings)

    @property
    def data(self) -> tuple[Any, Any, Any]:
        """Rows, targets and weights."""
        rows, targets, weights = stream()
        return rows, targets[self.targets], weights

    def between(self, start: int, stop: int | None = None) -> tuple[Any, Any, Any]:
        """Rows, targets and weights from one row up to another."""
        rows, targets, weights = (part(values, slice(start, stop)) for values in self.data)
        return rows, targets, weights

    @cached_property
    def whole(self) -> Any:
        """An object that has learned the stream in one call; only to be read."""
        return learn(self.new(), *self.data)


def check_estimator(
    estimator: Any, *, targets: str | None = None, only: Iterable[str] | None = None, **known: Any
) -> None:
    """Raise AssertionError, with the name of the check, if an online estimator breaks a promise of the package.

    Parameters
    ----------
    estimator : OnlineEstimator
        The estimator, with the settings to be checked; it is cloned.
    targets : str, optional
        Which targets it is shown, see :class:`Case`; labels for classifiers and numbers for regressors by default.
    only : iterable of str, optional
        Names of checks, if not all are to run; they are the keys of ``sketch_checks`` and ``estimator_checks``.
    **known
        Further attributes of :class:`Case`: what the estimator does not offer, and whether its shards merge exactly.
    """

    def make(**settings: Any) -> Any:
        return clone(estimator).set_params(**settings)

    kind = "labels" if is_classifier(estimator) else "numbers" if is_regressor(estimator) else "none"
    _check(Case(make, targets or kind, **known), sketch_checks | estimator_checks, only)


def check_sketch(
    make: Callable[..., Any], *, targets: str = "none", only: Iterable[str] | None = None, **known: Any
) -> None:
    """Raise AssertionError, with the name of the check, if a coreset breaks a promise of the package.

    Parameters
    ----------
    make : callable
        A coreset's class, or a function that returns a new one; see :class:`Case`.
    targets, only, **known
        As for :func:`check_estimator`.

    Examples
    --------
    >>> from batch2online.coresets import Uniform
    >>> check_sketch(Uniform, targets="numbers", only=["shards_merged_in_any_order_are_one_stream"])
    """
    if not callable(make):
        raise TypeError(f"make must be the class of a coreset or a function that returns one, got {make!r}.")
    _check(Case(make, targets, **known), sketch_checks, only)


def _check(case: Case, checks: Mapping[str, Check], only: Iterable[str] | None) -> None:
    names = list(checks) if only is None else list(only)
    unknown = [name for name in names if name not in checks]
    if unknown:
        raise ValueError(f"unknown checks: {unknown}; known are {sorted(checks)}.")
    with small_blocks(BLOCK), TemporaryDirectory() as folder:
        for name in names:
            place = Path(folder) / name
            place.mkdir()
            try:
                checks[name](case, place)
            except Exception as error:
                raise AssertionError(f"{name}: {error}") from error


def small_blocks(*rows: int) -> Any:
    """Return a context, or a decorator, in which blocks have this many rows; further numbers are for wider rows."""
    return patch("batch2online.rows._BLOCK_ROWS", rows)


def _of_all(check: Check) -> Check:
    sketch_checks[check.__name__] = check
    return check


def _of_estimators(check: Check) -> Check:
    estimator_checks[check.__name__] = check
    return check


@cache
def stream() -> tuple[Any, dict[str, Any], Any]:
    """Return three clusters of rows on different scales, targets by name that depend on them, and weights."""
    rng = np.random.default_rng(7)
    rows = (rng.normal(size=(N, WIDTH)) + 6 * rng.integers(3, size=(N, 1))) * [1.0, 10.0, 0.1]
    rows[np.abs(rows) < 0.1] = 0.0
    numbers = rows @ [1.0, -0.2, 3.0] + rng.standard_t(3, size=N)
    labels = np.where(rows[:, 0] + rng.normal(size=N) > 6, "high", "low")
    targets = {"none": None, "numbers": numbers, "several": np.column_stack([numbers, -rows[:, 0]]), "labels": labels}
    targets["counts"] = np.floor(np.abs(numbers))
    targets["codes"] = (labels == "high").astype(np.float64)
    targets["classes"] = np.where(rng.random(N) < 0.3, 7, np.where(labels == "high", 1, 4))
    return rows, targets, rng.choice([0.25, 1.0, 3.7], size=N)


# -- estimators and sketches, fed and read alike --------------------------------------------------------------


def state(subject: Any) -> Any:
    """Return the complete state: the bytes of the checkpoint; the attributes of an estimator that has seen no rows."""
    if isinstance(subject, CoresetBuilder):
        return _bytes_of(subject, subject)
    if not subject.__sklearn_is_fitted__():
        return {name: value for name, value in vars(subject).items() if name[0] != "_"}
    return _bytes_of(subject._state(), subject)


def _bytes_of(content: object, subject: Any) -> bytes:
    """Return the bytes of a checkpoint, or of a pickle if no checkpoint can hold the object."""
    try:
        return b"".join(len(each).to_bytes(8, "little") + each for each in parts_of(content))
    except TypeError:
        twin = copy.deepcopy(subject)
        if not isinstance(twin, CoresetBuilder):
            stream = twin.stream  # seconds differ from run to run
            twin._stream = stream.map(lambda state: replace(state, timings=Timings()))
        return pickle.dumps(twin)


def learn(subject: Any, rows: Any, targets: Any = None, weights: Any = None) -> Any:
    act = subject.add if isinstance(subject, CoresetBuilder) else subject.partial_fit
    return act(rows, targets, weights)


def coreset_of(subject: Any) -> Coreset:
    return subject.coreset() if isinstance(subject, CoresetBuilder) else subject.coreset_


def n_seen(subject: Any) -> int:
    if isinstance(subject, CoresetBuilder):
        return 0 if subject.sketch is None else int(subject.sketch.totals.n_rows)
    return subject.n_seen_ if subject.__sklearn_is_fitted__() else 0


def part(values: Any, index: Any) -> Any:
    """Return some of the targets or weights, where there are any."""
    return None if values is None else values[index]


def learn_pieces(subject: Any, data: Sequence[Any], cuts: Iterable[int]) -> Any:
    """Learn rows, targets and weights in pieces that end at these cuts."""
    rows, targets, weights = data
    for piece in (slice(*ends) for ends in pairwise([0, *cuts, len(rows)])):
        learn(subject, rows[piece], part(targets, piece), part(weights, piece))
    return subject


def output(model: Any, rows: Any) -> Any:
    """Return the predictions of a model, as one array; None where it has none."""
    for method in ("predict_proba", "transform", "predict"):
        if hasattr(model, method):
            return np.asarray(getattr(model, method)(rows))
    return None


def assert_same_coreset(one: Coreset, other: Coreset) -> None:
    """Require the same ids, weights, points and targets, bit for bit."""
    for name in ("ids", "weights", "points", "targets"):
        mine, theirs = getattr(one, name), getattr(other, name)
        assert np.array_equal(mine, theirs) if mine is not None else theirs is None, f"the {name} of the coreset differ"


def assert_same(one: Any, other: Any, rows: Any) -> None:
    """All that can be seen of two subjects is the same, bit for bit."""
    assert n_seen(one) == n_seen(other), "rows are missing or counted twice"
    assert_same_coreset(coreset_of(one), coreset_of(other))
    if isinstance(one, CoresetBuilder):
        return
    assert one.changes_ == other.changes_, "the changes differ"
    assert one.regret_ == other.regret_, "the regret differs"
    assert one.metrics_ == other.metrics_, "the averages of all rows differ"
    assert one.recent_metrics_ == other.recent_metrics_, "the averages of the last rows differ"
    few = one.stream.performance().handful, other.stream.performance().handful
    assert few[0] == few[1], "the rows with most of the loss differ"
    mine, theirs = output(one, rows), output(other, rows)
    assert np.array_equal(mine, theirs) if mine is not None else theirs is None, "the predictions differ"


@contextmanager
def untouched(subject: Any) -> Iterator[None]:
    """Require that the block leaves the state unchanged."""
    before = state(subject)
    yield
    assert state(subject) == before, "an error left a trace"


@contextmanager
def refusal(message: str | None, error: Errors = (ValueError, TypeError)) -> Iterator[None]:
    """Require an error whose message matches."""
    try:
        yield
    except error as found:
        assert message is None or re.search(message, str(found)), f"expected {message!r} in the error {found!r}"
    else:
        raise AssertionError(f"expected an error, with {message!r} in its message")


@contextmanager
def refused(subject: Any, message: str | None, error: Errors = (ValueError, TypeError)) -> Iterator[None]:
    """Require an error whose message matches, and an unchanged state."""
    with untouched(subject), refusal(message, error):
        yield


def refuses(subject: Any, act: Callable[[Any], Any], message: str, error: Errors = ValueError) -> None:
    """Require that an act on the subject is refused, and leaves the state unchanged."""
    with refused(subject, message, error):
        act(subject)


# -- any path to the same rows ends in the same state ---------------------------------------------------------


CUTS: dict[str, Callable[[int], Iterable[int]]] = {
    "single rows": lambda n: range(1, n),
    "sevens": lambda n: range(7, n, 7),
    "ends of blocks": lambda n: range(16, n, 16),
    "any": lambda n: np.unique(np.random.default_rng(1).integers(1, n, size=12)).tolist(),
}


@_of_all
def chunks_do_not_matter(case: Case, folder: Path) -> None:
    rows, targets, _ = case.data
    for cuts in CUTS.values():
        assert_same(learn_pieces(case.new(), case.data, cuts(len(rows))), case.whole, rows)
    one, other = (learn_pieces(case.new(), (rows, targets, None), cuts) for cuts in ([], CUTS["any"](len(rows))))
    assert_same(one, other, rows)


@_of_all
def chunks_do_not_matter_for_any_first_id(case: Case, folder: Path) -> None:
    for first_id in (5, 2**40 + 17):
        whole, pieces = (
            learn_pieces(case.new(first_id=first_id), case.data, cuts) for cuts in ([], CUTS["any"](len(case.data[0])))
        )
        assert_same(pieces, whole, case.data[0])
        assert coreset_of(whole).ids.min() >= first_id


@_of_all
def the_seed_decides(case: Case, folder: Path) -> None:
    same = learn_pieces(case.new(), case.data, [])
    assert_same(same, case.whole, case.data[0])
    if "save" not in case.lacks:
        assert state(same) == state(case.whole)


@_of_all
def memory_of_a_chunk_may_be_used_again(case: Case, folder: Path) -> None:
    rows, subject = case.data[0], case.new()
    for start in range(0, len(rows), 50):
        own: list[Any] = [None if values is None else values[start : start + 50].copy() for values in case.data]
        copies: list[Any] = [None if values is None else values.copy() for values in own]
        learn(subject, *own)
        assert all(a is None or np.array_equal(a, b) for a, b in zip(own, copies, strict=True))
        for values in own:
            if values is not None:
                values[:] = values[::-1].copy()
    assert_same(subject, case.whole, rows)


@_of_all
def reading_changes_nothing(case: Case, folder: Path) -> None:
    subject, undisturbed = case.new(), case.new()
    for start in range(0, N, 40):
        for each in (subject, undisturbed):
            learn(each, *case.between(start, start + 40))
        read(subject)
        if "save" not in case.lacks:
            assert state(subject) == state(undisturbed), "reading left a trace"
    assert_same(subject, undisturbed, case.data[0])


def read(subject: Any) -> None:
    coreset = coreset_of(subject)
    arrays = (coreset.points, coreset.weights, coreset.ids, coreset.targets)
    assert not any(array.flags.writeable for array in arrays if array is not None), "a coreset can be written into"
    assert (np.diff(coreset.ids) > 0).all(), "ids are not in order"
    if not isinstance(subject, CoresetBuilder):
        assert subject.regret_.rows == subject.n_seen_ - subject.stream.view().current.unscored.rows
        assert subject.n_changes_ == len(subject.changes_)
        subject.changes_.clear()


# -- shards -------------------------------------------------------------------------------------------


def shards(case: Case, cuts: Sequence[int], **settings: Any) -> list[Any]:
    """Subjects that have seen a piece of the stream each."""
    return [learn(case.new(first_id=a, **settings), *case.between(a, b)) for a, b in pairwise([0, *cuts, N])]


@_of_all
def shards_merged_in_any_order_are_one_stream(case: Case, folder: Path) -> None:
    seen = []
    for order in ([0, 1, 2, 3], [2, 0, 3, 1]):
        parts = shards(case, [48, 51, 100])
        losses = [part.regret_.loss for part in parts] if hasattr(parts[0], "regret_") else []
        others = [state(part) for part in parts]
        merged = parts[order[0]]
        for index in order[1:]:
            assert merged.merge(parts[index]) is merged
            assert state(parts[index]) == others[index], "merging changed the other"
        assert n_seen(merged) == n_seen(case.whole), "rows are missing or counted twice"
        if losses and not case.half_life is not None:
            assert math.isclose(merged.regret_.loss, sum(losses), rel_tol=1e-12)
        seen.append(coreset_of(merged))
    if case.merges_exactly:
        for coreset in seen:
            assert_same_coreset(coreset, coreset_of(case.whole))
    else:
        both = [coreset_of(one.merge(other)) for one, other in (shards(case, [51]), shards(case, [51])[::-1])]
        assert_same_coreset(*both)


@_of_all
def learning_goes_on_after_a_merge(case: Case, folder: Path) -> None:
    first, second, _ = shards(case, [48, 75])
    learn(first.merge(second), *case.between(75))
    assert n_seen(first) == N
    if case.merges_exactly:
        assert_same_coreset(coreset_of(first), coreset_of(case.whole))


# -- deletions ----------------------------------------------------------------------------------------


@_of_all
def forgotten_rows_were_never_there(case: Case, folder: Path) -> None:
    if "forget" in case.lacks:
        subject = learn_pieces(case.new(), case.data, [])
        with refused(subject, case.lacks["forget"]):
            subject.forget([0])
        return
    first, _, third, _, fifth = shards(case, [20, 30, 65, 66], **case.history)
    rest = first.merge(third).merge(fifth)
    subject = learn_pieces(case.new(**case.history), case.data, [])
    assert subject.forget([*range(20, 30), 65]) is subject
    assert n_seen(subject) == n_seen(rest) == len(case.data[0]) - 11
    if case.merges_exactly:
        assert_same_coreset(coreset_of(subject), coreset_of(rest))
    else:  # shards remember other models: compare with the beginning of the stream
        beginning = learn_pieces(case.new(**case.history), case.between(0, 130), [])
        shortened = learn_pieces(case.new(**case.history), case.data, []).forget(range(130, len(case.data[0])))
        assert_same_coreset(coreset_of(shortened), coreset_of(beginning))
    with untouched(subject):
        for ids, message in (([25], "25"), ([10**9], "never seen"), ([1.0], "integers"), ([[1, 2]], "dimensions")):
            with refusal(message):
                subject.forget(ids)


@_of_all
def learning_goes_on_after_everything_was_forgotten(case: Case, folder: Path) -> None:
    if "forget" in case.lacks:
        return
    subject = learn(case.new(**case.history), *case.between(0, 50))
    subject.forget(range(50))
    assert n_seen(subject) == len(coreset_of(subject)) == 0
    learn(subject, *case.between(50))
    fresh = learn(case.new(first_id=50, **case.history), *case.between(50))
    assert_same_coreset(coreset_of(subject), coreset_of(fresh))


# -- weights --------------------------------------------------------------------------------------------------


@_of_all
def a_weight_of_zero_is_as_if_the_row_were_absent(case: Case, folder: Path) -> None:
    rows, targets, weights = case.data
    there = np.random.default_rng(2).random(len(rows)) < 0.7
    weighted = learn(case.new(), rows, targets, np.where(there, weights, 0.0))
    absent = learn(case.new(), rows[there], part(targets, there), weights[there])
    assert n_seen(weighted) == there.sum()
    assert_same(weighted, absent, rows)


@_of_all
def one_number_counts_for_every_row(case: Case, folder: Path) -> None:
    rows, targets, _ = case.data
    scalar, each = (learn(case.new(), rows, targets, weight) for weight in (2.5, np.full(len(rows), 2.5)))
    assert_same(scalar, each, rows)


@_of_all
def no_weights_are_weights_of_one(case: Case, folder: Path) -> None:
    rows, targets, _ = case.data
    without, ones = (learn(case.new(), rows, targets, weight) for weight in (None, np.ones(len(rows))))
    assert_same(without, ones, rows)


@_of_all
def weights_are_kept_while_everything_is(case: Case, folder: Path) -> None:
    rows, targets, weights = case.between(0, 60)
    subject = learn(case.new(coreset_size=10**12), rows, targets, weights)
    coreset = coreset_of(subject)
    if case.half_life is not None:
        weights = weights * np.exp2(np.arange(60) / case.half_life)
    assert math.isclose(coreset.weights.sum(), weights.sum(), rel_tol=1e-9), "the total weight is lost"
    if case.keeps_all:
        assert np.array_equal(coreset.ids, np.arange(60))
        assert np.array_equal(coreset.points, rows)
        assert np.array_equal(coreset.weights, weights)


# -- files and copies -----------------------------------------------------------------------------------------


PLACES = (1, 16, 75)


@_of_all
def a_saved_subject_continues_where_it_was(case: Case, folder: Path) -> None:
    if "save" in case.lacks:
        with refusal(case.lacks["save"]):
            saved_and_loaded(case.whole, folder)
        return
    for at in PLACES:
        subject = learn(case.new(), *case.between(0, at))
        before = state(subject)
        twin = saved_and_loaded(subject, folder)
        assert state(subject) == before, "saving changed the original"
        assert state(twin) == before, "the loaded state differs from the saved one"
        learn(twin, *case.between(at))
        assert_same(twin, case.whole, case.data[0])
        assert state(twin) == state(learn(subject, *case.between(at)))


def saved_and_loaded(subject: Any, folder: Path) -> Any:
    if isinstance(subject, CoresetBuilder):
        return state_of(parts_of(subject))
    subject.save(folder / "model")
    twin = load(folder / "model")
    assert twin.get_params().keys() == subject.get_params().keys()
    twin.save(folder / "again")
    assert (folder / "again").read_bytes() == (folder / "model").read_bytes(), "saved again, the file differs"
    return twin


def through_joblib(subject: Any, folder: Path) -> Any:
    joblib.dump(subject, folder / "subject")
    return joblib.load(folder / "subject")


COPIES: dict[str, Callable[[Any, Path], Any]] = {
    "deepcopy": lambda subject, _: copy.deepcopy(subject),
    "pickle": lambda subject, _: pickle.loads(pickle.dumps(subject)),
    "joblib": through_joblib,
}


@_of_all
def copies_continue_alike_and_leave_the_original_alone(case: Case, folder: Path) -> None:
    for copied in COPIES.values():
        original = learn(case.new(), *case.between(0, 75))
        twin = copied(original, folder)
        learn(twin, *case.between(75))
        assert_same(twin, case.whole, case.data[0])
        learn(original, *case.between(75))
        assert_same(original, case.whole, case.data[0])


# -- bad input is refused, with row and column, without a trace ----------------------------------------------------


CELLS: dict[str, tuple[Any, str]] = {
    "NaN": (np.nan, "NaN.* row 4, column 1"),
    "infinity": (-np.inf, "infinity.* row 4, column 1"),
    "too large": (1e152, "large.* row 4, column 1"),
    "string": ("x", "[Rr]ow 4, column 1"),
    "a mapping": ({"a": 1}, "[Rr]ow 4, column 1"),
}
WEIGHTS = {
    "negative": (-1.0, "-1.0 at row 3"),
    "NaN": (np.nan, "nan at row 3"),
    "infinity": (np.inf, "inf at row 3"),
    "too large": (1e304, "row 3"),
}


def with_cell(rows: Any, value: Any, row: int = 4, column: int = 1) -> Any:
    bad = rows[:10].astype(np.float64 if isinstance(value, float) else object)
    bad[row, column] = value
    return bad


def fresh_and_seen(case: Case) -> Iterator[Any]:
    """Yield one that has seen no rows, and one in the midst of a block; each must be left as it was."""
    for subject in (case.new(), learn(case.new(), *case.data)):
        with untouched(subject):
            yield subject


@_of_all
def cells_that_are_no_finite_numbers_are_refused_by_row_and_column(case: Case, folder: Path) -> None:
    rows, targets, _ = case.data
    for subject in fresh_and_seen(case):
        for value, message in CELLS.values():
            with refusal(message):
                learn(subject, with_cell(rows, value), part(targets, slice(10)))


@_of_all
def a_bad_cell_far_down_leaves_no_trace_of_the_rows_before(case: Case, folder: Path) -> None:
    rows, targets, weights = case.data
    bad = rows.copy()
    bad[140, 2] = np.nan
    for subject in fresh_and_seen(case):
        with refusal("row 140, column 2"):
            learn(subject, bad, targets, weights)
        with refusal("row 140"):
            learn(subject, rows, targets, np.where(np.arange(len(rows)) == 140, -1.0, 1.0))


@_of_all
def bad_weights_are_refused_by_row(case: Case, folder: Path) -> None:
    rows, targets, _ = case.between(0, 10)
    for subject in fresh_and_seen(case):
        for value, message in WEIGHTS.values():
            with refusal(message):
                learn(subject, rows, targets, np.where(np.arange(10) == 3, value, 1.0))
        for weights in (np.ones(9), np.ones((10, 1)), ["x"] * 10, np.ones(10) + 1j, -1.0):
            with refusal("weight|[Cc]omplex|real"):
                learn(subject, rows, targets, weights)


@_of_all
def targets_that_do_not_fit_are_refused(case: Case, folder: Path) -> None:
    rows, targets, _ = case.data
    if targets is None or targets.dtype.kind != "f":
        return
    for subject in fresh_and_seen(case):
        for value, kind in ((np.nan, "NaN"), (np.inf, "infinity"), (1e152, "large")):
            bad = targets[:10].copy()
            bad[7] = value
            with refusal(f"{kind}.* row 7"):
                learn(subject, rows[:10], bad)
        with refusal("inconsistent|9 .* 10|10 .* 9"):
            learn(subject, rows[:10], targets[:9])
        if n_seen(subject):
            with refusal("y |targets"):
                learn(subject, rows[:10], np.ones((10, 5)))


@_of_all
def rows_of_another_shape_are_refused(case: Case, folder: Path) -> None:
    rows, targets, _ = case.between(0, 10)
    for subject in fresh_and_seen(case):
        with refusal("2D|dim"):
            learn(subject, rows[0], part(targets, slice(1)))
        with refusal("[Cc]omplex"):
            learn(subject, rows + 1j, targets)
        for columns in (2, 4) if n_seen(subject) else ():
            with refusal(f"{columns} .*3|3 .*{columns}"):
                learn(subject, np.ones((10, columns)), targets)


@_of_all
def ids_beyond_those_possible_are_refused(case: Case, folder: Path) -> None:
    rows, targets, _ = case.data
    subject = case.new(first_id=2**63 - 6)
    with refused(subject, "first_id"):
        learn(subject, rows, targets)


@_of_all
def merging_with_what_does_not_add_up_is_refused(case: Case, folder: Path) -> None:
    few = case.between(0, 20)
    subject = learn(case.new(), *case.data)
    others: dict[str, dict[str, Any]] = {
        "random_state": {"random_state": 4},
        "epsilon": {"epsilon": 0.33},
        "coreset_size": {"coreset_size": 61},
        "disjoint": {"first_id": len(case.data[0]) - 1},
    }
    with untouched(subject):
        for message, settings in others.items():
            other = learn(case.new(**{"first_id": 1000} | settings), *few)
            with untouched(other), refusal(message):
                subject.merge(other)
        with refusal("disjoint"):
            subject.merge(subject)
        with refusal("width|columns"):
            subject.merge(learn(case.new(first_id=1000), few[0][:, :2], *few[1:]))
        for stranger in (None, 5, object()):
            with refusal("merge", TypeError):
                subject.merge(stranger)


@_of_all
def merging_with_what_has_seen_nothing_changes_nothing(case: Case, folder: Path) -> None:
    subject = learn(case.new(), *case.data)
    assert subject.merge(case.new()) is subject
    assert_same(subject, case.whole, case.data[0])


# -- estimators alone: single rows, tables, names, interrupts, threads ----------------------------------------


NAMES = ["a", "b", "c"]
FEW, READ_OFTEN = 20, Geometric(1.3, start=20)


def _pandas() -> Any:
    try:
        return importlib.import_module("pandas")
    except ImportError:
        return None


def fresh(case: Case) -> Any:
    """Return an object that has learned the stream in one call, and may learn more."""
    return learn(case.new(), *case.data)


def learn_one_by_one(model: Any, rows: Any, targets: Any) -> Any:
    for index, row in enumerate(rows):
        model.learn_one(*(row,) if targets is None else (row, targets[index]))
    return model


@_of_estimators
def single_rows_are_chunks_of_one_row(case: Case, folder: Path) -> None:
    rows, targets, _ = case.between(0, 90)
    whole, pieces = (learn_pieces(case.new(), (rows, targets, None), cuts) for cuts in (range(0), range(1, 90)))
    for kind in (list, np.asarray):
        model = learn_one_by_one(case.new(), [kind(row) for row in rows], targets)
        assert_same(model, whole, rows)
        assert state(model) == state(pieces)
    if hasattr(whole, "predict_one"):
        for row in rows[:20]:
            expected = (whole.transform if not hasattr(whole, "predict") else whole.predict)(row[None])[0]
            found = whole.predict_one(row)
            assert np.array_equal(found, expected) or np.allclose(found, expected, rtol=1e-6)


@_of_estimators
def mappings_are_read_by_their_names(case: Case, folder: Path) -> None:
    rows, targets, _ = case.between(0, 90)
    shuffled = [dict(zip("cab", row[[2, 0, 1]], strict=True)) for row in rows]
    shuffled[0] = dict(zip(NAMES, rows[0], strict=True))
    model = learn_one_by_one(case.new(), shuffled, targets)
    assert model.feature_names_in_.tolist() == NAMES
    assert_same_models(model, learn(case.new(), rows, targets))
    with untouched(model):
        for cells, message in (({"a": 1.0, "b": 2.0}, "missing .'c'"), ({**shuffled[0], "d": 4.0}, "'d'")):
            with refusal(message):
                learn_one_by_one(model, [cells], targets)


def assert_same_models(one: Any, other: Any) -> None:
    """Require the same but for the names of columns."""
    assert one.coreset_ == other.coreset_
    assert one.regret_ == other.regret_
    assert one.changes_ == other.changes_


@_of_estimators
def single_cells_that_are_no_finite_numbers_are_refused_by_column(case: Case, folder: Path) -> None:
    targets = case.data[1]
    model = fresh(case)
    with untouched(model):
        for value in (np.nan, np.inf, 1e152, "x", {"a": 1}, None):
            with refusal("column 1"):
                learn_one_by_one(model, [[1.0, value, 2.0]], targets)
        for row in ([1.0, 2.0], [1.0, 2.0, 3.0, 4.0], 5.0, None):
            with refusal(None):
                learn_one_by_one(model, [row], targets)


@_of_estimators
def data_frames_are_their_values_with_names(case: Case, folder: Path) -> None:
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
            other = pd.DataFrame(np.ones((len(rows), len(names))), columns=names)
            with refusal("names|columns"):
                learn(model, other, targets)
        if getattr(model, "columns", None) is None:  # else missing values are replaced
            with refusal("NaN.* row 4, column 'b'"):
                learn(model, frame, targets)


@_of_estimators
def sparse_rows_are_dense_rows(case: Case, folder: Path) -> None:
    rows, targets, weights = case.data
    model = case.new()
    for index, kind in enumerate((sp.csr_matrix, sp.csr_array, sp.csc_array, sp.coo_matrix)):
        piece = slice(40 * index, 40 * (index + 1))
        learn(model, kind(rows[piece]), part(targets, piece), weights[piece])
    assert_same(model, case.whole, rows)
    expected = output(model, rows)
    if expected is not None and expected.dtype.kind == "f":
        np.testing.assert_allclose(output(model, sp.csr_array(rows)), expected, rtol=1e-12)
    elif expected is not None:
        np.testing.assert_array_equal(output(model, sp.csr_array(rows)), expected)
    bad = rows.copy()
    bad[140, 1] = np.inf
    with refused(model, "infinity.* row 140, column 1"):
        learn(model, sp.csr_array(bad), targets)


@_of_estimators
def predictions_for_bad_rows_are_refused(case: Case, folder: Path) -> None:
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


@_of_estimators
def nothing_is_read_before_rows_have_come(case: Case, folder: Path) -> None:
    rows, model = case.data[0], case.new()
    reads: list[Callable[[], Any]] = [
        *(partial(getattr, model, name) for name in ("n_seen_", "n_changes_", "changes_", "coreset_", "regret_")),
        *(partial(getattr(model, name), rows) for name in ("predict", "transform") if hasattr(model, name)),
        lambda: model.forget([0]),
        lambda: model.save(folder / "model"),
        lambda: model.merge(fresh(case)),
    ]
    for read in reads:
        with refused(model, "seen", NotFittedError):
            read()
    assert not (folder / "model").exists()


@_of_estimators
def attributes_cannot_be_used_to_change_the_model(case: Case, folder: Path) -> None:
    model = fresh(case)
    with untouched(model):
        for name in dir(type(model)):
            value = getattr(model, name, None) if name.endswith("_") and not name.startswith("_") else None
            if isinstance(value, np.ndarray) and value.flags.writeable:
                value[...] = 0
            if isinstance(value, list):
                value.clear()


@_of_estimators
def clone_and_fit_start_with_none_of_the_rows(case: Case, folder: Path) -> None:
    rows, targets, weights = case.data
    used = fresh(case)
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
        fitted.fit(rows, targets, np.zeros(len(rows)))


# -- interruptions ------------------------------------------------------------------------------------


def failing_on_call(fit: Callable[..., Any], number: int, exception: type[BaseException]) -> Callable[..., Any]:
    calls: list[Any] = []

    def failing(self: Any, data: Any, current: Any) -> Any:
        calls.append(current)
        if len(calls) == number:
            raise exception
        return fit(self, data, current)

    return failing


def interrupted(model: Any, number: int = 1, exception: type[BaseException] = KeyboardInterrupt) -> Any:
    """Make the solver of this model raise in one of the next calls."""
    problem = type(model.stream.problem)
    return patch.object(problem, "fit", failing_on_call(problem.fit, number, exception))


@_of_estimators
def a_chunk_interrupted_in_the_solver_can_be_sent_again(case: Case, folder: Path) -> None:
    often = {"refresh": Geometric(1.4)}
    whole = learn_pieces(case.new(**often), case.data, [])
    for number, exception in ((1, KeyboardInterrupt), (2, ArithmeticError)):
        model = learn(case.new(**often), *case.between(0, 50))
        with interrupted(model, number, exception), refused(model, None, (exception, ValueError)):
            learn(model, *case.between(50))
        learn(model, *case.between(50))
        assert_same(model, whole, case.data[0])


@_of_estimators
def a_row_interrupted_in_the_solver_can_be_sent_again(case: Case, folder: Path) -> None:
    rows, targets, _ = case.between(0, 80)
    often = {"refresh": Geometric(1.5, start=60)}
    model = learn_one_by_one(case.new(**often), rows[:59], targets)
    before = state(model)
    with interrupted(model), refusal(None, (KeyboardInterrupt, ValueError)):
        learn_one_by_one(model, rows[59:60], part(targets, slice(59, None)))
    assert state(model) == before, "an error left a trace"
    learn_one_by_one(model, rows[59:], part(targets, slice(59, None)))
    assert_same(model, learn(case.new(**often), rows, targets), rows)


@_of_estimators
def an_interrupted_act_leaves_the_model_as_it_was(case: Case, folder: Path) -> None:
    rows, targets, weights = case.data
    model = learn_pieces(case.new(**case.history), case.data, [])
    other = learn_pieces(case.new(first_id=1000, **case.history), case.data, [])
    acts: list[Callable[[], Any]] = [lambda: model.merge(other), lambda: model.fit(rows, targets, weights)]
    if "forget" not in case.lacks:
        acts.append(lambda: model.forget([3, 100]))
    for act in acts:
        with interrupted(model), refused(model, None, (KeyboardInterrupt, ValueError)):
            act()


# -- threads ------------------------------------------------------------------------------------------


@_of_estimators
def readers_in_other_threads_see_one_version_at_a_time(case: Case, folder: Path) -> None:
    """Compare predictions made while another thread learns with those after each refit."""
    rows, targets, _ = case.data
    if output(case.whole, rows) is None:
        return
    probe, model = rows[::30], case.new(refresh=READ_OFTEN)
    versions: set[bytes] = set()
    for start in range(len(rows)):
        learn(model, rows[start : start + 1], part(targets, slice(start, start + 1)))
        if start + 1 >= FEW:
            versions.add(output(model, probe).tobytes())
    seen = read_while_learning(case.new(refresh=READ_OFTEN), rows, targets, probe)
    assert seen
    assert seen <= versions, "an answer belongs to no version of the model"


def read_while_learning(model: Any, rows: Any, targets: Any, probe: Any) -> set[bytes]:
    learn(model, rows[:FEW], part(targets, slice(FEW)))
    seen: set[bytes] = set()
    failures: list[BaseException] = []
    done = threading.Event()

    def reader() -> None:
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
