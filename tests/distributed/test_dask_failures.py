"""What goes wrong on a cluster: one error that says where, a model that stays as it was, the same result."""

import contextlib
import os
import signal
import threading
import time
from itertools import pairwise

import dask
import dask.array as da
import numpy as np
import pandas as pd
import pytest

import batch2online.dask as cluster
from batch2online import OnlineRegression
from batch2online.dask import ClusterError, PartitionError
from batch2online.distributed.shards import merged
from dask_cases import SETS, STREAMS, N, X, Y, on_one_machine, rows_of, same, sizes, targets_of, told


@pytest.fixture
def synchronous():
    with dask.config.set(scheduler="synchronous"):
        yield


def frames():
    """Return three good partitions."""
    table = pd.DataFrame(X[:300], columns=list("abc")).assign(y=Y[:300])
    return [table[:100], table[100:200], table[200:]]


def fitted(pieces, **given):
    return cluster.fit(OnlineRegression(random_state=1), [dask.delayed(piece) for piece in pieces], "y", **given)


def with_cell(piece, value, column="b"):
    piece = piece.astype(object) if isinstance(value, str) else piece.copy()
    piece.iloc[7, list(piece.columns).index(column)] = value
    return piece


BAD = {
    "text": (lambda piece: with_cell(piece, "many"), r"Row 7, column 'b', holds 'many'"),
    "too large": (lambda piece: with_cell(piece, 1e200), "Row 7, column 'b', contains 1e\\+200"),
    "a target that is missing": (lambda piece: with_cell(piece, np.inf, "y"), "y contains infinity at row 7"),
    "a column too few": (lambda piece: piece.drop(columns="b"), "column 'b' is missing"),
    "a column too many": (lambda piece: piece.assign(z=1.0), "column 'z' is not in the other partitions"),
    "no target": (lambda piece: piece.drop(columns="y"), "column 'y' is missing"),
}


@pytest.mark.usefixtures("synchronous")
@pytest.mark.parametrize("kind", BAD)
def test_a_bad_partition_is_named_and_nothing_is_half_written(kind):
    spoil, message = BAD[kind]
    good = frames()
    model = fitted(good)
    before = told(model)
    pieces = [dask.delayed(piece) for piece in (good[0], good[1], spoil(good[2]))]
    with pytest.raises(PartitionError, match="Partition 2, which begins with row 200 of all") as raised:
        cluster.fit(model, pieces, "y")
    assert raised.match(message)
    assert all(map(np.array_equal, told(model), before))


@pytest.mark.usefixtures("synchronous")
def test_partitions_may_be_empty_in_another_order_and_of_other_types():
    good = frames()
    expected = OnlineRegression(random_state=1).fit(pd.DataFrame(X[:300], columns=list("abc")), Y[:300])
    assert same(fitted([good[0][:0], good[0], good[1][["y", "c", "b", "a"]], good[2], good[0][:0]]), expected)
    whole = [piece.round() for piece in good]
    mixed = [whole[0].astype(int), whole[1].astype("float32"), whole[2]]
    assert same(fitted(mixed), fitted(whole))
    assert same(fitted([pd.DataFrame(), *good]), expected)


@pytest.mark.usefixtures("synchronous")
def test_what_cannot_be_learned_is_refused():
    rows = da.from_array(X[:300], chunks=(100, 3))
    with pytest.raises(PartitionError, match="There are no rows"):
        cluster.fit(OnlineRegression(), rows[:0], rows[:0, 0])
    with pytest.raises(PartitionError, match="There are no rows"):
        cluster.fit(OnlineRegression(), rows, rows[:, 0], np.zeros(300))
    with pytest.raises(ValueError, match="X has 300 rows and y has 299"):
        cluster.fit(OnlineRegression(), rows, Y[:299])
    with pytest.raises(ValueError, match="3 partitions and y has 2"):
        cluster.fit(OnlineRegression(), [dask.delayed(X)] * 3, [dask.delayed(Y)] * 2)
    with pytest.raises(TypeError, match="X must be a Dask array"):
        cluster.fit(OnlineRegression(), X, Y)
    with pytest.raises(TypeError, match="estimator of batch2online, got int"):
        cluster.fit(3, rows, Y)
    with pytest.raises(ValueError, match="not for a window"):
        cluster.fit(OnlineRegression(window=50), rows, Y[:300])
    with pytest.raises(ValueError, match='not for half_life="auto"'):
        cluster.fit(OnlineRegression(half_life="auto"), rows, Y[:300])
    with pytest.raises(PartitionError, match="rows were counted and"):
        cluster.fit(OnlineRegression(), [dask.delayed(_Changing())], [dask.delayed(Y[:10])])


