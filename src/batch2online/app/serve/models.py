"""Models in a folder: each one a :class:`~batch2online.Durable` that one thread teaches, and any thread may read."""

from __future__ import annotations

import asyncio
import json
import math
import re
import time
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from threading import Lock
from typing import Any, TypeVar

import msgspec
import pyarrow as pa

from batch2online.app.serve.bodies import TableBody, exact_keys
from batch2online.app.serve.options import estimator_of
from batch2online.app.serve.problems import RequestError
from batch2online.durable import Durable
from batch2online.results import Regret
from batch2online.storage.atomic import replaced
from batch2online.storage.errors import DuplicateKey, UnknownKey

Result = TypeVar("Result")
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
"""Names of models: no dots and no separators, so that none is a path."""

MAX_WAITING = 1_000
"""Calls that may wait for a model to learn; further ones are told to come later."""

GROUP = 64
"""Maximum number of pending calls that are committed as one transaction."""

KEEP_KEYS = 2_000_000
"""Keys of calls that a file remembers; a call has two."""

_REFUSALS: tuple[type[Exception], ...] = (ValueError, TypeError)
_FAILURES = (AttributeError, ArithmeticError, MemoryError, NotImplementedError)
"""What estimators of other packages raise besides about rows that they cannot take."""


class Change(msgspec.Struct):
    """A change of the model."""

    at: int
    reason: str
    magnitude: float | None


@dataclass(frozen=True)
class Once:
    """The key of a call that is carried out once, and a digest of the call that it stands for."""

    key: str
    digest: str


