"""What ``batch2online compare`` compares, and by which loss."""

from __future__ import annotations

from typing import Any

from batch2online._types import FloatArray
from batch2online.baselines.peers import COMPARE, OURS, Told, learners, of_loss
from batch2online.cli.settings import Settings
from batch2online.cli.tasks import task_for

__all__ = ["OURS", "contestants"]


def contestants(settings: Settings, X: FloatArray, y: FloatArray | None) -> dict[str, Any]:
    """Names and learners, ours first; a uniform sample may hold as many rows as our coreset of these rows does."""
    ours = settings.estimator()
    size = max(1, len(settings.estimator().partial_fit(X, *(() if y is None else (y,))).coreset_))
    if settings.loss not in (None, "squared"):
        return {OURS: ours, **of_loss(str(settings.loss), size, **settings.linear("quantile", "power", "delta"))}
    return {OURS: ours, **learners(settings.task, Told(k=task_for(settings).count(y), size=size), COMPARE)}
