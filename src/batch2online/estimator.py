"""The base class of all online estimators: the scikit-learn interface around a stream."""

from __future__ import annotations

import copy
import html
import os
import warnings
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from importlib import import_module
from inspect import signature
from operator import mul
from pathlib import Path
from threading import RLock
from typing import TYPE_CHECKING, Any, Literal, Self, cast

import numpy as np
import scipy.sparse as sp
from sklearn.base import BaseEstimator
from sklearn.exceptions import NotFittedError

from batch2online import declaration, homes
from batch2online import headline as words
from batch2online._types import FloatArray
from batch2online.drift.order_monitor import OrderMonitor, OrderVerdict
from batch2online.engine.engine import Engine
from batch2online.engine.half_lives import HALF_LIVES, HalfLifeSelection
from batch2online.engine.state import State
from batch2online.engine.stream import Stream
from batch2online.input import (
    LinearPlan,
    PreparedRows,
    RowReader,
    all_at_hand,
    at_hand,
    pieces,
    read_table,
    single,
    target_array,
    validated,
    without_target,
)
from batch2online.metrics import Metrics
from batch2online.reasons import explained
from batch2online.refresh import Policy
from batch2online.results import ChangeEvent, FitTiming, Regret, Timings
from batch2online.rows import Batch, Rows, ones
from batch2online.schema import check_name_is_free, check_value, classes, conforms, require
from batch2online.sketches.base import Coreset
from batch2online.theory.sizes import adaptive_epsilon
from batch2online.validation import LARGEST, check_finite, check_rows, check_targets, check_weights, unmasked

if TYPE_CHECKING:
    from batch2online.tables.codec import Codec, Columns
    from batch2online.tables.columns import TypedTable

_FIRST_CALLS = RLock()
_EXACT = 2.0**53
"""Whole numbers up to it are exact as doubles."""

_MANY_BYTES = 2**24
"""Bytes of rows beyond which the memory that they need is compared with what is available."""

LEARNED = frozenset({"_stream", "_former", "_reader", "feature_names_in_", "n_features_in_", "labels_"})
"""Attributes that learning sets."""

_CACHES = frozenset({"_reader", "_sklearn_output_config"})
"""Attributes that are set by reading and are not part of the learned state."""

CHECKS_PER_WINDOW_MOMENTS = 16
"""Refresh checks per window, at least, for models that are fitted from moments."""

STORED: dict[str, Any] = {
    "shape": tuple[int, int],
    "flat_targets": bool,
    "seed": int,
    "state": State,
    "buffer": Rows,
    "buffer_id": int,
    "columns": Any,
}
"""What a file holds of a stream."""

_CARD = (
    '<div style="border:1px solid #8886;border-radius:8px;padding:.6em 1em;max-width:60em;margin:.3em 0">'
    "<b>{name}</b><br>{lines}</div>"
)
Trusted = Literal[True] | list[str] | tuple[str, ...] | None
"""Types that a caller trusts, see :func:`batch2online.load`."""
_Plain = bool | int | float | str | None
estimators: dict[str, type[OnlineEstimator]] = {}
"""Estimators that a file may name."""


