"""What workers do: learn a partition as a shard, merge shards; an error says where it happened."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np
from sklearn.base import clone

from batch2online.coresets import Clustering
from batch2online.estimator import OnlineEstimator
from batch2online.methods.any_estimator.estimator import BatchToOnline
from batch2online.methods.clustering.estimator import OnlineClustering
from batch2online.sampling import seed_from

Model = TypeVar("Model", bound=OnlineEstimator)
Chunk = Any
"""Rows, targets or weights of a partition: an array, a data frame or a series."""

TOGETHER = 8
"""Shards that one task merges."""


class PartitionError(ValueError):
    """A partition that cannot be learned: the message names it, its row and its column."""


class CountError(ValueError):
    """Rows that were counted and rows that came differ."""


def check_model(model: object) -> None:
    """Raise TypeError unless this is an estimator of batch2online."""
    if not isinstance(model, OnlineEstimator):
        raise TypeError(f"model must be an estimator of batch2online, got {type(model).__name__}.")


def first_template(model: Model) -> Model:
    """Return the shard without rows from which workers make those of a fit; a seed is drawn once for all."""
    unfitted: Model = clone(model)
    return _bounded(unfitted.set_params(random_state=seed_from(model.random_state)).new_shard(int(model.first_id)))


def further_template(model: Model) -> Model:
    """Return the shard without rows from which workers make those of further rows."""
    template = _bounded(model.new_shard(model.stream.next_id))
    if isinstance(model, OnlineClustering) and model.stream.history is not None:
        raise ValueError(
            'Clustering of further rows on a cluster needs history="coreset"; this model stores all of its rows. '
            "Fit a model with that setting, or fit again to all rows."
        )
    return template


def _bounded(template: Model) -> Model:
    """Return a template of clusters whose shards keep their coreset alone, and any other as it is."""
    if isinstance(template, OnlineClustering):
        template.history = "coreset"
    elif isinstance(template, BatchToOnline) and isinstance(coreset := template._new_coreset(), Clustering):
        template.coreset = coreset.bounded()
    return template


def with_features_of(shard: Model) -> Model:
    """Return a shard without rows that encodes columns as the rows of this one need it."""
    settled = copy.copy(shard)
    settled.stream = shard.with_final_columns()
    return settled.new_shard(int(shard.first_id))


def learned(template: Model, batches: Iterable[tuple[Chunk, Chunk, Chunk]], first_id: int, n_ids: int) -> Model:
    """Return a shard that has learned batches of rows, targets and weights, as many as were counted before."""
    shard = template.new_shard(first_id)
    for rows, targets, weights in batches:
        shard.partial_fit(rows, targets, weights)
    found = shard.stream.next_id - first_id
    if found != n_ids:
        message = f"{n_ids} rows were counted and {found} came: the data changed meanwhile, or class_weight is 0."
        raise CountError(message)
    return shard


def in_columns(
    rows: Chunk, targets: Chunk, names: Sequence[str] | None, target: str | int | None
) -> tuple[Chunk, Chunk]:
    """Return rows with their columns in the order of ``names``, and the targets, which one of them may be."""
    if names is not None:
        own = list(getattr(rows, "columns", ()))
        for name in names:
            if name not in own:
                raise ValueError(f"column {name!r} is missing: it must have the columns {list(names)}.")
        for name in own:
            if name not in names:
                raise ValueError(f"column {name!r} is not in the other partitions: these have {list(names)}.")
        rows = rows[list(names)]
    if isinstance(target, int):
        rows, targets = np.delete(rows, target, axis=1), rows[:, target]
    elif target is not None:
        if target not in getattr(rows, "columns", ()):
            raise ValueError(f"column {target!r}, the target, is missing.")
        rows, targets = rows.drop(columns=[target]), rows[target]
    return rows, None if targets is None else np.asarray(targets)


def merged(*shards: Model) -> Model:
    """Return one shard with the rows of all. The shards stay as they are: a task may have to run again."""
    result = copy.copy(shards[0])
    for shard in shards[1:]:
        result.merge(shard)
    return result


def root_of(*shards: Model) -> Model:
    """Return one estimator of the rows of all shards, fitted to all of them."""
    root = merged(*shards)
    if len(shards) == 1 and root.stream.ordered:
        root.stream = root.stream.refit("merged")
    return root


def replace_state(model: Model, root: Model) -> Model:
    """Replace what a model has learned by the rows of a shard, in one step."""
    fresh = copy.copy(root)
    whole = root.stream.whole()
    fresh.stream = replace(whole, state=whole.state.each(whole.engine.unscored))
    return model.replace_state(fresh)
