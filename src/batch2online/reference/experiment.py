"""The experiment of the paper's section 9: k-means with 3 and 5 clusters and regression, and low rank beside them.

Three accuracies, several seeds, the paper's algorithms (``reference``, errata repaired) and this package's estimators,
on the same streams against the same hindsight. A coreset holds ``p / epsilon`` rows, p the clusters, columns or rank:
the constants of the theory would keep every row of streams that the paper's quadratic algorithms can run through.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from threadpoolctl import threadpool_limits

from batch2online import datasets, reference
from batch2online._types import FloatArray
from batch2online.evaluate.loop import Arrivals, curve_of, run
from batch2online.evaluate.losses import ClusteringLoss, Loss, LowRankLoss, Squared
from batch2online.evaluate.metrics import changed
from batch2online.evaluate.progress import ProgressBar
from batch2online.evaluate.result import Curve
from batch2online.methods.clustering.estimator import OnlineClustering
from batch2online.methods.least_squares.estimator import OnlineRegression
from batch2online.methods.low_rank.estimator import OnlineLowRank

EPSILONS = (0.1, 0.01, 0.001)
OURS, PAPER = "batch2online", "the paper's algorithms"
WARMUP = 50
"""Rows at the start that are learned but not scored: with next to no data every algorithm guesses."""

_RANK = 5


@dataclass(frozen=True)
class PaperProblem:
    """One column of the figure: a loss, this package's estimator, and the paper's algorithm.

    Both are solved on coresets of the same size, so that both depend on epsilon.
    """

    title: str
    loss: Loss
    parameters: int
    estimator: Callable[..., Any]
    algorithm: Callable[..., reference.OnlineRun]

    def size(self, epsilon: float) -> int:
        return math.ceil(self.parameters / epsilon)

    def ours(self, stream: Arrivals, epsilon: float, seed: int) -> Curve:
        size = self.size(epsilon)
        model = self.estimator(solve="coreset", epsilon=epsilon, coreset_size=size, random_state=seed)
        return run(OURS, seed, model, self.loss, stream)[1]

    def papers(self, stream: Arrivals, epsilon: float, seed: int) -> Curve:
        """Each row under the model solved on all rows before it.

        A change is a model unlike the one before; as for ours, those that come after the warm-up are counted.
        """
        models, losses = self.algorithm(np.random.default_rng(seed), stream.X, stream.y, epsilon, self.size(epsilon))
        moves = np.array([False, False, *(changed(old, new) for old, new in pairwise(models[1:]))])
        moves[: stream.warmup + 1] = False
        return curve_of(PAPER, seed, stream, losses, np.cumsum(moves))


def k_means(k: int) -> PaperProblem:
    def estimator(**settings: Any) -> Any:
        return OnlineClustering(k, **settings)

    def algorithm(rng: np.random.Generator, X: FloatArray, y: Any, epsilon: float, size: int) -> reference.OnlineRun:
        return reference.online_clustering(rng, X, k, epsilon, sizes=(2 * size, size))

    return PaperProblem(f"k-means, {k} clusters", ClusteringLoss(n_clusters=k), k, estimator, algorithm)


def regression(columns: int) -> PaperProblem:
    def algorithm(rng: np.random.Generator, X: FloatArray, y: Any, epsilon: float, size: int) -> reference.OnlineRun:
        return reference.online_regression(rng, np.column_stack([np.ones(len(X)), X]), y, epsilon, m=size)

    return PaperProblem("Regression", Squared(), columns + 2, OnlineRegression, algorithm)


def low_rank(k: int = _RANK) -> PaperProblem:
    def estimator(**settings: Any) -> Any:
        return OnlineLowRank(k, **settings)

    def algorithm(rng: np.random.Generator, X: FloatArray, y: Any, epsilon: float, size: int) -> reference.OnlineRun:
        return reference.online_low_rank(rng, X, k, epsilon, m=size)

    return PaperProblem(f"Low rank, {k} components", LowRankLoss(k), k, estimator, algorithm)


@dataclass(frozen=True)
class Panel:
    """One problem on one set of rows."""

    data: str
    problem: PaperProblem
    X: FloatArray
    y: FloatArray | None

    def stream(self, seed: int, hindsight: FloatArray) -> Arrivals:
        order = np.random.default_rng(seed).permutation(len(self.X))
        targets = None if self.y is None else self.y[order]
        return Arrivals(self.X[order], targets, hindsight[order], chunk=1, warmup=WARMUP)


def panels(rows: int) -> list[Panel]:
    """Synthetic and real rows, up to this many, for each problem."""
    digits, (diabetes, targets) = datasets.load_rows("digits")[:rows], datasets.load_regression("diabetes")
    blobs, linear, spiked = synthetic_blobs(rows), synthetic_linear(rows), synthetic_spiked(rows)
    return [
        Panel("synthetic", k_means(3), blobs, None),
        Panel("synthetic", k_means(5), blobs, None),
        Panel("synthetic", regression(linear[0].shape[1]), *linear),
        Panel("synthetic", low_rank(), spiked, None),
        Panel("digits", k_means(3), digits, None),
        Panel("digits", k_means(5), digits, None),
        Panel("diabetes", regression(diabetes.shape[1]), diabetes[:rows], targets[:rows]),
        Panel("digits", low_rank(), digits, None),
    ]


def synthetic_blobs(n: int, seed: int = 0) -> FloatArray:
    """Return a mixture of five Gaussians in the plane, of unequal weight and overlapping."""
    rng = np.random.default_rng(seed)
    centers = 4.0 * rng.normal(size=(5, 2))
    return np.asarray(centers[rng.choice(5, size=n, p=[0.35, 0.25, 0.2, 0.15, 0.05])] + rng.normal(size=(n, 2)))


def synthetic_linear(n: int, seed: int = 0) -> tuple[FloatArray, FloatArray]:
    """Ten Gaussian columns, a linear target with noise as large as the signal."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 10))
    return X, np.asarray(X @ rng.normal(size=10) + np.sqrt(10) * rng.normal(size=n))


