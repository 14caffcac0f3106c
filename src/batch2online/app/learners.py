"""Estimators from settings as the command line and requests write them: options by name, with values of JSON."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from batch2online.declaration import Setting, settings_of
from batch2online.settings import TASKS, WrappedSettings

WRAPPED_ALONE = ("density", "anomaly")
"""Tasks that need an estimator to wrap."""

TASK_NAMES = (*TASKS, *WRAPPED_ALONE)


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


def check_options(task: str, given: Mapping[str, Any], known: Mapping[str, Setting]) -> None:
    """Raise ValueError unless a task has all these options, and is given those that it needs."""
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


def arguments_of(given: Mapping[str, Any], known: Mapping[str, Setting]) -> dict[str, Any]:
    """Return options as arguments of an estimator, with the defaults that differ from those of Python."""
    defaults = {name: each.written_default for name, each in known.items() if each.written_default is not None}
    written = {known[name]: value for name, value in (defaults | dict(given)).items()}
    return {each.name: value if each.parse is None else each.parse(value) for each, value in written.items()}
