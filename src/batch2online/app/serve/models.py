"""Models in a folder: each one a :class:`~batch2online.Durable` that one thread teaches, and any thread may read."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import re
import time
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from threading import Lock
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa

from batch2online.app.cli import tasks
from batch2online.app.cli.settings import Settings
from batch2online.app.inputs import DataError
from batch2online.app.serve.problems import RequestError
from batch2online.durable import Durable
from batch2online.storage.atomic import replaced

Result = TypeVar("Result")
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
"""Names of models: no dots and no separators, so that none is a path."""

_OF_ESTIMATORS = ("keep_history", "churn_price", "memory")
OPTIONS = {
    *("task", "target", "estimator", "k", "z", "loss", "alpha", "l1_ratio", "quantile", "power", "delta"),
    *("class_weight", "columns", "exclude", "epsilon", "coreset_size", "refresh", "half_life", "window", "history"),
    *("seed", *_OF_ESTIMATORS),
}
"""Options of a new model: those of ``batch2online run`` that do not concern files, and parameters of estimators."""

MAX_WAITING = 1_000
"""Calls that may wait for a model to learn; further ones are told to come later."""

GROUP = 64
"""Maximum number of pending calls that are committed as one transaction."""


class ServedModel:
    """One model: its file, its settings, and its pending calls.

    Parameters
    ----------
    path : Path
        File of the model; the settings are beside it, with the suffix ``.json``.
    settings : dict
        Options of the model, as they were given.
    """

    def __init__(self, path: Path, settings: dict[str, Any], allowed: tuple[str, ...]) -> None:
        self.name, self.settings = path.stem, settings
        self.durable = Durable(path, _estimator(settings, allowed))
        self._thread = ThreadPoolExecutor(1, thread_name_prefix=path.stem)
        self._n_waiting = 0
        self._waiting: deque[tuple[Callable[[], Any], Future[Any]]] = deque()
        self.rates: deque[tuple[float, int]] = deque(maxlen=120)
        self.errors: deque[str] = deque(maxlen=5)
        self._regret: tuple[int, Any] | None = None

    @property
    def is_fitted(self) -> bool:
        """Whether the model has seen rows."""
        return bool(self.durable.model.__sklearn_is_fitted__())

    @property
    def n_seen(self) -> int:
        """Number of rows learned."""
        return int(self.durable.model.n_seen_) if self.is_fitted else 0

    @property
    def version(self) -> int:
        """Number of the current version: 1 for the first model, one more after each change."""
        return int(self.durable.model.n_changes_) + 1 if self.is_fitted else 0

    @property
    def target(self) -> str | None:
        """Name of the column that is predicted."""
        found: str | None = self.settings.get("target")
        return found

    @property
    def n_waiting(self) -> int:
        """Number of pending calls that change the model."""
        return self._n_waiting

    async def act(self, call: Callable[[], Result]) -> Result:
        """Carry out a call that changes the model, after those before it; return when it is committed."""
        if self._n_waiting >= MAX_WAITING:
            raise RequestError(
                429, f"{MAX_WAITING} calls wait for {self.name} already: send this one later.", retry_after="1"
            )
        self._n_waiting += 1
        try:
            return await asyncio.wrap_future(self.submit(call))
        finally:
            self._n_waiting -= 1

    def submit(self, call: Callable[[], Result]) -> Future[Result]:
        """Append a call to the pending ones; its result is set when it is committed."""
        future: Future[Result] = Future()
        self._waiting.append((call, future))
        self._thread.submit(self._commit_group)
        return future

    def _commit_group(self) -> None:
        """Carry out pending calls as one transaction; one that raises is undone alone."""
        taken = [self._waiting.popleft() for _ in range(min(GROUP, len(self._waiting)))]
        group = [(call, future) for call, future in taken if future.set_running_or_notify_cancel()]
        if not group:
            return
        try:
            outcomes = self.durable.batch(lambda: [_outcome(call) for call, _ in group])
        except Exception as error:
            outcomes = [(None, error)] * len(group)
        for (_, future), (result, failure) in zip(group, outcomes, strict=True):
            if failure is None:
                future.set_result(result)
            else:
                future.set_exception(failure)

    def learn(
        self, table: pa.Table, key: str | None, column: str | None, source: tuple[str, Any] | None = None
    ) -> tuple[int, int]:
        """Learn rows; return the ids of the first and the last one. Called in the thread of the model."""
        keys, table = _taken(table, column)
        targets, rows = self._split(table)
        first = self.durable.next_id
        self.durable.partial_fit(self._in_order(rows), targets, keys=keys, key=key, source=source)
        self.rates.append((time.monotonic(), self.n_seen))
        return first, self.durable.next_id - 1

    def has_columns(self, row: dict[str, float], *, target: bool) -> bool:
        """Return whether one row of numbers has the columns of the model, and the target if it is needed."""
        model = self.durable.model
        if not self.is_fitted or getattr(model, "columns", None) != "auto" or self.settings.get("exclude"):
            return False
        if target and self.target is not None and self.target not in row:
            return False
        return row.keys() - {self.target} == set(getattr(model, "feature_names_in_", ()))

    def learn_row(self, row: dict[str, float], key: str | None) -> tuple[int, int]:
        """Learn one row, much faster than :meth:`learn`, with the same result."""
        y = None if self.target is None else row[self.target]
        first = self.durable.next_id
        self.durable.learn_one({name: value for name, value in row.items() if name != self.target}, y, key=key)
        self.rates.append((time.monotonic(), self.n_seen))
        return first, self.durable.next_id - 1

    def predict_row(self, row: dict[str, float]) -> list[Any]:
        """Return the prediction of one row, much faster than :meth:`predict`."""
        return [self.durable.predict_one({name: value for name, value in row.items() if name != self.target})]

    def predict(self, table: pa.Table, column: str | None, method: str | None = None) -> Any:
        """Return predictions; rows with keys wait for their targets."""
        if not self.is_fitted:
            raise RequestError(409, f"{self.name} has learned no rows yet.")
        keys, table = _taken(table, column)
        if self.target in table.column_names:
            table = table.drop_columns([self.target])
        rows = self._in_order(table)
        if keys is not None:
            return self.durable.predict(rows, keys=keys, at=time.time())
        default = "predict" if hasattr(self.durable.model, "predict") else "transform"
        return getattr(self.durable, method or default)(rows)

    def label(self, table: pa.Table, column: str, key: str | None) -> int:
        """Learn pending rows, given their targets; return their number."""
        keys, table = _taken(table, column)
        if keys is None or self.target is None or table.column_names != [self.target]:
            raise RequestError(422, f"Send the columns {column!r} and {self.target!r} alone.")
        targets, _ = self._split(table)
        self.durable.label(keys, targets, key=key)
        return len(keys)

    def _split(self, table: pa.Table) -> tuple[Any, pa.Table]:
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

    def _in_order(self, table: pa.Table) -> Any:
        """Return the columns of the model in their order; refuse others."""
        chosen, excluded = self.settings.get("columns"), self.settings.get("exclude") or ()
        table = table.drop_columns([name for name in excluded if name in table.column_names])
        found = table.column_names
        names = list(map(str, getattr(self.durable.model, "feature_names_in_", chosen or sorted(found))))
        missing, unknown = [name for name in names if name not in found], [name for name in found if name not in names]
        if missing or unknown:
            raise RequestError(
                422, f"Columns differ from those of {self.name}: missing {missing[:5]}, unknown {unknown[:5]}."
            )
        if not names:
            raise RequestError(422, "The rows have no columns besides the target.")
        return table.select(names)

    def changes(self, since: int) -> list[dict[str, Any]]:
        """Return the changes of the model after so many rows, oldest first."""
        if not self.is_fitted:
            return []
        events = [event for event in self.durable.model.changes_ if event.at > since]
        return [{"at": e.at, "reason": e.reason, "magnitude": _number(e.magnitude)} for e in events]

    def regret(self) -> Any:
        """Return ``regret_``, computed once for the rows seen."""
        n_seen = self.n_seen
        if self._regret is None or self._regret[0] != n_seen:
            self._regret = (n_seen, self.durable.model.regret_)
        return self._regret[1]

    def rate(self) -> float:
        """Return rows learned a second over the last ten seconds."""
        now = time.monotonic()
        recent = [(at, n) for at, n in list(self.rates) if now - at <= 10]
        if len(recent) < 2:
            return 0.0
        return (recent[-1][1] - recent[0][1]) / max(1e-3, now - recent[0][0])

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
    """

    def __init__(self, folder: Path, max_models: int = 100, estimators: tuple[str, ...] = ("sklearn",)) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder, self.max_models, self.estimators = folder.resolve(), max_models, estimators
        self._models: dict[str, ServedModel] = {}
        self._lock = Lock()
        for path in sorted(self.folder.glob("*.json")):
            if NAME.fullmatch(path.stem):
                settings = json.loads(path.read_text(encoding="utf-8"))
                self._models[path.stem] = ServedModel(path.with_suffix(".b2o"), settings, estimators)

    def __iter__(self) -> Iterator[ServedModel]:
        return iter([self._models[name] for name in sorted(self._models)])

    def get(self, name: str) -> ServedModel:
        """Return a model by its name."""
        try:
            return self._models[name]
        except KeyError:
            raise RequestError(404, f"There is no model {name!r}: PUT /models/{name} creates one.") from None

    def create(self, name: str, settings: dict[str, Any]) -> tuple[ServedModel, bool]:
        """Create a model; return it, and whether it is new. One with the same settings stays as it is."""
        if not NAME.fullmatch(name):
            raise RequestError(422, "Names have up to 64 letters, digits, hyphens and underscores.")
        with self._lock:
            known = self._models.get(name)
            if known is not None and known.settings != settings:
                raise RequestError(409, f"{name} exists with other settings: {json.dumps(known.settings)}.")
            if known is not None:
                return known, False
            if len(self._models) >= self.max_models:
                raise RequestError(409, f"There are {self.max_models} models already, as many as --max-models allows.")
            path = self.folder / f"{name}.json"
            new = ServedModel(path.with_suffix(".b2o"), settings, self.estimators)
            with replaced(path) as temporary:
                temporary.write_text(json.dumps(settings), encoding="utf-8")
            self._models[name] = new
            return new, True

    def close(self) -> None:
        """Close all models."""
        for model in self:
            model.close()


