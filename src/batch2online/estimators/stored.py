"""Estimators in files: what is written, and what must hold of what is read."""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from inspect import signature
from itertools import chain
from typing import Any, Literal, Self

import numpy as np

from batch2online._types import FloatArray
from batch2online.engine import invariants  # noqa: F401  # registers what must hold of the parts
from batch2online.engine.online import Given, Online
from batch2online.refresh import Policy
from batch2online.results import Costs, Solve
from batch2online.schema import classes, conforms, require
from batch2online.storage import model_file
from batch2online.storage.tree import CheckpointError
from batch2online.validation import check_finite

Trusted = Literal[True] | list[str] | tuple[str, ...] | None
"""What a caller may trust, see :func:`batch2online.load`."""

_Plain = bool | int | float | str | None

estimators: dict[str, type[Stored]] = {}
"""Estimators that a file may name."""


class Stored:
    """The part of an estimator that is written to files and read from them."""

    _engine: Online
    _problem: type | tuple[type, ...] = object
    """The classes that the problem in a file may have."""

    get_params: Callable[..., dict[str, Any]]
    n_features_in_: int
    feature_names_in_: Any
    _check_fitted: Callable[[], Online]
    _check_settings: Callable[[], None]
    _is_same_setting: Callable[[Any, Any], bool]

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        estimators[cls.__name__] = cls

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write everything to one file, atomically; :func:`batch2online.load` gives the estimator back.

        Of a :class:`BatchToOnline`, the file holds the rows that the current model was fitted on and, with the extra
        ``skops``, the fitted model. A warning says when it lacks the model: ``load(path, refit=True)`` then fits it
        again.
        """
        self._check_fitted()
        self._check_settings()
        fitted = self._fitted_state()
        model_file.save(path, self._state() | fitted | {"costs": self._costs_state()})
        self._warn_of_missing(fitted)

    def _state(self) -> dict[str, Any]:
        engine, params = self._check_fitted().whole(), self.get_params(deep=False)
        if not isinstance(params["random_state"], int | None):
            params["random_state"] = engine.construction.seed
        names = getattr(self, "feature_names_in_", None)
        return {
            "estimator": type(self).__name__,
            "params": {name: _plain(value) for name, value in params.items()},
            "columns": None if names is None else [str(name) for name in names],
            "engine": engine,
        }

    def _costs_state(self) -> list[Any]:
        """Return what solves have cost: beside the state, since seconds differ from run to run."""
        costs = self._engine.costs
        return [costs.solves, costs.rows, costs.seconds, [tuple(solve) for solve in costs.models]]

    def _fitted_state(self) -> dict[str, Any]:
        """Return what a file holds besides the state: the same model may be written in several ways."""
        return {}

    def _warn_of_missing(self, stored: dict[str, Any]) -> None:
        """Warn if a file that was saved needs more than ``load(path)``."""

    @classmethod
    def _from_state(cls, state: dict[str, Any], trusted: Trusted = None, refit: bool = False) -> Self:
        """Return the estimator of a state out of a file, whose parts were checked one by one; see ``load``."""
        check_plain(state["params"])
        return cls._assembled(state)

    @classmethod
    def _assembled(cls, state: dict[str, Any]) -> Self:
        check_state(state, cls)
        estimator = cls(**state["params"])
        estimator._engine = state["engine"]
        estimator._engine.costs = costs_from(state.get("costs"))
        estimator.n_features_in_ = estimator._engine.width
        if state["columns"] is not None:
            estimator.feature_names_in_ = np.asarray(state["columns"], dtype=object)
        return estimator

    # -- for models that live in a file -----------------------------------------------------------------

    def _check_reopenable(self) -> None:
        """Refuse parameters that no file can hold: what is learned with them could never be opened again."""
        for name, value in self.get_params(deep=False).items():
            if name != "random_state" and not self._can_be_stored(_plain(value)):  # of a generator its seed is stored
                raise TypeError(
                    f"{name} is {value!r}, which no file can hold: what a durable model learns with it could never be "
                    f"opened again. {self._instead_of_durable(name)}"
                )

    def _can_be_stored(self, value: Any) -> bool:
        return type(value) in classes.values() if isinstance(value, Policy) else conforms(value, _Plain)

    def _instead_of_durable(self, name: str) -> str:
        return "Pass a plain value, or a policy whose class is storable."

    def _inner_settings(self) -> Any:
        """Return the settings of objects inside, which can be changed without this estimator."""
        return None

    def _own_parameters(self, state: dict[str, Any]) -> dict[str, Any]:
        """Return parameters of this estimator that are those of a state, and need no trust in its file."""
        return {}

    def _check_same_settings(self, found: Any) -> None:
        """Refuse to continue with one estimator what another has begun."""
        if type(self) is not type(found):
            raise ValueError(f"The file holds a {type(found).__name__}, not a {type(self).__name__}.")
        for name in self.get_params(deep=False).keys() - {"random_state"}:
            new, old = getattr(self, name), getattr(found, name)
            if not self._is_same_setting(_plain(new), old):
                raise ValueError(f"The file holds an estimator with {name}={old!r}, not {new!r}.")

    def _snapshot(self) -> tuple[dict[str, Any], int]:
        """Return all that the estimator is: its attributes, and how many rows wait in the queue of its engine."""
        engine = vars(self).get("_engine")
        return dict(vars(self)), 0 if engine is None else len(engine.construction.queue)

    def _go_back_to(self, snapshot: tuple[dict[str, Any], int]) -> None:
        """Be what the estimator was when the snapshot was taken."""
        attributes, waiting = snapshot
        if "_engine" in attributes:
            attributes["_engine"].construction.queue.count = waiting
        self.__dict__ = attributes

    def _stored_beside(self, points: FloatArray) -> Any:
        """Return what a file holds beside rows, as JSON knows it: the labels that are known, where there are any."""
        return []

    def _learn_again(self, given: Given, beside: Any) -> None:
        """Learn rows that a file holds after the state."""
        points, targets, weights = given
        engine = self._engine
        shapes = points.ndim == targets.ndim == 2 and points.shape[1:] + targets.shape[1:] == (
            engine.width,
            engine.n_targets,
        )
        if len(points):
            require(shapes and len(points) == len(targets) == len(weights), "rows are as wide as those before.")
            check_finite(points, "X", largest=engine.construction.largest)
            check_finite(targets, "y")
            require(((weights > 0) & np.isfinite(weights)).all(), "weights are positive.")
            self._engine = engine.learned([given])


def load(path: str | os.PathLike[str], *, trusted: Trusted = None, refit: bool = False) -> Any:
    """Return the estimator in a file, as :func:`batch2online.load` does: it continues bit for bit."""
    return estimator_from(model_file.load(path), str(path), trusted=trusted, refit=refit)


def estimator_from(
    state: Any, source: str, *, trusted: Trusted = None, refit: bool = False, like: Stored | None = None
) -> Any:
    """Return the estimator that a state out of a file stands for; ``like`` is one that the caller has made."""
    try:
        cls: Any = estimators[state["estimator"]]
        given = like._own_parameters(state) if like is not None and type(like) is cls else {}
        return cls._from_state(state, trusted=trusted, refit=refit, **given)
    except CheckpointError as error:
        raise CheckpointError(f"{source}: {error}") from error
    except Exception as error:
        raise CheckpointError(f"{source} holds no estimator that this version knows: {error}") from error


def check_state(state: Any, cls: Any) -> None:
    """Raise ValueError unless this is the state of an estimator of this class."""
    require(isinstance(state.get("params"), dict), "an estimator has parameters.")
    unknown = state["params"].keys() - signature(cls).parameters.keys()
    require(not unknown, f"a {cls.__name__} has other parameters: {sorted(unknown)[:5]}.")
    engine, columns = state.get("engine"), state.get("columns")
    require(isinstance(engine, Online), "an estimator has an engine.")
    require(isinstance(engine.problem, cls._problem), f"the engine of a {cls.__name__} solves another problem.")
    require(conforms(columns, list[str] | None), "names of columns are strings.")
    require(columns is None or len(columns) == engine.width, "each column has a name.")


def costs_from(stored: Any) -> Costs:
    """Return the costs that a file holds; none where it holds none."""
    if stored is None:
        return Costs()
    require(isinstance(stored, list) and len(stored) == 4, "costs are sums and solves.")
    solves, rows, seconds, models = stored
    require(conforms(models, list[tuple[int, int, float]]), "a solve has rows and seconds.")
    require(conforms((solves, rows, float(seconds)), tuple[int, int, float]), "costs are numbers.")
    numbers = [solves, rows, seconds, *chain.from_iterable(models)]
    require(all(0 <= number < math.inf for number in numbers), "costs are not negative.")
    return Costs(solves, rows, float(seconds), tuple(Solve(*model) for model in models))


def check_plain(params: dict[str, Any]) -> None:
    """Raise ValueError unless all parameters are plain values or policies."""
    for name, value in params.items():
        require(conforms(value, _Plain | Policy), f"{name} is no parameter.")


def _plain(value: Any) -> Any:
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    return value.item() if isinstance(value, np.generic) else value
