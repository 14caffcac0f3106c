"""Rows, models and partitions for the tests of the cluster."""

import dask.array as da
import numpy as np
from sklearn.cluster import KMeans
from sklearn.linear_model import Ridge

from batch2online import BatchToOnline, OnlineClustering, OnlineLowRank, OnlineRegression, coresets, refresh, rows
from batch2online.sketches import spans

N = 22_500
_RNG = np.random.default_rng(0)
X = _RNG.normal(size=(N, 3)) + 5 * np.eye(3)[_RNG.integers(0, 3, size=N)]
Y = X @ [1.0, -2.0, 0.5] + _RNG.normal(size=N)
WEIGHTS = np.where(np.arange(N) % 17 == 0, 0.0, _RNG.exponential(size=N))
DOUBLING = refresh.Geometric(2.0)

EXACT = {
    "regression": lambda: OnlineRegression(random_state=1),
    "fading": lambda: OnlineRegression(random_state=1, half_life=900, fit_intercept=False, first_id=12_345),
    "on the coreset": lambda: OnlineRegression(random_state=1, solve="coreset", refresh=DOUBLING),
    "low rank": lambda: OnlineLowRank(2, center=True, random_state=1),
    "any": lambda: BatchToOnline(
        Ridge(), coreset=coresets.Leverage, refresh=DOUBLING, random_state=1, coreset_size=300
    ),
    "clusters": lambda: OnlineClustering(4, random_state=1),
    "medians": lambda: OnlineClustering(3, z=1.0, stages=2, random_state=1, coreset_size=300, first_id=7),
    "fading clusters": lambda: OnlineClustering(3, half_life=2_000, solve="coreset", coreset_size=300, random_state=1),
    "any clusters": lambda: BatchToOnline(KMeans(3, n_init=1), refresh=DOUBLING, random_state=1, coreset_size=300),
}
"""Estimators whose result on a cluster is that of one machine, bit for bit."""

BY_SPANS = {
    "bounded clusters": lambda: OnlineClustering(3, history="coreset", random_state=1, coreset_size=300),
    "median line": lambda: OnlineRegression(loss="absolute", random_state=1, coreset_size=500, refresh=DOUBLING),
}
"""Estimators whose result on a cluster is one of spans of ids, whatever the partitions."""

_NAMES = ("coef_", "intercept_", "components_", "mean_", "cluster_centers_")


def use_spans(monkeypatch, n_ids):
    """Make spans so small, and blocks of rows no larger."""
    monkeypatch.setattr(spans, "SPAN_IDS", n_ids)
    monkeypatch.setattr(rows, "_BLOCK_ROWS", (min(n_ids, 10_000),))


def told(model):
    """Return all that must be the same."""
    coreset = model.coreset_
    own = [np.asarray(getattr(model, name)) for name in _NAMES if hasattr(model, name)]
    return [coreset.ids, coreset.weights, coreset.points, np.array(model.n_seen_), *own]


def same(one, other):
    found, expected = told(one), told(other)
    return len(found) == len(expected) and all(map(np.array_equal, found, expected))


def sizes(n_partitions, seed=0):
    """Return random sizes of partitions, some of which may be empty."""
    cuts = np.sort(np.random.default_rng(seed).integers(0, N + 1, size=n_partitions - 1))
    return tuple(np.diff([0, *cuts, N]).tolist())


def rows_of(model, chunks, weights=None):
    """Return X, y and weights in partitions of these sizes."""
    y = da.from_array(Y, chunks=(chunks,)) if model._needs_targets else None
    own = None if weights is None else da.from_array(weights, chunks=(chunks,))
    return da.from_array(X, chunks=(chunks, (X.shape[1],))), y, own


def on_one_machine(model, weights=None):
    y = (Y,) if model._needs_targets else ()
    return model.fit(X, *y, sample_weight=weights)
