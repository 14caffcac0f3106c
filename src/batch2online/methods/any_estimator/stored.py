"""Wrapped estimators in files: the rows a model was fitted on, and the fitted model where skops can hold it.

Loading fits nothing. It takes the fitted model out of the file, or refuses; with ``refit=True``, or with an estimator
of the caller's own, it fits again on the rows.
"""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace
from operator import itemgetter
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.dummy import DummyClassifier

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
from batch2online.storage.tree import CheckpointError
from batch2online.warm_up import Free

_TRIAL_ROWS = 10
"""Rows on which a model out of a file is evaluated."""


def with_rows_for_models(state: dict[str, Any]) -> dict[str, Any]:
    """Return a state that a file can hold: rows for the models fitted on them, specifications for estimators."""
    engine = state["engine"].copy()
    known = engine.problem.encoding
    state |= {"engine": engine, "labels": sorted(engine.problem.labels.items(), key=itemgetter(0))}
    if known.table is not None:
        known = known.within(list(kept_points(engine)))
        state |= {"table": known.table, "texts": known.texts}
    for each in (engine, *engine.rivals):
        each.model, each.problem, pace = rows_of(each.model), None, each.pace
        each.pace = None if pace is None else replace(pace, former=rows_of(pace.former))
    if engine.contest is not None:
        engine.contest = replace(engine.contest, noted=tuple(map(rows_of, engine.contest.noted)))
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


def restore_models(engine: Any, content: Any, trust: Trust, may_fit: bool) -> None:
    """Put models in the place of the rows that a file holds for them.

    The current model is that of ``content``, or is fitted now if ``may_fit``. Models of other half-lives, and those
    that were replaced and are still scored beside their successors, are fitted when they are first used.
    """
    problem, engines = engine.problem, (engine, *engine.rivals)
    expected, has_table = problem.warm_up(), problem.encoding.table is not None
    for each in engines:
        known = each.warm_up
        is_like = known is None or known.is_like(expected) or (has_table and isinstance(known, Free))
        require(is_like, "the warm-up is that of the loss.")
    with nullcontext() if may_fit else without_fitting():
        if engine.model is not None:
            engine.model = _restored_model(problem, engine.model, content, trust, may_fit)
        for rival in engine.rivals:
            rival.problem, rival.model = problem, problem.fitted_later(rival.model)
        if engine.contest is not None:
            pairs = zip(engines, engine.contest.noted, strict=True)
            noted = [e.model if problem.same(e.model, rows) else problem.fitted_later(rows) for e, rows in pairs]
            engine.contest = replace(engine.contest, noted=tuple(noted))
        for each in engines:
            if each.pace is not None:
                each.pace = replace(each.pace, former=problem.fitted_later(each.pace.former))


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
