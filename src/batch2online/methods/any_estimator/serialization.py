"""Wrapped estimators in files: parameters as plain data, the rows a model was fitted on, and the fitted model.

A file names public estimators of scikit-learn, LightGBM and XGBoost alone, without pickle, and their parameters are
plain data. What cannot be named is left out, and must be passed again. No parameter is a path: the ``memory`` of a
pipeline is left out when it is written, and a file that names one is refused.

Loading fits nothing. It takes the fitted model out of the file, or refuses; with ``refit=True``, or with an estimator
of the caller's own, it fits again on the rows.
"""

from __future__ import annotations

import pickle
import warnings
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from operator import itemgetter
from typing import Any

import joblib
import numpy as np
from sklearn.base import BaseEstimator, clone
from sklearn.dummy import DummyClassifier
from sklearn.pipeline import Pipeline

from batch2online._types import IntArray
from batch2online.drift.half_life_selection import HalfLifeSelection
from batch2online.estimator import Trusted
from batch2online.frames.encoding import Encoding
from batch2online.frames.schema import FrameSchema
from batch2online.frames.strings import StringTable
from batch2online.methods.any_estimator import defaults, fitted_models
from batch2online.methods.any_estimator.model_checks import UnusableError
from batch2online.methods.any_estimator.no_fits import without_fitting
from batch2online.methods.any_estimator.problem import EstimatorProblem, FittedEstimator, rows_of
from batch2online.methods.any_estimator.sensitivity import Sensitivity
from batch2online.methods.any_estimator.weighted_fit import seeded
from batch2online.methods.clustering.sketch import Clustering
from batch2online.methods.least_squares.sketch import Leverage
from batch2online.methods.low_rank.sketch import RidgeLeverage
from batch2online.refresh import Policy
from batch2online.rows import Rows
from batch2online.schema import conforms
from batch2online.sketches.builder import CoresetBuilder
from batch2online.sketches.everything import Everything
from batch2online.sketches.uniform import Uniform
from batch2online.state import StreamState
from batch2online.storage.tree import CheckpointError
from batch2online.stream import Stream
from batch2online.tables.codec import Columns
from batch2online.warm_up import Free

_PLAIN = (type(None), bool, int, float, str)
_DTYPES = ("float32", "float64", "int32", "int64")
_PACKAGES = ("sklearn", "lightgbm", "xgboost")
"""Packages whose estimators a file may name."""

_PATTERNS = ("token_pattern",)
"""Parameters that may resemble paths."""

_CORESETS: dict[str, type[CoresetBuilder]] = {
    each.__name__: each for each in (Clustering, Everything, Leverage, RidgeLeverage, Sensitivity, Uniform)
}


def spec_of(value: Any) -> Any:
    """Return what a file holds for a parameter: the value itself, a specification, or that it must be passed again."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, (*_PLAIN, Policy, Columns)):
        return _missing(value) if _is_path(value) else value
    if isinstance(value, CoresetBuilder) and not any(
        callable(part) and not hasattr(part, "__dataclass_fields__") for part in vars(value).values()
    ):
        return value  # none of its parts is a score of the user's own
    if isinstance(value, type) and value.__name__ in _DTYPES and value is getattr(np, value.__name__):
        return {"dtype": value.__name__}
    if value in _CORESETS.values():
        return {"coreset": str(value.__name__)}
    if isinstance(value, list | tuple):
        items = [spec_of(item) for item in value]
        return _missing(value) if any(map(is_missing, items)) else type(value)(items)
    if isinstance(value, BaseEstimator) and type(value).__module__.split(".")[0] in _PACKAGES:
        return _of_estimator(value)
    return _missing(value)


def quiet_spec_of(value: Any) -> Any:
    """Return the specification of a value, without warnings of parameters that are left out."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return spec_of(value)


def _of_estimator(value: Any) -> Any:
    given = value.get_params(deep=False)
    if given.get("memory") is not None:
        warnings.warn(f"memory of {type(value).__name__} is left out: a file holds no paths.", UserWarning, 2)
        given["memory"] = None
    params = {
        name: item if name in _PATTERNS and isinstance(item, str) else spec_of(item) for name, item in given.items()
    }
    if any(map(is_missing, params.values())) or _reads_files(params):
        return _missing(value)
    return {"module": type(value).__module__, "class": type(value).__qualname__, "params": params}