def _estimator(settings: dict[str, Any], allowed: tuple[str, ...]) -> Any:
    """Return an unfitted estimator with the options of a new model."""
    unknown = sorted(set(settings) - OPTIONS)
    if unknown:
        raise RequestError(422, f"Unknown options {unknown[:5]}: choose from {', '.join(sorted(OPTIONS))}.")
    given = {name: value for name, value in settings.items() if value is not None and name not in _OF_ESTIMATORS}
    _check_types(given)
    if "history" in given and given["history"] not in ("memory", "coreset"):
        raise RequestError(422, f'history must be "memory" or "coreset", got {given["history"]!r}.')
    if "estimator" in given:
        given["model"] = _allowed(given.pop("estimator"), allowed)
    try:
        model = tasks.task_for(Settings(**given)).estimator()
        own = {name: settings[name] for name in _OF_ESTIMATORS if settings.get(name) is not None}
        if "columns" in model.get_params(deep=False):
            own["columns"] = "auto"
        return model.set_params(**own)
    except (DataError, TypeError, ValueError) as error:
        raise RequestError(422, str(error).replace("--", "")) from error


def _allowed(name: Any, packages: tuple[str, ...]) -> str:
    if isinstance(name, str) and re.fullmatch(r"\w+(\.\w+)+", name) and name.partition(".")[0] in packages:
        return name
    raise RequestError(422, f"estimator must be the dotted name of a class of {', '.join(packages)}, got {name!r}.")


