"""The section of an estimator in ``BatchToOnline``: permutation importance and partial dependence."""

from __future__ import annotations

from typing import Any

import numpy as np

from batch2online._types import FloatArray
from batch2online.app.report import elements
from batch2online.app.report.context import ReportContext
from batch2online.app.report.formatting import reason
from batch2online.app.report.model_figures import importance_figure, response_figure
from batch2online.headline import number
from batch2online.rows import Rows

MAX_ROWS = 2_000
"""Maximum number of coreset rows to use."""

MAX_FEATURES, STEPS = 3, 15


def describe(context: ReportContext, event: Any) -> str:
    """Return the reason of a change, and how much the losses of rows changed."""
    return f"{reason(event)}; losses changed by {number(event.magnitude)}"


def section(context: ReportContext) -> str:
    """Return the importance of each column, and the partial dependence on the most important ones."""
    now = context.model._view()
    if now.model is None:
        return ""
    coreset = now.coreset()
    targets = np.empty((len(coreset), 0)) if coreset.targets is None else coreset.targets
    flat = targets[:, None] if targets.ndim == 1 else targets
    some = np.linspace(0, len(coreset) - 1, min(len(coreset), MAX_ROWS)).astype(np.int64)
    rows, groups = Rows(coreset.points, flat, coreset.weights, coreset.ids)[some], feature_groups(context)
    importance = permutation_importance(now, rows, list(groups.values()))
    lead = (
        "Permutation importance on the coreset: the increase of the mean loss if the values of a column are shuffled, "
        "those of all features that were made from it together. Correlated columns can replace each other and then "
        "seem unimportant."
    )
    pictures = [elements.figure(importance_figure(list(groups), importance), "Increase of the mean loss.")]
    fitted = now.model.model
    if now.n_targets and (hasattr(fitted, "predict_proba") or not hasattr(fitted, "classes_")):
        pictures += [
            _partial_dependence(context, now, rows, column) for column in _top_numbers(now, groups, importance)
        ]
    return elements.section("Feature importance", lead, elements.pair(*pictures))


def feature_groups(context: ReportContext) -> dict[str, list[int]]:
    """Return the features of each column: its one-hot features, or the parts of a date, and otherwise itself."""
    prepared = context.result.get("preparation") or {}
    sources = {name: column for name, (column, _) in (prepared.get("derived") or {}).items()}
    for column in prepared.get("categories") or {}:
        sources |= {name: column for name in context.names if name.startswith(f"{column}=")}
    groups: dict[str, list[int]] = {}
    for place, name in enumerate(context.names):
        groups.setdefault(sources.get(name, name), []).append(place)
    return groups


def permutation_importance(now: Any, rows: Rows, groups: list[list[int]]) -> FloatArray:
    """Return the increase of the mean loss if the features of a group are shuffled together, for each group."""

    def mean_loss(points: FloatArray) -> float:
        return float(np.average(now.problem.losses(now.model, points, rows.targets)[0], weights=rows.weights))

    rng = np.random.default_rng(0)
    base = mean_loss(rows.points)
    importance = np.empty(len(groups))
    for place, group in enumerate(groups):
        points = rows.points.copy()
        points[:, group] = points[rng.permutation(len(points))][:, group]
        importance[place] = mean_loss(points) - base
    return importance


def _top_numbers(now: Any, groups: dict[str, list[int]], importance: FloatArray) -> list[int]:
    """Return the features of the most important columns that are one number."""
    schema = now.problem.encoding.schema
    places = range(now.width) if schema is None else schema.numeric_columns
    order = [list(groups.values())[place] for place in np.argsort(-importance, kind="stable") if importance[place] > 0]
    return [group[0] for group in order if len(group) == 1 and group[0] in places][:MAX_FEATURES]


def _partial_dependence(context: ReportContext, now: Any, rows: Rows, column: int) -> str:
    """Return the mean prediction if a column has the same value in all rows, for several values."""
    model, encoding = now.model.model, now.problem.encoding
    values = np.unique(np.quantile(rows.points[:, column], np.linspace(0.02, 0.98, STEPS), method="nearest"))
    means = []
    for value in values:
        points = rows.points.copy()
        points[:, column] = value
        decoded = encoding.decoded(points, now.model.rows.points)
        found = model.predict_proba(decoded)[:, -1] if hasattr(model, "predict_proba") else model.predict(decoded)
        first = np.asarray(found, dtype=np.float64).reshape(len(rows), -1)[:, 0]
        means.append(float(np.average(first, weights=rows.weights)))
    shown = values * context.scales[column] + context.means[column]
    what = "probability of the last class" if hasattr(model, "predict_proba") else context.target or "prediction"
    picture = response_figure(context.names[column], shown, np.array(means), str(what))
    name = context.names[column]
    return elements.figure(picture, f"Partial dependence: mean prediction if {name} has this value in all rows.")