def built(value: Any, name: str) -> Any:
    """Return the parameter of this name from what a checkpoint holds for it."""
    if isinstance(value, list | tuple):
        return type(value)(built(item, name) for item in value)
    if _is_path(value):
        raise CheckpointError(f"{name} holds the path {value[:40]!r}, and no file may name one.")
    if not isinstance(value, dict):
        if not isinstance(value, (*_PLAIN, Policy, CoresetBuilder, Columns)):
            raise CheckpointError(f"{name} is no parameter.")
        return value
    if is_missing(value):
        raise CheckpointError(
            f"{name} was {value['missing']}, which no file can hold: use BatchToOnline.restore(path, {name}=...)."
        )
    if value.keys() == {"dtype"} and value["dtype"] in _DTYPES:
        return getattr(np, value["dtype"])
    if value.get("coreset") in _CORESETS:
        return _CORESETS[value["coreset"]]
    return _built_estimator(value, name)


def _built_estimator(value: dict[str, Any], name: str) -> Any:
    if value.keys() != {"module", "class", "params"} or not isinstance(value["params"], dict):
        raise CheckpointError(f"{name} is no estimator.")
    params = {
        key: item if key in _PATTERNS and isinstance(item, str) else built(item, name)
        for key, item in value["params"].items()
    }
    if params.get("memory") is not None:
        raise CheckpointError(f"the memory of {value['class']} is a path, and no file may name one.")
    if _reads_files(params):
        raise CheckpointError(
            f"{value['class']} with input={params['input']!r} reads the files that its rows name, and no file may name "
            "one: use BatchToOnline.restore(path, estimator=...)."
        )
    try:
        estimator = fitted_models.estimator_class(f"{value['module']}.{value['class']}")(**params)
    except fitted_models.UnnameableError as error:
        raise CheckpointError(f"{name}: {error}") from error
    except TypeError as error:
        raise CheckpointError(f"this version of scikit-learn has other parameters of {value['class']}.") from error
    if isinstance(estimator, Pipeline) and not conforms(estimator.steps, list[tuple[str, Any]]):
        raise CheckpointError("the steps of a pipeline have names.")
    if hasattr(estimator, "_parameter_constraints"):
        estimator._validate_params()  # what fit would refuse, perhaps much later
    return estimator


def is_same(own: Any, other: Any) -> bool:
    """Whether two settings are the same, estimators by their class and parameters."""
    if isinstance(own, CoresetBuilder) and isinstance(other, CoresetBuilder):
        return own._settings() == other._settings()
    if own is other or (isinstance(own, Policy) and own == other):
        return True
    try:
        return type(own) is type(other) and bool(joblib.hash(own) == joblib.hash(other))
    except (pickle.PicklingError, AttributeError, TypeError):  # functions without a name have nothing to compare
        return False


def _missing(value: object) -> dict[str, str]:
    return {"missing": f"{type(value).__name__} {getattr(value, '__name__', '')}".strip()}


def _reads_files(params: dict[str, Any]) -> bool:
    """Whether rows are names of files, or files, that the estimator reads: the text vectorizers of scikit-learn do."""
    return params.get("input") in ("filename", "file")


def _is_path(value: Any) -> bool:
    """Whether a parameter resembles a path; none of scikit-learn's own values does."""
    return isinstance(value, str) and any(mark in value for mark in "/\\~")


def is_missing(value: Any) -> bool:
    """Whether a specification has no value: it must be passed again."""
    return isinstance(value, dict) and "missing" in value


# -- states ----------------------------------------------------------------------------------------------------


def with_rows_for_models(state: dict[str, Any]) -> dict[str, Any]:
    """Return a state that a file can hold: rows for the models fitted on them, specifications for estimators."""
    stream: Stream = state["stream"]
    encoding = stream.problem.encoding
    state |= {"labels": sorted(stream.problem.labels.items(), key=itemgetter(0))}
    if encoding.schema is not None:
        encoding = encoding.within(stream.held_rows())
        state |= {"schema": encoding.schema, "strings": encoding.strings}
    learner = stream.learner.map(lambda each: _with_former(replace(each, model=rows_of(each.model)), rows_of))
    learner = learner.map(lambda each: replace(each, problem=None))
    orders = [_order_of(each) for each in stream.learner.states]
    if any(order is not None for order in orders):
        state |= {"orders": orders}
    state |= {"stream": replace(stream, learner=_with_references(learner, lambda _, model: rows_of(model)))}
    return state | {"params": {name: spec_of(value) for name, value in state["params"].items()}}


def checked_encoding(state: dict[str, Any]) -> Encoding:
    """Return the encoding of the rows of a file, which must all be decodable."""
    schema, strings, stream = state.get("schema"), state.get("strings"), state["stream"]
    if schema is None:
        return Encoding()
    if not isinstance(schema, FrameSchema) or not isinstance(strings, StringTable):
        raise CheckpointError(f"schema: found a {type(schema).__name__} with a {type(strings).__name__}")
    if len(schema.columns) != stream.width:
        raise CheckpointError(f"schema: found {len(schema.columns)} columns, expected {stream.width}")
    encoding = Encoding(schema, strings)
    for rows in stream.held_rows():
        encoding.check(rows.points)
    return encoding


