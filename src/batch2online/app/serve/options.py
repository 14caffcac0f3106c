"""Options of a new model: the settings of its estimator, and those of ``batch2online run`` that concern no files."""

from __future__ import annotations

import importlib
import re
from dataclasses import replace
from functools import reduce
from operator import or_
from typing import Annotated, Any, Literal, NewType

import msgspec
from msgspec import Meta

from batch2online import declaration
from batch2online.app import learners
from batch2online.app.learners import TASK_NAMES, all_options, check_options, options_of
from batch2online.app.serve.problems import RequestError
from batch2online.declaration import Setting

Settings = NewType("Settings", dict[str, Any])
"""Options as a request gives them; :data:`Options` describes them."""

_OWN: dict[str, Any] = {
    "target": str | None,
    "estimator": str | None,
    "columns": list[str] | None,
    "exclude": list[str] | None,
}
"""Options that are no settings of an estimator."""


def _kinds(each: Setting) -> tuple[Any, ...]:
    """Return the types of the values of a setting that a request may send: no path, which is local."""
    return tuple(part for part in each.written_parts if part is not str or not each.is_path)


def _sent(each: Setting) -> Setting:
    """Return a setting with an upper bound of its integers."""
    is_bounded = int not in each.written_parts or each.bounds.keys() & {"le", "lt"}
    return each if is_bounded else replace(each, le=each.largest_sent)


def _field(*declared: Setting) -> Any:
    """Return the type of an option, as the tasks that have it declare it."""
    found: dict[Any, None] = {}
    for each in map(_sent, declared):
        bounds: Any = each.bounds
        for kind in _kinds(each):
            found[Annotated[kind, Meta(**bounds)] if kind in (int, float) else kind] = None
    return Annotated[reduce(or_, found) | None, Meta(description=declared[0].brief)]


Options: Any = msgspec.defstruct(
    "Options",
    [
        ("task", Literal[TASK_NAMES]),
        *((name, kind, None) for name, kind in _OWN.items()),
        *((name, _field(*declared.values()), None) for name, declared in all_options().items()),
    ],
    forbid_unknown_fields=True,
    kw_only=True,
    module=__name__,
)


def estimator_of(settings: dict[str, Any], packages: tuple[str, ...]) -> Any:
    """Return an unfitted estimator with the options of a new model.

    Parameters
    ----------
    settings : dict
        As a request gives them.
    packages : tuple of str
        Those whose estimators a request may name.
    """
    given = _checked(settings)
    task, is_wrapped = given["task"], "estimator" in given
    options = {name: value for name, value in given.items() if name not in _OWN and name != "task"}
    try:
        check_options(task, given.get("target"), options, is_wrapped)
        batch = _allowed(given["estimator"], packages)() if is_wrapped else None
        model = learners.estimator_of(task, options, batch)
        declaration.check(model)
    except (TypeError, ValueError) as error:
        raise RequestError(422, str(error).replace("--", "")) from error
    return model


def _checked(settings: dict[str, Any]) -> dict[str, Any]:
    """Return the options that are given, after a check of their names, types and bounds."""
    unknown = sorted(settings.keys() - set(Options.__struct_fields__))
    if unknown:
        known = ", ".join(sorted(Options.__struct_fields__))
        raise RequestError(422, f"Unknown options {unknown[:5]}: choose from {known}.")
    if settings.get("task") not in TASK_NAMES:
        choices = " or ".join(f'"{name}"' for name in TASK_NAMES)
        found = "" if "task" not in settings else f", got {settings['task']!r}"
        example = '{"task": "regression", "target": "y"}'
        raise RequestError(422, f"Options need a task, {choices}, such as {example}{found}.")
    known_of_task = options_of(settings["task"], settings.get("estimator") is not None)
    for name, value in settings.items():
        each = known_of_task.get(name)
        try:
            if each is not None or name in _OWN:
                msgspec.convert(value, _OWN[name] if each is None else _field(each))
        except msgspec.ValidationError as error:
            expected = "a list of strings" if each is None else _sent(each).written_words(_kinds(each))
            expected = "a string" if name in ("target", "estimator") else expected
            raise RequestError(422, f"{name} must be {expected}, got {value!r}.") from error
    return {name: value for name, value in settings.items() if value is not None}


def _allowed(name: str, packages: tuple[str, ...]) -> type:
    """Return the estimator of this name if it is a class of these packages."""
    expected = f"estimator must be the dotted name of a class of {', '.join(packages)}, got {name!r}"
    if not re.fullmatch(r"\w+(\.\w+)+", name, re.ASCII) or name.partition(".")[0] not in packages:
        raise RequestError(422, f"{expected}.")
    module, _, attribute = name.rpartition(".")
    try:
        found = getattr(importlib.import_module(module), attribute)
    except Exception as error:  # of the module that is imported
        raise RequestError(422, f"{expected}: {error}.") from error
    if not (isinstance(found, type) and hasattr(found, "fit") and hasattr(found, "get_params")):
        raise RequestError(422, f"{expected}, which is no estimator.")
    return found
