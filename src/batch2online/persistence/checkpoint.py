"""Checkpoints: one file, written atomically, every byte under a checksum, no pickle.

A checkpoint is an ordinary ``.npz`` archive (``numpy.load`` opens it) with one more member,
``manifest.json``: format, schema version and the tree of the state, in which arrays are named. The
archive's comment holds the SHA-256 of all bytes before it, so a truncated or altered file is refused
before anything in it is believed. Only classes marked :func:`storable` can come out of a file, and
they are built from their fields alone: loading runs no code from the file.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import zipfile
from collections.abc import Callable
from dataclasses import MISSING, fields, is_dataclass
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from batch2online.core.registry import classes
from batch2online.persistence.files import REAL, Files, write_new
from batch2online.persistence.legacy import UPGRADES

FORMAT = "batch2online"
SCHEMA = 1
_DIGEST = b"sha256:"
_COMMENT_LENGTH = len(_DIGEST) + 64
_EPOCH = (1980, 1, 1, 0, 0, 0)


class CheckpointError(ValueError):
    """The file is not a checkpoint that this version can read: damaged, foreign or newer."""


def serialise(state: object) -> bytes:
    """The bytes of a checkpoint. Equal states give equal bytes."""
    arrays: list[np.ndarray[Any, Any]] = []
    tree = _encode(state, arrays)
    manifest = {"format": FORMAT, "schema": SCHEMA, "state": tree}
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as archive:
        archive.writestr(zipfile.ZipInfo("manifest.json", _EPOCH), json.dumps(manifest, allow_nan=False))
        for index, array in enumerate(arrays):
            member = io.BytesIO()
            np.lib.format.write_array(member, np.ascontiguousarray(array), allow_pickle=False)
            archive.writestr(zipfile.ZipInfo(f"a{index}.npy", _EPOCH), member.getvalue())
        archive.comment = b" " * _COMMENT_LENGTH  # reserves the place; its length is part of what is hashed
    body = buffer.getvalue()[:-_COMMENT_LENGTH]
    return body + _DIGEST + hashlib.sha256(body).hexdigest().encode()


def deserialise(content: bytes, source: str = "checkpoint") -> Any:
    """The state in these bytes; raises :class:`CheckpointError` for anything but an intact checkpoint.

    Takes no more memory than a small multiple of the content, whatever sizes the content claims.
    """
    _check_digest(content, source)
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            manifest = json.loads(_member(archive, "manifest.json", len(content)))
            _check_schema(manifest, source)
            return _decode(manifest["state"], lambda name: _array(_member(archive, name, len(content))))
    except CheckpointError:
        raise
    except Exception as error:  # any failure to make sense of it means that it makes none
        raise CheckpointError(f"{source} has an intact checksum but a malformed content: {error}.") from error


def _check_digest(content: bytes, source: str) -> None:
    body, comment = memoryview(content)[:-_COMMENT_LENGTH], content[-_COMMENT_LENGTH:]
    if not content.startswith(b"PK") or not comment.startswith(_DIGEST):
        raise CheckpointError(f"{source} is not a batch2online checkpoint, or is truncated.")
    if comment != _DIGEST + hashlib.sha256(body).hexdigest().encode():
        raise CheckpointError(f"{source} is damaged: its checksum does not match its content.")


def _member(archive: zipfile.ZipFile, name: str, limit: int) -> bytes:
    """A member of the archive, which is never compressed and so never larger than the archive."""
    info = archive.getinfo(name)
    if info.compress_type != zipfile.ZIP_STORED or not info.file_size == info.compress_size < limit:
        raise CheckpointError(f"{name} claims {info.file_size} bytes in an archive of {limit}.")
    return archive.read(info)


def _array(member: bytes) -> np.ndarray[Any, Any]:
    """An array whose type and shape agree with the number of its bytes, which is checked first."""
    file = io.BytesIO(member)
    if np.lib.format.read_magic(file) != (1, 0):
        raise CheckpointError("an array has another format than checkpoints are written in.")
    shape, fortran, dtype = np.lib.format.read_array_header_1_0(file)
    data = memoryview(member)[file.tell() :]
    if dtype.kind not in "fiub" or fortran or prod(shape) * dtype.itemsize != len(data):
        raise CheckpointError(f"an array claims to be {dtype} of shape {shape} in {len(data)} bytes.")
    return np.frombuffer(data, dtype=dtype).reshape(shape).copy()


def _check_schema(manifest: dict[str, Any], source: str) -> None:
    if manifest.get("format") != FORMAT:
        raise CheckpointError(f"{source} is not a batch2online checkpoint.")
    if not isinstance(manifest.get("schema"), int) or manifest["schema"] > SCHEMA:
        raise CheckpointError(
            f"{source} has schema {manifest.get('schema')}, this version reads up to {SCHEMA}: upgrade batch2online."
        )


def write(path: str | os.PathLike[str], content: bytes, files: Files = REAL) -> None:
    """Replace the file at ``path`` as a whole; the old one stays until the new one is durable and read back intact."""

    def prove(written: Path) -> None:
        if written.read_bytes() != content:
            raise CheckpointError(f"{path} could not be written: the disk gives back other bytes.")

    write_new(files, Path(path), [content], prove)


def _encode(value: Any, arrays: list[np.ndarray[Any, Any]]) -> Any:
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


def _decode(tree: Any, array: Callable[[str], Any]) -> Any:
    """The value that a tree of the manifest stands for; ``array`` gives the array of a member."""
    if not isinstance(tree, dict):
        return tree
    if "float" in tree:
        return float.fromhex(tree["float"])
    if "array" in tree:
        return array(f"a{int(tree['array'])}.npy")
    if "list" in tree:
        return [_decode(item, array) for item in tree["list"]]
    if "tuple" in tree:
        return tuple(_decode(item, array) for item in tree["tuple"])
    if "dict" in tree:
        return {key: _decode(item, array) for key, item in tree["dict"].items()}
    if tree.get("object") not in classes:
        raise CheckpointError(f"a checkpoint cannot hold {tree.get('object')!r}.")
    content = {name: _decode(item, array) for name, item in tree["fields"].items()}
    upgrade = UPGRADES.get(tree["object"])
    return _built(classes[tree["object"]], content if upgrade is None else upgrade(content))


def _built(cls: type, content: dict[str, Any]) -> Any:
    """An instance with these attributes; those that a file of an earlier version lacks take their defaults."""
    if hasattr(cls, "from_fields"):
        return cls.from_fields(content)
    if is_dataclass(cls):
        known = {field.name: field.default for field in fields(cls)}
        content = {name: value for name, value in known.items() if value is not MISSING} | content
        if content.keys() != known.keys():
            raise CheckpointError(f"a {cls.__name__} has {sorted(known)}, not {sorted(content)}.")
    instance: Any = object.__new__(cls)
    vars(instance).update(content)
    return instance
