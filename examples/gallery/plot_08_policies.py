"""
Refresh policies
================

A refresh policy determines the row counts at which the batch algorithm may run. More frequent checks cost refits and
changes, with diminishing returns.
"""

import matplotlib.pyplot as plt
from sklearn.datasets import make_regression
from sklearn.utils import shuffle

from batch2online import OnlineRegression, refresh

X, y = shuffle(*make_regression(6_000, 12, noise=60, random_state=0), random_state=1)
policies = {
    "doubling": refresh.Geometric(2.0),
    "every tenth": refresh.Geometric(1.1),
    "adaptive": refresh.Adaptive(growth=1.2),
    "adaptive, 5 %": refresh.Adaptive(growth=1.2, floor=0.05),
}

figure, axes = plt.subplots(figsize=(4.5, 3.1), layout="constrained")
for name, policy in policies.items():
    model = OnlineRegression(refresh=policy, random_state=0)
    for start in range(0, len(X), 500):
        model.partial_fit(X[start : start + 500], y[start : start + 500])
    axes.scatter(model.n_changes_, model.regret_.ratio, label=name)
axes.set(xlabel="changes of the model", ylabel="loss / hindsight")
axes.legend()
