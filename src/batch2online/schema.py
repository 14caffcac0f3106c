"""Declarations of stored classes: the types of their fields, and the shapes of arrays.

A class is marked :func:`storable` and annotates its fields::

    weights: Annotated[FloatArray, shape("n")]

A symbol of a shape stands for the same number in all fields of an object. What a file holds is checked against these
declarations before it is used; a class can check more in a method ``validate``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import MISSING, fields, is_dataclass
from functools import cache
from types import NoneType, UnionType
from typing import Annotated, Any, TypeVar, Union, get_args, get_origin, get_type_hints

import numpy as np

_Value = TypeVar("_Value")


def replace(value: _Value, **changes: Any) -> _Value:
    """Return a value with other fields, as ``dataclasses.replace`` does in four times the time.

    For dataclasses without ``__post_init__`` and without cached properties, of which a copy would keep old results.
    """
    new = object.__new__(type(value))
    new.__dict__.update(value.__dict__, **changes)
    return new


Sizes = dict[str, int]
"""What the symbols of shapes stand for in one object."""

Constraint = Callable[[Any, Sizes], str | None]
"""Returns the mismatch of a value of the right type, None if there is none."""

# -- shapes ---------------------------------------------------------------------------------------------------


def shape(*expected: int | str) -> Constraint:
    """Require a shape, given by numbers and symbols."""

    def check(array: Any, sizes: Sizes) -> str | None:
        pairs = zip(expected, array.shape, strict=False)
        known = tuple(sizes.setdefault(size, n) if isinstance(size, str) else size for size, n in pairs)
        if array.shape == known and array.ndim == len(expected):
            return None
        names = ", ".join(str(sizes.get(str(size), size)) for size in expected)
        return f"found shape {array.shape}, expected ({names})"

    return check


# -- types ----------------------------------------------------------------------------------------------------


def conforms(value: Any, kind: Any) -> bool:
    """Whether a value is of this type: exact about numbers and arrays, where Python is not.

    >>> conforms(True, int), conforms(1, float), conforms((1, 2), tuple[int, ...]), conforms(None, int | None)
    (False, True, True, True)
    """
    return mismatch(value, kind, {}) is None


def mismatch(value: Any, kind: Any, sizes: Sizes) -> str | None:
    """Return how a value mismatches a type and its constraints, None if it conforms.

    >>> mismatch(np.ones(2), Annotated[np.ndarray[Any, np.dtype[np.float64]], shape(3)], {})
    'found shape (2,), expected (3)'
    """
    origin, parts = get_origin(kind), get_args(kind)
    if origin is Annotated:
        wrong = mismatch(value, parts[0], sizes)
        return wrong or next(filter(None, (check(value, sizes) for check in parts[1:])), None)
    if origin in (Union, UnionType):
        found = [mismatch(value, part, sizes) for part in parts]
        return None if None in found else found[0]
    if origin in (list, tuple):
        return _items_mismatch(value, kind, origin, parts, sizes)
    if origin is dict and type(value) is dict:
        pairs = [(item, part) for items in value.items() for item, part in zip(items, parts, strict=True)]
        return next(filter(None, (mismatch(item, part, sizes) for item, part in pairs)), None)
    if _is_of(value, kind, origin, parts):
        return None
    described = f"an array of {value.dtype}" if isinstance(value, np.ndarray) else f"{str(value)[:40]!r}"
    return f"found {described}, expected {getattr(kind, '__name__', kind)}"


def _items_mismatch(value: Any, kind: Any, origin: Any, parts: tuple[Any, ...], sizes: Sizes) -> str | None:
    if type(value) is not origin:
        return f"found {str(value)[:40]!r}, expected {kind}"
    own = parts[:1] * len(value) if origin is list or parts[1:] == (...,) else parts
    if len(value) != len(own):
        return f"found {len(value)} values, expected {len(own)}"
    return next(filter(None, (mismatch(item, part, sizes) for item, part in zip(value, own, strict=True))), None)


def _is_of(value: Any, kind: Any, origin: Any, parts: tuple[Any, ...]) -> bool:
    if kind is Any:
        return True
    if kind in (None, NoneType):
        return value is None
    if kind is int:
        return type(value) is int
    if kind is float:
        return type(value) in (int, float)
    if origin is np.ndarray:
        return type(value) is np.ndarray and value.dtype == np.dtype(get_args(parts[1])[0])
    return callable(value) if origin is Callable else isinstance(value, kind if origin is None else origin)


# -- stored classes -------------------------------------------------------------------------------------------

classes: dict[str, type] = {}
"""Storable classes by name. Names are unique, and stay the same when a class moves to another module."""

_kinds: dict[type, dict[str, Any]] = {}
_T = TypeVar("_T")


def storable(cls: type[_T]) -> type[_T]:
    """Mark a class as one whose instances a file may hold, attribute by attribute.

    The fields of a dataclass are stored as they are annotated; for other classes see :func:`stores`. Instances can be
    copied and pickled in one thread while another fills their caches.
    """
    check_name_is_free(cls, classes.get(cls.__name__))
    classes[cls.__name__] = cls
    if cls.__getstate__ is object.__getstate__:
        cls.__getstate__ = _attributes  # type: ignore[method-assign,assignment]
    return cls


def check_name_is_free(cls: type, known: type | None) -> None:
    """Raise if a class has the name of one of this package, since files refer to classes by name."""
    ours = [each is not None and each.__module__.split(".")[0] == __name__.split(".")[0] for each in (cls, known)]
    if known is not None and ours[0] != ours[1]:
        places = " and ".join(f"{each.__module__}.{each.__qualname__}" for each in (cls, known))
        raise TypeError(f"{places} have the same name, by which files refer to classes: rename yours.")


def stores(**kinds: Any) -> Callable[[type[_T]], type[_T]]:
    """Declare the types of the stored fields of a class that is no dataclass, beside those of its bases.

    Fields that the class has an attribute for may be absent.
    """

    def declare(cls: type[_T]) -> type[_T]:
        _kinds[cls] = kinds
        return cls

    return declare


def _attributes(instance: Any) -> dict[str, Any]:
    return dict(vars(instance))


def require(condition: Any, sentence: str) -> None:
    """Raise ValueError with this sentence unless the condition holds."""
    if not condition:
        raise ValueError(sentence)


def check_value(name: str, value: Any, kind: Any) -> None:
    """Raise ValueError that says what was found unless a value is of this type and meets its constraints."""
    wrong = mismatch(value, kind, {})
    if wrong is not None:
        raise ValueError(f"{name}: {wrong}")


def check_fields(cls: type, content: Mapping[str, Any]) -> None:
    """Check the fields of an instance that is to be built, one by one."""
    sizes: Sizes = {}
    for name, kind in kinds_of(cls).items():
        wrong = mismatch(content[name], kind, sizes) if name in content else None
        if wrong is not None:
            raise ValueError(f"{cls.__name__}.{name}: {wrong}")


def check_parts(instance: Any) -> None:
    """Check an instance that comes out of a file as its own class does: by ``__post_init__`` and ``validate``."""
    for name in ("__post_init__", "validate"):
        if hasattr(instance, name):
            getattr(instance, name)()


def check_instance(instance: Any) -> None:
    """Check all of an instance that comes out of a file."""
    check_fields(type(instance), vars(instance))
    check_parts(instance)


def optional_of(cls: type) -> frozenset[str]:
    """Return the fields that may be absent: a class attribute or ``from_fields`` supplies them."""
    if not is_dataclass(cls):
        return frozenset(name for name in kinds_of(cls) if hasattr(cls, name))
    own = fields(cls) if hasattr(cls, "from_fields") else ()
    return frozenset(field.name for field in own if field.default_factory is not MISSING)


def is_closed(cls: type) -> bool:
    """Whether a class has no other fields than those whose types are known."""
    return is_dataclass(cls) or cls in _kinds


def _hints(cls: type, names: dict[str, Any] | None) -> dict[str, Any]:
    """Return the annotations of a class; none where only a type checker can resolve them."""
    try:
        return get_type_hints(cls, localns=names, include_extras=True)
    except NameError:
        return {}


@cache
def kinds_of(cls: type) -> dict[str, Any]:
    """Return the type of each field with its constraints; none where the class says nothing about them."""
    if is_dataclass(cls):
        hints = _hints(cls, None) or _hints(cls, classes)  # names of its module first: a class may have one of them
        return {field.name: hints.get(field.name, Any) for field in fields(cls)}
    return {name: kind for base in reversed(cls.__mro__) for name, kind in _kinds.get(base, {}).items()}
