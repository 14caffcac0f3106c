"""Files of models with right checksums and whatever content one likes."""

from __future__ import annotations

import json
import sqlite3
import tempfile
from pathlib import Path

from batch2online.storage.database import Database


def opened(content):
    """The tree of a file under ``state``, and its arrays and segments by name."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model"
        path.write_bytes(content)
        connection = sqlite3.connect(path)
        parts = [part for (part,) in connection.execute("SELECT content FROM state ORDER BY number")]
        segments = connection.execute("SELECT number, text, content FROM history").fetchall()
        connection.close()
    members = {f"a{index}.npy": part for index, part in enumerate(parts[1:])}
    members |= {f"history {number}": (shapes, rows) for number, shapes, rows in segments}
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
        database.put("state", part, "", data)
    for number, (shapes, rows) in segments.items():
        database.put("history", number, shapes, rows)
    database.meta |= {"parts": len(parts), "history": [0, len(segments)]}
