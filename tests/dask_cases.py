"""Rows, models and partitions for the tests of the cluster."""

import dask.array as da
import numpy as np
from sklearn.cluster import KMeans
from sklearn.linear_model import Ridge

from batch2online import (
    BatchToOnline,
    OnlineClassifier,
    OnlineClustering,
    OnlineLowRank,
    OnlineRegression,
    coresets,
    refresh,
)

N = 22_500
_RNG = np.random.default_rng(0)
X = _RNG.normal(size=(N, 3)) + 5 * np.eye(3)[_RNG.integers(0, 3, size=N)]
Y = X @ [1.0, -2.0, 0.5] + _RNG.normal(size=N)
LABELS = np.where(np.median(Y) < Y, "high", "low")
WEIGHTS = np.where(np.arange(N) % 17 == 0, 0.0, _RNG.exponential(size=N))
DOUBLING = refresh.Geometric(2.0)

SETS = {
    "regression": lambda: OnlineRegression(random_state=1),
    "decay": lambda: OnlineRegression(random_state=1, half_life=900, fit_intercept=False, first_id=12_345),
    "on the coreset": lambda: OnlineRegression(random_state=1, solve="coreset", refresh=DOUBLING),
    "low rank": lambda: OnlineLowRank(2, center=True, random_state=1),
    "any": lambda: BatchToOnline(
        Ridge(), coreset=coresets.Leverage, refresh=DOUBLING, random_state=1, coreset_size=300
    ),
    "uniform": lambda: BatchToOnline(
        Ridge(), coreset=coresets.Uniform, refresh=DOUBLING, random_state=1, coreset_size=300
    ),
}
"""Estimators whose coreset is a function of the set of rows: that of one machine, whatever the partitions."""

STREAMS = {
    "clusters": lambda: OnlineClustering(4, random_state=1),
    "medians": lambda: OnlineClustering(3, z=1.0, stages=2, random_state=1, first_id=7),
    "bounded clusters": lambda: OnlineClustering(3, history="coreset", random_state=1),
    "any clusters": lambda: BatchToOnline(KMeans(3, n_init=1), refresh=DOUBLING, random_state=1),
    "median line": lambda: OnlineRegression(loss="absolute", random_state=1, refresh=DOUBLING),
    "classes": lambda: OnlineClassifier(random_state=0),
}
"""Estimators whose shards are streams that merge: nearly the loss of one machine."""

_NAMES = ("coef_", "intercept_", "components_", "mean_", "cluster_centers_")


def told(model):
    """Return all that must be the same."""
    coreset = model.coreset_
    own = [np.asarray(getattr(model, name)) for name in _NAMES if hasattr(model, name)]
    return [coreset.ids, coreset.weights, coreset.points, np.array(model.n_seen_), *own]


def same(one, other):
    """Return whether coresets are equal bit for bit, and models up to rounding of sums."""
    found, expected = told(one), told(other)
    if len(found) != len(expected) or not all(map(np.array_equal, found[:4], expected[:4])):
        return False
    pairs = zip(found[4:], expected[4:], strict=True)
    return all(np.allclose(a, b, rtol=1e-9, atol=1e-9 * np.abs(b).max(initial=0)) for a, b in pairs)


def sizes(n_partitions, seed=0):
    """Return random sizes of partitions, some of which may be empty."""
    cuts = np.sort(np.random.default_rng(seed).integers(0, N + 1, size=n_partitions - 1))
    return tuple(np.diff([0, *cuts, N]).tolist())


def targets_of(model):
    return LABELS if isinstance(model, OnlineClassifier) else Y if model._needs_targets else None


def rows_of(model, chunks, weights=None):
    """Return X, y and weights in partitions of these sizes."""
    y = targets_of(model)
    y = None if y is None else da.from_array(y, chunks=(chunks,))
    own = None if weights is None else da.from_array(weights, chunks=(chunks,))
    return da.from_array(X, chunks=(chunks, (X.shape[1],))), y, own


def on_one_machine(model, weights=None):
    y = targets_of(model)
    return model.fit(X, *([] if y is None else [y]), sample_weight=weights)


def mean_loss(model):
    """Return the mean loss of a model on all rows."""
    if isinstance(model, OnlineClassifier):
        return -model.predict_log_proba(X)[np.arange(N), (LABELS == "low").astype(int)].mean()
    if model._needs_targets:
        return np.abs(Y - model.predict(X)).mean()
    return model.transform(X).min(axis=1).mean()
