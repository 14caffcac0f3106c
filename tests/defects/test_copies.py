"""Copies, threads and merging: no row is lost, none is shared."""

from __future__ import annotations

import copy
import pickle
import sys
import threading

import numpy as np
import pytest

from batch2online import OnlineClustering, coresets
from batch2online.estimator import OnlineEstimator, estimators
from defects.subjects import ESTIMATORS, X, learn_one, learned, learned_one_by_one, rows_of, some, state

COPIES = {
    "deepcopy": copy.deepcopy,
    "copy": copy.copy,
    "pickle": lambda model: pickle.loads(pickle.dumps(model)),
}
SINGLE, MORE, STOP = 700, 760, 900
"""Where single rows begin, where the copy is made, and where both end."""


def test_the_list_of_estimators_is_complete():
    own = {name for name, cls in estimators.items() if cls.__module__.startswith("batch2online.methods.")}
    abstract = {"OnlineEstimator", "Labelled"}
    assert own - abstract == {type(make()).__name__ for make, _ in ESTIMATORS.values()}
    assert all(issubclass(estimators[name], OnlineEstimator) for name in own)


@pytest.mark.parametrize("how", COPIES)
@pytest.mark.parametrize("name", ESTIMATORS)
@pytest.mark.covering
def test_a_copy_that_goes_on_has_all_rows_and_leaves_the_original_alone(name, how):
    make, targets = ESTIMATORS[name]
    model = learned_one_by_one(learned(make(), targets, 0, SINGLE), targets, SINGLE, MORE)
    before = state(model)
    twin = COPIES[how](model)
    learned_one_by_one(twin, targets, MORE, STOP)
    assert state(model) == before
    whole = learned_one_by_one(learned(make(), targets, 0, SINGLE), targets, SINGLE, STOP)
    assert state(twin) == state(whole)
    if "bounded" not in name:
        np.testing.assert_array_equal(rows_of(twin)[0], X[:STOP])
    learned_one_by_one(model, targets, MORE, STOP)
    assert state(model) == state(whole)


THREADS, EACH = 8, 60


def in_threads(act):
    """Let threads act at once, switching as often as possible."""
    failures = []

    def work(number):
        try:
            act(number)
        except BaseException as error:
            failures.append(error)

    threads, interval = [threading.Thread(target=work, args=(n,)) for n in range(THREADS)], sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(interval)
    assert not failures, failures[0]


@pytest.mark.parametrize("is_new", [False, True])
@pytest.mark.parametrize("how", ["learn_one", "partial_fit", "both"])
@pytest.mark.parametrize("name", ESTIMATORS)
@pytest.mark.covering
def test_threads_that_learn_at_once_lose_no_row(name, how, is_new):
    make, targets = ESTIMATORS[name]
    start = 0 if is_new else 40
    model = make() if is_new else learned(make(), targets, 0, start)

    def act(number):
        first = start + number * EACH
        if how == "learn_one" or (how == "both" and number % 2):
            for index in range(first, first + EACH):
                learn_one(model, targets, index)
        else:
            for index in range(first, first + EACH, 4):
                model.partial_fit(X[index : index + 4], some(targets, index, index + 4))

    in_threads(act)
    stop = start + THREADS * EACH
    assert model.n_seen_ == stop
    if "bounded" not in name:
        assert sorted(map(tuple, rows_of(model)[0].tolist())) == sorted(map(tuple, X[:stop].tolist()))


def test_merging_in_bounded_memory_promises_what_it_says():
    """Bounded, not equal to one stream, and dependent on the order of merging."""

    def part(*slices):
        first, stop = slices
        model = OnlineClustering(3, history="coreset", coreset_size=100, random_state=0, first_id=first)
        return model.partial_fit(X[first:stop])

    def merged(*cuts):
        model = part(*cuts[0])
        for cut in cuts[1:]:
            model.merge(part(*cut))
        return model.coreset_

    thirds = (0, 1000), (1000, 2000), (2000, 3000)
    one, forward, round_about = part(0, 3000).coreset_, merged(*thirds), merged(thirds[2], *thirds[:2])
    assert forward != one
    assert forward != round_about
    assert merged(*thirds[:2]) == merged(*thirds[1::-1])
    for coreset in (one, forward, round_about):
        assert len(coreset) < 150
        assert coreset.weights.sum() == pytest.approx(3000, rel=0.3)
    for promised in (OnlineClustering.__doc__, coresets.Clustering.__doc__):
        text = " ".join(promised.split())
        assert all(
            words in text for words in ("bounded", "not equal to", "one stream", "depends on the order of merging")
        )
    assert 'With ``history="coreset"``' in OnlineClustering.merge.__doc__
