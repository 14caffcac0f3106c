"""The tasks by name. A further task is one file here and one line in the table below.

Nothing heavy is imported before a task is asked for: the command line needs the names for its help.
"""

from __future__ import annotations

from dataclasses import replace
from importlib import import_module
from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    from batch2online.cli.settings import Settings
    from batch2online.cli.tasks.base import Task

_HOMES = {
    "classification": ("batch2online.cli.tasks.classification", "ClassificationTask"),
    "clustering": ("batch2online.cli.tasks.clustering", "ClusteringTask"),
    "lowrank": ("batch2online.cli.tasks.low_rank", "LowRankTask"),
    "regression": ("batch2online.cli.tasks.regression", "RegressionTask"),
}
NAMES = tuple(_HOMES)


def task_type(name: str) -> type[Task]:
    """Return the class of a task."""
    module, attribute = _HOMES[name]
    return cast("type[Task]", getattr(import_module(module), attribute))


def task_for(settings: Settings, dataset: str | None = None) -> Task:
    """Return the task that the settings ask for; a named data set has a target that need not be named."""
    kind = task_type(settings.task)
    if dataset is not None and kind.has_targets and settings.target is None:
        from batch2online.datasets.tables import LABELS, TARGETS

        known = LABELS if kind.labels else TARGETS
        settings = replace(settings, target=known.get(dataset, "target"))
    return kind(settings)
