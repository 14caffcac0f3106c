"""The estimator that ``--estimator`` names: a dotted class name, or a Python file that defines ``model``.

Naming an estimator runs its code, as ``python`` does. A model file never names code to run.
"""

from __future__ import annotations

import ast
import runpy
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from batch2online.app.inputs import DataError


def named_estimator(name: str, sets: Sequence[str] = ()) -> Any:
    """Return the estimator of this name, with these parameters.

    >>> named_estimator("sklearn.linear_model.Ridge", ["alpha=0.5"])
    Ridge(alpha=0.5)
    """
    parameters = dict(map(_parameter, sets))
    found = _in_file(name) if name.endswith(".py") else _by_name(name)
    try:
        if isinstance(found, type):
            return found(**parameters)
        return found.set_params(**parameters) if parameters else found
    except (TypeError, ValueError) as error:
        raise DataError(f"--estimator {name} does not accept these parameters: {error}") from error


def _parameter(setting: str) -> tuple[str, Any]:
    """Return the name and the value of a parameter; a value that is not a Python literal is a string.

    >>> _parameter("max_iter=200"), _parameter("loss=absolute_error"), _parameter("layers=(8, 8)")
    (('max_iter', 200), ('loss', 'absolute_error'), ('layers', (8, 8)))
    """
    name, sign, value = setting.partition("=")
    if not sign or not name.strip():
        raise DataError(f"--set {setting!r} is not of the form name=value.")
    try:
        return name.strip(), ast.literal_eval(value.strip())
    except (ValueError, SyntaxError):
        return name.strip(), value.strip()


def _by_name(name: str) -> Any:
    module, _, attribute = name.rpartition(".")
    if not module:
        raise DataError(
            f"--estimator {name} is neither a dotted name such as sklearn.linear_model.Ridge nor a .py file."
        )
    try:
        return getattr(import_module(module), attribute)
    except ImportError as error:
        raise DataError(f"--estimator {name} cannot be imported: {error}.") from error
    except AttributeError as error:
        raise DataError(f"--estimator {name}: {module} has no {attribute}.") from error


def _in_file(path: str) -> Any:
    if not Path(path).is_file():
        raise DataError(f"--estimator {path}: there is no such file.")
    try:
        found = runpy.run_path(path)
    except Exception as error:
        raise DataError(f"--estimator {path} raised {type(error).__name__}: {error}") from error
    if "model" not in found:
        raise DataError(f"--estimator {path} does not define `model`, an estimator.")
    return found["model"]
