"""
Algorithm 2: a coreset by sensitivity sampling
==============================================

Rows are drawn in proportion to the largest share that they can have in the total loss. The weights make sums unbiased,
and their perturbation hides the change of a probability when a row is deleted.
"""

import matplotlib.pyplot as plt
import numpy as np

from batch2online import coresets, evaluate, reference

rng = np.random.default_rng(0)
A = rng.standard_t(3, size=(3_000, 2))
directions = rng.normal(size=(200, 2))
exact = np.square(A @ directions.T).sum(axis=0)


def largest_error(m):
    indices, weights = reference.coreset(rng, A, reference.leverage_scores, m=m, epsilon=0.1)
    return np.abs(np.square(A[indices] @ directions.T).T @ weights / exact - 1).max()


sizes = [25, 50, 100, 200, 400]
errors = [np.mean([largest_error(m) for _ in range(20)]) for m in sizes]
figure, axes = plt.subplots(figsize=(4.5, 3.1), layout="constrained")
axes.plot(sizes, errors, "o-", label="largest error of 200 models")
axes.plot(sizes, 1 / np.sqrt(sizes), "--", color="0.4", label=r"$1 / \sqrt{m}$")
axes.set(xlabel="draws m", ylabel="relative error of the cost", ylim=(0, None))
axes.legend(frameon=False)

# %%
# The coreset of this package follows the same scores in one pass. Its average sensitivity is below the bound.

sample = coresets.Leverage(epsilon=0.5, coreset_size=50)
found = evaluate.average_sensitivity(sample, A, trials=100)
print(f"{found.mean:.2f} measured, at most {sample.add(A).sensitivity(len(A)):.2f}")
