"""A model that outlives its process: one SQLite file that holds its state and all rows learned since.

A call that has returned is a committed transaction. Opening the file reads the state and learns the rows after it
again, which gives the same model to the last bit as if nothing had happened, because a model does not depend on how its
rows were cut into calls.

================  =====================================  ========================================================
``durability``    after the death of the process         after a loss of power
================  =====================================  ========================================================
``"every"``       every call                             every call
``"batch"``       every call                             every call up to the last sync; a call syncs if the last
                                                         sync was a second or more ago
``"os"``          every call                             what the operating system had written by then
================  =====================================  ========================================================

After a loss of power the file is what it was after one of the calls, never a mixture, and ``reopened.lost`` says how
many calls are missing. Without one, a call that is missing is an error.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from threading import RLock
from types import TracebackType
from typing import Any, Self

from batch2online._types import FloatArray
from batch2online.estimators.stored import estimator_from
from batch2online.persistence import model_file, requests, tail
from batch2online.persistence.disk_history import DiskHistory
from batch2online.persistence.errors import StoreError
from batch2online.persistence.session import SYNCHRONOUS, Reopened, Session

CHECKPOINT_ROWS = 100_000


class Durable:
    """A model whose acknowledged rows survive.

    A call that raises leaves the model and the file as they were, or has been carried out as a whole; with a ``key`` it
    can be sent again in either case.

    Parameters
    ----------
    path : path
        One file; a new one, or one that this class has written. In a folder it is called ``model.b2o``.
    model : OnlineEstimator, optional
        A new estimator. Where the file holds one already, that continues, and this one must have the same settings.
    durability : {"every", "batch", "os"}
        What a loss of power may take, see above.
    checkpoint_rows : int
        Write the state anew after this many rows: more make reopening slower and learning faster.
    trusted : None, True or list of str
        As for :func:`batch2online.load`.
    accept_loss : bool
        Open a file of which a part is missing with what is left of it.

    Attributes
    ----------
    model : OnlineEstimator
        To predict with and to look at; teach it through this object only.
    reopened : Reopened or None
        How the model was brought back; None for a new one.
    checkpoint_error : Exception or None
        Why the state could not be written anew. The rows are safe, and the next call tries again.

    Examples
    --------
    >>> import tempfile
    >>> from batch2online import Durable, OnlineRegression
    >>> from sklearn.datasets import load_diabetes
    >>> X, y = load_diabetes(return_X_y=True)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     for start in range(0, 400, 100):
    ...         with Durable(folder, OnlineRegression(random_state=0)) as durable:
    ...             _ = durable.partial_fit(X[start : start + 100], y[start : start + 100])
    ...     print(durable.model.n_seen_, durable.reopened.was_closed)
    400 True
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        model: Any = None,
        *,
        durability: str = "batch",
        checkpoint_rows: int = CHECKPOINT_ROWS,
        trusted: Any = None,
        accept_loss: bool = False,
    ) -> None:
        if durability not in SYNCHRONOUS:
            raise ValueError(f'durability must be "every", "batch" or "os", got {durability!r}.')
        if model is not None:
            model._check_reopenable()
        self.model, self.checkpoint_rows = model, checkpoint_rows
        self.reopened: Reopened | None = None
        self.checkpoint_error: Exception | None = None
        self._lock = RLock()
        self._recorded: list[tail.Given] | None = None
        self._session = Session(_file(path), durability, accept_loss)
        self.path, self._database = self._session.path, self._session.database
        try:
            self._bring_back(model, trusted)
            self._session.begin()
        except BaseException:
            self._session.abandon()
            raise

    @classmethod
    def open(cls, path: str | os.PathLike[str], **settings: Any) -> Self:
        """Open a file that holds a model; settings are those of the class."""
        if not _file(path).is_file():
            raise StoreError(f"{os.fspath(path)} holds no model.")
        return cls(path, None, **settings)

    def _bring_back(self, model: Any, trusted: Any) -> None:
        if not self._database.meta.get("parts"):
            if model is None:
                raise StoreError(f"{self.path} holds no model yet: give one.")
            if self._session.lost:
                self.reopened = Reopened(0, was_closed=False, lost=self._session.lost)
            return
        requests.check(self._database)
        found = estimator_from(model_file.read_state(self._database), str(self.path), trusted=trusted, like=model)
        if model is not None:
            model._check_same_settings(found)
        replayed = tail.learn_again(self._database, found)
        self.model = found
        self.reopened = Reopened(replayed, self._session.was_closed, self._session.lost)
        self._watch()

    # -- learning -------------------------------------------------------------------------------------

    def partial_fit(
        self, X: Any, y: Any = None, sample_weight: Any = None, *, key: str | None = None, source: Any = None
    ) -> Self:
        """Learn from further rows, as the model's own ``partial_fit``, and keep them.

        Parameters
        ----------
        X, y, sample_weight
            As for the model.
        key : str, optional
            A name of this call. A call whose key was carried out before does nothing.
        source : (str, JSON value), optional
            Name and position of an input from which the rows come, kept with them; see :attr:`positions`.
        """
        return self._learn(lambda: self.model.partial_fit(X, y, sample_weight), key, source)

    def learn_one(self, x: Any, y: Any = None, *, key: str | None = None) -> Self:
        """Learn one row, as the model's own ``learn_one``, and keep it."""
        return self._learn(lambda: self.model.learn_one(x, y), key, None)

    def merge(self, other: Any) -> Self:
        """Take in what another estimator has seen, as the model's own ``merge``."""
        return self._change(lambda: self.model.merge(other))

    def forget(self, ids: Any) -> Self:
        """Forget rows, as the model's own ``forget``: no page of the file holds them any more."""
        with self._lock:
            self._session.check_usable()
            try:
                return self._change(lambda: self.model.forget(ids))
            finally:  # after an interrupt, too, or if the rows are gone already
                self._session.erase_log()

    @property
    def positions(self) -> dict[str, Any]:
        """Positions of sources by their names, as of the last call."""
        return dict(self._database.meta.get("sources", {}))

    def _learn(self, act: Callable[[], object], key: str | None, source: Any) -> Self:
        with self._lock:
            self._session.check_usable()
            if key is not None and requests.was_done(self._database, key):
                return self
            self._checkpoint_if_due()
            self._carry_out(lambda: self._keep(act, key, source))
        return self

    def _keep(self, act: Callable[[], object], key: str | None, source: Any) -> None:
        has_state, before = bool(self._database.meta.get("parts")), self._next_id()
        act()
        if has_state:
            tail.append(self._database, self._recorded or [], self.model)
        else:
            self._write_state()
        self._note(key, source, before)

    def _change(self, act: Callable[[], object]) -> Self:
        """Carry out what no rows in the tail can express."""

        def changed() -> None:
            act()
            self._write_state()

        with self._lock:
            self._carry_out(changed)
        return self

    def _next_id(self) -> int:
        engine = vars(self.model).get("_engine")
        return 0 if engine is None else engine.construction.next_id + len(engine.construction.queue)

    def _note(self, key: str | None, source: Any, before: int) -> None:
        if key is not None:
            requests.note(self._database, key, before, self._next_id())
        if source is not None:
            name, position = source
            self._database.meta["sources"] = self._database.meta.get("sources", {}) | {str(name): position}

    def _carry_out(self, act: Callable[[], object], counts: bool = True) -> None:
        """Carry out a call on the model and on the file, or on neither."""
        self._session.check_usable()
        model, calls = self.model._snapshot(), self._session.n_calls
        try:
            self._recorded = []
            self._session.carry_out(act, counts)
        except BaseException:
            if not self._session.has_committed(calls):
                self.model._go_back_to(model)
            raise
        finally:
            self._recorded = None

    def _watch(self) -> None:
        """Have the engine say what it learns; rows that come past this object are refused."""
        engine = self.model._engine.copy()
        history = engine.construction.history
        if isinstance(history, DiskHistory) and history.database is not self._database:
            engine.construction.history = history.moved_to(self._database)
        engine.recorder = self._record
        self.model._engine = engine

    def _record(self, points: FloatArray, targets: FloatArray, weights: FloatArray) -> None:
        if self._recorded is None:
            raise StoreError("Teach a durable model through its Durable: rows that come past it would be lost.")
        self._recorded.append((points, targets, weights))

    # -- the state ------------------------------------------------------------------------------------

    def checkpoint(self) -> None:
        """Write the state anew now, so that opening has nothing to learn again."""
        with self._lock:
            if "_engine" in vars(self.model):
                self._carry_out(self._write_state, counts=False)

    def _write_state(self) -> None:
        self._watch()
        model_file.write_state(self._database, self.model._state())

    def _checkpoint_if_due(self) -> None:
        """Write the state before the rows of a call come: if that fails, the rows are not learned twice."""
        if self._database.meta.get("tail_rows", 0) >= self.checkpoint_rows or self.checkpoint_error is not None:
            self.checkpoint_error = None
            try:
                self.checkpoint()
            except Exception as error:
                self.checkpoint_error = error

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write a copy of the model to a file of its own; this one goes on."""
        self.model.save(path)

    def close(self) -> None:
        """Write the state if rows came since the last, and let others open the file. A second call does nothing."""
        with self._lock:
            if not self._session.poison and not self._session.was_closed and self._database.meta.get("tail"):
                try:
                    self.checkpoint()
                except Exception as error:  # the rows are in the tail
                    self.checkpoint_error = error
            self._session.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __reduce__(self) -> Any:
        raise TypeError("A durable model cannot be pickled or copied: save it, or open its file.")


def _file(path: str | os.PathLike[str]) -> Path:
    found = Path(os.path.realpath(path))
    return found / "model.b2o" if found.is_dir() else found
