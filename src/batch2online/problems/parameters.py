"""How many numbers a fitted model of any kind has found, relative to those of the loss of one row."""

from __future__ import annotations

from typing import Any

import numpy as np


def degrees_of(model: Any) -> float | None:
    """Return the degrees of freedom of a fitted scikit-learn model; None where nothing in it tells.

    Coefficients and the intercept of one output; clusters, components of a mixture or of a decomposition; leaves of a
    tree, on average over those of a forest.

    >>> from sklearn.linear_model import LinearRegression
    >>> degrees_of(LinearRegression().fit(np.eye(3), [1.0, 2.0, 3.0]))
    4.0
    """
    final = model.steps[-1][1] if hasattr(model, "steps") else model
    if hasattr(final, "coef_"):
        return float(np.shape(final.coef_)[-1] + 1)
    for name in ("cluster_centers_", "means_", "components_"):
        if hasattr(final, name):
            return float(len(getattr(final, name)))
    if hasattr(getattr(final, "tree_", None), "n_leaves"):  # not the tree of neighbours of a density
        return float(final.tree_.n_leaves)
    trees = [tree.tree_.n_leaves for tree in np.ravel(getattr(final, "estimators_", [])) if hasattr(tree, "tree_")]
    return float(np.mean(trees)) if trees else None
