"""An estimator that outlives its process: checkpoints, and a log of the rows since.

A folder holds generations. Generation g is the checkpoint ``g.npz`` and the store ``g.log`` of the rows that came after
it. Opening the folder takes the newest intact checkpoint and lets it learn what the logs hold, which gives the same
model to the last bit as if nothing had happened, because a model does not depend on how its rows were cut into calls.
Two generations are kept, so a damaged checkpoint costs a longer replay and no row. After what no log can tell again
(the first rows, with their names and shapes; ``merge``; ``forget``) both are written anew and none from before is kept.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np

from batch2online._types import FloatArray
from batch2online.estimators.base import OnlineEstimator
from batch2online.persistence import checkpoint as storage
from batch2online.persistence.files import REAL, TEMPORARY, Files, make_folders
from batch2online.persistence.generations import (
    Reopened,
    as_rows,
    check_has_no_labels,
    check_same,
    newest_intact,
    numbers,
)
from batch2online.persistence.store import Recovery, Store, StoreCorrupted, StoreError
from batch2online.persistence.store.errors import typed
from batch2online.persistence.store.store import take_lock

CHECKPOINT_ROWS = 100_000


class Durable:
    """An estimator whose acknowledged rows survive.

    A call that has returned has its effect on disk, as far as ``sync`` promises.
    A call that raises leaves the estimator and the folder as they were; where a failing disk leaves that in doubt,
    everything is refused until the folder is opened anew.

    Parameters
    ----------
    folder : path
        Created if need be. One process at a time may have it open.
    estimator : OnlineEstimator
        A new one. Where the folder holds one already, that continues, and this one must have the same settings.
    sync : {"always", "interval", "never"}
    checkpoint_rows : int
        Write a checkpoint after this many rows: more make reopening slower and learning faster.

    Attributes
    ----------
    model : OnlineEstimator
        To predict with and to look at; teach it through this object only.
    reopened : Reopened or None
        How the model was brought back; None for a new one.
    checkpoint_error : StoreError or None
        Why the latest checkpoint could not be written. The rows are safe in the log, and the next call tries again.

    Examples
    --------
    >>> import tempfile
    >>> from batch2online import OnlineRegression
    >>> from sklearn.datasets import load_diabetes
    >>> X, y = load_diabetes(return_X_y=True)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     for start in range(0, 400, 100):
    ...         with Durable(folder, OnlineRegression(random_state=0)) as durable:
    ...             _ = durable.partial_fit(X[start : start + 100], y[start : start + 100])
    ...     print(durable.model.n_seen_, durable.reopened.checkpoint)
    400 00000004.npz
    """

    def __init__(
        self,
        folder: str | os.PathLike[str],
        estimator: OnlineEstimator,
        *,
        sync: str = "interval",
        checkpoint_rows: int = CHECKPOINT_ROWS,
        files: Files = REAL,
    ) -> None:
        check_has_no_labels(estimator)
        self.folder, self.model, self.sync = Path(folder), estimator, sync
        self.checkpoint_rows = checkpoint_rows
        self.reopened: Reopened | None = None
        self.checkpoint_error: StoreError | None = None
        self._files, self._generation = files, 0
        self._log: Store | None = None
        self._poison: str | None = None
        with typed(f"cannot create {folder}"):
            make_folders(files, self.folder)
        self._lock: int | None = take_lock(self.folder, files)
        try:
            with typed(f"cannot open {folder}"):
                self._reopen()
        except BaseException:
            self._release()
            raise

    # -- learning -------------------------------------------------------------------------------------

    def partial_fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Learn from further rows, as :meth:`OnlineEstimator.partial_fit`, and keep them."""
        if self._log is None:
            return self._change(lambda: self.model.partial_fit(X, y, sample_weight))
        with self._all_or_nothing():
            self.model.partial_fit(X, y, sample_weight)
            self._log.append(as_rows(X, y if self.model._needs_targets else None, sample_weight))
        return self._checkpoint_if_due()

    def learn_one(self, x: Any, y: Any = None) -> Self:
        """Learn one row, as :meth:`OnlineEstimator.learn_one`, and keep it."""
        if self._log is None:
            return self._change(lambda: self.model.learn_one(x, y))
        with self._all_or_nothing():
            self.model.learn_one(x, y)
            self._log.append([[*self.model._values_of(x), *self.model._target_of(y), 1.0]])
        return self._checkpoint_if_due()

    def merge(self, other: Any) -> Self:
        """As :meth:`OnlineEstimator.merge`."""
        return self._change(lambda: self.model.merge(other))

    def forget(self, ids: Any) -> Self:
        """As :meth:`OnlineEstimator.forget`; checkpoints and logs that still hold the rows are removed."""
        return self._change(lambda: self.model.forget(ids))

    def _change(self, act: Callable[[], object]) -> Self:
        """Do what no log can tell again: the new checkpoint is the commit, and there is no way back behind it."""
        with self._all_or_nothing():
            act()
            self._begin_generation()
        self._remove_before(self._generation)
        return self._try_checkpoint()

    @contextmanager
    def _all_or_nothing(self) -> Iterator[None]:
        if self._poison is not None:
            raise StoreError(f"{self.folder} cannot be used any more: {self._poison}. Open it anew.")
        before = dict(vars(self.model))
        try:
            with before["_engine"].transaction() if "_engine" in before else nullcontext():
                yield
        except BaseException:
            self.model.__dict__.update(before)
            for name in self.model.__dict__.keys() - before.keys():
                del self.model.__dict__[name]
            raise

    # -- checkpoints ----------------------------------------------------------------------------------

    def checkpoint(self) -> None:
        """Write a checkpoint now, so that reopening has nothing to replay."""
        with self._all_or_nothing():
            self._begin_generation()

    def _checkpoint_if_due(self) -> Self:
        is_due = self.checkpoint_error is not None or len(self._current_log()) >= self.checkpoint_rows
        return self._try_checkpoint() if is_due else self

    def _try_checkpoint(self) -> Self:
        """A checkpoint for speed or for safety's sake: what it holds is on disk already, so a failure can wait."""
        self.checkpoint_error = None
        try:
            self._begin_generation()
        except StoreError as error:
            self.checkpoint_error = error
        return self

    def _begin_generation(self) -> None:
        """An empty log, then a checkpoint; on failure the present generation goes on."""
        generation = self._generation + 1
        path = self.folder / f"{generation:08d}.npz"
        if self._log is not None:
            self._log.sync()
        log = self._open_log(generation)
        try:
            with typed(f"cannot write {path}"), self.model.saved() as content:
                storage.write(path, content, self._files)
        except BaseException:
            log.close()
            if path.exists():
                self._poison = f"{path} is written but may not be durable"
            raise
        self._close_log()
        self._log, self._generation = log, generation
        self._remove_before(numbers(self.folder, ".npz")[-2:][0])

    def _open_log(self, generation: int) -> Store:
        path = self.folder / f"{generation:08d}.log"
        if (path / "00000000.rows").exists():
            return Store.open(path, sync=self.sync, files=self._files)
        engine = self.model._engine
        return Store.create(path, engine.width + engine.n_targets + 1, sync=self.sync, files=self._files)

    def _remove_before(self, generation: int) -> None:
        for suffix in (".npz", ".log", ".damaged"):
            for number in numbers(self.folder, suffix):
                if number < generation:
                    with suppress(OSError):  # what cannot be removed now is removed at the next checkpoint
                        self._files.remove(self.folder / f"{number:08d}{suffix}")

    def _current_log(self) -> Store:
        assert self._log is not None
        return self._log

    # -- opening and closing --------------------------------------------------------------------------

    def _reopen(self) -> None:
        for path in self.folder.glob(f".*{TEMPORARY}"):
            self._files.remove(path)
        checkpoints = [self.folder / f"{number:08d}.npz" for number in numbers(self.folder, ".npz")]
        if not checkpoints:
            return
        model, path, damaged = newest_intact(checkpoints)
        check_same(self.model, model)
        self.model = model
        logs = [number for number in numbers(self.folder, ".log") if number >= int(path.stem)] or [int(path.stem)]
        dropped, replayed = self._replay(logs)
        for bad in checkpoints[checkpoints.index(path) + 1 :]:
            self._files.rename(bad, bad.with_suffix(".damaged"))
        self._generation = max(logs[-1], int(checkpoints[-1].stem))
        self.reopened = Reopened(path.name, damaged, replayed, dropped)

    def _replay(self, logs: list[int]) -> tuple[tuple[Recovery, ...], int]:
        """Learn what the logs hold; the last one stays open."""
        dropped: list[Recovery] = []
        replayed = 0
        for number in logs:
            self._close_log()
            self._log = self._open_log(number)
            if dropped and len(self._log):
                raise StoreCorrupted(f"{self.folder}: a log before {number:08d}.log has lost its end: {dropped[-1]}.")
            if self._log.recovered is not None:
                dropped.append(self._log.recovered)
            replayed += len(self._log)
            for rows in self._log.pieces():
                self._learn_again(rows)
        return tuple(dropped), replayed

    def _learn_again(self, rows: FloatArray) -> None:
        engine = self.model._engine
        rows = rows[rows[:, -1] > 0]
        points, targets = rows[:, : engine.width], rows[:, engine.width : -1]
        engine.learn(np.ascontiguousarray(points), np.ascontiguousarray(targets), rows[:, -1].copy())

    def close(self) -> None:
        """Write a checkpoint if rows came since the last, and let others open the folder."""
        try:
            if self._lock is not None and self._poison is None and self._log is not None and len(self._log):
                self._try_checkpoint()
        finally:
            self._release()

    def _release(self) -> None:
        self._poison = self._poison or "it is closed"
        try:
            self._close_log()
        finally:
            lock, self._lock = self._lock, None
            if lock is not None:
                with suppress(OSError):
                    self._files.close(lock)

    def _close_log(self) -> None:
        log, self._log = self._log, None
        if log is not None:
            log.close()

    def __del__(self) -> None:
        lock = self.__dict__.get("_lock")  # absent if it was never opened
        if lock is not None:
            self._files.close(lock)  # the log gives its own lock back

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
