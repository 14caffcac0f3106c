"""A file that a model lives in: opened by one owner, every call one transaction, and nothing lost unnoticed."""

from __future__ import annotations

import ctypes
import os
import secrets
import time
import weakref
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from batch2online.storage.atomic import replaced
from batch2online.storage.database import Database
from batch2online.storage.errors import StoreCorrupted, StoreError, typed
from batch2online.storage.owner import Owner, boot

_SYNC_SECONDS = 1.0
SYNCHRONOUS = {"every": "FULL", "batch": "NORMAL", "os": "NORMAL"}
"""How SQLite syncs its log for each ``durability``."""


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
            if not path.exists():
                with typed(f"cannot create {path}"), replaced(path) as temporary:
                    Database(temporary, "copy").close()
            self.lost = self._lost_calls(self._meta_before_opening(), accept_loss)
            self.database = Database(path, "live")
            self.database.pragma(f"synchronous={SYNCHRONOUS[durability]}")
            self._inode = path.stat().st_ino
        except BaseException:
            if "database" in vars(self):
                self.database.close()
            self._owner.release(remove=self._owner.last is None)
            raise
        _open.add(self)

    def _meta_before_opening(self) -> dict[str, Any]:
        """Return the counts before SQLite cleans up: a refused file stays unchanged."""
        has_log = self.path.with_name(f"{self.path.name}-wal").exists()
        database = Database(self.path, "inspect" if has_log else "read")
        database.close()
        with suppress(OSError):  # SQLite's index of the log; nobody else has the file open
            self.path.with_name(f"{self.path.name}-shm").unlink(missing_ok=True)
        return database.meta

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
            self._owner.acknowledge(self._token, self.n_calls)
            self._owner.sync()
        self.carry_out(lambda: self.database.meta.update(in_use=self._token))
        self.write_log_back()

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
        with suppress(OSError):  # the call is committed; without the note a lost log would not be noticed
            self._owner.acknowledge(self._token, self.n_calls)
        if self.durability == "batch" and time.monotonic() - self._synced_at >= _SYNC_SECONDS:
            with suppress(StoreError):
                self.database.pragma("wal_checkpoint(PASSIVE)")
            self._synced_at = time.monotonic()

    def has_committed(self, before: int) -> bool:
        """Return whether the call after this one is in the file, whatever was raised since."""
        return self.n_calls > before

    def check_usable(self) -> None:
        """Refuse a fork, a file that is closed or in doubt, and one that is not where it was."""
        self.database.check_process()
        self.poison = self.poison or self.database.doubt
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

    def write_log_back(self) -> None:
        """Write everything to the file itself, so that the log holds no earlier content."""
        self.database.pragma("wal_checkpoint(TRUNCATE)")

    # -- the end --------------------------------------------------------------------------------------

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
                self.carry_out(lambda: self.database.meta.update(in_use=""))
            self.database.pragma("journal_mode=DELETE")
        except StoreError as error:
            self.poison = str(error)

    def abandon(self) -> None:
        """Release all resources and leave the file as after a crash."""
        self.poison = self.poison or "it was abandoned"
        self.database.close()
        self._owner.release(remove=False)

    def leave_to_parent(self) -> None:
        """Keep a fork from closing files that its parent works on: SQLite would clean up what the parent uses."""
        self._owner.forget()
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(self.database.connection))


_open: weakref.WeakSet[Session] = weakref.WeakSet()


def _leave_to_parent() -> None:
    for session in list(_open):
        session.leave_to_parent()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_leave_to_parent)
