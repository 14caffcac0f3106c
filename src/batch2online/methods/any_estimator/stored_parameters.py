"""Parameters of wrapped estimators in files.

Plain values, policies and coresets are stored as they are; estimators as their classes and parameters, which are plain
data, no path among them. What else there is, such as a function, must be passed again.
"""

from __future__ import annotations

import json
import warnings
from contextlib import suppress
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

from batch2online.engine.builder import CoresetBuilder
from batch2online.homes import import_all
from batch2online.methods.any_estimator import sensitivity  # noqa: F401  # files may name its classes
from batch2online.methods.any_estimator.object_table import (
    SEQUENCES,
    EntryReader,
    UnnameableError,
    Writer,
    checked_entries,
    estimator_class,
    name_of,
    types_beside,
)
from batch2online.refresh import Policy
from batch2online.schema import classes
from batch2online.storage.tree import CheckpointError, encoded
from batch2online.tables.options import Columns

_KINDS = {*SEQUENCES, "mapping", "named", "slice", "unfitted", "value"}
"""Entries of parameters."""

_PATTERNS = ("token_pattern",)
"""Parameters that may resemble paths."""


def stored_parameter(value: Any) -> Any:
    """Return what a file holds of a parameter, or that it must be passed again."""
    if isinstance(value, CoresetBuilder):
        with suppress(TypeError):  # of a score of the user's own
            encoded(value)
            return value
    if isinstance(value, type) and issubclass(value, CoresetBuilder) and classes.get(value.__name__) is value:
        return {"coreset": value.__name__}
    if value is None or isinstance(value, bool | int | float | str | Policy | Columns):
        return value
    writer = _ParameterWriter()
    try:
        last = writer.reference(value)
    except (TypeError, UnnameableError, CheckpointError):
        return {"missing": f"{type(value).__name__} {getattr(value, '__name__', '')}".strip()}
    return {"parts": json.dumps([*writer.entries, ("value", last)])}


def quietly_stored(value: Any) -> Any:
    """Return the same without warnings of parameters that are left out."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return stored_parameter(value)


def is_missing(stored: object) -> bool:
    """Return whether a file holds no value of a parameter."""
    return isinstance(stored, dict) and "missing" in stored


def parameter_of(stored: Any, name: str) -> Any:
    """Return the parameter of this name from what a file holds of it."""
    match stored:
        case None | bool() | int() | float() | str() | Policy() | CoresetBuilder() | Columns():
            return stored
        case {"coreset": str() as kind}:
            import_all()
            if issubclass(classes.get(kind, object), CoresetBuilder):
                return classes[kind]
        case {"parts": str() as text}:
            return _parts(text, name)
        case {"missing": str() as found}:
            raise CheckpointError(
                f"{name} was {found}, which no file can hold: use BatchToOnline.restore(path, {name}=...)."
            )
    raise CheckpointError(f"{name} is no parameter.")


def _parts(text: str, name: str) -> Any:
    try:
        entries = checked_entries(text)
        if {kind for kind, _ in entries} - _KINDS or types_beside(entries):
            raise UnnameableError("it is no parameter.")
        return _ParameterReader([]).read(entries)
    except CheckpointError:
        raise
    except Exception as error:
        raise CheckpointError(f"{name}: {error}") from error


def _unfitted(name: str, params: dict[str, Any]) -> BaseEstimator:
    """Return an estimator with these parameters, which name no files."""
    kind = estimator_class(name)
    for key, value in params.items():
        _check_no_path(kind, key, value)
    try:
        estimator = kind(**params)
    except TypeError as error:
        raise CheckpointError(f"this version of scikit-learn has other parameters of {kind.__name__}.") from error
    if hasattr(estimator, "_parameter_constraints"):
        estimator._validate_params()  # what fit would refuse, perhaps much later
    return estimator


def _check_no_path(kind: type, name: str, value: Any) -> None:
    """Raise :class:`CheckpointError` for a parameter that is a path, or resembles one, or makes paths of rows."""
    if name == "memory" and value is not None:
        raise CheckpointError(f"the memory of {kind.__name__} is a path, and no file may name one.")
    if name == "input" and value in ("filename", "file"):
        raise CheckpointError(
            f"{kind.__name__} with input={value!r} reads the files that its rows name, and no file may name one: use "
            "BatchToOnline.restore(path, estimator=...)."
        )
    if isinstance(value, str) and name not in _PATTERNS and any(mark in value for mark in "/\\~"):
        raise CheckpointError(f"{name} of {kind.__name__} is the path {value[:40]!r}, and no file may name one.")


class _ParameterWriter(Writer):
    """The table of a parameter. Estimators in it are their classes and parameters, whether they are fitted or not."""

    def reference(self, value: Any) -> Any:
        value = value.item() if isinstance(value, np.generic) else value
        if value is None or type(value) in (bool, int, float, str):
            return value
        self.entries.append(self.entry(value))
        return {"at": len(self.entries) - 1}

    def entry(self, value: Any) -> tuple[str, Any]:
        if not isinstance(value, BaseEstimator):
            plain = self.plain_entry(value)
            if plain is None:
                raise TypeError(f"no file can hold a {name_of(type(value))}")
            return plain
        kind, params = type(value), value.get_params(deep=False)
        if params.get("memory") is not None:
            warnings.warn(f"memory of {kind.__name__} is left out: a file holds no paths.", UserWarning, 2)
            params["memory"] = None
        for name, item in params.items():
            _check_no_path(kind, name, item)
        estimator_class(name_of(kind))
        return "unfitted", [name_of(kind), [[name, self.reference(item)] for name, item in params.items()]]


class _ParameterReader(EntryReader):
    """The objects of the table of a parameter."""

    def made_of(self, kind: str, content: Any) -> object:
        if kind == "value":
            return self.value(content)
        if kind == "unfitted":
            return _unfitted(content[0], {name: self.value(item) for name, item in content[1]})
        return super().made_of(kind, content)
