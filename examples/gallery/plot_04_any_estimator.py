"""
Any scikit-learn estimator, online
==================================

``BatchToOnline`` runs a batch algorithm a few times, on a small weighted sample of all rows seen. Here it is a gradient
boosting regressor, which has no ``partial_fit``.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import make_friedman1
from sklearn.ensemble import GradientBoostingRegressor

from batch2online import BatchToOnline
from batch2online.refresh import Geometric

X, y = make_friedman1(n_samples=8_000, noise=1.0, random_state=0)
model = BatchToOnline(
    GradientBoostingRegressor(n_estimators=50), refresh=Geometric(2.0, start=200), coreset_size=1_500, random_state=0
)
errors = []
for start in range(0, len(X), 250):
    chunk = slice(start, start + 250)
    if start:
        errors.append(np.mean(np.square(y[chunk] - model.predict(X[chunk]))))
    model.partial_fit(X[chunk], y[chunk])

figure, axes = plt.subplots(figsize=(4.5, 3.1), layout="constrained")
axes.plot(np.arange(1, len(errors) + 1) * 250, errors)
axes.axhline(1.0, linestyle=":", color="gray")
axes.set(xlabel="rows", ylabel="squared error", title=f"next chunk, {model.n_changes_ + 1} fits")
