"""The paper's three problems, each with our estimator, the paper's algorithm and a loss."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from batch2online import theory
from batch2online._types import FloatArray
from batch2online.evaluate.losses import ClusteringLoss, Loss, LowRankLoss, Squared
from batch2online.methods.clustering.estimator import OnlineClustering
from batch2online.methods.least_squares.estimator import OnlineRegression
from batch2online.methods.low_rank.estimator import OnlineLowRank
from batch2online.paper import reference

CONSTANT = 0.01
"""Takes the place of the hidden constant of the theory's sizes."""


def with_constant(X: FloatArray) -> FloatArray:
    return np.column_stack([np.ones(len(X)), X])


@dataclass(frozen=True)
class PaperProblem:
    """Regression, low rank or clustering in d columns, with k components or clusters and distances to the power z."""

    name: str
    d: int
    k: int = 0
    z: float = 2.0

    @property
    def title(self) -> str:
        if self.name == "regression":
            return "Regression"
        return f"Low rank, {self.k} components" if self.name == "low rank" else f"k-means, {self.k} clusters"

    @property
    def loss(self) -> Loss:
        if self.name == "regression":
            return Squared()
        return LowRankLoss(self.k) if self.name == "low rank" else ClusteringLoss(self.z, self.k)

    def size(self, epsilon: float, n: int) -> int:
        """Return the size of a coreset for n rows: ``CONSTANT p ln(p n / epsilon) / epsilon^2``.

        p is the number of columns of [1 | a | b], of components or of clusters.
        """
        return math.ceil(CONSTANT * theory.regression_size(self.k or self.d + 2, epsilon, n))

    def online(self, **settings: Any) -> Any:
        """Return our estimator."""
        if self.name == "regression":
            return OnlineRegression(**settings)
        if self.name == "low rank":
            return OnlineLowRank(self.k, **settings)
        return OnlineClustering(self.k, z=self.z, **settings)

    def papers_models(
        self, rng: np.random.Generator, X: FloatArray, y: FloatArray | None, epsilon: float, m: int, **settings: Any
    ) -> list[Any]:
        """Return the models of the paper's algorithm on coresets of m rows."""
        if self.name == "regression":
            return reference.online_regression(rng, with_constant(X), y, epsilon, m=m, **settings).models
        if self.name == "low rank":
            return reference.online_low_rank(rng, X, self.k, epsilon, m=m, **settings).models
        return reference.online_clustering(rng, X, self.k, epsilon, sizes=(2 * m, m), **settings).models

    def answer(self, model: Any, X: FloatArray) -> Any:
        """Return what the loss scores for a model of the paper's algorithm: predictions, a basis or centers."""
        if self.name == "regression":
            return with_constant(X) @ model
        return (model.T,) if self.name == "low rank" else model
