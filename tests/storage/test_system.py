"""The parts of file access that differ between systems; those of Windows run here with its lock function replaced."""

import importlib
import os
import sys
import types
from io import FileIO

import pytest

from batch2online.storage.system import posix


class Locks(types.ModuleType):
    """Stands in for ``msvcrt``: one byte can be locked once."""

    LK_NBLCK = 2

    def __init__(self):
        super().__init__("msvcrt")
        self.held = set()

    def locking(self, descriptor, mode, n_bytes):
        assert (mode, n_bytes) == (self.LK_NBLCK, 1)
        key = (os.fstat(descriptor).st_ino, os.lseek(descriptor, 0, os.SEEK_CUR))
        if key in self.held:
            raise PermissionError(13, "Permission denied")
        self.held.add(key)


@pytest.fixture(params=["posix", "windows"])
def system(request, monkeypatch):
    if request.param == "posix":
        return posix
    monkeypatch.setitem(sys.modules, "msvcrt", Locks())
    monkeypatch.setattr(sys, "platform", "win32")
    for flag in ("O_BINARY", "O_NOINHERIT"):
        monkeypatch.setattr(os, flag, 0, raising=False)
    name = "batch2online.storage.system.windows"
    monkeypatch.delitem(sys.modules, name, raising=False)
    try:
        return importlib.import_module(name)
    finally:
        sys.modules.pop(name, None)


def opened(path, system):
    return FileIO(os.open(path, os.O_RDWR | os.O_CREAT | system.OPEN_FLAGS, 0o600), "r+")


def test_a_second_lock_is_refused(system, tmp_path):
    with opened(tmp_path / "owner", system) as first, opened(tmp_path / "owner", system) as second:
        system.lock(first)
        with pytest.raises(BlockingIOError):
            system.lock(second)


def test_the_start_is_rewritten_in_place(system, tmp_path):
    with opened(tmp_path / "owner", system) as file:
        system.lock(file)
        for content in (b"a 1\n", b"b 2\n"):
            system.write_start(file, content)
            system.sync_file(file.fileno())
            assert system.read_start(file, 100) == content
    assert (tmp_path / "owner").stat().st_size == 4


def test_a_locked_file_is_removed_and_closed(system, tmp_path):
    file = opened(tmp_path / "owner", system)
    system.lock(file)
    system.remove_locked(file, tmp_path / "owner")
    assert file.closed
    assert not (tmp_path / "owner").exists()


def test_files_and_folders_can_be_synced(system, tmp_path):
    (tmp_path / "file").write_bytes(b"content")
    system.sync_path(tmp_path / "file")
    system.sync_path(tmp_path)
    system.copy_owner((tmp_path / "file").stat(), tmp_path / "file")
    assert (tmp_path / "file").read_bytes() == b"content"
