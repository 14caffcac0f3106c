"""Classes that a file may name. Nothing else comes out of a file."""

from __future__ import annotations

from typing import TypeVar

classes: dict[str, type] = {}
"""Storable classes by name. Names are unique, and stay the same when a class moves to another module."""

_T = TypeVar("_T")


def storable(cls: type[_T]) -> type[_T]:
    """Mark a class as one whose instances a file may hold, attribute by attribute."""
    classes[cls.__name__] = cls
    return cls