class ServedModel:
    """One model: its file, its settings, and its pending calls.

    Parameters
    ----------
    path : Path
        File of the model; the settings are beside it, with the suffix ``.json``.
    settings : dict
        Options of the model, as they were given.
    packages : tuple of str
        Those whose estimators the settings may name.

    Attributes
    ----------
    target : str or None
        Name of the column that is predicted.
    n_waiting : int
        Number of calls of clients that are not answered yet, as they wait for the model to learn.
    errors : deque of str
        The last calls that were refused.
    """

    def __init__(self, path: Path, settings: dict[str, Any], packages: tuple[str, ...]) -> None:
        self.name, self.settings = path.stem, settings
        self.target: str | None = settings.get("target")
        self._refused = _REFUSALS + (_FAILURES if "estimator" in settings else ())
        estimator = estimator_of(settings, packages)
        self.durable = self.asked(lambda: Durable(path, estimator, keep_keys=KEEP_KEYS))
        self.n_waiting, self.errors = 0, deque[str](maxlen=5)
        self._thread = ThreadPoolExecutor(1, thread_name_prefix=path.stem)
        self._pending: deque[tuple[Callable[[], Any], Future[Any]]] = deque()
        self._rates: deque[tuple[float, int]] = deque(maxlen=120)

    # -- what there is to know ------------------------------------------------------------------------

    @property
    def is_fitted(self) -> bool:
        """Whether the model has seen rows."""
        return bool(self.durable.model.__sklearn_is_fitted__())

    @property
    def n_seen(self) -> int:
        """Number of rows learned."""
        return int(self.durable.model.n_seen_) if self.is_fitted else 0

    @property
    def n_changes(self) -> int:
        """Number of changes of the model."""
        return int(self.durable.model.n_changes_) if self.is_fitted else 0

    @property
    def version(self) -> int:
        """Number of the current version: 1 for the first model, one more after each change."""
        return self.n_changes + 1 if self.is_fitted else 0

    @property
    def columns(self) -> list[str]:
        """Names of the columns that the model has learned."""
        return list(map(str, getattr(self.durable.model, "feature_names_in_", ())))

    def changes(self, since: int) -> list[Change]:
        """Return the changes of the model after so many rows, oldest first."""
        events = self.durable.model.changes_ if self.is_fitted else ()
        return [Change(each.at, each.reason, finite(each.magnitude)) for each in events if each.at > since]

    def regret(self) -> Regret:
        """Return ``regret_``."""
        found: Regret = self.asked(lambda: self.durable.model.regret_)
        return found

    def rate(self) -> float:
        """Return rows learned a second over the last ten seconds."""
        now = time.monotonic()
        recent = [(at, n) for at, n in list(self._rates) if now - at <= 10]
        if len(recent) < 2:
            return 0.0
        return (recent[-1][1] - recent[0][1]) / max(1e-3, now - recent[0][0])

    # -- calls that change the model ------------------------------------------------------------------

    async def act(self, call: Callable[..., Result], once: Once | None = None) -> Result:
        """Carry out a call that changes the model, after those before it; return when it is committed.

        With ``once``, the call gets its key and is carried out at most once.
        """
        if self.n_waiting >= MAX_WAITING:
            raise RequestError(
                429, f"{MAX_WAITING} calls wait for {self.name} already: send this one later.", retry_after="1"
            )
        self.n_waiting += 1
        try:
            return await asyncio.wrap_future(self.submit(call if once is None else partial(self._once, call, once)))
        finally:
            self.n_waiting -= 1

    def _once(self, call: Callable[..., Result], once: Once) -> Result:
        """Carry out a call with its key, unless the key belongs to another one."""
        own = f"{once.key} {once.digest}"
        if self.durable.has_key(once.key) and not self.durable.has_key(own):
            raise RequestError(422, f"The Idempotency-Key {once.key!r} belongs to another call: send a new one.")
        result = call(key=once.key)
        self.durable.note(key=own)
        return result

    def submit(self, call: Callable[[], Result]) -> Future[Result]:
        """Append a call to the pending ones; its result is set when it is committed."""
        future: Future[Result] = Future()
        self._pending.append((call, future))
        self._thread.submit(self._commit_group)
        return future

    def _commit_group(self) -> None:
        """Carry out pending calls as one transaction; one that raises is undone alone."""
        taken = [self._pending.popleft() for _ in range(min(GROUP, len(self._pending)))]
        group = [(call, future) for call, future in taken if future.set_running_or_notify_cancel()]
        if len(group) == 1:  # if it raises, nothing is written
            outcomes = [self._outcome(partial(self.durable.batch, group[0][0]))]
        elif group:
            together, failure = self._outcome(
                lambda: self.durable.batch(lambda: [self._outcome(call) for call, _ in group])
            )
            outcomes = together or [(None, failure)] * len(group)
        else:
            return
        for (_, future), (result, failure) in zip(group, outcomes, strict=True):
            if failure is None:
                future.set_result(result)
            else:
                future.set_exception(failure)

    def _outcome(self, call: Callable[[], Any]) -> tuple[Any, Exception | None]:
        """Return the result of a call, or what it raised."""
        try:
            return self.asked(call), None
        except Exception as error:
            return None, error

    def asked(self, call: Callable[[], Result]) -> Result:
        """Return the result of a call of the model; what the model refuses becomes a problem of the request.

        An estimator that the settings name may fail about rows in any way; in an estimator of this package, what is
        neither a ValueError nor a TypeError is a fault of its own.
        """
        try:
            return call()
        except (DuplicateKey, UnknownKey) as error:
            raise RequestError(409, str(error)) from error
        except self._refused as error:
            raise RequestError(422, str(error) or type(error).__name__) from error

    # -- rows -----------------------------------------------------------------------------------------

    def learn(self, table: pa.Table, column: str | None, **more: Any) -> tuple[int, int]:
        """Learn rows whose keys are in a column, as :meth:`learned` does. Called in the thread of the model."""
        keys, table = taken_keys(table, column)
        targets, rows = self.split(table)
        return self.learned(self.durable.partial_fit, self._in_order(rows), targets, keys=keys, **more)

    def learned(self, call: Callable[..., object], *given: Any, **more: Any) -> tuple[int, int]:
        """Learn rows by a call; return the ids of the first and the last one."""
        first = self.durable.next_id
        call(*given, **more)
        self._rates.append((time.monotonic(), self.n_seen))
        return first, self.durable.next_id - 1

    def one_row(self, body: TableBody) -> tuple[dict[str, float] | None, float | None]:
        """Return the only row of a body and its target, if it needs no table: numbers in the columns of the model."""
        row, model = body.one_row(), self.durable.model
        if row is None or not self.is_fitted or model.stream.columns is None:
            return None, None
        target = None if self.target is None else row.pop(self.target, None)
        is_known = not self.settings.get("exclude") and row.keys() == set(self.columns)
        return row if is_known else None, target

    def predict(self, table: pa.Table, column: str | None, method: str | None = None) -> Any:
        """Return predictions; rows with keys wait for their targets."""
        if not self.is_fitted:
            raise RequestError(409, f"{self.name} has learned no rows yet.")
        keys, table = taken_keys(table, column)
        if self.target in table.column_names:
            table = table.drop_columns([self.target])
        method = method or ("predict" if hasattr(self.durable.model, "predict") else "transform")
        if not hasattr(self.durable.model, method):
            raise RequestError(422, f"{self.name} has no {method}.")
        if keys is not None and method == "transform":
            raise RequestError(422, "Rows with keys wait for targets: send them without method=transform.")
        rows, waiting = self._in_order(table), {} if keys is None else {"keys": keys, "at": time.time()}
        return getattr(self.durable, method)(rows, **waiting)

    def split(self, table: pa.Table) -> tuple[Any, pa.Table]:
        """Return targets, if the task has any, and the other columns."""
        if self.target is None:
            return None, table
        if self.target not in table.column_names:
            raise RequestError(422, f"The rows have no column {self.target!r}, the target of {self.name}.")
        column = table.column(self.target)
        if column.null_count:
            place = column.is_null().index(True).as_py()
            raise RequestError(422, f"Row {place} (counted from 0) has no {self.target!r}: send it when it is known.")
        return column.to_numpy(), table.drop_columns([self.target])

    def learnable(self, table: pa.Table) -> tuple[pa.Table, list[str]]:
        """Return the rows of a table that have a target, and notes on what is left out."""
        notes = []
        if self.target in table.column_names and (n := table.column(self.target).null_count):
            table = table.filter(table.column(self.target).is_valid())
            notes.append(f"rows without a value of {self.target!r} are skipped, {n:,} here; predict answers them")
        known = {*self.columns, *(self.settings.get("exclude") or ()), self.target}
        if self.columns and (unknown := [name for name in table.column_names if name not in known]):
            notes.append(f"columns {unknown[:5]} are ignored: the first rows did not have them")
        return table, notes

    def _in_order(self, table: pa.Table) -> Any:
        """Return the columns of the model in their order, which the first rows determine; others are ignored."""
        excluded = self.settings.get("exclude") or ()
        found = [name for name in table.column_names if name not in excluded]
        names = self.columns or self.settings.get("columns") or sorted(found)
        codec = self.durable.model.stream.columns if self.is_fitted else None
        needed = codec.inputs if codec is not None and codec.is_settled else names
        if missing := [name for name in needed if name not in found]:
            raise RequestError(422, f"The columns {missing[:5]} of {self.name} are missing: send them, or null.")
        if not names:
            raise RequestError(422, "The rows have no columns besides the target.")
        return table.select([name for name in names if name in found])

    def close(self) -> None:
        """Finish the pending calls, write the state and release the file."""
        self._thread.shutdown(wait=True)
        self.durable.close()


