"""
A regression that keeps up with its stream
==========================================

Rows arrive a few at a time. After each chunk we ask what the stream has cost so far, and what the best single model
would have cost on the same rows.
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
# The loss comes close to that of hindsight, and the model has changed a handful of times.

figure, axes = plt.subplots(figsize=(6, 3))
axes.semilogx(rows, ratios)
for event in model.changes_:
    axes.axvline(event.at, color="tab:red", alpha=0.4, linewidth=1)
axes.set(xlabel="rows", ylabel="loss / best in hindsight", title=f"{model.n_changes_} changes of the model (red)")
axes.set_ylim(0.99, 1.2)
figure.tight_layout()

# %%
# Each change says why it was made.

for event in model.changes_[-3:]:
    print(event.reason)
