"""A state as plain data, and back: a tree in JSON, and the arrays that it names. Independent of any container.

Only classes marked :func:`~batch2online.schema.storable` come out of a tree, built from their fields alone and
checked. Reading takes memory and time in proportion to the JSON and the arrays, whatever they claim: every array is
named once, numbers are short, and nothing is nested deeply.
"""

from __future__ import annotations

import io
import json
from collections.abc import Sequence
from dataclasses import MISSING, fields, is_dataclass
from functools import partial
from math import prod
from typing import Any

import numpy as np

from batch2online import homes
from batch2online.schema import check_fields, check_parts, classes, is_closed, kinds_of, optional_of

Array = np.ndarray[Any, Any]

DEEPEST = 100
"""Levels of nesting."""

_LONGEST = 40
"""Digits of a number."""

_DTYPES = ("float64", "int64", "uint64", "uint8", "bool")


class CheckpointError(ValueError):
    """The file is not a checkpoint that this version can read: damaged, foreign, forged or newer."""


def encoded(state: object) -> tuple[str, list[Array]]:
    """Return the tree of a state as JSON, and the arrays that it names by their position; equal for equal states."""
    arrays: list[Array] = []
    tree = _encode(state, arrays)
    return json.dumps(tree, allow_nan=False), arrays


def parts_of(state: object) -> list[bytes]:
    """Return the tree of a state and its arrays as bytes; equal for equal states."""
    text, arrays = encoded(state)
    return [text.encode(), *map(_array_bytes, arrays)]


def state_of(parts: Sequence[bytes]) -> Any:
    """Return the state that :func:`parts_of` was given; takes memory in proportion to the parts."""
    return decoded(parts[0], [array_of(part) for part in parts[1:]])


def decoded(text: str | bytes, arrays: Sequence[Array]) -> Any:
    """Return the state that a tree and its arrays stand for; :class:`CheckpointError` if they stand for none."""
    try:
        tree = json.loads(text, parse_int=_integer, parse_float=_refused, parse_constant=_refused)
        return _Decoder(arrays).decode(tree)
    except CheckpointError:
        raise
    except Exception as error:  # any failure to make sense of it means that it makes none
        raise CheckpointError(f"the content is malformed: {error}") from error


def _array_bytes(array: Array) -> bytes:
    """Return an array in NumPy's own format."""
    member = io.BytesIO()
    np.lib.format.write_array(member, np.ascontiguousarray(array), allow_pickle=False)
    return member.getvalue()


def array_of(content: bytes) -> Array:
    """Return the array in these bytes, whose type and shape must agree with their number, which is checked first."""
    try:
        shape, fortran, dtype, start = array_header(content)
    except Exception as error:
        raise CheckpointError(f"an array has another format than checkpoints are written in: {error}") from error
    if dtype.name not in _DTYPES or not dtype.isnative or fortran:
        raise CheckpointError(f"an array of {dtype} is in no checkpoint.")
    return np.frombuffer(memoryview(content)[start:], dtype=dtype).reshape(shape).copy()


def array_header(content: bytes) -> tuple[tuple[int, ...], bool, np.dtype[Any], int]:
    """Shape, order, type, and where the numbers begin; ValueError unless exactly so many bytes follow."""
    file = io.BytesIO(content)
    if np.lib.format.read_magic(file) != (1, 0):
        raise ValueError("its version is unknown.")
    shape, fortran, dtype = np.lib.format.read_array_header_1_0(file)
    n_bytes = len(content) - file.tell()
    if dtype.hasobject or min(shape, default=0) < 0:
        raise ValueError(f"it claims to be {dtype} of shape {shape}.")
    if prod(shape) * dtype.itemsize != n_bytes:
        raise ValueError(f"it claims to be {dtype} of shape {shape} in {n_bytes} bytes.")
    return shape, fortran, dtype, file.tell()


