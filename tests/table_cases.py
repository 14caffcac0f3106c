"""Tables with text, categories, dates and gaps, estimators for them, and what must be the same."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
from sklearn.compose import make_column_transformer
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

from batch2online import BatchToOnline
from batch2online.refresh import Geometric
from batch2online.storage import tree

WORDS = ("red", "green", "blue", "lilac", "ochre")


def table(n: int, seed: int = 0, gaps: float = 0.1) -> pd.DataFrame:
    """Rows of all kinds; a level that is rare comes late."""
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "length": rng.normal(size=n),
            "count": rng.integers(0, 9, n),
            "colour": pd.Series(rng.choice(WORDS, n), dtype=object),
            "size": pd.Categorical(
                rng.choice(["small", "large"], n), categories=["small", "medium", "large"], ordered=True
            ),
            "is_new": rng.random(n) < 0.5,
            "note": pd.Series([f"note {word} {i % 7}" for i, word in enumerate(rng.choice(WORDS, n))], dtype=object),
            "day": pd.Timestamp("2024-02-27") + pd.to_timedelta(rng.integers(0, 400, n), unit="D"),
        }
    )
    frame.loc[n - n // 5 :, "colour"] = frame.loc[n - n // 5 :, "colour"].replace("red", "crimson")
    for name in ("length", "colour", "size", "day"):
        frame.loc[rng.random(n) < gaps, name] = None
    return frame


def target(frame: pd.DataFrame) -> np.ndarray:
    length, colour = frame["length"].fillna(0.3).to_numpy(), (frame["colour"] == "green").to_numpy()
    return length + 2 * colour + 0.1 * frame["count"].to_numpy()


def days(frame):
    """Days since 2024, for a FunctionTransformer."""
    column = pd.DataFrame(frame)["day"] if not isinstance(frame, pa.Table) else frame.to_pandas()["day"]
    return np.nan_to_num((column - pd.Timestamp("2024-01-01")).dt.days.to_numpy(dtype=float))[:, None]


def prepared(words=True):
    """Columns as inputs; scikit-learn counts no words of Arrow's texts, nor passes its columns through."""
    return make_column_transformer(
        (SimpleImputer(), ["length"]),
        (OneHotEncoder(handle_unknown="ignore"), ["colour", "size", "is_new"]),
        *([(CountVectorizer(), "note"), ("passthrough", ["count"])] if words else []),
    )


def regressor(words=True, **settings) -> BatchToOnline:
    return _wrapped(make_pipeline(prepared(words), Ridge()), settings)


def classifier(**settings) -> BatchToOnline:
    return _wrapped(make_pipeline(CountVectorizer(), LogisticRegression()), settings)


def _wrapped(estimator, settings) -> BatchToOnline:
    known = {"coreset_size": 40, "random_state": 0, "refresh": Geometric(2.0, start=30)}
    return BatchToOnline(estimator, **(known | settings))


def learned(model, X, y, sizes):
    """The model after rows in chunks of these sizes, repeated as often as need be."""
    start, number = 0, 0
    while start < len(y):
        stop = start + sizes[number % len(sizes)]
        model.partial_fit(X[start:stop], y[start:stop])
        start, number = stop, number + 1
    return model


def assert_same(one, other):
    """Two models are the same in all that a file would hold, to the last bit."""
    mine, theirs = tree.encoded(one._state()), tree.encoded(other._state())
    assert mine[0] == theirs[0]
    for own, others in zip(mine[1], theirs[1], strict=True):
        np.testing.assert_array_equal(own, others)


KINDS = {
    "pandas": lambda frame: frame,
    "polars": pl.from_pandas,
    "arrow": lambda frame: pa.Table.from_pandas(frame, preserve_index=False),
}
