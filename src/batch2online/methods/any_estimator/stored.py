"""EstimatorProblem estimators in files: the rows a model was fitted on, and the fitted model where skops can hold it.

Loading fits nothing. It takes the fitted model out of the file, or refuses; with ``refit=True``, or with an estimator
of the caller's own, it fits again on the rows.
"""

from __future__ import annotations

import os
import warnings
from abc import abstractmethod
from contextlib import nullcontext
from dataclasses import replace
from operator import itemgetter
from typing import Any, Self

import numpy as np
from sklearn.base import clone
from sklearn.dummy import DummyClassifier

from batch2online.estimator import Trusted
from batch2online.frames.encoding import Encoding
from batch2online.frames.schema import FrameSchema
from batch2online.frames.strings import StringTable
from batch2online.methods.any_estimator import estimator_spec, skops_model
from batch2online.methods.any_estimator.input_support import kept_points
from batch2online.methods.any_estimator.problem import EstimatorProblem, FittedEstimator, rows_of, without_fitting
from batch2online.methods.any_estimator.tables import TakingTables
from batch2online.methods.any_estimator.trust import Trust
from batch2online.methods.any_estimator.weighted_fit import seeded
from batch2online.refresh import Policy
from batch2online.schema import require
from batch2online.sketches.base import Construction
from batch2online.storage import model_file
from batch2online.storage.tree import CheckpointError
from batch2online.warm_up import Free

_FEW = 10
"""Rows on which a model out of a file is tried."""


