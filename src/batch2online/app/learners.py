"""Estimators from settings as the command line and requests write them: options by name, with values of JSON."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from batch2online.declaration import Setting, settings_of
from batch2online.settings import TASKS, WrappedSettings

WRAPPED_ALONE = {"density": "sklearn.mixture.GaussianMixture", "anomaly": "sklearn.ensemble.IsolationForest"}
"""Tasks that need an estimator to wrap, with an example."""

TASK_NAMES = (*TASKS, *WRAPPED_ALONE)
HAVE_TARGETS = frozenset({"regression", "classification"})

_ESTIMATORS = {
    "classification": "OnlineClassifier",
    "clustering": "OnlineClustering",
    "lowrank": "OnlineLowRank",
    "regression": "OnlineRegression",
}
_WRAPPED_LOSSES = {
    "regression": "squared",
    "classification": None,
    "clustering": "squared_distance",
    "density": "negative_log_likelihood",
    "anomaly": "negative_log_likelihood",
}
"""Tasks of wrapped estimators, with their losses; None is that of the estimator."""


def options_of(task: str, is_wrapped: bool = False) -> dict[str, Setting]:
    """Return the options of a task by name; those of a wrapped estimator are the same for all tasks."""
    cls: Any = WrappedSettings if is_wrapped or task in WRAPPED_ALONE else TASKS[task]
    return {each.option: each for each in settings_of(cls) if each.option}


def all_options() -> dict[str, dict[str, Setting]]:
    """Return every option, as its tasks declare it; the task of a wrapped estimator is called ``--estimator``."""
    found: dict[str, dict[str, Setting]] = {}
    tasks = {task: options_of(task) for task in TASKS} | {"--estimator": options_of("", is_wrapped=True)}
    for task, options in tasks.items():
        for name, each in options.items():
            found.setdefault(name, {})[task] = each
    return found


def check_options(task: str, target: str | None, given: Mapping[str, Any], is_wrapped: bool = False) -> None:
    """Raise ValueError unless a task has all these options, and is given those that it needs."""
    if task in WRAPPED_ALONE and not is_wrapped:
        raise ValueError(f"--task {task} needs --estimator, such as {WRAPPED_ALONE[task]}.")
    if is_wrapped and task not in _WRAPPED_LOSSES:
        raise ValueError(f"--task {task} does not accept --estimator: choose {', '.join(_WRAPPED_LOSSES)}.")
    if task in HAVE_TARGETS and target is None:
        raise ValueError(f"--task {task} needs --target, the column to predict.")
    if task not in HAVE_TARGETS and target is not None:
        raise ValueError(f"--task {task} has no target: remove --target.")
    if is_wrapped and "k" in given:
        raise ValueError("--k does not apply to --estimator: use --set n_clusters=K.")
    known = options_of(task, is_wrapped)
    for name in given:
        if name not in known:
            raise ValueError(f"--task {task} has no {flag(name)}: remove it.")
    for name, each in known.items():
        if each.is_required and name not in given:
            raise ValueError(f"--task {task} needs {flag(name)}, the {each.brief[0].lower()}{each.brief[1:-1]}.")
        needed, value = each.needs or ("", None)
        if needed and name in given and (needed not in given or value not in (None, given[needed])):
            raise ValueError(f"{flag(name)} needs {flag(needed)}{'' if value is None else f' {value}'}.")


def flag(name: str) -> str:
    """Return the name of an option as it is written on the command line."""
    return f"--{name.replace('_', '-')}"


def estimator_of(task: str, given: Mapping[str, Any], batch: Any = None) -> Any:
    """Return an unfitted estimator of a task with the options that were given; it wraps ``batch`` if there is one."""
    import batch2online  # the estimators need NumPy, which the help of the command does without

    known = options_of(task, is_wrapped=batch is not None)
    written = {name: each.written_default for name, each in known.items() if each.written_default is not None}
    arguments = {known[name].name: known[name].value(value) for name, value in (written | dict(given)).items()}
    if batch is None:
        return getattr(batch2online, _ESTIMATORS[task])(**arguments)
    from batch2online.methods.any_estimator.weighted_fit import step_without_weights

    resample = hasattr(batch, "fit") and step_without_weights(batch) is not None
    return batch2online.BatchToOnline(batch, loss=_WRAPPED_LOSSES[task], resample=resample, **arguments)
