"""
Classification with a coreset of a few thousand rows
====================================================

Logistic regression has no sufficient statistics, so a refit needs all rows. ``OnlineClassifier`` sums Taylor expansions
of the losses of all rows exactly, and keeps a coreset for the remainders.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.linear_model import LogisticRegression

from batch2online import OnlineClassifier

rng = np.random.default_rng(8)
X = rng.normal(size=(60_000, 6))
odds = X @ rng.normal(size=6) - 2
y = np.where(rng.random(60_000) < 1 / (1 + np.exp(-odds)), "yes", "no")

model = OnlineClassifier(random_state=0)
for start in range(0, 60_000, 500):
    model.partial_fit(X[start : start + 500], y[start : start + 500])
everything = LogisticRegression().fit(X, y)

print(f"{model.n_changes_ + 1} fits on at most {len(model.coreset_):,} rows")
print(f"largest difference of probabilities: {np.abs(model.predict_proba(X) - everything.predict_proba(X)).max():.4f}")

# %%

figure, axes = plt.subplots(figsize=(4.5, 3.1), layout="constrained")
axes.plot(everything.coef_[0], "o", label="LogisticRegression on all rows", markersize=10, fillstyle="none")
axes.plot(model.coef_[0], "x", label="OnlineClassifier")
axes.set(xlabel="column", ylabel="coefficient")
axes.legend()
