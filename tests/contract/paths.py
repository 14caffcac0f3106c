"""Any path to the same rows ends in the same place: chunks, shards, deletions, reading on the way."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from batch2online.sketches.base import Construction
from contract.promises import of_all, promise
from contract.subjects import (
    assert_same,
    assert_same_coreset,
    coreset_of,
    learn,
    learn_pieces,
    n_seen,
    part,
    refusal,
    refused,
    state,
    untouched,
)

CUTS = {
    "single rows": lambda n: range(1, n),
    "sevens": lambda n: range(7, n, 7),
    "ends of blocks": lambda n: range(16, n, 16),
    "any": lambda n: np.unique(np.random.default_rng(1).integers(1, n, size=12)).tolist(),
}


@promise(of_all)
def chunks_do_not_matter(case, folder):
    rows, targets, _ = case.data
    for cuts in CUTS.values():
        assert_same(learn_pieces(case.new(), case.data, cuts(len(rows))), case.whole, rows)
    unweighted = [learn_pieces(case.new(), (rows, targets, None), cuts) for cuts in ([], CUTS["any"](len(rows)))]
    assert_same(*unweighted, rows)


@promise(of_all)
def chunks_do_not_matter_for_any_first_id(case, folder):
    for first_id in (5, 2**40 + 17):
        whole, pieces = (
            learn_pieces(case.new(first_id=first_id), case.data, cuts) for cuts in ([], CUTS["any"](len(case.data[0])))
        )
        assert_same(pieces, whole, case.data[0])
        assert coreset_of(whole).ids.min() >= first_id


@promise(of_all)
def the_seed_decides(case, folder):
    same = learn_pieces(case.new(), case.data, [])
    assert_same(same, case.whole, case.data[0])
    if "save" not in case.lacks:
        assert state(same) == state(case.whole)


@promise(of_all)
def memory_of_a_chunk_may_be_used_again(case, folder):
    rows, subject = case.data[0], case.new()
    for start in range(0, len(rows), 50):
        own = [None if values is None else values[start : start + 50].copy() for values in case.data]
        copies = [None if values is None else values.copy() for values in own]
        learn(subject, *own)
        assert all(np.array_equal(*pair) for pair in zip(own, copies, strict=True) if pair[0] is not None)
        for values in own:
            if values is not None:
                values[:] = values[::-1].copy()
    assert_same(subject, case.whole, rows)


@promise(of_all)
def looking_changes_nothing(case, folder):
    rows, targets, weights = case.data
    subject, undisturbed = case.new(), case.new()
    for start in range(0, len(rows), 40):
        piece = slice(start, start + 40)
        for each in (subject, undisturbed):
            learn(each, rows[piece], part(targets, piece), weights[piece])
        look(subject)
        if "save" not in case.lacks:
            assert state(subject) == state(undisturbed), "looking left a trace"
    assert_same(subject, undisturbed, rows)


def look(subject):
    coreset = coreset_of(subject)
    arrays = (coreset.points, coreset.weights, coreset.ids, coreset.targets)
    assert not any(array.flags.writeable for array in arrays if array is not None), "a coreset can be written into"
    assert (np.diff(coreset.ids) > 0).all(), "ids are not in order"
    if not isinstance(subject, Construction):
        assert subject.regret_.rows == subject.n_seen_ - subject._engine.caught_up().unscored.rows
        assert subject.n_changes_ == len(subject.changes_)
        subject.changes_.clear()


# -- shards -------------------------------------------------------------------------------------------


def shards(case, cuts, **settings):
    """Subjects that have seen a piece of the stream each."""
    rows, targets, weights = case.data
    bounds = [0, *cuts, len(rows)]
    return [
        learn(case.new(first_id=a, **settings), rows[a:b], part(targets, slice(a, b)), weights[a:b])
        for a, b in pairwise(bounds)
    ]


@promise(of_all)
def shards_merged_in_any_order_are_one_stream(case, folder):
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
        if losses and not case.fades:
            assert merged.regret_.loss == pytest.approx(sum(losses), rel=1e-12)
        seen.append(coreset_of(merged))
    if case.merges_exactly:
        for coreset in seen:
            assert_same_coreset(coreset, coreset_of(case.whole))
    else:
        both = [coreset_of(one.merge(other)) for one, other in (shards(case, [51]), shards(case, [51])[::-1])]
        assert_same_coreset(*both)


@promise(of_all)
def learning_goes_on_after_a_merge(case, folder):
    rows, targets, weights = case.data
    first, second, _ = shards(case, [48, 75])
    first.merge(second)
    learn(first, rows[75:], part(targets, slice(75, None)), weights[75:])
    assert n_seen(first) == len(rows)
    if case.merges_exactly:
        assert_same_coreset(coreset_of(first), coreset_of(case.whole))


# -- deletions ----------------------------------------------------------------------------------------


@promise(of_all)
def forgotten_rows_were_never_there(case, folder):
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
        beginning = learn_pieces(case.new(**case.history), [part(values, slice(130)) for values in case.data], [])
        shortened = learn_pieces(case.new(**case.history), case.data, []).forget(range(130, len(case.data[0])))
        assert_same_coreset(coreset_of(shortened), coreset_of(beginning))
    with untouched(subject):
        for ids, message in (([25], "25"), ([10**9], "never seen"), ([1.0], "integers"), ([[1, 2]], "dimensions")):
            with refusal(message):
                subject.forget(ids)


@promise(of_all)
def learning_goes_on_after_everything_was_forgotten(case, folder):
    if "forget" in case.lacks:
        return
    rows, targets, weights = case.data
    subject = learn(case.new(**case.history), rows[:50], part(targets, slice(50)), weights[:50])
    subject.forget(range(50))
    assert n_seen(subject) == len(coreset_of(subject)) == 0
    learn(subject, rows[50:], part(targets, slice(50, None)), weights[50:])
    fresh = case.new(first_id=50, **case.history)
    learn(fresh, rows[50:], part(targets, slice(50, None)), weights[50:])
    assert_same_coreset(coreset_of(subject), coreset_of(fresh))
