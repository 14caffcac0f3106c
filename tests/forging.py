"""Checkpoints with a right checksum and whatever content one likes."""

from __future__ import annotations

import hashlib
import io
import json
import zipfile

_COMMENT = 71


def opened(content):
    """The manifest of a checkpoint as a tree, and its other members by name."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    return json.loads(members.pop("manifest.json")), members


def forged(manifest, members=None):
    """A checkpoint of this manifest, text or a tree, and these members."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as archive:
        text = manifest if isinstance(manifest, bytes | str) else json.dumps(manifest)
        archive.writestr("manifest.json", text)
        for name, data in (members or {}).items():
            archive.writestr(name, data)
        archive.comment = b" " * _COMMENT
    return signed(buffer.getvalue())


def signed(archive):
    """An archive with room for a checksum in its comment, and the right checksum there."""
    body = archive[:-_COMMENT]
    return body + b"sha256:" + hashlib.sha256(body).hexdigest().encode()


def of_state(tree, arrays=()):
    """A checkpoint of this tree of a state, and arrays in NumPy's format."""
    manifest = {"format": "batch2online", "schema": 1, "state": tree}
    return forged(manifest, {f"a{index}.npy": array for index, array in enumerate(arrays)})
