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

import json
import math
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import nullcontext, suppress
from dataclasses import replace
from pathlib import Path
from threading import RLock, get_ident
from types import TracebackType
from typing import Any, Self, TypeVar

import numpy as np

from batch2online._types import FloatArray
from batch2online.answers import losses_of_answers
from batch2online.estimator import estimator_from
from batch2online.input import PreparedRows, all_at_hand, at_hand
from batch2online.methods.any_estimator.no_fits import FitNeededError, without_fitting
from batch2online.results import ChangeEvent
from batch2online.storage import journal, model_file, row_keys
from batch2online.storage.disk_history import DiskHistory
from batch2online.storage.errors import DuplicateKey, StoreError, UnknownKey, intact
from batch2online.storage.questions import Question, Questions, points_of
from batch2online.storage.row_keys import Key, RowKeys
from batch2online.storage.session import SYNCHRONOUS, Reopened, Session
from batch2online.storage.worker import Worker

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
            model._check_reopenable()
            model._check_free()
        self._model, self.checkpoint_rows, self.keep_keys = model, checkpoint_rows, keep_keys
        self.expire_after = expire_after
        self.reopened: Reopened | None = None
        self.checkpoint_error: Exception | None = None
        self._lock = RLock()
        self._acting: int | None = None
        """The thread that changes the model now."""

        self._session = Session(_file(path), durability, accept_loss)
        self.path, self._database = self._session.path, self._session.database
        self._keys, self._questions = RowKeys(self._database), Questions(self._database)
        self._answerers: dict[int, Any] = {}
        """Models that predicted pending rows, by number, as far as they are in memory."""

        self._worker, self._uses_worker = Worker(self._learn_waiting), worker
        self._accepted: PreparedRows | None = None
        """Rows of the present call that the worker is to learn once they are committed."""

        self._accepted_id: int | None = None
        """The id of the next row, if rows wait for the worker."""

        self._in_batch = self._has_forgotten = False
        """Whether calls are those of a batch, and whether one of them has forgotten rows that the log still holds."""
        try:
            self._reopen(model, trusted, refit)
            self._session.begin()
            self._take_over(log_changes)
            if worker and journal.logs_changes(self._database):
                raise StoreError(f"{self.path.name} logs changes, which a worker does not: open it with worker=False.")
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
                replayed, unlearned = journal.replay(self._database, found)
        except FitNeededError as error:
            rows = self._database.meta["journal_rows"]
            raise StoreError(
                f"{self.path} was not closed, and opening it learns {rows:,} rows again: {error} Pass the estimator, "
                "as in Durable(path, BatchToOnline(...)), or refit=True."
            ) from error
        self._model = found
        if unlearned:
            self._worker.waiting.extend(
                PreparedRows([batch], answers=late[0] if late else None) for batch, *late in unlearned
            )
            self._accepted_id = self._next_id() + sum(len(batch[0]) for batch, *_ in unlearned)
        self.reopened = Reopened(replayed, self._session.was_closed, self._session.lost)
        self._move_history()

    def _take_over(self, log_changes: bool) -> None:
        """Let nothing but this object change the model; write the state of a model that has seen rows before."""
        self._model._owner = self
        self._settings = self._model._inner_settings()
        is_fitted = "_stream" in vars(self._model)
        if log_changes and not journal.logs_changes(self._database):
            events = self._model.stream.current.changes if is_fitted else ()
            self._carry_out(lambda: journal.start_change_log(self._database, events), counts=False)
        if is_fitted and not self._database.meta.get("parts"):
            self._carry_out(self._write_state)

    @property
    def model(self) -> Any:
        """The estimator, to read."""
        return self._model

    def __getattr__(self, name: str) -> Any:
        """Return what the model offers to read: fitted attributes, and methods that change nothing."""
        is_fitted = name.endswith("_") and not name.startswith("_")
        if "_model" in vars(self) and (is_fitted or name in _READ):
            return getattr(self._view(), name)
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def _view(self) -> Any:
        """Return the model as it is now: a call that learns in another thread does not change it meanwhile."""
        view: Any = object.__new__(type(self._model))
        vars(view).update(vars(self._model))
        return view

    def __dir__(self) -> list[str]:
        """Return the names of this object, and those of the model that it offers to read."""
        return sorted({*super().__dir__(), *(name for name in dir(self._model) if name in _READ or name[-1] == "_")})

    @property
    def next_id(self) -> int:
        """The id that the next row gets."""
        return int(self._model._next_id()) if self._accepted_id is None else self._accepted_id

    @property
    def n_waiting(self) -> int:
        """Number of rows that were predicted with keys and wait for their targets."""
        return len(self._questions)

    def changes(self) -> Iterator[ChangeEvent]:
        """Iterate over every change of the model, oldest first, that the file has logged; see ``log_changes``.

        Of the first call, and of changes before the log began, only the newest 10,000 are available. A
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
        own = None if keys is None else row_keys.checked(keys, _n_rows(rows[0]))
        if own is not None and np.ndim(rows[2]):
            own = [each for each, weight in zip(own, rows[2], strict=True) if weight > 0]
        return self._learn(lambda: self.model.partial_fit(*rows), lambda: self.model._prepare(*rows), key, source, own)

    def learn_one(self, x: Any, y: Any = None, *, key: str | None = None) -> Self:
        """Learn one row, as the model's own ``learn_one``, and keep it."""
        return self._learn(lambda: self.model.learn_one(x, y), lambda: self.model._prepare_one(x, y), key, None)

    def merge(self, other: Any, *, key: str | None = None) -> Self:
        """Merge another estimator, as the model's own ``merge``, and store the result."""
        return self._change(lambda: self.model.merge(other), key)

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
        own = None if keys is None else row_keys.checked(keys, len(keys))
        with self._lock:
            self._session.check_usable()
            self.flush()
            try:
                if own is None:
                    return self._change(lambda: self._forget(ids), key)
                return self._forget_keys(own, key)
            finally:  # after an interrupt, too, or if the rows are gone already
                self._has_forgotten = self._in_batch
                if not self._in_batch:
                    self._session.erase_log()

    def _forget_keys(self, keys: list[Key], key: str | None) -> Self:
        places = self._keys.find_all(keys) if not self._was_done(key) else []
        ids = [place for place in places if place >= 0]
        waiting = [-1 - place for place in places if place < 0]

        def forget() -> None:
            self._drop(self._questions.get(waiting))
            if ids:
                self._forget(ids)

        def forget_waiting() -> None:
            forget()
            self._note(key, None)

        if ids:
            return self._change(forget, key)
        if waiting:
            self._carry_out(forget_waiting)
        return self

    def _forget(self, ids: Any) -> None:
        if journal.logs_changes(self._database):
            journal.start_change_log(self._database)
        self.model.forget(ids)
        self._keys.remove(self._keys.of_ids(np.ravel(ids).tolist()))
        for number in self._questions.answers():
            schema = self._questions.answer(number)["schema"]
            self._questions.replace_answer(number, self._answer_content(schema))
            self._answerers[number] = self._model.stream.answerer

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
        return self._ask(lambda rows: self._view().predict(rows), X, keys, at)

    def predict_proba(self, X: Any, *, keys: Any = None, at: float | None = None) -> Any:
        """Return probabilities of classes as the model does; with keys, as :meth:`predict`."""
        return self._ask(lambda rows: self._view().predict_proba(rows), X, keys, at)

    def _ask(self, predict: Callable[[Any], Any], X: Any, keys: Any, at: float | None) -> Any:
        if keys is None:
            if at is not None:
                raise ValueError("at is the time of pending rows: pass keys as well.")
            return predict(X)
        X = at_hand(X)
        own = row_keys.checked(keys, _n_rows(X))
        if at is not None and not math.isfinite(at):
            raise ValueError(f"at must be a finite number, got {at!r}.")
        with self._lock:
            self._session.check_usable()
            self.flush()
            answer = predict(X)
            self._fix_columns()
            points, schema, strings = self._model._question(X)

            def ask() -> None:
                self._keys.check_new(own)
                number = self._answer_number(schema)
                numbers = self._questions.add(own, points, strings, number, None if at is None else float(at))
                self._keys.add(own, (-1 - number for number in numbers))
                if self.expire_after is not None:
                    self._drop(self._questions.older(numbers.stop - self.expire_after))

            self._carry_out(ask)
        return answer

    def _fix_columns(self) -> None:
        """Keep the features of a table as they are now: pending rows are stored as these features."""
        columns = self._model.stream.columns
        if columns is not None and not columns.is_settled:

            def fix() -> None:
                self._model._stream = self._model._fixed()
                self._write_state()

            self._carry_out(fix, counts=False)

    def _answer_content(self, schema: Any) -> dict[str, Any]:
        model = self._model
        return {"answerer": model.stream.answerer, "schema": schema}

    def _answer_number(self, schema: Any) -> int:
        """Return the number of what answers now for rows of this schema."""
        number = self._questions.add_answer(self._answer_content(schema))
        self._answerers[number] = self._model.stream.answerer
        return number

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
        own = row_keys.checked(keys, len(y))
        with self._lock:
            if not self._was_done(key) and own:
                self.flush()
                self._checkpoint_if_due()
                self._carry_out(lambda: self._label(own, y, key))
        return self

    def _label(self, keys: list[Key], y: Any, key: str | None) -> None:
        questions = self._questions.get([-1 - place for place in self._waiting_places(keys)])
        points = points_of(questions, self._model.stream.width)
        answers = {number: self._questions.answer(number) for number in {each.answer for each in questions}}
        strings = {number: list[str]() for number in answers}
        for question in questions:
            strings[question.answer] += json.loads(question.strings)
        tables = [(content["schema"], strings[number]) for number, content in answers.items()]
        rows = self._model._prepare_late(points, tables, y)
        rows = rows._replace(answers=self._losses_of_answers(rows, questions, answers))
        first = self.next_id
        self._drop(questions)
        self._keys.add(keys, range(first, first + len(keys)))
        self._learn_journalled(rows)
        self._note(key, None)

    def _waiting_places(self, keys: list[Key]) -> list[int]:
        """Return where the rows of keys wait; refuse keys of other rows."""
        found = self._keys.find(keys)
        unknown, learned = [key for key in keys if key not in found], [key for key in keys if found.get(key, -1) >= 0]
        if unknown:
            raise UnknownKey(
                f"No row waits for its target under the key {row_keys.shown(unknown)}: it was not predicted with this "
                "key, has expired or was forgotten."
            )
        if learned:
            raise DuplicateKey(f"The row with the key {row_keys.shown(learned)} has its target already.")
        return [found[key] for key in keys]

    def _losses_of_answers(self, rows: PreparedRows, questions: list[Question], answers: dict[int, Any]) -> FloatArray:
        """Return the losses (2, n) of rows, each under the model that predicted it."""
        ((points, targets, _),) = rows.batches
        losses, of = np.empty((2, len(points))), np.array([question.answer for question in questions])
        problem = rows.problem or self._model.stream.problem
        for number, content in answers.items():
            if number not in self._answerers:
                with intact(self.path):
                    self._answerers[number] = self._model._restored_answerer(content["answerer"])
            some = of == number
            losses[:, some] = losses_of_answers(problem, self._answerers[number], points[some], targets[some])
        if np.isnan(losses).any():
            raise ValueError(f"loss gave NaN for the row with the key {questions[np.isnan(losses)[0].argmax()].key!r}.")
        return losses

    def expire(self, before: float) -> int:
        """Drop the pending rows that were predicted before this time; return their number.

        Rows that were predicted without ``at`` stay. Times are those passed as ``at``; no clock is read.
        """
        with self._lock:
            self._session.check_usable()
            self.flush()
            old = self._questions.asked_before(float(before))
            if old:
                self._carry_out(lambda: self._drop(old))
        return len(old)

    def _drop(self, questions: list[Question]) -> None:
        """Remove pending rows, their keys, and models that predicted no other pending row."""
        if questions:
            self._keys.remove([question.key for question in questions])
            self._questions.remove(questions)
            kept = set(self._questions.answers())
            self._answerers = {number: each for number, each in self._answerers.items() if number in kept}

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
        found: list[_Result] = []
        with self._lock:
            self._session.check_usable()
            if self._in_batch:
                return calls()
            self.flush()

            def carry_out() -> None:
                self._in_batch = True
                found.append(calls())
                self._check_batch()

            try:
                self._carry_out(carry_out)
            finally:
                has_forgotten, self._in_batch, self._has_forgotten = self._has_forgotten, False, False
                if has_forgotten:
                    self._session.erase_log()
        return found[0]

    @property
    def positions(self) -> dict[str, Any]:
        """Positions of sources by their names, as of the last call."""
        return dict(self._database.meta.get("sources", {}))

    def has_key(self, key: str) -> bool:
        """Return whether a call with this key was carried out, by whichever method; see ``keep_keys``."""
        with self._lock:
            return self._was_done(key)

    def note(self, *, key: str | None = None, source: Any = None) -> Self:
        """Store the key of a call, or the position of an input, without rows; in a :meth:`batch`, with its other calls.

        Parameters are those of :meth:`partial_fit`.
        """
        with self._lock:
            if not self._was_done(key):
                self.flush()
                self._carry_out(lambda: self._note(key, source))
        return self

    def _learn(
        self,
        first: Callable[[], Any],
        prepare: Callable[[], PreparedRows],
        key: str | None,
        source: Any,
        keys: list[Key] | None = None,
    ) -> Self:
        """Learn rows: the first by the model itself, later ones prepared, journalled and applied."""

        def learn() -> None:
            start = self.next_id
            if keys:
                self._keys.check_new(keys)
            if accepted is not None:
                self._accept(accepted)
            elif self._database.meta.get("parts"):
                self._learn_journalled(prepare())
            else:
                first()
                self._write_state()
                self._log(self._model.stream.current.changes)
            if keys:
                self._keys.add(keys, range(start, self.next_id))
            self._note(key, source)

        with self._lock:
            if not self._was_done(key):
                self._checkpoint_if_due()
                accepted = self._prepared_for_worker(prepare)
                self._carry_out(learn)
        return self

    # -- the worker -----------------------------------------------------------------------------------

    def flush(self) -> Self:
        """Wait until the worker has learned all rows; raise its error if it could not."""
        with self._lock:
            if not self._worker.is_idle:
                self._database.check_process()  # a fork has no worker to wait for
            self._worker.flush()
            self._accepted_id = None
        return self

    def _prepared_for_worker(self, prepare: Callable[[], PreparedRows]) -> PreparedRows | None:
        """Return prepared rows for the worker; None if they are to be learned now, and none wait before them.

        Rows that complete no segment are learned in less time than they take to wait. Rows that change the problem, as
        those with new labels do, or that a history on disk gets are learned now.
        """
        if not self._uses_worker or self._in_batch or not self._database.meta.get("parts"):
            if not self._worker.is_idle:
                self.flush()
            return None
        self._worker.check()
        rows, is_idle = prepare(), self._worker.is_idle
        stream, rows = self._model.stream, rows._replace(batches=list(rows.batches))
        n, encoding = sum(len(points) for points, *_ in rows.batches), getattr(stream.problem, "encoding", None)
        if is_idle:
            self._accepted_id = None
        if is_idle and len(stream.buffer) + n < stream.room:
            return None
        is_plain = rows.table is None and (encoding is None or encoding.schema is None)
        is_in_memory = stream.history is None or stream.history.is_in_memory
        if is_plain and is_in_memory and rows.problem in (None, stream.problem):
            return rows._replace(problem=None)
        self.flush()
        return None

    def _accept(self, rows: PreparedRows) -> None:
        """Write rows to the journal, for the worker to learn."""
        start = self._next_id()
        n_written = journal.append(self._database, self._model, list(rows.batches), rows)
        self._accepted, self._accepted_id = rows, start + n_written

    def _learn_waiting(self, rows: PreparedRows) -> None:
        """Learn rows that are in the journal; called by the worker."""
        vars(self._model)["_stream"] = self._model._applied(rows)

    def _learn_journalled(self, rows: PreparedRows) -> None:
        """Write rows to the journal, learn them, and refuse the call if the model has learned other rows."""
        model, before, batches = self._model, self._next_id(), list(rows.batches)
        self._empty_log()
        n_written = journal.append(self._database, model, batches, rows)
        model._stream = model._applied(rows._replace(batches=batches))
        n_learned = model.stream.next_id - before
        if n_written != n_learned:
            raise StoreError(
                f"{self.path} was to store {n_written:,} rows, and the model has learned {n_learned:,}. The call was "
                "undone; open the file again."
            )
        self._log(model.stream.log)

    def _change(self, act: Callable[[], object], key: str | None) -> Self:
        """Carry out a call that no rows of the journal can express: write the state."""

        def change() -> None:
            self._empty_log()
            act()
            self._log(self._model.stream.log)
            self._write_state()
            self._note(key, None)

        with self._lock:
            if not self._was_done(key):
                self.flush()
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
        self._check_batch()
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

        before, calls = (dict(vars(self._model)), dict(self._answerers)), self._session.n_calls
        is_busy = not self._worker.is_idle  # the call then leaves the model as it is
        acting, accepted_id = self._acting, self._accepted_id
        try:
            self._acting = get_ident()
            self._session.carry_out(act_and_note, counts)
        except BaseException:
            if not self._session.has_committed(calls):
                self._accepted, self._accepted_id = None, accepted_id
                if not is_busy:
                    self._undo(*before)
            raise
        finally:
            self._acting = acting
            if self._accepted is not None:
                rows, self._accepted = self._accepted, None
                self._worker.put(rows)

    def _check_batch(self) -> None:
        """Refuse to continue a batch that SQLite has undone as a whole, such as on a full disk."""
        if self._in_batch and not self._database.in_transaction:
            raise StoreError(f"The calls of this batch on {self.path.name} were undone, since one of them has failed.")

    def _undo(self, model: dict[str, Any], answerers: dict[int, Any]) -> None:
        self._model.__dict__, self._answerers = model, answerers

    def _next_id(self) -> int:
        stream = vars(self._model).get("_stream")
        if self._accepted_id is not None:
            return self._accepted_id
        return 0 if stream is None else int(stream.next_id)

    def _move_history(self) -> None:
        """Have a history on disk live in this file."""
        stream = self._model.stream
        history = stream.history
        if isinstance(history, DiskHistory) and history.database is not self._database:
            self._model._stream = replace(stream, history=history.moved_to(self._database))

    # -- the state ------------------------------------------------------------------------------------

    def checkpoint(self) -> None:
        """Write the state now, so that opening has no rows to learn again."""
        with self._lock:
            self.flush()
            if "_stream" in vars(self.model):
                self._carry_out(self._write_state, counts=False)

    def _write_state(self) -> None:
        self._move_history()
        model_file.write_state(self._database, self.model._state())
        waiting = list(self._worker.waiting)
        for rows in waiting:
            journal.append(self._database, self._model, list(rows.batches), rows)
        if waiting or "unlearned" in self._database.meta:
            self._database.meta["unlearned"] = len(waiting)

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
        self.flush().model.save(path)

    def close(self) -> None:
        """Write the state if rows came since the last, and let others open the file. A second call does nothing."""
        with self._lock:
            with suppress(Exception):  # rows that cannot be learned stay in the journal
                self.flush()
            if not self._session.poison and not self._session.was_closed and self._database.meta.get("journal"):
                try:
                    self._carry_out(self._write_state, counts=False)
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


def _n_rows(X: Any) -> int:
    return int(X.shape[0]) if hasattr(X, "shape") else len(X)


def _file(path: str | os.PathLike[str]) -> Path:
    found = Path(os.path.realpath(path))
    return found / "model.b2o" if found.is_dir() else found
