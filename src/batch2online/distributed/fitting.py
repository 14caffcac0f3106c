"""Learning from the partitions of a cluster."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

from dask import delayed

from batch2online.distributed import clusters, running, shards
from batch2online.distributed.models import Model, check_model, keeps_all_rows, replace_state, template_of, whole_shard
from batch2online.distributed.partitions import Table, table_of, with_rows
from batch2online.distributed.running import Progress, computed
from batch2online.distributed.shards import TOGETHER, Piece
from batch2online.distributed.spans import learned, spans
from batch2online.sampling import seed_from


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
    check_model(model)
    return fit_table(model, table_of(X, y, sample_weight, int(model.first_id)), progress)


def fit_table(model: Model, table: Table, progress: Progress | None = None) -> Model:
    """Fit a model to partitions that have their places, and return it."""
    template = _with_columns(template_of(model, seed_from(model.random_state)), table)
    return replace_state(model, _root(template, table, progress))


def partial_fit(
    model: Model, X: Any, y: Any = None, sample_weight: Any = None, *, progress: Progress | None = None
) -> Model:
    """Learn from further rows of a cluster; parameters are those of :func:`fit`.

    If the model was fitted on a cluster or by ``fit``, the result is the coreset and, up to rounding, the model of a
    fit on all rows at once; bit for bit if the model has learned whole spans of 250,000 ids. Clustering is an
    exception: its rows stay in the cluster, so the model continues with its coreset alone.
    """
    check_model(model)
    if not model.__sklearn_is_fitted__():
        return fit(model, X, y, sample_weight, progress=progress)
    stream = model._stream
    table = table_of(X, y, sample_weight, model._next_id())
    template = template_of(model, stream.sketch.settings.seed, stream.sketch.pilot == "none")
    if stream.history is not None and keeps_all_rows(template):
        own, (leaves, ids) = list(stream.view().id_ranges), _leaves(template, table)
        return replace_state(model, rounds([delayed(whole_shard(model, template)), *leaves], [*own, *ids]).fitted())
    return replace_state(model, whole_shard(model, template).merge(_root(template, table, progress)))


def _with_columns(template: Any, table: Table) -> Any:
    """Return the template with features that are inferred from the first partition, for ``columns="auto"``."""
    if getattr(template, "columns", None) is not None and template._shard_columns is None:
        part = with_rows(table)[0]
        (first,) = computed(learned(template, None, part, Piece.all_of(part.place), table))
        template._shard_columns = first._with_final_columns().columns
    return template


def _leaves(template: Any, table: Table) -> tuple[list[Any], list[tuple[int, int]]]:
    """Return the tasks that make a shard of each partition with rows, and the ids of the rows."""
    parts = with_rows(table)
    leaves = [learned(template, None, part, Piece.all_of(part.place), table) for part in parts]
    return leaves, [(part.first_id, part.first_id + part.n_ids) for part in parts]


def _root(template: Any, table: Table, progress: Progress | None) -> Any:
    """Return one estimator of all rows: a shard, or one with a model already."""
    if keeps_all_rows(template):
        return rounds(*_leaves(template, table)).fitted()
    leaves, pieces = spans(template, table)
    (root,) = computed(tree(leaves), leaves=pieces, progress=progress)
    if len(leaves) == 1 and root._stream.ordered:
        root._stream = root._stream.refit("merged")
    return root


def tree(leaves: list[Any]) -> Any:
    """Return the tasks that merge these shards, a few at a time."""
    merge = delayed(shards.merged, pure=False)
    while len(leaves) > 1:
        leaves = [merge(*leaves[start : start + TOGETHER]) for start in range(0, len(leaves), TOGETHER)]
    return leaves[0]


def rounds(leaves: list[Any], ids: list[tuple[int, int]]) -> clusters.Rounds:
    """Return the rounds of clustering over the rows of these shards, which stay in the memory of the cluster.

    Partitions are cut anew at multiples of ``ALIGNED`` ids; only the rows next to a border move.
    """
    ends = min(start for start, _ in ids), max(stop for _, stop in ids)
    shell, make = delayed(clusters.shell_of, pure=False)(leaves[:1]), delayed(clusters.entered, pure=False)
    shell, *entrants = running.kept([shell, *(make(pieces, shell, ends[1] - 1) for pieces in _aligned(leaves, ids))])

    def each(work: Any, *arguments: Any) -> tuple[Any, ...]:
        do = delayed(work, pure=False)
        return computed(*(do(own, *arguments) for own in entrants))

    return clusters.Rounds(computed(shell)[0], each, ends)


def _aligned(leaves: list[Any], ids: list[tuple[int, int]]) -> Iterator[list[Any]]:
    """Yield the pieces of each partition that begins and ends at a multiple of ``ALIGNED``."""
    first, last = min(start for start, _ in ids), max(stop for _, stop in ids)
    inner = {-(-start // clusters.ALIGNED) * clusters.ALIGNED for start, _ in ids}
    borders = sorted({first, last} | {border for border in inner if first < border < last})
    take = delayed(clusters.cut, pure=False)
    for start, stop in pairwise(borders):
        yield [
            take(leaf, start, stop)
            for leaf, (own_start, own_stop) in zip(leaves, ids, strict=True)
            if own_start < stop and start < own_stop
        ]
