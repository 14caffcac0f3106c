"""Promises of coresets and of estimators: chunks, shards, deletions, weights, files, copies, bad input."""

from __future__ import annotations

import copy
import math
import pickle
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from batch2online import load
from batch2online.checks.case import (
    Case,
    N,
    assert_same,
    assert_same_arrays,
    assert_same_coreset,
    by_name,
    coreset_of,
    learn,
    learn_pieces,
    n_seen,
    part,
    refusal,
    refused,
    state,
    untouched,
    with_value,
)
from batch2online.engine.builder import CoresetBuilder
from batch2online.storage.tree import parts_of, state_of

# -- any path to the same rows ends in the same state ---------------------------------------------------------


ANY = np.unique(np.random.default_rng(1).integers(1, N, size=12)).tolist()
CUTS: dict[str, Iterable[int]] = {
    "single rows": range(1, N),
    "sevens": range(7, N, 7),
    "ends of blocks": range(16, N, 16),
    "any": ANY,
}


def chunks_do_not_matter(case: Case) -> None:
    rows, targets, weights = case.data
    for cuts in CUTS.values():
        assert_same(learn_pieces(case.new(), case.data, cuts), case.whole, rows)
    for first_id, some in ((0, None), (5, weights), (2**40 + 17, weights)):
        whole = learn(case.new(first_id=first_id), rows, targets, some)
        pieces = learn_pieces(case.new(first_id=first_id), (rows, targets, some), ANY)
        assert_same(pieces, whole, rows)
        assert coreset_of(whole).ids.min() >= first_id


def the_seed_decides(case: Case) -> None:
    same = case.seen()
    assert_same(same, case.whole, case.data[0])
    if "save" not in case.lacks:
        assert state(same) == state(case.whole)


def memory_of_a_chunk_may_be_used_again(case: Case) -> None:
    subject = case.new()
    for start in range(0, N, 50):
        given = case.between(start, start + 50)
        own = [None if values is None else values.copy() for values in given]
        learn(subject, *own)
        for mine, values in zip(own, given, strict=True):
            assert_same_arrays(mine, values, "rows, targets or weights after a call")
            if mine is not None:
                mine[:] = values[::-1]
    assert_same(subject, case.whole, case.data[0])


def reading_changes_nothing(case: Case) -> None:
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


# -- shards and deletions -------------------------------------------------------------------------------------


def shards(case: Case, cuts: Sequence[int], **settings: Any) -> list[Any]:
    """Subjects that have seen a piece of the stream each."""
    return [learn(case.new(first_id=a, **settings), *case.between(a, b)) for a, b in pairwise([0, *cuts, N])]


def shards_merged_in_any_order_are_one_stream(case: Case) -> None:
    for order in ([0, 1, 2, 3], [2, 0, 3, 1]):
        parts = shards(case, [48, 51, 100])
        losses = [each.regret_.loss for each in parts if hasattr(each, "regret_")]
        merged = parts[order[0]]
        for index in order[1:]:
            with untouched(parts[index]):
                assert merged.merge(parts[index]) is merged
        assert n_seen(merged) == n_seen(case.whole), "rows are missing or counted twice"
        if losses and case.half_life is None:
            assert math.isclose(merged.regret_.loss, sum(losses), rel_tol=1e-12)
        if case.merges_exactly:
            assert_same_coreset(coreset_of(merged), coreset_of(case.whole))
    if not case.merges_exactly:
        both = [coreset_of(one.merge(other)) for one, other in (shards(case, [51]), shards(case, [51])[::-1])]
        assert_same_coreset(*both)


def learning_goes_on_after_a_merge(case: Case) -> None:
    first, second, _ = shards(case, [48, 75])
    learn(first.merge(second), *case.between(75))
    assert n_seen(first) == N
    if case.merges_exactly:
        assert_same_coreset(coreset_of(first), coreset_of(case.whole))


