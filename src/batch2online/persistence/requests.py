"""Keys of calls that were carried out: a call that is sent twice is carried out once."""

from __future__ import annotations

from batch2online.persistence.database import Database, checksum
from batch2online.persistence.errors import StoreCorrupted, intact


def note(database: Database, key: str, first: int, stop: int) -> None:
    """Keep the key of a call, and the ids that its rows were given, inside a transaction."""
    ids = f"{first} {stop}"
    database.run("INSERT INTO request VALUES (?, ?, ?)", (key, ids, checksum(f"request {key}", ids)))
    database.meta["requests"] = database.meta.get("requests", 0) + 1


def was_done(database: Database, key: str) -> bool:
    """Return whether the call of this key was carried out."""
    return bool(database.select("SELECT 1 FROM request WHERE key = ?", (key,)))


def check(database: Database) -> None:
    """Refuse damaged keys when the file is opened: a call whose key is not found is carried out again."""
    stored = database.select("SELECT key, ids, crc FROM request")
    with intact(database.path):
        right = all(checksum(f"request {key}", ids) == crc for key, ids, crc in stored)
    if not right or len(stored) != database.meta.get("requests", 0):
        raise StoreCorrupted(f"{database.path} is damaged: the keys of its calls do not match their checksums.")
