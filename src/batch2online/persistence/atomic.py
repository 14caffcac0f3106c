"""Files that appear as a whole, with the mode, the owner and the links of those that they replace."""

from __future__ import annotations

import os
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path


@contextmanager
def replaced(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Give a path to write to; what is there at the end takes the place of the file, durably, or an error leaves it.

    A symbolic link stays one, and the file that it points to is replaced.
    """
    target = Path(os.path.realpath(path))
    handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.", suffix=".tmp")
    os.close(handle)
    temporary = Path(name)
    try:
        yield temporary
        _take_over_rights(target, temporary)
        sync(temporary)
        os.replace(temporary, target)
    except BaseException:
        with suppress(OSError):
            temporary.unlink()
        raise
    sync(target.parent)


def _take_over_rights(old: Path, new: Path) -> None:
    try:
        rights = old.stat()
    except FileNotFoundError:
        os.chmod(new, 0o666 & ~_umask())
        return
    os.chmod(new, stat.S_IMODE(rights.st_mode))
    with suppress(OSError):  # only the superuser may give a file away
        os.chown(new, rights.st_uid, rights.st_gid)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def sync(path: Path) -> None:
    """Make sure that a file or folder outlives a loss of power as it is."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
