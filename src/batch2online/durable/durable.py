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

A row may have a key, a string or an integer of your choice, which :meth:`Durable.forget` accepts in place of an id. A
row whose target comes late is predicted with its key, and learned when :meth:`Durable.label` brings the target; the
loss that is counted is that of the model that predicted it (see :mod:`batch2online.answers`).

After a loss of power the file is in the state after one of the calls, never a mixture, and ``reopened.lost`` is the
number of missing calls. Without one, a call that is missing is an error.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

import numpy as np

from batch2online.durable.store import Store, view_of
from batch2online.input import PreparedRows, all_at_hand, at_hand
from batch2online.results import ChangeEvent
from batch2online.storage import journal
from batch2online.storage.errors import StoreError
from batch2online.storage.keys import Key, checked_keys
from batch2online.storage.session import SYNCHRONOUS, Session

CHECKPOINT_ROWS = 100_000
KEEP_KEYS = 1_000_000
_Result = TypeVar("_Result")
_READ = frozenset(
    (
        "predict_log_proba",
        "predict_one",
        "predict_proba_one",
        "decision_function",
        "transform",
        "inverse_transform",
        "score",
        "score_samples",
        "headline",
        "report",
        "plot",
        "get_params",
        "get_feature_names_out",
    )
)
"""Methods of the model that change nothing."""


