"""
Drift: an alarm and a half-life
===============================

The slope of a stream changes its sign. The order monitor raises an alarm soon after; a model with a half-life follows.
"""

import matplotlib.pyplot as plt
import numpy as np

from batch2online import OnlineRegression

rng = np.random.default_rng(7)
X = rng.normal(size=(12_000, 1))
slopes = np.where(np.arange(12_000) < 6_000, 2.0, -1.0)
y = slopes * X[:, 0] + rng.normal(size=12_000)

models = {
    "all rows": OnlineRegression(random_state=0),
    "half-life 1,000": OnlineRegression(half_life=1_000, random_state=0),
}
curves = {name: [] for name in models}
for start in range(0, 12_000, 100):
    for name, model in models.items():
        model.partial_fit(X[start : start + 100], y[start : start + 100])
        curves[name].append(model.coef_[0] if model.has_model_ else np.nan)

print(models["all rows"].order_.sentence())

# %%

figure, axes = plt.subplots(figsize=(4.5, 3.1), layout="constrained")
axes.plot(slopes[::100], color="lightgray", linewidth=4, label="truth")
for name, values in curves.items():
    axes.plot(values, label=name)
axes.axvline(models["all rows"].order_.alarm / 100, color="tab:red", linestyle=":", label="alarm")
axes.set(xlabel="hundreds of rows", ylabel="slope")
axes.legend()
