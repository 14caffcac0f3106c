"""What a weight means: nothing at zero, itself while everything is kept, the same for every row if it is one number."""

from __future__ import annotations

import numpy as np
import pytest

from contract.promises import of_all, promise
from contract.subjects import assert_same, coreset_of, learn, n_seen, part


@promise(of_all)
def a_weight_of_zero_is_as_if_the_row_were_absent(case, folder):
    rows, targets, weights = case.data
    there = np.random.default_rng(2).random(len(rows)) < 0.7
    weighted = learn(case.new(), rows, targets, np.where(there, weights, 0.0))
    absent = learn(case.new(), rows[there], part(targets, there), weights[there])
    assert n_seen(weighted) == there.sum()
    assert_same(weighted, absent, rows)


@promise(of_all)
def one_number_counts_for_every_row(case, folder):
    rows, targets, _ = case.data
    scalar, each = (learn(case.new(), rows, targets, weight) for weight in (2.5, np.full(len(rows), 2.5)))
    assert_same(scalar, each, rows)


@promise(of_all)
def no_weights_are_weights_of_one(case, folder):
    rows, targets, _ = case.data
    without, ones = (learn(case.new(), rows, targets, weight) for weight in (None, np.ones(len(rows))))
    assert_same(without, ones, rows)


@promise(of_all)
def weights_are_kept_while_everything_is(case, folder):
    rows, targets, weights = (part(values, slice(60)) for values in case.data)
    subject = learn(case.new(coreset_size=10**12), rows, targets, weights)
    coreset = coreset_of(subject)
    if case.fades:
        weights = weights * np.exp2(np.arange(60) / case.make.keywords["half_life"])
    assert coreset.weights.sum() == pytest.approx(weights.sum(), rel=1e-9), "the total weight is lost"
    if case.keeps_all:
        assert np.array_equal(coreset.ids, np.arange(60))
        assert np.array_equal(coreset.points, rows)
        assert np.array_equal(coreset.weights, weights)
