"""
Algorithm 4: low-rank approximation
===================================

Rows are drawn by ridge leverage scores, and the model is spanned by the leading singular vectors of the sample. The
regret of the approximation falls with the size of the sample.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits

from batch2online import OnlineLowRank, reference

A = np.random.default_rng(0).permutation(load_digits().data / 16)
k, steps = 5, np.arange(100, 1_700, 100)


def cost(Z):
    return np.square(A - A @ Z @ Z.T).sum()


best = cost(np.linalg.svd(A, full_matrices=False)[2][:k].T)

# %%
# The loss of all rows under the model of each step, for three sizes, and in one pass.

figure, axes = plt.subplots(figsize=(4.5, 3.1), layout="constrained")
for m in (50, 200, 800):
    models, _ = reference.online_low_rank(np.random.default_rng(1), A, k, 0.1, m=m, steps=steps)
    axes.plot(steps, [cost(Z) / best for Z in models], label=f"m = {m}")
model = OnlineLowRank(k, solve="coreset", epsilon=0.1, random_state=0)
costs = [cost(model.partial_fit(A[start : start + 100]).components_.T) / best for start in steps - 100]
axes.plot(steps, costs, "k--", label=f"OnlineLowRank, {len(model.coreset_)} rows kept")
axes.set(xlabel="rows", ylabel="cost of all rows / best", ylim=(1, 1.35))
axes.legend(frameon=False, fontsize=8)
