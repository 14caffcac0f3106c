"""Options of a new model, each declared once: its type, its bounds, and whether a request may give it at all.

They are those of ``batch2online run`` that concern no files, and parameters of estimators. None is a path.
"""

from __future__ import annotations

import importlib
import re
from typing import Annotated, Any, Literal, NewType, get_args, get_type_hints

import msgspec
from msgspec import Meta

from batch2online.app.cli import settings as of_command
from batch2online.app.cli import tasks
from batch2online.app.inputs import DataError
from batch2online.app.serve.problems import RequestError
from batch2online.numerics.memory import parsed_bytes

Settings = NewType("Settings", dict[str, Any])
"""Options as a request gives them; :class:`Options` declares them."""

Count = Annotated[int, Meta(ge=1, le=10**9)]
Share = Annotated[float, Meta(ge=0, le=1)]
Inside = Annotated[float, Meta(gt=0, lt=1)]
Price = Annotated[float, Meta(ge=0)]


class Options(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """Options of a new model: those of ``batch2online run`` that concern no files, and parameters of estimators."""

    task: Literal["classification", "clustering", "lowrank", "regression", "density", "anomaly"]
    target: str | None = None
    estimator: str | None = None
    k: Annotated[int, Meta(ge=1, le=1_000)] | None = None
    z: Annotated[float, Meta(ge=1)] | None = None
    loss: str | None = None
    alpha: Price | None = None
    l1_ratio: Share | None = None
    quantile: Inside | None = None
    power: Annotated[float, Meta(gt=1, lt=10)] | None = None
    delta: Annotated[float, Meta(gt=1)] | None = None
    class_weight: Literal["balanced"] | None = None
    columns: list[str] | None = None
    exclude: list[str] | None = None
    epsilon: Inside | None = None
    coreset_size: Count | None = None
    refresh: str | int | None = None
    half_life: Count | str | None = None
    window: Count | None = None
    history: Literal["memory", "coreset"] | None = None
    seed: Annotated[int, Meta(ge=0, le=2**32 - 1)] | None = None
    keep_history: bool | None = None
    churn_price: Price | None = None
    memory: str | int | None = None


_TYPES: dict[str, Any] = get_type_hints(Options, include_extras=True)
_OF_ESTIMATORS = ("keep_history", "churn_price", "memory")
_WORDS = {"array": "list of strings", "bool": "bool (true or false)"}


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
    own = {name: given.pop(name) for name in _OF_ESTIMATORS if name in given}
    if "estimator" in given:
        given["model"] = _allowed(given.pop("estimator"), packages)
    try:
        model = tasks.task_for(of_command.Settings(**given)).estimator()
        if "columns" in model.get_params(deep=False):
            own["columns"] = "auto"
        if "memory" in own:
            parsed_bytes(own["memory"], "memory")
        return model.set_params(**own)
    except (DataError, TypeError, ValueError) as error:
        raise RequestError(422, str(error).replace("--", "")) from error


def _checked(settings: dict[str, Any]) -> dict[str, Any]:
    """Return the options that are given, after a check of their names, types and bounds."""
    unknown = sorted(settings.keys() - _TYPES.keys())
    if unknown:
        raise RequestError(422, f"Unknown options {unknown[:5]}: choose from {', '.join(sorted(_TYPES))}.")
    if "task" not in settings:
        raise RequestError(422, 'Options need a task, such as {"task": "regression", "target": "y"}.')
    for name, value in settings.items():
        try:
            msgspec.convert(value, _TYPES[name])
        except msgspec.ValidationError as error:
            raise RequestError(422, f"{name} must be {_described(name, str(error))}, got {value!r}.") from error
    given = {name: value for name, value in settings.items() if value is not None}
    given |= {name: tuple(given[name]) for name in ("columns", "exclude") if name in given}
    return given | {name: str(given[name]) for name in ("half_life", "refresh") if name in given}


def _described(name: str, error: str) -> str:
    """Return what an option must be: its choices, or what its declaration expects."""
    choices = [f'"{choice}"' for part in (_TYPES[name], *get_args(_TYPES[name])) for choice in get_args(part)
               if isinstance(choice, str)]  # fmt: skip
    if choices:
        return " or ".join(choices)
    expected = error.partition(", got")[0].removeprefix("Expected ").replace("`", "").replace(" | null", "")
    return f"of type {_WORDS.get(expected, expected)}"


def _allowed(name: str, packages: tuple[str, ...]) -> str:
    """Return the name of an estimator if it is a class of these packages."""
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
    return name
