"""A file that a model lives in: opened by one owner, every call one transaction, and nothing lost unnoticed.

SQLite's write-ahead log may be cut or lost, and the rest is then a shorter model that nothing inside distinguishes from
a whole one. While the model is open, a small file beside it holds the number of the last acknowledged transaction,
outside of the log; the process that has locked that file is the owner.
"""

from __future__ import annotations

import ctypes
import os
import secrets
import stat
import time
import weakref
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from io import FileIO
from pathlib import Path
from typing import Any

from batch2online.storage import system
from batch2online.storage.atomic import replaced
from batch2online.storage.database import Database
from batch2online.storage.errors import StoreCorrupted, StoreError, StoreLocked, typed

_SYNC_SECONDS = 1.0
SYNCHRONOUS = {"every": "FULL", "batch": "NORMAL", "os": "NORMAL"}
"""How SQLite syncs its log for each ``durability``."""

_BOOT = Path("/proc/sys/kernel/random/boot_id")
SIDE_FILES = ("-owner", "-wal", "-shm", "-journal")
"""What the names of files beside a model end in."""


@dataclass(frozen=True)
class Reopened:
    """How a model was restored.

    Attributes
    ----------
    replayed : int
        Rows learned again since the last state.
    was_closed : bool
        Whether its last owner had closed it.
    lost : int
        Calls that a loss of power has taken, as far as ``durability`` lets it.
    """

    replayed: int
    was_closed: bool
    lost: int


@dataclass(frozen=True)
class Acknowledged:
    """What the last owner has left: its token, the boot of the machine that it ran in, its last transaction."""

    token: str
    boot: str
    commit: int


class Owner:
    """The exclusive right to write to a file, held until it is released or the process ends."""

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


