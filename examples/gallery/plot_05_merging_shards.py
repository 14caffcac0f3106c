"""
Merging shards
==============

Four machines see a quarter of the rows each. Merged in any order, their coreset equals that of one machine that has
seen all rows, bit for bit, and their model is the one that ``fit`` gives on all rows.
"""

import matplotlib.pyplot as plt
import numpy as np

from batch2online import OnlineRegression

rng = np.random.default_rng(2)
X = rng.standard_t(3, size=(40_000, 2))
y = X @ [1.0, -2.0] + rng.normal(size=40_000)

shards = [
    OnlineRegression(random_state=0, coreset_size=400, first_id=first).partial_fit(
        X[first : first + 10_000], y[first : first + 10_000]
    )
    for first in range(0, 40_000, 10_000)
]
merged = shards[2]
for other in (shards[0], shards[3], shards[1]):
    merged.merge(other)

alone = OnlineRegression(random_state=0, coreset_size=400).fit(X, y)
print("same rows:", np.array_equal(merged.coreset_.ids, alone.coreset_.ids))
print("same weights:", np.array_equal(merged.coreset_.weights, alone.coreset_.weights))
print("largest difference of coefficients:", np.abs(merged.coef_ - alone.coef_).max())

# %%
# The coreset: rows with larger scores are kept with higher probability and have smaller weights.

coreset = merged.coreset_
figure, axes = plt.subplots(figsize=(4.5, 3.1), layout="constrained")
axes.scatter(*X[::10].T, s=2, color="lightgray")
points = axes.scatter(*coreset.points.T, c=np.log10(coreset.weights), s=14)
figure.colorbar(points, label="log10 of the weight")
axes.set(xlim=(-12, 12), ylim=(-12, 12), title=f"{len(coreset)} of 40,000 rows")