def merging_with_what_does_not_add_up_is_refused(case: Case) -> None:
    subject, few = case.seen(), case.between(0, 20)
    others: dict[str, dict[str, Any]] = {
        "random_state": {"random_state": 4},
        "epsilon": {"epsilon": 0.33},
        "coreset_size": {"coreset_size": 61},
        "disjoint": {"first_id": N - 1},
    }
    for message, settings in others.items():
        other = learn(case.new(**{"first_id": 1000} | settings), *few)
        with untouched(other), refused(subject, message):
            subject.merge(other)
    narrow = learn(case.new(first_id=1000), few[0][:, :2], *few[1:])
    for stranger, message in ((subject, "disjoint"), (narrow, "width|columns"), (None, "merge"), (5, "merge")):
        with refused(subject, message):
            subject.merge(stranger)
    assert subject.merge(case.new()) is subject, "an object that has seen no rows merges without effect"
    assert_same(subject, case.whole, case.data[0])


def forgotten_rows_were_never_there(case: Case) -> None:
    if "forget" in case.lacks:
        subject = case.seen()
        with refused(subject, case.lacks["forget"]):
            subject.forget([0])
        return
    first, _, third, _, fifth = shards(case, [20, 30, 65, 66], **case.history)
    rest = first.merge(third).merge(fifth)
    subject = case.seen(**case.history)
    assert subject.forget([*range(20, 30), 65]) is subject
    assert n_seen(subject) == n_seen(rest) == N - 11
    if case.merges_exactly:
        assert_same_coreset(coreset_of(subject), coreset_of(rest))
    else:  # shards remember other models: compare with the beginning of the stream
        shortened = case.seen(**case.history).forget(range(130, N))
        assert_same_coreset(coreset_of(shortened), coreset_of(case.seen(130, **case.history)))
    for ids, message in (([25], "25"), ([10**9], "never seen"), ([1.0], "integers"), ([[1, 2]], "dimensions")):
        with refused(subject, message):
            subject.forget(ids)


def learning_goes_on_after_everything_was_forgotten(case: Case) -> None:
    if "forget" in case.lacks:
        return
    subject = case.seen(50, **case.history).forget(range(50))
    assert n_seen(subject) == len(coreset_of(subject)) == 0
    learn(subject, *case.between(50))
    fresh = learn(case.new(first_id=50, **case.history), *case.between(50))
    assert_same_coreset(coreset_of(subject), coreset_of(fresh))


# -- weights --------------------------------------------------------------------------------------------------


def a_weight_of_zero_is_as_if_the_row_were_absent(case: Case) -> None:
    rows, targets, weights = case.data
    there = np.random.default_rng(2).random(N) < 0.7
    weighted = learn(case.new(), rows, targets, np.where(there, weights, 0.0))
    absent = learn(case.new(), rows[there], part(targets, there), weights[there])
    assert n_seen(weighted) == there.sum()
    assert_same(weighted, absent, rows)


def one_number_is_the_weight_of_every_row(case: Case) -> None:
    rows, targets, _ = case.data
    for one, each in ((2.5, np.full(N, 2.5)), (None, np.ones(N))):
        assert_same(learn(case.new(), rows, targets, one), learn(case.new(), rows, targets, each), rows)


def weights_are_kept_while_everything_is(case: Case) -> None:
    rows, _, weights = case.between(0, 60)
    coreset = coreset_of(case.seen(60, coreset_size=10**12))
    if case.half_life is not None:
        weights = weights * np.exp2(np.arange(60) / case.half_life)
    assert math.isclose(coreset.weights.sum(), weights.sum(), rel_tol=1e-9), "the total weight is lost"
    if case.keeps_all:
        for found, expected in ((coreset.ids, np.arange(60)), (coreset.points, rows), (coreset.weights, weights)):
            assert np.array_equal(found, expected)


# -- files and copies -----------------------------------------------------------------------------------------


def a_saved_subject_continues_where_it_was(case: Case) -> None:
    if "save" in case.lacks:
        with refusal(case.lacks["save"]):
            saved_and_loaded(case.whole)
        return
    for at in (1, 16, 75):
        subject = case.seen(at)
        with untouched(subject):
            twin = saved_and_loaded(subject)
        assert state(twin) == state(subject), "the loaded state differs from the saved one"
        learn(twin, *case.between(at))
        assert_same(twin, case.whole, case.data[0])
        assert state(twin) == state(learn(subject, *case.between(at)))


