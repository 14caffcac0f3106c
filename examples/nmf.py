"""Non-negative matrix factorisation of a stream: an estimator without ``sample_weight``, and a coreset for it.

Rows are sums of k non-negative parts with non-negative weights. A row multiplied by the root of its weight has the same
parts, so scikit-learn's ``NMF`` can be fitted to a weighted coreset. Parts span a subspace of dimension k, for which
``RidgeLeverage`` of rank k keeps squared distances.
"""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from sklearn.decomposition import NMF

from batch2online import BatchToOnline, coresets, refresh
from batch2online.extend import FloatArray

PARTS = 4


class WeightedNMF(NMF):  # type: ignore[misc]  # scikit-learn has no types
    """scikit-learn's ``NMF`` with weights of rows."""

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        weights = np.ones(len(X)) if sample_weight is None else np.asarray(sample_weight)
        super().fit_transform(X * np.sqrt(weights)[:, None])
        return self


def rows_of(n: int, seed: int = 0) -> FloatArray:
    """Return rows of 12 columns that are sums of four parts, and a little noise."""
    rng = np.random.default_rng(seed)
    parts = rng.gamma(1.0, size=(PARTS, 12)) * (rng.random((PARTS, 12)) < 0.5)
    return np.abs(rng.gamma(1.0, size=(n, PARTS)) @ parts + 0.1 * rng.normal(size=(n, 12)))


def run(n: int = 10_000) -> tuple[BatchToOnline, FloatArray]:
    """Return a model of n rows, and the rows."""
    rows = rows_of(n)
    model = BatchToOnline(
        WeightedNMF(PARTS, init="nndsvda", max_iter=500, tol=1e-3),
        loss="reconstruction",
        coreset=coresets.RidgeLeverage(PARTS, coreset_size=500),
        refresh=refresh.Geometric(2.0),
        random_state=0,
    )
    for start in range(0, n, 1_000):
        model.partial_fit(rows[start : start + 1_000])
    return model, rows


def loss_of(model: Any, rows: FloatArray) -> float:
    """Return the mean squared distance of rows to their reconstructions."""
    return float(np.square(rows - model.inverse_transform(model.transform(rows))).sum(axis=1).mean())


if __name__ == "__main__":
    model, rows = run()
    every = WeightedNMF(PARTS, init="nndsvda", max_iter=500, tol=1e-3).fit(rows)
    print(f"loss a row {loss_of(model, rows):.4f}, fitted to all rows {loss_of(every, rows):.4f}")
    print(f"{model.n_changes_} changes in {model.n_seen_:,} rows, {len(model.coreset_)} kept")