class Session:
    """An open file and the right to write to it.

    Parameters
    ----------
    path : Path
        The file; created if need be.
    durability : {"every", "batch", "os"}
        What a loss of power may take.
    accept_loss : bool
        Open a file although a part of it is missing.
    """

    def __init__(self, path: Path, durability: str, accept_loss: bool) -> None:
        self.path, self.durability = path, durability
        self.poison, self._synced_at = "", time.monotonic()
        self._owner = Owner(path)
        try:
            self._create_if_missing()
            self._look_at_calls(accept_loss)
            self.database = Database(path, "live")
            self.database.pragma(f"synchronous={SYNCHRONOUS[durability]}")
            self._inode = path.stat().st_ino
        except BaseException:
            if "database" in vars(self):
                self.database.close()
            self._owner.release(remove=self._owner.last is None)
            raise
        _open.add(self)

    def _create_if_missing(self) -> None:
        if not self.path.exists():
            with typed(f"cannot create {self.path}"), replaced(self.path) as temporary:
                Database(temporary, "copy").close()

    def _look_at_calls(self, accept_loss: bool) -> None:
        """Detect losses of the file before SQLite cleans up; a refused file stays unchanged."""
        has_log = self.path.with_name(f"{self.path.name}-wal").exists()
        database = Database(self.path, "inspect" if has_log else "read")
        database.close()
        with suppress(OSError):  # SQLite's index of the log; nobody else has the file open
            self.path.with_name(f"{self.path.name}-shm").unlink(missing_ok=True)
        self.lost = self._lost_calls(database.meta, accept_loss)

    def _lost_calls(self, meta: dict[str, Any], accept_loss: bool) -> int:
        """Return how many acknowledged calls are missing; refuse the file where no loss of power explains it."""
        last = self._owner.last
        if not meta.get("in_use"):
            return 0
        if last is None or last.token != meta["in_use"]:
            if accept_loss:
                return 0
            raise StoreCorrupted(
                f"{self.path} was copied while it was open, or files beside it were lost: calls since its last "
                "checkpoint may be missing. accept_loss=True opens it without them."
            )
        lost = max(0, last.commit - int(meta["commit"]))
        if lost and last.boot == boot() and not accept_loss:
            raise StoreCorrupted(
                f"{self.path} has lost the last {lost:,} calls: the log beside it was cut or removed. "
                "accept_loss=True opens it without them."
            )
        return lost

    @property
    def was_closed(self) -> bool:
        """Whether the file is marked as closed."""
        return not self.database.meta.get("in_use")

    def begin(self) -> None:
        """Record beside the file, then in the file itself and not only in its log, that it is open.

        What was not closed keeps its token, so that there is no moment at which the two notes disagree.
        """
        meta, last = self.database.meta, self._owner.last
        is_continued = last is not None and last.token == meta.get("in_use")
        self._token = meta["in_use"] if is_continued else secrets.token_hex(8)
        with typed(f"cannot lock {self.path}"):
            self._owner.acknowledge(self._token, meta.get("commit", 0))
            self._owner.sync()
        self._mark(in_use=self._token)
        self.database.pragma("wal_checkpoint(TRUNCATE)")
        self._acknowledge()

    # -- one call, one transaction --------------------------------------------------------------------

    @property
    def n_calls(self) -> int:
        """The number of the last call, for :meth:`has_committed`."""
        return int(self.database.meta.get("commit", 0))

    def carry_out(self, act: Callable[[], object], counts: bool = True) -> None:
        """Carry out the changes of one call. What leaves the model as it is does not count: nothing is lost with it.

        A call inside another one is committed and counted with it.
        """
        if self.database.in_transaction:
            self.database.transact(act)
            return

        def counted() -> None:
            act()
            self.database.meta["commit"] = self.n_calls + counts

        self.database.transact(counted)
        self._acknowledge()
        if self.durability == "batch" and time.monotonic() - self._synced_at >= _SYNC_SECONDS:
            with suppress(StoreError):
                self.database.pragma("wal_checkpoint(PASSIVE)")
            self._synced_at = time.monotonic()

    def _mark(self, in_use: str) -> None:
        changes = {"in_use": in_use, "commit": self.n_calls + 1}
        self.database.transact(lambda: self.database.meta.update(changes))

    def has_committed(self, before: int) -> bool:
        """Return whether the call after this one is in the file, whatever was raised since."""
        try:
            ((value,),) = self.database.select("SELECT value FROM meta WHERE key = 'commit'")
            return int(value) > before
        except StoreError as error:
            self.poison = f"it is in doubt whether the last call was carried out: {error}"
            return False

    def _acknowledge(self) -> None:
        with suppress(OSError):  # the call is committed; without the note a lost log would not be noticed
            self._owner.acknowledge(self._token, self.database.meta["commit"])

    def check_usable(self) -> None:
        """Refuse a fork, a file that is closed or in doubt, and one that is not where it was."""
        self.database.check_process()
        if self.poison:
            raise StoreError(f"{self.path} cannot be used any more: {self.poison}. Open it again.")
        if self.was_closed:
            raise StoreError(
                f"{self.path} cannot be used any more: closing it was interrupted. Close it, then open it again."
            )
        with typed(f"cannot inspect {self.path}"):
            found = self.path.stat().st_ino if self.path.exists() else None
        if found != self._inode:
            raise StoreError(f"{self.path} was moved, replaced or removed while it was open.")

    def erase_log(self) -> None:
        """Write everything to the file itself, so that the log holds no earlier content."""
        self.database.pragma("wal_checkpoint(TRUNCATE)")

    def close(self) -> None:
        """Let others open the file, which is then one file and nothing else.

        An interrupt leaves it open, or leaves something for the next call to do.
        """
        self.database.check_process()
        if not self.poison and self.database.is_open:
            if not self._owner.is_in_place():
                self.poison = "it was moved or removed"  # the file there now may be another's
            else:
                self._mark_closed()
        self.database.close()
        self._owner.release(remove=not self.poison)
        self.poison = self.poison or "it is closed"

    def _mark_closed(self) -> None:
        try:
            if not self.was_closed:
                self._mark(in_use="")
            self.database.pragma("journal_mode=DELETE")
        except StoreError as error:
            self.poison = str(error)

    def abandon(self) -> None:
        """Release all resources and leave the file as after a crash."""
        self.poison = self.poison or "it was abandoned"
        self.database.close()
        self._owner.release(remove=False)


_open: weakref.WeakSet[Session] = weakref.WeakSet()


def _let_go_in_fork() -> None:
    """Keep a fork from closing files that its parent works on: SQLite would clean up files that the parent uses."""
    for session in list(_open):
        session._owner.forget()
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(session.database._connection))


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_let_go_in_fork)
