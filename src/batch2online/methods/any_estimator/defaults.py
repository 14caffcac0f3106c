"""What type of batch algorithm an estimator is, and the default loss and coreset of each type."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import BaseEstimator, is_classifier, is_clusterer, is_regressor
from sklearn.decomposition import PCA, TruncatedSVD
from sklearn.utils import get_tags
from sklearn.utils.validation import has_fit_parameter

from batch2online.methods.any_estimator.models import Estimator, final_step
from batch2online.methods.any_estimator.sketch import PilotSampling
from batch2online.methods.clustering.sketch import Clustering
from batch2online.methods.low_rank.sketch import RidgeLeverage
from batch2online.methods.plain_coresets import Uniform

DEFAULT_SIZE = 5_000
"""Expected rows of a coreset that is not sized by memory."""

_FEWER_ROWS = dict.fromkeys(
    (
        *("GaussianProcessRegressor", "GaussianProcessClassifier", "KernelRidge", "KernelPCA", "BaseLabelPropagation"),
        *("SpectralClustering", "AgglomerativeClustering", "AffinityPropagation"),
        *("Isomap", "LocallyLinearEmbedding", "MDS", "SpectralEmbedding", "TSNE"),
    ),
    DEFAULT_SIZE,
) | dict.fromkeys(("BaseLibSVM",), 20_000)
"""Estimators that take the square of their rows in memory, or in time: the rows that are kept for them at most."""


class Choice(NamedTuple):
    """A coreset for an estimator: how to make it, and why it was chosen."""

    make: Callable[..., Any]
    name: str
    reason: str
    by_memory: bool = True


def kind_of(estimator: Estimator) -> str:
    """One of regressor, classifier, clusterer, density, transformer, estimator (anything with ``fit``), function."""
    if isinstance(estimator, type):
        name = estimator.__name__
        raise TypeError(f"estimator must be an object, not the class {name}: pass {name}().")
    if not hasattr(estimator, "fit"):
        if not callable(estimator):
            raise TypeError(f"estimator must have a method fit or be a function of weighted rows, got {estimator!r}.")
        return "function"
    if not isinstance(estimator, BaseEstimator):
        kind = getattr(estimator, "_estimator_type", None)  # CatBoost sets it
        return kind if kind in ("regressor", "classifier", "clusterer") else "estimator"
    for name, is_kind in (("regressor", is_regressor), ("classifier", is_classifier), ("clusterer", is_clusterer)):
        if is_kind(estimator):
            return name
    if get_tags(estimator).estimator_type == "density_estimator":
        return "density"
    return "transformer" if hasattr(estimator, "transform") else "estimator"


def check_supported(estimator: Estimator, kind: str) -> None:
    """Raise TypeError for an estimator that needs more than rows, or that does nothing for rows to come."""
    name, groups = type(estimator).__name__, ("group", "qid", "group_id") if kind == "estimator" else ()
    group = next((each for each in groups if has_fit_parameter(estimator, each)), None)
    if group is not None:
        raise TypeError(
            f"{name} ranks rows within groups, fit(X, y, {group}=...), and a stream of rows has no groups: wrap a "
            "regressor of the relevance, or a function solve(points, weights, targets) that reads groups from a column."
        )
    methods = ("predict", "transform", "score_samples", "decision_function")
    if kind in ("clusterer", "transformer", "estimator") and not any(hasattr(estimator, each) for each in methods):
        raise TypeError(
            f"{name} has no {' or '.join(methods[:2])}: it describes the rows that it is fitted to, and cannot score "
            "rows that come later. Wrap one that predicts, such as KMeans or PCA, or pass a loss= of your own."
        )


_LOSSES = {
    "regressor": "squared",
    "classifier": "log",
    "clusterer": "squared_distance",
    "density": "negative_log_likelihood",
    "transformer": "reconstruction",
}


def default_loss(kind: str, estimator: Estimator) -> str:
    """Return the default loss of a type of estimator."""
    if kind not in _LOSSES:
        raise ValueError(f"loss is needed for this {kind}: a function loss(model, points[, targets]) or a name.")
    has_probabilities = kind != "classifier" or hasattr(estimator, "predict_proba")
    return _LOSSES[kind] if has_probabilities else "zero_one"


def default_coreset(kind: str, estimator: Estimator, resample: bool, by_rows_alone: bool, is_numeric: bool) -> Choice:
    """Return the default coreset of a type of estimator.

    A window is summed again at every refresh check, from rows alone, and shards have no order: no current model can
    score their rows. Rows that are not numeric, or may have missing values, have no leverage.
    """
    last = final_step(estimator)
    if resample:
        return Choice(Uniform, "Uniform", "rows are drawn without weights")
    if kind in ("regressor", "classifier"):
        if by_rows_alone:
            return Choice(Uniform, "Uniform", f"a {kind} of rows without scores")
        make = partial(PilotSampling, labels=kind == "classifier", leverage=is_numeric)
        return Choice(make, "PilotSampling", f"a {kind}")
    k, rank = getattr(last, "n_clusters", None), getattr(last, "n_components", None)
    if is_numeric and kind == "clusterer" and isinstance(k, int | np.integer):
        return Choice(partial(_clustering, int(k)), "Clustering", f"{k} clusters", by_memory=False)
    if is_numeric and type(estimator) in (PCA, TruncatedSVD) and isinstance(rank, int | np.integer):
        decompose = partial(RidgeLeverage, int(rank), intercept=type(estimator) is PCA)
        return Choice(decompose, "RidgeLeverage", f"rank {rank}", by_memory=False)
    return Choice(Uniform, "Uniform", f"a {kind} of no particular structure")


def _clustering(k: int, keep_history: bool = True, **settings: Any) -> Clustering:
    return Clustering(k, **settings)  # it always keeps its rows


def size_by_memory(estimator: Estimator, memory: int, columns: int) -> int:
    """Return the rows up to which all are kept: those that the memory holds, fewer where a fit takes their square.

    >>> from sklearn.neighbors import KNeighborsRegressor
    >>> from sklearn.gaussian_process import GaussianProcessRegressor
    >>> [size_by_memory(each, 10**9, 11) for each in (KNeighborsRegressor(), GaussianProcessRegressor())]
    [2604166, 5000]
    """
    inside = estimator.get_params(deep=True).values() if hasattr(estimator, "get_params") else ()
    names = {each.__name__ for part in (estimator, *inside) for each in type(part).__mro__}
    most = min((_FEWER_ROWS[name] for name in names & _FEWER_ROWS.keys()), default=2**40)
    return min(most, rows_in_memory(memory, columns))


def rows_in_memory(memory: int, columns: int, string_bytes: float = 0.0) -> int:
    """Return how many rows of so many columns, targets included, a memory holds.

    A row has its numbers, a score, a weight, an id, a random draw and a limit. Up to half as many rows again wait to be
    dropped, and the current model and the one before keep the rows that they were fitted to. ``string_bytes`` are those
    of the strings of a row.
    """
    return max(1, int(memory / (3 * 8 * (columns + 5) + string_bytes)))


def checked_churn_price(price: float | None, kind: str) -> float:
    """Return the price of a change of all labels, 0.05 for clusterers unless one is given, if it is one."""
    if kind != "clusterer":
        if price is not None:
            raise ValueError(f"churn_price is for clusterers, and this is a {kind}, got {price!r}.")
        return 0.0
    price = 0.05 if price is None else price
    if isinstance(price, bool) or not 0 <= price < np.inf:
        raise ValueError(f"churn_price must be a finite number that is not negative, got {price!r}.")
    return float(price)


def start_of(estimator: Estimator, width: int) -> int:
    """Rows before the first model: three for each column, ten for each cluster or component, never below twenty."""
    parts = [getattr(final_step(estimator), name, None) for name in ("n_clusters", "n_components")]
    largest = max((int(part) for part in parts if isinstance(part, int | np.integer)), default=0)
    return max(20, 3 * (width + 1), 10 * largest)
