"""Estimators as plain data, so that a checkpoint can name them without pickle.

Only classes of scikit-learn are named in a file, and only they are looked up when it is read, so a file cannot make
anything else run. What cannot be named is left out, and must be given again.
"""

from __future__ import annotations

import pickle
from importlib import import_module
from typing import Any

import joblib
import numpy as np
from sklearn.base import BaseEstimator

from batch2online import coresets
from batch2online.coresets.construction import Construction
from batch2online.persistence.checkpoint import CheckpointError
from batch2online.refresh import Policy

_PLAIN = (type(None), bool, int, float, str)


def recipe(value: Any) -> Any:
    """What a checkpoint holds for a parameter: the value itself, a recipe, or a note that it must be given again."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, (*_PLAIN, Policy)):
        return value
    if isinstance(value, Construction) and not _has_function(value):
        return value
    if value in (getattr(coresets, name) for name in coresets.__all__):
        return {"construction": str(value.__name__)}
    if isinstance(value, list | tuple):
        items = [recipe(item) for item in value]
        return _missing(value) if any(map(_is_missing, items)) else type(value)(items)
    if isinstance(value, BaseEstimator) and type(value).__module__.startswith("sklearn."):
        return _of_estimator(value)
    return _missing(value)


def _of_estimator(value: Any) -> Any:
    params = {name: recipe(item) for name, item in value.get_params(deep=False).items()}
    if any(map(_is_missing, params.values())):
        return _missing(value)
    return {"module": type(value).__module__, "class": type(value).__qualname__, "params": params}


def made(value: Any, name: str) -> Any:
    """The parameter of this name from what a checkpoint holds for it."""
    if isinstance(value, list | tuple):
        return type(value)(made(item, name) for item in value)
    if not isinstance(value, dict):
        return value
    if _is_missing(value):
        raise CheckpointError(
            f"{name} was {value['missing']}, which no file can hold: use BatchToOnline.restore(path, {name}=...)."
        )
    if "construction" in value:
        return getattr(coresets, value["construction"])
    return _sklearn_class(value)(**{key: made(item, name) for key, item in value["params"].items()})


def _sklearn_class(value: dict[str, Any]) -> Any:
    if not value["module"].startswith("sklearn."):
        raise CheckpointError(f"a checkpoint cannot name {value['module']}.{value['class']}.")
    try:
        found = getattr(import_module(value["module"]), value["class"])
    except (ImportError, AttributeError) as error:
        raise CheckpointError(f"this version of scikit-learn has no {value['module']}.{value['class']}.") from error
    if not (isinstance(found, type) and issubclass(found, BaseEstimator)):
        raise CheckpointError(f"{value['module']}.{value['class']} is no estimator.")
    return found


def is_same(own: Any, other: Any) -> bool:
    """Whether two settings are the same, estimators by their class and parameters."""
    if isinstance(own, Construction) and isinstance(other, Construction):
        return own._settings() == other._settings()
    if own is other or (isinstance(own, Policy) and own == other):
        return True
    try:
        return type(own) is type(other) and bool(joblib.hash(own) == joblib.hash(other))
    except (pickle.PicklingError, AttributeError, TypeError):  # functions without a name have nothing to compare
        return False


def _missing(value: object) -> dict[str, str]:
    return {"missing": f"{type(value).__name__} {getattr(value, '__name__', '')}".strip()}


def _is_missing(value: Any) -> bool:
    return isinstance(value, dict) and "missing" in value


def _has_function(construction: Construction) -> bool:
    """Whether a construction holds a score of the user's own."""
    return any(callable(value) and not hasattr(value, "__dataclass_fields__") for value in vars(construction).values())