def _check_types(given: dict[str, Any]) -> None:
    """Turn lists into tuples; refuse values of types that the options do not have."""
    if "task" not in given:
        raise RequestError(422, 'Options need a task, such as {"task": "regression", "target": "y"}.')
    if given["task"] not in (*tasks.NAMES, *tasks.WRAPPED_ALONE):
        raise RequestError(422, f"task must be one of {', '.join(tasks.NAMES)}, got {given['task']!r}.")
    types = {field.name: str(field.type) for field in dataclasses.fields(Settings)}
    for name, value in given.items():
        expected = types.get(name, "str")
        if "tuple" in expected:
            if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
                raise RequestError(422, f"{name} must be a list of strings, got {value!r}.")
            given[name] = tuple(value)
        elif name in ("half_life", "refresh") and isinstance(value, int | str) and not isinstance(value, bool):
            given[name] = str(value)
        elif not _has_type(value, expected):
            raise RequestError(422, f"{name} must be of type {expected.removesuffix(' | None')}, got {value!r}.")


def _has_type(value: Any, expected: str) -> bool:
    kinds: tuple[type, ...] = (int,) if "int" in expected else (int, float) if "float" in expected else (str,)
    return isinstance(value, kinds) and not isinstance(value, bool)


def _outcome(call: Callable[[], Any]) -> tuple[Any, Exception | None]:
    """Return the result of a call, or what it raised."""
    try:
        return call(), None
    except Exception as error:
        return None, error


def _taken(table: pa.Table, column: str | None) -> tuple[list[Any] | None, pa.Table]:
    """Return the keys of rows, and the other columns."""
    if column is None:
        return None, table
    if column not in table.column_names:
        raise RequestError(422, f"The rows have no column {column!r} with their keys.")
    keys = table.column(column).to_pylist()
    keys = [int(key) if isinstance(key, float) and key.is_integer() else key for key in keys]
    return keys, table.drop_columns([column])


def _number(value: Any) -> float | None:
    return float(value) if value is not None and np.isfinite(value) else None
