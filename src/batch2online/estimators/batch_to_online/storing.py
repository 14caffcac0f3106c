"""Wrapped estimators in files: the rows a model was solved on, and the fitted model where that is safe to store."""

from __future__ import annotations

import os
import warnings
from abc import abstractmethod
from dataclasses import replace
from operator import itemgetter
from typing import Any, Self

import numpy as np
from sklearn.base import clone

from batch2online.core.registry import require
from batch2online.core.rows import Rows
from batch2online.coresets.construction import Construction
from batch2online.estimators.batch_to_online import fitted, recipes
from batch2online.estimators.batch_to_online.living import living_points
from batch2online.estimators.batch_to_online.tables import TakingTables
from batch2online.estimators.batch_to_online.trust import Trust
from batch2online.estimators.stored import Trusted, state_in
from batch2online.persistence.tree import CheckpointError
from batch2online.problems.warm_up import Free
from batch2online.problems.wrapped import Solved, Wrapped, rows_of
from batch2online.refresh import Policy
from batch2online.solvers.weighted_fit import seeded
from batch2online.tables.given import GivenRows
from batch2online.tables.table import TableKind
from batch2online.tables.texts import Texts

_FEW = 10
"""Rows on which a model out of a file is tried."""


class StoredWrapped(TakingTables):
    """The part of a wrapped estimator that is written to files and read from them."""

    @abstractmethod
    def _new_problem(self, construction: Construction) -> Wrapped:
        """Return the problem that the estimator poses."""

    def _is_same_setting(self, own: Any, others: Any) -> bool:
        return recipes.is_same(own, others)

    def _can_be_stored(self, value: Any) -> bool:
        if isinstance(value, Policy):
            return super()._can_be_stored(value)
        return not recipes.is_missing(_recipe_of(value))

    def _instead_of_durable(self, name: str) -> str:
        return f"Use save, and BatchToOnline.restore(path, {name}=...)."

    def _inner_settings(self) -> Any:
        return _recipe_of(self.estimator)

    def _own_parameters(self, state: dict[str, Any]) -> dict[str, Any]:
        is_same = state["params"].get("estimator") == _recipe_of(self.estimator)
        return {"estimator": self.estimator} if is_same else {}

    def _state(self) -> dict[str, Any]:
        state = super()._state()
        engine = state["engine"] = state["engine"].copy()
        state["labels"] = sorted(engine.problem.labels.items(), key=itemgetter(0))
        given = engine.problem.given_rows
        if given.table is not None:
            given = given.within(list(living_points(engine)))
            state |= {"table": given.table, "texts": given.texts}
        for each in (engine, *engine.rivals):
            each.model, each.problem, pace = _stored(each.model), None, each.pace
            each.pace = None if pace is None else replace(pace, former=_stored(pace.former))
        if engine.contest is not None:
            engine.contest = replace(engine.contest, noted=tuple(map(_stored, engine.contest.noted)))
        state["params"] = {name: recipes.recipe(value) for name, value in state["params"].items()}
        return state

    def _fitted_state(self) -> dict[str, Any]:
        solved = self._engine.model
        is_nameable = solved is not None and "class" in _recipe_of(self.estimator)
        return {"fitted": fitted.dumped(solved.model) if is_nameable else None}

    @classmethod
    def _from_state(cls, state: dict[str, Any], trusted: Trusted = None, **given: Any) -> Self:
        trust = Trust.of(trusted)
        params = {n: recipes.made(value, n, trust) for n, value in state["params"].items() if n not in given}
        estimator = cls._assembled(state | {"params": params | given})
        try:
            engine, rows = estimator._engine, _checked_rows(state)
            engine.problem = replace(
                estimator._new_problem(engine.construction),
                labels=estimator._checked_labels(state["labels"]),
                given_rows=rows,
            )
            for each in (engine, *engine.rivals):
                known, expected = each.warm_up, engine.problem.warm_up()
                is_like = known is None or known.is_like(expected) or (rows.table and isinstance(known, Free))
                require(is_like, "the warm-up is that of the loss.")
            estimator._solve_again(None if "estimator" in given else state.get("fitted"), trust)
            _solve_rivals_again(engine)
            _solve_former_again(engine)
        except Exception as error:  # whatever the estimator has against these rows
            raise CheckpointError(f"the rows of the checkpoint cannot be solved on again: {error}") from error
        return estimator

    def _solve_again(self, content: Any, trust: Trust) -> None:
        """Turn the rows that a checkpoint holds into the model that was solved on them; past ones stay rows."""
        engine: Any = self._engine
        rows, problem = engine.model, engine.problem
        try:
            engine.model = None if content is None or rows is None else self._as_fitted(content, trust)
        except fitted.UnusableError:
            engine.model = None
        if engine.model is None:
            engine.model = problem.solved_again(rows)

    def _as_fitted(self, content: Any, trust: Trust) -> Solved:
        """Return the stored model, if it is one of this estimator and these rows."""
        rows, model = self._engine.model, fitted.loaded(content, trust)
        asked_for = seeded(self.estimator, self._engine.construction.seed)
        width = getattr(model, "n_features_in_", self.n_features_in_)  # what takes texts does not say
        if width != self.n_features_in_ or not recipes.is_same(clone(model), asked_for):
            raise fitted.UnusableError("it is a model of another kind.")
        solved, few = Solved(model, rows), rows[:_FEW]
        if not np.isfinite(self._engine.problem.losses(solved, few.points, few.targets)[0]).all():
            raise fitted.UnusableError("its losses are no numbers.")
        return solved

    @classmethod
    def restore(cls, path: str | os.PathLike[str], **given: Any) -> Self:
        """Like ``load``, for checkpoints of functions and other objects that no file can hold: pass them again.

        >>> import tempfile, pathlib
        >>> from batch2online import BatchToOnline
        >>> mean = lambda points, weights: np.average(points, axis=0, weights=weights)
        >>> loss = lambda theta, points: np.square(points - theta).sum(axis=1)
        >>> model = BatchToOnline(mean, loss=loss, random_state=0).fit(np.arange(100.0)[:, None])
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = pathlib.Path(folder) / "model.b2o"
        ...     model.save(path)
        ...     BatchToOnline.restore(path, estimator=mean, loss=loss).model_
        array([49.5])
        """
        state = state_in(path)
        if state.get("estimator") != cls.__name__ or not isinstance(state.get("params"), dict):
            raise CheckpointError(f"{path} holds no {cls.__name__}.")
        unknown = given.keys() - state["params"].keys()
        if unknown:
            raise TypeError(f"restore got parameters that {cls.__name__} does not have: {sorted(unknown)}.")
        try:
            return cls._from_state(state, **given)  # what is given is the caller's own code
        except CheckpointError:
            raise
        except Exception as error:
            raise CheckpointError(f"{path} holds no estimator that this version knows: {error}") from error


