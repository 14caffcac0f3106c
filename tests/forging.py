"""Files of models with right checksums and whatever content one likes.

``opened`` and ``forged`` know the SQLite files of today; ``signed`` and ``of_state`` make archives of schema 1.
"""

from __future__ import annotations

import hashlib
import io
import json
import sqlite3
import tempfile
import zipfile
from pathlib import Path

from batch2online.storage.database import Database, checksum
from batch2online.storage.model_file import _digest

_COMMENT = 71


def opened(content):
    """The tree of a file under ``state``, and its arrays and segments by name."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model"
        path.write_bytes(content)
        connection = sqlite3.connect(path)
        parts = [part for (part,) in connection.execute("SELECT content FROM state ORDER BY part")]
        segments = connection.execute("SELECT number, shape, content FROM history").fetchall()
        connection.close()
    members = {f"a{index}.npy": part for index, part in enumerate(parts[1:])}
    members |= {f"history {number}": (shape, rows) for number, shape, rows in segments}
    return {"state": json.loads(parts[0])}, members


def forged(manifest, members=None):
    """The bytes of a file with this tree, given as such or as text, and these members, all under right checksums."""
    text = manifest if isinstance(manifest, bytes | str) else json.dumps(manifest["state"])
    text = text.encode() if isinstance(text, str) else text
    members = members or {}
    arrays = [data for name, data in members.items() if name.endswith(".npy")]
    segments = {int(name.split()[1]): data for name, data in members.items() if name.startswith("history ")}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model"
        database = Database(path, "copy")
        database.transact(lambda: _fill(database, [text, *arrays], segments))
        database.close()
        return path.read_bytes()


def _fill(database, parts, segments):
    for part, data in enumerate(parts):
        database.run("INSERT INTO state VALUES (?, ?, ?)", (part, data, _digest(part, data)))
    for number, (shape, rows) in segments.items():
        crc = checksum(f"history {number}", shape, rows)
        database.run("INSERT INTO history VALUES (?, ?, ?, ?)", (number, shape, rows, crc))
    database.meta |= {"parts": len(parts), "tail": 0, "tail_rows": 0, "history": [0, len(segments)]}


def signed(archive):
    """An archive of schema 1 with room for a checksum in its comment, and the right checksum there."""
    body = archive[:-_COMMENT]
    return body + b"sha256:" + hashlib.sha256(body).hexdigest().encode()


def of_state(tree, arrays=()):
    """An archive of schema 1 with this tree of a state, and arrays in NumPy's format."""
    return archived(json.dumps({"format": "batch2online", "schema": 1, "state": tree}), arrays)


def archived(manifest, arrays=()):
    """An archive of schema 1 with this text as its manifest."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as archive:
        archive.writestr("manifest.json", manifest)
        for index, array in enumerate(arrays):
            archive.writestr(f"a{index}.npy", array)
        archive.comment = b" " * _COMMENT
    return signed(buffer.getvalue())
