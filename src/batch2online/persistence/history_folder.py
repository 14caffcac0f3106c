"""All rows seen, in a folder: memory does not grow with their number."""

from __future__ import annotations

import secrets
import shutil
from collections.abc import Iterator
from contextlib import suppress
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from batch2online._types import FloatArray, IntArray
from batch2online.core.history import History
from batch2online.core.registry import storable
from batch2online.core.rows import Rows, all_ones, ones
from batch2online.persistence.store import Store, StoreError
from batch2online.persistence.store.errors import typed


@storable
class FolderHistory(History):
    """Complete blocks are in a store, the last block is in memory until it is complete.

    Each time the history is rewritten (rows forgotten, another history merged) it moves to a new subfolder. The old one
    goes when the call has succeeded or, if a checkpoint may need it, at the next checkpoint. The folder belongs to one
    history, whose token is in the file ``owner``. A checkpoint names the folder and does not hold its rows: keep both.
    """

    is_in_memory = False
    _store: Store | None = None  # opened when needed
    _is_writable: bool = False

    def __init__(self, folder: str, block: int, width: int, n_targets: int, token: str, generation: int = 0) -> None:
        super().__init__(block, width, n_targets)
        self.folder, self.token, self.generation = str(Path(folder).resolve()), token, generation
        self.is_in_checkpoint = False
        self.stored: list[int] = [0]  # rows in the store up to the end of each block

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_store": None, "_is_writable": False}

    @property
    def _subfolder(self) -> Path:
        return Path(self.folder) / f"rows-{self.generation:06d}"

    @classmethod
    def new(cls, folder: str, block: int, width: int, n_targets: int) -> FolderHistory:
        """A history in a folder that holds none yet."""
        history = cls(folder, block, width, n_targets, token=secrets.token_hex(16))
        with typed(f"cannot keep a history in {folder}"):
            Path(history.folder).mkdir(parents=True, exist_ok=True)
            try:
                with history._owner.open("x") as file:
                    file.write(history.token)
            except FileExistsError:
                raise StoreError(
                    f"{folder} holds the history of another model: choose another, or load that model."
                ) from None
        return history

    @property
    def _owner(self) -> Path:
        return Path(self.folder) / "owner"

    def _open(self, writable: bool) -> Store:
        """The store with the rows of this history; the lock is taken when there is something to write."""
        store = self._store
        if store is None or (writable and not self._is_writable):
            with typed(f"cannot open the history in {self.folder}"):
                if self._owner.read_text() != self.token:
                    raise StoreError(f"{self.folder} holds the history of another model.")
            if writable and not self._subfolder.exists():
                store = Store.create(self._subfolder, self.width + self.n_targets + 2)
            else:
                store = Store.open(self._subfolder, read_only=not writable)
            if len(store) < self.stored[-1]:
                raise StoreError(f"{self._subfolder} has lost rows: {len(store)} of {self.stored[-1]} are there.")
            self._store, self._is_writable = store, writable
        if writable and len(store) > self.stored[-1]:  # written before an error undid it
            store.truncate(self.stored[-1])
        return store

    def _close(self) -> None:
        rows = self._open_block()
        ids = rows.ids.view(np.float64)  # the bits of the integer, whatever number they spell
        self._open(writable=True).append(np.column_stack([rows.points, rows.targets, rows.weights, ids]))
        self.stored.append(self.stored[-1] + len(rows))
        self.pieces = []

    def _block(self, index: int) -> Rows:
        pieces = list(self._open(writable=False).pieces(self.stored[index], self.stored[index + 1]))
        return self._rows(pieces[0] if len(pieces) == 1 else np.concatenate(pieces))

    def _rows(self, values: FloatArray) -> Rows:
        targets, weights, ids = self.width, self.width + self.n_targets, self.width + self.n_targets + 1
        weight = np.ascontiguousarray(values[:, weights])
        return Rows(
            np.ascontiguousarray(values[:, :targets]),
            np.ascontiguousarray(values[:, targets:weights]),
            ones(len(values)) if all_ones(weight) else weight,
            np.ascontiguousarray(values[:, ids]).view(np.int64),
        )

    def __iter__(self) -> Iterator[Rows]:
        yield from self.from_row(0)

    def from_row(self, start: int) -> Iterator[Rows]:
        """Blocks from the ``start``-th row on, the last one as far as it has come."""
        first = int(np.searchsorted(self.stored, start, side="right")) - 1
        start -= self.stored[first]
        for rows in chain(map(self._block, range(first, len(self.stored) - 1)), super().__iter__()):
            if start < len(rows):
                yield rows[start:] if start else rows
            start = max(0, start - len(rows))

    def at(self, positions: IntArray) -> Rows:
        """The rows at these positions, counted from 0 in the order of ids."""
        order = np.argsort(positions, kind="stable")
        ascending = positions[order]
        on_disk = ascending[ascending < self.stored[-1]]
        parts = [self._rows(self._open(writable=False).read(on_disk))] if len(on_disk) else []
        if len(on_disk) < len(positions):
            parts.append(self._open_block()[ascending[len(on_disk) :] - self.stored[-1]])
        found = Rows.concatenate(parts) if parts else Rows.empty(self.width, self.n_targets)
        return found[np.argsort(order, kind="stable")]

    def emptied(self) -> FolderHistory:
        new = FolderHistory(self.folder, self.block, self.width, self.n_targets, self.token, self.generation + 1)
        new.is_in_checkpoint = self.is_in_checkpoint
        if new._subfolder.exists() and self._owns_folder():  # left by an attempt that failed
            shutil.rmtree(new._subfolder)
        return new

    def _owns_folder(self) -> bool:
        """Whether the folder is that of this history: a forged file may name any."""
        with suppress(OSError):
            return secrets.compare_digest(self._owner.read_bytes(), self.token.encode())
        return False

    def discard(self) -> None:
        if not self._owns_folder():
            return
        if self._store is not None:
            self._store.close()
            self._store = None
        shutil.rmtree(self._subfolder, ignore_errors=True)
        self._owner.unlink(missing_ok=True)

    def clean_up(self) -> None:
        if not self.is_in_checkpoint:
            self.after_checkpoint()

    def before_checkpoint(self) -> None:
        self.is_in_checkpoint = True
        if self._is_writable and self._store is not None:
            self._store.sync()

    def after_checkpoint(self) -> None:
        """Remove the subfolders of the histories before this one, if the folder is its own."""
        if not self._owns_folder():
            return
        for subfolder in Path(self.folder).glob("rows-*"):
            if subfolder.name < self._subfolder.name:
                shutil.rmtree(subfolder)

    def copy(self) -> FolderHistory:
        twin: Any = super().copy()
        twin.stored = list(self.stored)
        result: FolderHistory = twin
        return result
