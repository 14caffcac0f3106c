"""Prequential evaluation recomputed: a learner is scored on each chunk before it learns it, beside the best model."""

from __future__ import annotations

import numpy as np
from sklearn.cluster import KMeans
from sklearn.exceptions import NotFittedError

from printed import recompute
from printed.net import Between, Near


def answers(kind, learner, X):
    """Return the answers of a learner as ``recompute.losses`` reads them; None without a model."""
    if not getattr(learner, "has_model_", True):
        return None
    try:
        if kind == "clusters":
            distances = np.sqrt(((X[:, None] - learner.cluster_centers_) ** 2).sum(2))
            return np.c_[distances.min(1), distances.argmin(1)]
        if kind == "subspace":
            return (X**2).sum(1) - ((X @ learner.components_.T) ** 2).sum(1)
        return learner.predict(X)
    except (NotFittedError, AttributeError):
        return None


def row_losses(kind, found, y):
    """Return the loss of each row."""
    return recompute.losses("squared" if kind == "absolute" else kind, found, y) ** (0.5 if kind == "absolute" else 1)


def hindsight(kind, X, y, k):
    """Return the loss of each row under the best model of all rows."""
    if kind == "clusters":
        return (KMeans(k, n_init=30, random_state=1).fit(X).transform(X) ** 2).min(1)
    if kind == "subspace":
        vectors = np.linalg.svd(X, full_matrices=False)[2][:k]
        return (X**2).sum(1) - ((X @ vectors.T) ** 2).sum(1)
    design = np.c_[np.ones(len(X)), X]
    return row_losses(kind, design @ np.linalg.lstsq(design, y, rcond=None)[0], y)


def movement(kind, old, new, learner, bases):
    """Return how far answers moved: of labels the share that changed, of subspaces the largest angle."""
    if kind == "clusters":
        return (old[:, 1] != new[:, 1]).mean()
    if kind == "subspace":
        first, second = bases
        return np.arccos(min(np.linalg.svd(first @ second.T, compute_uv=False).min(), 1.0))
    return np.sqrt(((old - new) ** 2).mean())


def run(kind, learner, X, y, best, order, chunk, warmup=0):
    """Return what ``prequential`` should say about a learner, and its curve as a function of the rows."""
    best, X, y, n = best[order], X[order], None if y is None else y[order], len(X)
    probe, old, basis, churn, changed = X[np.linspace(0, n - 1, min(256, n)).astype(int)], None, None, 0.0, []
    plain = recompute.so_far("squared" if kind == "absolute" else kind, X, y, np.ones(n))
    losses = row_losses(kind, plain, y)
    for start in range(0, n, chunk):
        rows = slice(start, min(n, start + chunk))
        found = answers(kind, learner, X[rows])
        losses[rows] = losses[rows] if found is None else row_losses(kind, found, None if y is None else y[rows])
        learner.partial_fit(X[rows], *(() if y is None else (y[rows],)))
        new, at = answers(kind, learner, probe), getattr(learner, "components_", None)
        if old is not None and rows.stop > warmup and not np.array_equal(old, new):
            churn += movement(kind, old, new, learner, (basis, at))
            changed.append(rows.stop)
        old, basis = new, None if at is None else at.copy()

    def bounds(value, stop):  # of clusters another solution that is nearly as good; its costs of a part differ more
        if kind == "clusters":
            part = 1.05 if stop == n and not warmup else 1.3
            return Between(value / part, value * part)
        return value

    def at(stop):
        return {
            "loss": losses[warmup:stop].sum(),
            "optimum": bounds(best[warmup:stop].sum(), stop),
            "changes": sum(each <= stop for each in changed),
        }

    return at(n) | {"churn": Near(churn, 1e-4)}, at


def curve(printed, at, chunk, warmup, n):
    """Return what a curve should hold, at ends of chunks after the warm-up, the last of them at the last row."""
    ends = [each for each in {*range(chunk, n, chunk), n} if each > warmup]
    rows = [each if each in ends else None for each in printed["at"][:-1]] + [n]
    found = [at(each) for each in printed["at"]]
    return {"at": rows} | {name: [each[name] for each in found] for name in ("loss", "optimum", "changes")}