class OnlineEstimator(BaseEstimator, ABC):  # type: ignore[misc]  # scikit-learn has no types
    """Base class of the online estimators. A subclass builds the stream and names the attributes of the model.

    The learned state is ``_stream``, a value. A call that learns makes another one and assigns it in one step, so that
    an error, or an interrupt at any line, leaves the estimator as it was. Calls that learn wait for each other; calls
    that read never wait.
    """

    epsilon: Any
    half_life: Any
    window: Any
    first_id: Any
    random_state: Any
    n_features_in_: int
    feature_names_in_: Any
    _stream: Stream

    _needs_targets = False
    _has_labels = False
    _origin: int | None = None
    """Of a shard, the first id of the stream that it is part of."""

    _shard_columns: Any = None
    """Columns that a shard has from the estimator that made it."""

    _owner: str | None = None
    """The name of the file whose ``Durable`` alone may change this estimator, if any."""

    _own_settings = frozenset({"first_id", "random_state", "history"})
    """Parameters in which shards may differ; sketches compare those that matter."""

    @property
    def _largest(self) -> float:
        """Largest magnitude of a value."""
        return LARGEST

    @abstractmethod
    def _new_stream(self, n_targets: int) -> Stream:
        """Return a new stream for ``n_features_in_`` columns and this many targets."""

    def _sampling(self, for_audit: bool = False) -> dict[str, Any]:
        """Return the parameters of every coreset; ``for_audit`` if no model is fitted to it."""
        names = ("epsilon", "coreset_size", "random_state", "first_id", "keep_history")
        settings = {name: getattr(self, name) for name in names}
        if getattr(self, "half_life", None) not in (None, "auto"):
            settings["half_life"] = self.half_life
        return settings | {"coreset_size": "audit"} if for_audit and self.coreset_size is None else settings

    def _check_adaptive(self, is_possible: bool, needed: str) -> None:
        if self.epsilon == "auto" and not is_possible:
            raise ValueError(f'epsilon="auto" needs {needed}.')

    def _accuracy(self, scale: float) -> float:
        """Return the accuracy of the coreset of the rows seen; with "auto" ``scale`` over the root of their number."""
        rows = self.stream.view().sketch.totals.effective_rows
        return adaptive_epsilon(rows, scale) if self.epsilon == "auto" else float(self.epsilon)

    # -- owners ----------------------------------------------------------------------------------------------

    def __setattr__(self, name: str, value: Any) -> None:
        """Set an attribute; raise if a ``Durable`` owns the estimator."""
        if name not in _CACHES:
            self._check_may_change()
        super().__setattr__(name, value)

    def __delattr__(self, name: str) -> None:
        self._check_may_change()
        super().__delattr__(name)

    def _check_may_change(self) -> None:
        """Raise if the estimator has an owner."""
        if self._owner is not None:
            from batch2online.storage.errors import StoreError

            raise StoreError(
                f"The model belongs to the Durable of {self._owner}, whose file would not know of this change: call "
                "partial_fit, learn_one, merge or forget of the Durable, or change a copy of the model (copy.deepcopy)."
            )

    def check_free(self) -> None:
        """Raise ValueError if the estimator already has an owner."""
        if self._owner is not None:
            raise ValueError("The estimator belongs to another Durable: pass sklearn.base.clone(...) of it.")

    def __getstate__(self) -> Any:
        """Return the state of copies and pickles, which have no owner."""
        state = dict(super().__getstate__())
        state.pop("_owner", None)
        return state

    # -- learning --------------------------------------------------------------------------------------------

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Fit to these rows alone, as one stream, with a final refit on all of them.

        Parameters
        ----------
        X : array-like, sparse matrix or table of shape (n_samples, n_features)
            The rows, in stream order. A table can be one of pandas, polars or pyarrow, or any object with Arrow's
            PyCapsule protocol, such as DuckDB relations and readers of record batches.
        y : array-like of shape (n_samples,) or (n_samples, n_targets)
            The targets, for supervised estimators.
        sample_weight : array-like of shape (n_samples,), optional
            Weights of rows. A row of weight 0 is ignored.

        Returns
        -------
        self
        """
        self._check_may_change()
        X, y, sample_weight = all_at_hand(X, y, sample_weight)
        fresh = self._unfitted_copy()
        fresh.stream = fresh.applied(fresh.prepare(X, y, sample_weight))
        fresh.stream = fresh.with_final_columns()
        if not fresh.n_seen_:
            raise ValueError("sample_weight is zero for all rows: there is nothing to fit.")
        fresh.stream = fresh.stream.refit("fit")
        fresh._finish_fit(X)
        return self.replace_state(fresh)

    def _finish_fit(self, X: Any) -> None:
        """Set further attributes of ``fit`` on the new estimator, before the caller sees it."""

    def _unfitted_copy(self) -> Self:
        """Return an unfitted estimator with the same parameters."""
        fresh: Self = type(self)(**self.get_params(deep=False))
        fresh._origin, fresh._shard_columns = self._origin, self._shard_columns
        return fresh

    def replace_state(self, fresh: Self) -> Self:
        """Take over the learned state of another estimator in one step."""
        while True:
            lock = self._writing()
            with lock:
                if lock is not self._writing():  # another thread was first
                    continue
                if self.__sklearn_is_fitted__():
                    fresh.stream = replace(fresh.stream, lock=lock)
                kept = {name: value for name, value in vars(self).items() if not _is_learned(name)}
                learned = {name: value for name, value in vars(fresh).items() if _is_learned(name)}
                self.__dict__ = kept | learned
            return self

    def _writing(self) -> RLock:
        """Return the lock of calls that learn: that of the stream, or the one of all first calls."""
        engine: Stream | None = self.__dict__.get("_stream")
        return _FIRST_CALLS if engine is None else engine.lock

    def partial_fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Learn further rows. The result does not depend on how rows are split into calls.

        Parameters are those of :meth:`fit`. An error leaves the estimator as it was.
        """
        self._check_may_change()
        X, y, sample_weight = all_at_hand(X, y, sample_weight)
        if not self.__sklearn_is_fitted__():
            fresh = self._unfitted_copy()
            fresh.stream = fresh.applied(fresh.prepare(X, y, sample_weight))
            if self._is_first(fresh):
                return self
        with self._stream.lock:
            self._stream = self.applied(self.prepare(X, y, sample_weight))
        return self

    def _is_first(self, fresh: Self) -> bool:
        """Take over the state of an estimator with the first rows, unless another thread was first."""
        with _FIRST_CALLS:
            if self.__sklearn_is_fitted__():
                return False
            self.replace_state(fresh)
            return True

    def _is_plain_array(self, X: Any, y: Any, sample_weight: Any) -> bool:
        """Return whether the arguments are plain arrays that need no conversion."""
        return (
            sample_weight is None
            and type(X) is np.ndarray
            and X.dtype == np.float64
            and X.ndim == 2
            and X.flags.c_contiguous
            and X.flags.aligned
            and len(X) > 0
            and X.shape[1] == self._stream.width
            and self._stream.columns is None
            and "feature_names_in_" not in vars(self)
            and (not self._needs_targets or type(y) is np.ndarray)
        )

    def prepare(self, X: Any, y: Any, sample_weight: Any) -> PreparedRows:
        """Return validated rows; nothing is learned yet. An unfitted estimator gets its stream here."""
        self._check_settings()
        is_first = not self.__sklearn_is_fitted__()
        if is_first:
            declaration.check(self)
        if not is_first and self._is_plain_array(X, y, sample_weight):
            check_finite(X, "X", largest=self._largest)
            if X.nbytes > _MANY_BYTES:
                self._stream.check_rows_fit(len(X))
            targets = check_targets(y if self._needs_targets else None, len(X))
            self._check_target_shape(y, targets)
            return PreparedRows([(X, targets, ones(len(X)))])
        if self._encodes(X):
            return self._prepare_encoded(self._read_table(X, is_first, learns=True), y, sample_weight)
        X, of_rows = self._prepared_rows(X, is_first)
        return self._with_targets(X, of_rows, y, sample_weight)

    def _with_targets(self, X: Any, of_rows: Any, y: Any, sample_weight: Any) -> PreparedRows:
        """Return validated rows with their targets; ``of_rows`` is a change of the problem by the rows, if any."""
        y, of_targets = self._prepared_targets(y)
        targets = check_targets(y, X.shape[0])
        if self.__sklearn_is_fitted__():
            self._check_target_shape(y, targets)
        else:
            shape, is_flat = (self.n_features_in_, targets.shape[1]), y is not None and y.ndim == 1
            self._stream = self._begun(self._stream_to_begin(shape, is_flat, self.random_state))
        self._stream.check_rows_fit(X.shape[0])
        problem = None
        for change in (of_rows, of_targets):
            if change is not None:
                problem = change(self._stream.problem if problem is None else problem)
        return PreparedRows(pieces(X, targets, sample_weight), problem)

    def applied(self, rows: PreparedRows) -> Stream:
        """Return the stream after these rows."""
        if rows.table is not None:
            return self._described(self._after_table(rows))
        return self._stream.append(rows.batches, rows.problem, rows.answers)

    def _prepared_rows(self, X: Any, reset: bool) -> tuple[Any, Any]:
        """Return rows as an array or CSR matrix, and a change of the problem, if any."""
        return self._validated(X, reset), None

    def _prepared_targets(self, y: Any) -> tuple[Any, Any]:
        """Return the targets as an array or None, and a change of the problem, if any."""
        if not self._needs_targets:
            return None, None
        if y is None:
            raise ValueError(f"This {type(self).__name__} estimator requires y to be passed, but the target y is None.")
        return target_array(y), None

    def _validated(self, X: Any, reset: bool) -> Any:
        """Return X as an array or CSR matrix of finite numbers, names checked."""
        columns = None if reset or not self.__sklearn_is_fitted__() else self._stream.columns
        if columns is None:
            return validated(self, X, reset, self._largest)
        return self._features_of(self._read_table(at_hand(X), reset))

    def _checked_rows(self, X: Any) -> FloatArray:
        """Return rows to predict or transform as a dense array; the state is unchanged."""
        X = self._validated(X, reset=False)
        return np.asarray(X.toarray() if sp.issparse(X) else X, dtype=np.float64)

    def _weighted(self, y: Any, sample_weight: Any) -> Any:
        """Return the weights of rows, times those of their classes if there are any."""
        return sample_weight

    def _check_target_shape(self, y: Any, targets: FloatArray) -> None:
        if not self._needs_targets:
            return
        engine = self._stream
        flat = (y.ndim if type(y) is np.ndarray else np.ndim(y)) == 1
        if flat != engine.flat_targets or targets.shape[1] != engine.n_targets:
            expected = "(n,)" if engine.flat_targets else f"(n, {engine.n_targets})"
            raise ValueError(f"y must have shape {expected} as before, got {np.shape(y)}.")

    # -- tables ----------------------------------------------------------------------------------------------

    def _encodes(self, X: Any) -> bool:
        """Return whether X is a table whose columns are encoded."""
        if self.__sklearn_is_fitted__():
            return self._stream.columns is not None
        if self._column_options is None:
            return False
        from batch2online.tables.columns import is_table  # arrays do without

        return self._shard_columns is not None or is_table(X)

    @property
    def _column_options(self) -> Columns | None:
        """How tables become rows of numbers; None if only numbers are accepted."""
        given = getattr(self, "columns", None)
        if given is None or (given == "auto" and self._is_on_disk):  # these rows are numbers
            return None
        from batch2online.tables.codec import Columns

        if given != "auto" and not isinstance(given, Columns):
            raise ValueError(f'columns must be "auto", Columns(...) or None, got {given!r}.')
        return Columns() if given == "auto" else given

    @property
    def _is_on_disk(self) -> bool:
        """Whether rows are kept in a folder: they are not learned again, so features stay those of the first call."""
        return getattr(self, "history", "memory") not in ("memory", "coreset")

    def _read_table(self, X: Any, reset: bool, learns: bool = False) -> TypedTable:
        """Return the rows of a table as typed columns, names checked: those of the stream, if there is one.

        To learn them while features are not settled, all columns are needed.
        """
        codec = self._shard_columns if reset else self._stream.columns
        table: TypedTable = read_table(self, X, codec, reset, learns)
        if codec is None:
            return table
        in_order = [name for name in table.names if name in codec.table_names]
        if reset and in_order != list(codec.table_names) and set(in_order) == set(codec.table_names):
            names = list(codec.table_names[:5])
            raise ValueError(f"The shard needs the columns {names}, in this order, of the estimator that made it.")
        if unknown := codec.unknown(table.names):
            _warn(f"columns {unknown[:5]} are ignored: the first rows did not have them; a new model learns them")
        return cast("TypedTable", codec.checked(table, learns))

    def _features_of(self, table: TypedTable) -> FloatArray:
        """Return rows of a table as features, checked."""
        codec = self._stream.columns
        if late := codec.late_gaps(table):
            _warn(
                f"columns {late[:5]} have missing values after the first {codec.known_rows:,} rows: they take the mean "
                "or count as other strings; Columns(missing='refuse') refuses them"
            )
        return self._coded(codec, table)

    def _coded(self, codec: Codec, table: TypedTable) -> FloatArray:
        """Return rows of a table as the features of a codec, checked."""
        points = codec.encode(table)
        check_finite(points, "X", codec.names, largest=self._largest)
        return points

    def _prepare_encoded(self, table: TypedTable, y: Any, sample_weight: Any) -> PreparedRows:
        """Return validated rows of a table: as features, or as they came until these are decided.

        Rows without a target are skipped.
        """
        if self._needs_targets and (skipped := without_target(y)) is not None and len(skipped) == len(table):
            _warn(f"rows without a target are skipped, {skipped.sum():,} here; predict answers them")
            table, y = table[~skipped], target_array(y)[~skipped]
            is_weighted = sample_weight is not None and np.ndim(sample_weight)
            sample_weight = np.asarray(sample_weight)[~skipped] if is_weighted else sample_weight
        y, of_targets = self._prepared_targets(y)
        targets = check_targets(y, len(table))
        if self.__sklearn_is_fitted__():
            self._check_target_shape(y, targets)
        else:
            self._stream = self._first_table_stream(table, y, targets)
            table = self._stream.columns.checked(table, learns=True)
        codec, problem = self._stream.columns, None if of_targets is None else of_targets(self._stream.problem)
        points = self._features_of(table) if codec.is_settled else _numbers_of(table)
        weights = check_weights(sample_weight, points, targets)
        positive = weights > 0
        if not positive.all():
            table, points, targets, weights = table[positive], points[positive], targets[positive], weights[positive]
        self._stream.check_rows_fit(len(points))
        if codec.is_settled:
            return PreparedRows([(points, targets, weights)], problem)
        return PreparedRows([(table.numbers, targets, weights)], problem, table=table)

    def _first_table_stream(self, table: TypedTable, y: Any, targets: FloatArray) -> Stream:
        """Return the stream of a table before its first row."""
        from batch2online.tables.codec import Codec

        has_intercept, options = bool(getattr(self, "fit_intercept", False)), self._column_options
        assert options is not None
        codec = self._shard_columns or Codec.new(table, options, has_intercept)
        if self._is_on_disk and not codec.is_settled:
            none = np.empty((len(table), 0))
            codec = codec.learn(codec.checked(table), none, np.ones(len(table)), is_last=True)
        shape, is_flat = (codec.width, targets.shape[1]), y is not None and y.ndim == 1
        return self._begun(self._stream_to_begin(shape, is_flat, self.random_state, codec))

    def _stream_to_begin(self, shape: tuple[int, int], is_flat: bool, seed: Any, codec: Any = None) -> Stream:
        """Return a stream that is to begin, for rows and targets of this shape; ``codec`` is that of a table."""
        maker = self._unfitted_copy()
        maker.random_state = seed
        is_first = codec is not None and not codec.known_rows  # no row is learned with its features
        maker.n_features_in_ = max(shape[0], getattr(self, "n_components", 0) if is_first else 0)
        stream = maker._new_stream(shape[1])
        stream = replace(stream, engine=maker._with_drift(stream.engine.with_targets(is_flat)))
        return replace(stream, columns=codec)

    def _after_table(self, rows: PreparedRows, is_last: bool = False) -> Stream:
        """Return the stream after rows of a table; all rows are learned again if the features change."""
        old, table = self._stream, rows.table
        before = old.columns
        ((_, targets, weights),) = rows.batches
        codec = before.learn(table, targets, weights, is_last)
        if codec.coded == before.coded or (before.known_rows and _encodes_alike(before, codec)):
            points = self._coded(codec, table)
            return replace(old.append([(points, targets, weights)], rows.problem), columns=codec)
        own = before.first.plus(table, targets, weights).in_one
        ((table,), (targets,), (weights,)) = own.tables, own.targets, own.weights
        shape = codec.width, old.n_targets
        new = self._begun(self._stream_to_begin(shape, old.flat_targets, old.engine.seed, codec))
        new = replace(new, lock=old.lock, log=None if old.log is None else ())
        points = self._coded(codec, table)
        labels = getattr(rows.problem or old.problem, "labels", {})
        problem = replace(new.problem, labels=labels) if labels else None
        new = new.append([(points, targets, weights)], problem)
        if old.log is None:
            return new
        return replace(new, log=(*old.log, *(event for event in new.log or () if event.at > old.n_seen)))

    def with_final_columns(self) -> Stream:
        """Return the stream with features that are inferred from all rows so far, and stay as they are."""
        stream, codec = self._stream, self._stream.columns
        if codec is None or codec.is_settled:
            return stream
        own = codec.first.in_one
        table, targets, weights = own.tables[0][:0], own.targets[0][:0], own.weights[0][:0]
        return self._described(
            self._after_table(PreparedRows([(own.weights[0][:0, None], targets, weights)], table=table), is_last=True)
        )

    def _described(self, stream: Stream) -> Stream:
        """Return the stream; warn of columns that it does not use, once that is final."""
        codec = stream.columns
        for note in codec.notes if codec.is_settled else ():
            if "has missing values" not in note:
                _warn(note)
        return stream

    def _fixed(self) -> Stream:
        """Return the stream with the features of a table that it has now, for good."""
        stream = self._stream
        return stream if stream.columns is None else replace(stream, columns=stream.columns.settled())

    @property
    def columns_(self) -> Codec:
        """How the columns of a table become features.

        ``columns_.get_feature_names_out()`` are the names of the features in the order of the coefficients; ``means``,
        ``categories``, ``ignored`` and ``notes`` are what was inferred from the first rows.
        """
        columns = self._check_fitted().columns
        if columns is None:
            raise AttributeError(f"This {type(self).__name__} has learned rows of numbers, not a table.")
        return cast("Codec", columns)

    def feature_names(self) -> list[str] | None:
        """Return the names of the features; None if they have none."""
        columns, names = self._check_fitted().columns, getattr(self, "feature_names_in_", None)
        if columns is not None:
            return list(columns.names)
        return None if names is None else [str(name) for name in names]

    # -- late targets ----------------------------------------------------------------------------------------

    def question(self, X: Any) -> tuple[FloatArray, Any, list[list[str]]]:
        """Return rows to predict as a file holds them: numbers, the schema of a table, and the strings of each row."""
        if not self._needs_targets:
            raise ValueError(f"{type(self).__name__} has no targets that could come later: predict without keys.")
        points = self._checked_rows(X)
        return points, None, [[]] * len(points)

    def prepare_late(self, points: FloatArray, tables: list[tuple[Any, list[str]]], y: Any) -> PreparedRows:
        """Return rows that :meth:`question` has made, with their targets; ``tables`` are their schemas and strings."""
        self._check_settings()
        y, change = self._prepared_targets(y)
        targets = check_targets(y, len(points))
        self._check_target_shape(y, targets)
        problem = None if change is None else change(self._stream.problem)
        return PreparedRows([(points, targets, ones(len(points)))], problem)

    def restored_answerer(self, stored: Any) -> Any:
        """Return the model or warm-up that a file holds."""
        return stored

    # -- merging and forgetting ------------------------------------------------------------------------------

    def merge(self, other: Any) -> Self:
        """Add all rows of ``other``, which has the same settings and disjoint ids, and refit; ``other`` is unchanged.

        The result depends on what the coreset is a function of.

        - *The set of rows*: least squares, low rank, clustering with all rows kept, and :class:`BatchToOnline` with
          ``Leverage``, ``RidgeLeverage``, ``Uniform``, ``Clustering`` or ``Everything``; with a ``window`` or a number
          as ``half_life`` as well. Coreset and model are those that ``fit`` gives on all rows, up to rounding of sums.
        - *The sequence of rows*: :class:`OnlineClassifier`, other losses and penalties of :class:`OnlineRegression`,
          and :class:`BatchToOnline` of regressors and classifiers by default. While the coreset holds all rows, coreset
          and model are those of ``fit``, up to the accuracy of the solver. Beyond that the coreset is unbiased, but
          another one than that of ``fit``, and it may depend on the shards and the order of merging. ``error_``, where
          there is one, estimates by which share the model costs more than the fit on all rows.
        - With ``history="coreset"``, see :class:`OnlineClustering`, and with ``half_life="auto"``, coresets and models
          depend on the shards and the order of merging.
        """
        self._check_may_change()
        if type(other) is not type(self):
            raise TypeError(f"Can only merge with another {type(self).__name__}, got {type(other).__name__}.")
        if not other.__sklearn_is_fitted__():
            return self
        if not self.__sklearn_is_fitted__() and self._origin is not None and other._origin is not None:
            return self.replace_state(copy.deepcopy(other))
        if not self.__sklearn_is_fitted__():
            raise NotFittedError("merge into an estimator that has seen rows; an empty one has nothing to add to.")
        self._check_settings()
        with self._stream.lock:
            self._check_mergeable(other)
            self._stream = self._merged(self._fixed(), other.stream)
            self._stream.tidy()
        return self

    def _merged(self, own: Stream, other: Stream) -> Stream:
        return own.merge(other)

    def _check_mergeable(self, other: Any) -> None:
        mine, theirs = (list(getattr(e, "feature_names_in_", ())) for e in (self, other))
        if mine != theirs:
            raise ValueError("Can only merge estimators of the same columns in the same order.")
        for name in self.get_params(deep=False).keys() - self._own_settings:
            own, others = getattr(self, name), getattr(other, name)
            if not self._is_same_setting(own, others):
                raise ValueError(f"Can only merge with the same {name}: {own!r} and {others!r} differ.")
        own, others = (e.stream.columns for e in (self, other))
        if (own is None) != (others is None) or (own is not None and not own.is_same(others)):
            raise ValueError(
                "Can only merge estimators that encode their columns alike: call new_shard of one that has learned the "
                "first rows."
            )
        if self._stream.flat_targets != other.stream.flat_targets:
            raise ValueError("Can only merge with targets of the same shape, y of (n,) or of (n, k).")

    def _is_same_setting(self, own: Any, others: Any) -> bool:
        return bool(own == others)

    def forget(self, ids: Any) -> Self:
        """Forget the rows with these ids, as if they had never been seen; needs ``keep_history=True``.

        The other rows are learned again in the order of their ids: models, changes and regret are those of these rows.
        """
        self._check_may_change()
        self._check_settings()
        with self._check_fitted().lock:
            self._stream = self._fixed().forget(ids)
            self._stream.tidy()
        return self

    def __copy__(self) -> Self:
        """Return an independent copy."""
        return copy.deepcopy(self)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True  # rows are validated and made dense by this class
        return tags

    def __sklearn_is_fitted__(self) -> bool:
        return "_stream" in vars(self)

    def _check_fitted(self) -> Stream:
        if not self.__sklearn_is_fitted__():
            raise NotFittedError(f"This {type(self).__name__} has seen no rows yet: call fit or partial_fit first.")
        engine: Stream = self._stream
        return engine

    def rows_to_check(self) -> int:
        """Return the number of rows until the model can change; 1 before the first row."""
        if not self.__sklearn_is_fitted__():
            return 1
        stream, codec = self._stream, self._stream.columns
        to_cut = max(1, stream.rows_to_cut() - len(stream.buffer))
        return to_cut if codec is None else min(to_cut, codec.rows_to_check())

    # -- parameters ------------------------------------------------------------------------------------------

    def set_params(self, **params: Any) -> Self:
        """Set parameters for the next ``fit``.

        A fitted estimator predicts as before, but raises an error on further learning, merging, forgetting and saving
        until it is fitted again or the parameters are set back.
        """
        self._check_may_change()
        before = self.get_params(deep=True)
        super().set_params(**params)
        if self.__sklearn_is_fitted__():
            now = self.get_params(deep=True)
            former = {name: before.get(name) for name in params} | vars(self).get("_former", {})
            self._former = {name: value for name, value in former.items() if not _is_same(value, now.get(name))}
            self.__dict__.pop("_reader", None)  # single rows are checked again, too
        return self

    def _check_settings(self) -> None:
        """Raise ValueError if parameters were changed since rows were learned."""
        former = vars(self).get("_former")
        if former:
            names = ", ".join(sorted(former))
            raise ValueError(
                f"{names} was changed after rows were seen: call fit to start again with it, or restore it to continue."
            )

    # -- windows and half-lives ------------------------------------------------------------------------------

    def _with_drift(self, engine: Engine) -> Engine:
        """Return the engine that monitors the order of rows, with a window of rows, or several half-lives."""
        half_life, window = getattr(self, "half_life", None), getattr(self, "window", None)
        check_window(window)
        if window is not None and half_life is not None:
            raise ValueError("half_life and window are two ways to forget old rows: choose one.")
        if window is not None and engine.rows_on_disk:
            raise ValueError('The rows of a window are kept in memory: choose history="memory" or "coreset".')
        refit_cost = engine.problem.refit_cost(engine.reads_rows)
        engine = replace(engine, observers=(*engine.observers, OrderMonitor.new(*engine.shape)))
        if window is not None:
            return engine.with_window(int(window), CHECKS_PER_WINDOW_MOMENTS if refit_cost == "moments" else None)
        return HalfLifeSelection.of(engine, HALF_LIVES[refit_cost]) if half_life == "auto" else engine

    # -- single rows -----------------------------------------------------------------------------------------

    @property
    def _takes_any_number(self) -> bool:
        """Whether any number is a valid target: no labels, and no restriction by the loss."""
        return not self._has_labels

    def learn_one(self, x: Any, y: Any = None) -> Self:
        """Learn one row: a mapping of column names to values, or a sequence of values."""
        try:
            engine, read = self._stream, self._reader
            values, target = read.values(x), read.target(y)
            with engine.lock:
                if (
                    self._stream is engine
                    and read.codec is engine.columns
                    and self._owner is None
                    and engine.append_one(values, target)
                ):
                    return self
        except Exception:  # no row yet, no reader, no mapping, or an invalid value: again, with clear errors
            pass
        return self._learn_one(x, y)

    def _learn_one(self, x: Any, y: Any) -> Self:
        """Learn one row as :meth:`partial_fit` does."""
        self._check_may_change()
        if not self.__sklearn_is_fitted__():
            fresh = self._unfitted_copy()
            fresh.stream = fresh.applied(fresh.prepare_first(x, y))
            if not self._is_first(fresh):
                return self.learn_one(x, y)
        else:
            with self._stream.lock:
                self._stream = self.applied(self.prepare_one(x, y))
        self._store_reader()
        return self

    def prepare_first(self, x: Any, y: Any) -> PreparedRows:
        """Return the validated first row of an unfitted estimator, whose columns it sets."""
        names = list(x) if isinstance(x, Mapping) else None
        if names is not None and not all(isinstance(name, str) for name in names):
            raise TypeError(f"The names of columns must be strings, got {names[:5]}.")
        if self._encodes([list(x)]) or (names is not None and self._column_options is not None):
            from batch2online.tables.columns import read

            known = self._shard_columns
            table = read([x if names is not None else list(x)]) if known is None else known.row(self._listed(x))
            self.n_features_in_ = len(x)
            prepared = self._prepare_encoded(table, *self._one_target(y))
        else:
            rows = check_rows([list(x.values()) if names is not None else unmasked(x, "x")], None, names, self._largest)
            prepared = self.prepare(rows, self._one_target(y)[0], None)
        if names is not None:
            self.feature_names_in_ = np.asarray(names, dtype=object)
        return prepared

    def prepare_one(self, x: Any, y: Any) -> PreparedRows:
        """Return one validated row; nothing is learned yet."""
        self._check_settings()
        columns = self._stream.columns
        if columns is not None and not columns.is_settled:
            table = columns.checked(columns.row(self._listed(x)), learns=True)
            return self._prepare_encoded(table, *self._one_target(y))
        return self._with_targets(self._row_of(x)[None], None, *self._one_target(y))

    def _one_target(self, y: Any) -> tuple[Any, Any]:
        """Return the target and the weight of one row as arrays, None where there is none."""
        is_first = not self.__sklearn_is_fitted__()
        if self._has_labels and not (is_first and y is None):
            targets = single(y)
        else:
            targets = None if y is None else np.asarray([unmasked(y, "y")])
        return targets, self._weighted(targets, None)

    def _listed(self, x: Any) -> list[Any]:
        """Return the values of one row of a table, in the order of its columns."""
        if not isinstance(x, Mapping):
            return list(x)
        codec = self._shard_columns if not self.__sklearn_is_fitted__() else self._stream.columns
        excluded = codec.options.exclude
        return list(_in_order(x, codec.table_names, {name for name in x if name in excluded}))

    def _row_of(self, x: Any) -> FloatArray:
        """Return the values or features of one row as an array (d,), checked."""
        stream = self._check_fitted()
        is_plain = type(x) is np.ndarray and x.dtype == np.float64 and x.shape == (stream.width,)
        if is_plain and stream.columns is None and x @ x <= self._largest**2:
            plain: FloatArray = x
            return plain
        try:
            if self._reader.codec is stream.columns:
                return self._reader.array(x)
        except Exception:  # no reader yet, or an invalid value: again, with clear errors
            pass
        if stream.columns is not None:
            self._store_reader()
            codec, values = stream.columns, self._listed(x)
            is_complete = len(values) == len(codec.table_names)
            found = codec.encode_one(values, min(_EXACT, self._largest)) if is_complete else None
            if found is not None:
                return np.array(found)
            features: FloatArray = self._features_of(codec.checked(codec.row(values)))[0]
            return features
        names = getattr(self, "feature_names_in_", None)
        if isinstance(x, Mapping):
            if names is None:
                raise ValueError("x is a mapping, but the columns have no names: pass a sequence of values.")
            x = _in_order(x, names)
        if len(x) != stream.width:
            raise ValueError(f"x must have {stream.width} values, got {len(x)}.")
        self._store_reader()
        row: FloatArray = check_rows([unmasked(x, "x")], None, names, self._largest)[0]
        return row

    def _store_reader(self) -> None:
        """Store what reads single rows of plain numbers, and the labels that are known by now."""
        stream, read = self._stream, vars(self).get("_reader")
        if (read is None or read.codec is not stream.columns) and (read := self._new_reader()) is not None:
            self._reader = read
        if read is not None and read.codes is not None and self._has_labels:
            labels = getattr(stream.problem, "labels", {})
            read.codes.update((label, (code,)) for code, label in labels.items())

    def _new_reader(self) -> RowReader | None:
        """Return what reads single rows of plain numbers; None where each row needs a conversion."""
        stream = self._stream
        columns, names = stream.columns, getattr(self, "feature_names_in_", None)
        if not (self._takes_any_number or self._has_labels):
            return None
        if not stream.flat_targets and self._needs_targets:
            return None
        codes: dict[Any, tuple[float, ...]] | None = None if self._needs_targets else {None: ()}
        width, names = self.n_features_in_, None if names is None else [str(name) for name in names]
        largest, encode = self._largest, None
        if columns is not None:
            width, names = len(columns.table_names), names and list(columns.table_names)
            largest = min(_EXACT, self._largest)
            encode = None if columns.is_identity else partial(columns.encode_one, largest=largest)
        own = {} if self._has_labels and self._needs_targets else codes
        return RowReader(names, width, largest, own, encode, columns)

    def _plain_predictor(self, x: Any) -> tuple[float, LinearPlan] | None:
        """Return the linear predictor of one row of Python numbers, and its plan; None if there is none or on errors.

        It is that of arrays up to rounding.
        """
        if type(x) is np.ndarray:
            return None
        try:
            known = self._stream.plan
            if known is not None:
                values_of, plan = known
                found = sum(map(mul, plan.coefficients, values_of(x)), plan.intercept)
                if type(found) is float:  # numbers of NumPy have precisions of their own
                    return found, plan
        except Exception:  # no row yet, no mapping, or an invalid value
            pass
        self._store_plan()
        return None

    def _store_plan(self) -> None:
        """Store the linear predictor of the current model with the stream, if it has one."""
        engine, read = self.__dict__.get("_stream"), self.__dict__.get("_reader")
        if engine is None or read is None or engine.plan is not None:
            return
        plan = self._new_plan(engine) if engine.ordered and engine.has_model else None
        if plan is not None:
            vars(engine)["plan"] = read.values, plan

    def _new_plan(self, stream: Stream) -> LinearPlan | None:
        """Return the linear predictor of the current model in Python numbers; None if it is another kind of model."""
        return None

    # -- shards ----------------------------------------------------------------------------------------------

    def new_shard(self, first_id: int) -> Self:
        """Return an unfitted estimator for a part of the rows, numbered from ``first_id`` on, to merge with others.

        A shard learns without order: it predicts no row before learning it, and fits only when a model is requested.
        Where the coreset is a function of the set of rows (see :meth:`merge`), shards that are merged in any order and
        by any tree give the coreset of ``fit`` on all rows and, up to rounding, its model. Other shards are streams,
        and the merged result depends on them; ``docs/cluster.md`` has a table of all estimators.

        Examples
        --------
        >>> from batch2online import OnlineRegression
        >>> X = np.random.default_rng(0).normal(size=(1_000, 3))
        >>> model = OnlineRegression(random_state=0)
        >>> one, other = model.new_shard(0).partial_fit(X[:300], X[:300, 0]), model.new_shard(300)
        >>> merged = other.partial_fit(X[300:], X[300:, 0]).merge(one)
        >>> whole = model.fit(X, X[:, 0])
        >>> bool(merged.coreset_ == whole.coreset_ and np.allclose(merged.coef_, whole.coef_, rtol=1e-12))
        True
        """
        shard = self._unfitted_copy()
        shard.first_id, shard.random_state = first_id, self._seed_of_shards()
        shard._origin = int(self.first_id) if self._origin is None else self._origin
        if self.__sklearn_is_fitted__():
            shard._shard_columns = self._fixed().columns
        return shard

    def check_ids(self, ids: Any) -> Self:
        """Raise ValueError unless the rows that a shard learns next have these ids, one after the other.

        A shard numbers its rows from ``first_id`` on. If rows have ids of their own and a filter has removed some rows,
        ``forget`` and the coreset would refer to other rows. Call this with the ids of each batch, without those of
        rows of weight zero, before the rows are learned.

        Examples
        --------
        >>> from batch2online import OnlineLowRank
        >>> shard = OnlineLowRank(1, random_state=0).new_shard(40)
        >>> shard = shard.check_ids([40, 41]).partial_fit([[1.0, 2.0], [3.0, 4.0]])
        >>> shard.check_ids([42, 44])  # doctest: +ELLIPSIS
        Traceback (most recent call last):
        ValueError: Row 1 has the id 44, expected 43: rows were dropped, repeated or moved after they were numbered...
        """
        given = np.asarray(ids).reshape(-1)
        expected = self._next_id() + np.arange(len(given))
        wrong = np.flatnonzero(given != expected)
        if wrong.size:
            row = int(wrong[0])
            raise ValueError(
                f"Row {row} has the id {given[row]}, expected {expected[row]}: rows were dropped, repeated or moved "
                "after they were numbered. Number the rows after the last filter."
            )
        return self

    def _next_id(self) -> int:
        """Return the id that the next row gets."""
        if not self.__sklearn_is_fitted__():
            return int(self.first_id)
        return self._stream.next_id

    def _seed_of_shards(self) -> int:
        if self.__sklearn_is_fitted__():
            return int(self._stream.sketch.settings.seed)
        if not isinstance(self.random_state, int | np.integer):
            raise ValueError(f"Shards share a seed: random_state must be an integer, got {self.random_state!r}.")
        return int(self.random_state)

    def _begun(self, stream: Stream) -> Stream:
        """Return a stream before the first row, an ordinary one or that of a shard."""
        if self._origin is None:
            return stream.begun()
        stream.engine.check_all_rows_count("A shard")
        return stream.begun().unordered() if stream.sketch.pilot == "none" else stream.begun()

    # -- fitted attributes -----------------------------------------------------------------------------------

    @property
    def stream(self) -> Stream:
        """What was learned, a value: see ``docs/architecture.md``."""
        return self._check_fitted()

    @stream.setter
    def stream(self, stream: Stream) -> None:
        self._stream = stream

    @property
    def n_seen_(self) -> int:
        """Number of rows seen (and not forgotten)."""
        return self._check_fitted().n_seen

    @property
    def n_samples_seen_(self) -> int:
        """Number of rows seen, by the name of scikit-learn."""
        return self.n_seen_

    @property
    def has_model_(self) -> bool:
        """Whether a first model was fitted; until then the mean of the rows, or of the targets, is used."""
        return self._check_fitted().has_model

    @property
    def n_changes_(self) -> int:
        """Number of changes of the model; the first model is not counted."""
        return self._check_fitted().current.n_changes

    @property
    def changes_(self) -> list[ChangeEvent]:
        """The newest changes of the model, at most 10,000, each with its reason and the time of its fit.

        ``n_changes_`` counts all of them; ``Durable(log_changes=True)`` keeps them all in the file.
        """
        engine = self._check_fitted()
        seconds = {fit.at: fit.seconds for fit in engine.current.timings.models}
        return [replace(event, seconds=seconds.get(event.at)) for event in engine.view().current.changes]

    @property
    def change_reasons_(self) -> list[str]:
        """Each change in words: why the model was replaced, which inputs and predictions moved, and what it gained."""
        names = self.feature_names()
        return [explained(event, names=names, labels=self.stream.problem.labels) for event in self.changes_]

    @property
    def timings_(self) -> Timings:
        """Number of fits, their rows and seconds, and an estimate of what refits on all rows would have taken."""
        return self._check_fitted().current.timings

    @property
    def coreset_(self) -> Coreset:
        """The coreset of the rows seen so far."""
        coreset = self._check_fitted().coreset()
        names = self.feature_names()
        return coreset if names is None else replace(coreset, columns=tuple(names))

    @property
    def regret_(self) -> Regret:
        """Prequential loss and hindsight optimum of the rows seen so far."""
        return self._check_fitted().regret()

    @property
    def order_(self) -> OrderVerdict:
        """Whether the rows look as if they came in random order, which the guarantee assumes."""
        stream = self._check_fitted()

        def verdict() -> OrderVerdict:
            monitor: Any = stream.view().state.observer(OrderMonitor)
            found: OrderVerdict = monitor.verdict()
            return replace(found, within=stream.engine.forgetting)

        found: OrderVerdict = stream.cached("order", verdict)
        return found

    # -- metrics and reports ---------------------------------------------------------------------------------

    @property
    def metrics_(self) -> Metrics:
        """Measures of quality by name: plain averages over all rows, each predicted before it was learned.

        Rows are not decayed here, not even with ``half_life`` or ``window``; averages over the last rows are
        ``recent_metrics_``. Empty if no row was scored.
        """
        return self.stream.performance().metrics()

    @property
    def baseline_metrics_(self) -> Metrics:
        """The same measures of the simplest prediction from earlier rows, each row scored before it was learned.

        It is the mean of the targets so far, or the most frequent class and the shares of classes before each segment
        of rows; for clusters, the seeds of k-means++ on the coreset. Empty where there is none.
        """
        return self.stream.performance().baseline_metrics()

    @property
    def window_metrics_(self) -> list[dict[str, Any]]:
        """Measures of quality over time: of at most 32 consecutive windows of rows, with those of the baseline.

        Each is a dictionary of ``stop``, the row count at which the window ends, ``rows``, ``metrics`` and
        ``baseline``. Each row was predicted before it was learned, and counts with its given weight.
        """
        return self.stream.performance().window_metrics()

    @property
    def recent_metrics_(self) -> Metrics:
        """Measures of quality over the last rows, with ``half_life`` or ``window``; empty if all rows count equally.

        These are the last 1,000 rows, or those of one half-life or window if that is shorter, but 100 at least.
        """
        return self.stream.performance().recent_metrics()

    def headline(self, target: str | None = None, *, scale: float = 1.0, unit: str = "") -> words.Headline:
        """Return quality, distance to the best possible fit, changes and order in one line.

        Parameters
        ----------
        target : str, optional
            Name of the target, to begin the line with.
        scale : float, optional
            Factor of distances between rows, if columns were divided by it.
        unit : str, optional
            Unit of distances between rows.
        """
        self._check_fitted()
        return words.headline(self, target, scale, unit)

    def report(self, path: str | os.PathLike[str], *, target: str | None = None) -> Path:
        """Write a report to one self-contained HTML file.

        Parameters
        ----------
        path : path
            Where the file goes.
        target : str, optional
            Name of the target.

        Returns
        -------
        Path
        """
        self._check_fitted()
        page = import_module("batch2online.app.report.page").model_report(self, target)
        Path(path).write_text(page, encoding="utf-8")
        return Path(path)

    def plot(self, axes: Any = None) -> Any:
        """Draw the model on matplotlib axes, which are returned: coefficients, centers or variance kept."""
        self._check_fitted()
        return import_module("batch2online.app.report.plots").plot(self, axes)

    def __repr__(self, N_CHAR_MAX: int = 700) -> str:
        text: str = super().__repr__(N_CHAR_MAX)
        return f"{self._summary()}\n{text}" if self.__sklearn_is_fitted__() else text

    def _summary(self) -> str:
        return f"{self.n_seen_:,} rows: {self.headline()}"

    def _repr_html_(self) -> str:
        name = type(self).__name__
        if not self.__sklearn_is_fitted__():
            return _CARD.format(name=name, lines="no rows yet")
        line = self.headline()
        lines = [f"{self.n_seen_:,} rows", line.measures, line.handful, line.distance, line.changes, line.order]
        return _CARD.format(name=name, lines="<br>".join(html.escape(line) for line in lines if line))

    def _repr_mimebundle_(self, **_: Any) -> dict[str, str]:
        return {"text/plain": repr(self), "text/html": self._repr_html_()}

    # -- files -----------------------------------------------------------------------------------------------

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        check_name_is_free(cls, estimators.get(cls.__name__))
        estimators[cls.__name__] = cls
        if "__doc__" in vars(cls):
            cls.__doc__ = declaration.documented(cls)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Save the estimator to one file, atomically; :func:`batch2online.load` returns it."""
        self._check_fitted()
        self._check_settings()
        from batch2online.storage import model_file  # imported on first use

        model_file.save(path, self._state() | {"timings": self._timings_state()})

    def _state(self) -> dict[str, Any]:
        engine, params = self._check_fitted().whole(), self.get_params(deep=False)
        if not isinstance(params["random_state"], int | None):
            params["random_state"] = engine.sketch.settings.seed
        names = getattr(self, "feature_names_in_", None)
        return {
            "estimator": type(self).__name__,
            "params": {name: _plain(value) for name, value in params.items()},
            "columns": None if names is None else [str(name) for name in names],
            "stream": engine.stored(),
        }

    def _timings_state(self) -> tuple[Any, ...]:
        """Return the timings of refits: beside the state, since seconds differ from run to run."""
        timings = self._stream.current.timings
        return timings.solves, timings.rows, timings.seconds, [tuple(fit) for fit in timings.models]

    @classmethod
    def _from_state(cls, state: dict[str, Any], trusted: Trusted = None, refit: bool = False) -> Self:
        """Return the estimator of a state from a file, whose parts were validated; see ``load``."""
        check_plain({name: value for name, value in state["params"].items() if not cls._is_object(name, value)})
        return cls._assembled(state)

    @classmethod
    def _assembled(cls, state: dict[str, Any]) -> Self:
        check_state(state, cls)
        estimator, stream = cls(**state["params"]), state["stream"]
        declaration.check(estimator)
        columns, timings = stream["columns"], timings_from(state.get("timings"))
        names = state["columns"] or (() if columns is None else columns.table_names)
        estimator.n_features_in_ = len(names) or stream["shape"][0]
        if state["columns"] is not None:
            estimator.feature_names_in_ = np.asarray(state["columns"], dtype=object)
        estimator._prepare_restoring(state)
        settings = stream["shape"], stream["flat_targets"], stream["seed"], columns
        restored = estimator._stream_to_begin(*settings).restored(stream)
        estimator.stream = replace(restored, state=replace(restored.state, timings=timings))
        if (largest := estimator._largest) < LARGEST:
            held = estimator.stream.held_rows()
            found = max((float(np.abs(rows.points).max(initial=0.0)) for rows in held), default=0.0)
            require(found <= largest, f"rows: found a magnitude of {found:g}, expected at most {largest:g}")
        return estimator

    def _prepare_restoring(self, state: dict[str, Any]) -> None:
        """Set what :meth:`_new_stream` needs of a state from a file, besides the parameters."""

    def check_reopenable(self) -> None:
        """Raise TypeError for parameters that cannot be stored: the file could never be opened again."""
        for name, value in self.get_params(deep=False).items():
            is_stored = name == "random_state" or self._is_object(name, value)  # of a generator its seed is stored
            if not (is_stored or self._can_be_stored(_plain(value))):
                raise TypeError(
                    f"{name} is {value!r}, which no file can hold: what a durable model learns with it could never be "
                    f"opened again. {self._instead_of_durable(name)}"
                )

    @classmethod
    def _is_object(cls, name: str, value: Any) -> bool:
        """Return whether a parameter is an object of the user's own that a file can hold."""
        return False

    def _can_be_stored(self, value: Any) -> bool:
        is_storable = type(value) in classes.values()
        return is_storable if isinstance(value, Policy) else is_storable or conforms(value, _Plain)

    def _instead_of_durable(self, name: str) -> str:
        return "Pass a plain value, or a policy whose class is storable."

    def inner_settings(self) -> Any:
        """Return the settings of nested objects, which can be changed without this estimator."""
        return None

    def own_parameters(self, state: dict[str, Any]) -> dict[str, Any]:
        """Return the parameters of this estimator that equal those of a state; its file is not trusted for them."""
        return {}

    def check_same_settings(self, found: Any) -> None:
        """Raise ValueError unless the estimator of a file has the same settings."""
        if type(self) is not type(found):
            raise ValueError(f"The file holds a {type(found).__name__}, not a {type(self).__name__}.")
        for name in self.get_params(deep=False).keys() - {"random_state"}:
            new, old = getattr(self, name), getattr(found, name)
            if not self._is_same_setting(_plain(new), old):
                raise ValueError(f"The file holds an estimator with {name}={old!r}, not {new!r}.")

    def journal_entry(self, points: FloatArray, problem: Any) -> Any:
        """Return what decodes rows of a journal, as JSON: the labels, and the strings and columns of a table."""
        return []

    def _journalled_problem(self, batch: Batch, entry: Any) -> Any:
        """Return the problem of a stream that continues with rows of a journal; None if it is unchanged."""
        return None

    def replay(self, batch: Batch, entry: Any, answers: FloatArray | None = None) -> None:
        """Learn rows of a journal, after validation: the file may be forged."""
        points, targets, weights = batch
        stream, n, table = self._stream, len(points), None
        if isinstance(entry, dict) and "table" in entry:
            require(stream.columns is not None and not stream.columns.is_settled, "found a table of an unknown kind")
            table, entry = stream.columns.from_journal(points, entry["table"]), entry["rows"]
        if n:
            width = stream.width if table is None else points.shape[1]
            found, expected = (
                (points.shape, targets.shape, weights.shape),
                ((n, width), (n, stream.n_targets), (n,)),
            )
            if found != expected:
                raise ValueError(f"rows: found points, targets and weights of shapes {found}, expected {expected}")
            check_finite(points if table is None else _numbers_of(table), "X", largest=self._largest)
            check_finite(targets, "y")
            if not ((weights > 0) & np.isfinite(weights)).all():
                raise ValueError(f"weights: found {weights.min()}, expected finite numbers above 0")
        if answers is not None and (answers.shape != (2, n) or np.isnan(answers).any()):
            raise ValueError(f"answers: found shape {answers.shape} or missing values, expected (2, {n}) numbers")
        batches, problem = [batch] if n else [], self._journalled_problem(batch, entry)
        if table is None:
            self._stream = stream.append(batches, problem, answers)
        else:
            self._stream = self._after_table(PreparedRows([batch], problem, table=table))


