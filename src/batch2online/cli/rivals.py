"""What ``batch2online compare`` compares, and by which loss."""

from __future__ import annotations

from typing import Any

from batch2online.baselines.peers import COMPARE, OURS, Told, learners
from batch2online.cli.settings import Settings

__all__ = ["OURS", "contestants", "loss_for"]


def contestants(settings: Settings) -> dict[str, Any]:
    """Names and learners, ours first."""
    return {OURS: settings.estimator(), **learners(settings.task, Told(k=settings.k or 0), COMPARE)}


def loss_for(settings: Settings) -> Any:
    """Return what they are measured by."""
    losses: dict[str, Any] = {"regression": "squared", "lowrank": "lowrank", "clustering": ("kmeans", settings.z)}
    return losses[settings.task]
