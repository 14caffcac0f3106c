"""Wrapped estimators in files: the rows a model was fitted on, and the fitted model where skops can hold it.

Loading fits nothing. It takes the fitted model out of the file, or refuses; with ``refit=True``, or with an estimator
of the caller's own, it fits again on the rows.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from operator import itemgetter
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.dummy import DummyClassifier

from batch2online.drift.half_life_selection import HalfLifeSelection
from batch2online.frames.encoding import Encoding
from batch2online.frames.schema import FrameSchema
from batch2online.frames.strings import StringTable
from batch2online.methods.any_estimator import defaults, estimator_spec, skops_model
from batch2online.methods.any_estimator.input_support import kept_points
from batch2online.methods.any_estimator.problem import EstimatorProblem, FittedEstimator, rows_of, without_fitting
from batch2online.methods.any_estimator.trust import Trust
from batch2online.methods.any_estimator.weighted_fit import seeded
from batch2online.rows import Rows
from batch2online.schema import require
from batch2online.state import StreamState
from batch2online.storage.tree import CheckpointError
from batch2online.stream import Stream
from batch2online.warm_up import Free

_TRIAL_ROWS = 10
"""Rows on which a model out of a file is evaluated."""


def with_rows_for_models(state: dict[str, Any]) -> dict[str, Any]:
    """Return a state that a file can hold: rows for the models fitted on them, specifications for estimators."""
    engine: Stream = state["engine"]
    known = engine.problem.encoding
    state |= {"labels": sorted(engine.problem.labels.items(), key=itemgetter(0))}
    if known.table is not None:
        known = known.within(list(kept_points(engine)))
        state |= {"table": known.table, "texts": known.texts}
    learner = engine.learner.map(lambda each: _with_former(replace(each, model=rows_of(each.model)), rows_of))
    learner = learner.map(lambda each: replace(each, problem=None))
    state |= {"engine": replace(engine, learner=_with_references(learner, lambda _, model: rows_of(model)))}
    return state | {"params": {name: estimator_spec.spec_of(value) for name, value in state["params"].items()}}


def checked_rows(state: dict[str, Any]) -> Encoding:
    """Return the encoding of the rows of a file; all of them must have one."""
    table, texts = state.get("table"), state.get("texts")
    if table is None:
        return Encoding()
    if not isinstance(table, FrameSchema) or not isinstance(texts, StringTable):
        raise CheckpointError("a table has columns and texts.")
    known, engine = Encoding(table, texts), state["engine"]
    require(len(table.columns) == engine.width, "a table is as wide as its rows.")
    for points in kept_points(engine):
        table.check(points)
        require(known.has_texts(points), "the texts of all rows are known.")
    return known


def with_restored_models(engine: Stream, content: Any, trust: Trust, may_fit: bool) -> Stream:
    """Return a stream with models in the place of the rows that a file holds for them.

    The current model is that of ``content``, or is fitted now if ``may_fit``. Models of other half-lives, and those
    that were replaced and are still scored beside their successors, are fitted when they are first used.
    """
    problem, learner, current = engine.problem, engine.learner, engine.current
    expected, has_table = problem.warm_up(), problem.encoding.table is not None
    for each in learner.states:
        known = each.warm_up
        is_like = known is None or known.is_like(expected) or (has_table and isinstance(known, Free))
        require(is_like, "the warm-up is that of the loss.")
    later = problem.fitted_later
    with nullcontext() if may_fit else without_fitting():
        model = None if current.model is None else _restored_model(problem, current.model, content, trust, may_fit)
        learner = learner.map(lambda each: replace(each, model=model if each is current else later(each.model)))
        learner = learner.map(lambda each: _with_former(each, later))
        learner = _with_references(
            learner, lambda each, rows: each.model if problem.same(each.model, rows) else later(rows)
        )
    return replace(engine, learner=learner)


def _with_former(state: StreamState, change: Callable[[Any], Any]) -> StreamState:
    """Return a state with another form of the model that was replaced, and is still scored beside its successor."""
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


def _restored_model(problem: EstimatorProblem, rows: Rows, content: Any, trust: Trust, may_fit: bool) -> Any:
    """Return the fitted model in a file; fit it again only if that is allowed."""
    try:
        return _fitted_model(problem, rows, content, trust)
    except skops_model.UnusableError as error:
        if may_fit:
            return problem.solved_on(rows)
        raise CheckpointError(
            f"there is no fitted {type(problem.estimator).__name__} to load: {error} Loading fits nothing by "
            "itself: load(path, refit=True) fits it again on the rows of the file, and "
            "BatchToOnline.restore(path, estimator=...) fits one of your own."
        ) from error


def _fitted_model(problem: EstimatorProblem, rows: Rows, content: Any, trust: Trust) -> FittedEstimator:
    """Return the stored model, if it is one of this estimator and these rows."""
    model, is_harmless = skops_model.loaded(content, trust)
    width = rows.points.shape[1]
    if getattr(model, "n_features_in_", width) != width or not _could_be_fitted(problem, rows, model):
        raise skops_model.UnusableError("it is a model of another kind.")
    found, few = FittedEstimator(model, rows), rows[:_TRIAL_ROWS]
    if is_harmless and not np.isfinite(problem.losses(found, few.points, few.targets)[0]).all():
        raise skops_model.UnusableError("its losses are no numbers.")
    return found


def _could_be_fitted(problem: EstimatorProblem, rows: Rows, model: Any) -> bool:
    """Whether a model is the estimator of the problem, fitted; rows of a single class are fitted by a dummy."""
    is_classifier = defaults.kind_of(problem.estimator) == "classifier"
    if isinstance(model, DummyClassifier) and is_classifier and len(np.unique(rows.targets)) == 1:
        return bool(model.strategy == "most_frequent")
    return estimator_spec.is_same(clone(model), seeded(problem.estimator, problem.seed))
