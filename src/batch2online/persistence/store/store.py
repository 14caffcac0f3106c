"""Rows on disk: what was acknowledged survives, what is damaged is noticed, what is half done is undone.

A store is a folder of append-only segment files (``records`` describes their bytes) and a lock. ``append`` adds all of
its rows or none. What survives once it has returned depends on ``sync``:

============  ==================================  =================================================================
``sync``      after the death of the process      after a loss of power
============  ==================================  =================================================================
``always``    every row                           every row
``interval``  every row                           every row up to the last sync, ``n_durable``; syncs once a second
                                                  while rows come, when a segment is full, in ``sync`` and ``close``
``never``     every row                           the same, but synced only when a segment is full or in ``sync``
============  ==================================  =================================================================

Beyond what is promised, a loss of power leaves a prefix of what was appended, never a mixture. Opening a store reads
and checks every byte of it, drops an unfinished end and says so in ``recovered``. Damage that no crash explains is
refused (:class:`StoreCorrupted`); ``repair=True`` keeps the rows before it.
"""

from __future__ import annotations

import os
import time
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np

from batch2online._types import FloatArray
from batch2online.persistence.files import REAL, Files, make_folders, write_all, write_new
from batch2online.persistence.store.errors import StoreError, StoreLocked, typed
from batch2online.persistence.store.reader import Reader
from batch2online.persistence.store.records import HEADER_BYTES, RECORD_BYTES, Header, Record
from batch2online.persistence.store.recovery import read_segments, recover, segment_path, segment_paths

SYNC_SECONDS = 1.0
SEGMENT_BYTES = 2**26


