"""The system calls that change a disk, one method each.

Whatever must survive a crash is written through a :class:`Files`, so that tests can let any single call fail, be
cut short or be forgotten by a loss of power. Reading needs no such care and uses the standard library.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from threading import get_ident
from typing import Any

TEMPORARY = ".tmp"
_CLOSE_ON_EXEC = getattr(os, "O_CLOEXEC", 0)


class Files:
    """The real ones."""

    def create(self, path: Path) -> int:
        """A new file, open for appending; an existing one is an error."""
        return os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_EXCL | _CLOSE_ON_EXEC, 0o666)

    def open(self, path: Path) -> int:
        """An existing file, open for appending."""
        return os.open(path, os.O_WRONLY | os.O_APPEND | _CLOSE_ON_EXEC)

    def write(self, descriptor: int, parts: Sequence[Any]) -> int:
        """Append these buffers with one call; says how many bytes were taken, maybe not all."""
        return os.writev(descriptor, parts)

    def fsync(self, descriptor: int) -> None:
        os.fsync(descriptor)

    def truncate(self, descriptor: int, size: int) -> None:
        os.ftruncate(descriptor, size)

    def close(self, descriptor: int) -> None:
        os.close(descriptor)

    def rename(self, source: Path, target: Path) -> None:
        """Atomic; replaces the target."""
        os.replace(source, target)

    def remove(self, path: Path) -> None:
        """A file, or a folder with all that is in it."""
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink()

    def make_folder(self, path: Path) -> None:
        path.mkdir(exist_ok=True)

    def fsync_folder(self, path: Path) -> None:
        """Makes creations, renames and removals in a folder durable."""
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def lock(self, path: Path) -> int:
        """Take the exclusive lock of this file, or raise BlockingIOError; closing the descriptor gives it back."""
        import fcntl  # not on every system, and needed by stores alone

        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | _CLOSE_ON_EXEC, 0o666)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BaseException:
            os.close(descriptor)
            raise
        return descriptor


REAL = Files()


def make_folders(files: Files, path: Path) -> None:
    """The folder, and those above it that are missing, durably."""
    path = path.absolute()
    if not path.parent.is_dir():
        make_folders(files, path.parent)
    files.make_folder(path)
    files.fsync_folder(path.parent)


def write_all(files: Files, descriptor: int, parts: Sequence[Any]) -> None:
    """Append all of these buffers; usually one call, more where the system takes only a part."""
    waiting = [memoryview(part).cast("B") for part in parts if memoryview(part).nbytes]
    while waiting:
        taken = files.write(descriptor, waiting)
        while waiting and taken >= len(waiting[0]):
            taken -= len(waiting.pop(0))
        if waiting:
            waiting[0] = waiting[0][taken:]


def write_new(files: Files, path: Path, parts: Sequence[Any], prove: Callable[[Path], None] | None = None) -> None:
    """Put a file in place as a whole: temporary file, fsync, proof, rename, fsync of the folder.

    Until the rename nothing is at ``path`` but what was there before, and afterwards it is complete and durable.
    ``prove`` looks at the new file before it takes the place of the old one, and raises if it is not as it should be.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}-{get_ident()}{TEMPORARY}")
    with suppress(FileNotFoundError):
        files.remove(temporary)
    try:
        _write_durably(files, temporary, parts)
        if prove is not None:
            prove(temporary)
        files.rename(temporary, path)
    except BaseException:
        with suppress(OSError):
            files.remove(temporary)
        raise
    files.fsync_folder(path.parent)


def _write_durably(files: Files, path: Path, parts: Sequence[Any]) -> None:
    descriptor = files.create(path)
    try:
        write_all(files, descriptor, parts)
        files.fsync(descriptor)
    finally:
        files.close(descriptor)
