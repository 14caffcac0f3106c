"""A folder of files replaced as one: whoever looks at it sees all of the old files or all of the new ones.

A folder that holds nothing else is exchanged with the new one, which the system does in one step. Where that is not
possible (other files in it, a mount point, the working folder, a system that knows no exchange), the new files come
into the folder under ``.pending`` by one rename and are then moved to their places. As long as ``.pending`` is
there, its files are the valid ones: ``in_place`` finds them, and the next run ends what was interrupted.
"""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Collection
from pathlib import Path

PENDING = ".pending"
_HERE, _EXCHANGE = -100, 2  # AT_FDCWD and RENAME_EXCHANGE of Linux


def put_in_place(staging: Path, folder: Path, names: Collection[str]) -> None:
    """Make the files of ``staging`` the content of the folder; ``names`` are those that belong to a run."""
    for file in staging.iterdir():
        _sync(file)
    if not folder.exists():
        staging.chmod(0o777 & ~_umask())
        os.rename(staging, folder)
    elif not _is_ours_alone(folder, names) or not _exchanged(staging, folder):
        _finish(folder)
        os.rename(staging, folder / PENDING)
        _finish(folder)
    _sync(folder.parent)


def in_place(folder: Path, name: str) -> Path:
    """Where the valid file of this name is."""
    pending = folder / PENDING / name
    return pending if pending.exists() else folder / name


def _finish(folder: Path) -> None:
    """Move the files that a run left under ``.pending`` to their places."""
    pending = folder / PENDING
    if pending.is_dir():
        for file in sorted(pending.iterdir()):
            os.replace(file, folder / file.name)
        _sync(folder)
        pending.rmdir()


def _is_ours_alone(folder: Path, names: Collection[str]) -> bool:
    is_free = not os.path.ismount(folder) and not folder.samefile(Path.cwd())
    return is_free and all(file.name in names and file.is_file() for file in folder.iterdir())


def _exchanged(staging: Path, folder: Path) -> bool:
    """Exchange two folders in one step, if the system can."""
    rename = getattr(ctypes.CDLL(None), "renameat2", None) if sys.platform == "linux" else None
    if rename is None:
        return False
    staging.chmod(folder.stat().st_mode & 0o7777)
    return bool(rename(_HERE, os.fsencode(staging), _HERE, os.fsencode(folder), _EXCHANGE) == 0)


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
