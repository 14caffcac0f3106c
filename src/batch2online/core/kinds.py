"""Whether a value is of a kind, given as a type annotation."""

from __future__ import annotations

from collections.abc import Callable
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin

import numpy as np


def conforms(value: Any, kind: Any) -> bool:
    """Whether a value is of this kind: exact about numbers and arrays, where Python is not.

    >>> conforms(True, int), conforms(1, float), conforms((1, 2), tuple[int, ...]), conforms(None, int | None)
    (False, True, True, True)
    """
    if kind is Any:
        return True
    if kind in (None, NoneType):
        return value is None
    if kind is int:
        return type(value) is int
    if kind is float:
        return type(value) in (int, float)
    return _conforms_to_parts(value, kind, get_origin(kind), get_args(kind))


def _conforms_to_parts(value: Any, kind: Any, origin: Any, parts: tuple[Any, ...]) -> bool:
    if origin in (Union, UnionType):
        return any(conforms(value, part) for part in parts)
    if origin is np.ndarray:
        return type(value) is np.ndarray and value.dtype == np.dtype(get_args(parts[1])[0])
    if origin is list:
        return type(value) is list and all(conforms(item, parts[0]) for item in value)
    if origin is tuple:
        own = parts[:1] * len(value) if parts[1:] == (...,) and type(value) is tuple else parts
        return type(value) is tuple and len(value) == len(own) and all(map(conforms, value, own))
    if origin is Callable:
        return callable(value)
    return isinstance(value, kind)