def synthetic_spiked(n: int, seed: int = 0) -> FloatArray:
    """Forty columns: five directions of variance 9 to 1 in a random basis, and noise of variance 0.25."""
    rng = np.random.default_rng(seed)
    basis = np.linalg.qr(rng.normal(size=(40, _RANK)))[0]
    return np.asarray((rng.normal(size=(n, _RANK)) * np.linspace(3, 1, _RANK)) @ basis.T + rng.normal(size=(n, 40)) / 2)


@dataclass(frozen=True)
class Line:
    """A line of a panel: one algorithm at one accuracy, a curve for each seed."""

    panel: Panel
    algorithm: str
    epsilon: float
    curves: tuple[Curve, ...]

    def summary(self, quantity: str) -> tuple[FloatArray, FloatArray]:
        """Mean and standard deviation over seeds."""
        values = np.array([getattr(curve, quantity) for curve in self.curves], dtype=np.float64)
        return values.mean(axis=0), values.std(axis=0, ddof=1 if len(values) > 1 else 0)


def paper_experiment(
    rows: int, seeds: Iterable[int], epsilons: Iterable[float] = EPSILONS, jobs: int = 1, progress: bool = False
) -> list[Line]:
    """All lines of the figure; the runs are spread over processes."""
    seeds, lines = list(seeds), []
    for panel in panels(rows):
        with threadpool_limits(1):
            hindsight = panel.problem.loss.hindsight(panel.X, panel.y)
        lines += [(panel, hindsight, name, epsilon) for epsilon in epsilons for name in (OURS, PAPER)]
    tasks = [delayed(_curve)(*line, seed) for line in lines for seed in seeds]
    finished = Parallel(n_jobs=jobs, return_as="generator")(tasks)
    curves = list(ProgressBar(finished, len(tasks), "paper figure") if progress else finished)
    return [
        Line(panel, name, epsilon, tuple(curves[i * len(seeds) : (i + 1) * len(seeds)]))
        for i, (panel, _, name, epsilon) in enumerate(lines)
    ]


def _curve(panel: Panel, hindsight: FloatArray, name: str, epsilon: float, seed: int) -> Curve:
    stream, problem = panel.stream(seed, hindsight), panel.problem
    with threadpool_limits(1):
        return problem.ours(stream, epsilon, seed) if name == OURS else problem.papers(stream, epsilon, seed)