def _encode(value: Any, arrays: list[Array]) -> Any:
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return {"float": value.hex()}
    if isinstance(value, np.ndarray):
        arrays.append(value)
        return {"array": len(arrays) - 1}
    if isinstance(value, list | tuple):
        return {type(value).__name__: [_encode(item, arrays) for item in value]}
    if isinstance(value, dict):
        if not all(isinstance(key, str) for key in value):
            raise TypeError("Only dictionaries of strings can be stored in a checkpoint.")
        return {"dict": {key: _encode(item, arrays) for key, item in value.items()}}
    if classes.get(type(value).__name__) is type(value):
        content = {name: _encode(item, arrays) for name, item in _stored_fields(value).items()}
        return {"object": type(value).__name__, "fields": content}
    raise TypeError(f"{type(value).__name__} cannot be stored in a checkpoint.")


def _stored_fields(value: Any) -> dict[str, Any]:
    """Return the attributes that make up the state: those with a leading underscore are caches."""
    if hasattr(value, "stored_fields"):
        own: dict[str, Any] = value.stored_fields()
        return own
    names = [field.name for field in fields(value)] if is_dataclass(value) else vars(value)
    return {name: getattr(value, name) for name in names if is_dataclass(value) or not name.startswith("_")}


def _integer(digits: str) -> int:
    if len(digits) > _LONGEST:
        raise CheckpointError("a number has too many digits.")
    return int(digits)


def _refused(text: str) -> Any:
    raise CheckpointError(f"a checkpoint holds no number written as {text[:_LONGEST]}.")


class _Decoder:
    """Decoder of trees; each array may be used once."""

    def __init__(self, arrays: Sequence[Array]) -> None:
        self.arrays: list[Array | None] = list(arrays)

    def decode(self, tree: Any, depth: int = 0) -> Any:
        if depth > DEEPEST:
            raise CheckpointError(f"it is nested more than {DEEPEST} levels deep.")
        if isinstance(tree, list):
            raise CheckpointError("found a list without a type.")
        if not isinstance(tree, dict):
            return tree
        if tree.keys() == {"object", "fields"}:
            return self._object(tree["object"], tree["fields"], depth + 1)
        if len(tree) != 1:
            raise CheckpointError(f"unrecognised node with keys {sorted(tree)[:5]}.")
        return self._value(*next(iter(tree.items())), depth + 1)

    def _value(self, kind: str, content: Any, depth: int) -> Any:
        if kind == "float" and isinstance(content, str) and len(content) <= _LONGEST:
            return float.fromhex(content)
        if kind == "array" and type(content) is int:
            return self._array(content)
        if kind == "list" and isinstance(content, list):
            return [self.decode(item, depth) for item in content]
        if kind == "tuple" and isinstance(content, list):
            return tuple(self.decode(item, depth) for item in content)
        if kind == "dict" and isinstance(content, dict):
            return {key: self.decode(item, depth) for key, item in content.items()}
        raise CheckpointError(f"unrecognised content of a node of type {kind[:_LONGEST]!r}.")

    def _array(self, index: int) -> Array:
        if not 0 <= index < len(self.arrays):
            raise CheckpointError(f"there is no array {index}.")
        array, self.arrays[index] = self.arrays[index], None
        if array is None:
            raise CheckpointError(f"array {index} is named more than once.")
        return array

    def _object(self, name: Any, content: Any, depth: int) -> Any:
        if isinstance(name, str) and name not in classes:
            homes.import_all()
        if not isinstance(name, str) or name not in classes or not isinstance(content, dict):
            found = str(name)[:_LONGEST]
            raise CheckpointError(f"a checkpoint cannot hold {found!r}: if it is your class, import its module first.")
        return _built(classes[name], {key: self.decode(item, depth) for key, item in content.items()})


def _built(cls: Any, content: dict[str, Any]) -> Any:
    """Return a checked instance with these attributes; those that earlier files lack take their defaults."""
    known = dict.fromkeys(kinds_of(cls), MISSING)
    if is_dataclass(cls):
        known |= {field.name: field.default for field in fields(cls)}
    content = {name: value for name, value in known.items() if value is not MISSING} | content
    others, missing = content.keys() - known.keys(), known.keys() - optional_of(cls) - content.keys()
    if missing or (others and (is_closed(cls) or any(map(partial(hasattr, cls), others)))):
        raise CheckpointError(f"a {cls.__name__} has {sorted(known)}, not {sorted(content)}.")
    check_fields(cls, content)
    if hasattr(cls, "from_fields"):
        instance = cls.from_fields(content)
    else:
        instance = object.__new__(cls)
        vars(instance).update(content)
    check_parts(instance)
    return instance