def check_window(window: Any) -> None:
    """Raise ValueError unless a window is a number of rows or None."""
    if window is None:
        return
    if isinstance(window, bool) or not isinstance(window, int | np.integer) or window < 1:
        raise ValueError(f"window must be a positive number of rows or None, got {window!r}.")


def _in_order(x: Mapping[str, Any], names: Any, excluded: Any = ()) -> Any:
    """Return the values of a row in the order of these columns."""
    known = {*names, *excluded}
    missing, unknown = [n for n in names if n not in x], [n for n in x if n not in known]
    if missing or unknown:
        raise ValueError(f"x must hold the columns seen before: missing {missing[:5]}, unknown {unknown[:5]}.")
    return [x[name] for name in names]


def _numbers_of(table: TypedTable) -> FloatArray:
    """Return the numbers of a table in the units of features, 0 for missing values and strings."""
    from batch2online.tables.codec import UNITS
    from batch2online.tables.columns import STRING

    columns = (np.zeros(len(table)) if c.kind == STRING else c.values / UNITS.get(c.kind, 1.0) for c in table.columns)
    return np.nan_to_num(np.column_stack([*columns]), copy=False)


def _encodes_alike(one: Codec, other: Codec) -> bool:
    """Return whether two codecs make the same numbers of the first rows, so that none must be learned again."""
    if one.names != other.names:
        return False
    assert one.first is not None
    (table,) = one.first.in_one.tables
    return bool(np.array_equal(one.encode(table), other.encode(table)))


