"""One object to check: how it is made, the stream it is fed, how two are compared, and how an error is expected."""

from __future__ import annotations

import copy
import pickle
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from itertools import pairwise
from typing import Any
from unittest.mock import patch

import numpy as np

from batch2online.engine.builder import CoresetBuilder
from batch2online.results import Timings
from batch2online.sketches.base import Coreset
from batch2online.storage.tree import parts_of

N, WIDTH, BLOCK = 150, 3, 16
"""Rows of the stream, its columns, and rows of a block: nine whole blocks and an unfinished one."""

SMALL = {"coreset_size": 30, "random_state": 3}
Errors = type[BaseException] | tuple[type[BaseException], ...]


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
    """

    make: Callable[..., Any]
    targets: str = "none"
    history: Mapping[str, Any] = field(default_factory=lambda: {"keep_history": True})
    lacks: Mapping[str, str] = field(default_factory=dict)
    merges_exactly: bool = True
    keeps_all: bool = True
    half_life: int | None = None

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

    def seen(self, stop: int | None = None, /, **settings: Any) -> Any:
        """Return an object that has learned the stream up to a row in one call."""
        return learn(self.new(**settings), *self.between(0, stop))

    @cached_property
    def whole(self) -> Any:
        """An object that has learned the stream in one call; only to be read."""
        return self.seen()


Check = Callable[[Case], None]


def by_name(*checks: Check) -> dict[str, Check]:
    """Return checks by the names of their functions."""
    return {check.__name__: check for check in checks}


def small_blocks(*rows: int) -> Any:
    """Return a context, or a decorator, in which blocks have this many rows; further numbers are for wider rows."""
    return patch("batch2online.rows._BLOCK_ROWS", rows)


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


def part(values: Any, index: Any) -> Any:
    """Return some of the targets or weights, where there are any."""
    return None if values is None else values[index]


def with_value(values: Any, value: Any, at: Any) -> Any:
    """Return a copy of an array with one value exchanged."""
    bad = values.astype(np.float64 if isinstance(value, float) else object)
    bad[at] = value
    return bad


def learn(subject: Any, rows: Any, targets: Any = None, weights: Any = None) -> Any:
    act = subject.add if isinstance(subject, CoresetBuilder) else subject.partial_fit
    return act(rows, targets, weights)


def learn_pieces(subject: Any, data: Sequence[Any], cuts: Iterable[int]) -> Any:
    """Learn rows, targets and weights in pieces that end at these cuts."""
    for piece in (slice(*ends) for ends in pairwise([0, *cuts, len(data[0])])):
        learn(subject, *(part(values, piece) for values in data))
    return subject


def coreset_of(subject: Any) -> Coreset:
    return subject.coreset() if isinstance(subject, CoresetBuilder) else subject.coreset_


def n_seen(subject: Any) -> int:
    if isinstance(subject, CoresetBuilder):
        return 0 if subject.sketch is None else int(subject.sketch.totals.n_rows)
    return subject.n_seen_ if subject.__sklearn_is_fitted__() else 0


def output(model: Any, rows: Any) -> Any:
    """Return the predictions of a model, as one array; None where it has none."""
    for method in ("predict_proba", "transform", "predict"):
        if hasattr(model, method):
            return np.asarray(getattr(model, method)(rows))
    return None


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
            twin.stream = replace(stream, state=replace(stream.state, timings=Timings()))
        return pickle.dumps(twin)


# -- comparisons ----------------------------------------------------------------------------------------------


def assert_same_arrays(one: Any, other: Any, what: str) -> None:
    """Require equal arrays, bit for bit, or None for both."""
    same = one is other if one is None or other is None else np.array_equal(one, other)
    assert same, f"the {what} differ"


def assert_same_coreset(one: Coreset, other: Coreset) -> None:
    """Require the same ids, weights, points and targets, bit for bit."""
    for name in ("ids", "weights", "points", "targets"):
        assert_same_arrays(getattr(one, name), getattr(other, name), f"{name} of the coreset")


def assert_same(one: Any, other: Any, rows: Any) -> None:
    """Require that all that can be seen of two subjects is the same, bit for bit."""
    assert n_seen(one) == n_seen(other), "rows are missing or counted twice"
    assert_same_coreset(coreset_of(one), coreset_of(other))
    if isinstance(one, CoresetBuilder):
        return
    for name in ("changes_", "regret_", "metrics_", "recent_metrics_"):
        assert getattr(one, name) == getattr(other, name), f"{name} differs"
    few, others = (each.stream.performance().handful for each in (one, other))
    assert few == others, "the rows with most of the loss differ"
    assert_same_arrays(output(one, rows), output(other, rows), "predictions")


# -- expected errors ------------------------------------------------------------------------------------------


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


def failing_on_call(fit: Callable[..., Any], number: int, exception: type[BaseException]) -> Callable[..., Any]:
    """Return a ``fit`` of a problem that raises in one of its next calls."""
    calls: list[Any] = []

    def failing(self: Any, data: Any, current: Any) -> Any:
        calls.append(current)
        if len(calls) == number:
            raise exception
        return fit(self, data, current)

    return failing
