"""The experiment of the paper's section 9: k-means with 3 and 5 clusters and regression, and low rank beside them.

Three accuracies, several seeds, the paper's algorithms (``reference``, errata repaired) and this package's estimators,
on the same streams against the same hindsight. A coreset has the size of the theory's form,
``p ln(p n / epsilon) / epsilon^2`` with p the clusters, columns or rank, times a hundredth: with it three accuracies
give three sizes on streams that the paper's algorithms can run through. Both are fitted whenever the rows have grown by
a tenth: at every row, the paper's algorithms take quadratic time.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise, starmap
from pathlib import Path
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from threadpoolctl import threadpool_limits

from batch2online import datasets, theory
from batch2online._types import FloatArray, IntArray
from batch2online.evaluate.loop import Arrivals, fed
from batch2online.evaluate.losses import ClusteringLoss, Loss, LowRankLoss, Squared
from batch2online.evaluate.prequential import ProgressBar
from batch2online.evaluate.result import COLOURS, Curve, draw_curve, pyplot
from batch2online.methods.clustering.estimator import OnlineClustering
from batch2online.methods.least_squares.estimator import OnlineRegression
from batch2online.methods.low_rank.estimator import OnlineLowRank
from batch2online.paper import reference
from batch2online.refresh import Geometric

EPSILONS = (0.1, 0.01, 0.001)
OURS, PAPER = "batch2online", "the paper's algorithms"
WARMUP = 50
"""Rows at the start that are learned but not scored: with next to no data every algorithm guesses."""
CONSTANT = 0.01
"""Takes the place of the hidden constant of the theory's sizes."""
GROWTH = 1.1
"""Models are fitted whenever the rows have grown by this factor."""

_RANK = 5


@dataclass(frozen=True)
class PaperProblem:
    """One column of the figure: a loss, this package's estimator, and the paper's algorithm.

    Both are solved on coresets of the same size, so that both depend on epsilon. ``answer`` gives what the loss scores
    for a model of the paper's algorithm and some rows: predictions, centers or components.
    """

    title: str
    loss: Loss
    parameters: int
    estimator: Callable[..., Any]
    algorithm: Callable[..., reference.OnlineRun]
    answer: Callable[[Any, FloatArray], Any]

    def size(self, epsilon: float, n: int) -> int:
        return math.ceil(CONSTANT * theory.regression_size(self.parameters, epsilon, n))

    def ours(self, stream: Arrivals, epsilon: float, seed: int) -> Curve:
        """Losses as the estimator counts them, which do not depend on chunks."""
        size = self.size(epsilon, len(stream.X))
        settings = {"epsilon": epsilon, "coreset_size": size, "refresh": Geometric(GROWTH), "random_state": seed}
        model = self.estimator(solve="coreset", **settings)
        ends = np.append(stream.warmup, points(len(stream.X)))
        after = [(now.regret_.loss, now.n_changes_) for now in fed(model, stream.X, stream.y, ends)]
        loss, changes = (np.array(values) - values[0] for values in zip(*after, strict=True))
        best = np.cumsum(stream.hindsight)[ends - 1]
        return Curve(OURS, seed, ends[1:], loss[1:], best[1:] - best[0], changes[1:])

    def papers(self, stream: Arrivals, epsilon: float, seed: int) -> Curve:
        """Rows under the model that was last solved on all rows before them; every model is a change."""
        n = len(stream.X)
        fits = [*theory.refresh_times(n, stream.warmup, GROWTH)]
        models, _ = self.algorithm(
            np.random.default_rng(seed), stream.X, stream.y, epsilon, self.size(epsilon, n), [at + 1 for at in fits]
        )
        losses, changes = np.zeros(n), np.zeros(n, dtype=np.int64)
        for number, (model, rows) in enumerate(zip(models, starmap(slice, pairwise([*fits, n])), strict=True)):
            X, y = stream.X[rows], None if stream.y is None else stream.y[rows]
            losses[rows], changes[rows] = self.loss.losses(self.answer(model, X), X, y), number
        at = points(n)
        loss, best = (
            np.cumsum(values[stream.warmup :])[at - stream.warmup - 1] for values in (losses, stream.hindsight)
        )
        return Curve(PAPER, seed, at, loss, best, changes[at - 1])


def points(n: int) -> IntArray:
    """Return the row counts of a curve: fifty after the warm-up, evenly spread by logarithm."""
    return np.unique(np.geomspace(WARMUP + 1, n, 50).round().astype(np.int64))


def k_means(k: int) -> PaperProblem:
    def estimator(**settings: Any) -> Any:
        return OnlineClustering(k, **settings)

    def algorithm(
        rng: np.random.Generator, X: FloatArray, y: Any, epsilon: float, size: int, steps: list[int]
    ) -> reference.OnlineRun:
        return reference.online_clustering(rng, X, k, epsilon, sizes=(2 * size, size), steps=steps)

    loss = ClusteringLoss(n_clusters=k)
    return PaperProblem(f"k-means, {k} clusters", loss, k, estimator, algorithm, lambda centers, X: centers)


