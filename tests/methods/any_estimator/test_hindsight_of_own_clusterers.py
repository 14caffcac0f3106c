"""The interval of the ratio to hindsight contains the true ratio, also for a clusterer of one's own."""

import numpy as np
import pytest
from sklearn.base import BaseEstimator, ClusterMixin

from batch2online import BatchToOnline, coresets, refresh


def distances(X, centers):
    return np.linalg.norm(np.asarray(X)[:, None] - centers, axis=2)


class HuberMeans(ClusterMixin, BaseEstimator):
    def __init__(self, n_clusters=3, random_state=None):
        self.n_clusters = n_clusters
        self.random_state = random_state

    def fit(self, X, y=None, sample_weight=None):
        weights = np.ones(len(X)) if sample_weight is None else np.asarray(sample_weight)
        rng = np.random.default_rng(self.random_state)
        centers = X[rng.choice(len(X), self.n_clusters, replace=False, p=weights / weights.sum())]
        for _ in range(30):
            all_distances = distances(X, centers)
            labels = all_distances.argmin(axis=1)
            own = weights * np.minimum(1, 1 / np.maximum(all_distances.min(axis=1), 1e-9))
            for j in range(self.n_clusters):
                if (labels == j).any():
                    centers[j] = np.average(X[labels == j], axis=0, weights=own[labels == j])
        self.cluster_centers_, self.labels_ = centers, labels
        return self

    def predict(self, X):
        return distances(X, self.cluster_centers_).argmin(axis=1)


def huber(model, X):
    nearest = distances(X, model.cluster_centers_).min(axis=1)
    return np.where(nearest <= 1, 0.5 * nearest**2, nearest - 0.5)


@pytest.mark.slow
def test_the_interval_of_the_ratio_contains_the_ratio_of_an_own_clusterer():
    """The loss divided by the cost of any centers is at most the true ratio."""
    rng = np.random.default_rng(0)
    X = rng.standard_t(2.2, size=(20_000, 2)) + np.array([[0, 0], [9, 0], [0, 9]])[rng.choice(3, 20_000)]
    made = coresets.Clustering(3, z=1.0, coreset_size=300)
    model = BatchToOnline(HuberMeans(), loss=huber, coreset=made, refresh=refresh.Geometric(1.3), random_state=0)
    for start in range(0, len(X), 1000):
        model.partial_fit(X[start : start + 1000])
    least = min(huber(HuberMeans(random_state=seed).fit(X), X).sum() for seed in range(3))
    ratio, interval = model.regret_.loss / least, model.regret_.ratio_interval
    assert interval is None or interval[1] is None or ratio <= interval[1] * 1.02, f"{ratio:.3f} > {interval[1]:.3f}"