class ModelFolder:
    """The models of a folder.

    Parameters
    ----------
    folder : Path
        Where the files are; it is created if need be.
    max_models : int
        How many models there may be.
    estimators : tuple of str
        Packages whose estimators a request may name.

    Attributes
    ----------
    broken : dict
        Models that cannot be opened, by name, and why.
    """

    def __init__(self, folder: Path, max_models: int = 100, estimators: tuple[str, ...] = ("sklearn",)) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder, self.max_models, self.estimators = folder.resolve(), max_models, estimators
        self.broken: dict[str, str] = {}
        self._models: dict[str, ServedModel] = {}
        self._lock = Lock()
        for path in sorted(self.folder.glob("*.json")):
            if NAME.fullmatch(path.stem):
                self._open(path)

    def _open(self, path: Path) -> None:
        """Open a model; one that cannot be opened leaves the others served."""
        try:
            settings = msgspec.json.decode(path.read_bytes(), type=dict[str, Any])
            self._models[path.stem] = ServedModel(path.with_suffix(".b2o"), settings, self.estimators)
        except Exception as error:  # whatever is in the files
            self.broken[path.stem] = f"{path.stem} cannot be opened: {error}"

    def __iter__(self) -> Iterator[ServedModel]:
        return iter([self._models[name] for name in sorted(self._models)])

    def get(self, name: str) -> ServedModel:
        """Return a model by its name."""
        found = self._known(name)
        if found is None:
            raise RequestError(404, f"There is no model {name!r}: PUT /models/{name} creates one.")
        return found

    def _known(self, name: str) -> ServedModel | None:
        if name in self.broken:
            raise RequestError(503, f"{self.broken[name]} Mend or remove its files, then restart the service.")
        return self._models.get(name)

    def create(self, name: str, settings: dict[str, Any]) -> tuple[ServedModel, bool]:
        """Create a model; return it, and whether it is new. One with the same settings stays as it is."""
        if not NAME.fullmatch(name):
            raise RequestError(422, "Names have up to 64 letters, digits, hyphens and underscores.")
        with self._lock:
            known = self._known(name)
            if known is not None and known.settings != settings:
                raise RequestError(409, f"{name} exists with other settings: {json.dumps(known.settings)}.")
            if known is not None:
                return known, False
            if len(self._models) >= self.max_models:
                raise RequestError(409, f"There are {self.max_models} models already, as many as --max-models allows.")
            path = self.folder / f"{name}.json"
            new = ServedModel(path.with_suffix(".b2o"), settings, self.estimators)
            try:
                with replaced(path) as temporary:
                    temporary.write_bytes(msgspec.json.encode(settings))
            except OSError as error:
                new.close()
                raise RequestError(503, f"The settings of {name} cannot be written: {error.strerror}.") from error
            self._models[name] = new
            return new, True

    def close(self) -> None:
        """Close all models."""
        for model in self:
            model.close()


def taken_keys(table: pa.Table, column: str | None) -> tuple[list[Any] | None, pa.Table]:
    """Return the keys of rows, and the other columns."""
    if column is None:
        return None, table
    if column not in table.column_names:
        raise RequestError(422, f"The rows have no column {column!r} with their keys.")
    return exact_keys(table.column(column)), table.drop_columns([column])


def finite(value: Any) -> float | None:
    """Return a number as JSON can hold it."""
    return float(value) if value is not None and math.isfinite(value) else None
