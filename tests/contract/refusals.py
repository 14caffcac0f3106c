"""What is refused: with the row and the column named, and without a trace."""

from __future__ import annotations

import numpy as np
import pytest

from contract.promises import of_all, promise
from contract.subjects import assert_same, learn, n_seen, part, refusal, refused, untouched

CELLS = {
    "NaN": (np.nan, "NaN.* row 4, column 1"),
    "infinity": (-np.inf, "infinity.* row 4, column 1"),
    "too large": (1e152, "large.* row 4, column 1"),
    "text": ("x", "[Rr]ow 4, column 1"),
    "a mapping": ({"a": 1}, "[Rr]ow 4, column 1"),
}
WEIGHTS = {
    "negative": (-1.0, "-1.0 at row 3"),
    "NaN": (np.nan, "nan at row 3"),
    "infinity": (np.inf, "inf at row 3"),
    "too large": (1e304, "row 3"),
}


def with_cell(rows, value, row=4, column=1):
    bad = rows[:10].astype(np.float64 if isinstance(value, float) else object)
    bad[row, column] = value
    return bad


def fresh_and_seen(case):
    """A subject that has seen no rows, and one in the midst of a block; each must be left as it was."""
    for subject in (case.new(), learn(case.new(), *case.data)):
        with untouched(subject):
            yield subject


@promise(of_all)
def cells_that_are_no_finite_numbers_are_refused_by_row_and_column(case, folder):
    rows, targets, _ = case.data
    for subject in fresh_and_seen(case):
        for value, message in CELLS.values():
            with refusal(message):
                learn(subject, with_cell(rows, value), part(targets, slice(10)))


@promise(of_all)
def a_bad_cell_far_down_leaves_no_trace_of_the_rows_before(case, folder):
    rows, targets, weights = case.data
    bad = rows.copy()
    bad[140, 2] = np.nan
    for subject in fresh_and_seen(case):
        with refusal("row 140, column 2"):
            learn(subject, bad, targets, weights)
        with refusal("row 140"):
            learn(subject, rows, targets, np.where(np.arange(len(rows)) == 140, -1.0, 1.0))


@promise(of_all)
def bad_weights_are_refused_by_row(case, folder):
    rows, targets, _ = (part(values, slice(10)) for values in case.data)
    for subject in fresh_and_seen(case):
        for value, message in WEIGHTS.values():
            with refusal(message):
                learn(subject, rows, targets, np.where(np.arange(10) == 3, value, 1.0))
        for weights in (np.ones(9), np.ones((10, 1)), ["x"] * 10, np.ones(10) + 1j, -1.0):
            with refusal("weight|[Cc]omplex|real"):
                learn(subject, rows, targets, weights)


@promise(of_all)
def targets_that_do_not_fit_are_refused(case, folder):
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


@promise(of_all)
def rows_of_another_shape_are_refused(case, folder):
    rows, targets, _ = (part(values, slice(10)) for values in case.data)
    for subject in fresh_and_seen(case):
        with refusal("2D|dim"):
            learn(subject, rows[0], part(targets, slice(1)))
        with refusal("[Cc]omplex"):
            learn(subject, rows + 1j, targets)
        for columns in (2, 4) if n_seen(subject) else ():
            with refusal(f"{columns} .*3|3 .*{columns}"):
                learn(subject, np.ones((10, columns)), targets)


@promise(of_all)
def ids_beyond_those_possible_are_refused(case, folder):
    rows, targets, _ = case.data
    subject = case.new(first_id=2**63 - 6)
    with refused(subject, "first_id"):
        learn(subject, rows, targets)


@promise(of_all)
def merging_with_what_does_not_add_up_is_refused(case, folder):
    few = [part(values, slice(20)) for values in case.data]
    subject = learn(case.new(), *case.data)
    others = {
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
            with pytest.raises(TypeError, match="merge"):
                subject.merge(stranger)


@promise(of_all)
def merging_with_what_has_seen_nothing_changes_nothing(case, folder):
    subject = learn(case.new(), *case.data)
    assert subject.merge(case.new()) is subject
    assert_same(subject, case.whole, case.data[0])
