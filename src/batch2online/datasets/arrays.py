"""Data sets as arrays for examples, benchmarks and tests: standardized numbers, and one column per category.

They are made of the tables of :func:`load_table`. Other packages add data sets by entry points, see "Extend" in the
documentation.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from importlib.metadata import entry_points
from typing import Any

import numpy as np

from batch2online._types import FloatArray
from batch2online.datasets.tables import LABELS, TARGETS, NamedTable, load_table

_Pair = tuple[FloatArray, FloatArray]
_Labelled = tuple[FloatArray, Any]


def load_rows(name: str) -> FloatArray:
    """Return the rows of a data set in ``ROWS``.

    >>> load_rows("digits").shape
    (1797, 64)
    """
    rows: FloatArray = _loaded(name, "rows", ROWS)
    return rows


def load_regression(name: str) -> _Pair:
    """Return rows and targets of a regression data set: diabetes, cps1988, diamonds or flights.

    >>> X, y = load_regression("diabetes")
    >>> X.shape, y.shape
    ((442, 10), (442,))
    """
    pair: _Pair = _loaded(name, "regression", REGRESSION)
    return pair


def load_classification(name: str) -> _Labelled:
    """Return rows and class labels of a data set in ``CLASSIFICATION``.

    >>> X, y = load_classification("breast_cancer")
    >>> X.shape, sorted(set(y.tolist()))
    ((569, 30), [0, 1])
    """
    labelled: _Labelled = _loaded(name, "classification", CLASSIFICATION)
    return labelled


def _loaded(name: str, kind: str, ours: Mapping[str, Callable[[], Any]]) -> Any:
    """Return a data set of ours, or one of an installed package: an entry point, a function without parameters."""
    if name in ours:
        return ours[name]()
    installed = {entry.name: entry for entry in entry_points(group=f"batch2online.datasets.{kind}")}
    if name not in installed:
        raise ValueError(f"Unknown data set {name!r} for {kind}: choose one of {', '.join([*ours, *installed])}.")
    return installed[name].load()()


def _rows(name: str) -> FloatArray:
    table = load_table(name)
    columns = table.complete(table.rows)
    means, scales = np.array(list(table.moments(columns).values())).T
    return np.asarray((np.column_stack(list(columns.values())) - means) / scales)


def _regression(name: str) -> _Pair:
    table, target = load_table(name), TARGETS[name]
    columns = _complete(table, target)
    y = columns.pop(target)
    if name == "cps1988":
        columns["experience squared"] = columns["experience"] ** 2
        return _encoded(columns), np.log(y)
    return _encoded(columns), _standardised(y)


def _classification(name: str) -> _Labelled:
    table, label = load_table(name), LABELS[name]
    columns = _complete(table, label)
    labels = columns.pop(label)
    if label in _ONES:
        return _encoded(columns), (labels == _ONES[label]).astype(np.int64)
    return _encoded(columns), labels.astype(np.int64 if labels.dtype.kind == "f" else str)


_ONES = {"arrival": "late", "diagnosis": "benign"}
"""By column, the label that is 1 where the other is 0."""


def _complete(table: NamedTable, target: str) -> dict[str, Any]:
    """Return the inputs and a target, without rows that have missing values in them."""
    inputs = table.inputs or tuple(name for name in table.columns if name != target)
    return table.complete((*inputs, target))


def _encoded(columns: Mapping[str, Any]) -> FloatArray:
    """Return standardized numbers, then one column for each category but the first."""
    numbers = [values for values in columns.values() if values.dtype.kind == "f"]
    categories = [values for values in columns.values() if values.dtype.kind != "f"]
    coded = [(values[:, None] == np.unique(values)[None, 1:]).astype(np.float64) for values in categories]
    return np.concatenate([_standardised(np.column_stack(numbers)), *coded], axis=1)


def _standardised(values: FloatArray) -> FloatArray:
    """Return standardized columns; constant ones are zero."""
    deviations = values.std(axis=0)
    return np.asarray((values - values.mean(axis=0)) / np.where(deviations > 0, deviations, 1.0))


_NUMERIC = ("digits", "breast_cancer", "letter", "diamonds", "flights", "china_pixels", "china_patches", "mnist")
ROWS: dict[str, Callable[[], FloatArray]] = {name: partial(_rows, name) for name in _NUMERIC}
REGRESSION: dict[str, Callable[[], _Pair]] = {name: partial(_regression, name) for name in TARGETS}
CLASSIFICATION: dict[str, Callable[[], _Labelled]] = {name: partial(_classification, name) for name in LABELS}