class _Changing:
    """A chunk that has another length each time it is looked at."""

    shape = (11, 3)

    def __array__(self, dtype=None, copy=None):
        return X[:10]


@pytest.mark.usefixtures("synchronous")
def test_a_seed_is_drawn_once_for_all_partitions():
    model = OnlineRegression()
    cluster.fit(model, *rows_of(model, sizes(5)))
    seed = model._stream.sketch.settings.seed
    assert same(model, on_one_machine(OnlineRegression(random_state=seed)))


@contextlib.contextmanager
def local_cluster():
    distributed = pytest.importorskip("distributed")
    with (
        dask.config.set({"distributed.comm.timeouts.connect": "60s"}),
        distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None, silence_logs=50) as own,
        distributed.Client(own),
    ):
        yield own


RANGES = list(pairwise([*range(0, N, 3_000), N]))


def rows_between(start, stop):
    return X[start:stop]


def held_rows(folder):
    """Say that a worker has begun, and hold it until the test is over."""
    with open(os.path.join(folder, "begun"), "w"):
        pass
    while not os.path.exists(os.path.join(folder, "over")):
        time.sleep(0.01)
    return X[:1_000]


@contextlib.contextmanager
def scheduler_lost_while_workers_are_busy(own, folder):
    """Close the scheduler as soon as a worker has begun with its rows, which it does not end."""

    def close():
        while not (folder / "begun").exists():
            time.sleep(0.01)
        own.loop.add_callback(own.scheduler.close)

    closing = threading.Thread(target=close)
    closing.start()
    try:
        yield
    finally:
        (folder / "begun").touch()
        (folder / "over").touch()
        closing.join()


def die_once(start, stop, marker):
    """Return rows; the first time, kill the process that asks."""
    if not os.path.exists(marker):
        with open(marker, "w"):
            os.kill(os.getpid(), signal.SIGKILL)
    return X[start:stop]


def fitted_on_cluster(name, marker=None):
    """Return a model of rows in the partitions ``RANGES``, one of which kills its worker if there is a marker."""
    rows, model, done = [dask.delayed(rows_between)(*own) for own in RANGES], (SETS | STREAMS)[name](), []
    if marker is not None:
        rows[5] = dask.delayed(die_once)(*RANGES[5], marker)
    y = targets_of(model)
    targets = None if y is None else [dask.delayed(y[start:stop]) for start, stop in RANGES]
    cluster.fit(model, rows, targets, progress=lambda *counts: done.append(counts))
    assert marker is None or os.path.exists(marker)
    assert not done or done[-1][0] == done[-1][1]
    return model


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.full
def test_workers_are_killed_and_then_the_scheduler_is_lost(tmp_path):
    """Rows come again from their source, and the result has the same bits; a lost scheduler is one clear error."""
    with dask.config.set(scheduler="synchronous"):
        expected = {name: fitted_on_cluster(name) for name in ("regression", "clusters", "median line")}
    raised = False
    with contextlib.suppress(Exception), local_cluster() as own:
        for name, model in expected.items():
            found = told(fitted_on_cluster(name, str(tmp_path / name)))
            assert all(map(np.array_equal, found, told(model)))
        before = told(model)
        with (
            scheduler_lost_while_workers_are_busy(own, tmp_path),
            pytest.raises(ClusterError, match="scheduler was lost"),
        ):
            cluster.fit(model, [dask.delayed(held_rows)(str(tmp_path)) for _ in range(10)])
        raised = True
    assert raised
    assert all(map(np.array_equal, told(model), before))


def test_merging_leaves_shards_as_they_are():
    """A task whose worker dies runs again, on the same shards."""
    cuts = [0, 100, 200]
    shards = [OnlineRegression(random_state=1).new_shard(cut).partial_fit(X[cut:][:100], Y[cut:][:100]) for cut in cuts]
    assert same(merged(*shards), merged(*shards))
    assert [shard.n_seen_ for shard in shards] == [100, 100, 100]
