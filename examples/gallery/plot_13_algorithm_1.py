"""
Algorithm 1: from batch to online
=================================

The paper's transformation runs a batch algorithm on all rows so far before each row. In random order, the loss of the
next row is that of an earlier row if the algorithm hardly depends on single rows, so the regret grows like a logarithm.
"""

import matplotlib.pyplot as plt
import numpy as np

from batch2online import reference

rng = np.random.default_rng(0)
x = rng.uniform(0, 1, size=2_000)


def mean(rng, rows):
    return rows.mean()


def squared(theta, row):
    return (row - theta) ** 2


models, losses = reference.batch_to_online(rng, mean, squared, x, initial=0.5)

# %%
# The mean of t rows has an average sensitivity of one, yet its losses are stable: each row moves it by 1/t.

n = np.arange(1, len(x) + 1)
optimum = np.cumsum(x**2) - np.cumsum(x) ** 2 / n
figure, axes = plt.subplots(figsize=(4.5, 3.1), layout="constrained")
axes.semilogx(n, np.cumsum(losses) - optimum, label="regret")
axes.semilogx(n, x.var() * np.log(n), "--", color="0.4", label="variance of a row times log n")
axes.set(xlabel="rows n", ylabel="regret")
axes.legend(frameon=False)
