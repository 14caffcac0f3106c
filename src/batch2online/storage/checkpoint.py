"""Checkpoints: one file, written atomically, every byte under a checksum, no pickle.

A checkpoint is an ordinary ``.npz`` archive (``numpy.load`` opens it) with one more member,
``manifest.json``: format, schema version and the tree of the state, in which arrays are named. The
archive's comment holds the SHA-256 of all bytes before it, so a truncated or altered file is refused
before anything in it is believed. Whoever forges a file can forge its checksum as well, so what the tree and the
arrays say is checked besides, see :mod:`batch2online.storage.tree`: loading runs no code from the file.
"""

from __future__ import annotations

import hashlib
import io
import zipfile
from typing import Any

from batch2online.storage.tree import CheckpointError, array_bytes, array_of, decoded_tree, encoded, parsed

__all__ = ["CheckpointError", "deserialise", "serialise"]

FORMAT = "batch2online"
SCHEMA = 1
_DIGEST = b"sha256:"
_COMMENT_LENGTH = len(_DIGEST) + 64
_EPOCH = (1980, 1, 1, 0, 0, 0)


def serialise(state: object) -> bytes:
    """Return the bytes of a checkpoint. Equal states give equal bytes."""
    tree, arrays = encoded(state)
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as archive:
        manifest = f'{{"format": "{FORMAT}", "schema": {SCHEMA}, "state": {tree}}}'
        archive.writestr(zipfile.ZipInfo("manifest.json", _EPOCH), manifest)
        for index, array in enumerate(arrays):
            archive.writestr(zipfile.ZipInfo(f"a{index}.npy", _EPOCH), array_bytes(array))
        archive.comment = b" " * _COMMENT_LENGTH  # reserves the place; its length is part of what is hashed
    body = buffer.getvalue()[:-_COMMENT_LENGTH]
    return body + _DIGEST + hashlib.sha256(body).hexdigest().encode()


def deserialise(content: bytes, source: str = "checkpoint") -> Any:
    """Return the state in these bytes; raises :class:`CheckpointError` for anything but an intact checkpoint.

    Takes no more memory than a small multiple of the content, whatever sizes the content claims.
    """
    _check_digest(content, source)
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            _check_members(archive, len(content))
            manifest = parsed(archive.read("manifest.json"))
            _check_schema(manifest, source)
            arrays = [array_of(archive.read(f"a{index}.npy")) for index in range(len(archive.namelist()) - 1)]
        return decoded_tree(manifest["state"], arrays)
    except CheckpointError as error:
        raise CheckpointError(f"{source} has an intact checksum, but {error}") from error
    except Exception as error:  # any failure to make sense of it means that it makes none
        raise CheckpointError(f"{source} has an intact checksum but a malformed content: {error}.") from error


def _check_digest(content: bytes, source: str) -> None:
    body, comment = memoryview(content)[:-_COMMENT_LENGTH], content[-_COMMENT_LENGTH:]
    if not content.startswith(b"PK") or not comment.startswith(_DIGEST):
        raise CheckpointError(f"{source} is not a batch2online checkpoint, or is truncated.")
    if comment != _DIGEST + hashlib.sha256(body).hexdigest().encode():
        raise CheckpointError(f"{source} is damaged: its checksum does not match its content.")


def _check_members(archive: zipfile.ZipFile, limit: int) -> None:
    """Members are never compressed and lie in different places, so together they are not larger than the archive."""
    members = archive.infolist()
    if any(info.compress_type != zipfile.ZIP_STORED or info.file_size != info.compress_size for info in members):
        raise CheckpointError("a member is compressed.")
    total = sum(info.file_size for info in members)
    if total > limit:
        raise CheckpointError(f"its members claim {total} bytes in an archive of {limit}.")


def _check_schema(manifest: Any, source: str) -> None:
    if not isinstance(manifest, dict) or manifest.get("format") != FORMAT:
        raise CheckpointError(f"{source} is not a batch2online checkpoint.")
    if not isinstance(manifest.get("schema"), int) or manifest["schema"] > SCHEMA:
        raise CheckpointError(
            f"{source} has schema {manifest.get('schema')}, this version reads up to {SCHEMA}: upgrade batch2online."
        )
