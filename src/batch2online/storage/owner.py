"""The exclusive right to write to a file: one process at a time, until it releases the file or ends.

The owner holds a lock on a small file beside the model. It notes there the number of the last acknowledged transaction,
outside of SQLite's log: the log may be cut or lost, and the rest is then a shorter model that nothing inside
distinguishes from a whole one.
"""

from __future__ import annotations

import os
import stat
from functools import cache
from io import FileIO
from pathlib import Path
from typing import NamedTuple

from batch2online.storage import system
from batch2online.storage.errors import StoreError, StoreLocked, typed

_BOOT = Path("/proc/sys/kernel/random/boot_id")
SIDE_FILES = ("-owner", "-wal", "-shm", "-journal")
"""What the names of files beside a model end in."""


class Acknowledged(NamedTuple):
    """What the last owner has left: its token, the boot of the machine that it ran in, its last transaction."""

    token: str
    boot: str
    commit: int


class Owner:
    """The right to write to a file."""

    def __init__(self, path: Path) -> None:
        self.path = path.with_name(path.name + "-owner")
        check_side_files(path)
        with typed(f"cannot lock {path}"):
            self._file = _locked(self.path, path)
        self.last = self._read()

    def _read(self) -> Acknowledged | None:
        words = system.read_start(self._file, 1000).decode("ascii", "replace").split()
        if len(words) != 3 or not words[2].isdigit():
            return None
        return Acknowledged(words[0], words[1], int(words[2]))

    def acknowledge(self, token: str, commit: int) -> None:
        """Note a transaction as acknowledged."""
        if not self._file.closed:
            system.write_start(self._file, f"{token} {boot()} {commit:020d}\n".encode())

    def sync(self) -> None:
        """Make sure that the note outlives a loss of power."""
        if not self._file.closed:
            system.sync_file(self._file.fileno())
            system.sync_path(self.path.parent)

    def is_in_place(self) -> bool:
        """Return whether the file is still where it was, so that nobody else has taken the right."""
        try:
            return not self._file.closed and os.path.samestat(os.fstat(self._file.fileno()), self.path.lstat())
        except OSError:
            return False

    def release(self, remove: bool) -> None:
        """Release the lock; remove the file if the model was closed."""
        if remove and self.is_in_place():
            system.remove_locked(self._file, self.path)
        self._file.close()

    def forget(self) -> None:
        """Close the file: in a fork the right stays with the process that took it."""
        self._file.close()

    def __del__(self) -> None:
        if "_file" in vars(self):
            self._file.close()


@cache
def boot() -> str:
    """Return the id of this boot of the machine, where the system has one."""
    try:
        return _BOOT.read_text().strip() or "unknown"
    except OSError:
        return "unknown"


def _locked(path: Path, of: Path) -> FileIO:
    """Open and lock the file; once more if its last owner has removed it in between."""
    while True:
        file = FileIO(path, "r+", opener=_opened)
        try:
            system.lock(file)
            if os.path.lexists(path) and os.path.samestat(os.fstat(file.fileno()), path.lstat()):
                return file
        except BlockingIOError as error:
            file.close()
            raise StoreLocked(f"{of} is open in another process or object.") from error
        except BaseException:
            file.close()
            raise
        file.close()


def _opened(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_CREAT | system.OPEN_FLAGS, 0o600)


def check_side_files(path: Path) -> None:
    """Refuse a model with links beside it where its own files belong: writing there would change other files.

    Both this module and SQLite open them without following links; the error here says what was found.
    """
    for suffix in SIDE_FILES:
        beside = path.with_name(path.name + suffix)
        with typed(f"cannot inspect {beside}"):
            found = beside.lstat() if os.path.lexists(beside) else None
        if found is not None and not stat.S_ISREG(found.st_mode):
            kind = "a symbolic link" if stat.S_ISLNK(found.st_mode) else "no regular file"
            raise StoreError(f"{beside} is {kind}, which batch2online never writes: remove it, then open the model.")
        if found is not None and suffix == "-owner" and found.st_nlink > 1:
            raise StoreError(f"{beside} is a hard link to a file elsewhere: replace it by a copy, then open the model.")
