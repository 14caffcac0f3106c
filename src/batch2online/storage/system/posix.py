"""Files on Linux, macOS and other POSIX systems."""

from __future__ import annotations

import fcntl
import os
import sys
from contextlib import suppress
from io import FileIO
from pathlib import Path

assert sys.platform != "win32"  # for type checkers

OPEN_FLAGS = os.O_NOFOLLOW | os.O_NONBLOCK
"""A lock file is opened without following a link and without waiting for a named pipe."""


def lock(file: FileIO) -> None:
    """Lock a file until it is closed; raise BlockingIOError if another process or object holds the lock."""
    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


def read_start(file: FileIO, n_bytes: int) -> bytes:
    """Return the first bytes of a file."""
    return os.pread(file.fileno(), n_bytes, 0)


def write_start(file: FileIO, content: bytes) -> None:
    """Write to the start of a file in one call."""
    os.pwrite(file.fileno(), content, 0)


def remove_locked(file: FileIO, path: Path) -> None:
    """Remove a locked file, then release the lock, so that no other process locks a file about to disappear."""
    path.unlink(missing_ok=True)
    file.close()


def sync_file(descriptor: int) -> None:
    """Return when the content of an open file is on the disk; on macOS also out of the drive's own cache."""
    if sys.platform == "darwin":
        with suppress(OSError):  # not every file system supports it
            fcntl.fcntl(descriptor, fcntl.F_FULLFSYNC)
            return
    os.fsync(descriptor)


def sync_path(path: Path) -> None:
    """Return when a file, or the list of names in a folder, is on the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        sync_file(descriptor)
    finally:
        os.close(descriptor)


def copy_owner(old: os.stat_result, new: Path) -> None:
    """Give a file the owner of the one it replaces, where the process is allowed to."""
    with suppress(OSError):  # only the superuser may give a file away
        os.chown(new, old.st_uid, old.st_gid)
