"""Whether a value is of a kind, given as a type annotation."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import fields, is_dataclass
from functools import cache
from types import NoneType, UnionType
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

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


classes: dict[str, type] = {}
"""Storable classes by name. Names are unique, and stay the same when a class moves to another module."""

_kinds: dict[type, dict[str, Any]] = {}
_checks: dict[type, Callable[[Any], None]] = {}
_optional: dict[type, frozenset[str]] = {}
_T = TypeVar("_T")
_Check = TypeVar("_Check", bound=Callable[[Any], None])


def storable(cls: type[_T]) -> type[_T]:
    """Mark a class as one whose instances a file may hold, attribute by attribute.

    Instances can be copied and pickled in one thread while what they remember is filled in by another.
    """
    classes[cls.__name__] = cls
    if cls.__getstate__ is object.__getstate__:
        cls.__getstate__ = _attributes  # type: ignore[method-assign,assignment]
    return cls


def _attributes(instance: Any) -> dict[str, Any]:
    return dict(vars(instance))


def check_of(
    cls: type, kinds: Mapping[str, Any] | None = None, optional: Collection[str] = ()
) -> Callable[[_Check], _Check]:
    """Register what must hold of instances that come out of a file; it holds for subclasses as well.

    The function raises ValueError. ``kinds`` are those of the stored fields, for classes that are no dataclasses;
    ``optional`` are fields that files of one version or another lack.
    """

    def register(check: _Check) -> _Check:
        _checks[cls] = check
        if kinds is not None:
            _kinds[cls] = dict(kinds)
            _optional[cls] = frozenset(optional)
        return check

    return register


def require(condition: Any, sentence: str) -> None:
    """Raise ValueError with this sentence unless the condition holds."""
    if not condition:
        raise ValueError(sentence)


def check_kinds(cls: type, content: Mapping[str, Any]) -> None:
    """Check the fields of an instance that is to be built, one by one."""
    for name, kind in kinds_of(cls).items():
        if name in content and not conforms(content[name], kind):
            raise ValueError(f"{name} of a {cls.__name__} is of another kind.")


def check_instance(instance: Any) -> None:
    """Check that the parts of an instance that comes out of a file agree with each other."""
    cls: Any = type(instance)
    if hasattr(instance, "__post_init__"):
        instance.__post_init__()
    for base in reversed(cls.__mro__):
        if base in _checks:
            _checks[base](instance)


def optional_of(cls: type) -> frozenset[str]:
    """Return the fields that may be absent."""
    return frozenset().union(*(_optional.get(base, frozenset()) for base in cls.__mro__))


def is_closed(cls: type) -> bool:
    """Whether a class has no other fields than those whose kinds are known."""
    return is_dataclass(cls) or cls in _checks


@cache
def kinds_of(cls: type) -> dict[str, Any]:
    """Return the kind of each field; none where the class says nothing about them."""
    if is_dataclass(cls):
        try:
            hints = get_type_hints(cls)
        except NameError:  # annotations that only a type checker can resolve
            hints = {}
        return {field.name: hints.get(field.name, Any) for field in fields(cls)}
    return {name: kind for base in reversed(cls.__mro__) for name, kind in _kinds.get(base, {}).items()}