class Durable:
    """A model whose acknowledged rows survive.

    It is used as the model is: ``predict``, ``predict_proba``, ``transform``, ``score``, ``headline``, ``report`` and
    the fitted attributes (``n_seen_``, ``changes_``, ``regret_``, ``coef_``, ...) are those of the model as it stands.
    Calls that read do not wait for calls that learn, in whatever thread.

    A call that raises leaves the model and the file as they were, or has been carried out as a whole; with a ``key`` it
    can be sent again in either case.

    Parameters
    ----------
    path : path
        One file; a new one, or one that this class has written. In a folder it is called ``model.b2o``.
    model : OnlineEstimator, optional
        A new estimator. If the file already holds a model, that one continues, and this one must have the same
        settings.
    durability : {"every", "batch", "os"}
        What a loss of power may take, see above.
    checkpoint_rows : int
        Write the state after this many rows: more make reopening slower and learning faster.
    keep_keys : int, default 1,000,000
        Remember the keys of so many calls, the newest ones; a call with an older key is carried out again. A key takes
        24 bytes of the file.
    log_changes : bool, default False
        Keep every change of the model in the file, see :meth:`changes`; the model itself holds the newest
        10,000. A file that logs changes continues to do so.
    expire_after : int, optional
        Drop a pending row when this many further rows have been predicted with keys. None keeps rows
        until they get their targets, or :meth:`expire` drops them.
    worker : bool, default False
        Learn in a thread, so that a call returns when its rows are in the journal. Readers see the model after the last
        rows that are learned; :meth:`flush` waits for all of them, and then everything is as without a worker, bit for
        bit. Calls that do more than learn rows wait for those before them. An error of the thread is raised by the next
        call. Changes cannot be logged.
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
        :class:`StoreError`, since the file would not know of them. ``copy.deepcopy`` and ``clone`` return independent
        estimators.
    reopened : Reopened or None
        How the model was restored; None for a new one.
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
    ...     print(durable.n_seen_, durable.reopened.was_closed)
    400 True

    Targets that come later, and a row that is to be forgotten:

    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with Durable(folder, OnlineRegression(random_state=0, keep_history=True)) as durable:
    ...         _ = durable.partial_fit(X[:400], y[:400], keys=range(400))
    ...         predicted = durable.predict(X[400:402], keys=["today-1", "today-2"])
    ...         _ = durable.label(["today-1"], y[400:401]).forget(keys=[17, "today-2"])
    ...         print(durable.n_seen_, durable.n_waiting)
    400 0
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
        expire_after: int | None = None,
        worker: bool = False,
        trusted: Any = None,
        refit: bool = False,
        accept_loss: bool = False,
    ) -> None:
        if durability not in SYNCHRONOUS:
            raise ValueError(f'durability must be "every", "batch" or "os", got {durability!r}.')
        for name, value in {
            "keep_keys": keep_keys,
            "expire_after": 1 if expire_after is None else expire_after,
        }.items():
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise ValueError(f"{name} must be a whole number above 0, got {value!r}.")
        if model is not None:
            model.check_reopenable()
            model.check_free()
        self.expire_after = expire_after
        self._session = Session(_file(path), durability, accept_loss)
        self.path = self._session.path
        try:
            self._store = Store(
                self._session,
                model,
                checkpoint_rows=checkpoint_rows,
                keep_keys=keep_keys,
                log_changes=log_changes,
                uses_worker=worker,
                trusted=trusted,
                refit=refit,
            )
        except BaseException:
            if model is not None:
                vars(model).pop("_owner", None)
            self._session.abandon()
            raise
        self._lock, self.reopened = self._store.lock, self._store.reopened

    @classmethod
    def open(cls, path: str | os.PathLike[str], **settings: Any) -> Self:
        """Open a file that holds a model; settings are those of the class."""
        if not _file(path).is_file():
            raise StoreError(f"{os.fspath(path)} holds no model.")
        return cls(path, None, **settings)

    @property
    def model(self) -> Any:
        """The estimator, to read."""
        return self._store.model

    @property
    def checkpoint_error(self) -> Exception | None:
        """Why the state could not be written. The rows are safe, and the next call tries again."""
        return self._store.checkpoint_error

    def __getattr__(self, name: str) -> Any:
        """Return what the model offers to read: fitted attributes, and methods that change nothing."""
        is_fitted = name.endswith("_") and not name.startswith("_")
        if "_store" in vars(self) and (is_fitted or name in _READ):
            return getattr(view_of(self.model), name)
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def __dir__(self) -> list[str]:
        """Return the names of this object, and those of the model that it offers to read."""
        return sorted({*super().__dir__(), *(name for name in dir(self.model) if name in _READ or name[-1] == "_")})

    @property
    def next_id(self) -> int:
        """The id that the next row gets."""
        return self._store.next_id

    @property
    def n_waiting(self) -> int:
        """Number of rows that were predicted with keys and wait for their targets."""
        return len(self._store.late)

    def changes(self) -> Iterator[ChangeEvent]:
        """Iterate over every change of the model, oldest first, that the file has logged; see ``log_changes``.

        Of the first call, and of changes before the log began, only the newest 10,000 are available. A
        ``forget`` replaces the changes by those of the rows that are left, as it does in the model.
        """
        if not journal.logs_changes(self._session.database):
            raise ValueError(f"{self.path.name} logs no changes: open it with log_changes=True.")
        return journal.read_changes(self._session.database)

    # -- learning -------------------------------------------------------------------------------------

    def partial_fit(
        self,
        X: Any,
        y: Any = None,
        sample_weight: Any = None,
        *,
        keys: Any = None,
        key: str | None = None,
        source: Any = None,
    ) -> Self:
        """Learn from further rows, as the model's own ``partial_fit``, and keep them.

        Parameters
        ----------
        X, y, sample_weight
            As for the model.
        keys : list of str or int, optional
            A key for each row, by which :meth:`forget` finds it. A key that a row has already raises
            :class:`DuplicateKey`. The string ``"1"`` is another key than the integer 1.
        key : str, optional
            A name of this call. A call whose key was carried out before, by whichever method, does nothing; see
            ``keep_keys``.
        source : (str, JSON value), optional
            Name and position of an input from which the rows come, kept with them; see :attr:`positions`.
        """
        rows = all_at_hand(X, y, sample_weight)
        own = [] if keys is None else checked_keys(keys, _length(rows[0]))
        if own and np.ndim(rows[2]):
            own = [each for each, weight in zip(own, rows[2], strict=True) if weight > 0]

        def first(model: Any) -> None:
            model.partial_fit(*rows)

        return self._learn(first, lambda model: model.prepare(*rows), key, source, own)

    def learn_one(self, x: Any, y: Any = None, *, key: str | None = None) -> Self:
        """Learn one row, as the model's own ``learn_one``, and keep it."""
        return self._learn(lambda model: model.learn_one(x, y), lambda model: model.prepare_one(x, y), key)

    def _learn(
        self,
        first: Callable[[Any], Any],
        prepare: Callable[[Any], PreparedRows],
        key: str | None,
        source: Any = None,
        keys: Sequence[Key] = (),
    ) -> Self:
        store = self._store

        def finish(ids: range) -> None:
            if keys:
                store.late.keys.add(keys, np.array(ids))
            store.note(key, source)

        with self._lock:
            if not store.was_done(key):
                store.late.check_new(keys)
                store.learn(first, prepare, finish)
        return self

    def merge(self, other: Any, *, key: str | None = None) -> Self:
        """Merge another estimator, as the model's own ``merge``, and store the result."""

        def merge(new: Any) -> None:
            new.merge(other)
            self._store.write_state(new)
            self._store.note(key)

        with self._lock:
            if not self._store.was_done(key):
                self._store.change(merge)
        return self

    def forget(self, ids: Any = None, *, keys: Any = None, key: str | None = None) -> Self:
        """Forget rows, as the model's own ``forget``: no page of the file holds them or their keys any more.

        Parameters
        ----------
        ids : list of int, optional
            Ids of rows.
        keys : list of str or int, optional
            Keys of rows, including pending ones. One that the file does not have raises
            :class:`UnknownKey`, and nothing is forgotten.
        key : str, optional
            A name of this call, as for :meth:`partial_fit`.

        Notes
        -----
        The models that have answered for rows that still wait may know of the forgotten ones, and are replaced by the
        model without them.
        """
        if (ids is None) == (keys is None):
            raise ValueError("Pass ids or keys of the rows to forget.")
        own, store = None if keys is None else checked_keys(keys, len(keys)), self._store

        def forget(new: Any) -> None:
            places, waiting = (ids, []) if own is None else store.late.places(own)
            store.late.drop(waiting)
            if own is None or places:
                journal.restart_change_log(self._session.database)
                new.forget(places)
                store.late.forget(new, np.ravel(places).tolist())
                store.write_state(new)
            store.note(key)

        with self._lock:
            if not store.was_done(key):
                try:
                    store.change(forget)
                finally:  # after an interrupt, too, or if the rows are gone already
                    store.erase_log()
        return self

    # -- late targets ---------------------------------------------------------------------------------

    def predict(self, X: Any, *, keys: Any = None, at: float | None = None) -> Any:
        """Predict as the model does; with keys, keep the rows until their targets come.

        Parameters
        ----------
        X
            Rows, as for the model.
        keys : list of str or int, optional
            A key for each row, to which :meth:`label` brings the target. Rows and answers are in the file before this
            call returns. A key that a row has already, learned or waiting, raises :class:`DuplicateKey`. With
            ``columns="auto"``, the features are from now on those of the rows learned so far.
        at : float, optional
            When the rows were asked for, in whatever unit, for :meth:`expire`.
        """
        return self._ask("predict", X, keys, at)

    def predict_proba(self, X: Any, *, keys: Any = None, at: float | None = None) -> Any:
        """Return probabilities of classes as the model does; with keys, as :meth:`predict`."""
        return self._ask("predict_proba", X, keys, at)

    def _ask(self, method: str, X: Any, keys: Any, at: float | None) -> Any:
        """Return what a method of the model answers; with keys, note rows and answer in the file."""
        if keys is None:
            if at is not None:
                raise ValueError("at is the time of pending rows: pass keys as well.")
            return getattr(view_of(self.model), method)(X)
        X, late = at_hand(X), self._store.late
        own = checked_keys(keys, _length(X))
        if at is not None and not math.isfinite(at):
            raise ValueError(f"at must be a finite number, got {at!r}.")

        answers = []

        def ask(new: Any) -> None:
            answers.append(getattr(new, method)(X))
            columns = new.stream.columns
            if columns is not None and not columns.is_settled:  # pending rows are stored as these features
                new.stream = new._fixed()
                self._store.write_state(new)
            late.ask(new, X, own, None if at is None else float(at))
            if self.expire_after is not None:
                late.drop_older(self.expire_after)

        with self._lock:
            self._store.change(ask)
        return answers[0]

    def label(self, keys: Any, y: Any, *, key: str | None = None) -> Self:
        """Learn rows that were predicted with keys, now that their targets are known, in the order given.

        The model is, bit for bit, the one that ``partial_fit`` of these rows would give now. ``regret_`` and
        ``metrics_`` count the loss of the model that predicted the row, not that of the current one.

        Parameters
        ----------
        keys : list of str or int
            Keys of pending rows. Others raise :class:`UnknownKey`, or :class:`DuplicateKey` if the row has its target
            already, and nothing is learned.
        y : array-like
            Their targets.
        key : str, optional
            A name of this call, as for :meth:`partial_fit`.
        """
        y = all_at_hand(np.empty((0, 0)), y, None)[1]
        own, store = checked_keys(keys, len(y)), self._store

        def label(new: Any) -> None:
            store.learn_journalled(new, store.late.take(new, own, y, store.next_id))
            store.note(key)

        with self._lock:
            if not store.was_done(key) and own:
                store.checkpoint_if_due()
                store.change(label)
        return self

    def expire(self, before: float) -> int:
        """Drop the pending rows that were predicted before this time; return their number.

        Rows that were predicted without ``at`` stay. Times are those passed as ``at``; no clock is read.
        """
        late = self._store.late
        with self._lock:
            old = late.asked_before(float(before))
            if old:
                self._store.write(lambda: late.drop(old))
        return len(old)

    # -- several calls at once ------------------------------------------------------------------------

    def batch(self, calls: Callable[[], _Result]) -> _Result:
        """Carry out all calls that a function makes on this object as one transaction, and return its result.

        A call that raises inside is undone by itself. If the function raises, all of them are undone. Committing takes
        most of the time of a small call, so this makes many small ones faster.

        >>> import tempfile
        >>> from batch2online import Durable, OnlineRegression
        >>> with tempfile.TemporaryDirectory() as folder, Durable(folder, OnlineRegression(random_state=0)) as durable:
        ...     _ = durable.batch(lambda: [durable.partial_fit([[x]], [2 * x]) for x in (1.0, 2.0, 3.0)])
        ...     durable.n_seen_
        3
        """
        with self._lock:
            return self._store.batch(calls)

    @property
    def positions(self) -> dict[str, Any]:
        """Positions of sources by their names, as of the last call."""
        return dict(self._session.database.meta.get("sources", {}))

    def has_key(self, key: str) -> bool:
        """Return whether a call with this key was carried out, by whichever method; see ``keep_keys``."""
        with self._lock:
            return self._store.was_done(key)

    def note(self, *, key: str | None = None, source: Any = None) -> Self:
        """Store the key of a call, or the position of an input, without rows; in a :meth:`batch`, with its other calls.

        Parameters are those of :meth:`partial_fit`.
        """
        with self._lock:
            if not self._store.was_done(key):
                self._store.write(lambda: self._store.note(key, source))
        return self

    # -- the file -------------------------------------------------------------------------------------

    def flush(self) -> Self:
        """Wait until the worker has learned all rows; raise its error if it could not."""
        with self._lock:
            self._store.flush()
        return self

    def checkpoint(self) -> None:
        """Write the state now, so that opening has no rows to learn again."""
        with self._lock:
            self._store.checkpoint()

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write a copy of the model to a file of its own; this one goes on."""
        self.flush().model.save(path)

    def close(self) -> None:
        """Write the state if rows came since the last, and let others open the file. A second call does nothing."""
        with self._lock:
            self._store.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __reduce__(self) -> Any:
        raise TypeError("A durable model cannot be pickled or copied: save it, or open its file.")


def _length(X: Any) -> int:
    return int(X.shape[0]) if hasattr(X, "shape") else len(X)


def _file(path: str | os.PathLike[str]) -> Path:
    found = Path(os.path.realpath(path))
    return found / "model.b2o" if found.is_dir() else found
