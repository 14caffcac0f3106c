"""The tasks by name. A further task is one class and one line in the table below.

Nothing heavy is imported before a task is asked for: the command line needs the names for its help.
"""

from __future__ import annotations

from dataclasses import replace
from importlib import import_module
from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    from batch2online.app.cli.settings import Settings
    from batch2online.app.cli.tasks.base import Task

_HOMES = {
    "classification": ("batch2online.app.cli.tasks.builtin", "ClassificationTask"),
    "clustering": ("batch2online.app.cli.tasks.builtin", "ClusteringTask"),
    "lowrank": ("batch2online.app.cli.tasks.builtin", "LowRankTask"),
    "regression": ("batch2online.app.cli.tasks.builtin", "RegressionTask"),
}
NAMES = tuple(_HOMES)
_WRAPPED = "batch2online.app.cli.tasks.wrapped"
WRAPPED_ALONE = ("density", "anomaly")
"""Tasks that need an estimator of the user's."""


def task_type(name: str) -> type[Task]:
    """Return the class of a task."""
    module, attribute = _HOMES[name]
    return cast("type[Task]", getattr(import_module(module), attribute))


def task_for(settings: Settings, dataset: str | None = None) -> Task:
    """Return the task that the settings ask for; a named data set has a target that need not be named."""
    if settings.model is not None or settings.task in WRAPPED_ALONE:
        found = import_module(_WRAPPED).TASKS.get(settings.task)
        if found is None:
            raise _no_such_task(settings.task)
        return cast("Task", found(_with_target(settings, dataset, found)))
    kind = task_type(settings.task)
    return kind(_with_target(settings, dataset, kind))


def _with_target(settings: Settings, dataset: str | None, kind: type[Task]) -> Settings:
    if dataset is None or not kind.has_targets or settings.target is not None:
        return settings
    from batch2online.datasets.tables import LABELS, TARGETS

    known = LABELS if kind.labels else TARGETS
    return replace(settings, target=known.get(dataset, "target"))


def _no_such_task(name: str) -> Exception:
    from batch2online.app.inputs import DataError

    return DataError(f"--estimator is not for --task {name}: choose {', '.join(import_module(_WRAPPED).TASKS)}.")
