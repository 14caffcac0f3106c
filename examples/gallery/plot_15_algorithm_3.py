"""
Algorithms 3 and 7: (k, z)-clustering
=====================================

Algorithm 7 draws a coreset in two stages around D^z seeds, and Algorithm 3 solves on it before each row.
``OnlineClustering`` does the same in one pass. Here z = 1: the sum of distances, which outliers hardly move.
"""

import matplotlib.pyplot as plt
import numpy as np

from batch2online import OnlineClustering, reference

rng = np.random.default_rng(1)
centers = np.array([[-5, 0], [5, 0], [0, 5], [0, -5]])
X = centers[rng.integers(4, size=3_000)] + rng.standard_t(3, size=(3_000, 2))

indices, weights = reference.clustering_coreset(rng, X, 4, 0.3, z=1.0, sizes=(400, 150))
models, _ = reference.online_clustering(rng, X, 4, 0.3, z=1.0, sizes=(400, 150), steps=[len(X)])
model = OnlineClustering(4, z=1.0, solve="coreset", epsilon=0.3, random_state=0).partial_fit(X)

# %%
# Both find the four centers; the areas of the points are their weights in the coreset.

figure, axes = plt.subplots(figsize=(4.5, 3.4), layout="constrained")
axes.scatter(*X.T, s=1, color="lightgray")
axes.scatter(*X[indices].T, s=weights, alpha=0.4, label="coreset, Algorithm 7")
axes.scatter(*models[-1].T, marker="+", s=120, color="tab:red", label="Algorithm 3")
axes.scatter(*model.cluster_centers_.T, marker="x", s=60, color="k", label="OnlineClustering")
axes.set(xlim=(-12, 12), ylim=(-11, 14))
axes.legend(frameon=False, fontsize=8)
print(f"{len(indices)} of {len(X):,} rows, {model.n_changes_} changes in one pass")
