"""
Algorithm 5: regression, with few changes
=========================================

As printed, a new sample is drawn before each row, and the model changes every time. With ``consistent=True`` each draw
is kept as often as its distribution allows: each step has the same distribution, and changes grow like a logarithm.
"""

import matplotlib.pyplot as plt
import numpy as np

from batch2online import OnlineRegression, evaluate, reference, refresh

rng = np.random.default_rng(0)
A = np.column_stack([np.ones(1_500), rng.uniform(-1, 1, size=(1_500, 2))])
b = A @ [1.0, 2.0, 3.0] + rng.uniform(-1, 1, size=1_500)

figure, axes = plt.subplots(figsize=(4.5, 3.1), layout="constrained")
for consistent in (False, True):
    models, losses = reference.online_regression(np.random.default_rng(1), A, b, 0.5, m=20, consistent=consistent)
    changes = np.cumsum([evaluate.changed(*models[t - 1 : t + 1]) for t in range(1, len(models))])
    axes.semilogx(changes, label=f"Algorithm 5, consistent={consistent}: loss {losses.sum():.0f}")

# %%
# One pass over the rows, with a new model whenever they have grown by a fifth, has fewer changes still.

model, counts = OnlineRegression(solve="coreset", epsilon=0.5, coreset_size=20, refresh=refresh.Geometric(1.2)), []
for row, target in zip(A[:, 1:], b, strict=True):
    counts.append(model.partial_fit(row[None], target[None]).n_changes_)
axes.semilogx(counts, label=f"OnlineRegression: loss {model.regret_.loss:.0f}")
axes.set(xlabel="rows n", ylabel="changes of the model")
axes.legend(frameon=False, fontsize=8)
