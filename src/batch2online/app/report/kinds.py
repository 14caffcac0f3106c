"""Which module tells of which kind of model: a file for each task, with ``section`` and ``why``."""

from __future__ import annotations

from types import ModuleType
from typing import Any

from batch2online.app.report import classification, clustering, low_rank, other, regression, wrapped

KINDS: dict[str, ModuleType] = {
    "OnlineClassifier": classification,
    "OnlineRegression": regression,
    "OnlineLowRank": low_rank,
    "OnlineClustering": clustering,
    "BatchToOnline": wrapped,
}
"""Modules by the name of the estimator; a further one is an entry here."""


def kind_of(model: Any) -> ModuleType:
    """Return the module that tells of a model."""
    return KINDS.get(type(model).__name__, other)
