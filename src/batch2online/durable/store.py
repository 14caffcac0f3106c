"""A model and its file, which change together: both have carried out a call, or neither has.

Every call is one transaction. It changes a copy of the model, writes the file, and then the copy is the model. So an
error, an interrupt or a kill at any moment leaves the state after one of the calls.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext, suppress
from dataclasses import dataclass, field, replace
from threading import RLock
from typing import Any, TypeVar

import numpy as np

from batch2online.durable.late_targets import LateTargets
from batch2online.estimator import estimator_from
from batch2online.input import PreparedRows
from batch2online.methods.any_estimator.no_fits import FitNeededError, without_fitting
from batch2online.storage import journal, model_file
from batch2online.storage.disk_history import DiskHistory
from batch2online.storage.errors import StoreCorrupted, StoreError
from batch2online.storage.journal import Entry
from batch2online.storage.keys import Keys, check_call_key
from batch2online.storage.session import Reopened, Session
from batch2online.storage.worker import Worker

_Result = TypeVar("_Result")
Act = Callable[[Any], object]
"""A change of the model it is given, and of the file."""


@dataclass
class _Batch:
    """Several calls as one transaction: rows for the worker, the model before its first change, whether to erase."""

    accepted: list[Entry] = field(default_factory=list)
    before: dict[str, Any] | None = None
    has_forgotten: bool = False


class Store:
    """A model, its file, and the worker that learns rows which calls have journalled.

    Parameters
    ----------
    session : Session
        The open file.
    model : OnlineEstimator or None
        A new estimator, or one with the settings of that in the file.
    checkpoint_rows, keep_keys, log_changes
        As for ``Durable``.
    uses_worker : bool
        Whether calls may return before their rows are learned.
    trusted, refit
        As for ``batch2online.load``.
    """

    def __init__(
        self,
        session: Session,
        model: Any,
        *,
        checkpoint_rows: int,
        keep_keys: int,
        log_changes: bool,
        uses_worker: bool,
        trusted: Any,
        refit: bool,
    ) -> None:
        self.session, self.database, self.path = session, session.database, session.path
        self.checkpoint_rows, self.keep_keys, self.uses_worker = checkpoint_rows, keep_keys, uses_worker
        self.late, self._call_keys = LateTargets(self.database), Keys(self.database, "call")
        self.lock, self.worker = RLock(), Worker(self._learn_waiting)
        self.reopened: Reopened | None = None
        self.checkpoint_error: Exception | None = None
        self._batch: _Batch | None = None
        if self.has_state:
            model = self._reopened(model, trusted, refit)
        elif model is None:
            raise StoreError(f"{self.path} holds no model yet: give one.")
        elif session.lost:
            self.reopened = Reopened(0, was_closed=False, lost=session.lost)
        self.model = model
        self._settings = model.inner_settings()
        model._owner = self.path.name
        session.begin()
        if log_changes and not journal.logs_changes(self.database):
            events = model.stream.current.changes if _is_fitted(model) else ()
            session.carry_out(lambda: journal.start_change_log(self.database, events), counts=False)
        if uses_worker and journal.logs_changes(self.database):
            raise StoreError(f"{self.path.name} logs changes, which a worker does not: open it with worker=False.")
        if not self.has_state and _is_fitted(model):
            self.change(self.write_state)

    @property
    def has_state(self) -> bool:
        """Whether the file holds a model that has seen rows."""
        return bool(self.database.meta.get("parts"))

    # -- opening --------------------------------------------------------------------------------------

    def _reopened(self, like: Any, trusted: Any, refit: bool) -> Any:
        """Return the model of the file: of its state, and the rows since."""
        state = model_file.read_state(self.database)
        model = estimator_from(state, str(self.path), trusted=trusted, refit=refit, like=like)
        if like is not None:
            like.check_same_settings(model)
        self.database.meta.setdefault("next_id", _next_id(model))  # a file that was saved has no journal
        try:
            with nullcontext() if refit or like is not None else without_fitting():
                replayed = self._replay(model)
        except FitNeededError as error:
            raise StoreError(
                f"{self.path} was not closed, and opening it learns {journal.n_rows(self.database):,} rows again: "
                f"{error} Pass the estimator, as in Durable(path, BatchToOnline(...)), or refit=True."
            ) from error
        self.reopened = Reopened(replayed, self.session.was_closed, self.session.lost)
        return model

    def _replay(self, model: Any) -> int:
        """Learn the rows of the journal; return their number.

        Rows that a worker was to learn may be such that no fit takes them: they wait, with all rows after them.
        """
        before = found = _next_id(model)
        for number, entry in enumerate(journal.entries(self.database)):
            found += len(entry.batch[0])
            if self.worker.waiting:
                self.worker.waiting.append(entry)
                continue
            try:
                model.replay(entry.batch, entry.decoding, entry.answers)
            except Exception as error:
                if isinstance(error, FitNeededError | MemoryError) and not (entry.waits and self.session.was_closed):
                    raise
                if not entry.waits:
                    why = f"the rows of call {number} cannot be learned again: {error}"
                    raise StoreCorrupted(f"{self.path} is damaged: {why}") from error
                self.worker.waiting.append(entry)
        if found != self.next_id:
            raise StoreCorrupted(f"{self.path} has lost rows: found ids below {found:,} of {self.next_id:,}.")
        return int(_next_id(model) - before)

    # -- one call, one transaction --------------------------------------------------------------------

    @property
    def next_id(self) -> int:
        """The id that the next row gets."""
        return journal.next_id(self.database) if self.has_state else _next_id(self.model)

    def change(self, act: Act, counts: bool = True) -> None:
        """Carry out a change of the model and of the file, after the rows buffered for the worker."""
        self._check_usable()
        self.flush()
        self._check_model()
        new, accepted, before = view_of(self.model), self._accepted, self.session.n_calls

        def act_on_new() -> None:
            for entry in accepted:
                new.replay(entry.batch, entry.decoding, entry.answers)
            self._act(act, new)

        if self._batch is not None and self._batch.before is None:
            self._batch.before = vars(self.model)
        try:
            self.session.carry_out(act_on_new, counts)
            self._become(new)
        except BaseException:
            if self.session.has_committed(before):
                self._become(new)
            else:
                self.late.undone()
            raise
        accepted.clear()

    @property
    def _accepted(self) -> list[Entry]:
        """Rows that the present batch has journalled for the worker."""
        return [] if self._batch is None else self._batch.accepted

    def _act(self, act: Act, new: Any) -> None:
        logs = journal.logs_changes(self.database) and _is_fitted(new)
        if logs:
            new.stream = replace(new.stream, log=())
        act(new)
        if logs:
            journal.log_changes(self.database, new.stream.log or ())
        if _next_id(new) != self.next_id:
            raise StoreError(
                f"{self.path} was to store rows with ids below {self.next_id:,}, and the model has learned those below "
                f"{_next_id(new):,}. The call was undone; open the file again."
            )

    def _become(self, new: Any) -> None:
        """Let a changed copy be the model."""
        self._set_model(vars(new) | {"_owner": self.path.name})

    def _set_model(self, content: dict[str, Any]) -> None:
        object.__setattr__(self.model, "__dict__", content)  # the model itself refuses changes

    def write(self, act: Callable[[], object]) -> None:
        """Carry out a change of the file alone."""
        self._check_usable()
        try:
            self.session.carry_out(act)
        except BaseException:
            self.late.undone()
            raise

    def batch(self, calls: Callable[[], _Result]) -> _Result:
        """Carry out all calls that a function makes as one transaction, and return its result."""
        self._check_usable()
        if self._batch is not None:
            return calls()
        found: list[_Result] = []
        batch, n_calls = _Batch(), self.session.n_calls

        def carry_out() -> None:
            self._batch = batch
            found.append(calls())
            self._check_batch()

        try:
            self.session.carry_out(carry_out)
        finally:
            self._batch = None
            if self.session.has_committed(n_calls):
                for entry in batch.accepted:
                    self.worker.put(entry)
            else:
                self.late.undone()
                if batch.before is not None:
                    self._set_model(batch.before)
            if batch.has_forgotten:
                self.session.write_log_back()
        return found[0]

    def _check_usable(self) -> None:
        self.session.check_usable()
        self._check_batch()

    def _check_batch(self) -> None:
        """Refuse to continue a batch that SQLite has undone as a whole, such as on a full disk."""
        if self._batch is not None and not self.database.in_transaction:
            raise StoreError(f"The calls of this batch on {self.path.name} were undone, since one of them has failed.")

    def _check_model(self) -> None:
        """Refuse a model that was changed past its file."""
        if self._settings != self.model.inner_settings():
            raise StoreError(
                f"The estimator inside the model of {self.path.name} was changed from {self._settings} to "
                f"{self.model.inner_settings()}, which its file does not know of: set it back."
            )
        found = _next_id(self.model) + sum(len(entry.batch[0]) for entry in self._accepted)
        if self.has_state and found != self.next_id:
            raise StoreError(
                f"{self.path} holds rows with ids below {self.next_id:,}, and the model rows with ids below {found:,}: "
                "the model was changed past its Durable. Open the file again."
            )

    # -- keys of calls, and positions -------------------------------------------------------------------

    def was_done(self, key: str | None) -> bool:
        """Return whether a call with this key was carried out."""
        self.session.check_usable()
        if key is None:
            return False
        check_call_key(key)
        found = self._call_keys.find([key]).get(key)
        return found is not None and found >= len(self._call_keys) - self.keep_keys

    def note(self, key: str | None, source: Any = None) -> None:
        """Write the key of a call and the position of an input, inside a transaction."""
        if key is not None:
            number = len(self._call_keys)
            self._call_keys.add([key], np.array([number]), oldest=number + 1 - self.keep_keys)
        if source is not None:
            name, position = source
            self.database.meta["sources"] = self.database.meta.get("sources", {}) | {str(name): position}

    # -- learning ---------------------------------------------------------------------------------------

    def learn(
        self,
        first: Callable[[Any], object],
        prepare: Callable[[Any], PreparedRows],
        finish: Callable[[range], object],
    ) -> None:
        """Learn rows of a call, now or by the worker.

        Parameters
        ----------
        first : callable
            Has the model learn them, if they are its first ones.
        prepare : callable
            Returns them as the model has validated them.
        finish : callable
            Gets their ids, inside the transaction.
        """

        def learn_first(new: Any) -> None:
            first(new)
            self.write_state(new)
            if journal.logs_changes(self.database):
                journal.log_changes(self.database, new.stream.current.changes)

        def learn_now(new: Any) -> None:
            self.learn_journalled(new, prepare(new))

        self.checkpoint_if_due()
        if not self.has_state:
            self.change(lambda new: self._within(finish, lambda: learn_first(new)))
            return
        entry = self._entry_for_worker(prepare) if self.uses_worker else None
        if entry is None:
            self.change(lambda new: self._within(finish, lambda: learn_now(new)))
            return
        before, is_written = self.session.n_calls, False
        try:
            self.write(lambda: self._within(finish, lambda: journal.append(self.database, entry)))
            is_written = True
        finally:
            if is_written and self._batch is not None:
                self._batch.accepted.append(entry)
            elif is_written or self.session.has_committed(before):
                self.worker.put(entry)

    def _within(self, finish: Callable[[range], object], learn: Callable[[], object]) -> None:
        first = self.next_id
        learn()
        finish(range(first, self.next_id))

    def learn_journalled(self, new: Any, rows: PreparedRows) -> None:
        """Write rows to the journal and learn them, inside a transaction."""
        rows = rows._replace(batches=list(rows.batches))
        journal.append(self.database, _entry(new, rows, waits=False))
        new.stream = new.applied(rows)

    def _entry_for_worker(self, prepare: Callable[[Any], PreparedRows]) -> Entry | None:
        """Return rows for the worker; None if they are to be learned now.

        Rows that complete no segment are learned in less time than they take to wait. Rows that change the problem, as
        those with new labels do, or that a history on disk gets are learned now.
        """
        self._check_usable()
        self.worker.check()
        stream, is_idle = self.model.stream, self.worker.is_idle and not self._accepted
        if is_idle:
            self._check_model()
        rows = prepare(self.model)
        rows = rows._replace(batches=list(rows.batches))
        if is_idle and len(stream.buffer) + sum(len(points) for points, *_ in rows.batches) < stream.room:
            return None
        encoding, history = getattr(stream.problem, "encoding", None), stream.history
        is_plain = rows.table is None and (encoding is None or encoding.schema is None)
        if not is_plain or not (history is None or history.is_in_memory) or rows.problem not in (None, stream.problem):
            return None
        return _entry(self.model, rows._replace(problem=None), waits=True)

    def _learn_waiting(self, entry: Entry) -> None:
        """Learn rows that are in the journal; called by the worker."""
        new = view_of(self.model)
        new.replay(entry.batch, entry.decoding, entry.answers)
        self._become(new)

    def flush(self) -> None:
        """Wait until the worker has learned all rows; raise its error if it could not."""
        if not self.worker.is_idle:
            self.database.check_process()  # a fork has no worker to wait for
        self.worker.flush()

    def erase_log(self) -> None:
        """Erase the log, which holds forgotten rows; of a batch at its end."""
        if self._batch is None:
            self.session.write_log_back()
        else:
            self._batch.has_forgotten = True

    # -- the state --------------------------------------------------------------------------------------

    def write_state(self, new: Any) -> None:
        """Write the state of a model instead of its journal, inside a transaction; buffered rows stay in it."""
        history, waiting = new.stream.history, self.worker.waiting
        if isinstance(history, DiskHistory) and history.database is not self.database:
            moved = new.stream.state.with_history(history.moved_to(self.database))
            new.stream = replace(new.stream, state=moved)
        model_file.write_state(self.database, new._state())
        n_waiting = sum(len(entry.batch[0]) for entry in waiting)
        journal.clear(self.database, len(waiting), n_waiting)
        self.database.meta["next_id"] = _next_id(new) + n_waiting

    def checkpoint(self) -> None:
        """Write the state now, so that opening has no rows to learn again."""
        if _is_fitted(self.model):
            self.change(self.write_state, counts=False)

    def checkpoint_if_due(self) -> None:
        """Write the state before the rows of a call come: if that fails, the rows are not learned twice."""
        if journal.n_rows(self.database) >= self.checkpoint_rows or self.checkpoint_error is not None:
            self.checkpoint_error = None
            try:
                self.checkpoint()
            except Exception as error:
                self.checkpoint_error = error

    def close(self) -> None:
        """Write the state if rows came since the last, and let others open the file."""
        with suppress(Exception):  # rows that cannot be learned stay in the journal
            self.flush()
        if not self.session.poison and not self.session.was_closed and journal.n_rows(self.database):
            try:
                self.session.carry_out(lambda: self.write_state(view_of(self.model)), counts=False)
            except Exception as error:  # the rows are in the journal
                self.checkpoint_error = error
        self.session.close()


def _entry(model: Any, rows: PreparedRows, waits: bool) -> Entry:
    """Return rows as the journal holds them, with the labels and strings that decode them."""
    stream = model.stream
    empty = (np.empty((0, stream.width)), np.empty((0, stream.n_targets)), np.empty(0))
    points, targets, weights = (np.concatenate(parts) for parts in zip(*(rows.batches or [empty]), strict=True))
    decoding = model.journal_entry(points, rows.problem or stream.problem)
    if rows.table is not None:
        table = rows.table.journal_entry()
        decoding = {"rows": decoding, "table": table}
    return Entry((points, targets, weights), rows.answers, decoding, waits)


def view_of(model: Any) -> Any:
    """Return the model as it is now, which belongs to nobody: all parts are values, so none of them changes."""
    new: Any = object.__new__(type(model))
    vars(new).update(vars(model))
    vars(new).pop("_owner", None)
    return new


def _is_fitted(model: Any) -> bool:
    return bool(model.__sklearn_is_fitted__())


def _next_id(model: Any) -> int:
    """Return the id that the next row of a model gets."""
    return int(model.stream.next_id) if _is_fitted(model) else int(model.first_id)
