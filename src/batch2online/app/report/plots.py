"""The picture of a model on matplotlib axes, in matplotlib's own style."""

from __future__ import annotations

from typing import Any

import matplotlib.pyplot as plt
import numpy as np

from batch2online.app.report.context import ReportContext, of_model
from batch2online.app.report.figures import principal_axes
from batch2online.app.report.models import MOST_BARS, spread
from batch2online.numerics.distances import nearest


def plot(model: Any, axes: Any = None) -> Any:
    """Draw what the model is: coefficients, clusters, variance kept; else when it changed."""
    axes = plt.figure().add_subplot() if axes is None else axes
    told = of_model(model)
    draw = {"OnlineRegression": _coefficients, "OnlineClustering": _clusters, "OnlineLowRank": _shares}
    draw.get(type(model).__name__, _changes)(told, axes)
    axes.set_title(str(told.headline).partition(";")[0])
    return axes


def _coefficients(told: ReportContext, axes: Any) -> None:
    coefficients = np.atleast_2d(told.model.coef_)[0]
    effects = coefficients * spread(told.model.coreset_)[1]
    order = np.argsort(-np.abs(effects), kind="stable")[:MOST_BARS][::-1]
    axes.barh([told.names[j] for j in order], effects[order])
    axes.set_xlabel("coefficient times the spread of its input")


def _clusters(told: ReportContext, axes: Any) -> None:
    coreset, centers = told.model.coreset_, told.model.cluster_centers_
    mean, directions, _ = principal_axes(coreset.points, coreset.weights)
    flat, marks = (coreset.points - mean) @ directions.T, (centers - mean) @ directions.T
    axes.scatter(flat[:, 0], flat[:, 1], c=nearest(coreset.points, centers)[0], cmap="tab10", s=8)
    axes.scatter(marks[:, 0], marks[:, 1], marker="X", s=80, color="black")
    axes.set_xlabel("first principal axis")
    axes.set_ylabel("second principal axis")


def _shares(told: ReportContext, axes: Any) -> None:
    shares = np.sort(told.model.explained_variance_ratio_)[::-1]
    axes.bar(np.arange(1, len(shares) + 1), 100 * shares)
    axes.set_xlabel("component")
    axes.set_ylabel("variance kept, %")


def _changes(told: ReportContext, axes: Any) -> None:
    events = told.model.changes_
    axes.stem([event.at for event in events], [event.magnitude for event in events]) if events else None
    axes.set_xlabel("rows seen")
    axes.set_ylabel("how far the model moved")
