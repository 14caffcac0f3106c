"""What all online estimators share: the public contract around the engine."""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from threading import RLock
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from sklearn.exceptions import NotFittedError

from batch2online import input as given
from batch2online._types import FloatArray
from batch2online.engine.online import Online
from batch2online.estimators.letting_go import LettingGo
from batch2online.estimators.parameters import Parameters
from batch2online.estimators.reading import Reading
from batch2online.estimators.sharding import Sharding
from batch2online.estimators.shown import Shown
from batch2online.estimators.single_rows import SingleRows
from batch2online.estimators.stored import Stored
from batch2online.rows import ones
from batch2online.validation import LARGEST, check_finite, check_targets

_FIRST_CALLS = RLock()
_MANY_BYTES = 2**24
"""Bytes of rows beyond which the memory that they will take is compared with what there is."""

LEARNED = frozenset({"_engine", "_former", "_reader", "feature_names_in_", "n_features_in_", "labels_"})
"""Attributes that learning sets."""

_CACHES = frozenset({"_reader", "_sklearn_output_config"})
"""Attributes that are no part of what was learned: reading sets them."""


class OnlineEstimator(Sharding, LettingGo, Shown, Reading, SingleRows, Stored, Parameters, ABC):
    """Base of the online estimators. A subclass builds the engine and names what the model holds.

    All that was learned is in ``_engine``, a value. What learns makes another one and puts it in place in one step, so
    that an error, or an interrupt at any line, leaves the estimator as it was. Calls that learn wait for each other;
    calls that read never wait.
    """

    _needs_targets = False
    _owner: Any = None
    """The ``Durable`` that alone may change this estimator, if any."""

    half_life: Any
    _own_settings = frozenset({"first_id", "random_state", "history"})
    """Parameters in which shards may differ; constructions compare what matters of them."""

    @property
    def _largest(self) -> float:
        """Largest magnitude of a value."""
        return LARGEST

    @abstractmethod
    def _new_engine(self, n_targets: int) -> Online:
        """Return the engine for ``n_features_in_`` columns and this many targets."""

    def _sampling(self, without_use: bool = False) -> dict[str, Any]:
        """Return the parameters that every construction takes; ``without_use`` if no model is solved on the coreset."""
        names = ("epsilon", "coreset_size", "random_state", "first_id", "keep_history")
        settings = {name: getattr(self, name) for name in names}
        if getattr(self, "half_life", None) not in (None, "auto"):
            settings["half_life"] = self.half_life
        return settings | {"coreset_size": "audit"} if without_use and self.coreset_size is None else settings

    def _check_choice(self, parameter: str, *choices: str) -> None:
        value = getattr(self, parameter)
        if value not in choices:
            allowed = " or ".join(f'"{choice}"' for choice in choices)
            raise ValueError(f"{parameter} must be {allowed}, got {value!r}.")

    # -- owners ---------------------------------------------------------------------------------------

    def __setattr__(self, name: str, value: Any) -> None:
        """Set an attribute, if whoever owns the estimator does so; calls that learn end here, too."""
        if name not in _CACHES:
            self._check_may_change()
        super().__setattr__(name, value)

    def __delattr__(self, name: str) -> None:
        self._check_may_change()
        super().__delattr__(name)

    def _check_may_change(self) -> None:
        """Refuse a change that the owner of the estimator does not make."""
        owner = self.__dict__.get("_owner")
        if owner is not None:
            owner._check_acting()

    def _check_free(self) -> None:
        """Refuse an estimator that belongs to somebody already."""
        if self._owner is not None:
            raise ValueError("The estimator belongs to another Durable: pass sklearn.base.clone(...) of it.")

    def __getstate__(self) -> Any:
        """Return what copies and pickles hold: they belong to nobody."""
        state = dict(super().__getstate__())
        state.pop("_owner", None)
        return state

    # -- learning -----------------------------------------------------------------------------------

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Learn from these rows alone, as one stream, and end with a model of all of them.

        Parameters
        ----------
        X : array-like, sparse matrix or table of shape (n_samples, n_features)
            The rows, in the order in which they come. A table may be one of pandas, polars or pyarrow, or anything
            that speaks Arrow's PyCapsule protocol, as DuckDB relations and readers of record batches do.
        y : array-like of shape (n_samples,) or (n_samples, n_targets)
            The targets, where the problem has any.
        sample_weight : array-like of shape (n_samples,), optional
            A weight of 0 is as if the row were absent.

        Returns
        -------
        self
        """
        self._check_may_change()
        X, y, sample_weight = given.all_at_hand(X, y, sample_weight)
        fresh = self._fresh()
        fresh._sums_exactly = True
        fresh._engine = fresh._learned(X, y, sample_weight)
        if not fresh.n_seen_:
            raise ValueError("sample_weight is zero for all rows: there is nothing to fit.")
        fresh._engine = fresh._engine.refreshed("fit")
        fresh._finish_fit(X)
        return self._become(fresh)

    def _finish_fit(self, X: Any) -> None:
        """Add what ``fit`` leaves besides the model; the estimator is not the caller's yet."""

    def _fresh(self) -> Self:
        """Return an estimator with the same parameters that has seen nothing."""
        fresh: Self = type(self)(**self.get_params(deep=False))
        fresh._is_shard = self._is_shard
        return fresh

    def _become(self, fresh: Self) -> Self:
        """Take over all that a fresh estimator has learned, in one step."""
        while True:
            lock = self._writing()
            with lock:
                if lock is not self._writing():  # another thread was first meanwhile
                    continue
                if self.__sklearn_is_fitted__():
                    fresh._engine.lock = lock
                kept = {name: value for name, value in vars(self).items() if name not in LEARNED}
                learned = {name: value for name, value in vars(fresh).items() if name in LEARNED}
                self.__dict__ = kept | learned
            return self

    def _writing(self) -> RLock:
        """Return the lock of all that learns: the engine's, or before there is one that of all first calls."""
        engine: Online | None = self.__dict__.get("_engine")
        return _FIRST_CALLS if engine is None else engine.lock

    def partial_fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Learn from further rows. The result does not depend on how rows are split into calls.

        Parameters are those of :meth:`fit`. An error leaves the estimator as it was.
        """
        self._check_may_change()
        X, y, sample_weight = given.all_at_hand(X, y, sample_weight)
        if not self.__sklearn_is_fitted__():
            fresh = self._fresh()
            fresh._engine = fresh._learned(X, y, sample_weight)
            if self._is_first(fresh):
                return self
        self._check_settings()
        with self._engine.lock:
            if self._is_ready_for(X, y, sample_weight):
                check_finite(X, "X", largest=self._largest)
                if X.nbytes > _MANY_BYTES:
                    self._engine.construction.check_rows_fit(len(X))
                targets = check_targets(y if self._needs_targets else None, len(X))
                self._check_target_shape(y, targets)
                self._engine = self._engine.learned_at_once(X, targets, ones(len(X)))
            else:
                self._engine = self._learned(X, y, sample_weight)
        return self

    def _is_first(self, fresh: Self) -> bool:
        """Take over the first rows that a fresh estimator has learned, unless another thread was first."""
        with _FIRST_CALLS:
            if self.__sklearn_is_fitted__():
                return False
            self._become(fresh)
            return True

    def _is_ready_for(self, X: Any, y: Any, sample_weight: Any) -> bool:
        """Whether the call needs none of scikit-learn's conversions."""
        return (
            sample_weight is None
            and type(X) is np.ndarray
            and X.dtype == np.float64
            and X.ndim == 2
            and X.flags.c_contiguous
            and len(X) > 0
            and X.shape[1] == self._engine.width
            and "feature_names_in_" not in vars(self)
            and (not self._needs_targets or type(y) is np.ndarray)
        )

    def _learned(self, X: Any, y: Any, sample_weight: Any) -> Online:
        """Return the engine after these rows, a new one if there is none yet."""
        is_first = not self.__sklearn_is_fitted__()
        X, of_rows = self._prepared_rows(X, is_first)
        y, of_targets = self._prepared_targets(y)
        targets = check_targets(y, X.shape[0])
        if is_first:
            engine = self._new_engine(targets.shape[1])
            engine.construction.flat_targets = y is not None and y.ndim == 1
            self._let_go(engine)
            engine = self._begun(engine)
        else:
            self._check_target_shape(y, targets)
            engine = self._engine
        engine.construction.check_rows_fit(X.shape[0])
        problem = None
        for change in (of_rows, of_targets):
            if change is not None:
                problem = change(engine.problem if problem is None else problem)
        return engine.learned(given.pieces(X, targets, sample_weight), problem)

    def _prepared_rows(self, X: Any, reset: bool) -> tuple[Any, Any]:
        """Return rows as an array or CSR matrix, and what they change about the problem, if any."""
        return self._validated(X, reset), None

    def _prepared_targets(self, y: Any) -> tuple[Any, Any]:
        """Return the targets as an array, None where there are none, and what they change about the problem, if any."""
        if not self._needs_targets:
            return None, None
        if y is None:
            raise ValueError(f"This {type(self).__name__} estimator requires y to be passed, but the target y is None.")
        return given.target_array(y), None

    def _validated(self, X: Any, reset: bool) -> Any:
        """Return X as an array or CSR matrix of finite numbers, names checked."""
        return given.validated(self, X, reset, self._largest)

    def _checked_rows(self, X: Any) -> FloatArray:
        """Return rows to be predicted or transformed as a dense array; the state is not touched."""
        X = self._validated(X, reset=False)
        return np.asarray(X.toarray() if sp.issparse(X) else X, dtype=np.float64)

    def _check_target_shape(self, y: Any, targets: FloatArray) -> None:
        if not self._needs_targets:
            return
        engine = self._engine
        flat = (y.ndim if type(y) is np.ndarray else np.ndim(y)) == 1
        if flat != engine.construction.flat_targets or targets.shape[1] != engine.n_targets:
            expected = "(n,)" if engine.construction.flat_targets else f"(n, {engine.n_targets})"
            raise ValueError(f"y must have shape {expected} as before, got {np.shape(y)}.")

    # -- merging, forgetting, storing -----------------------------------------------------------------

    def merge(self, other: Any) -> Self:
        """Take in all that ``other``, with the same settings and other ids, has seen; refit on all of it.

        What comes out depends on what the coreset is a function of; ``other`` stays as it is.

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
        if not self.__sklearn_is_fitted__() and self._is_shard and other._is_shard:
            return self._become(copy.deepcopy(other))
        if not self.__sklearn_is_fitted__():
            raise NotFittedError("merge into an estimator that has seen rows; an empty one has nothing to add to.")
        self._check_settings()
        with self._engine.lock:
            self._check_mergeable(other)
            self._engine = self._merged(self._engine, other._engine)
            self._engine.construction.tidy()
        return self

    def _merged(self, own: Online, other: Online) -> Online:
        return own.merged(other)

    def _check_mergeable(self, other: Any) -> None:
        mine, theirs = (list(getattr(e, "feature_names_in_", ())) for e in (self, other))
        if mine != theirs:
            raise ValueError("Can only merge estimators of the same columns in the same order.")
        for name in self.get_params(deep=False).keys() - self._own_settings:
            own, others = getattr(self, name), getattr(other, name)
            if not self._is_same_setting(own, others):
                raise ValueError(f"Can only merge with the same {name}: {own!r} and {others!r} differ.")
        if self._engine.construction.flat_targets != other._engine.construction.flat_targets:
            raise ValueError("Can only merge with targets of the same shape, y of (n,) or of (n, k).")

    def _is_same_setting(self, own: Any, others: Any) -> bool:
        return bool(own == others)

    def forget(self, ids: Any) -> Self:
        """Become what it would be had it never seen the rows with these ids; needs ``keep_history=True``.

        The other rows are learned again in the order of their ids: models, changes and regret are theirs alone.
        """
        self._check_may_change()
        self._check_settings()
        with self._check_fitted().lock:
            self._engine = self._engine.forgotten(ids)
            self._engine.construction.tidy()
        return self

    def __copy__(self) -> Self:
        """Return a copy that shares nothing: what one learns, the other does not."""
        return copy.deepcopy(self)

    # -- reading --------------------------------------------------------------------------------------

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True  # every row is validated, and made dense, by this class
        return tags

    def __sklearn_is_fitted__(self) -> bool:
        return "_engine" in vars(self)

    def _check_fitted(self) -> Online:
        if not self.__sklearn_is_fitted__():
            raise NotFittedError(f"This {type(self).__name__} has seen no rows yet: call fit or partial_fit first.")
        engine: Online = self._engine
        return engine

    def _view(self) -> Online:
        """Return what was learned from all rows seen, none of them buffered: what reports and adapters may read."""
        return self._check_fitted().caught_up()

    def _rows_to_check(self) -> int:
        """Return how many rows may come before the model can change; 1 before the first row."""
        if not self.__sklearn_is_fitted__():
            return 1
        return max(1, self._engine.rows_to_cut() - len(self._engine.construction.queue))
