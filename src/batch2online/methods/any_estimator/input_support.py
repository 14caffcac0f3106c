"""Input of wrapped estimators: which tables, strings and missing values they accept, and rows as numbers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.base import BaseEstimator
from sklearn.pipeline import Pipeline
from sklearn.utils import get_tags
from sklearn.utils.validation import validate_data

from batch2online._types import FloatArray
from batch2online.engine.stream import Stream
from batch2online.sketches.base import Sketch
from batch2online.tables.columns import EMPTY, NUMBER, STRING, rectangular
from batch2online.tables.row_encoding import (
    CATEGORICAL,
    LISTS,
    EncodedRows,
    Encoding,
    Form,
    FrameSchema,
    container_of,
    read,
)
from batch2online.tables.strings import MISSING

_MAX_ERROR_LENGTH = 1_000
"""Characters of an error: a value or a name that it shows may be huge."""


def accepts_missing(estimator: Any) -> bool:
    """Whether an estimator takes missing values; a pipeline by its steps up to the first that may impute them."""
    if isinstance(estimator, Pipeline):
        steps = [step for _, step in estimator.steps if step is not None and not isinstance(step, str)]
        is_other = [not type(step).__module__.startswith("sklearn.preprocessing") for step in steps]
        return all(map(accepts_missing, steps[: is_other.index(True) + 1] if any(is_other) else steps))
    if not isinstance(estimator, BaseEstimator):
        return hasattr(estimator, "fit")  # what a function does with missing values is not known
    return _is_open(estimator) or bool(get_tags(estimator).input_tags.allow_nan)


def accepts_strings(estimator: Any) -> bool:
    """Whether an estimator may take columns that are not numeric: all but those of scikit-learn whose tags deny it."""
    if isinstance(estimator, Pipeline):
        return accepts_strings(estimator.steps[0][1])
    if not isinstance(estimator, BaseEstimator) or not type(estimator).__module__.startswith("sklearn."):
        return True
    tags = get_tags(estimator).input_tags
    if tags.string or tags.categorical or _is_open(estimator):
        return True
    inner = [getattr(estimator, name, None) for name in ("estimator", "regressor", "base_estimator")]
    inner += [part for _, part in getattr(estimator, "estimators", None) or []]
    return any(accepts_strings(part) for part in inner if hasattr(part, "fit"))


def _is_open(estimator: Any) -> bool:
    """Whether an estimator passes rows through, imputes or encodes them."""
    module = type(estimator).__module__
    return module.startswith(("sklearn.compose", "sklearn.impute", "sklearn.dummy", "sklearn.feature_extraction")) or (
        type(estimator).__name__ in ("FunctionTransformer", "FeatureUnion", "TargetEncoder")
    )


def takes(estimator: Any, X: Any) -> bool:
    """Return whether an estimator can be fitted to a table as it is."""
    points, schema, _ = read(X)
    try:
        check_columns(estimator, points, schema)
    except ValueError:
        return False
    return True


def check_columns(estimator: Any, points: FloatArray, schema: FrameSchema) -> None:
    """Raise ValueError for columns that the estimator cannot be fitted to; the message says what to do."""
    name = type(estimator.steps[0][1] if isinstance(estimator, Pipeline) else estimator).__name__
    takes_categories = hasattr(estimator, "categorical_features")

    def is_taken(column: Form) -> bool:
        is_numeric = column.kind in (NUMBER, EMPTY)
        return is_numeric or (takes_categories and column.form in CATEGORICAL)

    other = next((column for column in schema.columns if not is_taken(column)), None)
    if other is not None and not accepts_strings(estimator):
        is_string = takes_categories and other.kind == STRING
        way = "make it a category" if is_string else "put an encoder before it"
        example = f"make_pipeline(make_column_transformer((OneHotEncoder(), [{other.name!r}])), {name}())"
        raise ValueError(
            f"Column {other.name!r} holds {other.kind}s, which {name} cannot take: {way}, as in "
            + ("X.astype({" + repr(other.name) + ': "category"}).' if takes_categories else f"{example}.")
        )
    if not (accepts_missing(estimator) or (accepts_strings(estimator) and not schema.is_numeric)):
        _check_none_missing(points, schema, f"which {name} cannot take: put SimpleImputer() before it.")


def check_coreset(sketch: Sketch, schema: FrameSchema, points: FloatArray | None = None) -> None:
    """Raise ValueError for strings and missing values where the coreset computes scores from the rows themselves."""
    if getattr(sketch, "takes_any_rows", False):
        return
    name = type(sketch).__name__.removesuffix("Sketch")
    needs = f"and coresets.{name} needs numbers: pass coreset=coresets.Uniform."
    if not schema.is_numeric:
        numeric = schema.numeric_columns
        other = next(column for place, column in enumerate(schema.columns) if place not in numeric)
        raise ValueError(f"Column {other.name!r} holds {other.kind}s, {needs}")
    if points is not None:
        _check_none_missing(points, schema, needs)


def _check_none_missing(points: FloatArray, schema: FrameSchema, problem: str) -> None:
    missing = points == MISSING
    if missing.any():
        row, column = divmod(int(missing.argmax()), points.shape[1])
        raise ValueError(f"Input X contains NaN at row {row}, column {schema.columns[column].name!r}, {problem}")


@contextmanager
def short_errors() -> Iterator[None]:
    """Cut the middle out of long errors, and turn an OverflowError into a ValueError."""
    try:
        yield
    except OverflowError as error:
        raise ValueError(f"X holds a number too large for a double: {error}.") from error
    except (ValueError, TypeError) as error:
        message = str(error)
        if len(message) <= _MAX_ERROR_LENGTH:
            raise
        raise type(error)(f"{message[: _MAX_ERROR_LENGTH // 2]} ... {message[-_MAX_ERROR_LENGTH // 4 :]}") from None


def read_rows(online: Any, X: Any, schema: FrameSchema | None, reset: bool) -> EncodedRows:
    """Return rows as numbers, the schema of their columns, and their strings by hash.

    ``online`` is the wrapper, whose columns are set if ``reset`` and checked otherwise.
    """
    container = container_of(X)
    if sp.issparse(X):
        X = X.toarray()
    if not len(X if hasattr(X, "__len__") else X.shape):
        raise ValueError("Found array with 0 sample(s) while a minimum of 1 is required.")
    if container is None:
        X = validate_data(online, X, reset=reset, dtype=np.float64, ensure_all_finite=False)
    elif container not in LISTS:
        X = rectangular(X) if container == "array" else X
        validate_data(online, X, reset=reset, skip_check_array=True)
    elif reset:
        online.n_features_in_ = 1
    points, new, strings = read(X, schema, container or "array")
    check_columns(online.estimator, points, new)
    return points, new, strings


def single_row_table(x: Any) -> Any:
    """Return a single row as a list of strings, an array of objects or a data frame; None if it is numeric."""
    if isinstance(x, str):
        return [x]
    if isinstance(x, np.ndarray) and x.dtype.kind in "biuf":
        return None
    values = list(x.values()) if isinstance(x, Mapping) else list(x)
    if all(isinstance(value, int | float | np.number) for value in values):
        return None
    if not isinstance(x, Mapping):
        return rectangular([values])
    import pandas as pd

    return pd.DataFrame({name: pd.Series([value], dtype=object).infer_objects() for name, value in x.items()})


def ordered_values(x: Any, schema: FrameSchema) -> Any:
    """Return the values of a mapping in the order of the columns; anything else as it is."""
    if not isinstance(x, Mapping) or schema.container in LISTS:
        return x
    names = [column.name for column in schema.columns]
    missing, unknown = [n for n in names if n not in x], [n for n in x if n not in names]
    if missing or unknown:
        raise ValueError(f"x must hold the columns seen before: missing {missing[:5]}, unknown {unknown[:5]}.")
    return [x[name] for name in names]


def without_unused_strings(stream: Stream, at_once: bool = False) -> Stream:
    """Return the stream without the strings that none of its rows holds; only once they are many, or ``at_once``."""
    encoding: Encoding = stream.problem.encoding
    if encoding.schema is None or not (at_once or encoding.strings.are_many):
        return stream
    return stream.append([], replace(stream.problem, encoding=encoding.within(stream.held_rows())))
