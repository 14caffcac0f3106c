"""Files on Windows: byte locks are mandatory, open files cannot be removed, folders cannot be synced."""

from __future__ import annotations

import msvcrt
import os
import sys
from io import FileIO
from pathlib import Path

assert sys.platform == "win32"  # for type checkers

OPEN_FLAGS = os.O_BINARY | os.O_NOINHERIT
_LOCKED_BYTE = 2**30
"""Position of the locked byte: far behind the content, which other processes may then read."""


def lock(file: FileIO) -> None:
    """Lock a file until it is closed; raise BlockingIOError if another process or object holds the lock."""
    os.lseek(file.fileno(), _LOCKED_BYTE, os.SEEK_SET)
    try:
        msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)
    except PermissionError as error:
        raise BlockingIOError(*error.args) from error
    except OSError as error:
        if error.errno == 36:  # EDEADLOCK: the byte stayed locked
            raise BlockingIOError(*error.args) from error
        raise


def read_start(file: FileIO, n_bytes: int) -> bytes:
    """Return the first bytes of a file."""
    os.lseek(file.fileno(), 0, os.SEEK_SET)
    return os.read(file.fileno(), n_bytes)


def write_start(file: FileIO, content: bytes) -> None:
    """Write to the start of a file in one call."""
    os.lseek(file.fileno(), 0, os.SEEK_SET)
    os.write(file.fileno(), content)


def remove_locked(file: FileIO, path: Path) -> None:
    """Release the lock, then remove the file, unless another process has opened it in between."""
    file.close()
    try:
        path.unlink(missing_ok=True)
    except PermissionError:
        return


def sync_file(descriptor: int) -> None:
    """Return when the content of an open file is on the disk."""
    os.fsync(descriptor)


def sync_path(path: Path) -> None:
    """Return when a file is on the disk; NTFS keeps the names in a folder in a journal of its own."""
    if path.is_dir():
        return
    descriptor = os.open(path, os.O_RDWR | os.O_BINARY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def copy_owner(old: os.stat_result, new: Path) -> None:
    """Do nothing: a new file inherits its rights from its folder."""
