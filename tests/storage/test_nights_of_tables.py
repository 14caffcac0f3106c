"""Nights of a table through a file: new levels and missing values leave what one stream in memory leaves."""

import numpy as np
import pandas as pd
import pytest

from batch2online import Durable, OnlineClassifier, OnlineClustering, OnlineLowRank, OnlineRegression

KEPT = {"random_state": 0, "columns": "auto", "keep_history": True}
KINDS = {
    "clustering": lambda: OnlineClustering(3, random_state=0, columns="auto"),
    "regression": lambda: OnlineRegression(**KEPT),
    "huber": lambda: OnlineRegression(loss="huber", **KEPT),
    "classifier": lambda: OnlineClassifier(**KEPT),
    "low rank": lambda: OnlineLowRank(2, **KEPT),
}
TARGETS = {"clustering": None, "low rank": None, "classifier": lambda rows: rows["amount"] > 0}
WITHOUT_ROWS = {
    "regression": lambda: OnlineRegression(random_state=0, columns="auto"),
    "clustering": lambda: OnlineClustering(3, history="coreset", random_state=0, columns="auto"),
}


def cities(n, levels, seed):
    rng = np.random.default_rng(seed)
    return pd.DataFrame({"amount": rng.normal(size=n), "size": rng.normal(size=n), "city": rng.choice(levels, n)})


def missing(seed):
    """Rows of which 30 % lack a value whose mean differs from night to night."""
    rng = np.random.default_rng(seed)
    clusters = 10 * seed + 3 * rng.integers(0, 3, size=(200, 1))
    rows = pd.DataFrame(rng.normal(size=(200, 2)) + clusters, columns=["amount", "size"])
    rows.loc[rng.random(200) < 0.3, "amount"] = np.nan
    return rows


CITIES = [cities(200, list("ABC"), 0), cities(100, list("ABCDEF"), 1), cities(100, list("ABCDEFGH"), 2)]
MISSING = [missing(seed) for seed in range(4)]


def learn(model, kind, rows):
    targets = TARGETS.get(kind, lambda rows: 2 * rows["size"] + rows["amount"].fillna(0))
    return model.partial_fit(rows, *([] if targets is None else [targets(rows)]))


def same(model, whole, rows):
    act = "predict" if hasattr(whole, "predict") else "transform"
    np.testing.assert_array_equal(getattr(model, act)(rows), getattr(whole, act)(rows))
    assert model.n_seen_ == whole.n_seen_
    assert model.regret_.loss == whole.regret_.loss


def nights(path, made, kind, tables):
    """A stream in memory, and a file that is opened again for each night."""
    whole = made()
    for table in tables:
        learn(whole, kind, table)
        with Durable(path, made()) as model:
            learn(model, kind, table)
    return whole


@pytest.mark.parametrize("kind", KINDS)
def test_a_night_with_new_levels_leaves_a_file_that_opens(tmp_path, kind):
    whole = nights(tmp_path / "model.b2o", KINDS[kind], kind, CITIES)
    with Durable(tmp_path / "model.b2o") as model:
        same(model, whole, CITIES[-1])


@pytest.mark.parametrize("kind", WITHOUT_ROWS)
def test_a_night_with_new_levels_without_kept_rows(tmp_path, kind):
    whole = nights(tmp_path / "model.b2o", WITHOUT_ROWS[kind], kind, CITIES)
    with Durable(tmp_path / "model.b2o") as model:
        same(model, whole, CITIES[-1])


def test_clusters_of_nights_with_missing_values(tmp_path):
    whole = nights(tmp_path / "model.b2o", KINDS["clustering"], "clustering", MISSING)
    with Durable(tmp_path / "model.b2o") as model:
        np.testing.assert_array_equal(model.cluster_centers_, whole.cluster_centers_)
        assert model.regret_.ratio == whole.regret_.ratio


def test_forgetting_rows_of_nights_with_missing_values(tmp_path):
    whole = nights(tmp_path / "model.b2o", KINDS["regression"], "regression", MISSING)
    whole.forget(range(300))
    with Durable(tmp_path / "model.b2o") as model:
        model.forget(range(300))
        np.testing.assert_array_equal(model.coef_, whole.coef_)
