"""The section of an estimator in ``BatchToOnline``: permutation importance and partial dependence."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from batch2online._types import FloatArray
from batch2online.app.report import elements
from batch2online.app.report.context import ReportContext, described
from batch2online.app.report.model_figures import bar_table, response_chart
from batch2online.headline import number
from batch2online.rows import Rows

MAX_ROWS = 2_000
"""Maximum number of coreset rows to use."""

MAX_FEATURES, STEPS = 3, 15


def describe(context: ReportContext, event: Any) -> str:
    """Return the reason of a change, and what it has changed."""
    return described(context, event)


def section(context: ReportContext) -> str:
    """Return the importance of each feature, and the partial dependence on the most important ones."""
    now = context.model.stream_.view()
    if now.model is None:
        return ""
    coreset = now.coreset()
    targets = np.empty((len(coreset), 0)) if coreset.targets is None else coreset.targets
    flat = targets[:, None] if targets.ndim == 1 else targets
    some = np.linspace(0, len(coreset) - 1, min(len(coreset), MAX_ROWS)).astype(np.int64)
    rows = Rows(coreset.points, flat, coreset.weights, coreset.ids)[some]
    groups = context.feature_groups
    importance = permutation_importance(now, rows, list(groups.values()))
    lead = (
        "Permutation importance on the coreset: the increase of the mean loss if the values of a feature are shuffled. "
        "Correlated features can replace each other and then seem unimportant."
    )
    heads, values = ["feature", "importance", "increase of the mean loss"], [number(float(each)) for each in importance]
    pictures = [bar_table(heads, list(groups), importance, [values])]
    fitted = now.model.model
    if now.n_targets and (hasattr(fitted, "predict_proba") or not hasattr(fitted, "classes_")):
        pictures += [
            _partial_dependence(context, now, rows, column) for column in _top_numbers(now, groups, importance)
        ]
    return elements.section("Feature importance", lead, elements.pair(*pictures))


def permutation_importance(now: Any, rows: Rows, groups: Sequence[Sequence[int]]) -> FloatArray:
    """Return the increase of the mean loss if the columns of one feature are shuffled together, for each feature."""

    def mean_loss(points: FloatArray) -> float:
        return float(np.average(now.problem.losses(now.model, points, rows.targets)[0], weights=rows.weights))

    rng = np.random.default_rng(0)
    base = mean_loss(rows.points)
    importance = np.empty(len(groups))
    for j, columns in enumerate(groups):
        points = rows.points.copy()
        points[:, columns] = points[rng.permutation(len(points))][:, columns]
        importance[j] = mean_loss(points) - base
    return importance


def _top_numbers(now: Any, groups: dict[str, list[int]], importance: FloatArray) -> list[int]:
    """Return the most important numeric columns."""
    schema, found = now.problem.encoding.schema, []
    for columns, value in zip(groups.values(), importance, strict=True):
        is_number = len(columns) == 1 and (schema is None or columns[0] in schema.numeric_columns)
        if is_number and value > 0:
            found.append((-value, columns[0]))
    return [column for _, column in sorted(found)[:MAX_FEATURES]]


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
    is_class = hasattr(model, "predict_proba")
    what = f"probability of {context.model.classes_[-1]}" if is_class else context.target or "prediction"
    picture = response_chart(context.names[column], shown, np.array(means), str(what))
    name = context.names[column]
    return elements.figure(picture, f"Partial dependence: mean prediction if {name} has this value in all rows.")
