"""Rows of any kind: tables with text, dates and gaps, lists of texts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Self, cast

import numpy as np
import scipy.sparse as sp
from sklearn.base import BaseEstimator
from sklearn.utils.validation import validate_data

from batch2online._types import FloatArray
from batch2online.engine.online import Given, Online
from batch2online.frames import encoding
from batch2online.frames.columns import ColumnType
from batch2online.frames.encoding import Encoding, container_of, first_gap, read, read_one
from batch2online.frames.schema import LISTS, FrameSchema
from batch2online.frames.strings import StringTable, hash_code
from batch2online.methods.any_estimator import input_support
from batch2online.methods.any_estimator.input_support import as_table, first_row, kept_points, shortened
from batch2online.methods.any_estimator.targets import TakingTargets
from batch2online.methods.least_squares.sketch import Leverage
from batch2online.schema import require
from batch2online.sketches.base import Construction, Coreset
from batch2online.storage.tree import decoded, encoded


class TakingTables(TakingTargets):
    """An online estimator whose rows are passed on as the kind that came in."""

    _first_rows = Encoding()  # of an estimator that is about to see its first rows

    @property
    def _given_rows(self) -> Encoding:
        """What the rows of numbers inside stand for."""
        if not self.__sklearn_is_fitted__():
            return self._first_rows
        rows: Encoding = getattr(self._engine.problem, "given_rows", self._first_rows)
        return rows

    def _fresh(self) -> Self:
        """Return an estimator with the same parameters; of one that is about to see rows, one for the same rows."""
        fresh = super()._fresh()
        fresh._first_rows = self._first_rows
        return fresh

    def _is_ready_for(self, X: Any, y: Any, sample_weight: Any) -> bool:
        return self._given_rows.table is None and super()._is_ready_for(X, y, sample_weight)

    @shortened()
    def _prepared_rows(self, X: Any, reset: bool) -> tuple[Any, Any]:
        if self._is_array(X, reset):
            return super()._prepared_rows(X, reset)
        before = None if reset else self._given_rows
        points, table, texts = self._read(X, None if before is None else before.table, reset)
        given = Encoding(table, StringTable() if before is None else before.texts)
        given.texts.add(texts)
        if reset:
            self._first_rows = given
        else:
            self._check_construction(self._engine.construction, table, points)
        is_new = before is None or table is not before.table
        return points, (lambda problem: replace(problem, given_rows=given)) if is_new else None

    def _is_array(self, X: Any, reset: bool) -> bool:
        """Whether rows are numbers and nothing else, as far as the estimator lets one know."""
        if not reset:
            return self._given_rows.table is None
        if container_of(X) is not None:
            return False
        return sp.issparse(X) or not (
            isinstance(self.estimator, BaseEstimator) and input_support.accepts_missing(self.estimator)
        )

    def _read(self, X: Any, table: FrameSchema | None, reset: bool) -> tuple[FloatArray, FrameSchema, dict[float, str]]:
        """Return rows as numbers, names of columns checked."""
        container = container_of(X)
        if sp.issparse(X):
            X = X.toarray()
        if not len(X if hasattr(X, "__len__") else X.shape):
            raise ValueError("Found array with 0 sample(s) while a minimum of 1 is required.")
        if container not in LISTS:
            if container is None:
                X = validate_data(self, X, reset=reset, dtype=np.float64, ensure_all_finite=False)
            else:
                X = as_table(X, container)
                validate_data(self, X, reset=reset, skip_check_array=True)
        elif reset:
            self.n_features_in_ = 1
        points, new, texts = read(X, table, container or "array")
        input_support.check_columns(self.estimator, points, new)
        return points, new, texts

    @shortened()
    def _checked_rows(self, X: Any) -> Any:
        given = self._given_rows
        if given.table is None:
            return super()._checked_rows(X)
        points, _, texts = self._read(encoding.table(X), given.table, reset=False)
        return self._as_given(points, texts)

    def _as_given(self, points: FloatArray, texts: dict[float, str]) -> Any:
        solved = self._engine.model
        trained = None if solved is None else solved.rows.points
        return self._given_rows.decoded(points, trained, texts)

    @property
    def _are_numbers(self) -> bool:
        """Whether rows are numbers, and have no gaps."""
        given = self._given_rows
        return given.are_numbers and (given.table is None or not input_support.accepts_missing(self.estimator))

    # -- constructions ---------------------------------------------------------------------------------

    def _for_these_rows(self, construction: Construction) -> Construction:
        """Return the construction, told which columns hold numbers."""
        table = self._given_rows.table
        if table is not None:
            if isinstance(construction, Leverage):
                construction.columns = tuple(table.numbers)
            self._check_construction(construction, table, None)
        return construction

    def _check_construction(self, construction: Construction, table: FrameSchema, points: FloatArray | None) -> None:
        """Refuse texts and gaps where scores are computed from the rows themselves."""
        if construction.takes_any_rows:
            return
        name = type(construction).__name__
        if not table.is_numeric:
            other = next(
                column for column in table.columns if column.kind not in (ColumnType.NUMBER, ColumnType.BOOLEAN)
            )
            raise ValueError(
                f"Column {other.name!r} holds {other.kind}, and coresets.{name} needs numbers: pass "
                "coreset=coresets.Uniform."
            )
        gap = None if points is None else first_gap(points)
        if gap is not None:
            raise ValueError(
                f"Input X contains NaN at row {gap[0]}, column {table.columns[gap[1]].name!r}, and coresets.{name} "
                "needs numbers: pass coreset=coresets.Uniform."
            )

    # -- one row at a time -------------------------------------------------------------------------------

    def _learn_first(self, x: Any, y: Any) -> Self:
        rows = first_row(x)
        if rows is None:
            return super()._learn_first(x, y)
        fresh = self._fresh()
        fresh.partial_fit(rows, None if y is None else np.asarray([y]))
        return self if self._is_first(fresh) else self.learn_one(x, y)

    def _values_of(self, x: Any) -> Any:
        given = self._given_rows
        if given.table is None:
            return super()._values_of(x)
        points, table, texts = read_one(self._ordered(x), given.table)
        input_support.check_columns(self.estimator, points, table)
        self._check_construction(self._engine.construction, table, points)
        given.texts.add(texts)
        if table is not given.table:
            new: Any = self._engine.problem
            self._engine = self._engine.learned([], replace(new, given_rows=Encoding(table, given.texts)))
        return points[0]

    def _ordered(self, x: Any) -> Any:
        """Return the values of a mapping in the order of the columns; anything else as it is."""
        table = self._given_rows.table
        if not isinstance(x, Mapping) or table is None or table.container in LISTS:
            return x
        names = [column.name for column in table.columns]
        missing, unknown = [n for n in names if n not in x], [n for n in x if n not in names]
        if missing or unknown:
            raise ValueError(f"x must hold the columns seen before: missing {missing[:5]}, unknown {unknown[:5]}.")
        return [x[name] for name in names]

    def _row_to_predict(self, x: Any) -> Any:
        """Return one row as the estimator inside is given rows."""
        table = self._given_rows.table
        if table is None:
            return np.asarray(super()._values_of(x), dtype=np.float64)[None]
        points, _, texts = read_one(self._ordered(x), table)
        return self._as_given(points, texts)

    # -- texts that no row needs any more -------------------------------------------------------------------

    def _learned(self, X: Any, y: Any, sample_weight: Any) -> Online:
        return _tidied(super()._learned(X, y, sample_weight))

    def learn_one(self, x: Any, y: Any = None) -> Self:
        """Learn one row: a mapping of column names to values, a sequence of values, or a text."""
        if not self.__sklearn_is_fitted__() or self._given_rows.table is None:
            super().learn_one(x, y)
            return self
        with self._engine.lock:
            before = self._engine
            try:
                super().learn_one(x, y)
                self._engine = _tidied(self._engine)
            except BaseException:
                if not len(self._engine.construction.queue) > len(before.construction.queue):
                    self._engine = before
                raise
        return self

    def _merged(self, own: Online, other: Online) -> Online:
        problem: Any = own.problem
        theirs: Any = other.problem
        given = problem.given_rows.merged(theirs.given_rows)
        return super()._merged(own.learned([], replace(problem, given_rows=given)), other)

    # -- in files ----------------------------------------------------------------------------------------

    def _stored_beside(self, points: FloatArray) -> Any:
        labels, given = super()._stored_beside(points), self._given_rows
        if given.table is None:
            return labels
        table, _ = encoded(given.table)
        return {"labels": labels, "table": table, "texts": given.texts.named(points[:, given.table.texts])}

    def _learn_again(self, given: Given, beside: Any) -> None:
        if isinstance(beside, dict):
            texts, problem = self._given_rows.texts, cast("Any", self._engine.problem)
            texts.add({hash_code(text): text for text in beside["texts"]})
            table: Any = decoded(beside["table"], [])
            require(isinstance(table, FrameSchema), "a table has columns.")
            rows = Encoding(table, texts)
            table.check(given[0])
            require(rows.has_texts(given[0]), "the texts of all rows are known.")
            self._engine = self._engine.learned([], replace(problem, given_rows=rows))
            beside = beside["labels"]
        super()._learn_again(given, beside)

    def forget(self, ids: Any) -> Self:
        """Become what it would be had it never seen the rows with these ids, as all estimators; texts go as well."""
        with self._check_fitted().lock:
            super().forget(ids)
            self._engine = _tidied(self._engine, at_once=True)
        return self

    @property
    def coreset_(self) -> Coreset:
        """The coreset of the rows seen so far, its points in the kind in which rows came."""
        coreset, given = super().coreset_, self._given_rows
        return coreset if given.table is None else replace(coreset, points=given.decoded(coreset.points))


def _tidied(engine: Online, at_once: bool = False) -> Online:
    """Return the engine without texts that none of its rows needs, once these are many."""
    problem: Any = engine.problem
    given: Encoding = problem.given_rows
    if given.table is None or not (at_once or given.texts.are_many):
        return engine
    kept = given.within(list(kept_points(engine)))
    return engine.learned([], replace(problem, given_rows=kept))
