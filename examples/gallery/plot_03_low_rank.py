"""
PCA of handwritten digits on a stream
=====================================

Each new basis is rotated towards the old one, so you can compare new coordinates with those stored last week.
"""

import matplotlib.pyplot as plt
from sklearn.datasets import load_digits
from sklearn.utils import shuffle

from batch2online import OnlineLowRank

X = shuffle(load_digits().data / 16, random_state=0)
model = OnlineLowRank(8, center=True, random_state=0)
for start in range(0, len(X), 100):
    model.partial_fit(X[start : start + 100])

figure, axes = plt.subplots(2, 4, figsize=(4.5, 2.6), layout="constrained")
for component, ax in zip(model.components_, axes.flat, strict=True):
    ax.imshow(component.reshape(8, 8), cmap="gray")
    ax.axis("off")

# %%

print(f"loss {model.regret_.ratio:.3f} times that of the best subspace in hindsight, {model.n_changes_} changes")
