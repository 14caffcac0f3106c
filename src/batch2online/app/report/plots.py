"""A figure of a model on matplotlib axes."""

from __future__ import annotations

from typing import Any

import matplotlib.pyplot as plt
import numpy as np

from batch2online.app.report.context import ReportContext, model_context
from batch2online.app.report.figures import principal_components
from batch2online.app.report.model_figures import MAX_BARS, moments
from batch2online.numerics.distances import nearest


def plot(model: Any, axes: Any = None) -> Any:
    """Draw coefficients, clusters or explained variance of a model; for other models its changes."""
    axes = plt.figure().add_subplot() if axes is None else axes
    context = model_context(model)
    draw = {"OnlineRegression": _coefficients, "OnlineClustering": _clusters, "OnlineLowRank": _shares}
    draw.get(type(model).__name__, _changes)(context, axes)
    axes.set_title(str(context.headline).partition(";")[0])
    return axes


def _coefficients(context: ReportContext, axes: Any) -> None:
    coefficients = np.atleast_2d(context.model.coef_)[0]
    effects = coefficients * moments(context.model.coreset_)[1]
    order = np.argsort(-np.abs(effects), kind="stable")[:MAX_BARS][::-1]
    axes.barh([context.names[j] for j in order], effects[order])
    axes.set_xlabel("coefficient times standard deviation")


def _clusters(context: ReportContext, axes: Any) -> None:
    coreset, centers = context.model.coreset_, context.model.cluster_centers_
    mean, directions, _ = principal_components(coreset.points, coreset.weights)
    flat, marks = (coreset.points - mean) @ directions.T, (centers - mean) @ directions.T
    axes.scatter(flat[:, 0], flat[:, 1], c=nearest(coreset.points, centers)[0], cmap="tab10", s=8)
    axes.scatter(marks[:, 0], marks[:, 1], marker="X", s=80, color="black")
    axes.set_xlabel("first principal component")
    axes.set_ylabel("second principal component")


def _shares(context: ReportContext, axes: Any) -> None:
    shares = np.sort(context.model.explained_variance_ratio_)[::-1]
    axes.bar(np.arange(1, len(shares) + 1), 100 * shares)
    axes.set_xlabel("component")
    axes.set_ylabel("explained variance, %")


def _changes(context: ReportContext, axes: Any) -> None:
    events = context.model.changes_
    axes.stem([event.at for event in events], [event.magnitude for event in events]) if events else None
    axes.set_xlabel("rows seen")
    axes.set_ylabel("size of the change")
