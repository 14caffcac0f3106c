"""All changes of a model in its file, where a caller asks for them: an estimator holds the newest ones alone."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from batch2online.storage.database import Database, checksum
from batch2online.storage.errors import StoreCorrupted
from batch2online.storage.tree import decoded, encoded


def is_begun(database: Database) -> bool:
    """Return whether the file logs changes."""
    return "changes" in database.meta


def begin(database: Database, events: Iterable[Any] = ()) -> None:
    """Begin a log anew with these changes, inside a transaction."""
    database.run("DELETE FROM change")
    database.meta["changes"] = 0
    for event in events:
        append(database, event)


def append(database: Database, event: Any) -> None:
    """Log a change, inside a transaction."""
    number = database.meta["changes"]
    content, _ = encoded(event)
    database.run("INSERT INTO change VALUES (?, ?, ?)", (number, content, checksum(f"change {number}", content)))
    database.meta["changes"] = number + 1


def read(database: Database) -> Iterator[Any]:
    """Iterate over all changes, oldest first; they are read one by one."""
    for number in range(database.meta["changes"]):
        stored = database.select("SELECT content, crc FROM change WHERE number = ?", (number,))
        if (
            not stored
            or not isinstance(stored[0][0], str)
            or checksum(f"change {number}", stored[0][0]) != stored[0][1]
        ):
            raise StoreCorrupted(
                f"{database.path} is damaged: change {number} is missing or does not match its checksum."
            )
        yield decoded(stored[0][0], [])
