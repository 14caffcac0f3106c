"""The buffer is a list of waiting rows, and a value: compared with plain lists, in any sequence of steps."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest

from batch2online import OnlineRegression
from batch2online.refresh import Geometric
from batch2online.rows import RowBuffer, block_rows

WIDTH, TARGETS = 2, 1


def batch(start, n, weighted):
    ids = np.arange(start, start + n)
    return np.stack([ids, ids + 0.5], axis=1), -ids[:, None].astype(float), 2.0 + ids % 5 if weighted else np.ones(n)


def expected(rows):
    return [(i, i + 0.5, -i, weight) for i, weight in rows]


def found(buffer, first_id=7):
    rows = buffer.rows(first_id)
    assert rows.ids.tolist() == list(range(first_id, first_id + len(buffer)))
    columns = [rows.points[:, 0], rows.points[:, 1], rows.targets[:, 0], rows.weights]
    return list(zip(*(column.tolist() for column in columns), strict=True))


@pytest.mark.parametrize("seed", range(20))
def test_any_sequence_of_batches_and_single_rows_on_any_copy(seed):
    """Old queues stay what they were, whatever is added to their copies."""
    rng = np.random.default_rng(seed)
    known = [(RowBuffer(WIDTH, TARGETS), [])]
    for step in range(40):
        buffer, rows = known[rng.integers(len(known))]
        start, n = 1000 * step, int(rng.integers(1, 30))
        if rng.random() < 0.5:
            weighted = rng.random() < 0.3
            points, targets, weights = batch(start, n, weighted)
            buffer = buffer.append(points, targets, weights)
            points[...] = np.nan
            added = [(i, 2.0 + i % 5 if weighted else 1.0) for i in range(start, start + n)]
        else:
            buffer = buffer.copy()
            for i in range(start, start + n):
                buffer.append_one([i, i + 0.5], [-i])
            added = [(i, 1.0) for i in range(start, start + n)]
        known.append((buffer, rows + added))
    for buffer, rows in known:
        assert found(buffer) == expected(rows)


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda buffer: pickle.loads(pickle.dumps(buffer))])
@pytest.mark.parametrize("weighted", [False, True])
def test_a_pickle_holds_the_rows_that_wait_and_goes_on_alone(weighted, copied):
    buffer = RowBuffer(WIDTH, TARGETS).append(*batch(0, 70, weighted))
    twin = copied(buffer)
    twin.append_one([70, 70.5], [-70])
    rows = [(i, 2.0 + i % 5 if weighted else 1.0) for i in range(70)]
    assert found(buffer) == expected(rows)
    assert found(twin) == expected([*rows, (70, 1.0)])


def test_rows_handed_on_are_not_written_to_again():
    buffer = RowBuffer(WIDTH, TARGETS)
    buffer.append_one([0, 0.5], [0])
    rows = buffer.rows(0)
    buffer.cleared().append_one([9, 9], [9])
    buffer.append_one([1, 1.5], [-1])
    assert rows.points.tolist() == [[0.0, 0.5]]
    assert rows.targets.tolist() == [[0.0]]


@pytest.mark.parametrize(("columns", "rows"), [(1, 10_000), (25, 10_000), (26, 5_000), (125, 2_000), (10_000, 1_000)])
def test_a_block_is_about_two_megabytes(columns, rows):
    assert block_rows(columns) == rows


def test_no_two_streams_write_to_one_queue():
    """A row that ends a block leaves nothing buffered before and after; single rows then go to the new stream alone."""
    rng = np.random.default_rng(0)
    model = OnlineRegression(random_state=0, refresh=Geometric(2, start=4)).partial_fit(
        rng.normal(size=(4, 2)), rng.normal(size=4)
    )
    for change in ("cut", "nothing new", "refit"):
        before = model._stream
        if change == "cut":
            model.partial_fit(rng.normal(size=(4, 2)), rng.normal(size=4))
        else:
            model._stream = before.append([]) if change == "nothing new" else before.refit("fit")
        assert len(model._stream.buffer) == len(before.buffer) == 0, change
        model.learn_one([0.5, 1.0], 2.0)
        assert (len(model._stream.buffer), len(before.buffer)) == (1, 0), change
        model._stream = model._stream.flushed()
