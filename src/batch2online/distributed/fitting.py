"""Learning from the partitions of a cluster."""

from __future__ import annotations

from typing import Any, TypeVar

from dask import delayed

from batch2online.distributed import shards
from batch2online.distributed.clusters import Rounds
from batch2online.distributed.partitions import Table, table_of, with_rows
from batch2online.distributed.running import Progress, computed
from batch2online.distributed.shards import Piece
from batch2online.distributed.spans import learned, spans
from batch2online.estimator import LEARNED, OnlineEstimator
from batch2online.methods.any_estimator.estimator import BatchToOnline
from batch2online.methods.clustering.estimator import OnlineClustering
from batch2online.methods.clustering.sketch import Clustering
from batch2online.sampling import seed_from
from batch2online.state import StreamState

Model = TypeVar("Model", bound=OnlineEstimator)

TOGETHER = 8
"""Shards that one task merges."""


def fit(model: Model, X: Any, y: Any = None, sample_weight: Any = None, *, progress: Progress | None = None) -> Model:
    """Fit a model to the rows of a cluster, and return it.

    Each span of 250,000 ids becomes a shard, and shards merge in a tree. Coreset and model are the same bits whatever
    the partitions, the workers and the failures on the way: those of ``model.fit`` on one machine, ``docs/cluster.md``
    has a table of all estimators. Rows have ids but no order here, so that none is predicted before it is learned:
    ``regret_`` has an optimum and no loss.

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
    _check_model(model)
    return fit_table(model, table_of(X, y, sample_weight, int(model.first_id)), progress)


def fit_table(model: Model, table: Table, progress: Progress | None = None) -> Model:
    """Fit a model to partitions that have their places, and return it."""
    template = _with_columns(_template(model, seed_from(model.random_state)), table)
    return _replace_state(model, _root(template, table, progress))


def partial_fit(
    model: Model, X: Any, y: Any = None, sample_weight: Any = None, *, progress: Progress | None = None
) -> Model:
    """Learn from further rows of a cluster; parameters are those of :func:`fit`.

    If the model was fitted on a cluster or by ``fit``, the result is the coreset and, up to rounding, the model of a
    fit on all rows at once; bit for bit if the model has learned whole spans of 250,000 ids. Clustering is an
    exception: its rows stay in the cluster, so the model continues with its coreset alone.
    """
    _check_model(model)
    if not model.__sklearn_is_fitted__():
        return fit(model, X, y, sample_weight, progress=progress)
    stream = model._stream
    table = table_of(X, y, sample_weight, model._next_id())
    template = _template(model, stream.sketch.settings.seed, stream.sketch.pilot == "none")
    if stream.history is not None and _keeps_all_rows(template):
        own, (leaves, ids) = list(stream.view().id_ranges), _leaves(template, table)
        return _replace_state(model, Rounds([delayed(_shard_of(model, template)), *leaves], [*own, *ids]).fitted())
    return _replace_state(model, _shard_of(model, template).merge(_root(template, table, progress)))


def _check_model(model: Any) -> None:
    if not isinstance(model, OnlineEstimator):
        raise TypeError(f"model must be an estimator of batch2online, got {type(model).__name__}.")


def _template(model: Any, seed: int, is_shard: bool = True) -> Any:
    """Return an estimator without rows, from which workers create shards with this seed."""
    template = model._unfitted_copy()
    template.random_state, template._origin = seed, int(model.first_id) if is_shard else None
    if model.__sklearn_is_fitted__():
        template._shard_columns = model._fixed().columns
    return template


def _with_columns(template: Any, table: Table) -> Any:
    """Return the template with features that are inferred from the first partition, for ``columns="auto"``."""
    if getattr(template, "columns", None) is not None and template._shard_columns is None:
        part = with_rows(table)[0]
        (first,) = computed(learned(template, None, part, Piece.all_of(part.place), table))
        template._shard_columns = first._with_final_columns().columns
    return template


def _shard_of(model: Any, template: Any) -> Any:
    """Return a shard with the rows of a model."""
    shard, engine = template._unfitted_copy(), model._stream
    shard._origin = template._origin
    shard.__dict__.update({name: value for name, value in vars(model).items() if name in LEARNED})
    shard._stream = engine.unordered(int(model.first_id)) if engine.sketch.pilot == "none" else engine
    return shard


def _leaves(template: Any, table: Table) -> tuple[list[Any], list[tuple[int, int]]]:
    """Return the tasks that make a shard of each partition with rows, and the ids of the rows."""
    parts = with_rows(table)
    leaves = [learned(template, None, part, Piece.all_of(part.place), table) for part in parts]
    return leaves, [(part.first_id, part.first_id + part.n_ids) for part in parts]


def _root(template: Any, table: Table, progress: Progress | None) -> Any:
    """Return one estimator of all rows: a shard, or one with a model already."""
    if _keeps_all_rows(template):
        return Rounds(*_leaves(template, table)).fitted()
    leaves, pieces = spans(template, table)
    (root,) = computed(tree(leaves), leaves=pieces, progress=progress)
    if len(leaves) == 1 and root._stream.ordered:
        root._stream = root._stream.refit("merged")
    return root


def _keeps_all_rows(template: Any) -> bool:
    """Whether a coreset of clusters is drawn from all rows, and not from those that are kept."""
    if isinstance(template, BatchToOnline):
        coreset = template._new_coreset()
        return isinstance(coreset, Clustering) and coreset.keep_history
    return isinstance(template, OnlineClustering) and template.history != "coreset"


def tree(leaves: list[Any]) -> Any:
    """Return the tasks that merge these shards, a few at a time."""
    merge = delayed(shards.merged, pure=False)
    while len(leaves) > 1:
        leaves = [merge(*leaves[start : start + TOGETHER]) for start in range(0, len(leaves), TOGETHER)]
    return leaves[0]


def _replace_state(model: Model, root: Any) -> Model:
    """Install everything that was learned in a model, in one step."""
    fresh: Any = model._unfitted_copy()
    fresh.__dict__.update({name: value for name, value in vars(root).items() if name in LEARNED})
    fresh._stream = root._stream.whole().map(StreamState.without_scores)
    return model._replace_state(fresh)
