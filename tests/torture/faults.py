"""File layers that fail: one call at a time, or all that was not synced when the power went."""

from __future__ import annotations

import errno
import os
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from batch2online.persistence.files import Files

CHANGING = ("create", "open", "write", "fsync", "truncate", "close", "rename", "remove", "make_folder", "fsync_folder")


class Killed(BaseException):
    """The process is dead: it does nothing any more, not even clean up."""


class FaultyFiles(Files):
    """The real calls, of which the one with number ``fail_at`` fails.

    ``fault`` is an error number, "short" (half of a write is done, then the disk is full), "kill" (the call and all
    after it never happen) or "kill half" (half of a write is done before that).
    """

    def __init__(self, fail_at: int | None = None, fault: int | str = errno.EIO) -> None:
        self.fail_at, self.fault = fail_at, fault
        self.calls: list[str] = []
        self.is_dead = False
        self.descriptors: set[int] = set()

    def lock(self, path):
        descriptor = super().lock(path)
        self.descriptors.add(descriptor)
        return descriptor

    def bury(self) -> None:
        """Close what a dead process would have closed by dying."""
        for descriptor in self.descriptors:
            os.close(descriptor)
        self.descriptors.clear()

    def _do(self, name, call, *arguments):
        if self.is_dead and name == "close":
            return None
        if self.is_dead:
            raise Killed
        self.calls.append(name)
        if len(self.calls) - 1 == self.fail_at:
            self._fail(name, *arguments)
        result = call(*arguments)
        if name in ("create", "open"):
            self.descriptors.add(result)
        if name == "close":
            self.descriptors.discard(arguments[0])
        return result

    def _fail(self, name, *arguments):
        if self.fault in ("short", "kill half") and name == "write":
            content = b"".join(map(bytes, arguments[1]))
            os.write(arguments[0], content[: len(content) // 2])
        if self.fault in ("kill", "kill half"):
            self.is_dead = True
            raise Killed
        number = errno.ENOSPC if self.fault == "short" else self.fault
        raise OSError(number, os.strerror(number))


def _counted(name):
    real = (lambda *_: None) if "fsync" in name else getattr(Files, name)  # no test can tell whether it was really done

    def call(self, *arguments):
        return self._do(name, lambda *given: real(self, *given), *arguments)

    return call


for _name in CHANGING:
    setattr(FaultyFiles, _name, _counted(_name))


class Unsynced(Files):
    """Faster than the real ones, and no test can tell the difference."""

    def fsync(self, descriptor):
        pass

    def fsync_folder(self, path):
        pass


class ShortWrites(Files):
    """A system that takes only a few bytes at a time, as it may."""

    def write(self, descriptor, parts):
        return os.write(descriptor, bytes(parts[0])[:7])


@dataclass
class _Inode:
    """A file: what is safe, and what was done since."""

    durable: bytes = b""
    pending: list[tuple] = field(default_factory=list)
    size: int = 0


class RecordingFiles(FaultyFiles):
    """The same, written down, so that :meth:`after_power_loss` can say what a disk may hold afterwards."""

    def __init__(self, root: Path, fail_at: int | None = None) -> None:
        super().__init__(fail_at, "kill half")
        self.root = root
        self.inodes: list[_Inode] = []
        self.by_descriptor: dict[int, int] = {}
        self.entries: dict[Path, int | str] = {}  # as they are
        self.durable_entries: dict[Path, int | str] = {}  # as they would surely be after a loss of power
        self.pending_entries: list[tuple] = []

    def create(self, path):
        descriptor = super().create(path)
        self.inodes.append(_Inode())
        self.by_descriptor[descriptor] = len(self.inodes) - 1
        self._enter(("link", path, len(self.inodes) - 1))
        return descriptor

    def open(self, path):
        descriptor = super().open(path)
        self.by_descriptor[descriptor] = self.entries[path]
        return descriptor

    def write(self, descriptor, parts):
        inode = self.inodes[self.by_descriptor[descriptor]]
        content = b"".join(map(bytes, parts))
        try:
            taken = super().write(descriptor, parts)
        except Killed:
            inode.pending.append(("write", inode.size, content[: len(content) // 2]))
            raise
        inode.pending.append(("write", inode.size, content[:taken]))
        inode.size += taken
        return taken

    def truncate(self, descriptor, size):
        super().truncate(descriptor, size)
        inode = self.inodes[self.by_descriptor[descriptor]]
        inode.pending.append(("truncate", size))
        inode.size = size

    def fsync(self, descriptor):
        super().fsync(descriptor)
        inode = self.inodes[self.by_descriptor[descriptor]]
        inode.durable = _applied(inode.durable, inode.pending)
        inode.pending = []

    def rename(self, source, target):
        super().rename(source, target)
        self._enter(("rename", source, target, self.entries[source]))

    def remove(self, path):
        names = sorted(path.rglob("*"), reverse=True) if path.is_dir() else []
        super().remove(path)
        for name in [*names, path]:
            self._enter(("unlink", name))

    def make_folder(self, path):
        is_new = not path.exists()
        super().make_folder(path)
        if is_new:
            self._enter(("link", path, "folder"))

    def fsync_folder(self, path):
        super().fsync_folder(path)
        mine = [change for change in self.pending_entries if change[-2 if change[0] == "rename" else 1].parent == path]
        for change in mine:
            _apply_entry(self.durable_entries, change)
        self.pending_entries = [change for change in self.pending_entries if change not in mine]

    def _enter(self, change):
        _apply_entry(self.entries, change)
        self.pending_entries.append(change)

    def after_power_loss(self, rng: np.random.Generator, target: Path) -> None:
        """Put a disk's content into ``target``: of what was not synced, any part may be there, in any order."""
        target.mkdir()
        entries = dict(self.durable_entries)
        for change in self.pending_entries:
            if rng.random() < 0.5:
                _apply_entry(entries, change)
        for path, inode in sorted(entries.items()):
            place = target / path.relative_to(self.root)
            if not place.parent.exists():
                continue  # the folder was lost, and all that was in it
            if inode == "folder":
                place.mkdir()
            else:
                place.write_bytes(self._content_after(rng, self.inodes[inode]))

    def _content_after(self, rng, inode: _Inode) -> bytes:
        style = rng.integers(4)
        pending = list(inode.pending)
        if style == 0:
            pending = []
        elif style == 1:
            pending = [change for change in pending if rng.random() < 0.5]
        elif style == 2:
            pending = [part for change in pending for part in _torn(rng, change)]
        return _applied(inode.durable, pending)


def _torn(rng, change):
    """Sectors of a write, some of which got to the disk."""
    if change[0] == "truncate":
        return [change] if rng.random() < 0.5 else []
    _, offset, content = change
    sector = int(rng.choice([16, 64, 512]))
    parts = [("write", offset + at, content[at : at + sector]) for at in range(0, len(content), sector)]
    return [part for part in parts if rng.random() < 0.7]


def _applied(content: bytes, changes) -> bytes:
    disk = bytearray(content)
    for change in changes:
        if change[0] == "truncate":
            disk = disk[: change[1]].ljust(change[1], b"\0")
        else:
            _, offset, data = change
            disk = disk.ljust(offset + len(data), b"\0")
            disk[offset : offset + len(data)] = data
    return bytes(disk)


def _apply_entry(entries: dict, change: tuple) -> None:
    kind, path, *rest = change
    if kind == "link":
        entries[path] = rest[0]
    elif kind == "unlink":
        entries.pop(path, None)
    else:
        entries.pop(path, None)
        entries[rest[0]] = rest[1]
