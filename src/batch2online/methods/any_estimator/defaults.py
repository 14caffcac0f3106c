"""What type of batch algorithm an estimator is, and the default loss and coreset of each type."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import BaseEstimator, is_classifier, is_clusterer, is_regressor
from sklearn.decomposition import PCA, TruncatedSVD
from sklearn.pipeline import Pipeline
from sklearn.utils import get_tags

from batch2online.methods.any_estimator.sketch import PilotSampling
from batch2online.methods.clustering.sketch import Clustering
from batch2online.methods.least_squares.sketch import Leverage
from batch2online.methods.low_rank.sketch import RidgeLeverage
from batch2online.sketches.uniform import Uniform

DEFAULT_SIZE = 5_000
"""Expected rows of a weighted coreset by default, to begin with."""

LARGEST_SIZE = 20_000
"""Rows up to which a weighted coreset grows by default, where models gain by it."""

UNWEIGHTED_SIZE, UNWEIGHTED_BYTES = 100_000, 2**29
"""Rows up to which all are kept to draw unweighted samples of, and the bytes that they may take."""

_FEWER_ROWS = dict.fromkeys(
    (
        *("GaussianProcessRegressor", "GaussianProcessClassifier", "KernelRidge", "KernelPCA", "BaseLabelPropagation"),
        *("SpectralClustering", "AgglomerativeClustering", "AffinityPropagation"),
        *("Isomap", "LocallyLinearEmbedding", "MDS", "SpectralEmbedding", "TSNE"),
    ),
    DEFAULT_SIZE,
) | dict.fromkeys(("BaseLibSVM",), LARGEST_SIZE)
"""Estimators that take the square of their rows in memory, or in time: the rows that they are fitted to at most."""


class Choice(NamedTuple):
    """A coreset for an estimator: how to make it, and why it was chosen."""

    make: Callable[..., Any]
    name: str
    reason: str
    grows: bool = False


def kind_of(estimator: Any) -> str:
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


def default_loss(kind: str, estimator: Any) -> str:
    """Return the default loss of a type of estimator."""
    if kind == "classifier":
        return "log" if hasattr(estimator, "predict_proba") else "zero_one"
    names = {
        "regressor": "squared",
        "clusterer": "squared_distance",
        "density": "negative_log_likelihood",
        "transformer": "reconstruction",
    }
    if kind not in names:
        raise ValueError(f"loss is needed for this {kind}: a function loss(model, points[, targets]) or a name.")
    return names[kind]


def default_coreset(
    kind: str, estimator: Any, resample: bool, by_rows_alone: Any = False, is_numeric: bool = True
) -> Choice:
    """Return the default coreset of a type of estimator.

    A window is summed again at every refresh check, from rows alone, and shards have no order: no current model can
    score their rows. Rows that are not numeric, or may have missing values, have no leverage.
    """
    last = final_step(estimator)
    if resample:
        return Choice(Uniform, "Uniform", "rows are drawn without weights")
    if kind in ("regressor", "classifier") and not by_rows_alone:
        make = partial(PilotSampling, labels=kind == "classifier", leverage=is_numeric)
        return Choice(make, "PilotSampling", f"a {kind}", grows=True)
    if not is_numeric:
        return Choice(Uniform, "Uniform", "rows are not all numbers")
    if kind == "regressor":
        return Choice(partial(Leverage, intercept=True), "Leverage", "a regressor")
    if kind == "clusterer" and isinstance(getattr(last, "n_clusters", None), int | np.integer):
        k = int(last.n_clusters)
        return Choice(  # it always keeps its rows
            lambda keep_history=True, **settings: Clustering(k, **settings), "Clustering", f"{k} clusters"
        )
    if last is estimator and type(last) in (PCA, TruncatedSVD) and isinstance(last.n_components, int | np.integer):
        rank = int(last.n_components)
        return Choice(partial(RidgeLeverage, rank, intercept=type(last) is PCA), "RidgeLeverage", f"rank {rank}")
    return Choice(Uniform, "Uniform", f"a {kind} of no particular structure")


def unweighted_size(estimator: Any, memory: int | None, width: int) -> int:
    """Return the rows up to which all are kept for an estimator without weights, when no size is given.

    >>> from sklearn.neighbors import KNeighborsRegressor
    >>> from sklearn.gaussian_process import GaussianProcessRegressor
    >>> [unweighted_size(estimator, None, 10) for estimator in (KNeighborsRegressor(), GaussianProcessRegressor())]
    [100000, 5000]
    """
    if memory is not None:
        return largest_size(memory, width)
    inside = estimator.get_params(deep=True).values() if hasattr(estimator, "get_params") else ()
    names = {each.__name__ for part in (estimator, *inside) for each in type(part).__mro__}
    most = min((_FEWER_ROWS[name] for name in names & _FEWER_ROWS.keys()), default=UNWEIGHTED_SIZE)
    return max(DEFAULT_SIZE, min(most, largest_size(UNWEIGHTED_BYTES, width)))


def largest_size(memory: int | None, width: int) -> int:
    """Return the rows up to which a coreset of no given size grows: 20,000, or as many as this many bytes hold.

    A row has its numbers, a target, a score, a weight, an id, a random draw and a limit; while rows come, up to twice
    as many are held.
    """
    if memory is None:
        return LARGEST_SIZE
    if isinstance(memory, bool) or not memory > 0:
        raise ValueError(f"coreset_memory must be a positive number of bytes or None, got {memory!r}.")
    return int(min(memory // (2 * 8 * (width + 6)), 2**40))


def checked_budget(seconds: float | None) -> float | None:
    """Return a budget of seconds for a million rows, if it is one."""
    if seconds is not None and (isinstance(seconds, bool) or not 0 <= seconds < np.inf):
        raise ValueError(f"budget_seconds_per_million_rows must be a finite number from 0 on or None, got {seconds!r}.")
    return None if seconds is None else float(seconds)


def final_step(estimator: Any) -> Any:
    """Return the last step of a pipeline; the estimator itself otherwise."""
    return estimator.steps[-1][1] if isinstance(estimator, Pipeline) else estimator


def start_of(estimator: Any, width: int) -> int:
    """Rows before the first model: three for each column, ten for each cluster or component, never below twenty."""
    parts = [getattr(final_step(estimator), name, None) for name in ("n_clusters", "n_components")]
    largest = max((int(part) for part in parts if isinstance(part, int | np.integer)), default=0)
    return max(20, 3 * (width + 1), 10 * largest)
