"""Which rows an estimator can take, as far as it says so."""

from __future__ import annotations

from typing import Any

from sklearn.base import BaseEstimator
from sklearn.pipeline import Pipeline
from sklearn.utils import get_tags

from batch2online._types import FloatArray
from batch2online.frames.columns import ColumnType
from batch2online.frames.encoding import first_gap
from batch2online.frames.schema import Column, FrameSchema

_CATEGORIES = ("category", "Categorical", "Enum")


def gaps(estimator: Any) -> bool:
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
        if not gaps(step):
            return False
        if not type(step).__module__.startswith("sklearn.preprocessing"):
            return True
    return True


def texts(estimator: Any) -> bool:
    """Whether an estimator may take columns that are no numbers: all but plain ones of scikit-learn, which say so."""
    if isinstance(estimator, Pipeline):
        return texts(estimator.steps[0][1])
    if not isinstance(estimator, BaseEstimator) or not type(estimator).__module__.startswith("sklearn."):
        return True
    tags = get_tags(estimator).input_tags
    return bool(tags.string or tags.categorical) or _is_open(estimator) or any(map(texts, _inside(estimator)))


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


def check(estimator: Any, points: FloatArray, table: FrameSchema) -> None:
    """Refuse rows that the estimator could not be fitted to, in a sentence that says what to do."""
    name = type(estimator.steps[0][1] if isinstance(estimator, Pipeline) else estimator).__name__
    takes_categories = hasattr(estimator, "categorical_features")
    other = next((column for column in table.columns if not _is_taken(column, takes_categories)), None)
    if other is not None and not texts(estimator):
        way = (
            "make it a category" if takes_categories and other.kind == ColumnType.STRING else "put an encoder before it"
        )
        example = f"make_pipeline(make_column_transformer((OneHotEncoder(), [{other.name!r}])), {name}())"
        raise ValueError(
            f"Column {other.name!r} holds {other.kind}, which {name} cannot take: {way}, as in "
            + ("X.astype({" + repr(other.name) + ': "category"}).' if takes_categories else f"{example}.")
        )
    is_taken = gaps(estimator) or (texts(estimator) and not table.is_numeric)
    gap = None if is_taken else first_gap(points)
    if gap is not None:
        raise ValueError(
            f"Input X contains NaN at row {gap[0]}, column {table.columns[gap[1]].name!r}, which {name} cannot take: "
            "put SimpleImputer() before it."
        )
