"""What all online estimators share: the public contract around the engine."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from sklearn.base import BaseEstimator
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import validate_data

from batch2online._types import FloatArray
from batch2online.core.coreset import Coreset
from batch2online.core.rows import ones
from batch2online.core.validation import LARGEST, check_finite, check_targets, check_weights
from batch2online.engine.changes import ChangeEvent
from batch2online.engine.online import Online
from batch2online.engine.regret import Regret
from batch2online.estimators import stored
from batch2online.estimators.single_rows import SingleRows
from batch2online.estimators.stored import Trusted
from batch2online.persistence import checkpoint as storage

_PIECE_ROWS = 10_000
_DTYPES = (np.float64, np.float32)
estimators: dict[str, type[OnlineEstimator]] = {}
"""Estimators that a checkpoint may name."""


class OnlineEstimator(SingleRows, BaseEstimator, ABC):  # type: ignore[misc]  # scikit-learn has no types
    """Base of the online estimators. A subclass builds the engine and names what the model holds."""

    _needs_targets = False
    _problem: type = object
    """The class of the problem in a checkpoint."""

    _own_settings = frozenset({"first_id", "random_state", "history"})
    """Parameters in which shards may differ; constructions compare what matters of them."""

    @property
    def _largest(self) -> float:
        """Largest magnitude of a value."""
        return LARGEST

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        estimators[cls.__name__] = cls

    @abstractmethod
    def _new_engine(self, n_targets: int) -> Online:
        """The engine for ``n_features_in_`` columns and this many targets."""

    def _sampling(self) -> dict[str, Any]:
        """The parameters that every construction takes."""
        names = ("epsilon", "coreset_size", "random_state", "first_id", "keep_history")
        return {name: getattr(self, name) for name in names}

    def _check_choice(self, parameter: str, *choices: str) -> None:
        value = getattr(self, parameter)
        if value not in choices:
            allowed = " or ".join(f'"{choice}"' for choice in choices)
            raise ValueError(f"{parameter} must be {allowed}, got {value!r}.")

    # -- learning -----------------------------------------------------------------------------------

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Learn from these rows alone, as one stream, and end with a model of all of them.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            The rows, in the order in which they come.
        y : array-like of shape (n_samples,) or (n_samples, n_targets)
            The targets, where the problem has any.
        sample_weight : array-like of shape (n_samples,), optional
            A weight of 0 is as if the row were absent.

        Returns
        -------
        self
        """
        fresh = type(self)(**self.get_params(deep=False))
        try:
            fresh._learn(X, y, sample_weight)
            if not fresh.n_seen_:
                raise ValueError("sample_weight is zero for all rows: there is nothing to fit.")
            fresh._engine.refresh("fit")
        except BaseException:
            if "_engine" in vars(fresh):
                fresh._engine.discard()
            raise
        self.__dict__.update(fresh.__dict__)
        for name in {"_reader", "feature_names_in_"} - fresh.__dict__.keys():
            self.__dict__.pop(name, None)
        return self

    def partial_fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Learn from further rows. The result does not depend on how rows are split into calls.

        Parameters are those of :meth:`fit`. An error leaves the estimator as it was.
        """
        X, y = _unmapped(X), _unmapped(y)
        if self._is_ready_for(X, y, sample_weight):
            check_finite(X, "X", largest=self._largest)
            targets = check_targets(y if self._needs_targets else None, len(X))
            self._check_target_shape(y, targets)
            self._engine.learn(X, targets, ones(len(X)))
            return self
        before = dict(vars(self))
        try:
            self._learn(X, y, sample_weight)
        except BaseException:
            if "_engine" not in before and "_engine" in vars(self):
                self._engine.discard()
            self.__dict__.update(before)
            for name in self.__dict__.keys() - before.keys():
                del self.__dict__[name]
            raise
        return self

    def _is_ready_for(self, X: Any, y: Any, sample_weight: Any) -> bool:
        """Whether the call needs none of scikit-learn's conversions."""
        return (
            sample_weight is None
            and type(X) is np.ndarray
            and X.dtype == np.float64
            and X.ndim == 2
            and X.flags.c_contiguous
            and len(X) > 0
            and self.__sklearn_is_fitted__()
            and X.shape[1] == self._engine.width
            and "feature_names_in_" not in vars(self)
            and (not self._needs_targets or type(y) is np.ndarray)
        )

    def _learn(self, X: Any, y: Any, sample_weight: Any) -> None:
        is_first = not self.__sklearn_is_fitted__()
        X = self._validated(X, reset=is_first)
        if self._needs_targets and y is None:
            raise ValueError(f"This {type(self).__name__} estimator requires y to be passed, but the target y is None.")
        y = np.asarray(_dense(y)) if self._needs_targets else None
        targets = check_targets(y, X.shape[0])
        if is_first:
            self._engine = self._new_engine(targets.shape[1])
            self._engine.construction.flat_targets = y is not None and y.ndim == 1
        else:
            self._check_target_shape(y, targets)
        if sample_weight is not None:
            sample_weight = np.asarray(sample_weight)
        with self._engine.transaction():
            for piece, points in _dense_pieces(X):
                own = _piece_of(sample_weight, piece, X.shape[0])
                weights = check_weights(own, points, targets[piece], first=piece.start)
                if not (weights > 0).all():
                    positive = weights > 0
                    points, weights = points[positive], weights[positive]
                    self._engine.learn(points, targets[piece][positive], weights)
                else:
                    self._engine.learn(points, targets[piece], weights)

    def _validated(self, X: Any, reset: bool) -> Any:
        """X as an (n, d) array of finite numbers, single or double, or a CSR matrix of them, names checked."""
        try:
            X = validate_data(
                self, X, reset=reset, dtype=_DTYPES, order="C", accept_sparse="csr", ensure_all_finite=False
            )
        except (ValueError, TypeError) as error:
            raise _naming_the_cell(X, error) from error
        names = getattr(self, "feature_names_in_", None)
        if sp.issparse(X):
            _check_sparse(X, names, self._largest)
        else:
            check_finite(X, "X", names, largest=self._largest)
        return X

    def _checked_rows(self, X: Any) -> FloatArray:
        """Rows to be predicted or transformed, as a dense array; the state is not touched."""
        X = self._validated(X, reset=False)
        return np.asarray(X.toarray() if sp.issparse(X) else X, dtype=np.float64)

    def _check_target_shape(self, y: Any, targets: FloatArray) -> None:
        if not self._needs_targets:
            return
        flat = (y.ndim if type(y) is np.ndarray else np.ndim(y)) == 1
        if flat != self._engine.construction.flat_targets or targets.shape[1] != self._engine.n_targets:
            expected = "(n,)" if self._engine.construction.flat_targets else f"(n, {self._engine.n_targets})"
            raise ValueError(f"y must have shape {expected} as before, got {np.shape(y)}.")

    # -- merging, forgetting, storing -----------------------------------------------------------------

    def merge(self, other: Any) -> Self:
        """Take in all that ``other``, with the same settings and other ids, has seen; solve anew.

        The result is that of one estimator having seen all rows. ``other`` stays as it is.
        """
        if type(other) is not type(self):
            raise TypeError(f"Can only merge with another {type(self).__name__}, got {type(other).__name__}.")
        if not other.__sklearn_is_fitted__():
            return self
        if not self.__sklearn_is_fitted__():
            raise NotFittedError("merge into an estimator that has seen rows; an empty one has nothing to add to.")
        mine, theirs = (list(getattr(e, "feature_names_in_", ())) for e in (self, other))
        if mine != theirs:
            raise ValueError("Can only merge estimators of the same columns in the same order.")
        for name in self.get_params(deep=False).keys() - self._own_settings:
            own, others = getattr(self, name), getattr(other, name)
            if not self._is_same_setting(own, others):
                raise ValueError(f"Can only merge with the same {name}: {own!r} and {others!r} differ.")
        if self._engine.construction.flat_targets != other._engine.construction.flat_targets:
            raise ValueError("Can only merge with targets of the same shape, y of (n,) or of (n, k).")
        self._engine.merge(other._engine)
        return self

    def _is_same_setting(self, own: Any, others: Any) -> bool:
        return bool(own == others)

    def forget(self, ids: Any) -> Self:
        """Become what it would be had it never seen the rows with these ids; needs ``keep_history=True``."""
        self._check_fitted()
        self._engine.forget(ids)
        return self

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write everything to one file, atomically; :func:`batch2online.load` gives the estimator back."""
        with self.saved() as content:
            storage.write(path, content)

    @contextmanager
    def saved(self) -> Iterator[bytes]:
        """The content of a checkpoint, to be written inside; rows on disk are made durable before and tidied after."""
        history = self._check_fitted().construction.history
        if history is not None:
            history.before_checkpoint()
        yield storage.serialise(self._state() | self._fitted_state())
        if history is not None:
            history.after_checkpoint()

    def _state(self) -> dict[str, Any]:
        params = self.get_params(deep=False)
        if not isinstance(params["random_state"], int | None):
            params["random_state"] = self._engine.construction.seed
        names = getattr(self, "feature_names_in_", None)
        return {
            "estimator": type(self).__name__,
            "params": {name: _plain(value) for name, value in params.items()},
            "columns": None if names is None else [str(name) for name in names],
            "engine": self._engine.trimmed(),
        }

    def _fitted_state(self) -> dict[str, Any]:
        """What a file holds besides the state: the same models may be written in several ways."""
        return {}

    @classmethod
    def _from_state(cls, state: dict[str, Any], trusted: Trusted = None) -> Self:
        """The estimator of a state out of a file, whose parts were checked one by one; ``trusted`` as in ``load``."""
        stored.check_plain(state["params"])
        return cls._assembled(state)

    @classmethod
    def _assembled(cls, state: dict[str, Any]) -> Self:
        stored.check_state(state, cls)
        estimator = cls(**state["params"])
        estimator._engine = state["engine"]
        estimator.n_features_in_ = estimator._engine.width
        if state["columns"] is not None:
            estimator.feature_names_in_ = np.asarray(state["columns"], dtype=object)
        return estimator

    # -- reading --------------------------------------------------------------------------------------

    def __sklearn_is_fitted__(self) -> bool:
        return "_engine" in vars(self)

    def _check_fitted(self) -> Online:
        if not self.__sklearn_is_fitted__():
            raise NotFittedError(f"This {type(self).__name__} has seen no rows yet: call fit or partial_fit first.")
        engine: Online = self._engine
        return engine

    @property
    def n_seen_(self) -> int:
        """Rows seen (and not forgotten)."""
        return self._check_fitted().n_seen

    @property
    def n_changes_(self) -> int:
        """How often the model has changed; the first model counts as none."""
        return len(self._check_fitted().changes)

    @property
    def changes_(self) -> list[ChangeEvent]:
        """Every change of the model, with its reason."""
        return list(self._check_fitted().changes)

    @property
    def coreset_(self) -> Coreset:
        """The coreset of the rows seen so far."""
        return self._check_fitted().coreset()

    @property
    def regret_(self) -> Regret:
        """Prequential loss and hindsight optimum of the rows seen so far."""
        return self._check_fitted().regret()


def load(path: str | os.PathLike[str], *, trusted: Trusted = None) -> Any:
    """The estimator in a checkpoint, as :func:`batch2online.load` gives it: it continues bit for bit."""
    with open(path, "rb") as file:
        return estimator_of(storage.deserialise(file.read(), source=str(path)), trusted=trusted, source=str(path))


def estimator_of(state: Any, *, trusted: Trusted = None, source: str = "checkpoint") -> Any:
    """The estimator that a state out of a file stands for."""
    try:
        return estimators[state["estimator"]]._from_state(state, trusted=trusted)
    except storage.CheckpointError as error:
        raise storage.CheckpointError(f"{source}: {error}") from error
    except Exception as error:
        raise storage.CheckpointError(f"{source} holds no estimator that this version knows: {error}") from error


def _plain(value: Any) -> Any:
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    return value.item() if isinstance(value, np.generic) else value


def _unmapped(array: Any) -> Any:
    """The same memory as an ordinary array, where it is a mapped file."""
    return np.asarray(array) if type(array) is np.memmap else array


def _dense(y: Any) -> Any:
    return y.toarray() if sp.issparse(y) else y


def _dense_pieces(X: Any) -> Iterator[tuple[slice, FloatArray]]:
    """The rows as arrays of doubles: all at once, or a piece at a time where they must be converted."""
    if not sp.issparse(X) and X.dtype == np.float64:
        yield slice(0, len(X)), X
        return
    for start in range(0, X.shape[0], _PIECE_ROWS):
        piece = slice(start, min(start + _PIECE_ROWS, X.shape[0]))
        rows = X[piece].toarray() if sp.issparse(X) else X[piece]
        yield piece, rows.astype(np.float64, copy=False)


def _piece_of(sample_weight: Any, piece: slice, n: int) -> Any:
    if sample_weight is None or np.ndim(sample_weight) == 0:
        return sample_weight
    weights = np.asarray(sample_weight)
    if weights.shape != (n,):
        raise ValueError(f"sample_weight must have shape ({n},), got {weights.shape}.")
    return weights[piece]


def _check_sparse(X: Any, names: Any, largest: float) -> None:
    bad = np.flatnonzero(~(np.abs(X.data) <= largest))
    if bad.size:
        row = int(np.searchsorted(X.indptr, bad[0], side="right")) - 1
        check_finite(X[[row]].toarray(), "X", names, first=row, largest=largest)


def _naming_the_cell(X: Any, error: Exception) -> Exception:
    """The same error with the row and column of the first cell that is no number, where there is one."""
    if not any(word in str(error) for word in ("convert", "float", "number")):
        return error
    columns = [str(name) for name in X.columns] if hasattr(X, "columns") else None
    try:
        cells = np.asarray(X, dtype=object)
    except ValueError:
        return error
    if cells.ndim != 2:
        return error
    for (row, column), value in np.ndenumerate(cells):
        try:
            float(value)
        except (TypeError, ValueError):
            place = f"column {columns[column]!r}" if columns else f"column {column}"
            return type(error)(f"{error} Row {row}, {place} holds {value!r}.")
    return error
