"""What workers do: learn a partition as a shard, merge shards; an error says where it happened."""

from __future__ import annotations

import copy
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

from batch2online.coresets import Clustering
from batch2online.estimator import LEARNED, OnlineEstimator
from batch2online.methods.any_estimator.estimator import BatchToOnline
from batch2online.methods.clustering.estimator import OnlineClustering
from batch2online.methods.clustering.sketch import ClusteringSketch

Model = TypeVar("Model", bound=OnlineEstimator)

TOGETHER = 8
"""Shards that one task merges."""


class PartitionError(ValueError):
    """A partition that cannot be learned: the message names it, its row and its column."""


class CountError(ValueError):
    """Rows that were counted and rows that came differ."""


@dataclass(frozen=True)
class Place:
    """Where a partition stands among all: its number, its first row, its first id and how many it has."""

    number: int
    first_row: int
    first_id: int
    n_ids: int


# -- what workers do ---------------------------------------------------------------------------------------------------


def shard_of(template: Any, rows: Any, targets: Any, weights: Any, place: Place, names: Any, target: Any) -> Any:
    """Return a shard that has learned the rows of a partition."""
    try:
        given = (*in_columns(rows, targets, names, target), None if weights is None else np.asarray(weights))
        return learned(template, [given], place)
    except Exception as error:
        where = f"Partition {place.number}, which begins with row {place.first_row:,} of all"
        raise PartitionError(f"{where}: {error}") from error


def learned(template: Any, batches: Iterable[tuple[Any, Any, Any]], place: Place) -> Any:
    """Return a shard that has learned batches of rows, targets and weights, as many as were counted before."""
    shard = template._unfitted_copy()
    shard.first_id = place.first_id
    for rows, targets, weights in batches:
        shard.partial_fit(rows, targets, weights)
    found = shard._next_id() - place.first_id
    if found != place.n_ids:
        raise CountError(
            f"{place.n_ids} rows were counted and {found} came: the data changed meanwhile, or class_weight is 0."
        )
    return _compact(shard)


def in_columns(rows: Any, targets: Any, names: Any, target: Any) -> tuple[Any, Any]:
    """Return rows with their columns in the order of ``names``, and the targets, which one of them may be."""
    if names is not None:
        missing = [name for name in names if name not in getattr(rows, "columns", ())]
        if missing:
            raise ValueError(f"column {missing[0]!r} is missing: it must have the columns {list(names)}.")
        further = [name for name in rows.columns if name not in names]
        if further:
            raise ValueError(f"column {further[0]!r} is not in the other partitions: these have {list(names)}.")
        rows = rows[list(names)]
    if isinstance(target, int):
        rows, targets = np.delete(rows, target, axis=1), rows[:, target]
    elif target is not None:
        if target not in getattr(rows, "columns", ()):
            raise ValueError(f"column {target!r}, the target, is missing.")
        rows, targets = rows.drop(columns=[target]), rows[target]
    return rows, None if targets is None else np.asarray(targets)


def merged(*shards: Any) -> Any:
    """Return one shard with the rows of all. The shards stay as they are: a task may have to run again."""
    result = copy.copy(shards[0])
    for shard in shards[1:]:
        result.merge(shard)
    return _compact(result)


def _compact(shard: Any) -> Any:
    if not shard._stream.ordered:
        shard._stream = shard._stream.compact()
    return shard


# -- what the client does ----------------------------------------------------------------------------------------------


def check_model(model: Any) -> None:
    if not isinstance(model, OnlineEstimator):
        raise TypeError(f"model must be an estimator of batch2online, got {type(model).__name__}.")


def template_of(model: Any, seed: int, is_shard: bool = True) -> Any:
    """Return an estimator without rows, from which workers create shards with this seed."""
    template = model._unfitted_copy()
    template.random_state, template._origin = seed, int(model.first_id) if is_shard else None
    if model.__sklearn_is_fitted__():
        template._shard_columns = model._fixed().columns
    return _bounded(template)


def _bounded(template: Any) -> Any:
    """Return a template of clusters whose shards keep their coreset alone, and any other as it is."""
    if isinstance(template, OnlineClustering):
        template.history = "coreset"
    elif isinstance(template, BatchToOnline) and isinstance(coreset := template._new_coreset(), Clustering):
        template.coreset = coreset.bounded()
    return template


def further_template(model: Any) -> Any:
    """Return the template of shards of further rows, to merge with a model."""
    stream = model._stream
    template = template_of(model, stream.sketch.settings.seed, stream.sketch.pilot == "none")
    if stream.history is not None and isinstance(stream.sketch, ClusteringSketch):
        raise ValueError(
            'Clustering of further rows on a cluster needs history="coreset"; this model stores all of its rows. '
            "Fit a model with that setting, or fit again to all rows."
        )
    return template


def whole_shard(model: Any, template: Any) -> Any:
    """Return a shard with the rows of a model."""
    shard, stream = template._unfitted_copy(), model._stream
    shard.__dict__.update({name: value for name, value in vars(model).items() if name in LEARNED})
    shard._stream = stream.unordered() if stream.sketch.pilot == "none" else stream
    return shard


def replace_state(model: Model, root: Any) -> Model:
    """Install everything that was learned in a model, in one step."""
    fresh: Any = model._unfitted_copy()
    fresh.__dict__.update({name: value for name, value in vars(root).items() if name in LEARNED})
    fresh._stream = root._stream.whole().without_scores()
    return model._replace_state(fresh)
