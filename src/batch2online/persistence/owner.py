"""Who has a file open, and how much of it was acknowledged: a small file beside it while it is open.

SQLite's write-ahead log may be cut or lost, and what is left then is a shorter model that nothing inside tells from a
whole one. The number of the last acknowledged transaction stands here, outside of the log.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from batch2online.persistence.atomic import sync
from batch2online.persistence.errors import StoreLocked, typed

_BOOT = Path("/proc/sys/kernel/random/boot_id")


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
        with typed(f"cannot lock {path}"):
            self._descriptor: int | None = _locked(self.path, path)
        self.last = self._read()

    def _read(self) -> Acknowledged | None:
        assert self._descriptor is not None
        words = os.pread(self._descriptor, 1000, 0).decode("ascii", "replace").split()
        if len(words) != 3 or not words[2].isdigit():
            return None
        return Acknowledged(words[0], words[1], int(words[2]))

    def acknowledge(self, token: str, commit: int) -> None:
        """Note a transaction as acknowledged."""
        if self._descriptor is not None:
            os.pwrite(self._descriptor, f"{token} {boot()} {commit:020d}\n".encode(), 0)

    def sync(self) -> None:
        """Make sure that the note outlives a loss of power."""
        if self._descriptor is not None:
            os.fsync(self._descriptor)
            sync(self.path.parent)

    def is_in_place(self) -> bool:
        """Return whether the file is still where it was, so that nobody else has taken the right."""
        try:
            return self._descriptor is not None and os.path.samestat(os.fstat(self._descriptor), self.path.stat())
        except OSError:
            return False

    def release(self, remove: bool) -> None:
        """Give the right back; remove the file where the model was closed."""
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is None:
            return
        if remove:
            self.path.unlink(missing_ok=True)
        os.close(descriptor)

    def forget(self) -> None:
        """Let go in a fork: the right stays with the process that took it."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


def boot() -> str:
    """Return what tells one boot of the machine from another, where the system says it."""
    try:
        return _BOOT.read_text().strip() or "unknown"
    except OSError:
        return "unknown"


def _locked(path: Path, of: Path) -> int:
    """Open and lock the file; once more if its last owner has removed it in between."""
    import fcntl  # not on every system, and needed here alone

    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if path.exists() and os.path.samestat(os.fstat(descriptor), path.stat()):
                return descriptor
        except BlockingIOError as error:
            os.close(descriptor)
            raise StoreLocked(f"{of} is open in another process or object.") from error
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)