def saved_and_loaded(subject: Any) -> Any:
    if isinstance(subject, CoresetBuilder):
        return state_of(parts_of(subject))
    with TemporaryDirectory() as folder:
        first, second = Path(folder, "model"), Path(folder, "again")
        subject.save(first)
        twin = load(first)
        twin.save(second)
        assert second.read_bytes() == first.read_bytes(), "saved again, the file differs"
    assert twin.get_params().keys() == subject.get_params().keys()
    return twin


def copies_continue_alike_and_leave_the_original_alone(case: Case) -> None:
    copies: tuple[Callable[[Any], Any], ...] = (copy.deepcopy, lambda subject: pickle.loads(pickle.dumps(subject)))
    for copied in copies:
        original = case.seen(75)
        for subject in (copied(original), original):
            assert_same(learn(subject, *case.between(75)), case.whole, case.data[0])


# -- bad input is refused, with row and column, without a trace -----------------------------------------------


CELLS: dict[str, tuple[Any, ...]] = {
    "NaN.* row 4, column 1": (np.nan,),
    "infinity.* row 4, column 1": (-np.inf,),
    "large.* row 4, column 1": (1e152,),
    "[Rr]ow 4, column 1": ("x", {"a": 1}),
}
WEIGHTS = {"-1.0 at row 3": -1.0, "nan at row 3": np.nan, "inf at row 3": np.inf, "row 3": 1e304}
TARGETS = {"NaN.* row 3": np.nan, "infinity.* row 3": np.inf, "large.* row 3": 1e152}


def bad_calls(case: Case) -> Iterator[tuple[str, tuple[Any, Any, Any]]]:
    """Yield what no subject can learn, after the message with which it must be refused."""
    rows, targets, _ = case.between(0, 10)
    ones = np.ones(10)
    for message, cells in CELLS.items():
        yield from ((message, (with_value(rows, cell, (4, 1)), targets, None)) for cell in cells)
    yield from ((message, (rows, targets, with_value(ones, weight, 3))) for message, weight in WEIGHTS.items())
    for weights in (np.ones(9), np.ones((10, 1)), ["x"] * 10, ones + 1j, -1.0):
        yield "weight|[Cc]omplex|real", (rows, targets, weights)
    if targets is not None and targets.dtype.kind == "f":
        yield from ((message, (rows, with_value(targets, y, 3), None)) for message, y in TARGETS.items())
        yield "inconsistent|9 .* 10|10 .* 9", (rows, targets[:9], None)
    yield "2D|dim", (rows[0], part(targets, slice(1)), None)
    yield "[Cc]omplex", (rows + 1j, targets, None)
    rows, targets, weights = case.data  # a bad value far down leaves no trace of the rows before
    yield "row 140, column 2", (with_value(rows, np.nan, (140, 2)), targets, weights)
    yield "row 140", (rows, targets, with_value(np.ones(N), -1.0, 140))


def bad_input_is_refused_by_row_and_column(case: Case) -> None:
    for subject in (case.new(), case.seen()):
        for message, data in bad_calls(case):
            with refused(subject, message):
                learn(subject, *data)
    subject, (rows, targets, _) = case.seen(), case.between(0, 10)
    for columns in (2, 4):
        with refused(subject, f"{columns} .*3|3 .*{columns}"):
            learn(subject, np.ones((10, columns)), targets)
    if targets is not None and targets.dtype.kind == "f":
        with refused(subject, "y |targets"):
            learn(subject, rows, np.ones((10, 5)))
    full = case.new(first_id=2**63 - 6)
    with refused(full, "first_id"):
        learn(full, rows, targets)


sketch_checks = by_name(
    chunks_do_not_matter,
    the_seed_decides,
    memory_of_a_chunk_may_be_used_again,
    reading_changes_nothing,
    shards_merged_in_any_order_are_one_stream,
    learning_goes_on_after_a_merge,
    merging_with_what_does_not_add_up_is_refused,
    forgotten_rows_were_never_there,
    learning_goes_on_after_everything_was_forgotten,
    a_weight_of_zero_is_as_if_the_row_were_absent,
    one_number_is_the_weight_of_every_row,
    weights_are_kept_while_everything_is,
    a_saved_subject_continues_where_it_was,
    copies_continue_alike_and_leave_the_original_alone,
    bad_input_is_refused_by_row_and_column,
)
