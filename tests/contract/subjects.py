"""Estimators and constructions fed and read in the same way, through what they offer to anyone."""

from __future__ import annotations

import copy
import pickle
from contextlib import contextmanager
from itertools import pairwise

import numpy as np
import pytest

from batch2online.results import Costs
from batch2online.sketches.base import Construction
from state_bytes import serialise


def state(subject):
    """All that a subject is: the bytes of its checkpoint; the attributes of an estimator that has seen no rows."""
    if isinstance(subject, Construction):
        return _bytes_of(subject, subject)
    if not subject.__sklearn_is_fitted__():
        return {name: value for name, value in vars(subject).items() if name[0] != "_"}
    return _bytes_of(subject._state(), subject)


def _bytes_of(content, subject):
    """What a checkpoint holds; of what no checkpoint can hold, the bytes of a pickle."""
    try:
        return serialise(content)
    except TypeError:
        twin = copy.deepcopy(subject)
        if not isinstance(twin, Construction):
            twin._engine.costs = Costs()  # seconds differ from run to run
        return pickle.dumps(twin)


def learn(subject, rows, targets=None, weights=None):
    act = subject.add if isinstance(subject, Construction) else subject.partial_fit
    return act(rows, targets, weights)


def coreset_of(subject):
    return subject.coreset() if isinstance(subject, Construction) else subject.coreset_


def n_seen(subject):
    if isinstance(subject, Construction):
        return subject.caught_up().n_rows
    return subject.n_seen_ if subject.__sklearn_is_fitted__() else 0


def part(values, index):
    """Some of the targets or weights, where there are any."""
    return None if values is None else values[index]


def learn_pieces(subject, data, cuts):
    """Learn rows, targets and weights in pieces that end at these cuts."""
    rows, targets, weights = data
    for piece in (slice(*ends) for ends in pairwise([0, *cuts, len(rows)])):
        learn(subject, rows[piece], part(targets, piece), part(weights, piece))
    return subject


def output(model, rows):
    """All that a model says about rows, as one array, where it says anything."""
    for method in ("predict_proba", "transform", "predict"):
        if hasattr(model, method):
            return np.asarray(getattr(model, method)(rows))
    return None


def assert_same_coreset(one, other):
    """The same ids, weights, points and targets, bit for bit."""
    for name in ("ids", "weights", "points", "targets"):
        mine, theirs = getattr(one, name), getattr(other, name)
        assert np.array_equal(mine, theirs) if mine is not None else theirs is None, f"the {name} of the coreset differ"


def assert_same(one, other, rows):
    """All that can be seen of two subjects is the same, bit for bit."""
    assert n_seen(one) == n_seen(other), "rows are missing or counted twice"
    assert_same_coreset(coreset_of(one), coreset_of(other))
    if isinstance(one, Construction):
        return
    assert one.changes_ == other.changes_, "the changes differ"
    assert one.regret_ == other.regret_, "the regret differs"
    assert one.metrics_ == other.metrics_, "the averages of all rows differ"
    assert one.recent_metrics_ == other.recent_metrics_, "the averages of the last rows differ"
    assert one._handful() == other._handful(), "the rows with most of the loss differ"
    mine, theirs = output(one, rows), output(other, rows)
    assert np.array_equal(mine, theirs) if mine is not None else theirs is None, "the predictions differ"


@contextmanager
def untouched(subject):
    """Whatever is tried inside leaves no trace."""
    before = state(subject)
    yield
    assert state(subject) == before, "an error left a trace"


@contextmanager
def refused(subject, message, error=(ValueError, TypeError)):
    """An error with this message, and no trace of what caused it."""
    with untouched(subject), pytest.raises(error, match=message):
        yield


def refusal(message):
    return pytest.raises((ValueError, TypeError), match=message)


def refuses(subject, act, message, error=ValueError):
    """Check that an act on the subject is refused, and leaves no trace."""
    with refused(subject, message, error):
        act(subject)