def regression(columns: int) -> PaperProblem:
    def algorithm(
        rng: np.random.Generator, X: FloatArray, y: Any, epsilon: float, size: int, steps: list[int]
    ) -> reference.OnlineRun:
        return reference.online_regression(rng, with_constant(X), y, epsilon, m=size, steps=steps)

    def answer(coefficients: FloatArray, X: FloatArray) -> FloatArray:
        return np.asarray(with_constant(X) @ coefficients)

    return PaperProblem("Regression", Squared(), columns + 2, OnlineRegression, algorithm, answer)


def with_constant(X: FloatArray) -> FloatArray:
    return np.column_stack([np.ones(len(X)), X])


def low_rank(k: int = _RANK) -> PaperProblem:
    def estimator(**settings: Any) -> Any:
        return OnlineLowRank(k, **settings)

    def algorithm(
        rng: np.random.Generator, X: FloatArray, y: Any, epsilon: float, size: int, steps: list[int]
    ) -> reference.OnlineRun:
        return reference.online_low_rank(rng, X, k, epsilon, m=size, steps=steps)

    title = f"Low rank, {k} components"
    return PaperProblem(title, LowRankLoss(k), k, estimator, algorithm, lambda Z, X: (Z.T,))


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


def panels(rows: int, real: bool = True) -> list[Panel]:
    """Synthetic and real rows, up to this many, for each problem."""
    blobs, linear, spiked = synthetic_blobs(rows), synthetic_linear(rows), synthetic_spiked(rows)
    synthetic = [
        Panel("synthetic", k_means(3), blobs, None),
        Panel("synthetic", k_means(5), blobs, None),
        Panel("synthetic", regression(linear[0].shape[1]), *linear),
        Panel("synthetic", low_rank(), spiked, None),
    ]
    return synthetic + (real_panels(rows) if real else [])


def real_panels(rows: int) -> list[Panel]:
    """Return the pixels of a picture, wages and letters; some of their rows if there are more."""
    pixels, letters, (X, y) = (
        datasets.load_rows("china_pixels"),
        datasets.load_rows("letter"),
        datasets.load_regression("cps1988"),
    )
    some = {len(data): np.random.default_rng(0).permutation(len(data))[:rows] for data in (pixels, letters, X)}
    return [
        Panel("pixels", k_means(3), pixels[some[len(pixels)]], None),
        Panel("pixels", k_means(5), pixels[some[len(pixels)]], None),
        Panel("wages", regression(X.shape[1]), X[some[len(X)]], y[some[len(X)]]),
        Panel("letters", low_rank(), letters[some[len(letters)]], None),
    ]


def synthetic_blobs(n: int, seed: int = 0) -> FloatArray:
    """Return a mixture of five Gaussians in the plane, of unequal weight and overlapping."""
    rng = np.random.default_rng(seed)
    centers = 4.0 * rng.normal(size=(5, 2))
    return np.asarray(centers[rng.choice(5, size=n, p=[0.35, 0.25, 0.2, 0.15, 0.05])] + rng.normal(size=(n, 2)))


