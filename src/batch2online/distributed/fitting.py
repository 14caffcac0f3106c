"""Learning from the partitions of a cluster: each becomes a shard, shards merge in a tree."""

from __future__ import annotations

from typing import Any

from dask import delayed

from batch2online.distributed import shards
from batch2online.distributed.partitions import Partition, Partitions, table_of
from batch2online.distributed.running import Progress, computed
from batch2online.distributed.shards import Model
from batch2online.sampling import seed_from


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
    >>> fit(OnlineRegression(random_state=0), X, X[:, 0] - X[:, 1]).coef_.round(6).tolist()
    [1.0, -1.0, 0.0]
    """
    shards.check_model(model)
    return fit_table(model, table_of(X, y, sample_weight, int(model.first_id)), progress)


def fit_table(model: Model, table: Partitions, progress: Progress | None = None) -> Model:
    """Fit a model to partitions that have their places, and return it."""
    template = shards.template_of(model, seed_from(model.random_state))
    if getattr(template, "columns", None) is not None:
        (first,) = computed(_learned(template, table.partitions[0], table))
        template._shard_columns = first._with_final_columns().columns
    return shards.replace_state(model, _root(template, table, progress))


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
    template = shards.further_template(model)
    root = _root(template, table_of(X, y, sample_weight, model._next_id()), progress)
    return shards.replace_state(model, shards.whole_shard(model, template).merge(root))


def _root(template: Any, table: Partitions, progress: Progress | None) -> Any:
    """Return one estimator of all rows."""
    leaves = [_learned(template, part, table) for part in table.partitions]
    (root,) = computed(_tree(leaves), leaves=leaves, progress=progress)
    if len(leaves) == 1 and root._stream.ordered:
        root._stream = root._stream.refit("merged")
    return root


def _learned(template: Any, part: Partition, table: Partitions) -> Any:
    """Return the task that makes a shard of a partition."""
    learn = delayed(shards.shard_of, pure=False)
    return learn(template, part.rows, part.targets, part.weights, part.place, table.columns, table.target)


def _tree(leaves: list[Any]) -> Any:
    """Return the task that merges these shards, a few at a time."""
    merge = delayed(shards.merged, pure=False)
    while len(leaves) > 1:
        leaves = [merge(*leaves[start : start + shards.TOGETHER]) for start in range(0, len(leaves), shards.TOGETHER)]
    return leaves[0]
