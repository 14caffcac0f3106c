"""Estimators and kinds of rows: what each pair comes to. ``python tests/table_estimators.py`` prints the table."""

from __future__ import annotations

import re
import warnings
from functools import cache
from importlib import import_module

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
from sklearn.cluster import KMeans
from sklearn.compose import make_column_transformer
from sklearn.decomposition import PCA
from sklearn.ensemble import (
    AdaBoostRegressor,
    ExtraTreesRegressor,
    GradientBoostingClassifier,
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    IsolationForest,
    RandomForestClassifier,
    StackingRegressor,
)
from sklearn.feature_extraction import DictVectorizer
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.impute import SimpleImputer
from sklearn.linear_model import (
    HuberRegressor,
    LinearRegression,
    LogisticRegression,
    PoissonRegressor,
    Ridge,
    SGDClassifier,
)
from sklearn.mixture import GaussianMixture
from sklearn.naive_bayes import GaussianNB, MultinomialNB
from sklearn.neighbors import KNeighborsRegressor
from sklearn.neural_network import MLPClassifier, MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder
from sklearn.svm import SVR, LinearSVC
from sklearn.tree import DecisionTreeRegressor

from batch2online import BatchToOnline
from batch2online.refresh import Geometric
from table_cases import table, target

N = 90
TABLE = table(N).drop(columns="note")
Y = target(TABLE)
TEXTS = [f"{note} {'much' if y > 1 else 'little'}" for note, y in zip(table(N)["note"], Y, strict=True)]
NUMBERS = TABLE[["length", "count"]].fillna(0.5).abs()


def days(frame):
    """Days since 2024 of the column ``day``, whatever the table."""
    column = pd.Series(np.asarray(frame["day"]).astype("datetime64[us]"))
    return ((column - pd.Timestamp("2024-01-01")).dt.days.fillna(0).to_numpy(float) / 400)[:, None]


def prepared():
    return make_column_transformer(
        (SimpleImputer(), ["length"]),
        (OneHotEncoder(handle_unknown="ignore", sparse_output=False), ["colour", "size", "is_new"]),
        (FunctionTransformer(days), ["day"]),
        sparse_threshold=0,
    )


def dense(words):
    return words.toarray()


KINDS = {
    "arrays": (NUMBERS.to_numpy(), None),
    "missing values": (TABLE[["length", "count"]], None),
    "categories": (TABLE[["length", "size"]].assign(colour=TABLE["colour"].astype("category")), None),
    "pandas": (TABLE, prepared),
    "polars": (pl.from_pandas(TABLE), prepared),
    "Arrow": (pa.Table.from_pandas(TABLE, preserve_index=False), prepared),
    "strings": (TEXTS, lambda: make_pipeline(TfidfVectorizer(), FunctionTransformer(dense, accept_sparse=True))),
    "dictionaries": (
        [{"colour": text.split()[1], "count": len(text)} for text in TEXTS],
        lambda: DictVectorizer(sparse=False),
    ),
}
"""Kinds of rows, and what is put before an estimator that cannot take them as they are."""


def boosted(package, name, **settings):
    return lambda: getattr(import_module(package), name)(**settings)


