"""
A model that survives its process
=================================

``Durable`` stores a model in one SQLite file. Each call is one transaction. After a crash, open the file again: the
model continues bit for bit as if nothing had happened. A call that is sent twice with the same key is executed once.
"""

import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

from batch2online import Durable, OnlineClustering

rng = np.random.default_rng(4)
X = rng.normal(size=(6_000, 2)) + rng.integers(3, size=(6_000, 1)) * 5

folder = tempfile.TemporaryDirectory()
path = Path(folder.name) / "clusters.b2o"
with Durable(path, OnlineClustering(3, random_state=0)) as durable:
    for start in range(0, 3_000, 500):
        durable.partial_fit(X[start : start + 500], key=f"chunk {start}")

with Durable.open(path) as durable:  # another process, another day
    durable.partial_fit(X[2_500:3_000], key="chunk 2500")  # sent again: the key is known, so nothing is learned
    for start in range(3_000, 6_000, 500):
        durable.partial_fit(X[start : start + 500], key=f"chunk {start}")
    resumed = durable.model.cluster_centers_.copy()

undisturbed = OnlineClustering(3, random_state=0).partial_fit(X).cluster_centers_
print("equal bit for bit:", np.array_equal(resumed, undisturbed))

# %%

figure, axes = plt.subplots(figsize=(4.5, 3.1), layout="constrained")
axes.scatter(*X.T, s=2, color="lightgray")
axes.scatter(*undisturbed.T, s=160, facecolors="none", edgecolors="tab:blue", label="undisturbed")
axes.scatter(*resumed.T, marker="x", color="tab:red", label="resumed")
axes.legend()
folder.cleanup()