Orders = list[IntArray | None]
"""Of each state the order of the clusters of its model, if they have one."""


def _order_of(state: StreamState) -> list[int] | None:
    order = getattr(state.model, "order", None)
    return None if order is None else order.tolist()


def checked_orders(orders: Any, stream: Stream) -> Orders:
    """Return the orders of clusters in a file, if these are orders."""
    n = len(stream.learner.states)
    orders = [None] * n if orders is None else orders
    if not isinstance(orders, list) or len(orders) != n:
        raise CheckpointError(f"orders: expected a list of {n}")
    for order in orders:
        if order is not None and (not isinstance(order, list) or sorted(order) != list(range(len(order)))):
            raise CheckpointError("orders: found one that is no order of clusters")
    return [None if order is None else np.array(order, dtype=np.int64) for order in orders]


def with_restored_models(stream: Stream, content: Any, trusted: Trusted, may_fit: bool, orders: Orders) -> Stream:
    """Return a stream in which the rows that a file holds are replaced by the models fitted on them.

    The current model is that of ``content``, or is fitted now if ``may_fit``. Models of other half-lives, and those
    that were replaced and are still scored beside their successors, are fitted when they are first used.
    """
    problem, learner, current = stream.problem, stream.learner, stream.current
    expected, has_table = problem.warm_up(), problem.encoding.schema is not None
    for each in learner.states:
        known = each.warm_up
        is_like = known is None or known.same_settings(expected) or (has_table and isinstance(known, Free))
        if not is_like:
            raise CheckpointError(f"warm_up: found {known}, expected {expected}, that of the loss")
        if each.record is not None:
            each.record.validate_for(problem, each.shape)
    later = problem.fitted_later
    with nullcontext() if may_fit else without_fitting():
        of_state = {id(each): order for each, order in zip(learner.states, orders, strict=True)}
        rows, first = current.model, of_state.get(id(current))
        model = None if rows is None else _restored_model(problem, rows, content, trusted, may_fit, first)

        def restored(state: StreamState) -> StreamState:
            state = replace(state, model=model if state is current else later(state.model, of_state[id(state)]))
            return _with_former(state, later)

        learner = learner.map(restored)
        learner = _with_references(
            learner, lambda each, rows: each.model if problem.same(each.model, rows) else later(rows)
        )
    return replace(stream, learner=learner)


def _with_former(state: StreamState, change: Callable[[Any], Any]) -> StreamState:
    """Return a state with another form of the model that is scored beside its successor."""
    benefit = state.refresh.benefit
    if benefit is None:
        return state
    return replace(state, refresh=replace(state.refresh, benefit=replace(benefit, former=change(benefit.former))))


def _with_references(learner: Any, change: Callable[[StreamState, Any], Any]) -> Any:
    """Return a learner with another form of the models by which half-lives are compared, where there are any."""
    if not isinstance(learner, HalfLifeSelection):
        return learner
    models = map(change, learner.states, learner.scores.noted)
    return replace(learner, scores=learner.scores.with_models(tuple(models)))


def _restored_model(
    problem: EstimatorProblem, rows: Rows, content: Any, trusted: Trusted, may_fit: bool, order: IntArray | None
) -> Any:
    """Return the fitted model in a file; fit it again only if that is allowed."""
    try:
        return FittedEstimator(_fitted_model(problem, rows, content, trusted), rows, order)
    except UnusableError as error:
        if may_fit:
            return problem.fit_on(rows, order)
        raise CheckpointError(
            f"there is no fitted {type(problem.estimator).__name__} to load: {error} Loading fits nothing by "
            "itself: load(path, refit=True) fits it again on the rows of the file, and "
            "BatchToOnline.restore(path, estimator=...) fits one of your own."
        ) from error


def _fitted_model(problem: EstimatorProblem, rows: Rows, content: Any, trusted: Trusted) -> Any:
    """Return the stored model, if it is one of this estimator and these rows."""
    model = fitted_models.loaded(content, trusted)
    width = rows.points.shape[1]
    if getattr(model, "n_features_in_", width) != width or not _could_be_fitted(problem, rows, model):
        raise UnusableError("it is a model of another kind.")
    return model


def _could_be_fitted(problem: EstimatorProblem, rows: Rows, model: Any) -> bool:
    """Whether a model is the estimator of the problem, fitted; rows of a single class are fitted by a dummy."""
    is_classifier = defaults.kind_of(problem.estimator) == "classifier"
    if isinstance(model, DummyClassifier) and is_classifier and len(np.unique(rows.targets)) == 1:
        return bool(model.strategy == "most_frequent")
    expected = seeded(problem.estimator, problem.seed)
    spec = quiet_spec_of(expected)  # boosters have attributes beside their parameters
    return is_same(clone(model), expected) or (not is_missing(spec) and bool(quiet_spec_of(model) == spec))
