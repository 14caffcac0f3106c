"""A call that is refused or interrupted leaves everything as it was, or is done."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

import batch2online
from batch2online import BatchToOnline, Durable, OnlineRegression
from batch2online.refresh import Geometric
from defects.subjects import SMALL, X, Y, learned, learned_one_by_one, state

PACKAGE = str(Path(batch2online.__file__).parent)
SIGN = (X[:60, 0] > 1).astype(int)
BAD = X[:60].copy()
BAD[0, 0] = np.nan


def logistic(**settings):
    return BatchToOnline(LogisticRegression(), random_state=0, **settings)


def other_target(model):
    model.learn_one(X[0], np.nan)


def other_ids(model):
    model.merge(logistic().partial_fit(X[:60], 7 + SIGN))


REFUSED = {
    "partial_fit": lambda model: model.partial_fit(BAD, np.full(60, 99)),
    "fit": lambda model: model.fit(BAD, np.full(60, 99)),
    "learn_one": lambda model: model.learn_one(BAD[0], 99),
    "learn_one without a label": other_target,
    "weights": lambda model: model.partial_fit(X[:60], np.full(60, 99), np.full(60, -1.0)),
    "merge": other_ids,
}


@pytest.mark.parametrize("how", REFUSED)
def test_a_refused_call_leaves_no_label(how):
    model = logistic().partial_fit(X[:60], SIGN)
    before, known = state(model), dict(model._labels)
    with pytest.raises(ValueError):  # noqa: PT011  # each has words of its own
        REFUSED[how](model)
    assert state(model) == before
    assert model._labels == known
    assert model.partial_fit(X[:60], SIGN).n_seen_ == 120


def test_a_refused_first_call_leaves_no_label():
    model = logistic()
    with pytest.raises(ValueError, match="NaN at row 0"):
        model.partial_fit(BAD, np.where(SIGN, "yes", "no"))
    assert model.partial_fit(X[:60], SIGN).n_seen_ == 60


# -- an exception at every line --------------------------------------------------------------------------------


class Interrupt(BaseException):
    """Comes at any line."""


def interrupted_at(number, act):
    """Act, and raise at this line of the package, counted from the beginning; return whether it came."""
    left = number

    def local(frame, event, argument):
        nonlocal left
        if event == "line":
            left -= 1
            if left == 0:
                raise Interrupt
        return local

    def trace(frame, event, argument):
        return local if frame.f_code.co_filename.startswith(PACKAGE) else None

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        act()
    except Interrupt:
        return True
    finally:
        sys.settrace(before)
    return False


def at_a_refresh():
    """A model whose next row is due for a refresh."""
    model = OnlineRegression(refresh=Geometric(1.2), **SMALL)
    learned(model, Y, 0, 13)
    return learned_one_by_one(model, Y, 13, model._stream.current.refresh.next_check - 1)


def at_a_shared_queue():
    """A model whose buffer shares its rows with that of a stream before, which has gone on."""
    model = learned(OnlineRegression(refresh=Geometric(100.0), **SMALL), Y, 0, 20)
    model.stream.append([(X[20:21], Y[20:21, None], np.ones(1))])
    return model


@pytest.mark.parametrize("start", [at_a_refresh, at_a_shared_queue])
@pytest.mark.few(1)
def test_an_interrupt_at_any_line_leaves_the_call_undone_or_done(start):
    n = start().n_seen_
    undone, done = state(start()), state(learned_one_by_one(start(), Y, n, n + 1))
    whole = state(learned_one_by_one(start(), Y, n, n + 60))
    number, outcomes = 0, set()
    while True:
        number, model = number + 1, start()
        if not interrupted_at(number, lambda model=model: learned_one_by_one(model, Y, n, n + 1)):
            break
        assert state(model) in (undone, done)
        outcomes.add(state(model) == done)
        if number % 10 == 0:
            assert state(learned_one_by_one(model, Y, model.n_seen_, n + 60)) == whole
    assert number > 20
    assert False in outcomes


@pytest.mark.parametrize("checkpoint_rows", [60, 10**6])
def test_an_interrupted_call_never_hides_later_rows(tmp_path, checkpoint_rows):
    settings = {"refresh": Geometric(1.3), **SMALL}
    durable = Durable(tmp_path / "m", OnlineRegression(**settings), durability="os", checkpoint_rows=checkpoint_rows)
    durable.partial_fit(X[:20], Y[:20])
    seen, interrupts, number = 20, 0, 0

    def next_rows():
        durable.partial_fit(X[seen % 3000 : seen % 3000 + 3], Y[seen % 3000 : seen % 3000 + 3])

    given = [slice(0, 20)]
    while True:
        number += 7 if interrupts else 1
        came = interrupted_at(number, next_rows)
        interrupts += came
        assert durable.model.n_seen_ in (seen, seen + 3)
        for _ in range(2):  # what was interrupted may be done; another call always is
            if durable.model.n_seen_ == seen + 3:
                given.append(slice(seen % 3000, seen % 3000 + 3))
                seen += 3
                break
            next_rows()
        if not came:
            break
    assert interrupts > 20
    durable._session.abandon()
    with Durable.open(tmp_path / "m") as again:
        expected = OnlineRegression(**settings)
        for rows in given:
            expected.partial_fit(X[rows], Y[rows])
        assert again.model.n_seen_ == seen
        assert state(again.model) == state(expected)
