"""Tasks by name. A further task is one class and an entry in the table below.

Modules of tasks are imported on first use: the command line needs only their names for its help.
"""

from __future__ import annotations

from dataclasses import replace
from importlib import import_module
from typing import TYPE_CHECKING, cast

from batch2online.app.learners import WRAPPED_ALONE

if TYPE_CHECKING:
    from batch2online.app.cli.settings import Settings
    from batch2online.app.cli.tasks.task import Task

_CLASSES = {
    "classification": "ClassificationTask",
    "clustering": "ClusteringTask",
    "lowrank": "LowRankTask",
    "regression": "RegressionTask",
}
NAMES = tuple(_CLASSES)


def task_type(name: str) -> type[Task]:
    """Return the class of a task."""
    return cast("type[Task]", getattr(import_module("batch2online.app.cli.tasks.task"), _CLASSES[name]))


def task_for(settings: Settings, dataset: str | None = None) -> Task:
    """Return the task of the settings; the target of a built-in data set is known."""
    if settings.model is None and settings.task not in WRAPPED_ALONE:
        found = task_type(settings.task)
    else:
        wrapped = import_module("batch2online.app.cli.tasks.wrapped").TASKS
        if settings.task not in wrapped:
            from batch2online.app.inputs import DataError

            raise DataError(f"--task {settings.task} does not accept --estimator: choose {', '.join(wrapped)}.")
        found = wrapped[settings.task]
    if dataset is not None and found.has_targets and settings.target is None:
        from batch2online.datasets.tables import LABELS, TARGETS

        settings = replace(settings, target=(LABELS if found.labels else TARGETS).get(dataset, "target"))
    return found(settings)