def synthetic_linear(n: int, seed: int = 0) -> tuple[FloatArray, FloatArray]:
    """Three Gaussian columns, a linear target with noise as large as the signal."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    return X, np.asarray(X @ rng.normal(size=3) + np.sqrt(3) * rng.normal(size=n))


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
    rows: int,
    seeds: Iterable[int],
    epsilons: Iterable[float] = EPSILONS,
    jobs: int = 1,
    progress: bool = False,
    real: bool = True,
) -> list[Line]:
    """All lines of the figure; the runs are spread over processes."""
    seeds, lines = list(seeds), []
    for panel in panels(rows, real):
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


QUICK_ROWS, FULL_ROWS = 10_000, 100_000
_WIDTHS = (1.2, 2.2, 3.4)
_STYLES: dict[str, Any] = {OURS: "-", PAPER: (0, (4, 2))}


@dataclass(frozen=True)
class PaperFigure:
    """The files written, and the last point of each line as a table."""

    png: Path
    svg: Path
    csv: Path
    table: list[dict[str, Any]]


def paper_figure(
    folder: str | Path = ".",
    *,
    quick: bool = True,
    rows: int | None = None,
    seeds: int | Iterable[int] = 5,
    epsilons: Sequence[float] = EPSILONS,
    jobs: int = -1,
    progress: bool = False,
) -> PaperFigure:
    """Run the paper's experiment and draw it; needs matplotlib.

    Loss relative to the best model in hindsight (k-means++ with restarts on all rows; least squares; singular
    vectors) and regret, for three accuracies, with the paper's algorithms and with ours. Means over seeds, one
    standard deviation shaded.

    Parameters
    ----------
    folder : path
        Where ``paper_figure.png``, ``.svg`` and ``.csv`` are written.
    quick : bool
        Synthetic streams of 10,000 rows, in a minute; otherwise real data as well, and up to 100,000 rows.
    rows : int or None
        Another number of rows.
    seeds : int or iterable of int
        How many streams, or their seeds.
    epsilons : sequence of float
        Accuracies.
    jobs : int
        Processes; -1 is one for each core.
    progress : bool
        Show a bar on standard error.
    """
    pyplot()  # fail before the work if it cannot be drawn
    count = rows or (QUICK_ROWS if quick else FULL_ROWS)
    chosen = range(seeds) if isinstance(seeds, int) else seeds
    lines = paper_experiment(count, chosen, epsilons, jobs, progress, real=not quick)
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    png, svg, table = (folder / f"paper_figure.{suffix}" for suffix in ("png", "svg", "csv"))
    _draw(lines, [png, svg])
    _write(lines, table)
    return PaperFigure(png, svg, table, [_last(line) for line in lines])


def _draw(lines: list[Line], files: list[Path]) -> None:
    """Draw a line of panels for each problem: ratio and regret on synthetic rows, and on real ones."""
    plt = pyplot()
    titles = list(dict.fromkeys(line.panel.problem.title for line in lines))
    kinds = sorted({line.panel.data != "synthetic" for line in lines})
    with plt.rc_context({"font.size": 9, "axes.spines.top": False, "axes.spines.right": False, "svg.hashsalt": "b2o"}):
        figure, axes = plt.subplots(
            len(titles), 2 * len(kinds), figsize=(5.6 * len(kinds), 2.0 * len(titles) + 0.7), layout="constrained"
        )
        for row, title in zip(axes, titles, strict=True):
            for is_real in kinds:
                own = [
                    line
                    for line in lines
                    if line.panel.problem.title == title and (line.panel.data != "synthetic") == is_real
                ]
                _ratios(row[2 * kinds.index(is_real)], own, f"{title}, {own[0].panel.data}")
                _regrets(row[2 * kinds.index(is_real) + 1], own)
        for each in axes[-1]:
            each.set_xlabel("rows n")
        handles = _handles(plt, lines)
        figure.legend(handles=handles, loc="outside lower center", ncols=3 * len(kinds), frameon=False)
        for file in files:
            figure.savefig(file, dpi=160)
        plt.close(figure)


def _ratios(axes: Any, lines: list[Line], title: str) -> None:
    _curves(axes, lines, "ratio", title)
    axes.axhline(1.0, color="0.4", linewidth=0.8, zorder=0)
    ends = [line.summary("ratio")[0][-1] for line in lines]
    axes.set(xscale="log", ylim=(0.95, 1 + 3 * max(0.05, max(ends) - 1)), ylabel="loss / hindsight")


def _regrets(axes: Any, lines: list[Line]) -> None:
    _curves(axes, lines, "regret", "regret")
    largest = max(line.summary("regret")[0].max() for line in lines)
    axes.set(xscale="log", yscale="log", ylim=(largest / 1000, 2 * largest))


def _curves(axes: Any, lines: list[Line], quantity: str, title: str) -> None:
    styles = _styles(lines)
    for line in reversed(lines):
        draw_curve(
            axes, line.curves[0].at, *line.summary(quantity), linestyle=_STYLES[line.algorithm], **styles[line.epsilon]
        )
    axes.set_title(title, fontsize=9)
    axes.margins(x=0)


def _styles(lines: list[Line]) -> dict[float, dict[str, Any]]:
    """Return a colour for each accuracy; the finer, the wider, so that lines that coincide can be seen."""
    epsilons = dict.fromkeys(line.epsilon for line in lines)
    styles = [{"color": colour, "linewidth": width} for colour, width in zip(COLOURS, _WIDTHS * 3, strict=False)]
    return dict(zip(epsilons, styles, strict=False))


def _handles(plt: Any, lines: list[Line]) -> list[Any]:
    line_of = plt.Line2D
    handles = [
        line_of([], [], label=rf"$\epsilon = {epsilon:g}$", **style) for epsilon, style in _styles(lines).items()
    ]
    return handles + [line_of([], [], color="0.3", linestyle=style, label=name) for name, style in _STYLES.items()]


def _write(lines: list[Line], path: Path) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, _last(lines[0]).keys())
        writer.writeheader()
        for line in lines:
            writer.writerows(_point(line, i) for i in range(len(line.curves[0].at)))


def _last(line: Line) -> dict[str, Any]:
    return _point(line, -1)


def _point(line: Line, i: int) -> dict[str, Any]:
    point = {
        "data": line.panel.data,
        "problem": line.panel.problem.title,
        "algorithm": line.algorithm,
        "epsilon": line.epsilon,
        "rows": int(line.curves[0].at[i]),
    }
    for quantity in ("ratio", "regret", "changes"):
        mean, deviation = line.summary(quantity)
        point |= {quantity: float(mean[i]), f"{quantity}_std": float(deviation[i])}
    return point