def _warn(note: str) -> None:
    from batch2online.tables.codec import ColumnsWarning

    warnings.warn(f"{note}.", ColumnsWarning, 5)


def _is_learned(name: str) -> bool:
    """Return whether an attribute belongs to the learned state: by scikit-learn's convention, or one of ours."""
    return name in LEARNED or (name.endswith("_") and not name.startswith("_"))


def _is_same(one: Any, other: Any) -> bool:
    """Return whether two values of a parameter are known to be equal."""
    if one is other:
        return True
    try:
        return bool(one == other)
    except (TypeError, ValueError):
        return False


def load(path: str | os.PathLike[str], *, trusted: Trusted = None, refit: bool = False) -> Any:
    """Return the estimator in a file, as :func:`batch2online.load` does: it continues bit for bit."""
    from batch2online.storage import model_file

    return estimator_from(model_file.load(path), str(path), trusted=trusted, refit=refit)


def estimator_from(
    state: Any, source: str, *, trusted: Trusted = None, refit: bool = False, like: OnlineEstimator | None = None
) -> Any:
    """Return the estimator of a state from a file; ``like`` is an estimator that the caller has made."""
    from batch2online.storage.tree import CheckpointError

    try:
        if state["estimator"] not in estimators:
            homes.import_all()
        if state["estimator"] not in estimators:
            name = str(state["estimator"])[:100]
            raise CheckpointError(f"it holds a {name}: if it is your class, import its module first.")
        cls: Any = estimators[state["estimator"]]
        given = like.own_parameters(state) if like is not None and type(like) is cls else {}
        return cls._from_state(state, trusted=trusted, refit=refit, **given)
    except CheckpointError as error:
        raise CheckpointError(f"{source}: {error}") from error
    except Exception as error:
        raise CheckpointError(f"{source} holds no estimator that this version knows: {error}") from error


