"""
Forgetting rows
===============

A sensor was broken for a while. With ``keep_history=True`` you can remove its rows: models, changes and regret are then
those of a stream without them.
"""

import matplotlib.pyplot as plt
import numpy as np

from batch2online import OnlineRegression

rng = np.random.default_rng(3)
X = rng.uniform(0, 10, size=(3_000, 1))
y = 2 * X[:, 0] + rng.normal(size=3_000)
broken = np.arange(1_000, 1_300)
y[broken] = 40 - 3 * X[broken, 0]

model = OnlineRegression(keep_history=True, random_state=0).fit(X, y)
before = model.predict([[0.0], [10.0]])
after = model.forget(broken).predict([[0.0], [10.0]])

clean = np.setdiff1d(np.arange(3_000), broken)
figure, axes = plt.subplots(figsize=(4.5, 3.1), layout="constrained")
axes.scatter(X[clean, 0], y[clean], s=2, color="lightgray")
axes.scatter(X[broken, 0], y[broken], s=2, color="tab:red", label="broken sensor")
axes.plot([0, 10], before, "--", label="before forgetting")
axes.plot([0, 10], after, label="after")
axes.legend()

# %%

print(model.changes_[-1].reason if model.changes_ else "no change", "|", f"{model.n_seen_} rows")