class Store(Reader):
    """An append-only array of rows in a folder. One process writes, any number may read.

    Parameters of :meth:`create` and :meth:`open`
    ---------------------------------------------
    folder : path
    columns : int
        Numbers in a row.
    sync : {"always", "interval", "never"}
        When rows are made durable, see above.
    read_only : bool
        Neither lock nor change anything; see the rows that were complete when it was opened.
    repair : bool
        Where a store is damaged, keep the rows before the damage instead of refusing it.
    segment_bytes : int
        A new file is begun when one has reached this size.
    files : Files
        The system calls to use.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with Store.create(folder, columns=2) as store:
    ...         store.append([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
    ...         store.truncate(2)
    ...     with Store.open(folder) as store:
    ...         print(len(store), store.read([1]), store.recovered)
    2 [[3. 4.]] None
    """

    def __init__(
        self, folder: Path, files: Files, sync: str, segment_bytes: int, lock: int | None, repair: bool = False
    ) -> None:
        with typed(f"cannot open {folder}"):
            found = read_segments(folder, repair)
            super().__init__(folder, found.columns, found.extents, found.recovery)
            self.sync_mode, self.segment_bytes = sync, int(segment_bytes)
            self._files, self._owner = files, os.getpid()
            self._number, self._size, self._checksum = found.number, found.end, found.checksum
            self._durable_bytes, self.n_durable = self._size, len(self)
            self._synced_at = time.monotonic()
            self._lock: int | None = None
            self._descriptor: int | None = None
            if lock is not None:
                recover(files, folder, found)
                self._descriptor = files.open(segment_path(folder, self._number))
                self._lock = lock

    @classmethod
    def create(
        cls,
        folder: str | os.PathLike[str],
        columns: int,
        *,
        sync: str = "interval",
        segment_bytes: int = SEGMENT_BYTES,
        files: Files = REAL,
    ) -> Self:
        """A new store in this folder, which may exist but must not hold a store."""
        if not isinstance(columns, int | np.integer) or not 1 <= columns < 2**32:
            raise ValueError(f"columns must be a positive integer, got {columns!r}.")
        _check_mode(sync)
        path = Path(folder)
        with typed(f"cannot create a store in {path}"):
            make_folders(files, path)
        lock = take_lock(path, files)
        try:
            if segment_paths(path):
                raise StoreError(f"{path} holds a store already: open it, or choose another folder.")
            with typed(f"cannot create a store in {path}"):
                write_new(files, segment_path(path, 0), [Header(int(columns), 0, 0, 0).pack()])
            return cls(path, files, sync, segment_bytes, lock)
        except BaseException:
            files.close(lock)
            raise

    @classmethod
    def open(
        cls,
        folder: str | os.PathLike[str],
        *,
        read_only: bool = False,
        repair: bool = False,
        sync: str = "interval",
        segment_bytes: int = SEGMENT_BYTES,
        files: Files = REAL,
    ) -> Self:
        """The store in this folder, recovered if it was left unfinished."""
        _check_mode(sync)
        path = Path(folder)
        if not segment_paths(path):
            raise StoreError(f"{path} holds no store.")
        if read_only:
            return cls(path, files, sync, segment_bytes, None, repair)
        lock = take_lock(path, files)
        try:
            return cls(path, files, sync, segment_bytes, lock, repair)
        except BaseException:
            files.close(lock)
            raise

    # -- writing ------------------------------------------------------------------------------------

    def append(self, rows: Any) -> None:
        """Add rows (n, columns) at the end, all of them or, if an error is raised, none."""
        array = np.ascontiguousarray(rows, dtype="<f8")
        if array.ndim != 2 or array.shape[1] != self.columns:
            raise ValueError(f"rows must have shape (n, {self.columns}), got {array.shape}.")
        self._check_writable()
        if len(array):
            self._write(len(self), array)

    def truncate(self, n_rows: int) -> None:
        """Take back all rows but the first ``n_rows``, or, if an error is raised, none.

        The rows stay on disk behind a note that they are void; the space is not given back.
        """
        if not 0 <= n_rows <= len(self):
            raise ValueError(f"n_rows must be between 0 and {len(self)}, got {n_rows}.")
        self._check_writable()
        if n_rows < len(self):
            self._write(int(n_rows), np.empty((0, self.columns)))

    def sync(self) -> None:
        """Make all rows durable now."""
        self._check_writable()
        if self._durable_bytes < self._size:
            with self._fatal("fsync failed"):
                self._files.fsync(self._open_descriptor())
        self._durable_bytes, self.n_durable = self._size, len(self)
        self._synced_at = time.monotonic()

    def _write(self, start: int, rows: FloatArray) -> None:
        """One record: rows that begin at ``start``, and void what stood from there on."""
        if self._size >= max(self.segment_bytes, HEADER_BYTES + 1):
            self._begin_segment()
        record = Record(start, len(rows), self._durable_bytes, zlib.crc32(rows.data), self._checksum)
        head, checksum = record.pack()
        self._write_or_undo([head, rows])
        self._extents.cut(start)
        self._extents.add(self._number, self._size + RECORD_BYTES, len(rows))
        self._size += RECORD_BYTES + rows.nbytes
        self._checksum, self.n_durable = checksum, min(self.n_durable, start)
        self._sync_if_due()

    def _write_or_undo(self, parts: list[Any]) -> None:
        descriptor = self._open_descriptor()
        try:
            with typed(f"cannot write to {self.folder}"):
                write_all(self._files, descriptor, parts)
        except BaseException:
            with self._fatal("an unfinished record could not be taken back"):
                self._files.truncate(descriptor, self._size)
            raise

    def _sync_if_due(self) -> None:
        overdue = self.sync_mode == "interval" and time.monotonic() - self._synced_at >= SYNC_SECONDS
        if overdue or self.sync_mode == "always":
            self.sync()

    def _begin_segment(self) -> None:
        """A new file; everything before it is durable, so damage there can never be an unfinished write."""
        self.sync()
        header = Header(self.columns, self._number + 1, len(self), self._checksum)
        path, content = segment_path(self.folder, header.number), header.pack()
        try:
            with typed(f"cannot begin {path}"):
                write_new(self._files, path, [content])
                descriptor = self._files.open(path)
        except BaseException:
            if path.exists():
                self._poison = f"{path} was begun but may not be durable"
            raise
        old, self._descriptor, self._number = self._descriptor, descriptor, header.number
        self._size = self._durable_bytes = len(content)
        self._let_go(old)

    # -- the end ------------------------------------------------------------------------------------

    def close(self) -> None:
        """Make rows durable (unless ``sync="never"``) and let others write. A second call does nothing."""
        try:
            if self._lock is not None and self._poison is None and self._owner == os.getpid():
                self._close_durably()
        finally:
            self._poison = self._poison or "it is closed"
            self._maps.clear()
            descriptors = (self._descriptor, self._lock)
            self._descriptor = self._lock = None
            for descriptor in descriptors:
                self._let_go(descriptor)

    def _let_go(self, descriptor: int | None) -> None:
        if descriptor is not None:
            with suppress(OSError):  # fsync has said what there is to say
                self._files.close(descriptor)

    def _close_durably(self) -> None:
        """Sync, and note at the end that all is durable: damage is then never taken for an unfinished write."""
        if self.sync_mode == "never":
            return
        self.sync()
        with suppress(StoreError):
            self._write(len(self), np.empty((0, self.columns)))
            self.sync()

    def __del__(self) -> None:
        with suppress(AttributeError):  # it may not have been opened
            self._poison = self._poison or "it was dropped"
            self.close()  # gives the lock back, and writes nothing

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __reduce__(self) -> Any:
        raise TypeError("A store cannot be pickled or copied: open its folder instead.")

    def _check_writable(self) -> None:
        self._check()
        if self._lock is None:
            raise StoreError(f"The store in {self.folder} was opened for reading only.")
        if self._owner != os.getpid():
            raise StoreError(f"The store in {self.folder} belongs to the process that opened it.")

    def _open_descriptor(self) -> int:
        assert self._descriptor is not None
        return self._descriptor

    @contextmanager
    def _fatal(self, what: str) -> Iterator[None]:
        """What fails here leaves in doubt what is on disk: refuse everything from now on."""
        try:
            yield
        except BaseException as error:
            self._poison = f"{what}: {error}"
            if isinstance(error, OSError):
                raise StoreError(f"The store in {self.folder}: {self._poison}.") from error
            raise


def take_lock(folder: Path, files: Files) -> int:
    try:
        return files.lock(folder / "lock")
    except BlockingIOError as error:
        raise StoreLocked(f"{folder} is being written to by another process or object.") from error
    except OSError as error:
        raise StoreError(f"cannot write to {folder}: {error}.") from error


def _check_mode(sync: str) -> None:
    if sync not in ("always", "interval", "never"):
        raise ValueError(f'sync must be "always", "interval" or "never", got {sync!r}.')
