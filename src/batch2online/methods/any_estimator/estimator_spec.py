"""Specifications: estimators and other parameters as plain data, so that a file can name them without pickle.

Only classes of scikit-learn are named in a file. When it is read, those that :mod:`trust` lists are built again; others
only if the caller trusts them. What cannot be named is left out, and must be passed again. No parameter is a path: the
``memory`` of a pipeline is left out when it is written, and a file that names one is refused.
"""

from __future__ import annotations

import pickle
import warnings
from importlib import import_module
from typing import Any

import joblib
import numpy as np
from sklearn.base import BaseEstimator
from sklearn.pipeline import Pipeline

from batch2online.methods.any_estimator.sensitivity import Sensitivity
from batch2online.methods.any_estimator.trust import Trust, harmless, is_modest, public_name
from batch2online.methods.clustering.sketch import Clustering
from batch2online.methods.least_squares.sketch import Leverage
from batch2online.methods.low_rank.sketch import RidgeLeverage
from batch2online.refresh import Policy
from batch2online.schema import conforms
from batch2online.sketches.builder import CoresetBuilder
from batch2online.sketches.everything import Everything
from batch2online.sketches.uniform import Uniform
from batch2online.storage.tree import CheckpointError

_PLAIN = (type(None), bool, int, float, str)
_DTYPES = ("float32", "float64", "int32", "int64")
_PATTERNS = ("token_pattern",)
"""Parameters that may look like paths."""

_CORESETS: dict[str, type[CoresetBuilder]] = {
    each.__name__: each for each in (Clustering, Everything, Leverage, RidgeLeverage, Sensitivity, Uniform)
}


def spec_of(value: Any) -> Any:
    """Return what a file holds for a parameter: the value itself, a specification, or that it must be passed again."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, (*_PLAIN, Policy)):
        return _missing(value) if _is_path(value) else value
    if isinstance(value, CoresetBuilder) and not any(
        callable(part) and not hasattr(part, "__dataclass_fields__") for part in vars(value).values()
    ):
        return value  # none of its parts is a score of the user's own
    if isinstance(value, type) and value.__name__ in _DTYPES and value is getattr(np, value.__name__):
        return {"dtype": value.__name__}
    if value in _CORESETS.values():
        return {"coreset": str(value.__name__)}
    if isinstance(value, list | tuple):
        items = [spec_of(item) for item in value]
        return _missing(value) if any(map(is_missing, items)) else type(value)(items)
    if isinstance(value, BaseEstimator) and type(value).__module__.startswith("sklearn."):
        return _of_estimator(value)
    return _missing(value)


def quiet_spec_of(value: Any) -> Any:
    """Return the specification of a value, without warnings of parameters that are left out."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return spec_of(value)


def _of_estimator(value: Any) -> Any:
    given = value.get_params(deep=False)
    if given.get("memory") is not None:
        warnings.warn(f"memory of {type(value).__name__} is left out: a file holds no paths.", UserWarning, 2)
        given["memory"] = None
    params = {
        name: item if name in _PATTERNS and isinstance(item, str) else spec_of(item) for name, item in given.items()
    }
    if any(map(is_missing, params.values())) or _reads_files(params):
        return _missing(value)
    return {"module": type(value).__module__, "class": type(value).__qualname__, "params": params}


def built(value: Any, name: str, trust: Trust) -> Any:
    """Return the parameter of this name from what a checkpoint holds for it; CheckpointError if it needs more trust."""
    if isinstance(value, list | tuple):
        return type(value)(built(item, name, trust) for item in value)
    if _is_path(value):
        raise CheckpointError(f"{name} holds the path {value[:40]!r}, and no file may name one.")
    if not isinstance(value, dict):
        if not isinstance(value, (*_PLAIN, Policy, CoresetBuilder)):
            raise CheckpointError(f"{name} is no parameter.")
        return value
    if is_missing(value):
        raise CheckpointError(
            f"{name} was {value['missing']}, which no file can hold: use BatchToOnline.restore(path, {name}=...)."
        )
    if value.keys() == {"dtype"} and value["dtype"] in _DTYPES:
        return getattr(np, value["dtype"])
    if value.get("coreset") in _CORESETS:
        return _CORESETS[value["coreset"]]
    return _built_estimator(value, name, trust)


