"""The section of a wrapped estimator: which columns it needs, and how it answers to the strongest."""

from __future__ import annotations

from typing import Any

import numpy as np

from batch2online._types import FloatArray
from batch2online.app.report import elements
from batch2online.app.report.context import ReportContext
from batch2online.app.report.models import importance_figure, response_figure
from batch2online.app.report.other import why
from batch2online.rows import Rows

__all__ = ["section", "why"]

MOST_ROWS = 2_000
"""Rows of the coreset that are looked at."""

STRONGEST, STEPS = 3, 15


def section(context: ReportContext) -> str:
    """Return what each column is worth to the model, and its mean answer along the strongest columns."""
    engine = context.model._view()
    if engine.model is None:
        return ""
    rows = _coreset_rows(engine)
    worth = permutation_importance(engine, rows)
    drawn = importance_figure(context.names, worth)
    lead = (
        "How much more a row would cost, on the coreset, if the values of a column were dealt out anew among its rows. "
        "Columns that say the same can stand in for each other, and then look weak."
    )
    pictures = [elements.figure(drawn, "Rise of the mean loss.")]
    pictures += [_response(context, engine, rows, column) for column in _strongest(engine, worth) if _answers(engine)]
    return elements.section("What the model needs", lead, elements.pair(*pictures))


def _coreset_rows(engine: Any) -> Rows:
    """Return the coreset, or its first rows, with targets as the engine has them."""
    coreset = engine.coreset()
    targets = np.empty((len(coreset), 0)) if coreset.targets is None else coreset.targets
    flat = targets[:, None] if targets.ndim == 1 else targets
    return Rows(coreset.points, flat, coreset.weights, coreset.ids)[:MOST_ROWS]


def permutation_importance(engine: Any, rows: Rows) -> FloatArray:
    """Return by how much the mean loss rises when one column is shuffled, for each column."""
    rng = np.random.default_rng(0)
    base = _mean_loss(engine, rows.points, rows)
    worth = np.empty(rows.points.shape[1])
    for column in range(len(worth)):
        points = rows.points.copy()
        points[:, column] = points[rng.permutation(len(points)), column]
        worth[column] = _mean_loss(engine, points, rows) - base
    return worth


def _mean_loss(engine: Any, points: FloatArray, rows: Rows) -> float:
    return float(np.average(engine.problem.losses(engine.model, points, rows.targets)[0], weights=rows.weights))


def _strongest(engine: Any, worth: FloatArray) -> list[int]:
    """Return the columns of numbers that the model needs most: along others there is no line to be drawn."""
    schema = engine.problem.encoding.schema
    worth = worth if schema is None else np.where(np.isin(np.arange(len(worth)), schema.numeric_columns), worth, 0.0)
    order = np.argsort(-worth, kind="stable")[:STRONGEST]
    return [int(column) for column in order if worth[column] > 0]


def _answers(engine: Any) -> bool:
    """Whether the model predicts numbers, or probabilities, of which there is a mean."""
    model = engine.model.model
    return bool(engine.n_targets) and (hasattr(model, "predict_proba") or not hasattr(model, "classes_"))


def _response(context: ReportContext, engine: Any, rows: Rows, column: int) -> str:
    """Return the mean answer of the model if a column had one value in all rows, for several values."""
    model, given = engine.model.model, engine.problem.encoding
    values = np.unique(np.quantile(rows.points[:, column], np.linspace(0.02, 0.98, STEPS), method="nearest"))
    means = []
    for value in values:
        points = rows.points.copy()
        points[:, column] = value
        means.append(_mean_answer(model, given.decoded(points, engine.model.rows.points), rows.weights))
    shown = values * context.scales[column] + context.means[column]
    what = "probability of the last class" if hasattr(model, "predict_proba") else context.target or "prediction"
    picture = response_figure(context.names[column], shown, np.array(means), str(what))
    return elements.figure(picture, f"Mean answer if {context.names[column]} had this value in all rows.")


def _mean_answer(model: Any, rows: Any, weights: FloatArray) -> float:
    answers = model.predict_proba(rows)[:, -1] if hasattr(model, "predict_proba") else model.predict(rows)
    return float(np.average(np.asarray(answers, dtype=np.float64).reshape(len(weights), -1)[:, 0], weights=weights))