def check_state(state: Any, cls: Any) -> None:
    """Raise ValueError unless this is the state of an estimator of this class."""
    kinds: dict[str, Any] = {"params": dict, "stream": dict, "columns": list[str] | None}
    for name, kind in kinds.items():
        check_value(name, state.get(name), kind)
    unknown = state["params"].keys() - signature(cls).parameters.keys()
    require(not unknown, f"params: found {sorted(unknown)[:5]}, which a {cls.__name__} does not have")
    stream, columns = state["stream"], state["columns"]
    for name, kind in STORED.items():
        check_value(name, stream.get(name), kind)
    width = stream["shape"][0]
    if stream["columns"] is not None:
        check_table(stream, state["params"])
        width = max(len(columns or ()), len(stream["columns"].table_names))
    require(len(columns or [""] * width) == width, f"columns: found {len(columns or ())} names of {width} columns")


def check_table(stream: dict[str, Any], params: dict[str, Any]) -> None:
    """Raise ValueError unless the columns of a table in a file are those of its stream."""
    from batch2online.tables.codec import Codec

    codec, (width, n_targets) = stream["columns"], stream["shape"]
    check_value("columns of the stream", codec, Codec)
    require(params.get("columns") is not None, "columns: found None of a table")
    require(codec.width == width, f"columns: found {codec.width} features of {width}")
    if not codec.is_settled:
        shape, n_seen = (len(codec.first), codec.first.targets[0].shape[1]), _n_seen(stream)
        require(shape == (n_seen, n_targets), f"first: found shape {shape} of rows and targets")


def _n_seen(stream: dict[str, Any]) -> int:
    """Return the number of rows that the stream of a file has seen."""
    return int(stream["state"].n_learned + len(stream["buffer"]))


def timings_from(stored: Any) -> Timings:
    """Return the timings stored in a file; empty ones if there are none."""
    if stored is None:
        return Timings()
    check_value("timings", stored, tuple[int, int, float, list[tuple[int, int, float]]])
    fits, rows, seconds, models = stored
    return Timings(fits, rows, float(seconds), tuple(FitTiming(*model) for model in models))


def check_plain(params: dict[str, Any]) -> None:
    """Raise ValueError unless all parameters are plain values, policies, or say how columns are read."""
    for name, value in params.items():
        if name != "columns" or isinstance(value, str | None):
            check_value(name, value, _Plain | Policy)
        else:
            from batch2online.tables.codec import Columns

            check_value(name, value, Columns)


def _plain(value: Any) -> Any:
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    return value.item() if isinstance(value, np.generic) else value