def _built_estimator(value: dict[str, Any], name: str, trust: Trust) -> Any:
    if value.keys() != {"module", "class", "params"} or not isinstance(value["params"], dict):
        raise CheckpointError(f"{name} is no estimator.")
    params = {
        key: item if key in _PATTERNS and isinstance(item, str) else built(item, name, trust)
        for key, item in value["params"].items()
    }
    if params.get("memory") is not None:
        raise CheckpointError(f"the memory of {value['class']} is a path, and no file may name one.")
    if _reads_files(params):
        raise CheckpointError(
            f"{value['class']} with input={params['input']!r} reads the files that its rows name, and no file may name "
            "one: use BatchToOnline.restore(path, estimator=...)."
        )
    try:
        estimator = _class_of(value["module"], value["class"], params, trust)(**params)
    except TypeError as error:
        raise CheckpointError(f"this version of scikit-learn has other parameters of {value['class']}.") from error
    if isinstance(estimator, Pipeline) and not conforms(estimator.steps, list[tuple[str, Any]]):
        raise CheckpointError("the steps of a pipeline have names.")
    if hasattr(estimator, "_validate_params"):
        estimator._validate_params()  # what fit would refuse, perhaps much later
    return estimator


def _class_of(module: str, name: str, params: dict[str, Any], trust: Trust) -> Any:
    if trust.covers(f"{module}.{name}"):
        return _sklearn_class(module, name)
    found = harmless().get(public_name(module, name))
    if found is not None and is_modest(params):
        return found
    which = "its parameters ask for much work" if found is not None else "it is not known to be harmless"
    raise CheckpointError(
        f"it would make {module}.{name}, and {which}. If you trust the file, use "
        f'load(path, trusted=["{module}.{name}"]) or BatchToOnline.restore(path, estimator=...).'
    )


def _sklearn_class(module: str, name: str) -> Any:
    if not module.startswith("sklearn."):
        raise CheckpointError(f"a checkpoint cannot name {module}.{name}.")
    try:
        found = getattr(import_module(module), name)
    except (ImportError, AttributeError) as error:
        raise CheckpointError(f"this version of scikit-learn has no {module}.{name}.") from error
    if not (isinstance(found, type) and issubclass(found, BaseEstimator)):
        raise CheckpointError(f"{module}.{name} is no estimator.")
    return found


def is_same(own: Any, other: Any) -> bool:
    """Whether two settings are the same, estimators by their class and parameters."""
    if isinstance(own, CoresetBuilder) and isinstance(other, CoresetBuilder):
        return own._settings() == other._settings()
    if own is other or (isinstance(own, Policy) and own == other):
        return True
    try:
        return type(own) is type(other) and bool(joblib.hash(own) == joblib.hash(other))
    except (pickle.PicklingError, AttributeError, TypeError):  # functions without a name have nothing to compare
        return False


def _missing(value: object) -> dict[str, str]:
    return {"missing": f"{type(value).__name__} {getattr(value, '__name__', '')}".strip()}


def _reads_files(params: dict[str, Any]) -> bool:
    """Whether rows are names of files, or files, that the estimator reads: the text vectorizers of scikit-learn do."""
    return params.get("input") in ("filename", "file")


def _is_path(value: Any) -> bool:
    """Whether a parameter looks like a path; none of scikit-learn's own values does."""
    return isinstance(value, str) and any(mark in value for mark in "/\\~")


def is_missing(value: Any) -> bool:
    """Whether a specification says that the value must be passed again."""
    return isinstance(value, dict) and "missing" in value
