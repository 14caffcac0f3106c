"""Estimators of the nights: in Python, on the command line, as a model of the service, and as a script without them."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from importlib import import_module
from types import MappingProxyType
from typing import Any, NamedTuple

N_TREES = 10
"""Trees of a booster: enough to be wrong in the last bit, few enough to be fast."""


def as_it_is(X, table):
    return X


def as_numbers(X, table):
    return X.drop(columns=table.unused).select_dtypes("number").astype(float).fillna(0.0)


def as_categories(X, table):
    """Return a table for boosters: categories for strings, days for dates, no names."""
    import pandas as pd

    X = X.drop(columns=table.unused)
    if table.date is not None:
        X[table.date] = (pd.to_datetime(X[table.date]) - pd.Timestamp("2000-01-01")).dt.days
    return X.astype(dict.fromkeys(X.select_dtypes(["object", "category"]), "category"))


class Cell(NamedTuple):
    """One estimator."""

    make: Any
    """Called with whether rows are kept, the folder of the nights, and their table."""

    task: str
    script: str
    """Class that the nightly script fits."""

    script_settings: Mapping[str, Any] = MappingProxyType({})
    options: Mapping[str, Any] = MappingProxyType({})
    """Of the command and of the service."""

    settings: tuple[str, ...] = ()
    """Of the command, for the wrapped estimator."""

    keeps: tuple[bool, ...] = (False, True)
    boosts: bool = False
    rows: Any = as_it_is
    """Called with the features and their table: what the estimator is given in Python."""

    served_rows: Any = as_it_is

    @property
    def is_wrapped(self):
        return "estimator" in self.options


def _own(name, kept, folder, table, **settings):
    """Return an estimator of this package; its module is imported here, as late as in a script."""
    own = {} if name == "OnlineClustering" else {"keep_history": kept}
    return getattr(import_module("batch2online"), name)(**own | {"columns": "auto", "random_state": 0} | settings)


def _clusters(kept, folder, table, on_disk=False):
    if on_disk:  # columns="auto" refuses it
        own = {"history": str(folder / "rows"), "columns": None}
    else:
        own = {"history": "memory" if kept else "coreset"}
    return _own("OnlineClustering", kept, folder, table, n_clusters=4, **own)


def _wrapped(estimator, kept, folder, table):
    from batch2online import BatchToOnline

    return BatchToOnline(estimator(table), keep_history=kept, random_state=0)


def linear(table, name="Ridge"):
    """Return a pipeline as the pages show it."""
    from sklearn import linear_model
    from sklearn.compose import make_column_transformer
    from sklearn.impute import SimpleImputer
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder, StandardScaler

    numbers = make_pipeline(SimpleImputer(), StandardScaler())
    encode = make_column_transformer(
        (numbers, list(table.numbers)), (OneHotEncoder(handle_unknown="ignore"), list(table.strings))
    )
    return make_pipeline(encode, getattr(linear_model, name)())


def trees(table):
    from sklearn.ensemble import HistGradientBoostingRegressor

    return HistGradientBoostingRegressor(max_iter=N_TREES, early_stopping=False, random_state=0)


def lightgbm(table):
    from lightgbm import LGBMRegressor

    return LGBMRegressor(n_estimators=N_TREES, **LGBM_SETTINGS)


LGBM_SETTINGS = {"n_jobs": 1, "deterministic": True, "force_row_wise": True, "verbose": -1}
SKLEARN = "sklearn.linear_model."
RIDGE, LOGISTIC = f"{SKLEARN}Ridge", f"{SKLEARN}LogisticRegression"
HGB, LGBM = "sklearn.ensemble.HistGradientBoostingRegressor", "lightgbm.LGBMRegressor"
BOOSTER = {"boosts": True, "rows": as_categories, "served_rows": as_numbers}
WRAPPED = {"served_rows": as_numbers}
CELLS = {
    "regression": Cell(partial(_own, "OnlineRegression"), "regression", f"{SKLEARN}LinearRegression"),
    "huber": Cell(
        partial(_own, "OnlineRegression", loss="huber"),
        *("regression", f"{SKLEARN}HuberRegressor", {"max_iter": 1000}, {"loss": "huber"}),
    ),
    "quantile": Cell(
        partial(_own, "OnlineRegression", loss="quantile"),
        *("regression", f"{SKLEARN}QuantileRegressor", {"alpha": 0.0}, {"loss": "quantile"}),
        keeps=(True,),
    ),
    "classifier": Cell(partial(_own, "OnlineClassifier"), "classification", LOGISTIC, {"max_iter": 1000}),
    "low rank": Cell(
        partial(_own, "OnlineLowRank", n_components=3),
        *("lowrank", "sklearn.decomposition.TruncatedSVD", {"n_components": 3}, {"k": 3}),
    ),
    "clusters": Cell(_clusters, "clustering", "sklearn.cluster.KMeans", {"n_clusters": 4}, {"k": 4}),
    "clusters on disk": Cell(
        partial(_clusters, on_disk=True),
        *("clustering", "sklearn.cluster.KMeans", {"n_clusters": 4}, {"k": 4}),
        keeps=(True,),
        rows=as_numbers,
    ),
    "wrapped Ridge": Cell(partial(_wrapped, linear), "regression", RIDGE, options={"estimator": RIDGE}, **WRAPPED),
    "wrapped LogisticRegression": Cell(
        partial(_wrapped, partial(linear, name="LogisticRegression")),
        *("classification", LOGISTIC, {"max_iter": 1000}, {"estimator": LOGISTIC}, ("max_iter=1000",)),
        **WRAPPED,
    ),
    "wrapped HGB": Cell(
        partial(_wrapped, trees),
        *(
            "regression",
            HGB,
            {"max_iter": N_TREES},
            {"estimator": HGB},
            (f"max_iter={N_TREES}", "early_stopping=False"),
        ),
        **BOOSTER,
    ),
    "wrapped LightGBM": Cell(
        partial(_wrapped, lightgbm),
        *("regression", LGBM, LGBM_SETTINGS | {"n_estimators": N_TREES}, {"estimator": LGBM}),
        tuple(f"{name}={value}" for name, value in (LGBM_SETTINGS | {"n_estimators": N_TREES}).items()),
        **BOOSTER,
    ),
}