ESTIMATORS = {
    "LinearRegression": (LinearRegression, {}),
    "Ridge": (Ridge, {}),
    "HuberRegressor": (lambda: HuberRegressor(max_iter=500), {}),
    "PoissonRegressor": (PoissonRegressor, {}),
    "LogisticRegression": (LogisticRegression, {}),
    "SGDClassifier": (lambda: SGDClassifier(loss="log_loss"), {}),
    "LinearSVC": (LinearSVC, {}),
    "SVR": (SVR, {}),
    "KNeighborsRegressor": (KNeighborsRegressor, {"resample": True}),
    "GaussianNB": (GaussianNB, {}),
    "MultinomialNB": (MultinomialNB, {}),
    "DecisionTreeRegressor": (DecisionTreeRegressor, {}),
    "RandomForestClassifier": (lambda: RandomForestClassifier(5), {}),
    "ExtraTreesRegressor": (lambda: ExtraTreesRegressor(5), {}),
    "GradientBoostingClassifier": (lambda: GradientBoostingClassifier(n_estimators=3), {}),
    "HistGradientBoostingRegressor": (lambda: HistGradientBoostingRegressor(max_iter=3), {}),
    "HistGradientBoostingClassifier": (lambda: HistGradientBoostingClassifier(max_iter=3), {}),
    "AdaBoostRegressor": (lambda: AdaBoostRegressor(n_estimators=3), {}),
    "StackingRegressor": (
        lambda: StackingRegressor([("tree", DecisionTreeRegressor())], Ridge(), cv=2),
        {"resample": True},
    ),
    "GaussianProcessRegressor": (lambda: GaussianProcessRegressor(alpha=0.1), {"resample": True}),
    "MLPRegressor": (lambda: MLPRegressor(hidden_layer_sizes=(8,), max_iter=20), {}),
    "MLPClassifier": (lambda: MLPClassifier(hidden_layer_sizes=(8,), max_iter=20), {}),
    "KMeans": (lambda: KMeans(3, n_init=1), {}),
    "GaussianMixture": (lambda: GaussianMixture(2, reg_covar=0.1), {"resample": True}),
    "PCA": (lambda: PCA(2), {}),
    "IsolationForest": (
        lambda: IsolationForest(n_estimators=5),
        {"loss": lambda model, rows: -model.score_samples(rows)},
    ),
    "LGBMRegressor": (boosted("lightgbm", "LGBMRegressor", n_estimators=3, verbose=-1, n_jobs=1), {}),
    "XGBRegressor": (boosted("xgboost", "XGBRegressor", n_estimators=3, n_jobs=1, enable_categorical=True), {}),
    "XGBClassifier": (boosted("xgboost", "XGBClassifier", n_estimators=3, n_jobs=1, enable_categorical=True), {}),
    "CatBoostRegressor": (
        boosted("catboost", "CatBoostRegressor", iterations=3, verbose=0, thread_count=1, allow_writing_files=False),
        {},
    ),
}


def outcome(name, kind):
    """``works``, or the sentence that says what to do."""
    make, settings = ESTIMATORS[name]
    rows, before = KINDS[kind]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        estimator = make() if before is None else make_pipeline(before(), make())
        if kind == "categories" and name == "CatBoostRegressor":
            estimator.set_params(cat_features=["size", "colour"])
        policy = Geometric(2.0, start=40)
        model = BatchToOnline(estimator, columns=None, random_state=0, coreset_size=70, refresh=policy, **settings)
        try:
            targets = targets_for(name)
            for start in range(0, N, 45):
                piece = slice(start, start + 45)
                model.partial_fit(rows[piece], *(() if targets is None else (targets[piece],)))
            check(model, rows)
        except Exception as error:  # an estimator may have errors of its own
            return str(error)
    return "works"


def targets_for(name):
    if name in ("KMeans", "GaussianMixture", "PCA", "IsolationForest"):
        return None
    if name == "XGBClassifier":
        return (Y > 1).astype(int)
    is_classifier = any(word in name for word in ("Classif", "Logistic", "NB", "SVC"))
    return np.where(Y > 1, "much", "little") if is_classifier else np.abs(Y)


def check(model, rows):
    """The model is one of all rows, and answers for any of them."""
    answer = model.transform(rows[:4]) if not hasattr(model, "predict") else model.predict(rows[:4])
    assert len(answer) == 4
    assert model.n_seen_ == N
    assert model.n_changes_ >= 1
    assert np.isfinite(model._stream.current.loss)


NOTES = {
    "which .* cannot take: put SimpleImputer\\(\\) before it": "`SimpleImputer()` first",
    "cannot take: put an encoder before it": "an encoder first",
    "takes no sample_weight, .* pass resample=True": "`resample=True`",
    "Negative values in data passed to MultinomialNB": "counts only",
    "NaN values should be converted to string": "missing values as strings",
}
"""What a sentence says, in few words."""


@cache
def cell(name, kind):
    """``yes``, or the way on that the sentence names; an error without one is shown as it is."""
    found = outcome(name, kind)
    if found == "works":
        return "yes"
    return next((short for pattern, short in NOTES.items() if re.search(pattern, found)), found)


def header():
    """The first line of the table in table_estimators.md."""
    return f"| estimator | {' | '.join(KINDS)} |"


def line(name):
    """The line of the table for one estimator."""
    return f"| `{name}` | {' | '.join(cell(name, kind) for kind in KINDS)} |"


if __name__ == "__main__":
    print("\n".join([header(), "|---|" + "---|" * len(KINDS), *map(line, ESTIMATORS)]))
