"""What ``batch2online compare`` compares, and by which loss."""

from __future__ import annotations

from typing import Any

from batch2online._types import FloatArray
from batch2online.baselines.peers import COMPARE, OURS, Told, learners
from batch2online.cli.settings import Settings

__all__ = ["OURS", "contestants", "loss_for"]


def contestants(settings: Settings, X: FloatArray, y: FloatArray | None) -> dict[str, Any]:
    """Names and learners, ours first; a uniform sample may hold as many rows as our coreset of these rows does."""
    ours = settings.estimator()
    size = len(settings.estimator().partial_fit(X, *(() if y is None else (y,))).coreset_)
    return {OURS: ours, **learners(settings.task, Told(k=settings.k or 0, size=max(1, size)), COMPARE)}


def loss_for(settings: Settings) -> Any:
    """Return what they are measured by."""
    losses: dict[str, Any] = {"regression": "squared", "lowrank": "lowrank", "clustering": ("kmeans", settings.z)}
    return losses[settings.task]
