"""A model that outlives its process: one SQLite file that holds its state and all rows learned since.

A call that has returned is a committed transaction. Opening the file reads the state and learns the rows after it
again, which gives the same model bit for bit, because a model does not depend on how its rows were cut into calls.

================  =====================================  ========================================================
``durability``    after the death of the process         after a loss of power
================  =====================================  ========================================================
``"every"``       every call                             every call
``"batch"``       every call                             every call up to the last sync; a call syncs if the last
                                                         sync was a second or more ago
``"os"``          every call                             what the operating system had written by then
================  =====================================  ========================================================

After a loss of power the file is in the state after one of the calls, never a mixture, and ``reopened.lost`` is the
number of missing calls. Without one, a call that is missing is an error.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from threading import RLock, get_ident
from types import TracebackType
from typing import Any, Self

from batch2online.estimator import estimator_from
from batch2online.input import PreparedRows, all_at_hand
from batch2online.methods.any_estimator.problem import FitNeededError, without_fitting
from batch2online.methods.linear_losses import problem as _linear_losses  # noqa: F401  # files may name its classes
from batch2online.results import ChangeEvent
from batch2online.storage import journal, model_file
from batch2online.storage.disk_history import DiskHistory
from batch2online.storage.errors import StoreError
from batch2online.storage.session import SYNCHRONOUS, Reopened, Session

CHECKPOINT_ROWS = 100_000
KEEP_KEYS = 1_000_000


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
        Write the state after this many rows: more make reopening slower and learning faster.
    keep_keys : int, default 1,000,000
        Remember the keys of so many calls, the newest ones; a call with an older key is carried out again. A key takes
        24 bytes of the file.
    log_changes : bool, default False
        Keep every change of the model in the file, see :meth:`changes`; the model itself holds the newest
        10,000. A file that has begun to log goes on.
    trusted, refit
        As for :func:`batch2online.load`. Rows since the last state are learned again when a file is opened; where that
        fits a wrapped estimator, pass ``model`` with that estimator, or ``refit=True``.
    accept_loss : bool
        Open a file although a part of it is missing.

    Attributes
    ----------
    model : OnlineEstimator
        To predict with, to read and to save. It belongs to this object: calls that change it (``fit``,
        ``partial_fit``, ``learn_one``, ``merge``, ``forget``, ``set_params``) and assignments to its attributes raise
        :class:`StoreError`, since the file would not know of them. ``copy.deepcopy`` and ``clone`` give estimators that
        belong to nobody.
    reopened : Reopened or None
        How the model was brought back; None for a new one.
    checkpoint_error : Exception or None
        Why the state could not be written. The rows are safe, and the next call tries again.

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
        keep_keys: int = KEEP_KEYS,
        log_changes: bool = False,
        trusted: Any = None,
        refit: bool = False,
        accept_loss: bool = False,
    ) -> None:
        if durability not in SYNCHRONOUS:
            raise ValueError(f'durability must be "every", "batch" or "os", got {durability!r}.')
        if isinstance(keep_keys, bool) or not isinstance(keep_keys, int) or keep_keys < 1:
            raise ValueError(f"keep_keys must be a whole number above 0, got {keep_keys!r}.")
        if model is not None:
            model._check_reopenable()
            model._check_free()
        self._model, self.checkpoint_rows, self.keep_keys = model, checkpoint_rows, keep_keys
        self.reopened: Reopened | None = None
        self.checkpoint_error: Exception | None = None
        self._lock = RLock()
        self._acting: int | None = None
        """The thread that changes the model now."""

        self._session = Session(_file(path), durability, accept_loss)
        self.path, self._database = self._session.path, self._session.database
        try:
            self._reopen(model, trusted, refit)
            self._session.begin()
            self._take_over(log_changes)
        except BaseException:
            if self._model is not None:
                vars(self._model).pop("_owner", None)
            self._session.abandon()
            raise

    @classmethod
    def open(cls, path: str | os.PathLike[str], **settings: Any) -> Self:
        """Open a file that holds a model; settings are those of the class."""
        if not _file(path).is_file():
            raise StoreError(f"{os.fspath(path)} holds no model.")
        return cls(path, None, **settings)

    def _reopen(self, model: Any, trusted: Any, refit: bool) -> None:
        if not self._database.meta.get("parts"):
            if model is None:
                raise StoreError(f"{self.path} holds no model yet: give one.")
            if self._session.lost:
                self.reopened = Reopened(0, was_closed=False, lost=self._session.lost)
            return
        state = model_file.read_state(self._database)
        found = estimator_from(state, str(self.path), trusted=trusted, refit=refit, like=model)
        if model is not None:
            model._check_same_settings(found)
        try:
            with nullcontext() if refit or model is not None else without_fitting():
                replayed = journal.replay(self._database, found)
        except FitNeededError as error:
            rows = self._database.meta["journal_rows"]
            raise StoreError(
                f"{self.path} was not closed, and opening it learns {rows:,} rows again: {error} Pass the estimator, "
                "as in Durable(path, BatchToOnline(...)), or refit=True."
            ) from error
        self._model = found
        self.reopened = Reopened(replayed, self._session.was_closed, self._session.lost)
        self._move_history()

    def _take_over(self, log_changes: bool) -> None:
        """Let nothing but this object change the model; write the state of a model that has seen rows before."""
        self._model._owner = self
        self._settings = self._model._inner_settings()
        is_fitted = "_stream" in vars(self._model)
        if log_changes and not journal.logs_changes(self._database):
            events = self._model._stream.current.changes if is_fitted else ()
            self._carry_out(lambda: journal.start_change_log(self._database, events), counts=False)
        if is_fitted and not self._database.meta.get("parts"):
            self._carry_out(self._write_state)

    @property
    def model(self) -> Any:
        """The estimator, to read."""
        return self._model

    def changes(self) -> Iterator[ChangeEvent]:
        """Iterate over every change of the model, oldest first, that the file has logged; see ``log_changes``.

        Of the first call, and of what the model had learned before the log began, these are the newest 10,000. A
        ``forget`` replaces the changes by those of the rows that are left, as it does in the model.
        """
        if not journal.logs_changes(self._database):
            raise ValueError(f"{self.path.name} logs no changes: open it with log_changes=True.")
        return journal.read_changes(self._database)

    def _check_acting(self) -> None:
        """Refuse a change of the model by anybody but this object."""
        if self._acting != get_ident():
            raise StoreError(
                f"The model belongs to the Durable of {self.path.name}, whose file would not know of this change: call "
                "partial_fit, learn_one, merge or forget of the Durable, or change a copy of the model (copy.deepcopy)."
            )

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
            A name of this call. A call whose key was carried out before, by whichever method, does nothing; see
            ``keep_keys``.
        source : (str, JSON value), optional
            Name and position of an input from which the rows come, kept with them; see :attr:`positions`.
        """
        rows = all_at_hand(X, y, sample_weight)
        return self._learn(lambda: self.model.partial_fit(*rows), lambda: self.model._prepare(*rows), key, source)

    def learn_one(self, x: Any, y: Any = None, *, key: str | None = None) -> Self:
        """Learn one row, as the model's own ``learn_one``, and keep it."""
        return self._learn(lambda: self.model.learn_one(x, y), lambda: self.model._prepared_one(x, y), key, None)

    def merge(self, other: Any, *, key: str | None = None) -> Self:
        """Take in what another estimator has seen, as the model's own ``merge``, and keep it."""
        return self._change(lambda: self.model.merge(other), key)

    def forget(self, ids: Any, *, key: str | None = None) -> Self:
        """Forget rows, as the model's own ``forget``: no page of the file holds them any more."""
        with self._lock:
            self._session.check_usable()
            try:
                return self._change(lambda: self._forget(ids), key)
            finally:  # after an interrupt, too, or if the rows are gone already
                self._session.erase_log()

    def _forget(self, ids: Any) -> None:
        if journal.logs_changes(self._database):
            journal.start_change_log(self._database)
        self.model.forget(ids)

    @property
    def positions(self) -> dict[str, Any]:
        """Positions of sources by their names, as of the last call."""
        return dict(self._database.meta.get("sources", {}))

    def _learn(
        self, first: Callable[[], Any], prepare: Callable[[], PreparedRows], key: str | None, source: Any
    ) -> Self:
        """Learn rows: the first by the model itself, later ones prepared, journalled and applied."""

        def learn() -> None:
            if self._database.meta.get("parts"):
                self._learn_journalled(prepare())
            else:
                first()
                self._write_state()
                self._log(self._model._stream.current.changes)
            self._note(key, source)

        with self._lock:
            if not self._was_done(key):
                self._checkpoint_if_due()
                self._carry_out(learn)
        return self

    def _learn_journalled(self, rows: PreparedRows) -> None:
        """Write rows to the journal, learn them, and refuse the call if the model has learned other rows."""
        model, before, batches = self._model, self._next_id(), list(rows.batches)
        self._empty_log()
        n_written = journal.append(self._database, model, batches, rows)
        model._stream = model._applied(rows._replace(batches=batches))
        n_learned = model._stream.next_id - before
        if n_written != n_learned:
            raise StoreError(
                f"{self.path} was to store {n_written:,} rows, and the model has learned {n_learned:,}. The call was "
                "undone; open the file again."
            )
        self._log(model._stream.log)

    def _change(self, act: Callable[[], object], key: str | None) -> Self:
        """Carry out a call that no rows of the journal can express: write the state."""

        def change() -> None:
            self._empty_log()
            act()
            self._log(self._model._stream.log)
            self._write_state()
            self._note(key, None)

        with self._lock:
            if not self._was_done(key):
                self._carry_out(change)
        return self

    def _was_done(self, key: str | None) -> bool:
        """Return whether a call with this key was carried out."""
        self._session.check_usable()
        if key is None:
            return False
        journal.check_key(key)
        return journal.has_key(self._database, key, self.keep_keys)

    def _empty_log(self) -> None:
        """Have the stream log the changes of this call, if the file keeps them."""
        if "_stream" in vars(self._model):
            self._model._stream = replace(self._model._stream, log=() if journal.logs_changes(self._database) else None)

    def _log(self, events: Iterable[ChangeEvent] | None) -> None:
        for event in events or ():
            journal.log_change(self._database, event)

    def _note(self, key: str | None, source: Any) -> None:
        if key is not None:
            journal.store_key(self._database, key, self.keep_keys)
        if source is not None:
            name, position = source
            self._database.meta["sources"] = self._database.meta.get("sources", {}) | {str(name): position}

    def _carry_out(self, act: Callable[[], object], counts: bool = True) -> None:
        """Carry out a call on the model and on the file, or on neither."""
        self._session.check_usable()
        if self._settings != self._model._inner_settings():
            raise StoreError(
                f"The estimator inside the model of {self.path.name} was changed from {self._settings} to "
                f"{self._model._inner_settings()}, which its file does not know of: set it back."
            )
        found, expected = self._next_id(), self._database.meta.get("next_id", self._next_id())
        if found != expected:
            raise StoreError(
                f"{self.path} holds rows with ids below {expected:,}, and the model rows with ids below {found:,}: the "
                "model was changed past its Durable. Open the file again."
            )

        def act_and_note() -> None:
            act()
            self._database.meta["next_id"] = self._next_id()

        before, calls = dict(vars(self._model)), self._session.n_calls
        try:
            self._acting = get_ident()
            self._session.carry_out(act_and_note, counts)
        except BaseException:
            if not self._session.has_committed(calls):
                self._undo(before)
            raise
        finally:
            self._acting = None

    def _undo(self, before: dict[str, Any]) -> None:
        self._model.__dict__ = before

    def _next_id(self) -> int:
        stream = vars(self._model).get("_stream")
        return 0 if stream is None else int(stream.next_id)

    def _move_history(self) -> None:
        """Have a history on disk live in this file."""
        stream = self._model._stream
        history = stream.history
        if isinstance(history, DiskHistory) and history.database is not self._database:
            self._model._stream = replace(stream, history=history.moved_to(self._database))

    # -- the state ------------------------------------------------------------------------------------

    def checkpoint(self) -> None:
        """Write the state now, so that opening has no rows to learn again."""
        with self._lock:
            if "_stream" in vars(self.model):
                self._carry_out(self._write_state, counts=False)

    def _write_state(self) -> None:
        self._move_history()
        model_file.write_state(self._database, self.model._state() | self.model._fitted_state())

    def _checkpoint_if_due(self) -> None:
        """Write the state before the rows of a call come: if that fails, the rows are not learned twice."""
        if self._database.meta.get("journal_rows", 0) >= self.checkpoint_rows or self.checkpoint_error is not None:
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
            if not self._session.poison and not self._session.was_closed and self._database.meta.get("journal"):
                try:
                    self.checkpoint()
                except Exception as error:  # the rows are in the journal
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
