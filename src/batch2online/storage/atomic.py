"""Files that are replaced as a whole, with the mode, the owner and the links of the old file."""

from __future__ import annotations

import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from batch2online.storage.system import copy_owner, sync_path


@contextmanager
def replaced(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Yield a path to write to; at the end it replaces the file durably, and an error leaves the file unchanged.

    A symbolic link stays one, and the file that it points to is replaced.
    """
    target = Path(os.path.realpath(path))
    temporary = target.with_name(f".{target.name}.{secrets.token_hex(8)}.tmp")
    try:
        created = _created(temporary, mode=0o600 if target.exists() else 0o666)
        yield temporary
        if not os.path.samestat(created, temporary.lstat()):
            raise FileExistsError(f"{temporary} was replaced by another file while it was written")
        _take_over_rights(target, temporary)
        sync_path(temporary)
        os.replace(temporary, target)
    except BaseException:
        with suppress(OSError):
            temporary.unlink()
        raise
    sync_path(target.parent)


def _created(path: Path, mode: int) -> os.stat_result:
    """Make an empty file with this mode, less what the umask takes: asking for the umask would change it for all."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_CLOEXEC", 0), mode)
    try:
        return os.fstat(descriptor)
    finally:
        os.close(descriptor)


def _take_over_rights(old: Path, new: Path) -> None:
    try:
        rights = old.stat()
    except FileNotFoundError:
        return
    os.chmod(new, stat.S_IMODE(rights.st_mode))
    copy_owner(rights, new)
