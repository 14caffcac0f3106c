"""
The coreset of a clustering
===========================

A uniform sample misses a small cluster. The coreset samples rows in proportion to their possible share of the cost, so
it contains the few distant rows, with weights that make all sums unbiased.
"""

import matplotlib.pyplot as plt
import numpy as np

from batch2online import coresets

rng = np.random.default_rng(6)
X = np.concatenate([rng.normal(size=(20_000, 2)), rng.normal(size=(40, 2)) * 0.3 + [25, 10]])
rng.shuffle(X)

samples = {
    "uniform": coresets.Uniform(coreset_size=150, random_state=0).add(X).coreset(),
    "by sensitivity": coresets.Clustering(3, coreset_size=150, random_state=0).add(X).coreset(),
}
figure, axes = plt.subplots(2, 1, figsize=(4.5, 3.6), sharex=True, layout="constrained")
for (name, coreset), ax in zip(samples.items(), axes, strict=True):
    ax.scatter(*X[::20].T, s=2, color="lightgray")
    ax.scatter(*coreset.points.T, s=np.sqrt(coreset.weights) * 3, alpha=0.6)
    far = coreset.points[:, 0] > 20
    ax.set_title(f"{name}: {far.sum()} rows of the small cluster", fontsize="medium")