class StoredWrapped(TakingTables):
    """The part of a wrapped estimator that is written to files and read from them."""

    @abstractmethod
    def _new_problem(self, construction: Construction) -> EstimatorProblem:
        """Return the problem that the estimator poses."""

    def _is_same_setting(self, own: Any, others: Any) -> bool:
        return estimator_spec.is_same(own, others)

    def _can_be_stored(self, value: Any) -> bool:
        if isinstance(value, Policy):
            return super()._can_be_stored(value)
        return not estimator_spec.is_missing(_spec_of(value))

    def _instead_of_durable(self, name: str) -> str:
        return f"Use save, and BatchToOnline.restore(path, {name}=...)."

    def _inner_settings(self) -> Any:
        return _spec_of(self.estimator)

    def _own_parameters(self, state: dict[str, Any]) -> dict[str, Any]:
        is_same = state["params"].get("estimator") == _spec_of(self.estimator)
        return {"estimator": self.estimator} if is_same else {}

    def _state(self) -> dict[str, Any]:
        state = super()._state()
        engine = state["engine"] = state["engine"].copy()
        state["labels"] = sorted(engine.problem.labels.items(), key=itemgetter(0))
        given = engine.problem.given_rows
        if given.table is not None:
            given = given.within(list(kept_points(engine)))
            state |= {"table": given.table, "texts": given.texts}
        for each in (engine, *engine.rivals):
            each.model, each.problem, pace = _stored(each.model), None, each.pace
            each.pace = None if pace is None else replace(pace, former=_stored(pace.former))
        if engine.contest is not None:
            engine.contest = replace(engine.contest, noted=tuple(map(_stored, engine.contest.noted)))
        state["params"] = {name: estimator_spec.spec_of(value) for name, value in state["params"].items()}
        return state

    def _fitted_state(self) -> dict[str, Any]:
        solved = self._engine.model
        is_nameable = solved is not None and "class" in _spec_of(self.estimator)
        return {"fitted": skops_model.dumped(solved.model) if is_nameable else None}

    def _warn_of_missing(self, stored: dict[str, Any]) -> None:
        """Say what a file that was saved lacks; one of a function or of an own class is for ``restore`` anyway."""
        if self._engine.model is None or stored["fitted"] is not None or "class" not in _spec_of(self.estimator):
            return
        why = "skops cannot hold it" if skops_model.is_installed() else "skops is not installed (batch2online[skops])"
        warnings.warn(
            f"The file holds the rows that {type(self.estimator).__name__} was fitted on and not the fitted model, "
            f"since {why}: load(path, refit=True) fits it again.",
            UserWarning,
            stacklevel=3,
        )

    @classmethod
    def _from_state(cls, state: dict[str, Any], trusted: Trusted = None, refit: bool = False, **given: Any) -> Self:
        trust, may_fit = Trust.of(trusted), refit or "estimator" in given
        params = {n: estimator_spec.built(value, n, trust) for n, value in state["params"].items() if n not in given}
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
            with nullcontext() if may_fit else without_fitting():
                estimator._restore_model(state.get("fitted"), trust, may_fit)
                _restore_rivals(engine)
                _restore_former(engine)
        except CheckpointError:
            raise
        except Exception as error:  # whatever the estimator has against these rows
            raise CheckpointError(f"the model cannot be restored: {error}") from error
        return estimator

    def _restore_model(self, content: Any, trust: Trust, may_fit: bool) -> None:
        """Put the fitted model in the place of the rows that it was fitted on; fit it again only if that is allowed."""
        engine: Any = self._engine
        rows = engine.model
        if rows is None:
            return
        try:
            engine.model = self._as_fitted(content, trust)
        except skops_model.UnusableError as error:
            if not may_fit:
                raise CheckpointError(
                    f"there is no fitted {type(self.estimator).__name__} to load: {error} Loading fits nothing by "
                    "itself: load(path, refit=True) fits it again on the rows of the file, and "
                    "BatchToOnline.restore(path, estimator=...) fits one of your own."
                ) from error
            engine.model = engine.problem.solved_on(rows)

    def _as_fitted(self, content: Any, trust: Trust) -> FittedEstimator:
        """Return the stored model, if it is one of this estimator and these rows."""
        rows, (model, is_harmless) = self._engine.model, skops_model.loaded(content, trust)
        width = getattr(model, "n_features_in_", self.n_features_in_)  # what takes texts does not say
        if width != self.n_features_in_ or not self._could_have_fitted(model):
            raise skops_model.UnusableError("it is a model of another kind.")
        solved, few = FittedEstimator(model, rows), rows[:_FEW]
        if is_harmless and not np.isfinite(self._engine.problem.losses(solved, few.points, few.targets)[0]).all():
            raise skops_model.UnusableError("its losses are no numbers.")
        return solved

    def _could_have_fitted(self, model: Any) -> bool:
        """Whether a model is this estimator, fitted; rows of a single class are fitted by a dummy."""
        asked_for = seeded(self.estimator, self._engine.construction.seed)
        if isinstance(model, DummyClassifier) and self._has_labels and len(np.unique(self._engine.model.targets)) == 1:
            return bool(model.strategy == "most_frequent")
        return estimator_spec.is_same(clone(model), asked_for)

    @classmethod
    def restore(cls, path: str | os.PathLike[str], **given: Any) -> Self:
        """Like ``load``, for checkpoints of functions and other objects that no file can hold: pass them again.

        Where the file holds no fitted model that can be used, the estimator is fitted again on the rows of the file.

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
        state = model_file.load(path)
        if state.get("estimator") != cls.__name__ or not isinstance(state.get("params"), dict):
            raise CheckpointError(f"{path} holds no {cls.__name__}.")
        unknown = given.keys() - state["params"].keys()
        if unknown:
            raise TypeError(f"restore got parameters that {cls.__name__} does not have: {sorted(unknown)}.")
        try:
            return cls._from_state(state, refit=True, **given)  # what is given is the caller's own code
        except CheckpointError:
            raise
        except Exception as error:
            raise CheckpointError(f"{path} holds no estimator that this version knows: {error}") from error


def _restore_rivals(engine: Any) -> None:
    """Turn the rows that a file holds of other half-lives into their models, which are fitted when they are used."""
    later = engine.problem.fitted_later
    for rival in engine.rivals:
        rival.problem, rival.model = engine.problem, later(rival.model)
    if engine.contest is not None:
        pairs = zip((engine, *engine.rivals), engine.contest.noted, strict=True)
        noted = [each.model if engine.problem.same(each.model, rows) else later(rows) for each, rows in pairs]
        engine.contest = replace(engine.contest, noted=tuple(noted))


def _restore_former(engine: Any) -> None:
    """Turn the rows of models that were replaced, and are still scored beside their successors, into models."""
    for each in (engine, *engine.rivals):
        if each.pace is not None:
            each.pace = replace(each.pace, former=engine.problem.fitted_later(each.pace.former))


def _spec_of(estimator: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what is left out was said before
        return estimator_spec.spec_of(estimator)


def _checked_rows(state: dict[str, Any]) -> Encoding:
    """Return what the rows of a file stand for; all of them must stand for something."""
    table, texts = state.get("table"), state.get("texts")
    if table is None:
        return Encoding()
    if not isinstance(table, FrameSchema) or not isinstance(texts, StringTable):
        raise CheckpointError("a table has columns and texts.")
    given, engine = Encoding(table, texts), state["engine"]
    require(len(table.columns) == engine.width, "a table is as wide as its rows.")
    for points in kept_points(engine):
        table.check(points)
        require(given.has_texts(points), "the texts of all rows are known.")
    return given


def _stored(model: Any) -> Any:
    """Return what a checkpoint holds of a model: the rows it was solved on."""
    return None if model is None else rows_of(model)
