"""A common interface for all learners, selected by the methods that an object has.

==================  ==========================================================================
to learn            ``partial_fit(X[, y])``, or row by row ``learn_one(x[, y])`` with dictionaries
to predict          ``predict(X)``, or ``predict_one(x)``
probabilities       ``predict_proba(X)`` with ``classes_``
centers             ``cluster_centers_`` (k, d), or River's ``centers``
a subspace          ``components_`` (k, d) and, if there is one, ``mean_`` (d,)
a model at all      ``has_model_`` where the learner has this attribute
changes             ``n_changes_`` where the learner counts them: an unchanged model is not evaluated again
==================  ==========================================================================
"""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from sklearn.base import clone

from batch2online._types import FloatArray

_SEEDS = ("random_state", "seed")


class NotOfferedError(TypeError):
    """A model does not offer an attribute or method, or not yet."""


class Adapter:
    """A learner behind one interface, for the evaluation loop."""

    def __init__(self, model: Any) -> None:
        self.model, self.has_learned = model, False
        self._learns_by = _first_of(model, LEARNING, "learn")
        self._buffered: list[tuple[FloatArray, FloatArray | None]] = []

    def learn(self, X: FloatArray, y: FloatArray | None) -> None:
        """Hand rows over. A learner that needs more rows to start gets them with the next ones."""
        if self._learns_by == "learn_one":
            self._learn_rows(X, y)
        elif self.has_learned:
            self._fit(X, y)
        else:
            self._start(X, y)

    def _learn_rows(self, X: FloatArray, y: FloatArray | None) -> None:
        targets = [()] * len(X) if y is None else [(target,) for target in y.tolist()]
        for row, target in zip(_dictionaries(X), targets, strict=True):
            self.model.learn_one(row, *target)
        self.has_learned = True

    def _start(self, X: FloatArray, y: FloatArray | None) -> None:
        """Learn all rows so far. MiniBatchKMeans or IncrementalPCA refuse too few: these are buffered."""
        self._buffered.append((X, y))
        rows = np.concatenate([x for x, _ in self._buffered])
        targets = None if y is None else np.concatenate([t for _, t in self._buffered if t is not None])
        try:
            self._fit(rows, targets)
        except ValueError:
            if len(rows) >= (capacity(self.model) or 1):
                raise
        else:
            self._buffered, self.has_learned = [], True

    def _fit(self, X: FloatArray, y: FloatArray | None) -> None:
        self.model.partial_fit(X, *(() if y is None else (y,)))

    def predict(self, X: FloatArray) -> FloatArray:
        """Return a copy of the predictions: numbers as doubles, labels as they are."""
        if _first_of(self.model, ("predict", "predict_one"), "predict") == "predict":
            answer = np.array(self.model.predict(X))
        else:
            answer = np.array([self.model.predict_one(row) for row in _dictionaries(X)])
        return answer.astype(np.float64) if answer.dtype.kind in "biuf" else answer

    def probabilities(self, X: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return copies of the classes (k,), which are numbers, and of their probabilities (n, k)."""
        _first_of(self.model, ("predict_proba",), "give probabilities")
        shares = self.model.predict_proba(X)
        return np.array(self.model.classes_, dtype=np.float64), np.array(shares, dtype=np.float64)

    def centers(self) -> FloatArray:
        """Return a copy of the centers (k, d). River keeps a dictionary of dictionaries, columns in any order."""
        centers = getattr(self.model, _first_of(self.model, ("cluster_centers_", "centers"), "give centers"))
        if isinstance(centers, Mapping):
            names = sorted({name for center in centers.values() for name in center}, key=int)
            centers = [[center[name] for name in names] for _, center in sorted(centers.items())]
        return np.array(centers, dtype=np.float64)

    def subspace(self) -> tuple[FloatArray, FloatArray]:
        """Return copies of the basis (k, d) and of the mean (d,), zero where the model has none."""
        _first_of(self.model, ("components_",), "give a subspace")
        components = np.array(self.model.components_, dtype=np.float64)
        mean = getattr(self.model, "mean_", None)
        return components, np.zeros(components.shape[1]) if mean is None else np.array(mean, dtype=np.float64)

    @property
    def has_model(self) -> bool:
        """Whether there is a model yet, by ``has_model_`` where the learner has it."""
        return self.has_learned and bool(getattr(self.model, "has_model_", True))

    @property
    def own_changes(self) -> int | None:
        """How often the model has changed by its own count, None where it keeps none."""
        count = getattr(self.model, "n_changes_", None)
        return None if count is None else int(count)


LEARNING = ("partial_fit", "learn_one")


def _first_of(model: object, names: Sequence[str], purpose: str) -> str:
    """Return the first of these names that the model has."""
    for name in names:
        if hasattr(model, name):
            return name
    raise NotOfferedError(f"{type(model).__name__} cannot {purpose}: it offers none of {', '.join(names)}.")


def _dictionaries(X: FloatArray) -> list[dict[str, float]]:
    names = [str(column) for column in range(X.shape[1])]
    return [dict(zip(names, row, strict=True)) for row in X.tolist()]


def capacity(model: object) -> int | None:
    """Return the number of clusters or components of the model, None where it has none."""
    for owner in (model, getattr(model, "estimator", None)):
        for name in ("n_clusters", "n_components"):
            value = getattr(owner, name, None)
            if isinstance(value, int | np.integer):
                return int(value)
    return None


# -- fresh copies -------------------------------------------------------------------------------------


def fresh(model: Any, seed: int) -> Any:
    """Return an unfitted copy of an estimator, or what a factory makes, with its ``random_state`` set to the seed.

    A factory is a class or a function; it is handed the seed if it has a parameter ``random_state`` or ``seed``.

    >>> from sklearn.linear_model import SGDRegressor
    >>> fresh(SGDRegressor(penalty=None), 7)
    SGDRegressor(penalty=None, random_state=7)
    """
    if isinstance(model, type) or (callable(model) and (not any(hasattr(model, name) for name in LEARNING))):
        return _made_by(model, seed)
    if hasattr(model, "get_params"):
        twin = clone(model, safe=False)
        return twin.set_params(**dict.fromkeys(_seed_names(twin.get_params()), seed))
    if hasattr(model, "clone"):  # River
        return model.clone(dict.fromkeys(_seed_names(vars(model)), seed))
    return copy.deepcopy(model)


def _made_by(factory: Callable[..., Any], seed: int) -> Any:
    named = _seed_names(inspect.signature(factory).parameters)
    if named:
        return factory(**dict.fromkeys(named, seed))
    return factory()


def _seed_names(parameters: Mapping[str, object]) -> list[str]:
    """Names of the parameters that take a seed, those of nested estimators included."""
    return [name for name in parameters if name.rpartition("__")[2] in _SEEDS]
