"""
Regression on a stream
======================

Rows arrive in chunks. After each chunk we compare the loss of the stream so far with that of the best single model on
the same rows.
"""

import matplotlib.pyplot as plt
import numpy as np

from batch2online import OnlineRegression

rng = np.random.default_rng(0)
X = rng.normal(size=(20_000, 8))
y = X @ rng.normal(size=8) + rng.normal(size=20_000)

model = OnlineRegression(random_state=0)
rows, ratios = [], []
for start in range(0, len(X), 250):
    model.partial_fit(X[start : start + 250], y[start : start + 250])
    rows.append(model.n_seen_)
    ratios.append(model.regret_.ratio)

# %%
# The loss approaches that of the best model in hindsight, and the model changes a handful of times.

figure, axes = plt.subplots(figsize=(4.5, 3.1), layout="constrained")
axes.semilogx(rows, ratios)
for event in model.changes_:
    axes.axvline(event.at, color="tab:red", alpha=0.4, linewidth=1)
axes.set(xlabel="rows", ylabel="loss / hindsight", title=f"{model.n_changes_} changes of the model (red)")
axes.set_ylim(0.99, 1.2)

# %%
# Each change reports its reason.

for event in model.changes_[-3:]:
    print(event.reason)
