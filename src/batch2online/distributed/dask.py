"""Learning from partitions by Dask: each becomes a shard, shards merge in a tree; predictions are lazy.

A row's id is its number among all rows of positive weight, so partitions of unknown length are counted first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

import dask
import numpy as np
from dask import delayed
from dask.delayed import Delayed

from batch2online.distributed import shards
from batch2online.distributed.shards import Chunk, Model, PartitionError
from batch2online.estimator import OnlineEstimator

Task = Any
"""Delayed work of Dask, which has no types."""

Names = tuple[str, ...] | None
"""Columns of rows that have names."""

Progress = Callable[[int, int], None]
"""Callback invoked with the number of partitions done, and of all partitions."""

_LOST = ("CommClosedError", "FutureCancelledError", "CancelledError", "TimeoutError", "FuturesCancelledError")


class ClusterError(RuntimeError):
    """The cluster was lost, or its workers die on a partition. No model has changed."""


@dataclass(frozen=True)
class Partition:
    """The tasks that compute rows, targets and weights; the number of rows, and of those with positive weight."""

    rows: Task
    targets: Task
    weights: Task
    n_rows: int
    n_ids: int


def fit(model: Model, X: Any, y: Any = None, sample_weight: Any = None, *, progress: Progress | None = None) -> Model:
    """Fit a model to the rows of a cluster, and return it.

    Each partition becomes a shard, and shards merge in a tree. Where the coreset is a function of the set of rows, it
    is that of ``model.fit`` on one machine, and the model is the same up to rounding; ``docs/cluster.md`` has a table
    of all estimators. Rows have ids but no order here, so that none is predicted before it is learned: ``regret_`` has
    an optimum and no loss.

    Parameters
    ----------
    model : an estimator of batch2online
        Unchanged if anything fails.
    X : Dask array, Dask DataFrame or list of delayed chunks
        The rows. Columns of a DataFrame may come in any order.
    y : the same, an array, or the name or number of a column of X
        Targets, where the problem has any.
    sample_weight : the same or an array, optional
        Rows of weight 0 are ignored.
    progress : function, optional
        It is called with the number of partitions that are done, and of all; with a distributed scheduler alone.

    Examples
    --------
    >>> import dask.array as da
    >>> from batch2online import OnlineRegression
    >>> X = da.random.default_rng(0).normal(size=(10_000, 3), chunks=(3_000, 3))
    >>> (fit(OnlineRegression(random_state=0), X, X[:, 0] - X[:, 1]).coef_.round(6) + 0.0).tolist()
    [1.0, -1.0, 0.0]
    """
    shards.check_model(model)
    return fit_partitions(model, *_partitions(X, y, sample_weight), progress=progress)


def partial_fit(
    model: Model, X: Any, y: Any = None, sample_weight: Any = None, *, progress: Progress | None = None
) -> Model:
    """Learn from further rows of a cluster; parameters are those of :func:`fit`.

    The result is that of :func:`fit` on all rows at once, up to rounding of sums. Clustering continues with the coreset
    alone, so that a model of clusters needs ``history="coreset"``, or a fit on a cluster.
    """
    shards.check_model(model)
    if not model.__sklearn_is_fitted__():
        return fit(model, X, y, sample_weight, progress=progress)
    return model.merge(_root(shards.further_template(model), *_partitions(X, y, sample_weight), progress=progress))


def fit_partitions(
    model: Model,
    partitions: Sequence[Partition],
    names: Names = None,
    target: str | int | None = None,
    *,
    progress: Progress | None = None,
) -> Model:
    """Fit a model to partitions whose lengths are known, and return it.

    ``names`` are the columns that each must have, and ``target`` that of the targets.
    """
    template = shards.first_template(model)
    if names is not None and getattr(template, "columns", None) is not None:
        (first,) = computed(_leaves(template, partitions, names, target)[0])
        template = shards.with_features_of(first)
    return shards.replace_state(model, _root(template, partitions, names, target, progress))


def _root(
    template: Model,
    partitions: Sequence[Partition],
    names: Names,
    target: str | int | None,
    progress: Progress | None = None,
) -> Model:
    """Return one estimator of all rows."""
    leaves = _leaves(template, partitions, names, target)
    root: Model = computed(_tree(leaves), leaves=leaves, progress=progress)[0]
    return root


def _leaves(
    template: OnlineEstimator, partitions: Sequence[Partition], names: Names, target: str | int | None
) -> list[Task]:
    """Return the tasks that make a shard of each partition with rows."""
    learn = delayed(_shard_of, pure=False)
    first_rows = accumulate((part.n_rows for part in partitions), initial=0)
    first_ids = accumulate((part.n_ids for part in partitions), initial=int(template.first_id))
    places = enumerate(zip(partitions, first_rows, first_ids, strict=False))
    found = [
        learn(template, part.rows, part.targets, part.weights, (number, row, first_id, part.n_ids), names, target)
        for number, (part, row, first_id) in places
        if part.n_ids
    ]
    if not found:
        raise PartitionError("There are no rows: all partitions are empty, or all weights are zero.")
    return found


def _shard_of(
    template: Model,
    rows: Chunk,
    targets: Chunk,
    weights: Chunk,
    place: tuple[int, int, int, int],
    names: Names,
    target: str | int | None,
) -> Model:
    """Return a shard that has learned the rows of a partition."""
    number, first_row, first_id, n_ids = place
    try:
        given = (*shards.in_columns(rows, targets, names, target), None if weights is None else np.asarray(weights))
        return shards.learned(template, [given], first_id, n_ids)
    except Exception as error:
        where = f"Partition {number}, which begins with row {first_row:,} of all"
        raise PartitionError(f"{where}: {error}") from error


def _tree(leaves: list[Task]) -> Task:
    """Return the task that merges these shards, a few at a time."""
    merge, size = delayed(shards.merged, pure=False), shards.TOGETHER
    while len(leaves) > size:
        leaves = [merge(*leaves[start : start + size]) for start in range(0, len(leaves), size)]
    return delayed(shards.root_of, pure=False)(*leaves)


# -- collections as partitions -----------------------------------------------------------------------------------


def _partitions(X: Any, y: Any, sample_weight: Any) -> tuple[list[Partition], Names, str | int | None]:
    """Return the partitions of rows, targets and weights, the names of columns, and the column of the targets."""
    rows, lengths = _pieces(X, "X")
    target = y if isinstance(y, str | int) else None
    targets = _matching(None if target is not None else y, "y", rows, lengths)
    weights = _matching(sample_weight, "sample_weight", rows, lengths)
    if lengths is not None and sample_weight is None:
        counts = [(length, length, None) for length in lengths]
    else:
        counts = list(computed(*map(delayed(counted), rows, weights, range(len(rows)))))
    names = next((columns for *_, columns in counts if columns is not None), None)
    parts = zip(rows, targets, weights, counts, strict=True)
    found = [Partition(part, y, weight, n_rows, n_ids) for part, y, weight, (n_rows, n_ids, _) in parts]
    return found, names, target


def counted(rows: Chunk, weights: Chunk, number: int) -> tuple[int, int, Names]:
    """Return how many rows there are, how many of positive weight, and the names of their columns."""
    n_rows = n_ids = rows.shape[0] if hasattr(rows, "shape") else len(rows)
    if weights is not None:
        weights = np.asarray(weights)
        if weights.shape != (n_rows,):
            raise PartitionError(f"Partition {number}: sample_weight must have shape ({n_rows},), got {weights.shape}.")
        n_ids = int(np.count_nonzero(weights > 0))
    return n_rows, n_ids, tuple(rows.columns) if hasattr(rows, "columns") and n_rows else None


def _pieces(collection: Any, what: str) -> tuple[list[Task], list[int] | None]:
    """Return the tasks that compute the partitions, and their lengths if they are known."""
    if isinstance(collection, Sequence) and not isinstance(collection, str):
        return [part if isinstance(part, Delayed) else delayed(part) for part in collection], None
    if not hasattr(collection, "to_delayed"):
        kinds = "a Dask array, a Dask DataFrame or a list of delayed chunks"
        raise TypeError(f"{what} must be {kinds}, got {type(collection).__name__}.")
    if not hasattr(collection, "chunks"):
        return list(collection.to_delayed()), None
    if collection.ndim == 2 and len(collection.chunks[1]) > 1:
        collection = collection.rechunk({1: -1})
    lengths = collection.chunks[0]
    is_known = not any(np.isnan(length) for length in lengths)
    return list(collection.to_delayed().reshape(-1)), [int(length) for length in lengths] if is_known else None


def _matching(values: Any, what: str, rows: list[Task], lengths: list[int] | None) -> list[Task]:
    """Return the partitions of values that belong to rows: None for each where there are none."""
    if values is None:
        return [None] * len(rows)
    is_array, is_chunked = isinstance(values, np.ndarray), hasattr(values, "rechunk")
    if is_array and lengths is None:
        raise TypeError(f"{what} is an array in memory, but the lengths of the partitions of X are unknown.")
    if (is_array or is_chunked) and lengths is not None and not np.isnan(values.shape[0]):
        if values.shape[0] != sum(lengths):
            found = f"X has {sum(lengths)} rows and {what} has {values.shape[0]}"
            raise ValueError(f"{found}: found inconsistent numbers of samples.")
        if is_array:
            return [delayed(part) for part in np.split(values, np.cumsum(lengths)[:-1])]
        values = values.rechunk({0: tuple(lengths)})
    pieces, _ = _pieces(values, what)
    if len(pieces) != len(rows):
        found = f"X has {len(rows)} partitions and {what} has {len(pieces)}"
        raise ValueError(f"{found}: they must have the same partitions.")
    return pieces


# -- the scheduler -----------------------------------------------------------------------------------------------


def computed(*wanted: Task, leaves: list[Task] | None = None, progress: Progress | None = None) -> tuple[Any, ...]:
    """Return the results of delayed work; ``progress`` is called as partitions are done."""
    with _one_error():
        if leaves is not None and progress is not None:
            wanted = _watched(wanted, leaves, progress)
        return tuple(dask.compute(*wanted))


@contextmanager
def _one_error() -> Iterator[None]:
    """Raise one error where the cluster failed, and not what was computed."""
    try:
        yield
    except Exception as error:
        kind = type(error).__name__
        if kind in _LOST:
            what = (
                f"The scheduler was lost ({kind}: {error}). The model is unchanged: fit again with another scheduler."
            )
        elif kind == "KilledWorker":
            what = (
                f"Workers died repeatedly on the same partition ({error}): it is probably too large for their "
                "memory. The model is unchanged."
            )
        else:
            raise
        raise ClusterError(what) from error


def _watched(wanted: tuple[Task, ...], leaves: list[Task], progress: Progress) -> tuple[Task, ...]:
    """Start the work and wait for the leaves one by one, if the scheduler reports them."""
    try:
        from distributed import as_completed, futures_of, get_client

        client = get_client()
    except (ImportError, ValueError):
        return wanted
    started = client.persist([*wanted, *leaves])
    futures = futures_of(started[len(wanted) :])
    for done, _ in enumerate(as_completed(futures), 1):
        progress(done, len(futures))
    return tuple(started[: len(wanted)])


# -- predictions -------------------------------------------------------------------------------------------------


def predict(model: object, X: Any, *, method: str | None = None) -> Any:
    """Return the predictions of rows as a lazy collection of the same kind.

    Parameters
    ----------
    model : estimator
        One that is fitted.
    X : Dask array, Dask DataFrame or list of delayed chunks
        The rows.
    method : str, optional
        What to call for each partition: ``"predict_proba"``, ``"transform"``, ... None is ``predict``, or ``transform``
        where there is no ``predict``.

    Examples
    --------
    >>> import dask.array as da
    >>> from batch2online import OnlineRegression
    >>> rows = np.arange(20.0).reshape(10, 2)
    >>> model = OnlineRegression(random_state=0).fit(rows, rows[:, 0])
    >>> predict(model, da.from_array(rows, chunks=4)).compute().round(6).tolist()[:3]
    [0.0, 2.0, 4.0]
    """
    name = method or ("predict" if hasattr(model, "predict") else "transform")
    if hasattr(X, "map_blocks"):
        X = X.rechunk({1: -1}) if len(X.chunks[1]) > 1 else X
        sample = _called(np.zeros((1, X.shape[1])), model, name)
        if sample.ndim == 1:
            return X.map_blocks(_called, model, name, dtype=sample.dtype, drop_axis=1)
        return X.map_blocks(_called, model, name, dtype=sample.dtype, chunks=(X.chunks[0], sample.shape[1:]))
    if hasattr(X, "map_partitions"):
        from dask.dataframe.dispatch import meta_nonempty

        return X.map_partitions(_framed, model, name, meta=_framed(meta_nonempty(X._meta), model, name))
    return [delayed(_called)(part, model, name) for part in X]


def _called(rows: Chunk, model: object, name: str) -> Chunk:
    if not len(rows):  # estimators refuse to predict no row
        one = rows.reindex([0], fill_value=0.0) if hasattr(rows, "columns") else np.zeros((1, rows.shape[1]))
        return _called(one, model, name)[:0]
    return np.asarray(getattr(model, name)(rows))


def _framed(rows: Chunk, model: object, name: str) -> Chunk:
    import pandas as pd

    found = _called(rows, model, name)
    kind = pd.Series if found.ndim == 1 else pd.DataFrame
    return kind(found, index=rows.index, **({"name": name} if found.ndim == 1 else {}))
