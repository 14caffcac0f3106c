"""
Stable cluster ids
==================

A nightly refit of k-means permutes its labels. Here cluster 2 stays cluster 2, and ``churn`` is the share of all rows
whose label changes with a model.
"""

import matplotlib.pyplot as plt
import numpy as np

from batch2online import OnlineClustering

rng = np.random.default_rng(1)
places = np.array([[0, 0], [6, 1], [3, 5], [8, 7]])
X = places[rng.integers(4, size=12_000)] + rng.normal(size=(12_000, 2))

model = OnlineClustering(4, random_state=0)
early = model.partial_fit(X[:300]).cluster_centers_.copy()
late = model.partial_fit(X[300:]).cluster_centers_

figure, axes = plt.subplots(figsize=(4.5, 3.1), layout="constrained")
axes.scatter(*X[:3000].T, c=model.predict(X[:3000]), s=3, cmap="tab10", vmax=9)
for number, (before, after) in enumerate(zip(early, late, strict=True)):
    axes.annotate("", after, before, arrowprops={"arrowstyle": "->"})
    axes.text(*after, str(number), fontsize=16, weight="bold")
axes.set_title("centers, from row 300 to row 12,000")

# %%

for event in model.changes_[-4:]:
    print(f"row {event.at}: {event.churn:.2%} of the rows changed their cluster")
