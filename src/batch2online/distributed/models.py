"""The model of a fit on a cluster: the template that workers copy, and the state that it receives at the end."""

from __future__ import annotations

from typing import Any, TypeVar

from batch2online.estimator import LEARNED, OnlineEstimator
from batch2online.methods.any_estimator.estimator import BatchToOnline
from batch2online.methods.clustering.estimator import OnlineClustering
from batch2online.methods.clustering.sketch import Clustering
from batch2online.state import StreamState

Model = TypeVar("Model", bound=OnlineEstimator)


def check_model(model: Any) -> None:
    if not isinstance(model, OnlineEstimator):
        raise TypeError(f"model must be an estimator of batch2online, got {type(model).__name__}.")


def template_of(model: Any, seed: int, is_shard: bool = True) -> Any:
    """Return an estimator without rows, from which workers create shards with this seed."""
    template = model._unfitted_copy()
    template.random_state, template._origin = seed, int(model.first_id) if is_shard else None
    if model.__sklearn_is_fitted__():
        template._shard_columns = model._fixed().columns
    return template


def whole_shard(model: Any, template: Any) -> Any:
    """Return a shard with the rows of a model."""
    shard, engine = template._unfitted_copy(), model._stream
    shard._origin = template._origin
    shard.__dict__.update({name: value for name, value in vars(model).items() if name in LEARNED})
    shard._stream = engine.unordered(int(model.first_id)) if engine.sketch.pilot == "none" else engine
    return shard


def keeps_all_rows(template: Any) -> bool:
    """Whether a coreset of clusters is drawn from all rows, and not from those that are kept."""
    if isinstance(template, BatchToOnline):
        coreset = template._new_coreset()
        return isinstance(coreset, Clustering) and coreset.keep_history
    return isinstance(template, OnlineClustering) and template.history != "coreset"


def replace_state(model: Model, root: Any) -> Model:
    """Install everything that was learned in a model, in one step."""
    fresh: Any = model._unfitted_copy()
    fresh.__dict__.update({name: value for name, value in vars(root).items() if name in LEARNED})
    fresh._stream = root._stream.whole().map(StreamState.without_scores)
    return model._replace_state(fresh)
