"""What ``batch2online compare`` compares, and by which loss."""

from __future__ import annotations

from typing import Any

from batch2online._types import FloatArray
from batch2online.app.cli.settings import Settings
from batch2online.app.cli.tasks import task_for
from batch2online.app.cli.tasks.wrapped import WrappedTask
from batch2online.baselines import FollowTheLeader
from batch2online.baselines.peers import COMPARE, OURS, Told, learners, of_loss

__all__ = ["OURS", "contestants"]


def contestants(settings: Settings, X: FloatArray, y: FloatArray | None) -> dict[str, Any]:
    """Names and learners, ours first; a uniform sample may hold as many rows as our coreset of these rows does."""
    ours, task = settings.estimator(), task_for(settings)
    if isinstance(task, WrappedTask):
        return {OURS: ours, "the same on all rows, at doublings": FollowTheLeader(task.batch(), growth=2.0)}
    size = max(1, len(settings.estimator().partial_fit(X, *(() if y is None else (y,))).coreset_))
    if settings.loss not in (None, "squared"):
        return {OURS: ours, **of_loss(str(settings.loss), size, **settings.linear("quantile", "power", "delta"))}
    return {OURS: ours, **learners(settings.task, Told(k=task.count(y), size=size), COMPARE)}
