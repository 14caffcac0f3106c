"""Errors of models on disk."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager


class StoreError(Exception):
    """A file cannot be read or written: a full or failing disk, a lock, a missing permission."""


class StoreCorrupted(StoreError):  # noqa: N818  # the name says what it is
    """A file is damaged, or a part of it is missing."""


class StoreLocked(StoreError):  # noqa: N818
    """Another process or object has the file open."""


class DuplicateKey(ValueError):  # noqa: N818
    """A row has this key already, learned or pending."""


class UnknownKey(ValueError):  # noqa: N818
    """No row has this key, learned or pending."""


@contextmanager
def typed(what: str) -> Iterator[None]:
    """Turn errors of SQLite and of the system into errors of this package that name the operation."""
    try:
        yield
    except sqlite3.Error as error:
        raise _kind_of(error)(f"{what}: {error}.") from error
    except UnicodeDecodeError as error:  # SQLite quotes the damaged bytes
        raise StoreCorrupted(f"{what}: {error}.") from error
    except OSError as error:
        raise StoreError(f"{what}: {error}.") from error


def _kind_of(error: sqlite3.Error) -> type[StoreError]:
    code = getattr(error, "sqlite_errorcode", None)
    if code is not None and code & 0xFF in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        return StoreLocked
    if code is not None and code & 0xFF in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
        return StoreCorrupted
    is_usual = isinstance(error, sqlite3.OperationalError | sqlite3.ProgrammingError)  # a full disk, a closed file
    return StoreError if is_usual else StoreCorrupted


@contextmanager
def intact(path: object) -> Iterator[None]:
    """Turn errors from values of an unexpected type into an error that calls the file damaged."""
    try:
        yield
    except (TypeError, ValueError, LookupError, ArithmeticError, AttributeError, RecursionError) as error:
        raise StoreCorrupted(f"{path} is damaged: {error}.") from error
