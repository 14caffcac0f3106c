"""
Comparison with River and scikit-learn
======================================

``evaluate.prequential`` runs any learner with ``partial_fit`` or ``learn_one`` on the same rows in the same order, and
measures losses and changes in the same way for all.
"""

import matplotlib.pyplot as plt
import numpy as np
from river import linear_model, preprocessing
from sklearn.linear_model import SGDRegressor

from batch2online import OnlineRegression, evaluate

rng = np.random.default_rng(5)
X = rng.normal(size=(3_000, 5))
y = X @ rng.normal(size=5) + rng.normal(size=3_000)

models = {
    "batch2online": OnlineRegression(random_state=0),
    "SGDRegressor": SGDRegressor(random_state=0),
    "River": preprocessing.StandardScaler() | linear_model.LinearRegression(),
}
result = evaluate.prequential(models, X, y, loss="squared", seeds=2, chunk=50)

figure, axes = plt.subplots(figsize=(4.5, 3.1), layout="constrained")
for row in result:
    axes.scatter(row.changes, row.ratio, color=f"C{list(models).index(row.model)}", label=row.model)
handles, labels = axes.get_legend_handles_labels()
unique = dict(zip(labels, handles, strict=True))
axes.legend(unique.values(), unique.keys())
axes.set(xlabel="changes of the model", ylabel="loss / hindsight")