def _solve_rivals_again(engine: Any) -> None:
    """Turn the rows that a checkpoint holds of other half-lives into their models, and into those noted of all."""
    for rival in engine.rivals:
        rival.problem = engine.problem
        rival.model = engine.problem.solved_again(rival.model)
    if engine.contest is not None:
        pairs = zip((engine, *engine.rivals), engine.contest.noted, strict=True)
        noted = [each.model if engine.problem.same(each.model, rows) else rows for each, rows in pairs]
        again = engine.problem.solved_again
        models = tuple(again(model) if isinstance(model, Rows) else model for model in noted)
        engine.contest = replace(engine.contest, noted=models)


def _solve_former_again(engine: Any) -> None:
    """Turn the rows of models that were replaced into models, where they are still scored beside their successors."""
    for each in (engine, *engine.rivals):
        if each.pace is not None:
            each.pace = replace(each.pace, former=engine.problem.solved_again(each.pace.former))


def _recipe_of(estimator: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what is left out was said before
        return recipes.recipe(estimator)


def _checked_rows(state: dict[str, Any]) -> GivenRows:
    """Return what the rows of a file stand for; all of them must stand for something."""
    table, texts = state.get("table"), state.get("texts")
    if table is None:
        return GivenRows()
    if not isinstance(table, TableKind) or not isinstance(texts, Texts):
        raise CheckpointError("a table has columns and texts.")
    given, engine = GivenRows(table, texts), state["engine"]
    require(len(table.columns) == engine.width, "a table is as wide as its rows.")
    for points in living_points(engine):
        table.check(points)
        require(given.has_texts(points), "the texts of all rows are known.")
    return given


def _stored(model: Any) -> Any:
    """Return what a checkpoint holds of a model: the rows it was solved on."""
    return None if model is None else rows_of(model)
