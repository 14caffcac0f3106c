"""Which rows an estimator can take, as far as it says so."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.pipeline import Pipeline
from sklearn.utils import get_tags

from batch2online._types import FloatArray
from batch2online.drift.order_monitor import Monitor
from batch2online.engine.online import Online
from batch2online.frames.columns import ColumnType
from batch2online.frames.encoding import first_gap
from batch2online.frames.schema import Column, FrameSchema
from batch2online.history import History
from batch2online.rows import Queue, Rows

_CATEGORIES = ("category", "Categorical", "Enum")


def accepts_missing(estimator: Any) -> bool:
    """Whether an estimator says that it takes gaps; a pipeline by the steps up to one that may fill them."""
    if isinstance(estimator, Pipeline):
        return _pipeline_takes_gaps(estimator)
    if not isinstance(estimator, BaseEstimator):
        return hasattr(estimator, "fit")  # what a function does with gaps is not known
    return _is_open(estimator) or bool(get_tags(estimator).input_tags.allow_nan)


def _pipeline_takes_gaps(pipeline: Pipeline) -> bool:
    for _, step in pipeline.steps:
        if step is None or isinstance(step, str):
            continue
        if not accepts_missing(step):
            return False
        if not type(step).__module__.startswith("sklearn.preprocessing"):
            return True
    return True


def accepts_strings(estimator: Any) -> bool:
    """Whether an estimator may take columns that are no numbers: all but plain ones of scikit-learn, which say so."""
    if isinstance(estimator, Pipeline):
        return accepts_strings(estimator.steps[0][1])
    if not isinstance(estimator, BaseEstimator) or not type(estimator).__module__.startswith("sklearn."):
        return True
    tags = get_tags(estimator).input_tags
    return bool(tags.string or tags.categorical) or _is_open(estimator) or any(map(accepts_strings, _inside(estimator)))


def _inside(estimator: Any) -> list[Any]:
    """Return the estimators that this one hands its rows on to."""
    parts = [getattr(estimator, name, None) for name in ("estimator", "regressor", "base_estimator")]
    named = getattr(estimator, "estimators", None) or []
    return [part for part in parts if hasattr(part, "fit")] + [part for _, part in named if hasattr(part, "fit")]


def _is_open(estimator: Any) -> bool:
    """Whether an estimator hands rows on, or fills and encodes them."""
    module = type(estimator).__module__
    return module.startswith(("sklearn.compose", "sklearn.impute", "sklearn.dummy", "sklearn.feature_extraction")) or (
        type(estimator).__name__ in ("FunctionTransformer", "FeatureUnion", "TargetEncoder")
    )


def _is_taken(column: Column, takes_categories: bool) -> bool:
    if column.kind in (ColumnType.NUMBER, ColumnType.BOOLEAN, ColumnType.ALL_MISSING):
        return True
    return takes_categories and column.form in _CATEGORIES


def check_columns(estimator: Any, points: FloatArray, table: FrameSchema) -> None:
    """Refuse rows that the estimator could not be fitted to, in a sentence that says what to do."""
    name = type(estimator.steps[0][1] if isinstance(estimator, Pipeline) else estimator).__name__
    takes_categories = hasattr(estimator, "categorical_features")
    other = next((column for column in table.columns if not _is_taken(column, takes_categories)), None)
    if other is not None and not accepts_strings(estimator):
        way = (
            "make it a category" if takes_categories and other.kind == ColumnType.STRING else "put an encoder before it"
        )
        example = f"make_pipeline(make_column_transformer((OneHotEncoder(), [{other.name!r}])), {name}())"
        raise ValueError(
            f"Column {other.name!r} holds {other.kind}, which {name} cannot take: {way}, as in "
            + ("X.astype({" + repr(other.name) + ': "category"}).' if takes_categories else f"{example}.")
        )
    is_taken = accepts_missing(estimator) or (accepts_strings(estimator) and not table.is_numeric)
    gap = None if is_taken else first_gap(points)
    if gap is not None:
        raise ValueError(
            f"Input X contains NaN at row {gap[0]}, column {table.columns[gap[1]].name!r}, which {name} cannot take: "
            "put SimpleImputer() before it."
        )


_LONGEST = 1_000
"""Characters of an error: a cell or a name that it shows may be huge."""


@contextmanager
def shortened() -> Iterator[None]:
    """Cut the middle out of a long error; a number that no double holds is one as well."""
    try:
        yield
    except OverflowError as error:
        raise ValueError(f"X holds a number too large for a double: {error}.") from error
    except (ValueError, TypeError) as error:
        said = str(error)
        if len(said) <= _LONGEST:
            raise
        raise type(error)(f"{said[: _LONGEST // 2]} ... {said[-_LONGEST // 4 :]}") from None


def as_table(X: Any, container: str) -> Any:
    """Return a table that says how wide it is."""
    if container == "array" and not isinstance(X, np.ndarray):
        return _rectangular(X)
    return X


def _rectangular(X: Any) -> Any:
    widths = {len(row) for row in X}
    if len(widths) > 1:
        raise ValueError(f"Rows must be equally long, got {sorted(widths)[:5]} values.")
    values = np.empty((len(X), widths.pop()), dtype=object)
    values[:] = X
    return values


def first_row(x: Any) -> Any:
    """Return a single row that is no list of numbers as rows: a text as a list, a mapping as a data frame."""
    if isinstance(x, str):
        return [x]
    if isinstance(x, np.ndarray) and x.dtype.kind in "biuf":
        return None
    values = list(x.values()) if isinstance(x, Mapping) else list(x)
    if all(isinstance(value, int | float | np.number) for value in values):
        return None
    if not isinstance(x, Mapping):
        return _rectangular([values])
    import pandas as pd

    return pd.DataFrame({name: pd.Series([value], dtype=object).infer_objects() for name, value in x.items()})


def kept_points(engine: Online) -> Iterator[FloatArray]:
    """Iterate over the points of all rows that an engine may ask for again."""
    for rows in _rows_in(engine, set()):
        if rows.points.shape[1] == engine.width:
            yield rows.points


def _rows_in(value: Any, seen: set[int]) -> Iterator[Rows]:
    """Look into every part that is of this package, so that none is forgotten when parts are added."""
    if id(value) in seen or isinstance(value, Monitor):  # it has seen numbers, and asks for no rows
        return
    seen.add(id(value))
    if isinstance(value, Rows):
        yield value
    elif isinstance(value, Queue):
        yield value.rows(0)
    elif isinstance(value, History):
        yield from value
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _rows_in(item, seen)
    elif type(value).__module__.startswith("batch2online.") and hasattr(value, "__dict__"):
        for item in vars(value).values():
            yield from _rows_in(item, seen)
