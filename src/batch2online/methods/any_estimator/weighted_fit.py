"""Fitting any scikit-learn estimator to weighted rows, as a pure function of the rows and a seed."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from dataclasses import replace
from inspect import signature

import numpy as np
from sklearn.base import BaseEstimator, clone
from sklearn.decomposition import PCA, TruncatedSVD
from sklearn.dummy import DummyClassifier
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import has_fit_parameter

from batch2online import sampling
from batch2online._types import BoolArray, FloatArray, IntArray
from batch2online.methods.any_estimator.defaults import kind_of
from batch2online.methods.any_estimator.models import Estimator, InputRows, Model
from batch2online.sketches.base import Coreset

RESAMPLING, ESTIMATOR, COMPARISON, FOLDS = 100, 101, 102, 103
"""Streams of ``randomness``: copies of a point in an unweighted sample; the estimator's own seed; points on which
models are compared; halves of the points."""

_PREPARING = ("sklearn.compose", "sklearn.preprocessing", "sklearn.impute", "sklearn.feature_extraction")
"""Where the transformers are that only encode, fill or scale."""

_NESTED = ("estimator", "regressor", "base_estimator")


def fitted(
    estimator: Estimator, points: InputRows, targets: InputRows | None, weights: FloatArray | None, seed: int
) -> Model:
    """Return a seeded clone of the estimator, fitted to rows; ``targets`` and ``weights`` may be None."""
    model = seeded(estimator, seed)
    if kind_of(model) == "classifier" and targets is not None and len(np.unique(targets)) == 1:
        model = DummyClassifier(strategy="most_frequent")  # many classifiers refuse a single class
    if weights is not None and type(model) in _WITHOUT_WEIGHTS:
        _WITHOUT_WEIGHTS[type(model)](model, np.asarray(points, dtype=np.float64), weights)
        if hasattr(points, "columns"):
            model.feature_names_in_ = np.asarray(points.columns, dtype=object)
        return model
    arguments = () if targets is None else (targets,)
    if weights is None and _needs_weights(model):
        weights = np.ones(len(points))
    model.fit(points, *arguments, **({} if weights is None else weight_arguments(model, weights)))
    return model


def _needs_weights(model: Estimator) -> bool:
    """Return whether ``fit`` cannot be called without ``sample_weight``."""
    found = signature(model.fit).parameters.get("sample_weight")
    return found is not None and found.default is found.empty


def seeded(estimator: Estimator, seed: int) -> Estimator:
    """Return a fresh copy whose every ``random_state`` that is not an integer is one drawn from the seed.

    ``n_jobs`` of None is 1, as in scikit-learn; boosters would take all cores. The seed alone decides, not the row
    count: on the same coreset the same model comes out, which is what keeps changes few and makes deletions comparable.
    """
    is_own = isinstance(estimator, BaseEstimator)
    model: Estimator = clone(estimator, safe=False) if is_own else copy.deepcopy(estimator)
    if not hasattr(model, "get_params"):
        return model
    params = model.get_params(deep=True)
    names = sorted(name for name in params if name == "random_state" or name.endswith("__random_state"))
    drawn = sampling.uniforms(seed, ESTIMATOR, range(len(names))) if names else np.empty(0)
    own = {n: int(u * 2**31) for n, u in zip(names, drawn, strict=True) if not isinstance(params[n], int | np.integer)}
    if "n_jobs" in params and params["n_jobs"] is None and not type(model).__module__.startswith("sklearn."):
        own["n_jobs"] = 1
    return model.set_params(**own) if own else model


def weight_arguments(model: Estimator, weights: FloatArray) -> dict[str, FloatArray]:
    """Return the keyword arguments of ``fit`` that carry the weights."""
    if isinstance(model, Pipeline):
        takers = [name for name, step in model.steps if _is_fitted_step(step) and _takes_weights(step)]
        return {f"{name}__sample_weight": weights for name in takers}
    return {"sample_weight": weights}


def step_without_weights(estimator: Estimator) -> Estimator | None:
    """Find a part of the estimator that cannot be fitted to weighted rows; None if the whole estimator can be.

    The part is the estimator itself or, in a pipeline, the first step whose ``fit`` takes no ``sample_weight``. Steps
    that encode, fill or scale before the last one need none: what they learn is learned from the rows as they are.
    """
    if isinstance(estimator, Pipeline):
        steps = [step for _, step in estimator.steps if _is_fitted_step(step)]
        needing = [step for step in steps if step is steps[-1] or not _only_prepares(step)]
        return next((step for step in needing if not _takes_weights(step)), None)
    return None if type(estimator) in _WITHOUT_WEIGHTS or _takes_weights(estimator) else estimator


def _only_prepares(step: Estimator) -> bool:
    if isinstance(step, Pipeline):
        return all(_only_prepares(inner) for _, inner in step.steps if _is_fitted_step(inner))
    return type(step).__module__.startswith(_PREPARING)


def _is_fitted_step(step: object) -> bool:
    return step is not None and not isinstance(step, str)


def _takes_weights(estimator: Estimator) -> bool:
    """Whether ``fit`` names ``sample_weight``, or passes its arguments on to an estimator inside that does."""
    if has_fit_parameter(estimator, "sample_weight"):
        return True
    inside = [getattr(estimator, name, None) for name in _NESTED]
    return has_fit_parameter(estimator, "params") and any(i is not None and _takes_weights(i) for i in inside)


def copy_counts(coreset: Coreset, epsilon: float, seed: int) -> IntArray:
    """Return the number of copies of each point in an unweighted sample of about the size of the coreset.

    Copies are ``w / scale`` rounded at random by a uniform that belongs to the point; the scale is the mean weight
    rounded down to a power of ``1 + epsilon``. So a point's copies change only where its weight or the scale does.
    """
    if not len(coreset):
        return np.empty(0, dtype=np.int64)
    mean = float(coreset.weights.mean())
    scale = (1 + epsilon) ** math.floor(math.log(mean) / math.log1p(epsilon) + 1e-9)
    uniforms = sampling.uniforms(seed, RESAMPLING, coreset.ids)
    return np.floor(coreset.weights / scale + uniforms).astype(np.int64)


def subsample(coreset: Coreset, size: int, seed: int) -> Coreset:
    """Return so many points of a larger coreset, chosen uniformly, with weights that make up for the others."""
    if len(coreset) <= size:
        return coreset
    draws = sampling.uniforms(seed, COMPARISON, coreset.ids)
    few = selected(coreset, np.sort(np.argpartition(draws, size)[:size]))
    return replace(few, weights=few.weights * (len(coreset) / size))


def selected(coreset: Coreset, places: IntArray | BoolArray) -> Coreset:
    """Return the points of a coreset at these places, an index or a mask, with the weights that they have there."""
    targets = None if coreset.targets is None else coreset.targets[places]
    return Coreset(coreset.points[places], targets, coreset.weights[places], coreset.ids[places])


def _weighted_svd(model: TruncatedSVD, points: FloatArray, weights: FloatArray) -> None:
    """Fit exactly: weighted rows are rows times the root of their weight."""
    model.fit(points * np.sqrt(weights)[:, None])


def _weighted_pca(model: PCA, points: FloatArray, weights: FloatArray) -> None:
    """Fit exactly: deviations from the weighted mean, times the root of their weight, each with its mirror image.

    The mirror images make the mean zero, which PCA would subtract; what counts rows is set right afterwards.
    """
    mean = np.average(points, axis=0, weights=weights)
    deviations = (points - mean) * np.sqrt(weights)[:, None]
    model.fit(np.vstack([deviations, -deviations]))
    scale = (2 * len(points) - 1) / (2 * max(1.0, weights.sum() - 1))
    model.mean_ = mean
    model.explained_variance_ = model.explained_variance_ * scale
    model.noise_variance_ = model.noise_variance_ * scale
    model.singular_values_ = model.singular_values_ / math.sqrt(2)
    model.n_samples_ = len(points)


_WITHOUT_WEIGHTS: dict[type, Callable[..., None]] = {PCA: _weighted_pca, TruncatedSVD: _weighted_svd}
"""Estimators without ``sample_weight`` that can be fitted to weighted rows all the same."""
